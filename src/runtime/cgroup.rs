//! The control group of a container: who is in it, and what the kernel counts there (`cgroups(7)`, version 2).
//!
//! Membership is the kernel's own word. A container may make groups below its own and give them any name, so they are
//! opened one below the other, without links, to a bounded number.

use std::ffi::OsStr;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, ResolveFlags, openat, openat2};

use super::RuntimeError;
use super::process::{Process, numbers};

/// Where version 2 is mounted.
const ROOT: &str = "/sys/fs/cgroup";

/// `CGROUP2_SUPER_MAGIC` (`statfs(2)`).
const MAGIC: u64 = 0x6367_7270;

/// Groups below a container's own that are looked into, and how deep. More of them hide processes from a signal that the
/// command would get; ending the sandbox does not depend on it.
const GROUPS: usize = 256;
const DEPTH: usize = 8;

/// Bytes of a file of the kernel's.
const BYTES: u64 = 1 << 20;

/// A control group that has been opened.
#[derive(Debug)]
pub struct Cgroup {
    directory: OwnedFd,
}

impl Cgroup {
    /// Opens a group by its path below the root, as podman describes a container's.
    pub fn open(path: &str) -> Result<Self, RuntimeError> {
        let failed = |error: rustix::io::Errno| RuntimeError::Io(format!("opening the cgroup `{path}`"), error.into());
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, ROOT, flags, Mode::empty()).map_err(failed)?;
        let kind = rustix::fs::fstatfs(&root).map_err(failed)?.f_type;
        let below = path.trim_matches('/');
        if u64::try_from(kind) != Ok(MAGIC) || below.is_empty() {
            return Err(RuntimeError::Host(format!("the container is in no cgroup of its own, but in `{path}`")));
        }
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let directory = openat2(&root, below, flags, Mode::empty(), resolve).map_err(failed)?;
        Ok(Self { directory })
    }

    /// The processes in it and below it, each held by a descriptor that was opened while the process was a member.
    pub fn members(&self) -> Vec<Process> {
        let mut members = Vec::new();
        let mut waiting: Vec<(OwnedFd, usize)> = Vec::new();
        waiting.extend(self.directory.try_clone().ok().map(|own| (own, 0)));
        let mut left = GROUPS;
        while let Some((group, depth)) = waiting.pop() {
            members.extend(processes(&group));
            for name in below(&group, left) {
                left -= 1;
                let open = || {
                    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                    openat(&group, name.as_os_str(), flags, Mode::empty())
                };
                if depth < DEPTH {
                    waiting.extend(open().ok().map(|group| (group, depth + 1)));
                }
            }
        }
        members
    }

    /// How many processes the kernel has killed here because memory was used up.
    pub fn out_of_memory_kills(&self) -> Option<u64> {
        let text = read(&self.directory, "memory.events")?;
        text.lines().find_map(|line| line.strip_prefix("oom_kill "))?.parse().ok()
    }
}

/// Listed, opened, listed again: if a number is in both lists and its process still lives when a signal is sent, then it was
/// a member in between.
fn processes(group: &OwnedFd) -> Vec<Process> {
    let list = || read(group, "cgroup.procs").unwrap_or_default();
    // 0 is a process that our PID namespace does not have; `Process::open` refuses it.
    let opened: Vec<Process> = numbers(&list()).filter_map(Process::open).collect();
    let again: std::collections::BTreeSet<i32> = numbers(&list()).collect();
    opened.into_iter().filter(|process| again.contains(&process.number())).collect()
}

/// The groups below one, at most `most`.
fn below(group: &OwnedFd, most: usize) -> Vec<std::ffi::OsString> {
    let entries = Dir::read_from(group).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type() == FileType::Directory)
        .map(|entry| OsStr::from_bytes(entry.file_name().to_bytes()).to_owned())
        .filter(|name| name != "." && name != "..")
        .take(most)
        .collect()
}

fn read(group: &OwnedFd, name: &str) -> Option<String> {
    let file = openat(group, name, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut text = String::new();
    std::fs::File::from(file).take(BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_leaves_the_root_or_is_the_root_is_refused() {
        for path in ["", "/", "//", "../../proc", "/../proc", "a/../../..", "/no-such-group"] {
            assert!(Cgroup::open(path).is_err(), "{path}");
        }
    }
}
