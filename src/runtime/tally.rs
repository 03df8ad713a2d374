//! What the router decided in a session, counted for the person who started it.
//!
//! Names come from inside, so their number is bounded, and whoever prints them makes hidden characters visible.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::policy::Reason;

/// How many different refusals are counted separately. The command chooses the names.
const MOST: usize = 1000;

/// How many lines are printed.
const LINES: usize = 10;

/// The port of the router's resolver. A name that was not resolved has no port yet.
const DNS: u64 = 53;

/// A refused destination.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RefusedHost {
    /// The host as the client named it; empty if it cannot be printed.
    pub host: String,
    /// The port; `None` for a name that was only looked up.
    pub port: Option<u64>,
    /// Why.
    pub reason: Reason,
    /// The rule that decided.
    pub rule: Option<String>,
}

/// The decisions of a session.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// How often each destination was refused.
    pub refusals: BTreeMap<RefusedHost, u64>,
    /// Refusals of further destinations.
    pub others: u64,
    /// Bytes that the sandbox received.
    pub received: u64,
    /// Bytes that the sandbox sent.
    pub sent: u64,
    /// The names of the credentials that were inserted.
    pub credentials: BTreeSet<String>,
}

impl Tally {
    /// Counts a line of the router's log.
    pub fn count(&mut self, line: &Map<String, Value>) {
        let number = |name: &str| line.get(name).and_then(Value::as_u64);
        let text = |name: &str| line.get(name).and_then(Value::as_str);
        self.received = self.received.saturating_add(number("bytes_sent").unwrap_or(0));
        self.sent = self.sent.saturating_add(number("bytes_received").unwrap_or(0));
        if text("verdict") != Some("deny") {
            let names = line.get("credentials").and_then(Value::as_array).into_iter().flatten();
            self.credentials.extend(names.filter_map(Value::as_str).map(str::to_owned));
            return;
        }
        let Some(reason) = text("reason").and_then(Reason::of_code) else { return };
        let refusal = RefusedHost {
            host: text("host").unwrap_or("").to_owned(),
            port: number("port").filter(|&port| port != DNS),
            reason,
            rule: text("rule").map(str::to_owned),
        };
        if let Some(count) = self.refusals.get_mut(&refusal) {
            *count += 1;
        } else if self.refusals.len() < MOST {
            self.refusals.insert(refusal, 1);
        } else {
            self.others += 1;
        }
    }

    /// One line for each refused destination, the most frequent ones first, and at most ten lines.
    pub fn summary(&self) -> Vec<String> {
        let mut all: BTreeMap<(&str, Option<u64>, Reason), u64> = BTreeMap::new();
        for (refusal, count) in &self.refusals {
            *all.entry((&refusal.host, refusal.port, refusal.reason)).or_default() += count;
        }
        let mut all: Vec<_> = all.into_iter().collect();
        // Stable: the same number of times is in the order of the names.
        all.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
        let fits = if all.len() <= LINES && self.others == 0 { LINES } else { LINES - 1 };
        let rest = all.split_off(fits.min(all.len()));
        let mut lines: Vec<String> = all.into_iter().map(line).collect();
        let more = rest.iter().map(|(_, count)| count).sum::<u64>() + self.others;
        if more > 0 {
            lines.push(format!("refused: {} to other hosts; `--network-log FILE` records each", times(more)));
        }
        lines
    }
}

fn line(((host, port, reason), count): ((&str, Option<u64>, Reason), u64)) -> String {
    let what = if reason.is_policy() { "refused" } else { "failed" };
    let host = if host.is_empty() { "a connection without a name" } else { host };
    let port = port.map_or_else(String::new, |port| format!(":{port}"));
    let why = match reason {
        Reason::NotAllowed => "not in network.allow",
        Reason::PortNotAllowed => "this port is not in network.allow",
        reason => reason.text(),
    };
    format!("{what}: {host}{port} ({}, {why})", times(count))
}

fn times(count: u64) -> String {
    format!("{count} time{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tally(lines: &[Value]) -> Tally {
        let mut tally = Tally::default();
        for line in lines {
            tally.count(line.as_object().unwrap());
        }
        tally
    }

    fn deny(host: &str, port: u64, reason: &str) -> Value {
        json!({"verdict": "deny", "host": host, "port": port, "reason": reason, "rule": null})
    }

    #[test]
    fn refusals_are_grouped_by_destination_and_reason_and_the_most_frequent_comes_first() {
        let mut lines =
            vec![deny("b.test", 443, "not-allowed"), deny("a.test", 80, "denied"), deny("c.test", 53, "not-allowed")];
        lines.extend([
            deny("b.test", 443, "not-allowed"),
            deny("b.test", 22, "port-not-allowed"),
            deny("", 443, "bad-host"),
        ]);
        lines.push(deny("d.test", 443, "upstream-failed"));
        lines.push(json!({"verdict": "allow", "host": "x", "reason": "allowed", "bytes_sent": 5, "bytes_received": 7, "credentials": ["A"]}));
        let tally = tally(&lines);
        assert_eq!(
            tally.summary(),
            [
                "refused: b.test:443 (2 times, not in network.allow)",
                "refused: a connection without a name:443 (1 time, the host is missing or not a fully qualified name)",
                "refused: a.test:80 (1 time, the server's deny list names it)",
                "refused: b.test:22 (1 time, this port is not in network.allow)",
                "refused: c.test (1 time, not in network.allow)",
                "failed: d.test:443 (1 time, the host is allowed but did not answer)",
            ]
        );
        assert_eq!((tally.received, tally.sent, tally.credentials.len()), (5, 7, 1));
        assert!(Tally::default().summary().is_empty());
    }

    #[test]
    fn any_number_of_names_is_ten_lines_and_a_bounded_number_of_entries() {
        let many: Vec<Value> = (0..5000).map(|n| deny(&format!("n{n}.test"), 443, "not-allowed")).collect();
        let tally = tally(&many);
        assert_eq!((tally.refusals.len(), tally.others), (MOST, 4000));
        let lines = tally.summary();
        assert_eq!(lines.len(), LINES);
        assert_eq!(lines[9], "refused: 4991 times to other hosts; `--network-log FILE` records each");
        let ten: Vec<Value> = (0..10).map(|n| deny(&format!("n{n}.test"), 443, "not-allowed")).collect();
        assert!(self::tally(&ten).summary().iter().all(|line| line.contains(".test:443 (1 time, ")));
    }
}
