//! Reads recorded network logs.
//!
//! What a client sent is in them, so nothing in them is trusted: fields of the wrong type are missing, and whoever shows
//! a line makes hidden characters visible.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use serde::Deserialize;

use super::RuntimeError;
use crate::policy::{Decision, HttpRequest, Policy, Question, Reason, Verdict};

/// The longest line that is read. The router's lines are shorter than 4096 bytes.
const MOST_LINE: u64 = 64 << 10;

/// A line of a log.
#[derive(Clone, Debug, Deserialize)]
pub struct Logged {
    /// `dns`, `http`, `passthrough`, `inspected` or `tcp`.
    pub tier: String,
    /// `allow` or `deny`.
    pub verdict: Verdict,
    /// The code of a [`Reason`].
    #[serde(default)]
    pub reason: String,
    /// The rule that decided.
    #[serde(default)]
    pub rule: Option<String>,
    /// The host in normal form.
    #[serde(default)]
    pub host: String,
    /// The port.
    #[serde(default)]
    pub port: u16,
    /// The method of a request.
    #[serde(default)]
    pub method: Option<String>,
    /// The canonical path of a request.
    #[serde(default)]
    pub path: Option<String>,
    /// The names of credentials.
    #[serde(default)]
    pub credentials: Vec<String>,
    /// Bytes to the client.
    #[serde(default)]
    pub bytes_sent: u64,
    /// Bytes from the client.
    #[serde(default)]
    pub bytes_received: u64,
    /// Seconds.
    #[serde(default)]
    pub duration: f64,
    /// How many decisions the line stands for; `None` is one.
    #[serde(default)]
    pub count: Option<u64>,
}

/// The lines of a log, and how many were not decisions.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// The decisions, in their order.
    pub lines: Vec<Logged>,
    /// Lines that could not be read.
    pub skipped: u64,
}

impl Recorded {
    /// Reads a file; `-` is standard input.
    pub fn read(path: &Path, into: &mut Self) -> Result<(), RuntimeError> {
        let failed = |error| RuntimeError::io(format!("reading {}", path.display()))(error);
        if path == Path::new("-") {
            return into.add(std::io::stdin().lock()).map_err(failed);
        }
        into.add(BufReader::new(File::open(path).map_err(failed)?)).map_err(failed)
    }

    fn add(&mut self, mut from: impl std::io::BufRead) -> std::io::Result<()> {
        let mut line = Vec::new();
        loop {
            line.clear();
            if from.by_ref().take(MOST_LINE).read_until(b'\n', &mut line)? == 0 {
                return Ok(());
            }
            let Ok(value) = serde_json::from_slice::<serde_json::Value>(&line) else {
                self.skipped += u64::from(!line.trim_ascii().is_empty());
                continue;
            };
            // Such a line counts lost ones.
            if value["tier"] == "log" {
                self.skipped += value["dropped_lines"].as_u64().unwrap_or(0);
                continue;
            }
            // A change of the policy while the session ran.
            if value["tier"] == "policy" {
                continue;
            }
            match serde_json::from_value(value) {
                Ok(line) => self.lines.push(line),
                Err(_) => self.skipped += 1,
            }
        }
    }
}

impl Logged {
    /// How many decisions it stands for.
    pub fn times(&self) -> u64 {
        self.count.unwrap_or(1)
    }

    /// The reason, if this version knows it.
    pub fn known_reason(&self) -> Option<Reason> {
        Reason::ALL.into_iter().find(|reason| reason.code() == self.reason)
    }

    /// The verdict of the policy then, as far as the line shows it: a host that is allowed and does not answer is denied
    /// in the log, but not by the policy. `None` if it depended on more than the line says, such as a body.
    pub fn policy_verdict(&self) -> Option<Verdict> {
        match self.known_reason()? {
            Reason::Allowed => Some(Verdict::Allow),
            reason if Question::REASONS.contains(&reason) => Some(Verdict::Deny),
            Reason::AddressRefused
            | Reason::NoAddress
            | Reason::Ipv6Only
            | Reason::ResolverFailed
            | Reason::UpstreamFailed
            | Reason::UpstreamTimeout
            | Reason::UpstreamUntrusted
            | Reason::UpstreamMalformed
            | Reason::UpstreamHeadTooLarge
            | Reason::UpstreamUnreadable
            | Reason::RouterFull => Some(Verdict::Allow),
            _ => None,
        }
    }

    /// The decision of a policy about the same thing.
    pub fn decide(&self, policy: &Policy) -> Decision {
        match (self.tier.as_str(), &self.method, &self.path) {
            ("dns", ..) => policy.decide_name(&self.host),
            (_, Some(method), Some(path)) => {
                policy.decide_request(&self.host, self.port, &HttpRequest { method, target: path })
            }
            _ => policy.decide(&self.host, self.port),
        }
    }

    /// What was asked, as `test` writes it.
    pub fn request(&self) -> String {
        match (self.tier.as_str(), &self.method, &self.path) {
            ("dns", ..) => self.host.clone(),
            (_, Some(method), Some(path)) => {
                let scheme = if self.port == 80 { "http" } else { "https" };
                format!("{method} {scheme}://{}{path}", self.host)
            }
            _ => format!("{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Recorded {
        let mut log = Recorded::default();
        log.add(text.as_bytes()).unwrap();
        log
    }

    #[test]
    fn lines_are_read_and_others_are_counted() {
        let log = read(
            "{\"tier\":\"tcp\",\"verdict\":\"allow\",\"reason\":\"allowed\",\"host\":\"a.test\",\"port\":22}\n\nnot json\n[1]\n\
             {\"tier\":\"log\",\"dropped_lines\":7}\n{\"tier\":1}\n\
             {\"tier\":\"dns\",\"verdict\":\"deny\",\"reason\":\"not-allowed\",\"host\":\"b.test\",\"port\":53,\"count\":9}",
        );
        assert_eq!(log.lines.len(), 2);
        assert_eq!(log.skipped, 10);
        assert_eq!(log.lines.iter().map(Logged::times).sum::<u64>(), 10);
        assert_eq!(log.lines.iter().map(Logged::request).collect::<Vec<_>>(), ["a.test:22", "b.test"]);
    }

    #[test]
    fn a_line_without_an_end_is_read_in_pieces_of_limited_size() {
        let text = format!("{{\"tier\":\"{}", "x".repeat(300_000));
        assert_eq!(read(&text).skipped, 5);
    }

    #[test]
    fn a_host_that_does_not_answer_was_not_denied_by_the_policy() {
        let line = |reason: &str| {
            let text = format!(
                "{{\"tier\":\"tcp\",\"verdict\":\"deny\",\"reason\":\"{reason}\",\"host\":\"a.test\",\"port\":22}}"
            );
            read(&text).lines.remove(0).policy_verdict()
        };
        assert_eq!(line("upstream-failed"), Some(Verdict::Allow));
        assert_eq!(line("not-allowed"), Some(Verdict::Deny));
        assert_eq!(line("leak"), None);
        assert_eq!(line("of-another-version"), None);
    }
}
