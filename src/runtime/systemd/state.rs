//! What systemd knows about an installed sandbox: whether it runs, when it starts next, and how its last run ended.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, SystemTime};

use serde::Deserialize;

use super::{InstalledUnits, systemctl};
use crate::runtime::RuntimeError;
use crate::runtime::call::{Call, run};

/// How many of a unit's messages are read, the newest first.
const MESSAGES: &str = "400";

/// systemd's ids of messages about units (systemd/sd-messages.h).
const STARTED: &str = "39f53479d3a045ac8e11786248231fbf";
const SUCCEEDED: &str = "7ad2d189f7e94e70a38c781354912448";
const FAILED: &str = "d9b373ed55a64feb8242e02dbe79a49c";

/// The state of a sandbox's unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitState {
    /// `active`, `inactive`, `failed`, `activating` or `deactivating`.
    pub active: String,
    /// When the timer starts it next, in seconds since the epoch.
    pub next: Option<u64>,
    /// The last run that has ended.
    pub last: Option<LastRun>,
}

/// A run that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastRun {
    /// `success`, or systemd's word for how it failed, such as `exit-code` or `timeout`.
    pub result: String,
    /// When it started, in seconds since the epoch.
    pub started: Option<u64>,
    /// When it ended.
    pub ended: u64,
}

impl LastRun {
    /// How many seconds it took.
    pub fn duration(&self) -> Option<u64> {
        self.started.map(|started| self.ended.saturating_sub(started))
    }
}

/// Asks systemd. A unit that has ended is forgotten sooner or later, so its journal is read, too.
pub fn state_of(units: &InstalledUnits) -> Result<UnitState, RuntimeError> {
    let service = shown(&units.agent, &["ActiveState"])?;
    let active = service.get("ActiveState").cloned().unwrap_or_default();
    let timer = units.native.iter().find(|unit| unit.strip_suffix(".timer").is_some());
    let next = match timer {
        Some(timer) => next_of(timer)?,
        None => None,
    };
    Ok(UnitState { active, next, last: last_run(&units.agent) })
}

/// Properties of a unit, with points in time as `@SECONDS`.
fn shown(unit: &str, properties: &[&str]) -> Result<BTreeMap<String, String>, RuntimeError> {
    let asked = format!("--property={}", properties.join(","));
    let output = systemctl(&["show", "--timestamp=unix", &asked, unit])?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text.lines().filter_map(|line| line.split_once('=')).map(|(a, b)| (a.to_owned(), b.to_owned())).collect())
}

fn next_of(timer: &str) -> Result<Option<u64>, RuntimeError> {
    let all = shown(timer, &["NextElapseUSecRealtime"])?;
    Ok(all.get("NextElapseUSecRealtime").and_then(|text| text.strip_prefix('@')).and_then(|text| text.parse().ok()))
}

/// A line of `journalctl --output=json`. What an agent prints has another origin, so it cannot look like systemd's.
#[derive(Deserialize)]
struct Message {
    #[serde(rename = "MESSAGE_ID", default)]
    id: String,
    #[serde(rename = "__REALTIME_TIMESTAMP")]
    at: String,
    #[serde(rename = "UNIT_RESULT", default)]
    result: Option<String>,
}

/// The last run, from systemd's own messages about the unit.
fn last_run(unit: &str) -> Option<LastRun> {
    let mut command = Command::new("journalctl");
    // `_COMM` is the kernel's word, not the sender's.
    command.args(["--user", "--quiet", "--output=json", "--reverse", "--lines", MESSAGES, "_COMM=systemd"]);
    command.arg(format!("USER_UNIT={unit}"));
    let call = Call { what: "journalctl", most: Duration::from_secs(30), signals: None };
    let output = run(command, None, call, RuntimeError::io("running journalctl")).ok()?;
    newest(&String::from_utf8_lossy(&output.stdout))
}

/// The newest run that has ended, in messages that begin with the newest.
fn newest(messages: &str) -> Option<LastRun> {
    let mut messages = messages.lines().filter_map(|line| serde_json::from_str::<Message>(line).ok());
    let seconds = |message: &Message| message.at.parse::<u64>().ok().map(|at| at / 1_000_000);
    let end = messages.find(|message| message.id == SUCCEEDED || message.id == FAILED)?;
    let result = match end.result.clone() {
        Some(result) if end.id == FAILED => result,
        _ if end.id == FAILED => "failed".to_owned(),
        _ => "success".to_owned(),
    };
    // Without a start before the previous end, the unit failed before it was active.
    let start = messages.find(|message| [STARTED, SUCCEEDED, FAILED].contains(&message.id.as_str()));
    let started = start.filter(|start| start.id == STARTED).as_ref().and_then(seconds);
    Some(LastRun { result, started, ended: seconds(&end)? })
}

/// Seconds since the epoch.
pub fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: &str, seconds: u64, more: &str) -> String {
        format!("{{\"MESSAGE_ID\":\"{id}\",\"__REALTIME_TIMESTAMP\":\"{seconds}000000\"{more}}}\n")
    }

    #[test]
    fn the_last_run_is_read_from_systemds_messages() {
        let failed = line(FAILED, 50, ",\"UNIT_RESULT\":\"exit-code\"");
        let noise = "{\"MESSAGE\":\"x\",\"__REALTIME_TIMESTAMP\":\"1\"}\nnot JSON\n";
        let two = [line(SUCCEEDED, 90, ""), noise.to_owned(), line(STARTED, 60, ""), failed.clone()].concat();
        assert_eq!(newest(&two), Some(LastRun { result: "success".to_owned(), started: Some(60), ended: 90 }));
        // It runs for the second time.
        let running = [line(STARTED, 60, ""), failed.clone(), line(STARTED, 45, "")].concat();
        assert_eq!(newest(&running), Some(LastRun { result: "exit-code".to_owned(), started: Some(45), ended: 50 }));
        // The previous run's start is not that of a run that failed early.
        let early = [failed, line(SUCCEEDED, 40, ""), line(STARTED, 30, "")].concat();
        assert_eq!(newest(&early).and_then(|run| run.duration()), None);
        assert_eq!(newest(noise), None);
    }
}
