//! Locks between processes: files whose lock the kernel releases when their holder ends.
//!
//! Every wait is bounded, since a holder may be stopped, or wait for something itself.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::RuntimeError;

/// How often to retry a lock that is held.
const PAUSE: Duration = Duration::from_millis(10);

/// The limits of a wait.
#[derive(Clone, Copy)]
pub struct Wait<'a> {
    /// The time limit.
    pub most: Duration,
    /// Anything else that ends the wait, such as a signal.
    pub may_go_on: &'a dyn Fn() -> Result<(), RuntimeError>,
}

/// A lock that is held until this is dropped. Child processes do not inherit it.
#[derive(Debug)]
pub struct Lock(#[allow(dead_code, reason = "held for its lock")] File);

impl Lock {
    /// Takes the lock if it is free. Creates the file if it is missing; never opens it through a link.
    pub fn try_take(path: &Path) -> io::Result<Option<Self>> {
        Self::of(open(path)?)
    }

    /// Like `Lock::try_take`, for an existing file, such as one of our own descriptors by its path in `/proc`: a
    /// duplicate of the descriptor would share its lock.
    pub fn try_existing(path: &Path) -> io::Result<Option<Self>> {
        Self::of(File::open(path)?)
    }

    /// Shares the lock with others who share it, as soon as nobody holds it alone. `None` if the wait ends before that.
    pub fn share(path: &Path, wait: Wait<'_>) -> Result<Option<Self>, RuntimeError> {
        let until = Instant::now() + wait.most;
        let doing = || RuntimeError::io(format!("locking {}", path.display()));
        let file = open(path).map_err(doing())?;
        loop {
            match file.try_lock_shared() {
                Ok(()) => return Ok(Some(Self(file))),
                Err(TryLockError::Error(error)) => return Err(doing()(error)),
                Err(TryLockError::WouldBlock) => {}
            }
            (wait.may_go_on)()?;
            if Instant::now() >= until {
                return Ok(None);
            }
            thread::sleep(PAUSE);
        }
    }

    fn of(file: File) -> io::Result<Option<Self>> {
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Takes the lock as soon as it is free.
    pub fn take(path: &Path, wait: Wait<'_>) -> Result<Self, RuntimeError> {
        let until = Instant::now() + wait.most;
        loop {
            let doing = RuntimeError::io(format!("locking {}", path.display()));
            if let Some(lock) = Self::try_take(path).map_err(doing)? {
                return Ok(lock);
            }
            (wait.may_go_on)()?;
            if Instant::now() >= until {
                return Err(RuntimeError::Host(format!(
                    "another process has locked {} for {} s; `fuser {}` shows which one",
                    path.display(),
                    wait.most.as_secs(),
                    path.display()
                )));
            }
            thread::sleep(PAUSE);
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .custom_flags(i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0))
        .open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_by_time_by_a_signal_and_by_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = Lock::try_take(&path).unwrap().unwrap();
        assert!(Lock::try_take(&path).unwrap().is_none());
        let short = Wait { most: Duration::from_millis(30), may_go_on: &|| Ok(()) };
        let said = Lock::take(&path, short).unwrap_err().to_string();
        assert!(said.contains("another process has locked"), "{said}");
        let asked = Wait { most: Duration::from_secs(60), may_go_on: &|| Err(RuntimeError::Interrupted(15)) };
        assert!(matches!(Lock::take(&path, asked), Err(RuntimeError::Interrupted(15))));
        drop(held);
        Lock::take(&path, asked).unwrap();
    }

    #[test]
    fn a_shared_lock_excludes_only_those_who_want_it_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let most = Wait { most: Duration::from_millis(30), may_go_on: &|| Ok(()) };
        let one = Lock::share(&path, most).unwrap().unwrap();
        let two = Lock::share(&path, most).unwrap().unwrap();
        drop(one);
        assert!(Lock::try_take(&path).unwrap().is_none());
        drop(two);
        let alone = Lock::try_take(&path).unwrap().unwrap();
        assert!(Lock::share(&path, most).unwrap().is_none());
        let asked = Wait { most: Duration::from_secs(60), may_go_on: &|| Err(RuntimeError::Interrupted(15)) };
        assert!(matches!(Lock::share(&path, asked), Err(RuntimeError::Interrupted(15))));
        drop(alone);
        assert!(Lock::share(&path, most).unwrap().is_some());
    }

    #[test]
    fn a_link_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(dir.path().join("elsewhere"), dir.path().join("lock")).unwrap();
        assert!(Lock::try_take(&dir.path().join("lock")).is_err());
        assert!(!dir.path().join("elsewhere").exists());
    }
}
