//! What a request does with credentials: the router replaces surrogates with real values inside a credential's scope,
//! and refuses them everywhere else.
//!
//! There are no sockets here, and no clock except for renewing tokens. The caller reads the body if asked to, and sends
//! the result. What cannot be parsed is refused, never passed on.

mod date;
pub mod forms;
mod github;
mod jwt;
mod settle;
mod sigv4;
mod surrogate;
mod table;
mod tokens;

use std::time::SystemTime;

pub use self::surrogate::is_user_alone;
pub use self::table::Table;
pub use self::tokens::{Api, ApiAnswer, ApiRequest, Minter, NoTokens, Tokens};
use super::clear::Replacer;
use super::graphql::Document;
use super::message::{Field, same_name};
pub use crate::policy::STEERING;
use crate::policy::{HostName, Reason};

/// How many bytes of a body are read to decide about a request.
pub const BODY_LIMIT: usize = 1 << 20;

/// A request's head that [`Policy::decide_request`] has allowed.
///
/// [`Policy::decide_request`]: crate::policy::Policy::decide_request
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    /// The method, as received.
    pub method: &'a str,
    /// The host of the connection. SNI, Host and `:authority` have been compared.
    pub host: &'a HostName,
    /// The request target in origin form, as received.
    pub target: &'a [u8],
    /// The header fields in order, including hop-by-hop fields.
    pub headers: &'a [Field],
}

/// A body that was read completely.
#[derive(Clone, Copy, Debug)]
pub struct Body<'a> {
    /// The bytes to forward.
    pub bytes: &'a [u8],
    /// Whether the router wrote them ([`Document::forward`]), so that they are not what the client sent.
    pub rewritten: bool,
    /// Their content, if they were parsed as GraphQL.
    pub graphql: Option<&'a Document>,
}

/// The current time, and the end of the session.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// The time of the request.
    pub now: SystemTime,
    /// The latest end of the session, if known. No signature is valid for longer.
    pub ends: Option<SystemTime>,
}

/// What to do with a request.
#[derive(Clone, Debug)]
pub enum Settled {
    /// Forward it with these changes.
    Pass(Pass),
    /// Call again with the body, which has at most [`BODY_LIMIT`] bytes; a longer one is [`Reason::BodyTooLarge`]. With
    /// `graphql`, the body must be one GraphQL request ([`graphql::read`]) and is forwarded as [`Document::forward`];
    /// otherwise it is [`Reason::BadBody`].
    ///
    /// [`graphql::read`]: super::graphql::read
    NeedsBody {
        /// The credential that needs the body, for the log.
        credential: String,
        /// Whether it is parsed as GraphQL.
        graphql: bool,
    },
    /// Refuse it: with 502 for [`Reason::CredentialUnavailable`], otherwise 403.
    Refuse(CredentialRefusal),
}

/// How a request is forwarded.
#[derive(Clone, Debug, Default)]
pub struct Pass {
    /// Fields that replace those with the same name, which is in lower case.
    pub set: Vec<Field>,
    /// Lower-case names of fields that are not forwarded.
    pub remove: Vec<Vec<u8>>,
    /// The target to send instead of the received one.
    pub target: Option<Vec<u8>>,
    /// The names of the credentials that were inserted, for the log and for the pool of upstream connections.
    pub used: Vec<String>,
    /// What the response must be cleared of; `None` if nothing.
    pub clear: Option<Replacer>,
    /// With this request, the host also reads `GET https://HOST/PATH` (S3's copies). [`Policy::decide_request`] must
    /// allow that, too; otherwise the request is refused for the same reason.
    ///
    /// [`Policy::decide_request`]: crate::policy::Policy::decide_request
    pub reads: Option<(HostName, String)>,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialRefusal {
    /// The code.
    pub reason: Reason,
    /// The credential that it is about; empty if unknown.
    pub credential: String,
    /// A more specific hint than the reason's own; empty if there is none.
    pub said: String,
}

/// The name in [`STEERING`] that a header corresponds to.
pub fn steering(name: &[u8]) -> Option<&'static str> {
    STEERING.into_iter().find(|steering| same_name(name, steering.as_bytes()))
}

#[cfg(test)]
mod tests;
