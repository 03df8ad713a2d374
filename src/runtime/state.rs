//! The session's directory under the user's runtime directory (a tmpfs), outside every mount, with a lock.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::RuntimeError;

/// A session's directory. Removed when dropped, so that no way out leaves it behind.
#[derive(Debug)]
pub struct State {
    dir: PathBuf,
    _lock: File,
}

impl State {
    /// Makes `<runtime_dir>/sandboxc/<session>` and takes its lock, which the kernel frees with the process.
    pub fn create(runtime_dir: &Path, session: &str) -> Result<Self, RuntimeError> {
        let dir = runtime_dir.join("sandboxc").join(session);
        let what = format!("making {}", dir.display());
        let doing = || RuntimeError::io(what.clone());
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir).map_err(doing())?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .custom_flags(i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0))
            .open(dir.join("lock"))
            .map_err(doing())?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(RuntimeError::Host(format!("the session {session} is already running")));
        }
        let state = Self { dir, _lock: lock };
        fs::create_dir_all(state.empty_dir()).map_err(doing())?;
        Ok(state)
    }

    /// Where podman runs.
    pub fn empty_dir(&self) -> PathBuf {
        self.dir.join("empty")
    }

    /// The log of one of the pods' services, `router` or `forwarder`.
    pub fn log(&self, service: &str) -> PathBuf {
        self.dir.join(format!("{service}.log"))
    }

    /// Keeps a copy of what was applied, for whoever has to clean up after a crash.
    pub fn keep_manifest(&self, text: &str) -> Result<(), RuntimeError> {
        fs::write(self.dir.join("kube.yaml"), text).map_err(RuntimeError::io("keeping the manifest"))
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // A tmpfs of the user; what cannot be removed is removed at logout.
        let _ = fs::remove_dir_all(&self.dir);
    }
}
