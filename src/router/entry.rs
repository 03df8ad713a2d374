//! What is known about a request or connection until its log line is written.

use std::time::Instant;

use super::client::{ClientConnection, read_host};
use super::log::{self, Line, Query, RequestPart, Stamp, seconds_since};
use super::message::Request;
use super::refusal::{About, Refusal};
use super::shared::Shared;
use crate::policy::{Decision, Reason, RuleId, Tier, Verdict};

/// A log line in progress.
#[derive(Clone, Debug)]
pub(super) struct LogEntry {
    start: Instant,
    tier: Tier,
    port: u16,
    /// In normal form, or as received.
    pub(super) host: Vec<u8>,
    pub(super) method: Vec<u8>,
    pub(super) target: Vec<u8>,
    pub(super) reason: Reason,
    pub(super) rule: Option<RuleId>,
    pub(super) status: u16,
    pub(super) upstream: String,
    pub(super) credentials: Vec<String>,
    pub(super) sent: u64,
    pub(super) received: u64,
}

impl LogEntry {
    pub(super) fn new(tier: Tier, port: u16, start: Instant) -> Self {
        Self {
            start,
            tier,
            port,
            host: Vec::new(),
            method: Vec::new(),
            target: Vec::new(),
            reason: Reason::BadRequest,
            rule: None,
            status: 0,
            upstream: String::new(),
            credentials: Vec::new(),
            sent: 0,
            received: 0,
        }
    }

    /// Records the head.
    pub(super) fn of(&mut self, place: &ClientConnection, request: &Request) {
        self.method = request.method.clone().into_bytes();
        self.target.clone_from(&request.target);
        let said = request.host.as_deref();
        self.host = match said.and_then(|said| read_host(said, place.port)) {
            Some(host) => host.text().into_bytes(),
            None => match (said, &place.name) {
                (Some(said), _) => said.to_vec(),
                (None, Some(name)) => name.as_str().into(),
                (None, None) => Vec::new(),
            },
        };
    }

    /// Records the decision.
    pub(super) fn decided(&mut self, decision: &Decision) {
        self.reason = decision.reason;
        self.rule.clone_from(&decision.rule);
        if decision.verdict == Verdict::Allow {
            self.reason = Reason::Allowed;
        }
    }

    pub(super) fn refused(&mut self, refusal: &Refusal) {
        self.reason = refusal.reason;
        self.status = refusal.status;
        if matches!(refusal.reason, Reason::BadRequest | Reason::BadHost | Reason::Misdirected) {
            self.rule = None;
        }
        if !refusal.credential.is_empty() {
            self.credentials = vec![refusal.credential.clone()];
        }
    }

    /// Records a refusal.
    pub(super) fn about<'a>(&'a self, said: &'a str) -> About<'a> {
        About {
            reason: self.reason,
            rule: self.rule.as_ref(),
            host: &self.host,
            method: &self.method,
            target: &self.target,
            said,
        }
    }

    /// Writes the line.
    pub(super) fn write(&self, shared: &Shared) {
        let web = matches!(self.tier, Tier::Http | Tier::Inspected);
        let mut parts = self.target.splitn(2, |b| *b == b'?');
        let (path, query) = (parts.next().unwrap_or_default(), parts.next());
        let knows = self.tier == Tier::Inspected || (web && shared.table.is_some());
        let keeps = shared.current.get().file.log_query;
        let line = Line {
            ts: Stamp::now(),
            tier: self.tier.name(),
            verdict: log::verdict(self.reason),
            rule: log::rule(self.rule.as_ref()),
            reason: self.reason.code(),
            host: &self.host,
            port: self.port,
            request: web.then_some(RequestPart { method: &self.method, path }),
            status: self.status,
            bytes_sent: self.sent,
            bytes_received: self.received,
            duration: seconds_since(self.start),
            upstream: &self.upstream,
            credentials: knows.then(|| self.credentials.join(",")),
            query: (web && keeps).then(|| Query(query.unwrap_or_default())),
        };
        shared.log.write(&line);
    }
}
