//! Finds containers' processes without calling podman. Each container has a conmon, whose child is the container's
//! first process, and a control group. A conmon is a process of this host, so its command line comes from podman.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use super::cgroup::Cgroup;
use super::process::Process;

/// How often to check whether podman has cleaned up, which takes it half a second.
const LOOK: Duration = Duration::from_millis(20);

/// After this many checks, podman has asked systemd to stop the slice that it is in itself, see [`await_cleanups`].
const PATIENCE: u32 = 75;

/// How long and how often conmon gets time for the last lines of a log.
const SOON: Duration = Duration::from_millis(2);
const LAST_WORDS: u32 = 1000;

/// The variable that marks a call of `podman exec`. podman passes variables with this prefix on to conmon, and none of
/// them into the container. So it tells which of several conmons belongs to which call.
pub const MARK: &str = "LC_SANDBOXC_EXEC";

/// How many descendants of a command get a signal. A command with more of them only ends with its session.
const FAMILY: usize = 4096;

/// A container with a running conmon.
#[derive(Debug, Default)]
struct Seen {
    /// The container's first process is running.
    runs: bool,
    /// podman's cleanup processes for this container.
    clean_ups: Vec<Process>,
}

/// Waits for podman's cleanup after those of these containers that ended by themselves, or kills it.
///
/// The cleanup after the last container of a pod stops the pod. It asks systemd to stop the pod's slice and waits for
/// that while it holds the container's lock. But it is in that slice itself, so systemd waits for it and kills it after
/// 90 s (seen with podman 5.4.2). podman's locks outlive their holder, and the teardown that follows does what is left.
pub fn await_cleanups(names: &[&str]) {
    for turn in 0..PATIENCE * 2 {
        let mut ending = look(names).into_values().filter(|seen| !seen.runs).peekable();
        if ending.peek().is_none() {
            return;
        }
        if turn == PATIENCE {
            for clean_up in ending.flat_map(|seen| seen.clean_ups).filter(|process| runs(process, "podman")) {
                clean_up.signal(Signal::KILL);
            }
        }
        thread::sleep(LOOK);
    }
}

/// Ends these containers for a teardown. The `last` one gets SIGTERM and some time first, and what it has written by then
/// reaches its log.
///
/// Their conmons are killed. Each would otherwise start a podman to clean up, five for a session, which takes more CPU
/// time than the rest of the teardown, and holds locks that the teardown needs. `podman stop` then finds out by itself that the
/// containers have ended (seen with podman 5.4.2), although it reports that their exit codes are lost.
pub fn end(names: &[&str], last: &str, grace: Duration) {
    let (last, others): (Vec<_>, Vec<_>) = conmons(names).into_iter().partition(|(name, _)| *name == last);
    for (_, conmon) in others {
        let children = conmon.children().unwrap_or_default();
        conmon.signal(Signal::KILL);
        for child in children {
            child.signal(Signal::KILL);
        }
    }
    for (_, conmon) in last {
        for child in conmon.children().unwrap_or_default() {
            child.signal(Signal::TERM);
            ended_within(&child, grace);
            child.signal(Signal::KILL);
        }
        await_log(&conmon);
        let clean_ups = conmon.children().unwrap_or_default();
        conmon.signal(Signal::KILL);
        for clean_up in clean_ups {
            clean_up.signal(Signal::KILL);
        }
    }
}

/// Waits until a conmon whose container has ended has written the container's output. After that, it starts podman or ends.
fn await_log(conmon: &Process) {
    for _ in 0..LAST_WORDS {
        let children = conmon.children();
        let cleans = |children: Vec<Process>| children.iter().any(|child| runs(child, "podman"));
        // On a kernel that does not list children, it may take all the time.
        if children.is_some_and(cleans) || ended_within(conmon, SOON) {
            return;
        }
    }
}

/// Whether the process ends within this time.
fn ended_within(process: &Process, most: Duration) -> bool {
    let most = Timespec { tv_sec: most.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: most.subsec_nanos().into() };
    matches!(poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&most)), Ok(1..))
}

/// The conmons of these containers' own processes, not those of what `podman exec` runs in them.
fn conmons<'a>(names: &[&'a str]) -> Vec<(&'a str, Process)> {
    let all = Process::find(|words| is_conmon(words) && known(words, names).is_some());
    let own = |conmon: Process| {
        let words = conmon.words();
        let name = known(&words, names).filter(|_| value(&words, "-c") == value(&words, "-u"))?;
        Some((name, conmon))
    };
    all.into_iter().filter_map(own).collect()
}

/// podman's id of the container with this name, if this process is its conmon.
pub fn container_of(process: &Process, name: &str) -> Option<String> {
    let words = process.words();
    known(&words, &[name]).filter(|_| is_conmon(&words) && process.is_outside())?;
    let id = value(&words, "-c").filter(|id| value(&words, "-u") == Some(id))?;
    String::from_utf8(id.to_vec()).ok()
}

/// The given containers that have a conmon.
fn look<'a>(names: &[&'a str]) -> BTreeMap<&'a str, Seen> {
    let mut all: BTreeMap<&str, Seen> = BTreeMap::new();
    for conmon in Process::find(|words| is_conmon(words) && known(words, names).is_some()) {
        let Some(name) = known(&conmon.words(), names) else { continue };
        // A command that is executed in the container has its own conmon with the same container name.
        let seen = all.entry(name).or_default();
        // On a kernel that does not list children, the presence of conmon has to do.
        let Some(children) = conmon.children() else {
            seen.runs = true;
            continue;
        };
        for child in children {
            // An ended process that has not been reaped has no command line, and a process that conmon has just forked
            // still has conmon's.
            match child.words().first() {
                None => {}
                Some(program) if program.ends_with(b"conmon") => {}
                Some(program) if program.ends_with(b"podman") => seen.clean_ups.push(child),
                Some(_) => seen.runs = true,
            }
        }
    }
    all
}

/// The processes of a container.
#[derive(Debug)]
pub struct Inside {
    /// podman's id of the container.
    id: Vec<u8>,
    /// podman's init or a unit's command, which must keep running.
    init: Process,
    group: Cgroup,
}

impl Inside {
    /// Finds the processes of the running container with this name; `None` if it is not running.
    pub fn of(name: &str) -> Option<Self> {
        Self::find(|words| known(words, &[name]).is_some())
    }

    /// Finds the processes of the running container with this id; `None` if it is not running.
    pub fn of_id(id: &str) -> Option<Self> {
        Self::find(|words| value(words, "-c") == Some(id.as_bytes()))
    }

    fn find(wanted: impl Fn(&[Vec<u8>]) -> bool) -> Option<Self> {
        let conmons = Process::find(|words| is_conmon(words) && wanted(words));
        conmons.into_iter().find_map(|conmon| {
            let words = conmon.words();
            let id = value(&words, "-c").filter(|id| value(&words, "-u") == Some(id))?;
            let init = conmon.children()?.into_iter().next()?;
            let list = fs::read_to_string(format!("/proc/{}/cgroup", init.number())).ok()?;
            let group = Cgroup::open(&group_of(&list, std::str::from_utf8(id).ok()?)?).ok()?;
            Some(Self { id: id.to_vec(), init, group })
        })
    }

    /// Becomes readable when the container's first process ends (`pidfd_open(2)`).
    pub fn ended(&self) -> BorrowedFd<'_> {
        self.init.as_fd()
    }

    /// Whether the container's first process has ended.
    pub fn has_ended(&self) -> bool {
        ended_within(&self.init, Duration::ZERO)
    }

    /// The container's root directory, as its first process sees it; `None` if that is the host's root or the process
    /// is gone.
    pub fn root(&self) -> Option<OwnedFd> {
        self.init.root().filter(|_| !self.init.is_outside())
    }

    /// The container's network namespace; `None` if that is the host's or the process is gone.
    pub fn network(&self) -> Option<OwnedFd> {
        self.init.network().filter(|_| !self.init.is_outside())
    }

    /// Where the container looks for programs, as its first process was told.
    pub fn search_path(&self) -> Option<String> {
        String::from_utf8(self.init.variable("PATH")?).ok()
    }

    /// Sends a signal to every process but podman's init and what other calls than `mark`'s execute here, as a terminal
    /// does for its foreground group.
    pub fn interrupt(&self, signal: Signal, mark: &str) {
        let program = self.init.program();
        let others = family(self.executed(|other| other != Some(mark.as_bytes())));
        let others: Vec<i32> = others.iter().map(Process::number).collect();
        let members = self.group.members();
        let ours = members.iter().filter(|process| !others.contains(&process.number()));
        for process in ours.filter(|process| program.is_none() || process.program() != program) {
            process.signal(signal);
        }
    }

    /// Sends a signal to the command only, which the call with this mark executes in the container. Returns false if
    /// there is no such process.
    pub fn tell(&self, signal: Signal, mark: &str) -> bool {
        let commands = self.executed(|one| one == Some(mark.as_bytes()));
        let told: Vec<bool> = commands.iter().map(|process| process.signal(signal)).collect();
        told.contains(&true)
    }

    /// Kills every command that `podman exec` runs here, with its descendants. Returns false if there is none.
    pub fn kill_executed(&self) -> bool {
        let all = family(self.executed(|_| true));
        for process in &all {
            process.signal(Signal::KILL);
        }
        !all.is_empty()
    }

    /// Sends a signal to that command and its descendants, parents first. Returns false if there is no such process.
    pub fn tell_family(&self, signal: Signal, mark: &str) -> bool {
        let all = family(self.executed(|one| one == Some(mark.as_bytes())));
        let told: Vec<bool> = all.iter().map(|process| process.signal(signal)).collect();
        told.contains(&true)
    }

    /// The commands that `podman exec` runs in this container, if their calls have a wanted mark.
    fn executed(&self, wanted: impl Fn(Option<&[u8]>) -> bool) -> Vec<Process> {
        let executes = |words: &[Vec<u8>]| {
            is_conmon(words) && value(words, "-c") == Some(&self.id) && value(words, "-u") != Some(&self.id)
        };
        let conmons = Process::find(executes).into_iter().filter(|conmon| wanted(conmon.variable(MARK).as_deref()));
        let commands: Vec<Process> = conmons.filter_map(|conmon| conmon.children()).flatten().collect();
        let members: Vec<i32> = self.group.members().iter().map(Process::number).collect();
        // A child that has not executed its program yet is not in the cgroup, and the signal would kill it.
        commands.into_iter().filter(|process| members.contains(&process.number())).collect()
    }
}

/// These processes and their descendants, parents first.
pub(super) fn family(mut all: Vec<Process>) -> Vec<Process> {
    let mut at = 0;
    while let Some(process) = all.get(at).filter(|_| all.len() < FAMILY) {
        let children = process.children().unwrap_or_default();
        all.extend(children);
        at += 1;
    }
    all
}

/// Finds the path of a container's group in `/proc/PID/cgroup` of its first process (`cgroups(7)`): the part that ends
/// with the container's id, whatever the runtime created below it.
fn group_of(list: &str, id: &str) -> Option<String> {
    let path = list.lines().find_map(|line| line.strip_prefix("0::"))?;
    let (before, after) = path.split_once(&format!("libpod-{id}"))?;
    let rest = after.split('/').next().unwrap_or_default();
    (id.len() == 64).then(|| format!("{before}libpod-{id}{rest}"))
}

fn is_conmon(words: &[Vec<u8>]) -> bool {
    words.first().is_some_and(|program| program.ends_with(b"conmon"))
}

fn runs(process: &Process, program: &str) -> bool {
    process.words().first().is_some_and(|word| word.ends_with(program.as_bytes()))
}

/// Returns which of these containers this conmon belongs to.
fn known<'a>(words: &[Vec<u8>], names: &[&'a str]) -> Option<&'a str> {
    let name = value(words, "-n")?;
    names.iter().copied().find(|known| known.as_bytes() == name)
}

/// Returns the word after an option.
fn value<'a>(words: &'a [Vec<u8>], option: &str) -> Option<&'a [u8]> {
    let at = words.iter().position(|word| word == option.as_bytes())?;
    words.get(at + 1).map(Vec::as_slice)
}

#[cfg(test)]
mod tests;
