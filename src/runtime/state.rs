//! The directory of the session that this process runs (on a tmpfs, outside of every mount), with its lock.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::RuntimeError;
use super::lock::Lock;
use super::podman::EMPTY;
use super::registry::{Changeable, Entrance, Record, Registry, Stage, VISITS, discard};
use crate::plan::trust;

/// How often to create a directory again that disappears because its previous session ends.
const TRIES: usize = 100;

/// A session's directory. It is removed when this is dropped.
#[derive(Debug)]
pub struct State {
    dir: PathBuf,
    session: String,
    record: Mutex<Record>,
    left: AtomicBool,
    _lock: Lock,
}

impl State {
    /// Creates the session's directory and takes its lock, which the kernel releases when the process ends.
    pub fn create(registry: &Registry, record: Record) -> Result<Self, RuntimeError> {
        Self::create_with(registry, record, |state| state.change(|_| ()))
    }

    /// Creates the directory, and removes it again if `first` fails.
    pub(super) fn create_with(
        registry: &Registry,
        record: Record,
        first: impl FnOnce(&Self) -> Result<(), RuntimeError>,
    ) -> Result<Self, RuntimeError> {
        registry.check_room()?;
        let dir = registry.session_dir(&record.session);
        let _guard = registry.guard()?;
        let lock = take(&dir, &record.session)?;
        let (session, record) = (record.session.clone(), Mutex::new(record));
        // Dropping this takes no lock, so an error from here on leaves nothing behind and waits for nothing.
        let state = Self { dir, session, record, left: false.into(), _lock: lock };
        fs::create_dir_all(state.empty_dir()).map_err(RuntimeError::io(format!("making {}", state.dir.display())))?;
        first(&state)?;
        Ok(state)
    }

    /// The session's directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The working directory of podman. Whatever runs there belongs to this session (see `gc`).
    pub fn empty_dir(&self) -> PathBuf {
        self.dir.join(EMPTY)
    }

    /// The log of one of the pods' services, `router` or `forwarder`.
    pub fn log(&self, service: &str) -> PathBuf {
        log_file(&self.dir, service)
    }

    /// The session's id.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// Records which plan is tried next. Must be called before anything of it is created.
    pub fn add_plan(&self, hash: &str) -> Result<(), RuntimeError> {
        self.change(|record| record.plans.push(hash.to_owned()))
    }

    /// Whether nobody visits the session; nobody will as long as the result is held.
    pub fn unvisited(&self) -> Option<Lock> {
        Lock::try_take(&self.dir().join(VISITS)).ok()?
    }

    /// Records that the command may start, how others get in beside it, and how its policy can change. Errors are ignored, as for the stage.
    pub fn run(&self, entrance: Entrance, live: Option<Changeable>) {
        let _ = self.change(|record| {
            record.stage = Stage::Running;
            record.entrance = Some(entrance);
            record.live = live;
        });
    }

    /// Records the session's stage. It is only informational, so errors are ignored.
    pub fn enter(&self, stage: Stage) {
        let _ = self.change(|record| record.stage = stage);
    }

    /// Makes the place where router and forwarder meet: for their user, who is nobody of this host. What is above it lets
    /// nobody in.
    pub fn make_handover(&self) -> Result<(), RuntimeError> {
        let path = trust::handover_dir(&self.dir);
        let made = fs::create_dir(&path).and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o777)));
        made.map_err(RuntimeError::io(format!("making {}", path.display())))
    }

    /// Stores a copy of what was applied, for a cleanup after a crash.
    pub fn keep_manifest(&self, text: &str) -> Result<(), RuntimeError> {
        fs::write(self.dir.join("kube.yaml"), text).map_err(RuntimeError::io("storing the manifest"))
    }

    /// Stores a copy of the router's policy, which `allow` extends.
    pub fn keep_policy(&self, text: &str) -> Result<(), RuntimeError> {
        keep_policy(&self.dir, text)
    }

    /// Stores the agent's seccomp profile where podman can read it, and returns its path.
    pub fn keep_profile(&self, text: &str) -> Result<PathBuf, RuntimeError> {
        let path = self.dir.join(super::seccomp::FILE);
        fs::write(&path, text).map_err(RuntimeError::io("storing the seccomp profile"))?;
        Ok(path)
    }

    /// Keeps the directory: something of the session is left, which the next cleanup will find.
    pub fn leave(&self) {
        self.left.store(true, Ordering::Relaxed);
    }

    /// Whether something is left.
    pub fn is_left(&self) -> bool {
        self.left.load(Ordering::Relaxed)
    }

    fn change(&self, change: impl FnOnce(&mut Record)) -> Result<(), RuntimeError> {
        let mut record = self.record.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        change(&mut record);
        self.write(&record)
    }

    /// Renames the file into place, so that nobody reads half of it.
    fn write(&self, record: &Record) -> Result<(), RuntimeError> {
        let doing = || RuntimeError::io("writing the session's record");
        let text = serde_json::to_vec(record).map_err(std::io::Error::from).map_err(doing())?;
        let beside = self.dir.join("session.json.new");
        fs::write(&beside, text).map_err(doing())?;
        fs::rename(&beside, self.dir.join("session.json")).map_err(doing())
    }
}

/// Creates the directory of a session and takes its lock. The caller holds the registry's lock.
fn take(dir: &Path, session: &str) -> Result<Lock, RuntimeError> {
    let doing = || RuntimeError::io(format!("making {}", dir.display()));
    for _ in 0..TRIES {
        let made = match fs::DirBuilder::new().mode(0o700).create(dir) {
            Ok(()) => true,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => false,
            Err(error) => return Err(doing()(error)),
        };
        match Lock::try_take(&dir.join("lock")) {
            Ok(Some(lock)) if made => return Ok(lock),
            // The directory of a dead session; its keys and records are not ours.
            Ok(Some(_lock)) => discard(dir).map_err(doing())?,
            Ok(None) => return Err(RuntimeError::Host(format!("the session {session} is already running"))),
            // Its session has just ended.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(doing()(error)),
        }
    }
    Err(RuntimeError::Host(format!("{} disappears whenever it is created", dir.display())))
}

/// The name of the policy in force in a session's directory.
pub(super) const POLICY: &str = "policy.json";

/// Renames the file into place, so that nobody reads half of it.
pub(super) fn keep_policy(dir: &Path, text: &str) -> Result<(), RuntimeError> {
    let beside = dir.join("policy.json.new");
    let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, dir.join(POLICY)));
    written.map_err(RuntimeError::io("storing the policy in force"))
}

/// The path of a service's log in a session's directory.
pub(super) fn log_file(dir: &Path, service: &str) -> PathBuf {
    dir.join(format!("{service}.log"))
}

impl Drop for State {
    fn drop(&mut self) {
        if self.is_left() {
            return;
        }
        // The next `gc`, or the end of the login, removes what cannot be removed now.
        let _ = discard(&self.dir);
    }
}
