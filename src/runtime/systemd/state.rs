//! What systemd knows about an installed sandbox: whether it runs, when it starts next, and how its last run ended.

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
const NOT_STARTED: &str = "be02cf6855d2428ba40df7e9d022f03d";

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

/// Asks systemd, and the journal about the last run, since systemd forgets a unit that has ended.
pub fn state_of(units: &InstalledUnits) -> Result<UnitState, RuntimeError> {
    let output = systemctl(&["show", "--property=ActiveState", "--value", &units.agent])?;
    let active = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let timer = units.native.iter().find(|unit| unit.strip_suffix(".timer").is_some());
    let next = match timer {
        Some(timer) => next_of(timer)?,
        None => None,
    };
    Ok(UnitState { active, next, last: last_run(&units.agent) })
}

/// A timer in the output of `systemctl list-timers`.
#[derive(Deserialize)]
struct Timer {
    unit: String,
    /// Millionths of a second since the epoch; nothing or 0 if it never elapses.
    next: Option<u64>,
}

fn next_of(timer: &str) -> Result<Option<u64>, RuntimeError> {
    let output = systemctl(&["list-timers", "--all", "--output=json", timer])?;
    let timers: Vec<Timer> = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let next = timers.into_iter().find(|one| one.unit == timer).and_then(|one| one.next);
    Ok(next.map(|micros| micros / 1_000_000).filter(|seconds| *seconds > 0))
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
    #[serde(rename = "JOB_RESULT", default)]
    job: Option<String>,
    #[serde(rename = "PODMAN_EVENT", default)]
    event: Option<String>,
    #[serde(rename = "PODMAN_EXIT_CODE", default)]
    exit_code: Option<String>,
}

impl Message {
    /// systemd's word for how a run ended, if this is about its end. systemd itself reports a success only while it debugs.
    fn end(&self) -> Option<String> {
        match (self.id.as_str(), self.event.as_deref()) {
            (FAILED, _) => Some(self.result.clone().unwrap_or_else(|| "failed".to_owned())),
            (SUCCEEDED, _) => Some("success".to_owned()),
            // A unit that it requires, such as the router, failed.
            (NOT_STARTED, _) => self.job.clone().filter(|job| job == "dependency"),
            (_, Some("died")) => {
                let success = self.exit_code.as_deref().is_none_or(|code| code == "0");
                Some(if success { "success" } else { "exit-code" }.to_owned())
            }
            _ => None,
        }
    }
}

/// The last run, from systemd's messages about the unit and podman's events in it.
fn last_run(unit: &str) -> Option<LastRun> {
    let mut command = Command::new("journalctl");
    command.args(["--user", "--quiet", "--output=json", "--reverse", "--lines", MESSAGES]);
    // The journal adds what begins with `_` itself.
    command.args(["_COMM=systemd", &format!("USER_UNIT={unit}"), "+"]);
    command.args(["_COMM=podman", "PODMAN_EVENT=died", &format!("_SYSTEMD_USER_UNIT={unit}")]);
    let call = Call { what: "journalctl", most: Duration::from_secs(30), signals: None };
    let output = run(command, None, call, RuntimeError::io("running journalctl")).ok()?;
    newest(&String::from_utf8_lossy(&output.stdout))
}

/// The newest run that has ended, in messages that begin with the newest.
fn newest(messages: &str) -> Option<LastRun> {
    let mut messages = messages.lines().filter_map(|line| serde_json::from_str::<Message>(line).ok());
    let seconds = |message: &Message| message.at.parse::<u64>().ok().map(|at| at / 1_000_000);
    let (result, end) = messages.find_map(|message| Some((message.end()?, message)))?;
    // podman reports the end of a failed run before systemd does. Without a start before any other end, the unit failed
    // before it was active; one whose dependency failed never is.
    let same = |message: &Message| {
        end.id == FAILED && message.event.is_some() && message.end().is_some_and(|result| result != "success")
    };
    let boundary = messages.find(|message| message.id == STARTED || (message.end().is_some() && !same(message)));
    let started = boundary.filter(|start| start.id == STARTED && end.id != NOT_STARTED).as_ref().and_then(seconds);
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
        // systemd is silent about a success, but podman is not.
        let died = |code: &str| line("", 95, &format!(",\"PODMAN_EVENT\":\"died\",\"PODMAN_EXIT_CODE\":\"{code}\""));
        let success = [died("0"), line(STARTED, 80, ""), two].concat();
        assert_eq!(newest(&success), Some(LastRun { result: "success".to_owned(), started: Some(80), ended: 95 }));
        let blocked = [line(NOT_STARTED, 99, ",\"JOB_RESULT\":\"dependency\""), success].concat();
        assert_eq!(newest(&blocked), Some(LastRun { result: "dependency".to_owned(), started: None, ended: 99 }));
        let early = [line(FAILED, 99, ",\"UNIT_RESULT\":\"exit-code\""), died("0"), line(STARTED, 80, "")].concat();
        assert_eq!(newest(&early), Some(LastRun { result: "exit-code".to_owned(), started: None, ended: 99 }));
        let failure = [line(FAILED, 96, ",\"UNIT_RESULT\":\"exit-code\""), died("3"), line(STARTED, 80, "")].concat();
        assert_eq!(newest(&failure), Some(LastRun { result: "exit-code".to_owned(), started: Some(80), ended: 96 }));
    }
}
