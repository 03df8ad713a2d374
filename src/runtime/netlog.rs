//! The session's network log: one JSON line per decision, from what the router says.
//!
//! nginx writes JSON to stdout, dnsmasq text to stderr. The verdict is long settled when a line gets here; failing to
//! write one changes nothing but the log.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::SystemTime;

use serde_json::{Map, Value, json};

use super::RuntimeError;
use super::podman::Podman;
use crate::plan::Plan;
use crate::policy::{Policy, Reason, Verdict, parse_dns_line};

/// A reader of the router's output.
#[derive(Debug)]
pub struct NetworkLog {
    child: Child,
    readers: Vec<JoinHandle<()>>,
}

/// Opens the log for appending, never through a link.
pub fn open(path: &Path) -> Result<File, RuntimeError> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .custom_flags(i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0))
        .open(path)
        .map_err(RuntimeError::io(format!("opening the network log {}", path.display())))
}

impl NetworkLog {
    /// Follows the router's container from its first line.
    pub fn follow(podman: &Podman, plan: &Plan, file: File) -> Result<Self, RuntimeError> {
        let mut child = podman
            .command(&["logs", "--follow", &plan.names.router_container()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(RuntimeError::NoPodman)?;
        let file = Arc::new(Mutex::new(file));
        let mut readers = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            let (file, session) = (Arc::clone(&file), plan.session.clone());
            readers.push(std::thread::spawn(move || copy(stdout, &file, |line| decision_line(line, &session))));
        }
        if let Some(stderr) = child.stderr.take() {
            let (session, policy) = (plan.session.clone(), plan.policy.clone());
            readers.push(std::thread::spawn(move || copy(stderr, &file, |line| dns_line(line, &session, &policy))));
        }
        Ok(Self { child, readers })
    }

    /// Waits for the last lines; the router must have been stopped.
    pub fn finish(mut self) {
        for reader in self.readers.drain(..) {
            let _ = reader.join();
        }
        let _ = self.child.wait();
    }
}

fn copy(from: impl std::io::Read, to: &Mutex<File>, line: impl Fn(&str) -> Option<Map<String, Value>>) {
    let mut reader = BufReader::new(from);
    let mut bytes = Vec::new();
    while matches!(reader.read_until(b'\n', &mut bytes), Ok(n) if n > 0) {
        if let Some(map) = line(String::from_utf8_lossy(&bytes).trim_end()) {
            let text = Value::Object(map).to_string() + "\n";
            if let Ok(mut file) = to.lock() {
                // One write a line, so that lines of the two readers never mix.
                let _ = file.write_all(text.as_bytes());
            }
        }
        bytes.clear();
    }
}

/// A line of nginx's access log; anything else is a diagnostic, not a decision.
fn decision_line(line: &str, session: &str) -> Option<Map<String, Value>> {
    let Ok(Value::Object(mut map)) = serde_json::from_str(line) else { return None };
    // nginx has no null; `explain --json` has one where nothing matched.
    if map.get("rule").is_some_and(|rule| rule == "") {
        map.insert("rule".to_owned(), Value::Null);
    }
    map.insert("session".to_owned(), session.into());
    Some(map)
}

/// A line of dnsmasq's query log: only refusals are decisions, since an answer opens nothing by itself.
fn dns_line(line: &str, session: &str, policy: &Policy) -> Option<Map<String, Value>> {
    let query = parse_dns_line(line).filter(|query| !query.answered)?;
    let decision = policy.decide(&query.name, 443);
    let allowed = decision.verdict == Verdict::Allow;
    let value = json!({
        "ts": now(),
        "session": session,
        "tier": "dns",
        "verdict": "deny",
        "rule": decision.rule.filter(|_| !allowed),
        // A name that resolves never gets here, unless dnsmasq and `decide` disagree.
        "reason": if allowed { Reason::BadRequest.code() } else { decision.reason.code() },
        "host": query.name,
        "port": 53,
    });
    let Value::Object(map) = value else { return None };
    Some(map)
}

/// Seconds since the epoch, to the millisecond, as nginx writes them.
fn now() -> f64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    (since.as_secs_f64() * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_refusals_become_lines_and_text_stays_text() {
        let policy = Policy::default();
        let line = dns_line(r#"dnsmasq[7]: config a"b is c.evil is NXDOMAIN"#, "s", &policy).unwrap();
        assert_eq!(line["host"], "a\"b is c.evil");
        assert_eq!((&line["verdict"], &line["reason"]), (&json!("deny"), &json!("bad-host")));
        assert!(dns_line("dnsmasq[7]: config a.example.com is 127.0.1.1", "s", &policy).is_none());
        assert!(dns_line("{\"verdict\":\"allow\"}", "s", &policy).is_none());
    }

    #[test]
    fn a_line_that_is_no_json_object_is_no_decision() {
        assert!(decision_line("[1]", "s").is_none());
        assert_eq!(decision_line("{\"a\":1}", "s").unwrap()["session"], "s");
    }
}
