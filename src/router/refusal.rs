//! The body of a refusal: the same reason and rule as in the log, and what the reader can do.

use serde::Serialize;

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
