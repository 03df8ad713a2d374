//! A log with a size limit. When it is full, it becomes `FILE.1`, which is overwritten, and a new file begins.

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

/// The size limit in bytes. With the previous file, the log takes twice as much.
const MOST: u64 = 64 << 20;

/// What was dropped from the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Number of lines.
    pub lines: u64,
    /// Number of bytes, as far as they were written at all.
    pub bytes: u64,
}

/// A log of lines. Several processes may write to the same log; each follows when another one begins a new file.
#[derive(Debug)]
pub struct Rotating {
    file: File,
    /// Directory and name; `None` for terminals and our own descriptors, which have no place of their own.
    place: Option<(OwnedFd, OsString)>,
    most: u64,
    /// How many lines could not be written since the last line that reported some.
    lost: u64,
    /// Whether the last write ended inside a line.
    cut: bool,
}

impl Rotating {
    /// Opens the log like [`append`].
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

    /// Writes a line. If lines before it were dropped, first writes the line that `says` returns for them.
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

    /// After lines were dropped on a full disk, there is space again.
    #[cfg(test)]
    pub(super) fn become_file_of(&mut self, other: Self) {
        (self.file, self.place) = (other.file, other.place);
    }

    /// Returns false if the line was not written completely. A full disk loses lines and never changes a decision.
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

    /// Begins a new file if this one would become too large.
    fn make_room(&mut self, bytes: u64) -> Room {
        let Some((directory, name)) = &self.place else { return Room::Here };
        let is_ours = |file: &File| {
            let now = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
            let own = file.metadata();
            now.is_ok_and(|now| own.is_ok_and(|own| (now.st_dev, now.st_ino) == (own.dev(), own.ino())))
        };
        // Another process may have begun a new file, or removed this one.
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
            // Another process is doing it.
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

/// Where a line is written.
enum Room {
    /// To the current file.
    Here,
    /// To a new file; the content of the previous `FILE.1` was dropped.
    New(Dropped),
    /// Nowhere; the line is lost.
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

/// Counts what is in a file that is about to be dropped.
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
