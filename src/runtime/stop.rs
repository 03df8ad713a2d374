//! Stops a session that another process runs.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::RuntimeError;
use super::gc::{Leftovers, sweep};
use super::objects::{Object, list, remove};
use super::podman::Podman;
use super::process::Process;
use super::registry::{Record, Registry};
use super::systemd;
use crate::plan::plan_hash;

/// How long a runner may take to tear down before it is killed and its session is removed from here.
const PATIENCE: Duration = Duration::from_secs(60);

/// The result of stopping a session.
#[derive(Debug)]
pub enum Stopped {
    /// The session is gone.
    Ended,
    /// There is no such session.
    Unknown,
    /// The session has ended, but this could not be removed.
    Left(Vec<String>),
}

/// Asks the runner to stop. Without a runner, removes everything with the session's label, whoever created it.
pub fn stop(podman: &Podman, registry: &Registry, session: &str) -> Result<Stopped, RuntimeError> {
    let alive = registry.find(session)?;
    if let Some(record) = &alive {
        ask(registry, record)?;
    }
    let swept = sweep(podman, registry, Leftovers::Session(session), false)?;
    if !swept.left.is_empty() {
        return Ok(Stopped::Left(swept.left));
    }
    if alive.is_some() || !swept.sessions.is_empty() {
        return Ok(Stopped::Ended);
    }
    let all = list(podman)?;
    let is_labelled = |object: &&Object| object.session.as_deref() == Some(session);
    let plans: BTreeSet<String> =
        all.iter().filter(is_labelled).filter_map(|object| plan_hash(&object.name)).map(str::to_owned).collect();
    if plans.is_empty() {
        return Ok(Stopped::Unknown);
    }
    // systemd stops its own units. If a container were removed behind its back, the unit would fail.
    let units: BTreeSet<&str> = all.iter().filter(is_labelled).filter_map(|object| object.unit.as_deref()).collect();
    for unit in &units {
        systemd::stop(unit)?;
    }
    let all = if units.is_empty() { all } else { list(podman)? };
    // Infra containers and the volumes of `ConfigMap`s have no label, but have the plan's hash in their names.
    let theirs = |object: &Object| plan_hash(&object.name).is_some_and(|plan| plans.contains(plan));
    let objects: Vec<Object> = all.into_iter().filter(theirs).collect();
    let left = remove(podman, &objects);
    Ok(if left.is_empty() { Stopped::Ended } else { Stopped::Left(left) })
}

/// Sends SIGTERM, and after a long wait SIGKILL, until the session's lock is free.
fn ask(registry: &Registry, record: &Record) -> Result<(), RuntimeError> {
    let gone = || Ok::<_, RuntimeError>(registry.find(&record.session)?.is_none_or(|now| now.pid != record.pid));
    let Some(runner) = Process::open(record.pid) else { return Ok(()) };
    // Checked again while the descriptor is held, so that the number cannot have been reused in between.
    if gone()? {
        return Ok(());
    }
    let start = Instant::now();
    for (signal, until) in [(Signal::TERM, PATIENCE), (Signal::KILL, PATIENCE + Duration::from_secs(5))] {
        runner.signal(signal);
        while start.elapsed() < until {
            if gone()? {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
    Err(RuntimeError::Host(format!("the runner of {}, process {}, does not stop", record.session, record.pid)))
}
