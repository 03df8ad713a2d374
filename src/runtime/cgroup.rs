//! The control group of a container: its processes, and what the kernel counts in it (`cgroups(7)`, version 2).
//!
//! The kernel decides membership. A container can create groups below its own and name them freely, so they are opened
//! one level at a time, without following links, and up to a fixed number.

use std::ffi::OsStr;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, ResolveFlags, openat, openat2};

use super::RuntimeError;
use super::process::{Process, numbers};

/// The mount point of cgroup v2.
const ROOT: &str = "/sys/fs/cgroup";

/// `CGROUP2_SUPER_MAGIC` (`statfs(2)`).
const MAGIC: u64 = 0x6367_7270;

/// How many groups below the container's own are searched, and how deep. A container with more of them hides processes
/// from the signals that the command gets; stopping the sandbox does not depend on it.
const GROUPS: usize = 256;
const DEPTH: usize = 8;

/// How many bytes of a kernel file are read.
const BYTES: u64 = 1 << 20;

/// An opened control group.
#[derive(Debug)]
pub struct Cgroup {
    directory: OwnedFd,
}

impl Cgroup {
    /// Opens a group by its path below the root, which podman reports for a container.
    pub fn open(path: &str) -> Result<Self, RuntimeError> {
        let failed = |error: rustix::io::Errno| RuntimeError::Io(format!("opening the cgroup `{path}`"), error.into());
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, ROOT, flags, Mode::empty()).map_err(failed)?;
        let kind = rustix::fs::fstatfs(&root).map_err(failed)?.f_type;
        let below = path.trim_matches('/');
        if u64::try_from(kind) != Ok(MAGIC) || below.is_empty() {
            return Err(RuntimeError::Host(format!("the container does not have its own cgroup; it is in `{path}`")));
        }
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let directory = openat2(&root, below, flags, Mode::empty(), resolve).map_err(failed)?;
        Ok(Self { directory })
    }

    /// The processes in the group and below it. Each is held by a descriptor that was opened while the process was a
    /// member.
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

    /// How many processes of this group the kernel killed because memory ran out.
    pub fn out_of_memory_kills(&self) -> Option<u64> {
        let text = read(&self.directory, "memory.events")?;
        text.lines().find_map(|line| line.strip_prefix("oom_kill "))?.parse().ok()
    }

    /// How often the kernel refused a process in this group because of its limit.
    pub fn refused_processes(&self) -> Option<u64> {
        let text = read(&self.directory, "pids.events")?;
        text.lines().find_map(|line| line.strip_prefix("max "))?.parse().ok()
    }
}

/// Lists the processes, opens them, and lists them again. If a number is in both lists and its process is still alive
/// when a signal is sent, that process was a member in between.
fn processes(group: &OwnedFd) -> Vec<Process> {
    let list = || read(group, "cgroup.procs").unwrap_or_default();
    // 0 stands for a process outside our PID namespace; `Process::open` refuses it.
    let opened: Vec<Process> = numbers(&list()).filter_map(Process::open).collect();
    let again: std::collections::BTreeSet<i32> = numbers(&list()).collect();
    opened.into_iter().filter(|process| again.contains(&process.number())).collect()
}

/// The groups below a group, at most `most`.
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
