//! Writes files whose path the user chose. No other module opens such a file.
//!
//! Invariant: nothing in a sandbox can change, redirect or block an output. So an output never lies where the sandbox
//! can write, no component of an opened path is a link, and opening never blocks.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, fchmod, fcntl_getfl, fcntl_setfl, fstat, mkdirat, openat2,
    renameat, unlinkat,
};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

use super::RuntimeError;
use crate::config::{REPO_DIR, Resolved};
use crate::emit;
use crate::visible::escaped;

/// The number of links that the kernel follows in one path (`path_resolution(7)`).
const LINKS: usize = 40;

/// No links of any kind, anywhere in the path.
const NO_LINKS: ResolveFlags = ResolveFlags::NO_SYMLINKS.union(ResolveFlags::NO_MAGICLINKS);

/// The parts of the host that a sandbox can write.
#[derive(Clone, Debug, Default)]
pub struct Inside {
    /// Absolute paths without links.
    writable: Vec<PathBuf>,
    /// Parts of them that are read-only inside.
    kept: Vec<PathBuf>,
}

impl Inside {
    /// Returns what the sandbox of this config can write.
    pub fn of(resolved: &Resolved) -> Self {
        let workspace = &resolved.workspace;
        let mounts = resolved.mounts.iter().filter(|mount| !mount.read_only).map(|mount| &mount.source);
        Self {
            writable: (!workspace.read_only).then_some(&workspace.source).into_iter().chain(mounts).cloned().collect(),
            kept: workspace.protect.iter().map(|part| workspace.source.join(&part.path)).collect(),
        }
    }

    /// Whether the sandbox can change names in this directory at any time.
    fn writes(&self, dir: &Path) -> bool {
        let below = |all: &[PathBuf]| all.iter().any(|one| dir.starts_with(one));
        below(&self.writable) && !below(&self.kept)
    }

    /// Whether a path is in a directory that the sandbox can write, even if a part of it is kept read-only.
    fn contains(&self, path: &Path) -> bool {
        self.writable.iter().any(|one| path.starts_with(one))
    }

    /// Fails if no output may be written to this directory, which does not have to exist yet.
    pub fn check(&self, dir: &Path) -> Result<(), RuntimeError> {
        self.place(dir).map(drop)
    }

    /// Returns the directory without links, or an error if the sandbox can write there.
    fn place(&self, dir: &Path) -> Result<PathBuf, RuntimeError> {
        let real = self.real(dir)?;
        if !self.writes(&real) {
            return Ok(real);
        }
        Err(RuntimeError::Host(format!(
            "the command in this sandbox can write to {} and could change the output: choose a place outside \
             the workspace and writable mounts, or one that is read-only inside, such as `.sandboxc`",
            shown(dir)
        )))
    }

    /// Returns the path without links, `.` and `..`. Components that do not exist are taken literally.
    fn real(&self, path: &Path) -> Result<PathBuf, RuntimeError> {
        let doing = || RuntimeError::io(format!("resolving {}", shown(path)));
        let mut rest = parts(&std::path::absolute(path).map_err(doing())?);
        let (mut real, mut links) = (PathBuf::from("/"), 0);
        while let Some(part) = rest.pop_front() {
            if part == ".." {
                real.pop();
                continue;
            }
            let next = real.join(&part);
            let Ok(target) = fs::read_link(&next) else {
                real = next;
                continue;
            };
            links += 1;
            if links > LINKS {
                return Err(doing()(Errno::LOOP.into()));
            }
            if self.writes(&real) {
                return Err(RuntimeError::Host(format!(
                    "{} is a link that the command in this sandbox can change: use the path that it points to",
                    shown(&next)
                )));
            }
            if target.is_absolute() {
                real = PathBuf::from("/");
            }
            let mut all = parts(&target);
            all.append(&mut rest);
            rest = all;
        }
        Ok(real)
    }
}

fn parts(path: &Path) -> VecDeque<OsString> {
    let part = |part: Component<'_>| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(part).collect()
}

/// A path for a message, on one line.
fn shown(path: &Path) -> String {
    escaped(&path.display().to_string())
}

/// Opens a file for appending; creates it with mode 0600 if it is missing. Refuses pipes, sockets and devices, but
/// accepts our own descriptors as `/dev/stderr` or `/dev/fd/N`, whatever they are.
pub fn append(path: &Path, inside: &Inside) -> Result<File, RuntimeError> {
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let refuse = |why: &str| RuntimeError::Host(format!("cannot write to {}: {why}", shown(path)));
    let own = own_descriptor(path);
    let opened = if let Some(own) = &own {
        if fs::read_link(own).is_ok_and(|to| to.parent().is_some_and(|dir| inside.writes(dir))) {
            return Err(refuse("it refers to a file that the command in this sandbox can change"));
        }
        rustix::fs::open(own, flags, Mode::empty())
    } else {
        let name = path.file_name().ok_or_else(|| refuse("it is not the path of a file"))?;
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let dir = inside.place(dir)?;
        openat2(CWD, dir.join(name), flags | OFlags::CREATE, Mode::RUSR | Mode::WUSR, NO_LINKS)
    };
    let file = opened.map_err(|error| match error {
        Errno::LOOP => refuse("it is a link: use the path of the file itself"),
        Errno::NXIO => refuse("it is a socket, or a pipe without a reader"),
        error => refuse(&io::Error::from(error).to_string()),
    })?;
    let kind = FileType::from_raw_mode(fstat(&file).map_err(|error| refuse(&error.to_string()))?.st_mode);
    if own.is_none() && !matches!(kind, FileType::RegularFile | FileType::CharacterDevice) {
        return Err(refuse("it is neither a file nor a terminal"));
    }
    // Only opening must not block. A slow terminal must not cost lines.
    let waits = fcntl_getfl(&file).and_then(|now| fcntl_setfl(&file, now - OFlags::NONBLOCK));
    waits.map_err(|error| refuse(&error.to_string()))?;
    Ok(File::from(file))
}

/// Where the kernel shows the descriptor that a path such as `/dev/fd/N` means.
fn own_descriptor(path: &Path) -> Option<PathBuf> {
    let number = match path.to_str()? {
        "/dev/stdout" => "1",
        "/dev/stderr" => "2",
        text => text.strip_prefix("/dev/fd/").or_else(|| text.strip_prefix("/proc/self/fd/"))?,
    };
    let number: u32 = number.parse().ok()?;
    Some(PathBuf::from(format!("/proc/self/fd/{number}")))
}

/// Writes a tree below `dir`, which is created if it is missing. Each file is written under a temporary name and
/// renamed, so that nobody reads half a file, and a link in its place is replaced.
pub fn tree(dir: &Path, files: &[emit::File], inside: &Inside) -> Result<(), RuntimeError> {
    let real = inside.place(dir)?;
    let root = make_dir(&real).map_err(|error| RuntimeError::Io(format!("making {}", shown(dir)), error.into()))?;
    for file in files {
        let path = dir.join(&file.path);
        let failed = |error: io::Error| RuntimeError::Io(format!("writing {}", shown(&path)), error);
        write(&root, file).map_err(failed)?;
    }
    Ok(())
}

/// A file that is written as a whole at the end. Its place is checked and opened at the start.
#[derive(Debug)]
pub enum WholeFile {
    /// One of our own descriptors.
    Descriptor(File),
    /// A directory and a name.
    Place(OwnedFd, OsString),
}

impl WholeFile {
    /// Opens the place of the file, like [`append`].
    pub fn open(path: &Path, inside: &Inside) -> Result<Self, RuntimeError> {
        if own_descriptor(path).is_some() {
            return append(path, inside).map(Self::Descriptor);
        }
        let failed = |error: Errno| RuntimeError::Io(format!("writing {}", shown(path)), error.into());
        let name = path.file_name().ok_or(Errno::INVAL).map_err(failed)?;
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let dir = open_dir(CWD, &inside.place(dir)?).map_err(failed)?;
        // Renaming a file onto a directory would fail at the end, after everything was done.
        match openat2(
            &dir,
            Path::new(name),
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
            NO_LINKS,
        ) {
            Ok(_) => Err(failed(Errno::ISDIR)),
            Err(_) => Ok(Self::Place(dir, name.to_owned())),
        }
    }

    /// Writes the file.
    pub fn write(self, text: &str) -> Result<(), RuntimeError> {
        let written = match self {
            Self::Descriptor(mut file) => file.write_all(text.as_bytes()),
            Self::Place(dir, name) => replace(&dir, &name, text.as_bytes(), 0o644),
        };
        written.map_err(RuntimeError::io("writing the report"))
    }
}

/// Writes one file, beside its place and then renamed, as [`tree`] does.
pub fn whole(path: &Path, bytes: &[u8]) -> Result<(), RuntimeError> {
    let failed = |error: io::Error| RuntimeError::Io(format!("writing {}", shown(path)), error);
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().ok_or(Errno::INVAL).map_err(|error| failed(error.into()))?;
    let dir = open_dir(CWD, &Inside::default().place(dir)?).map_err(|error| failed(error.into()))?;
    replace(&dir, name, bytes, 0o644).map_err(failed)
}

/// Writes one file into `.sandboxc` of a repo whose path has no links. A sandbox may have put anything there, so no link
/// is followed.
pub fn in_repo(repo_dir: &Path, name: &str, bytes: &[u8]) -> Result<(), RuntimeError> {
    let path = repo_dir.join(REPO_DIR).join(name);
    let failed = |error: io::Error| RuntimeError::Io(format!("writing {}", shown(&path)), error);
    let repo = open_dir(CWD, repo_dir).map_err(|error| failed(error.into()))?;
    let (dir, _) =
        make_child(&repo, OsStr::new(REPO_DIR), Mode::from_raw_mode(0o777)).map_err(|error| failed(error.into()))?;
    replace(&dir, OsStr::new(name), bytes, 0o644).map_err(failed)
}

/// Opens a directory without following links, and creates missing parts.
fn make_dir(real: &Path) -> Result<OwnedFd, Errno> {
    match open_dir(CWD, real) {
        Err(Errno::NOENT) => {}
        opened => return opened,
    }
    let (Some(parent), Some(name)) = (real.parent(), real.file_name()) else { return Err(Errno::NOENT) };
    let parent = make_dir(parent)?;
    make_child(&parent, name, Mode::from_raw_mode(0o777)).map(|(child, _)| child)
}

fn open_dir(at: impl std::os::fd::AsFd, path: &Path) -> Result<OwnedFd, Errno> {
    openat2(at, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty(), NO_LINKS)
}

/// Opens a directory in another one; also returns whether it was created.
fn make_child(parent: &OwnedFd, name: &OsStr, mode: Mode) -> Result<(OwnedFd, bool), Errno> {
    let new = match mkdirat(parent, name, mode) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(error) => return Err(error),
    };
    Ok((open_dir(parent, Path::new(name))?, new))
}

fn write(root: &OwnedFd, file: &emit::File) -> io::Result<()> {
    let path = Path::new(&file.path);
    let name = path.file_name().ok_or(Errno::INVAL)?;
    let mut dir = root.try_clone()?;
    for part in path.parent().into_iter().flat_map(Path::components) {
        let Component::Normal(part) = part else { return Err(Errno::INVAL.into()) };
        let (child, new) = make_child(&dir, part, Mode::from_raw_mode(0o755))?;
        if new {
            // The files are mounted in containers whose users are not users of this host, so the umask must not matter.
            let opened = openat2(&child, ".", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty(), NO_LINKS)?;
            fchmod(opened, Mode::from_raw_mode(0o755))?;
        }
        dir = child;
    }
    replace(&dir, name, file.text.as_bytes(), if file.executable { 0o755 } else { 0o644 })
}

/// Puts a file in the place of what has its name.
fn replace(dir: &OwnedFd, name: &OsStr, bytes: &[u8], mode: u32) -> io::Result<()> {
    let beside = temporary_name()?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(openat2(dir, &beside, flags, Mode::RUSR | Mode::WUSR, NO_LINKS)?);
    let written = file.write_all(bytes).and_then(|()| Ok(fchmod(&file, Mode::from_raw_mode(mode))?));
    let placed = written.and_then(|()| Ok(renameat(dir, &beside, dir, name)?));
    if placed.is_err() {
        // Reports the first error.
        let _ = unlinkat(dir, &beside, AtFlags::empty());
    }
    placed
}

fn temporary_name() -> io::Result<String> {
    let mut bytes = [0_u8; 8];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(bytes.iter().fold(".sandboxc-".to_owned(), |name, byte| name + &format!("{byte:02x}")))
}

mod fresh;
mod rotating;
#[cfg(test)]
mod tests;

pub use fresh::{fresh, only_trees};
pub use rotating::{Dropped, Rotating};
