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

use serde_json::{Map, Value};

use super::RuntimeError;
use super::podman::Podman;
use crate::plan::Plan;

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
    map.insert("session".to_owned(), session.into());
    Some(map)
}

/// A line of dnsmasq's query log: only refusals are decisions.
fn dns_line(_line: &str, _session: &str, _policy: &crate::policy::Policy) -> Option<Map<String, Value>> {
    None
}
