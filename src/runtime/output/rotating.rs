//! A log that is held to a size: when it is full it becomes `FILE.1`, whose former content is dropped, and a new one begins.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat, openat2, renameat, statat};

use super::super::RuntimeError;
use super::super::lock::Lock;
use super::{Inside, NO_LINKS, append, open_dir, own_descriptor};

/// Bytes of a log; with the one before it, twice as many are on the disk.
const MOST: u64 = 64 << 20;

/// What is no longer in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Lines.
    pub lines: u64,
    /// Bytes, as far as they were ever written.
    pub bytes: u64,
}

/// A log of lines. Several processes may write to one; each follows when another one begins a new file.
#[derive(Debug)]
pub struct Rotating {
    file: File,
    /// Directory and name; none for a terminal and for descriptors of ours, which have no place of their own.
    place: Option<(OwnedFd, OsString)>,
    most: u64,
    /// Lines that could not be written, since the last one that says so.
    lost: u64,
    /// The last write ended within a line.
    cut: bool,
}

impl Rotating {
    /// Opens it as [`append`] does.
    pub fn open(path: &Path, inside: &Inside) -> Result<Self, RuntimeError> {
        Self::open_with(path, inside, MOST)
    }

    pub(super) fn open_with(path: &Path, inside: &Inside, most: u64) -> Result<Self, RuntimeError> {
        let file = append(path, inside)?;
        let is_file = file.metadata().is_ok_and(|meta| meta.is_file()) && own_descriptor(path).is_none();
        let place = match path.file_name().filter(|_| is_file) {
            Some(name) => {
                let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
                let failed =
                    |error: rustix::io::Errno| RuntimeError::Io(format!("opening {}", super::shown(dir)), error.into());
                Some((open_dir(CWD, &inside.place(dir)?).map_err(failed)?, name.to_owned()))
            }
            None => None,
        };
        Ok(Self { file, place, most, lost: 0, cut: false })
    }

    /// Writes a line. Where lines are missing before it, one that `says` how many comes first.
    pub fn line(&mut self, text: &str, says: impl Fn(Dropped) -> String) {
        match self.make_room(text.len() as u64 + 1) {
            Room::Here => {}
            Room::New(dropped) => drop(self.write(&says(dropped))),
            Room::Nowhere => {
                self.lost += 1;
                return;
            }
        }
        if self.lost > 0 && self.write(&says(Dropped { lines: self.lost, bytes: 0 })) {
            self.lost = 0;
        }
        if self.lost > 0 || !self.write(text) {
            self.lost += 1;
        }
    }

    /// A disk that has room again.
    #[cfg(test)]
    pub(super) fn become_file_of(&mut self, other: Self) {
        (self.file, self.place) = (other.file, other.place);
    }

    /// False if it is not there as a whole: a full disk loses lines and changes no verdict.
    fn write(&mut self, text: &str) -> bool {
        let line = format!("{}{text}\n", if self.cut { "\n" } else { "" });
        let mut rest = line.as_bytes();
        while !rest.is_empty() {
            match self.file.write(rest) {
                Ok(0) => return false,
                Ok(count) => {
                    rest = rest.get(count..).unwrap_or_default();
                    self.cut = !rest.is_empty();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Begins a new file if this one would get too large.
    fn make_room(&mut self, bytes: u64) -> Room {
        let Some((directory, name)) = &self.place else { return Room::Here };
        let is_ours = |file: &File| {
            let now = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
            let own = file.metadata();
            now.is_ok_and(|now| own.is_ok_and(|own| (now.st_dev, now.st_ino) == (own.dev(), own.ino())))
        };
        // Somebody else may have begun a new one, or removed it.
        if !is_ours(&self.file)
            && let Ok(new) = begin(directory, name)
        {
            self.file = new;
        }
        let size = self.file.metadata().map_or(u64::MAX, |meta| meta.len()).saturating_add(bytes);
        if size <= self.most {
            return Room::Here;
        }
        let own = Path::new("/proc/self/fd").join(self.file.as_raw_fd().to_string());
        let Ok(Some(_lock)) = Lock::try_existing(&own) else {
            // Somebody is at it.
            return if size <= 2 * self.most { Room::Here } else { Room::Nowhere };
        };
        let mut older = name.clone();
        older.push(".1");
        let is_first = is_ours(&self.file);
        let dropped = if is_first { count(directory, &older) } else { Dropped::default() };
        if is_first && renameat(directory, name, directory, &older).is_err() {
            return Room::Nowhere;
        }
        match begin(directory, name) {
            Ok(new) => self.file = new,
            Err(_) => return Room::Nowhere,
        }
        if is_first { Room::New(dropped) } else { Room::Here }
    }
}

/// Where a line goes.
enum Room {
    /// Into the file as it is.
    Here,
    /// Into a new one; this went with the one before the last.
    New(Dropped),
    /// It is lost.
    Nowhere,
}

fn begin(directory: &OwnedFd, name: &OsString) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(openat2(directory, name, flags, Mode::RUSR | Mode::WUSR, NO_LINKS)?);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// What is in a file that is about to go.
fn count(directory: &OwnedFd, name: &OsString) -> Dropped {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let Ok(file) = openat(directory, name, flags, Mode::empty()) else { return Dropped::default() };
    let mut file = File::from(file);
    let mut dropped = Dropped::default();
    let mut buffer = vec![0; 1 << 16];
    while let Ok(count @ 1..) = file.read(&mut buffer) {
        let bytes = buffer.get(..count).unwrap_or_default();
        dropped.bytes += count as u64;
        dropped.lines += memchr::memchr_iter(b'\n', bytes).count() as u64;
    }
    dropped
}
