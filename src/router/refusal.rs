//! Refusals. The body has the same reason and rule as the log, and says what the reader can do.

use serde::Serialize;

use super::git::GitRefusal;
use super::log::start;
use crate::policy::{Reason, RuleId};

#[derive(Serialize)]
struct Body<'a> {
    error: &'a str,
    reason: &'static str,
    rule: Option<&'a RuleId>,
    host: &'a str,
    method: &'a str,
    path: &'a str,
    hint: &'a str,
}

/// Why a request is not forwarded.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub(super) reason: Reason,
    pub(super) status: u16,
    pub(super) said: String,
    /// The credential that it is about.
    pub(super) credential: String,
    /// What the client gets in place of JSON.
    pub(super) refused: Option<GitRefusal>,
}

impl Refusal {
    pub(super) fn new(reason: Reason) -> Self {
        let status = match reason {
            Reason::Misdirected => 421,
            Reason::BodyTooLarge => 413,
            Reason::RouterFull => 503,
            Reason::UpstreamTimeout => 504,
            Reason::AddressRefused
            | Reason::NoAddress
            | Reason::Ipv6Only
            | Reason::ResolverFailed
            | Reason::UpstreamFailed
            | Reason::UpstreamUntrusted
            | Reason::UpstreamMalformed
            | Reason::UpstreamHeadTooLarge
            | Reason::UpstreamUnreadable
            | Reason::CredentialUnavailable => 502,
            _ => 403,
        };
        Self { reason, status, said: String::new(), credential: String::new(), refused: None }
    }

    pub(super) fn bad_request(status: u16) -> Self {
        Self { status, ..Self::new(Reason::BadRequest) }
    }

    pub(super) fn says(self, said: String) -> Self {
        Self { said, ..self }
    }
}

/// What a refusal is about.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// Why.
    pub reason: Reason,
    /// The rule that decided.
    pub rule: Option<&'a RuleId>,
    /// The host, as in the log.
    pub host: &'a [u8],
    /// The method.
    pub method: &'a [u8],
    /// The target.
    pub target: &'a [u8],
    /// A hint instead of the reason's own; empty if there is none.
    pub said: &'a str,
}

/// A JSON object and a line feed.
pub fn json(about: &About<'_>) -> Vec<u8> {
    let host = if about.host.iter().all(|b| (b' '..=b'~').contains(b)) { about.host } else { &[] };
    let body = Body {
        error: about.reason.text(),
        reason: about.reason.code(),
        rule: about.rule,
        host: std::str::from_utf8(host.get(..host.len().min(255)).unwrap_or_default()).unwrap_or(""),
        method: start(about.method, 32, |_| true),
        path: start(about.target, 1024, |b| b != b'?'),
        hint: if about.said.is_empty() { about.reason.hint() } else { about.said },
    };
    let mut text = serde_json::to_vec(&body).unwrap_or_else(|_| b"{}".to_vec());
    text.push(b'\n');
    text
}
