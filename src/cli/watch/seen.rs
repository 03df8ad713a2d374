//! What was decided, counted by destination.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::policy::Reason;

/// How many destinations are counted separately. The command chooses the names.
const MOST: usize = 10_000;

/// What is counted together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) what: What,
    pub(super) host: String,
    /// `None` for a name that was only looked up.
    pub(super) port: Option<u16>,
    /// The code of a denial's reason.
    pub(super) reason: String,
    pub(super) rule: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    Allowed,
    Denied,
    /// A rule was added or removed.
    Policy,
    /// A line about the log itself.
    Other,
}

impl Key {
    pub(super) fn of(line: &Map<String, Value>) -> Self {
        let text = |name: &str| line.get(name).and_then(Value::as_str);
        let what = match (text("tier"), text("verdict")) {
            (Some("policy"), _) => What::Policy,
            (_, Some("allow")) => What::Allowed,
            (_, Some("deny")) => What::Denied,
            _ => What::Other,
        };
        let port = line.get("port").and_then(Value::as_u64).and_then(|port| u16::try_from(port).ok());
        let reason = if what == What::Policy { text("change") } else { text("reason") };
        Self {
            what,
            host: text("host").unwrap_or("").to_owned(),
            port: port.filter(|_| text("tier") != Some("dns")),
            reason: reason.unwrap_or("").to_owned(),
            // Of allowed ones, all rules count together.
            rule: text("rule").filter(|_| what != What::Allowed).map(str::to_owned),
        }
    }

    /// The host and port.
    pub(super) fn place(&self) -> String {
        let host = if self.host.is_empty() { "a connection without a name" } else { &self.host };
        self.port.map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// A line for people, without an end.
    pub(super) fn line(&self, count: u64) -> String {
        let place = self.place();
        let times = if count == 1 { "1 time".to_owned() } else { format!("{count} times") };
        let rule = self.rule.as_ref().map(|rule| format!(" ({rule})")).unwrap_or_default();
        match self.what {
            What::Allowed => format!("allowed  {place}, {times}"),
            What::Denied => {
                let known = Reason::of_code(&self.reason);
                let why = known.map_or(self.reason.as_str(), |reason| reason.text());
                let hint = known.map(Reason::hint).filter(|hint| !hint.is_empty());
                let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
                format!("denied   {place}, {times}: {why}{rule}{hint}")
            }
            What::Policy => format!("policy   {} {place}{rule}", self.reason),
            What::Other => "the log has lost lines".to_owned(),
        }
    }
}

/// How often each was decided.
#[derive(Debug, Default)]
pub(super) struct Counts {
    all: BTreeMap<Key, u64>,
    rest: u64,
}

impl Counts {
    /// Counts one, and returns how many there are now.
    pub(super) fn add(&mut self, key: &Key) -> u64 {
        if let Some(count) = self.all.get_mut(key) {
            *count += 1;
            return *count;
        }
        if self.all.len() < MOST {
            self.all.insert(key.clone(), 1);
            return 1;
        }
        self.rest += 1;
        self.rest
    }

    /// How many destinations had this verdict, and how often.
    pub(super) fn of(&self, what: What) -> (usize, u64) {
        let all = self.all.iter().filter(|(key, _)| key.what == what);
        all.fold((0, 0), |(places, times), (_, count)| (places + 1, times + count))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(line: &Value) -> Key {
        Key::of(line.as_object().unwrap())
    }

    #[test]
    fn lines_name_destination_count_rule_and_hint() {
        let denied = json!({"tier": "passthrough", "verdict": "deny", "host": "a.test", "port": 443, "reason": "denied", "rule": "server.deny[0]"});
        assert_eq!(
            key(&denied).line(2),
            "denied   a.test:443, 2 times: the server's deny list names it (server.deny[0]); \
             ask the owner of this machine: the server file forbids it"
        );
        let name = json!({"tier": "dns", "verdict": "deny", "host": "b.test", "port": 53, "reason": "not-allowed", "rule": null});
        assert_eq!(
            key(&name).line(1),
            "denied   b.test, 1 time: no allow entry matches this host; add the host to network.allow in .sandboxc/sandbox.yaml"
        );
        let allowed = json!({"tier": "http", "verdict": "allow", "host": "c.test", "port": 80, "reason": "allowed", "rule": "repo.allow[0]"});
        assert_eq!(key(&allowed).line(1), "allowed  c.test:80, 1 time");
        let added = json!({"tier": "policy", "change": "added", "host": "d.test", "rule": "session.allow[0]"});
        assert_eq!(key(&added).line(1), "policy   added d.test (session.allow[0])");
    }

    #[test]
    fn destinations_are_counted_and_their_number_is_bounded() {
        let mut counts = Counts::default();
        for number in 0..MOST + 10 {
            let line =
                json!({"tier": "dns", "verdict": "deny", "host": format!("n{number}.test"), "reason": "not-allowed"});
            counts.add(&key(&line));
        }
        assert_eq!((counts.of(What::Denied), counts.rest), ((MOST, MOST as u64), 10));
        assert_eq!(counts.of(What::Allowed), (0, 0));
    }
}
