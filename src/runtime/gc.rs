//! Removes what dead sessions left behind.
//!
//! A session is dead if its runner's lock is free. What a runner created but no directory records (the machine was
//! rebooted in between) belongs to a dead session, too. Everything that no runner created is left alone: a script, a
//! unit or a manifest that was played by hand has no lock that would show whether it is in use.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use super::RuntimeError;
use super::objects::{Object, Owners, list, remove};
use super::orphans::await_calls;
use super::podman::{EMPTY, Podman};
use super::registry::{Dead, Registry};

/// How often to ask podman. What podman itself is cleaning up cannot be removed at the same time.
const ROUNDS: u32 = 4;

/// Whose leftovers to remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leftovers<'a> {
    /// Those of all dead sessions.
    All,
    /// Those of this dead session.
    Session(&'a str),
}

/// What a sweep removed, or would remove.
#[derive(Debug, Default)]
pub struct Swept {
    /// Dead sessions that had a directory, sorted.
    pub sessions: Vec<String>,
    /// What was removed, or would be, sorted.
    pub objects: Vec<Object>,
    /// What could not be removed, and why.
    pub left: Vec<String>,
}

/// Finds leftovers and removes them; with `dry_run`, only finds them.
pub fn sweep(podman: &Podman, registry: &Registry, scope: Leftovers<'_>, dry_run: bool) -> Result<Swept, RuntimeError> {
    let dead: Vec<Dead> = registry.dead()?.into_iter().filter(|dead| scope.covers(&session_of(dead))).collect();
    let mut swept = Swept { sessions: dead.iter().map(session_of).collect(), ..Swept::default() };
    swept.sessions.sort();
    if !dry_run {
        thread::scope(|scope| dead.iter().for_each(|dead| drop(scope.spawn(|| await_calls(&dead.dir.join(EMPTY))))));
    }
    let found = left_over(podman, registry, scope, &dead)?;
    swept.objects.clone_from(&found);
    if dry_run {
        return Ok(swept);
    }
    swept.left = remove_all(podman, registry, scope, &dead, found)?;
    // A session with something left keeps its directory, so that the next sweep tries again.
    if swept.left.is_empty() {
        dead.into_iter().try_for_each(|dead| registry.bury(dead))?;
    }
    Ok(swept)
}

impl Leftovers<'_> {
    fn covers(self, session: &str) -> bool {
        match self {
            Self::All => true,
            Self::Session(only) => only == session,
        }
    }
}

/// A directory has the name of its session.
fn session_of(dead: &Dead) -> String {
    dead.dir.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// podman is asked before the registry: a runner registers before it creates anything that podman could list.
fn left_over(
    podman: &Podman,
    registry: &Registry,
    scope: Leftovers<'_>,
    dead: &[Dead],
) -> Result<Vec<Object>, RuntimeError> {
    let all = list(podman)?;
    let ours: BTreeSet<String> = dead.iter().map(session_of).collect();
    let held = registry.held()?.into_iter().filter(|record| !ours.contains(&record.session));
    let owners = Owners {
        living: held.flat_map(|record| record.plans).collect(),
        dead_plans: dead.iter().filter_map(|dead| dead.record.as_ref()).flat_map(|r| r.plans.clone()).collect(),
        only_named: scope != Leftovers::All,
    };
    let mut objects: Vec<Object> = all.into_iter().filter(|object| owners.is_left_over(object)).collect();
    objects.sort();
    Ok(objects)
}

fn remove_all(
    podman: &Podman,
    registry: &Registry,
    scope: Leftovers<'_>,
    dead: &[Dead],
    mut found: Vec<Object>,
) -> Result<Vec<String>, RuntimeError> {
    let mut failures = Vec::new();
    for round in 0..ROUNDS {
        if found.is_empty() {
            return Ok(Vec::new());
        }
        if round > 0 {
            thread::sleep(Duration::from_millis(250));
        }
        failures = remove(podman, &found);
        if failures.is_empty() && !found.iter().any(|object| object.with_pod) {
            return Ok(Vec::new());
        }
        found = left_over(podman, registry, scope, dead)?;
    }
    if found.is_empty() {
        return Ok(Vec::new());
    }
    failures.extend(found.iter().map(|object| format!("could not remove the {} {}", object.kind.word(), object.name)));
    Ok(failures)
}
