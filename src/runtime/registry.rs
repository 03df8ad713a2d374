//! Every session of this user that has a runner: one directory each under the user's runtime directory.
//!
//! Invariants: a session lives as long as its runner, which holds the lock in its directory and never hands it to a
//! child. Directories appear, vanish and are asked about only under one lock of the whole registry, so nobody takes a
//! session for dead that is just being made, and nobody locks a file that was just removed.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::RuntimeError;

/// Where a session is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Being set up.
    Starting,
    /// The command runs.
    Running,
    /// Being taken down.
    Ending,
}

impl Stage {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Ending => "ending",
        }
    }
}

/// What a runner says about its session, for `ps`, `stop` and whoever cleans up after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Id of the session.
    pub session: String,
    /// The directory of the host that the agent sees.
    pub workspace: PathBuf,
    /// The agent's image.
    pub image: String,
    /// Seconds since the epoch.
    pub since: u64,
    /// The runner.
    pub pid: i32,
    /// Where it is.
    pub stage: Stage,
    /// Hashes of the plans it has tried, which are part of every name; the last one is in force.
    pub plans: Vec<String>,
}

/// The directory of all sessions.
#[derive(Clone, Debug)]
pub struct Registry {
    dir: PathBuf,
    fresh: bool,
}

/// A session whose runner is gone. Its lock is held here, so that no two clean up after it.
#[derive(Debug)]
pub struct Dead {
    /// Its directory.
    pub dir: PathBuf,
    /// What it said about itself, if it got that far.
    pub record: Option<Record>,
    _lock: File,
}

impl Registry {
    /// `<runtime_dir>/sandboxc`, made if missing.
    pub fn open(runtime_dir: &Path) -> Result<Self, RuntimeError> {
        let dir = runtime_dir.join("sandboxc");
        let fresh = !dir.join(".lock").exists();
        let registry = Self { dir, fresh };
        let empty = registry.empty_dir();
        let doing = RuntimeError::io(format!("making {}", empty.display()));
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&empty).map_err(doing)?;
        Ok(registry)
    }

    /// True for the first one since the login or the start of the machine: what a former life left has no directory.
    pub fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// The directory of a session.
    pub fn session_dir(&self, session: &str) -> PathBuf {
        self.dir.join(session)
    }

    /// Where podman runs when it is asked about no session in particular.
    pub fn empty_dir(&self) -> PathBuf {
        self.dir.join(".empty")
    }

    /// The lock of the registry; held for moments only.
    pub fn guard(&self) -> Result<File, RuntimeError> {
        let path = self.dir.join(".lock");
        let doing = || RuntimeError::io(format!("locking {}", path.display()));
        let file = open_lock(&path).map_err(doing())?;
        flock(&file, FlockOperation::LockExclusive).map_err(|error| doing()(error.into()))?;
        Ok(file)
    }

    /// A turn to set a session up, given back when dropped. More at once than the machine has hands only get into each
    /// other's way: fifty starts side by side took longer than one after the other, and ran out of kernel keys.
    pub fn turn(&self, may_go_on: &dyn Fn() -> Result<(), RuntimeError>) -> Result<File, RuntimeError> {
        let turns = 2 * thread::available_parallelism().map_or(2, usize::from);
        loop {
            for index in 0..turns {
                let path = self.dir.join(format!(".turn-{index}"));
                let file = open_lock(&path).map_err(RuntimeError::io(format!("locking {}", path.display())))?;
                if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                    return Ok(file);
                }
            }
            may_go_on()?;
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// The sessions whose runner is gone, each now held by the caller.
    pub fn dead(&self) -> Result<Vec<Dead>, RuntimeError> {
        let _guard = self.guard()?;
        Ok(self.session_dirs().into_iter().filter_map(take_if_dead).collect())
    }

    /// True if some runner is gone.
    pub fn has_dead(&self) -> Result<bool, RuntimeError> {
        let _guard = self.guard()?;
        Ok(self.session_dirs().into_iter().any(|dir| take_if_dead(dir).is_some()))
    }

    /// What the sessions say that somebody holds: their runner, or somebody who cleans up after one.
    pub fn held(&self) -> Result<Vec<Record>, RuntimeError> {
        let _guard = self.guard()?;
        let held = self.session_dirs().into_iter().filter(|dir| take_if_dead(dir.clone()).is_none());
        let mut records: Vec<Record> = held.filter_map(|dir| read_record(&dir)).collect();
        records.sort_by(|a, b| (a.since, &a.session).cmp(&(b.since, &b.session)));
        Ok(records)
    }

    /// The session, if somebody holds it.
    pub fn find(&self, session: &str) -> Result<Option<Record>, RuntimeError> {
        Ok(self.held()?.into_iter().find(|record| record.session == session))
    }

    /// Removes the directory of a dead session, and lets go of its lock.
    pub fn bury(&self, dead: Dead) -> Result<(), RuntimeError> {
        let _guard = self.guard()?;
        let doing = RuntimeError::io(format!("removing {}", dead.dir.display()));
        let removed = fs::remove_dir_all(&dead.dir).map_err(doing);
        drop(dead);
        removed
    }

    fn session_dirs(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let is_session = |path: &PathBuf| {
            let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
            !hidden && fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir())
        };
        entries.map(|entry| entry.path()).filter(is_session).collect()
    }
}

fn take_if_dead(dir: PathBuf) -> Option<Dead> {
    let lock = open_lock(&dir.join("lock")).ok()?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(Dead { record: read_record(&dir), dir, _lock: lock })
}

/// Opens a lock file, never through a link. Not inherited by children: a container must not keep a session alive.
pub(super) fn open_lock(path: &Path) -> std::io::Result<File> {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .custom_flags(i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0))
        .open(path)
}

fn read_record(dir: &Path) -> Option<Record> {
    serde_json::from_slice(&fs::read(dir.join("session.json")).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::super::state::State;
    use super::*;

    fn record(session: &str) -> Record {
        Record {
            session: session.to_owned(),
            workspace: PathBuf::from("/w"),
            image: "i".to_owned(),
            since: 1,
            pid: 1,
            stage: Stage::Starting,
            plans: Vec::new(),
        }
    }

    #[test]
    fn a_session_lives_as_long_as_its_lock_is_held() {
        let dir = tempfile::tempdir().unwrap();
        let registry = Registry::open(dir.path()).unwrap();
        assert!(registry.is_fresh() && !registry.has_dead().unwrap());
        assert!(!Registry::open(dir.path()).unwrap().is_fresh());
        let state = State::create(&registry, record("a")).unwrap();
        assert!(!registry.has_dead().unwrap());
        assert_eq!(registry.held().unwrap().len(), 1);
        assert!(State::create(&registry, record("a")).is_err(), "two of one name");
        drop(state);
        assert!(!registry.session_dir("a").exists());
    }

    #[test]
    fn a_dead_one_is_held_by_whoever_found_it_and_then_gone() {
        let dir = tempfile::tempdir().unwrap();
        let registry = Registry::open(dir.path()).unwrap();
        // Died before it had a lock, and before it said anything.
        fs::create_dir(registry.session_dir("b")).unwrap();
        State::create(&registry, record("c")).unwrap().leave();
        let mut dead = registry.dead().unwrap();
        assert_eq!(dead.len(), 2);
        assert!(registry.dead().unwrap().is_empty(), "found twice at once");
        dead.sort_by(|a, b| a.dir.cmp(&b.dir));
        assert_eq!(dead[1].record.as_ref().unwrap().session, "c");
        for dead in dead {
            registry.bury(dead).unwrap();
        }
        assert!(!registry.has_dead().unwrap() && !registry.session_dir("b").exists());
    }
}
