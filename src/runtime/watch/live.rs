//! Watches the workspace while the command runs. Renames whatever appears at a name that git on the host would act on,
//! and raises an alarm.
//!
//! Events of the kernel (inotify(7)) only tell where to look; what counts is what is there. So if a flood of events
//! makes the kernel drop some, everything is examined, and if the kernel provides no watches, a timer replaces them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

use super::place::{Broken, WatchedName, set_aside};
use super::shown_path;
use super::tracked::{Gitlinks, Tracked};
use crate::config::Workspace;
use crate::config::disk::Tree;
use crate::runtime::RuntimeError;

/// The pause between two examinations while events keep coming.
const PAUSE: Duration = Duration::from_millis(20);

/// The interval at which everything is examined that the kernel does not watch: unwatched names, the index, and all
/// names.
const SLOW: Duration = Duration::from_millis(500);

/// How many events are read before examining.
const EVENTS: usize = 4096;

/// How often something is renamed. A command that keeps planting has been reported.
const ASIDES: usize = 200;

/// A watch that runs until [`Watch::finish`].
#[derive(Debug)]
pub struct Watch {
    alarms: Arc<Mutex<Vec<String>>>,
    /// Becomes readable when there is an alarm.
    raised: UnixStream,
    /// The thread ends when this is closed.
    stop: UnixStream,
    thread: JoinHandle<()>,
}

impl Watch {
    /// Examines everything once and continues to watch. `held` means that mounts protect the protected parts.
    pub fn start(tree: Arc<Tree>, workspace: &Workspace, held: bool) -> Result<Self, RuntimeError> {
        let doing = || RuntimeError::io("watching the workspace");
        let (raised, raise) = UnixStream::pair().map_err(doing())?;
        let (stop, stopped) = UnixStream::pair().map_err(doing())?;
        raise.set_nonblocking(true).map_err(doing())?;
        stopped.set_nonblocking(true).map_err(doing())?;
        let alarms = Arc::default();
        let mut eyes = Eyes::new(tree, workspace, held, Arc::clone(&alarms), raise);
        eyes.look(true);
        let thread = thread::Builder::new().name("watch".to_owned()).spawn(move || eyes.run(&stopped));
        Ok(Self { alarms, raised, stop, thread: thread.map_err(doing())? })
    }

    /// Becomes readable when there is an alarm.
    pub fn raised(&self) -> &UnixStream {
        &self.raised
    }

    /// Examines everything once more and ends. Returns all alarms in chronological order.
    pub fn finish(self) -> Vec<String> {
        drop(self.stop);
        // A watch that ended for another reason is an alarm, too.
        let died = self.thread.join().is_err();
        let mut alarms = self.alarms.lock().unwrap_or_else(PoisonError::into_inner).clone();
        alarms.extend(died.then(|| "internal: the watch ended early, so changes may have been missed".to_owned()));
        alarms
    }
}

/// A directory with names of interest.
#[derive(Debug, Default)]
struct Watched {
    places: Vec<usize>,
    tracked: Option<usize>,
    has_index: bool,
}

struct Eyes {
    tree: Arc<Tree>,
    inotify: Option<OwnedFd>,
    places: Vec<WatchedName>,
    tracked: Vec<Tracked>,
    links: Gitlinks,
    directories: BTreeMap<PathBuf, Watched>,
    /// Directories by the kernel's watch descriptor.
    watches: BTreeMap<i32, PathBuf>,
    /// Directories without a watch.
    unwatched: BTreeSet<PathBuf>,
    /// What must be examined.
    dirty: BTreeSet<PathBuf>,
    index_dirty: bool,
    overflow: bool,
    slow: Instant,
    asides: usize,
    alarms: Arc<Mutex<Vec<String>>>,
    raise: UnixStream,
}

impl Eyes {
    fn new(
        tree: Arc<Tree>,
        workspace: &Workspace,
        held: bool,
        alarms: Arc<Mutex<Vec<String>>>,
        raise: UnixStream,
    ) -> Self {
        // If there is no inotify instance left (the limit is 128 per user), a timer is used.
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok();
        let places = WatchedName::all(&tree, workspace, held);
        let (tracked, links) = match workspace.read_only {
            true => (Vec::new(), Gitlinks::new(&tree, &Workspace { repositories: Vec::new(), ..workspace.clone() })),
            false => (Tracked::all(&tree, workspace), Gitlinks::new(&tree, workspace)),
        };
        let mut directories: BTreeMap<PathBuf, Watched> = BTreeMap::new();
        for (index, place) in places.iter().enumerate() {
            directories.entry(place.directory().to_owned()).or_default().places.push(index);
        }
        for (index, one) in tracked.iter().enumerate() {
            directories.entry(one.path.clone()).or_default().tracked = Some(index);
        }
        for directory in links.directories() {
            directories.entry(directory.to_owned()).or_default().has_index = true;
        }
        let unwatched = directories.keys().cloned().collect();
        let (watches, dirty) = (BTreeMap::new(), BTreeSet::new());
        let (index_dirty, overflow, slow, asides) = (false, false, Instant::now(), 0);
        let mut eyes = Self {
            tree,
            inotify,
            places,
            tracked,
            links,
            directories,
            watches,
            unwatched,
            dirty,
            index_dirty,
            overflow,
            slow,
            asides,
            alarms,
            raise,
        };
        eyes.watch_directories();
        eyes
    }

    /// Asks the kernel to watch whatever it does not watch yet.
    fn watch_directories(&mut self) {
        let Some(inotify) = &self.inotify else { return };
        let names = WatchFlags::CREATE | WatchFlags::MOVED_TO;
        let all = names | WatchFlags::MOVED_FROM | WatchFlags::DELETE | WatchFlags::MODIFY | WatchFlags::ATTRIB;
        for path in std::mem::take(&mut self.unwatched) {
            let has_places = self.directories.get(&path).is_some_and(|one| !one.places.is_empty() || one.has_index);
            let flags = if has_places { all } else { names } | WatchFlags::ONLYDIR | WatchFlags::EXCL_UNLINK;
            // By the opened directory, whatever its name refers to by now.
            let added = self.tree.directory(&path).ok().and_then(|directory| {
                inotify::add_watch(inotify, format!("/proc/self/fd/{}", directory.as_raw_fd()), flags).ok()
            });
            match added {
                Some(watch) => drop(self.watches.insert(watch, path)),
                None => drop(self.unwatched.insert(path)),
            }
        }
    }

    fn run(mut self, stopped: &UnixStream) {
        while !self.wait(stopped) {
            self.take_events();
            let slow = self.slow.elapsed() >= SLOW;
            if slow {
                self.watch_directories();
            }
            self.look(slow && self.overflow);
            // Everything that arrives during the pause is handled at once.
            if wait_for(&[stopped], Some(PAUSE)) {
                break;
            }
        }
        self.take_events();
        self.index_dirty = true;
        self.slow = Instant::now().checked_sub(SLOW).unwrap_or(self.slow);
        self.look(true);
        if let Some(why) = self.links.unknown.take() {
            self.alarm(format!("cannot tell which repositories `git status` enters: {why}"));
        }
    }

    /// Returns true when the watch should end.
    fn wait(&self, stopped: &UnixStream) -> bool {
        let waits = self.index_dirty || self.overflow || !self.unwatched.is_empty() || !self.links.new.is_empty();
        let timeout = waits.then(|| SLOW.saturating_sub(self.slow.elapsed()));
        match &self.inotify {
            Some(inotify) => {
                let mut fds = [PollFd::new(stopped, PollFlags::IN), PollFd::new(inotify, PollFlags::IN)];
                let _ = poll(&mut fds, timespec(timeout).as_ref());
                !fds[0].revents().is_empty()
            }
            None => wait_for(&[stopped], Some(SLOW)),
        }
    }

    fn take_events(&mut self) {
        let Some(inotify) = &self.inotify else { return };
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut reader = inotify::Reader::new(inotify, &mut buffer);
        let mut seen: BTreeSet<(i32, OsString)> = BTreeSet::new();
        let mut gone = Vec::new();
        let mut taken = 0;
        // Handle the events that were already read.
        while taken < EVENTS || !reader.is_buffer_empty() {
            taken += 1;
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::INTR) => continue,
                Err(_) => break,
            };
            let flags = event.events();
            if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                self.overflow = true;
            } else if flags.contains(ReadFlags::IGNORED) {
                gone.push(event.wd());
            } else {
                let name = event.file_name().map(|name| OsString::from_vec(name.to_bytes().to_vec()));
                let came = flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO);
                self.dirty.extend(self.watches.get(&event.wd()).cloned());
                if let Some(name) = name {
                    self.index_dirty |= name == "index" || name.as_encoded_bytes().starts_with(b"sharedindex.");
                    if came {
                        seen.insert((event.wd(), name));
                    }
                }
            }
        }
        for (watch, name) in seen {
            self.came(watch, &name);
        }
        for watch in gone {
            // The directory was removed; one with the same name is a different one.
            if let Some(path) = self.watches.remove(&watch)
                && self.directories.get(&path).is_some_and(|one| !one.places.is_empty() || one.has_index)
            {
                self.unwatched.insert(path);
            }
        }
    }

    /// A name that must not exist appeared, even if it is gone by now.
    fn came(&mut self, watch: i32, name: &OsStr) {
        let Some(path) = self.watches.get(&watch) else { return };
        let Some(one) = self.directories.get(path) else { return };
        let by_place = one.places.iter().filter_map(|&index| self.places.get(index)).any(|place| place.is_absent(name));
        let by_directory = one.tracked.and_then(|index| self.tracked.get(index)).is_some_and(|one| one.forbids(name));
        if by_place || by_directory {
            let path = path.join(name);
            if matches!(self.tree.look(&path), Ok(None)) {
                let path = super::shown(&path.display().to_string());
                self.alarm(format!("`{path}` appeared for a moment; git on this host would have acted on it"));
            }
        }
    }

    /// Examines what has changed, or everything.
    fn look(&mut self, everything: bool) {
        let dirty = std::mem::take(&mut self.dirty);
        let slow = everything || self.slow.elapsed() >= SLOW;
        let paths: Vec<PathBuf> = match everything {
            true => self.directories.keys().cloned().collect(),
            false if slow => dirty.union(&self.unwatched).cloned().collect(),
            false => dirty.into_iter().collect(),
        };
        for path in paths {
            self.look_into(&path);
        }
        if slow {
            self.slow = Instant::now();
            self.overflow &= !everything;
            if std::mem::take(&mut self.index_dirty) {
                self.links.read(&self.tree);
            }
            while let Some(broken) = self.links.check(&self.tree) {
                if !self.broken(&broken) {
                    break;
                }
            }
        }
    }

    fn look_into(&mut self, path: &Path) {
        let Some(one) = self.directories.get(path) else { return };
        let (places, tracked) = (one.places.clone(), one.tracked);
        let mut all = Vec::new();
        for index in places {
            all.extend(self.places.get_mut(index).and_then(|place| place.check(&self.tree)));
        }
        all.extend(tracked.and_then(|index| self.tracked.get_mut(index)).and_then(|one| one.check(&self.tree)));
        for broken in all {
            self.broken(&broken);
        }
    }

    /// Renames it and reports it. Returns false if it is still in place.
    fn broken(&mut self, broken: &Broken) -> bool {
        let is_there = matches!(self.tree.look(&broken.aside), Ok(Some(_)));
        let may = self.asides < ASIDES;
        self.asides += usize::from(may && is_there);
        let aside = if may && is_there { set_aside(&self.tree, &broken.aside) } else { None };
        if !broken.what.is_empty() {
            let now = match &aside {
                Some(path) => format!("; it was renamed to `{}`", super::shown(&shown_path(path))),
                None if is_there => "; IT COULD NOT BE RENAMED: remove it before you use git".to_owned(),
                None => String::new(),
            };
            self.alarm(format!("{}{now}", broken.what));
        }
        aside.is_some()
    }

    fn alarm(&mut self, what: String) {
        let mut alarms = self.alarms.lock().unwrap_or_else(PoisonError::into_inner);
        if alarms.len() < ASIDES && !alarms.contains(&what) {
            alarms.push(what);
        }
        // If the pipe is full, it is already readable.
        let _ = self.raise.write(&[1]);
    }
}

fn timespec(duration: Option<Duration>) -> Option<Timespec> {
    duration.map(|rest| Timespec {
        tv_sec: i64::try_from(rest.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: rest.subsec_nanos().into(),
    })
}

/// Returns true if one of them becomes readable or is closed in time.
fn wait_for(streams: &[&UnixStream], timeout: Option<Duration>) -> bool {
    let mut fds: Vec<PollFd<'_>> = streams.iter().map(|stream| PollFd::new(*stream, PollFlags::IN)).collect();
    let _ = poll(&mut fds, timespec(timeout).as_ref());
    fds.iter().any(|fd| !fd.revents().is_empty())
}
