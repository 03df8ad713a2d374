//! Access to the file system. In `config`, only this file and the loader use it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Statx, StatxFlags, open, openat2, readlinkat, statx,
};
use rustix::path::Arg;

/// Larger than any config that a person writes.
pub(super) const MOST_BYTES: u64 = 1 << 20;

/// Read-only access to files. Every read is limited and only reads regular files.
pub(super) trait Disk {
    /// Returns the path without links, `.` and `..`. It must exist.
    fn canonical(&self, path: &Path) -> io::Result<PathBuf>;

    /// Whether something has this name, even a link to nothing.
    fn exists(&self, path: &Path) -> bool;

    /// Reads a file of the machine's owner; follows links.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Opens a stranger's directory. Nothing above it can be reached from it, and no link is followed.
    fn tree(&self, base: &Path) -> io::Result<Rc<Tree>>;

    /// Reads a file of a stranger.
    fn read_beneath(&self, base: &Path, relative: &Path) -> io::Result<Vec<u8>> {
        self.tree(base)?.read(relative, MOST_BYTES)
    }

    /// Returns the path without links as far as it exists, and the rest as written.
    fn canonical_or_parent(&self, path: &Path) -> PathBuf {
        if let Ok(real) = self.canonical(path) {
            return real;
        }
        match (path.parent(), path.file_name()) {
            // A bare name is in the current directory.
            (Some(parent), Some(name)) if parent.as_os_str().is_empty() => {
                self.canonical(Path::new(".")).map_or_else(|_| path.to_path_buf(), |here| here.join(name))
            }
            (Some(parent), Some(name)) => self.canonical_or_parent(parent).join(name),
            _ => path.to_path_buf(),
        }
    }
}

/// The real file system. Each stranger's directory is opened once, so that the whole config refers to the same one.
#[derive(Default)]
pub(super) struct Real {
    trees: RefCell<BTreeMap<PathBuf, Rc<Tree>>>,
}

impl Disk for Real {
    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        std::fs::canonicalize(path)
    }

    fn exists(&self, path: &Path) -> bool {
        std::fs::symlink_metadata(path).is_ok()
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        bounded(File::from(open(path, READ, Mode::empty())?), MOST_BYTES)
    }

    fn tree(&self, base: &Path) -> io::Result<Rc<Tree>> {
        if let Some(tree) = self.trees.borrow().get(base) {
            return Ok(tree.clone());
        }
        let tree = Rc::new(Tree::open(base)?);
        self.trees.borrow_mut().insert(base.to_path_buf(), tree.clone());
        Ok(tree)
    }
}

/// What is known about a file of a secret without reading it.
pub(super) struct KeyFile {
    /// The permission bits.
    pub(super) mode: u32,
    /// Whether this user owns it.
    pub(super) own: bool,
}

/// Opens the file of a secret, but reads nothing of it.
pub(super) fn key_file(path: &Path) -> io::Result<KeyFile> {
    let meta = File::from(open(path, READ, Mode::empty())?).metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok(KeyFile { mode: meta.mode() & 0o7777, own: meta.uid() == rustix::process::geteuid().as_raw() })
}

/// Opens without blocking, so that a named pipe is refused.
const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Opens to look up names only.
const NAME: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

fn bounded(file: File, most: u64) -> io::Result<Vec<u8>> {
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(meta.len().min(most)).unwrap_or(0));
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("it is larger than {} MiB", most >> 20)));
    }
    Ok(bytes)
}

/// A directory of a stranger, opened once. All paths are relative to it. No link is followed, and nothing outside of it
/// can be reached, whatever is renamed in the meantime (openat2(2), `RESOLVE_BENEATH`).
#[derive(Debug)]
pub struct Tree {
    root: OwnedFd,
}

/// What a name refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A pipe, a socket, a device.
    Other,
}

impl From<FileType> for Kind {
    fn from(file_type: FileType) -> Self {
        match file_type {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Link,
            _ => Self::Other,
        }
    }
}

/// The kernel's description of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// What it is.
    pub kind: Kind,
    /// Its identity: major and minor device number, inode.
    pub id: (u32, u32, u64),
    /// The number of its names.
    pub links: u32,
    /// Its size in bytes.
    pub len: u64,
    /// The permission bits.
    pub mode: u16,
    /// The last change of its content, names or mode, which processes cannot set: seconds and nanoseconds since the
    /// epoch.
    pub changed: (i64, u32),
}

impl From<Statx> for Seen {
    fn from(stat: Statx) -> Self {
        Self {
            kind: FileType::from_raw_mode(stat.stx_mode.into()).into(),
            id: (stat.stx_dev_major, stat.stx_dev_minor, stat.stx_ino),
            links: stat.stx_nlink,
            len: stat.stx_size,
            mode: stat.stx_mode & 0o7777,
            changed: (stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec),
        }
    }
}

/// The names in a directory, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Each name and what it refers to.
    pub names: BTreeMap<OsString, Kind>,
    /// Whether these are all.
    pub complete: bool,
}

impl Tree {
    /// Opens a directory by a path that the caller trusts, except that its last component must not be a link.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { root: open(path, NAME | OFlags::DIRECTORY, Mode::empty())? })
    }

    fn beneath(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        Ok(openat2(&self.root, path, flags, Mode::empty(), resolve)?)
    }

    /// What is at a path; `None` if nothing is. Fails if it cannot be determined, for example because of a link on the
    /// way.
    pub fn look(&self, path: &Path) -> io::Result<Option<Seen>> {
        match self.beneath(path, NAME) {
            Ok(fd) => seen(&fd).map(Some),
            Err(error) if missing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads a regular file of limited size.
    pub fn read(&self, path: &Path, most: u64) -> io::Result<Vec<u8>> {
        bounded(File::from(self.beneath(path, READ | OFlags::NOFOLLOW)?), most)
    }

    /// Reads the beginning of a regular file, and returns its description.
    pub fn head(&self, path: &Path, most: u64) -> io::Result<(Seen, Vec<u8>)> {
        let file = File::from(self.beneath(path, READ | OFlags::NOFOLLOW)?);
        let what = seen(&file)?;
        if what.kind != Kind::File {
            return Err(io::Error::other("it is not a regular file"));
        }
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes)?;
        Ok((what, bytes))
    }

    /// Opens the file or directory at a path for reading.
    pub fn open_object(&self, path: &Path) -> io::Result<(Seen, OwnedFd)> {
        let object = self.beneath(path, READ | OFlags::NOFOLLOW)?;
        Ok((seen(&object)?, object))
    }

    /// The descriptor of the opened directory itself.
    pub fn raw(&self) -> i32 {
        std::os::fd::AsRawFd::as_raw_fd(&self.root)
    }

    /// Opens the directory at a path.
    pub fn directory(&self, path: &Path) -> io::Result<OwnedFd> {
        self.beneath(path, READ | OFlags::DIRECTORY)
    }

    /// The target of a link.
    pub fn link(&self, path: &Path) -> io::Result<PathBuf> {
        let link = self.beneath(path, NAME)?;
        Ok(PathBuf::from(OsString::from_vec(readlinkat(&link, "", Vec::new())?.into_bytes())))
    }

    /// The names in a directory, up to a limit.
    pub fn names(&self, path: &Path, most: usize) -> io::Result<Listing> {
        let directory = self.directory(path)?;
        let mut listing = Listing { names: BTreeMap::new(), complete: true };
        for entry in Dir::new(directory.try_clone()?)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            if listing.names.len() >= most {
                listing.complete = false;
                break;
            }
            let kind = match entry.file_type() {
                // Some file systems do not report the type here.
                FileType::Unknown => match seen_at(&directory, entry.file_name()) {
                    Ok(seen) => seen.kind,
                    Err(error) if missing(&error) => continue,
                    Err(_) => Kind::Other,
                },
                known => known.into(),
            };
            listing.names.insert(OsString::from_vec(name.to_vec()), kind);
        }
        Ok(listing)
    }

    /// The first component of a path that is a link, if any.
    pub fn first_link(&self, path: &Path) -> Option<PathBuf> {
        let mut part = PathBuf::new();
        path.components().find_map(|component| {
            part.push(component);
            let is_link = matches!(self.look(&part), Ok(Some(seen)) if seen.kind == Kind::Link);
            is_link.then(|| part.clone())
        })
    }
}

/// What a name in an opened directory refers to; it may be a link.
pub fn seen_at(directory: impl AsFd, name: impl Arg) -> io::Result<Seen> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    Ok(statx(directory, name, flags, StatxFlags::BASIC_STATS)?.into())
}

fn seen(fd: impl AsFd) -> io::Result<Seen> {
    Ok(statx(fd, "", AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS)?.into())
}

/// Whether nothing exists at a path.
pub fn missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// An error of the operating system without its number.
pub(super) fn words(error: &std::io::Error) -> String {
    let text = error.to_string();
    let plain = text.split(" (os error").next().unwrap_or("").to_owned();
    let mut chars = plain.chars();
    chars.next().map_or(plain.clone(), |first| first.to_lowercase().chain(chars).collect())
}
