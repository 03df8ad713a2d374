//! What a request does with credentials: surrogates become real values where a credential's scope holds, and stand
//! nowhere else.
//!
//! No socket is here, and no clock but that of the tokens that are renewed. The caller reads what is asked for and sends what
//! is said. What is not understood is refused, never passed on.

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

pub use self::table::Table;
pub use self::tokens::{Api, ApiAnswer, ApiRequest, Minter, NoTokens, Tokens};
use super::clear::Replacer;
use super::graphql::Document;
pub use crate::policy::STEERING;
use crate::policy::{HostName, Reason};

/// Bytes of a body that are read whole to settle a request.
pub const BODY_LIMIT: usize = 1 << 20;

/// A header field as it came: its name in the case that it was sent in, and its value without surrounding blanks.
pub type Field = (Vec<u8>, Vec<u8>);

/// A request's head, once [`Policy::decide_request`] has allowed it.
///
/// [`Policy::decide_request`]: crate::policy::Policy::decide_request
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// The method, as it came.
    pub method: &'a str,
    /// The host that the connection is for; SNI, Host and `:authority` have been compared.
    pub host: &'a HostName,
    /// The request target in origin form, as it came.
    pub target: &'a [u8],
    /// Header fields in their order, hop-by-hop fields included.
    pub headers: &'a [Field],
}

/// A body that was read whole.
#[derive(Clone, Copy, Debug)]
pub struct Body<'a> {
    /// The bytes that will go up.
    pub bytes: &'a [u8],
    /// The router wrote them ([`Document::forward`]), so they are not what the client sent.
    pub rewritten: bool,
    /// What they are, where they were read as GraphQL.
    pub graphql: Option<&'a Document>,
}

/// Now, and the end of the session.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// The time of the request.
    pub now: SystemTime,
    /// When the session ends at the latest, if that is known. Nothing is signed for longer.
    pub ends: Option<SystemTime>,
}

/// What becomes of a request.
#[derive(Clone, Debug)]
pub enum Settled {
    /// It goes up, changed like this.
    Pass(Pass),
    /// Call again with the body, which is at most [`BODY_LIMIT`] bytes long; a longer one is
    /// [`Reason::BodyTooLarge`]. With `graphql` the body must be one GraphQL request ([`graphql::read`]) and goes up as
    /// [`Document::forward`]; one that is not is [`Reason::BadBody`].
    ///
    /// [`graphql::read`]: super::graphql::read
    NeedsBody {
        /// The credential that waits for it, for the log.
        credential: String,
        /// It is read as GraphQL.
        graphql: bool,
    },
    /// It is refused: 502 for [`Reason::CredentialUnavailable`], else 403.
    Refuse(Refusal),
}

/// How a request goes up.
#[derive(Clone, Debug, Default)]
pub struct Pass {
    /// Fields that take the place of those of the same name, which is lower case.
    pub set: Vec<Field>,
    /// Lower-case names of fields that do not go up.
    pub remove: Vec<Vec<u8>>,
    /// The target to send instead of the one that came.
    pub target: Option<Vec<u8>>,
    /// Names of the credentials that were put in, for the log and for the pool of upstream connections.
    pub used: Vec<String>,
    /// What the answer must be cleared of, `None` if of nothing.
    pub clear: Option<Replacer>,
    /// The request has the host read `GET https://HOST/PATH` as well (S3's copies), so that must be allowed too:
    /// [`Policy::decide_request`] of it must allow, or this request is refused as that one would be.
    ///
    /// [`Policy::decide_request`]: crate::policy::Policy::decide_request
    pub reads: Option<(HostName, String)>,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The code.
    pub reason: Reason,
    /// The credential that it is about; empty if none can be named.
    pub credential: String,
    /// More than the reason's own hint says; empty if there is nothing more to say.
    pub said: String,
}

/// The name of [`STEERING`] that a header's is.
pub fn steering(name: &[u8]) -> Option<&'static str> {
    STEERING.into_iter().find(|steering| same_name(name, steering.as_bytes()))
}

/// True if two names of headers are one to servers that make variables of them (CGI): case does not count, and `_` is `-`.
pub fn same_name(left: &[u8], right: &[u8]) -> bool {
    let plain = |byte: &u8| if *byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    left.len() == right.len() && left.iter().map(plain).eq(right.iter().map(plain))
}

#[cfg(test)]
mod tests;
