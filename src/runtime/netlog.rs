//! The session's network log: one JSON line per decision, from the router's output, and what all of them amount to.
//!
//! The router writes decisions to stdout, and messages to stderr. The decision is made before a line gets here, so a
//! failure only loses log lines.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value, json};

use super::ctrlog::{Follower, OutputStream};
use super::output::{Dropped, Rotating};
use super::redact::Redactor;
use super::tally::Tally;
use crate::plan::Plan;
use crate::policy::{HostName, canonical};

/// A reader of the router's output.
#[derive(Debug)]
pub struct NetworkLog {
    /// Dropped when the router has stopped.
    stopping: Sender<()>,
    ended: Receiver<Tally>,
}

/// How often to look for lines.
const LOOK: Duration = Duration::from_millis(50);

/// How long reading the last lines may take. A blocked terminal must not block a teardown.
const LAST_LINES: Duration = Duration::from_secs(10);

impl NetworkLog {
    /// Follows the router's log from its first line, and writes `log`, if there is one.
    pub fn follow(router_log: &Path, plan: &Plan, redactor: Redactor, mut log: Option<Rotating>) -> Self {
        let mut follower = Follower::new(router_log);
        let session = plan.session.clone();
        let ((stopping, stopped), (ending, ended)) = (channel::<()>(), channel());
        std::thread::spawn(move || {
            let ending: Sender<Tally> = ending;
            let mut tally = Tally::default();
            loop {
                // Waited for before reading, so that everything written until then is read.
                let last = stopped.recv_timeout(LOOK) != Err(RecvTimeoutError::Timeout);
                for (stream, line) in follower.lines() {
                    // What it says to people is on the other stream.
                    let Some(mut map) = decision_line(&line, &session).filter(|_| stream == OutputStream::Out) else {
                        continue;
                    };
                    redact(&mut map, &redactor);
                    tally.count(&map);
                    if let Some(log) = &mut log {
                        log.line(&Value::Object(map).to_string(), |dropped| dropped_line(dropped, &session));
                    }
                }
                if last {
                    // Nobody waits any more if this took too long.
                    let _ = ending.send(tally);
                    return;
                }
            }
        });
        Self { stopping, ended }
    }

    /// Reads the last lines, and returns what all of them amount to. The router must have been stopped.
    pub fn finish(self) -> Tally {
        drop(self.stopping);
        // A failed reader only loses log lines.
        self.ended.recv_timeout(LAST_LINES).unwrap_or_default()
    }
}

/// The line that replaces lost lines, either of the oldest file or because the disk was full.
fn dropped_line(dropped: Dropped, session: &str) -> String {
    let Dropped { lines, bytes } = dropped;
    json!({ "ts": now(), "session": session, "tier": "log", "dropped_lines": lines, "dropped_bytes": bytes })
        .to_string()
}

/// Parses a line of the router's log. Anything else is a diagnostic message, not a decision.
pub(super) fn decision_line(line: &str, session: &str) -> Option<Map<String, Value>> {
    let Ok(Value::Object(mut map)) = serde_json::from_str(line) else { return None };
    // `explain --json` prints null if nothing matched.
    if map.get("rule").is_some_and(|rule| rule == "") {
        map.insert("rule".to_owned(), Value::Null);
    }
    // The router logs a name as it was sent; `explain` prints the normal form.
    if let Some(name) = map.get("host").and_then(Value::as_str).and_then(HostName::from_wire) {
        map.insert("host".to_owned(), name.as_str().into());
    }
    if let Some(Ok(path)) = map.get("path").and_then(Value::as_str).map(canonical) {
        map.insert("path".to_owned(), path.into());
    }
    if let Some(names) = map.get("credentials").and_then(Value::as_str) {
        let names: Vec<&str> = names.split(',').filter(|name| !name.is_empty()).collect();
        map.insert("credentials".to_owned(), names.into());
    }
    map.insert("session".to_owned(), session.into());
    Some(map)
}

/// Redacts only what comes from a request. The words that describe the decision are ours, even if they equal a value.
pub(super) fn redact(map: &mut Map<String, Value>, redactor: &Redactor) {
    const OURS: [&str; 8] = ["ts", "session", "tier", "verdict", "rule", "reason", "credentials", "change"];
    for (_, value) in map.iter_mut().filter(|(key, _)| !OURS.contains(&key.as_str())) {
        if let Value::String(text) = value {
            *text = redactor.text(text);
        }
    }
}

/// Seconds since the epoch with milliseconds, as the router writes them.
fn now() -> f64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    (since.as_secs_f64() * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::super::redact::Known;
    use super::*;

    #[test]
    fn a_request_has_one_path_and_no_value() {
        let line =
            r#"{"host":"x.test","path":"/%61/hunter22%2f?q","credentials":"A,B","verdict":"deny","reason":"deny"}"#;
        let mut map = decision_line(line, "s").unwrap();
        let known = Known { values: ["hunter22", "deny"].map(str::to_owned).into(), ..Known::default() };
        redact(&mut map, &Redactor::new(known).unwrap());
        assert_eq!((&map["path"], &map["credentials"]), (&json!("/a/[redacted]%2F"), &json!(["A", "B"])));
        assert_eq!((&map["verdict"], &map["reason"]), (&json!("deny"), &json!("deny")));
    }

    #[test]
    fn a_line_that_is_no_json_object_is_no_decision() {
        assert!(decision_line("[1]", "s").is_none());
        let line = decision_line(r#"{"host":"API.Example.COM.","rule":""}"#, "s").unwrap();
        assert_eq!(
            (&line["session"], &line["host"], &line["rule"]),
            (&json!("s"), &json!("api.example.com"), &Value::Null)
        );
    }
}
