//! Copies files into the inbox of a conversation, and out of its outbox. Both directories belong to the agent, which may be
//! running: everything in them is opened through descriptors, and no link is followed.

use std::ffi::{CStr, OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, mkdirat, openat, openat2, unlinkat};
use rustix::io::Errno;

use super::super::RuntimeError;
use crate::visible::escaped;

/// How deep directories are copied.
const DEPTH: usize = 64;

/// How many names are copied at most, and how many bytes unless the user says more.
const NAMES: u64 = 100_000;

/// Names that git or a shell on the host would act on as soon as somebody enters the directory.
const HAZARDS: [&str; 1] = [".git"];

/// What `take` did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TakenOut {
    /// How many files were copied.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What was not, and why.
    pub skipped: Vec<(PathBuf, &'static str)>,
    /// How many more were not.
    pub more: u64,
}

/// At most this many skipped names are kept.
const NAMED: usize = 1000;

impl TakenOut {
    fn skip(&mut self, path: PathBuf, why: &'static str) {
        match self.skipped.len() < NAMED {
            true => self.skipped.push((path, why)),
            false => self.more += 1,
        }
    }
}

/// Opens a directory of a conversation. Its parents are ours.
fn open_own(path: &Path) -> Result<OwnedFd, RuntimeError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let failed = |error: Errno| RuntimeError::Io(format!("opening {}", path.display()), error.into());
    openat2(CWD, path, flags, Mode::empty(), resolve).map_err(failed)
}

/// Copies files of the user into the inbox, under their own names. Nothing there is replaced.
pub fn put(inbox: &Path, files: &[PathBuf]) -> Result<u64, RuntimeError> {
    let dir = open_own(inbox)?;
    // All of them are opened first, so that a misspelled name copies nothing.
    let mut opened: Vec<(OsString, File)> = Vec::new();
    for path in files {
        let failed = || RuntimeError::io(format!("reading {}", path.display()));
        // A named pipe is refused below, instead of waiting for a writer.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(CWD, path, flags, Mode::empty()).map_err(|error| failed()(error.into()))?;
        let file = File::from(file);
        let kind = file.metadata().map_err(failed())?.file_type();
        let name = path.file_name().filter(|_| kind.is_file()).ok_or_else(|| {
            RuntimeError::Host(format!(
                "{} is not a regular file: pack a directory first, e.g. with tar",
                path.display()
            ))
        })?;
        if opened.iter().any(|(other, _)| other == name) {
            return Err(RuntimeError::Host(format!("two files are called {}", escaped(&name.to_string_lossy()))));
        }
        opened.push((name.to_owned(), file));
    }
    let mut bytes = 0;
    for (name, mut file) in opened {
        let shown = escaped(&name.to_string_lossy());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = openat(&dir, &name, flags, Mode::from_raw_mode(0o644));
        let made = made.map_err(|error| match error {
            Errno::EXIST => RuntimeError::Host(format!("the inbox has a {shown} already; nothing was replaced")),
            error => RuntimeError::Io(format!("writing {shown} into the inbox"), error.into()),
        })?;
        bytes += io::copy(&mut file, &mut File::from(made)).map_err(|error| {
            // Half a file would look like a whole one.
            let _ = unlinkat(&dir, &name, AtFlags::empty());
            RuntimeError::Io(format!("writing {shown} into the inbox"), error)
        })?;
    }
    Ok(bytes)
}

/// Copies the regular files and directories of the outbox into a new or empty directory.
pub fn take(outbox: &Path, to: &Path, most: u64) -> Result<TakenOut, RuntimeError> {
    let from = open_own(outbox)?;
    let failed = || RuntimeError::io(format!("making {}", to.display()));
    std::fs::create_dir_all(to).map_err(failed())?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let target = openat(CWD, to, flags, Mode::empty()).map_err(|error| failed()(error.into()))?;
    let names = Dir::read_from(&target).map_err(|error| failed()(error.into()))?.flatten();
    let mut others = names.filter(|entry| ![c".", c".."].contains(&entry.file_name()));
    if others.next().is_some() {
        return Err(RuntimeError::Host(format!(
            "{} is not empty: name a new directory, so that nothing of yours is mixed with the agent's files",
            to.display()
        )));
    }
    let mut taker = Taker { taken: TakenOut::default(), names: 0, most };
    taker.directory(from.as_fd(), target.as_fd(), Path::new(""), 0)?;
    Ok(taker.taken)
}

struct Taker {
    taken: TakenOut,
    names: u64,
    most: u64,
}

impl Taker {
    fn directory(&mut self, from: impl AsFd, to: impl AsFd, below: &Path, depth: usize) -> Result<(), RuntimeError> {
        let shown = || format!("reading {}", escaped(&below.to_string_lossy()));
        let failed = |error: Errno| RuntimeError::Io(shown(), error.into());
        let mut names: Vec<OsString> = Vec::new();
        for entry in Dir::read_from(&from).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = OsStr::from_bytes(CStr::to_bytes(entry.file_name()));
            if name == "." || name == ".." {
                continue;
            }
            self.names += 1;
            if self.names > NAMES {
                return Err(RuntimeError::Host(format!(
                    "the outbox has more than {NAMES} names; the rest was not copied"
                )));
            }
            names.push(name.to_owned());
        }
        names.sort();
        let is_repository = ["HEAD", "objects", "refs"].iter().all(|part| names.iter().any(|name| name == part));
        for name in names {
            let path = below.join(&name);
            let hazard = HAZARDS.iter().any(|hazard| name.eq_ignore_ascii_case(hazard)) || is_repository;
            if hazard {
                self.taken.skip(path, "git on this host would act on it");
                continue;
            }
            self.entry(&from, &to, (&name, &path), depth)?;
        }
        Ok(())
    }

    fn entry(
        &mut self,
        from: impl AsFd,
        to: impl AsFd,
        (name, path): (&OsStr, &Path),
        depth: usize,
    ) -> Result<(), RuntimeError> {
        // Opening a named pipe for reading would wait for a writer; this opens the name alone.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(held) = openat(&from, name, flags, Mode::empty()) else {
            self.taken.skip(path.to_owned(), "it has disappeared");
            return Ok(());
        };
        let Ok(stat) = fstat(&held) else {
            self.taken.skip(path.to_owned(), "it cannot be examined");
            return Ok(());
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory if depth >= DEPTH => self.taken.skip(path.to_owned(), "it is too deep"),
            FileType::Directory => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let Ok(inner) = openat(&held, ".", flags, Mode::empty()) else {
                    self.taken.skip(path.to_owned(), "this user may not read it");
                    return Ok(());
                };
                let failed = |error: Errno| RuntimeError::Io(writing(path), error.into());
                mkdirat(&to, name, Mode::from_raw_mode(0o755)).map_err(failed)?;
                let made = openat(&to, name, flags, Mode::empty()).map_err(failed)?;
                self.directory(inner, made, path, depth + 1)?;
            }
            FileType::RegularFile => self.file(&held, to, (name, path), stat.st_mode)?,
            FileType::Symlink => self.taken.skip(path.to_owned(), "it is a symbolic link"),
            _ => self.taken.skip(path.to_owned(), "it is a special file"),
        }
        Ok(())
    }

    fn file(
        &mut self,
        held: &OwnedFd,
        to: impl AsFd,
        (name, path): (&OsStr, &Path),
        mode: u32,
    ) -> Result<(), RuntimeError> {
        use std::io::Read as _;
        use std::os::fd::AsRawFd as _;
        // The descriptor leads to the object that was examined.
        let Ok(file) = File::open(format!("/proc/self/fd/{}", held.as_raw_fd())) else {
            self.taken.skip(path.to_owned(), "this user may not read it");
            return Ok(());
        };
        let failed = || RuntimeError::io(writing(path));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(if mode & 0o100 == 0 { 0o644 } else { 0o755 });
        let out = openat(&to, name, flags, mode).map_err(|error| failed()(error.into()))?;
        let left = self.most.saturating_sub(self.taken.bytes);
        let copied = io::copy(&mut file.take(left.saturating_add(1)), &mut File::from(out)).map_err(failed())?;
        if copied > left {
            let _ = unlinkat(&to, name, AtFlags::empty());
            return Err(RuntimeError::Host(format!(
                "the outbox has more than {} MiB, at {}: raise `--most`; the files before it were copied",
                self.most >> 20,
                escaped(&path.to_string_lossy())
            )));
        }
        self.taken.bytes += copied;
        self.taken.files += 1;
        Ok(())
    }
}

fn writing(path: &Path) -> String {
    format!("writing {}", escaped(&path.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn only_regular_files_and_directories_leave_the_outbox() {
        let dir = tempfile::tempdir().unwrap();
        let (outbox, to) = (dir.path().join("outbox"), dir.path().join("to"));
        fs::create_dir_all(outbox.join("a/b")).unwrap();
        fs::create_dir_all(outbox.join(".GIT/hooks")).unwrap();
        fs::create_dir_all(outbox.join("bare/objects")).unwrap();
        fs::create_dir_all(outbox.join("bare/refs")).unwrap();
        fs::write(outbox.join("bare/HEAD"), "x").unwrap();
        fs::write(outbox.join("a/b/result.txt"), "done").unwrap();
        fs::write(outbox.join("run"), "#!").unwrap();
        fs::set_permissions(outbox.join("run"), fs::Permissions::from_mode(0o4755)).unwrap();
        fs::write(outbox.join(OsStr::from_bytes(b"caf\xe9\n")), "x").unwrap();
        fs::write(dir.path().join("secret"), "secret").unwrap();
        symlink(dir.path().join("secret"), outbox.join("link")).unwrap();
        symlink("/", outbox.join("root")).unwrap();
        rustix::fs::mknodat(CWD, outbox.join("pipe"), FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
        let taken = take(&outbox, &to, 1 << 20).unwrap();
        assert_eq!((taken.files, taken.bytes), (3, 7));
        assert_eq!(fs::read(to.join("a/b/result.txt")).unwrap(), b"done");
        assert_eq!(fs::metadata(to.join("run")).unwrap().permissions().mode() & 0o7777, 0o755, "no set-user-id bit");
        let skipped: Vec<String> = taken.skipped.iter().map(|(path, _)| path.display().to_string()).collect();
        assert_eq!(skipped, [".GIT", "bare/HEAD", "bare/objects", "bare/refs", "link", "pipe", "root"]);
        assert!(!to.join("link").exists() && !to.join(".GIT").exists());
        // A directory that is not empty may be a repository of the user's.
        assert!(take(&outbox, &to, 1 << 20).unwrap_err().to_string().contains("is not empty"));
    }

    #[test]
    fn an_outbox_beyond_the_limit_ends_the_copy_and_leaves_no_half_file() {
        let dir = tempfile::tempdir().unwrap();
        let (outbox, to) = (dir.path().join("outbox"), dir.path().join("to"));
        fs::create_dir(&outbox).unwrap();
        fs::write(outbox.join("a"), "four").unwrap();
        // A hole: it takes no space, until somebody copies it.
        File::create(outbox.join("b")).unwrap().set_len(1 << 40).unwrap();
        let error = take(&outbox, &to, 1 << 20).unwrap_err().to_string();
        assert!(error.contains("more than 1 MiB, at b"), "{error}");
        assert!(to.join("a").exists() && !to.join("b").exists());
    }

    #[test]
    fn what_is_put_into_an_inbox_replaces_nothing_and_follows_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let inbox = dir.path().join("inbox");
        fs::create_dir(&inbox).unwrap();
        fs::write(dir.path().join("task.md"), "do it").unwrap();
        symlink(dir.path().join("planted"), inbox.join("other.md")).unwrap();
        fs::write(dir.path().join("other.md"), "x").unwrap();
        let file = |name: &str| dir.path().join(name);
        assert_eq!(put(&inbox, &[file("task.md")]).unwrap(), 5);
        assert_eq!(fs::read(inbox.join("task.md")).unwrap(), b"do it");
        for bad in [vec![file("task.md")], vec![file("other.md")], vec![file("missing")], vec![file("inbox")]] {
            assert!(put(&inbox, &bad).is_err(), "{bad:?}");
        }
        assert!(!file("planted").exists());
        // The inbox itself is not replaced by a link while it is open.
        symlink(&inbox, dir.path().join("elsewhere")).unwrap();
        assert!(put(&dir.path().join("elsewhere"), &[file("other.md")]).is_err());
    }
}
