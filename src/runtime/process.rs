//! Processes of this host. No other module turns a number into a process or sends signals.
//!
//! A number in a file or in podman's output may belong to another process by the time it is used, and a container
//! chooses its processes' names and command lines. So a process is opened first (`pidfd_open(2)`), questions about it
//! go to the kernel while the descriptor is held, and signals go to the descriptor. If the number was reused in
//! between, the descriptor's process has ended and the signal reaches nobody.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// A process that is held by a descriptor.
#[derive(Debug)]
pub struct Process {
    pid: Pid,
    descriptor: OwnedFd,
}

/// An object of a file system, identified by device and inode.
type Object = (u64, u64);

impl Process {
    /// Opens the process with this number. Returns `None` for numbers up to 1 (process groups, all processes, and init)
    /// and for numbers without a process.
    pub fn open(number: i32) -> Option<Self> {
        let pid = (number > 1).then(|| Pid::from_raw(number)).flatten()?;
        let descriptor = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        Some(Self { pid, descriptor })
    }

    /// Opens a child that has not been waited for, so that its number cannot have been reused.
    pub fn of_child(child: &std::process::Child) -> io::Result<Self> {
        let pid = Pid::from_child(child);
        Ok(Self { pid, descriptor: pidfd_open(pid, PidfdFlags::empty())? })
    }

    /// Opens the processes of our own PID namespace whose command line satisfies `wanted`. Processes inside containers
    /// have other PID namespaces, so none of them matches, whatever its name.
    pub fn find(wanted: impl Fn(&[Vec<u8>]) -> bool) -> Vec<Self> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        numbers
            .filter(|&number| wanted(&words(number)))
            .filter_map(Self::open)
            .filter(|process| process.is_outside() && wanted(&process.words()))
            .collect()
    }

    /// The process id, for comparison and messages.
    pub fn number(&self) -> i32 {
        self.pid.as_raw_pid()
    }

    /// The command line; empty if the process has ended or is not visible to us.
    pub fn words(&self) -> Vec<Vec<u8>> {
        words(self.number())
    }

    /// The value of a variable that it was started with. Only for processes of this host: others choose their own.
    pub fn variable(&self, name: &str) -> Option<Vec<u8>> {
        let all = fs::read(self.entry("environ")).ok()?;
        let value = |pair: &[u8]| pair.strip_prefix(name.as_bytes())?.strip_prefix(b"=").map(<[u8]>::to_vec);
        all.split(|&byte| byte == 0).find_map(value)
    }

    /// Whether it is in our own PID namespace.
    pub fn is_outside(&self) -> bool {
        let here = fs::metadata("/proc/self/ns/pid").map(|meta| object(&meta));
        here.is_ok_and(|here| self.linked("ns/pid") == Some(here))
    }

    /// The program that it runs, as an object, since a path means something else in another mount namespace.
    pub fn program(&self) -> Option<Object> {
        self.linked("exe")
    }

    /// Whether its working directory is this directory object.
    pub fn works_in(&self, directory: &File) -> bool {
        let wanted = directory.metadata().map(|meta| object(&meta));
        wanted.is_ok_and(|wanted| self.linked("cwd") == Some(wanted))
    }

    /// Its root directory. Paths below it resolve as they do for this process.
    pub fn root(&self) -> Option<OwnedFd> {
        self.held("root", OFlags::PATH | OFlags::DIRECTORY)
    }

    /// Its network namespace.
    pub fn network(&self) -> Option<OwnedFd> {
        self.held("ns/net", OFlags::RDONLY)
    }

    /// Opens what one of its links in `/proc` refers to.
    fn held(&self, name: &str, flags: OFlags) -> Option<OwnedFd> {
        let held = openat(CWD, self.entry(name), flags | OFlags::CLOEXEC, Mode::empty()).ok()?;
        // If the number had been reused before that, this process would have ended.
        let ended = poll(&mut [PollFd::new(&self.descriptor, PollFlags::IN)], Some(&Timespec::default()));
        (ended == Ok(0)).then_some(held)
    }

    /// Opens its children; `None` on a kernel that does not list them (`CONFIG_PROC_CHILDREN`).
    pub fn children(&self) -> Option<Vec<Self>> {
        let mut children = Vec::new();
        // Each thread lists the children that it created.
        for thread in fs::read_dir(self.entry("task")).ok()?.flatten() {
            match fs::read_to_string(thread.path().join("children")) {
                Ok(list) => children.extend(numbers(&list).filter_map(Self::open)),
                // Either the kernel has no such file, or the thread has just ended, and then its directory is gone as
                // well.
                Err(_) if thread.path().exists() => return None,
                Err(_) => {}
            }
        }
        Some(children)
    }

    /// Sends a signal to this process only. Does nothing if it has ended or belongs to another user.
    pub fn signal(&self, signal: Signal) -> bool {
        pidfd_send_signal(&self.descriptor, signal).is_ok()
    }

    /// Sends a signal to the process group that it began. Only for a child of ours that has not been waited for: until then,
    /// no other group has its number.
    pub fn signal_group(&self, signal: Signal) -> bool {
        rustix::process::kill_process_group(self.pid, signal).is_ok()
    }

    fn entry(&self, name: &str) -> PathBuf {
        Path::new("/proc").join(self.number().to_string()).join(name)
    }

    /// Opens what one of its links in `/proc` refers to. The kernel makes these links, and following one reaches the
    /// object itself.
    fn linked(&self, name: &str) -> Option<Object> {
        fs::metadata(self.entry(name)).ok().map(|meta| object(&meta))
    }
}

impl AsFd for Process {
    /// Becomes readable when the process has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Asks our own process to end.
pub(super) fn end_self() {
    let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::TERM);
}

/// Stops our own process, as the terminal's stop key does unless a process handles that signal.
pub(super) fn stop_self() {
    // This cannot fail: a process may signal itself.
    let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::STOP);
}

/// Parses numbers in a list that the kernel wrote.
pub(super) fn numbers(list: &str) -> impl Iterator<Item = i32> {
    list.split_ascii_whitespace().filter_map(|word| word.parse().ok())
}

fn object(meta: &fs::Metadata) -> Object {
    (meta.dev(), meta.ino())
}

/// `proc_pid_cmdline(5)`: each argument ends with a NUL.
fn words(number: i32) -> Vec<Vec<u8>> {
    let line = fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
    let line = line.strip_suffix(&[0]).unwrap_or(&line);
    if line.is_empty() { Vec::new() } else { line.split(|&byte| byte == 0).map(<[u8]>::to_vec).collect() }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn no_number_up_to_one_is_a_process() {
        for number in [i32::MIN, -1234, -1, 0, 1] {
            assert!(Process::open(number).is_none(), "{number}");
        }
        let own = i32::try_from(std::process::id()).unwrap();
        let process = Process::open(own).unwrap();
        assert!(process.is_outside() && process.number() == own && !process.words().is_empty());
    }

    #[test]
    fn a_signal_reaches_the_process_that_was_opened_and_nobody_after_it() {
        let mut child = Command::new("sleep").arg("30").spawn().unwrap();
        let process = Process::of_child(&child).unwrap();
        assert!(process.signal(Signal::TERM));
        child.wait().unwrap();
        assert!(!process.signal(Signal::TERM), "its number is free for others now");
        assert!(process.words().is_empty());
    }

    #[test]
    fn the_root_of_a_process_is_given_while_it_lives() {
        let mut child = Command::new("sleep").arg("30").spawn().unwrap();
        let process = Process::of_child(&child).unwrap();
        let root = rustix::fs::fstat(process.root().unwrap()).unwrap();
        assert_eq!(object(&fs::metadata("/").unwrap()), (root.st_dev, root.st_ino));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(process.root().is_none());
    }

    #[test]
    fn a_process_is_known_by_its_directory_and_program_as_objects() {
        let dir = tempfile::tempdir().unwrap();
        let mut child = Command::new("sleep").arg("30").current_dir(dir.path()).spawn().unwrap();
        let process = Process::of_child(&child).unwrap();
        let here = File::open(dir.path()).unwrap();
        // Between fork and exec, it is a copy of this test.
        for _ in 0..500 {
            if process.words().first().is_some_and(|word| word == b"sleep") {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert!(process.works_in(&here) && !process.works_in(&File::open("/").unwrap()));
        let own = Process::open(i32::try_from(std::process::id()).unwrap()).unwrap();
        assert_ne!(process.program(), own.program());
        assert!(own.children().is_none_or(|all| !all.is_empty()));
        assert_eq!(Process::find(|words| words.len() == 2 && words[0] == b"sleep" && words[1] == b"31.5").len(), 0);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// An agent can name a process conmon or podman, but its PID namespace is not ours.
    #[test]
    fn a_process_of_another_namespace_is_not_found_whatever_it_calls_itself() {
        let word = format!("{}.25", std::process::id());
        let start = |namespace: bool| {
            let mut command = Command::new(if namespace { "unshare" } else { "sleep" });
            if namespace {
                command.args(["--map-root-user", "--pid", "--fork", "--kill-child", "sleep"]);
            }
            command.arg(&word).stderr(Stdio::null()).spawn().unwrap()
        };
        let is_sleep = |words: &[Vec<u8>]| words.len() == 2 && words[0] == b"sleep" && words[1] == word.as_bytes();
        let mut inside = start(true);
        // A host that forbids user namespaces cannot have such a process.
        for _ in 0..100 {
            let entries = fs::read_dir("/proc").unwrap().flatten();
            let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
            if numbers.into_iter().any(|number| is_sleep(&words(number))) || inside.try_wait().unwrap().is_some() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert_eq!(Process::find(is_sleep).len(), 0);
        inside.kill().unwrap();
        inside.wait().unwrap();
        let mut outside = start(false);
        for _ in 0..500 {
            if !Process::find(is_sleep).is_empty() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert_eq!(Process::find(is_sleep).len(), 1, "the twin");
        outside.kill().unwrap();
        outside.wait().unwrap();
    }
}
