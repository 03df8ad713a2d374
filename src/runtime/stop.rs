//! Ending a session that somebody else runs.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::RuntimeError;
use super::gc::{Scope, sweep};
use super::objects::{Object, list, remove};
use super::podman::Podman;
use super::registry::{Record, Registry};
use super::systemd;

/// How long a runner may take to tear down before it is killed and its session removed from here.
const PATIENCE: Duration = Duration::from_secs(60);

/// How it went.
#[derive(Debug)]
pub enum Stopped {
    /// It is gone.
    Ended,
    /// There is none of that name.
    Unknown,
    /// It ended, but this is left.
    Left(Vec<String>),
}

/// Asks the runner to end it; without one, removes what carries the session's label, whoever made it: it was named.
pub fn stop(podman: &Podman, registry: &Registry, session: &str) -> Result<Stopped, RuntimeError> {
    let alive = registry.find(session)?;
    if let Some(record) = &alive {
        ask(registry, record)?;
    }
    let swept = sweep(podman, registry, Scope::Session(session), false)?;
    if !swept.left.is_empty() {
        return Ok(Stopped::Left(swept.left));
    }
    if alive.is_some() || !swept.sessions.is_empty() {
        return Ok(Stopped::Ended);
    }
    let all = list(podman)?;
    let is_labelled = |object: &&Object| object.session.as_deref() == Some(session);
    let plans: Vec<String> = all.iter().filter(is_labelled).filter_map(|object| plan_of(&object.name)).collect();
    if plans.is_empty() && !all.iter().any(|object| is_labelled(&object)) {
        return Ok(Stopped::Unknown);
    }
    // What systemd runs is ended by systemd: removed behind its back, it would count as failed.
    let units: BTreeSet<&str> = all
        .iter()
        .filter(is_labelled)
        .filter_map(|object| object.unit.as_deref())
        .filter(|unit| is_ours(unit))
        .collect();
    for unit in &units {
        systemd::stop(unit)?;
    }
    let all = if units.is_empty() { all } else { list(podman)? };
    // Infra containers and the volumes of `ConfigMap`s carry no label, but the plan's hash in their names.
    let theirs = |object: &Object| plan_of(&object.name).is_some_and(|plan| plans.contains(&plan));
    let objects: Vec<Object> = all.into_iter().filter(|object| is_labelled(&object) || theirs(object)).collect();
    let left = remove(podman, &objects);
    Ok(if left.is_empty() { Stopped::Ended } else { Stopped::Left(left) })
}

/// The name of a unit that `emit` could have given; a label is anybody's to set.
fn is_ours(unit: &str) -> bool {
    plan_of(unit).is_some_and(|hash| unit == format!("sandboxc-{hash}-agent.service"))
}

/// SIGTERM, and after a long while SIGKILL, until the session's lock is free.
fn ask(registry: &Registry, record: &Record) -> Result<(), RuntimeError> {
    let gone = || Ok::<_, RuntimeError>(registry.find(&record.session)?.is_none_or(|now| now.pid != record.pid));
    let Some(Ok(runner)) = Pid::from_raw(record.pid).map(|pid| pidfd_open(pid, PidfdFlags::empty())) else {
        return Ok(());
    };
    // Asked again with the descriptor in hand: the number cannot have become somebody else's in between.
    if gone()? {
        return Ok(());
    }
    let start = Instant::now();
    for (signal, until) in [(Signal::TERM, PATIENCE), (Signal::KILL, PATIENCE + Duration::from_secs(5))] {
        // Ended meanwhile, which is what is wanted.
        let _ = pidfd_send_signal(&runner, signal);
        while start.elapsed() < until {
            if gone()? {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
    Err(RuntimeError::Host(format!("the runner of {}, process {}, does not end", record.session, record.pid)))
}

/// The hash in the name of anything that a plan made, whoever applied it.
fn plan_of(name: &str) -> Option<String> {
    let rest = name.strip_prefix("sandboxc-run-").or_else(|| name.strip_prefix("sandboxc-"))?;
    let (hash, rest) = rest.split_at_checked(12)?;
    (rest.starts_with('-') && hash.bytes().all(|b| b.is_ascii_hexdigit())).then(|| hash.to_owned())
}
