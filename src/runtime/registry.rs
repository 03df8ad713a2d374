//! All sessions of this user that have a runner, one directory each below the user's runtime directory.
//!
//! Invariants: a session is alive as long as its runner, which holds the lock in its directory and never passes it to a
//! child. Directories are created and examined only under the registry's lock, so that a session being created is never
//! mistaken for a dead one. They disappear by a rename, which needs no lock: a session that ends does not wait for the
//! registry, and none of its files remains in place.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};

use super::RuntimeError;
use super::lock::{Lock, Wait};
use super::signals::Signals;

mod notes;
mod record;

pub use record::{Changeable, Entrance, Record, Stage};

/// How long to wait for the registry's lock. Each holder keeps it for moments.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a setup waits for its turn before it continues without one.
const TURN: Duration = Duration::from_secs(10 * 60);

/// How long a start waits for another one that builds its image: one build and its teardown.
const BUILD: Duration = Duration::from_secs(65 * 60);

/// The space that a session needs in the runtime directory: two logs of up to 16 MB, keys and certificates, and what
/// podman and its helpers store there.
const ROOM: u64 = 16 << 20;
const ENTRIES: u64 = 512;

/// The file in a session's directory that visitors lock.
pub(super) const VISITS: &str = "visits";

/// How long a visitor waits for a runner that is just checking whether there are visitors.
const VISIT_PATIENCE: Duration = Duration::from_secs(1);

/// The prefix of directories of ended sessions whose files are being removed.
const ENDED: &str = ".ended-";

/// The directory of all sessions.
#[derive(Clone, Debug)]
pub struct Registry {
    dir: PathBuf,
    fresh: bool,
    signals: Option<Arc<Signals>>,
}

/// A session whose runner is gone. Its lock is held, so that no two processes clean up after it.
#[derive(Debug)]
pub struct Dead {
    /// Its directory.
    pub dir: PathBuf,
    /// Its record, if the runner got that far.
    pub record: Option<Record>,
    _lock: Lock,
}

impl Registry {
    /// Opens `<runtime_dir>/sandboxc` and creates it if it is missing.
    pub fn open(runtime_dir: &Path) -> Result<Self, RuntimeError> {
        let dir = runtime_dir.join("sandboxc");
        let fresh = !dir.join(".lock").exists();
        let registry = Self { dir, fresh, signals: None };
        let empty = registry.empty_dir();
        let doing = RuntimeError::io(format!("making {}", empty.display()));
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&empty).map_err(doing)?;
        Ok(registry)
    }

    /// Whether this is the first process since login or reboot. Leftovers from before have no directory.
    pub fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// The directory of a session.
    pub fn session_dir(&self, session: &str) -> PathBuf {
        self.dir.join(session)
    }

    /// Announces a visit to a session that has a runner, as long as the result is held; `None` if there is no such session, or
    /// if it is ending because nobody visited it.
    pub fn visit(&self, session: &str) -> Option<Lock> {
        Lock::share(&self.session_dir(session).join(VISITS), Wait { most: VISIT_PATIENCE, may_go_on: &|| Ok(()) })
            .ok()?
    }

    /// The working directory of podman calls that concern no particular session.
    pub fn empty_dir(&self) -> PathBuf {
        self.dir.join(".empty")
    }

    /// Like `open`, for a setup: its waits end when a signal arrives.
    #[must_use]
    pub fn heeding(&self, signals: &Arc<Signals>) -> Self {
        Self { signals: Some(Arc::clone(signals)), ..self.clone() }
    }

    fn may_go_on(&self) -> Result<(), RuntimeError> {
        self.signals.as_ref().map_or(Ok(()), |signals| signals.check())
    }

    /// Takes the lock of the registry, which is only held for moments.
    pub fn guard(&self) -> Result<Lock, RuntimeError> {
        Lock::take(&self.dir.join(".lock"), Wait { most: PATIENCE, may_go_on: &|| self.may_go_on() })
    }

    /// Fails if there is no space for another session. Otherwise half-written logs and records would hide the cause.
    pub fn check_room(&self) -> Result<(), RuntimeError> {
        let doing = || format!("reading the free space of {}", self.dir.display());
        let stat = rustix::fs::statvfs(&self.dir).map_err(|error| RuntimeError::Io(doing(), error.into()))?;
        // A tmpfs without a limit reports a size of 0.
        let bytes = (stat.f_blocks > 0).then(|| stat.f_bavail.saturating_mul(stat.f_frsize));
        let entries = (stat.f_files > 0).then_some(stat.f_favail);
        self.has_room(bytes, entries)
    }

    fn has_room(&self, bytes: Option<u64>, entries: Option<u64>) -> Result<(), RuntimeError> {
        let (left, needed) = match (bytes, entries) {
            (Some(bytes), _) if bytes < ROOM => (format!("{bytes} bytes"), format!("{ROOM} bytes")),
            (_, Some(entries)) if entries < ENTRIES => (format!("{entries} files"), format!("{ENTRIES} files")),
            _ => return Ok(()),
        };
        Err(RuntimeError::Host(format!(
            "{} has space for {left}, but a sandbox needs {needed}: remove what dead sessions left there with `sandboxc gc`; \
             `du -a {}` shows the rest",
            self.dir.display(),
            self.dir.parent().unwrap_or(&self.dir).display()
        )))
    }

    /// Waits for a turn to set a session up; it ends when it is dropped. More setups at once than there are processors
    /// slow each other down: fifty in parallel took longer than one after the other and used up the kernel's keys.
    /// Returns `None` if none was free for so long that waiting does not help.
    pub fn turn(&self) -> Result<Option<Lock>, RuntimeError> {
        let turns = 2 * thread::available_parallelism().map_or(2, usize::from);
        let until = Instant::now() + TURN;
        while Instant::now() < until {
            for index in 0..turns {
                let path = self.dir.join(format!(".turn-{index}"));
                let taken = Lock::try_take(&path).map_err(RuntimeError::io(format!("locking {}", path.display())))?;
                if taken.is_some() {
                    return Ok(taken);
                }
            }
            self.may_go_on()?;
            thread::sleep(Duration::from_millis(20));
        }
        Ok(None)
    }

    /// Finds out which of these things have not been used since login: an image whose layers podman copies for other
    /// ids, or a volume that it creates with the first container. If two sessions do that at once, podman lets one of
    /// them fail. So the first one does it alone, and the others wait until it calls [`FirstUses::made`].
    pub fn first_uses<'a>(&self, things: impl IntoIterator<Item = &'a str>) -> Result<FirstUses, RuntimeError> {
        let mut firsts = FirstUses(Vec::new());
        // Everyone uses the same order, so that no two wait for each other.
        let names: BTreeSet<String> = things.into_iter().map(key).collect();
        for name in names {
            let made = self.dir.join(format!(".made-{name}"));
            if made.exists() {
                continue;
            }
            let wait = Wait { most: TURN, may_go_on: &|| self.may_go_on() };
            let lock = Lock::take(&self.dir.join(format!(".making-{name}")), wait)?;
            if !made.exists() {
                firsts.0.push((made, lock));
            }
        }
        Ok(firsts)
    }

    /// Whether this has been used since login, see [`Registry::first_uses`].
    pub fn is_used(&self, thing: &str) -> bool {
        self.dir.join(format!(".made-{}", key(thing))).exists()
    }

    /// Takes the lock of an image that is about to be built, so that several starts build it once.
    pub fn build(&self, reference: &str) -> Result<Lock, RuntimeError> {
        let wait = Wait { most: BUILD, may_go_on: &|| self.may_go_on() };
        Lock::take(&self.dir.join(format!(".building-{}", key(reference))), wait)
    }

    /// Makes the next use of something its first one again.
    pub fn forget_use(&self, thing: &str) {
        let _ = fs::remove_file(self.dir.join(format!(".made-{}", key(thing))));
    }

    /// The sessions whose runner is gone. The caller now holds their locks.
    pub fn dead(&self) -> Result<Vec<Dead>, RuntimeError> {
        let _guard = self.guard()?;
        self.finish_removals();
        Ok(self.session_dirs().into_iter().filter_map(take_if_dead).collect())
    }

    /// Whether some runner is gone.
    pub fn has_dead(&self) -> Result<bool, RuntimeError> {
        let _guard = self.guard()?;
        self.finish_removals();
        Ok(self.session_dirs().into_iter().any(|dir| take_if_dead(dir).is_some()))
    }

    /// The records of sessions whose lock is held, by their runner or by a cleanup.
    pub fn held(&self) -> Result<Vec<Record>, RuntimeError> {
        let _guard = self.guard()?;
        let held = self.session_dirs().into_iter().filter(|dir| take_if_dead(dir.clone()).is_none());
        let mut records: Vec<Record> = held.filter_map(|dir| read_record(&dir)).collect();
        records.sort_by(|a, b| (a.since, &a.session).cmp(&(b.since, &b.session)));
        Ok(records)
    }

    /// Returns the session if its lock is held.
    pub fn find(&self, session: &str) -> Result<Option<Record>, RuntimeError> {
        Ok(self.held()?.into_iter().find(|record| record.session == session))
    }

    /// Removes the directory of a dead session and releases its lock.
    pub fn bury(&self, dead: Dead) -> Result<(), RuntimeError> {
        let doing = RuntimeError::io(format!("removing {}", dead.dir.display()));
        let removed = discard(&dead.dir).map_err(doing);
        drop(dead);
        removed
    }

    /// Removes the rest of directories whose removal was interrupted, since they hold a session's keys.
    fn finish_removals(&self) {
        for entry in fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            if entry.file_name().as_encoded_bytes().starts_with(ENDED.as_bytes()) {
                // The process that removes it holds the lock until the lock file is gone, too.
                let held = matches!(Lock::try_take(&entry.path().join("lock")), Ok(None));
                let _ = if held { Ok(()) } else { fs::remove_dir_all(entry.path()) };
            }
        }
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

/// Things that this process uses first; their locks are held. If it gives up, the next process takes over.
#[derive(Debug)]
#[must_use]
pub struct FirstUses(pub(super) Vec<(PathBuf, Lock)>);

impl FirstUses {
    /// Records that everything exists now. If that fails, the next session does the work again.
    pub fn made(self) {
        for (path, _lock) in self.0 {
            let _ = Lock::try_take(&path);
        }
    }
}

/// Turns any text into a file name.
fn key(thing: &str) -> String {
    Sha256::digest(thing).iter().take(12).map(|byte| format!("{byte:02x}")).collect()
}

fn take_if_dead(dir: PathBuf) -> Option<Dead> {
    let lock = Lock::try_take(&dir.join("lock")).ok()??;
    Some(Dead { record: read_record(&dir), dir, _lock: lock })
}

/// Removes a session's directory, whose lock the caller holds: renames it, then deletes its files.
pub(super) fn discard(dir: &Path) -> std::io::Result<()> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let ended = dir.with_file_name(format!("{ENDED}{name}-{}-{count}", std::process::id()));
    fs::rename(dir, &ended)?;
    fs::remove_dir_all(&ended)
}

fn read_record(dir: &Path) -> Option<Record> {
    serde_json::from_slice(&fs::read(dir.join("session.json")).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

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
            entrance: None,
            live: None,
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
        // It died before it had a lock or a record.
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

    #[test]
    fn the_first_use_is_made_alone_and_the_others_wait_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let registry = Registry::open(dir.path()).unwrap();
        let count = std::sync::atomic::AtomicUsize::new(0);
        let alone = || {
            let first = registry.first_uses(["image a", "volume b"]).unwrap();
            if !first.0.is_empty() {
                assert_eq!(count.fetch_add(1, Ordering::SeqCst), 0, "two at once");
                thread::sleep(Duration::from_millis(50));
                count.store(if first.0.len() == 2 { 100 } else { 200 }, Ordering::SeqCst);
            }
            assert_eq!(count.load(Ordering::SeqCst), 100, "went on before it was made");
            first.made();
        };
        thread::scope(|scope| (0..8).for_each(|_| drop(scope.spawn(alone))));
        assert_eq!(registry.first_uses(["volume c", "image a"]).unwrap().0.len(), 1, "given up, and one that is made");
        assert_eq!(registry.first_uses(["volume c"]).unwrap().0.len(), 1, "so the next one goes first");
    }

    /// A directory that cannot be created completely, as on a full file system.
    #[test]
    fn a_session_that_cannot_be_made_or_ends_waits_for_no_lock() {
        let dir = tempfile::tempdir().unwrap();
        let registry = Registry::open(dir.path()).unwrap();
        let state = State::create(&registry, record("ends")).unwrap();
        let begin = Instant::now();
        let guard = registry.guard().unwrap();
        drop(state);
        assert!(!registry.session_dir("ends").exists(), "the registry's lock is held");
        drop(guard);
        fs::create_dir(registry.session_dir("half")).unwrap();
        fs::create_dir(registry.session_dir("half").join("session.json.new")).unwrap();
        assert!(State::create(&registry, record("half")).is_ok(), "a dead one's files are not in the way");
        // Its record cannot be written.
        let full = registry.session_dir("full");
        let said = State::create_with(&registry, record("full"), |_| Err(RuntimeError::Host("full".to_owned())));
        assert!(said.is_err() && !full.exists());
        assert!(registry.guard().is_ok(), "and the lock is free");
        assert!(begin.elapsed() < PATIENCE, "{:?}", begin.elapsed());
    }

    #[test]
    fn a_removal_that_was_killed_is_finished_and_one_that_goes_on_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let registry = Registry::open(dir.path()).unwrap();
        let (killed, going) = (registry.dir.join(".ended-a-1-0"), registry.dir.join(".ended-b-1-0"));
        for path in [&killed, &going] {
            fs::create_dir(path).unwrap();
            fs::write(path.join("key"), "secret").unwrap();
        }
        let lock = Lock::try_take(&going.join("lock")).unwrap().unwrap();
        assert!(!registry.has_dead().unwrap(), "neither is a session");
        assert!(!killed.exists() && going.join("key").exists());
        drop(lock);
        assert!(registry.dead().unwrap().is_empty() && !going.exists());
    }

    #[test]
    fn a_full_file_system_is_said_and_one_without_a_limit_is_not_full() {
        let dir = tempfile::tempdir().unwrap();
        let registry = Registry::open(dir.path()).unwrap();
        let said = |bytes, entries| registry.has_room(bytes, entries).map_err(|error| error.to_string());
        assert!(said(Some(ROOM - 1), Some(1 << 20)).unwrap_err().contains("space for 16777215 bytes"));
        assert!(said(Some(u64::MAX), Some(3)).unwrap_err().contains("space for 3 files"));
        assert_eq!((said(Some(ROOM), Some(ENTRIES)), said(None, None)), (Ok(()), Ok(())));
    }
}
