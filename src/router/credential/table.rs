//! `credentials.json`: which credentials the session has, and their values.

use super::{Body, Clock, Field, Head, Refusal, Settled, Tokens};
use crate::policy::{HostName, Reason};
use crate::router::clear::Replacer;

/// The credentials of one session. Holds values: it is never shown, logged or written.
pub struct Table {}

impl Table {
    /// Reads `/run/sandboxc/credentials.json`. The error never quotes the file.
    pub fn read(_json: &[u8]) -> Result<Self, String> {
        Err("credentials.json cannot be read yet".to_owned())
    }

    /// For a session without credentials.
    pub fn empty() -> Self {
        Self {}
    }

    /// Settles a request on port 443 to an inspected host.
    pub fn settle(&self, _head: &Head<'_>, _body: Option<&Body<'_>>, _tokens: &dyn Tokens, _clock: Clock) -> Settled {
        let reason = Reason::CredentialUnavailable;
        Settled::Refuse(Refusal { reason, credential: String::new(), said: String::new() })
    }

    /// The refusal of a request that carries a surrogate where no credential has any business: on port 80.
    pub fn leak(&self, _target: &[u8], _headers: &[Field]) -> Option<Refusal> {
        let reason = Reason::CredentialUnavailable;
        Some(Refusal { reason, credential: String::new(), said: String::new() })
    }

    /// What answers of a host must be cleared of that is not of one request: for upgraded connections, refused requests
    /// and trailers. `None` if of nothing.
    pub fn replacer(&self, _host: &HostName, _tokens: &dyn Tokens) -> Option<Replacer> {
        None
    }
}
