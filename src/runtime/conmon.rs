//! Which containers run, without asking podman: each has a conmon, whose child is the container's first process.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// How often it is looked whether podman has cleaned up, which takes it half a second.
const LOOK: Duration = Duration::from_millis(20);

/// After so many looks it has asked systemd to stop the slice that it is in itself, see [`settle`].
const PATIENCE: u32 = 75;

/// A container whose conmon is there.
#[derive(Debug, Default)]
struct Seen {
    /// Its first process runs.
    runs: bool,
    /// podman's clean-ups after it.
    clean_ups: Vec<Pid>,
}

/// True if each of these containers has its conmon, and that one a child. A container that has ended by itself has
/// neither for longer than it takes conmon to call podman's clean-up.
pub fn all_run(names: &[&str]) -> bool {
    let seen = look(names);
    names.iter().all(|name| seen.get(name).is_some_and(|seen| seen.runs))
}

/// Waits for podman's clean-up after those of these containers that have ended by themselves, or ends it.
///
/// The clean-up after the last container of a pod stops the pod: it asks systemd to stop the pod's slice and waits for that,
/// holding the container's lock, and the slice waits for the clean-up, which is in it, until systemd kills it after 90 s
/// (seen on 5.4.2). podman's locks outlive their holder, and the teardown that follows does what was left undone.
pub fn settle(names: &[&str]) {
    for turn in 0..PATIENCE * 2 {
        let mut ending = look(names).into_values().filter(|seen| !seen.runs).peekable();
        if ending.peek().is_none() {
            return;
        }
        if turn == PATIENCE {
            ending.flat_map(|seen| seen.clean_ups).for_each(kill);
        }
        thread::sleep(LOOK);
    }
}

/// Those of the containers that have a conmon.
fn look<'a>(names: &[&'a str]) -> BTreeMap<&'a str, Seen> {
    let mut all: BTreeMap<&str, Seen> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // A process of somebody else, or one that has just ended.
        let Ok(line) = fs::read(entry.path().join("cmdline")) else { continue };
        let words: Vec<&[u8]> = line.split(|&byte| byte == 0).collect();
        let is_conmon = words.first().is_some_and(|program| program.ends_with(b"conmon"));
        let name = words.iter().position(|word| *word == b"-n").and_then(|at| words.get(at + 1));
        let name = name.filter(|_| is_conmon).and_then(|name| std::str::from_utf8(name).ok());
        let Some(name) = name.and_then(|name| names.iter().find(|known| **known == name)) else { continue };
        // A command that is executed in the container has a conmon of the same name.
        let seen = all.entry(*name).or_default();
        // Kernels without this file do not tell; then conmon's own presence has to do.
        let Ok(children) = fs::read_to_string(entry.path().join(format!("task/{pid}/children"))) else {
            seen.runs = true;
            continue;
        };
        for child in children.split_whitespace() {
            match program(child) {
                // One that has ended and waits to be reaped has no command line any more, and one that conmon has just
                // begun has its.
                None => {}
                Some(program) if program.ends_with(b"conmon") => {}
                Some(program) if program.ends_with(b"podman") => seen.clean_ups.extend(number(child)),
                Some(_) => seen.runs = true,
            }
        }
    }
    all
}

fn number(pid: &str) -> Option<Pid> {
    pid.parse().ok().and_then(Pid::from_raw)
}

/// What a process runs.
fn program(pid: &str) -> Option<Vec<u8>> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let program = line.split(|&byte| byte == 0).next().unwrap_or_default();
    (!program.is_empty()).then(|| program.to_vec())
}

/// Ends a clean-up, if the number still is its.
fn kill(pid: Pid) {
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    if program(&pid.as_raw_nonzero().to_string()).is_some_and(|program| program.ends_with(b"podman")) {
        // It may have ended meanwhile.
        let _ = pidfd_send_signal(process, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// A shell by another name, with a child or without.
    fn pretend(dir: &std::path::Path, name: &str, script: &str) -> std::process::Child {
        let conmon = dir.join("conmon");
        let _ = std::os::unix::fs::symlink("/bin/sh", &conmon);
        Command::new(conmon)
            .args(["-c", script, "-n", name])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// A child is its parent's copy for a moment.
    fn until(so: impl Fn() -> bool) {
        for _ in 0..500 {
            if so() {
                return;
            }
            thread::sleep(LOOK);
        }
        panic!("not within 10 s");
    }

    #[test]
    fn a_container_runs_while_its_conmon_has_a_child() {
        use std::io::Read as _;
        let dir = tempfile::tempdir().unwrap();
        assert!(all_run(&[]) && !all_run(&["nobody"]));
        let mut with = pretend(dir.path(), "ctr-a", "sleep 60 & echo; read x; kill $!");
        let mut without = pretend(dir.path(), "ctr-b", "echo; read x");
        for child in [&mut with, &mut without] {
            child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        }
        until(|| all_run(&["ctr-a"]));
        assert!(!all_run(&["ctr-b"]), "its first process has ended");
        assert!(!all_run(&["ctr-a", "ctr-b"]) && !all_run(&["ctr-"]));
        for mut child in [with, without] {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
    }

    #[test]
    fn the_clean_up_after_a_container_is_waited_for_and_nothing_else() {
        use std::io::Read as _;
        let dir = tempfile::tempdir().unwrap();
        settle(&["ctr-none"]);
        let mut running = pretend(dir.path(), "ctr-c", "sleep 60 & echo; read x; kill $!");
        let mut ending = pretend(dir.path(), "ctr-d", "echo; read x");
        for child in [&mut running, &mut ending] {
            child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        }
        until(|| all_run(&["ctr-c"]));
        settle(&["ctr-c"]);
        assert!(all_run(&["ctr-c"]), "one that runs is left alone");
        let waiting = thread::spawn(|| settle(&["ctr-c", "ctr-d"]));
        thread::sleep(LOOK * 5);
        assert!(!waiting.is_finished(), "the other one has ended, and its conmon is there");
        drop(ending.stdin.take());
        ending.wait().unwrap();
        waiting.join().unwrap();
        drop(running.stdin.take());
        running.wait().unwrap();
    }

    #[test]
    fn a_clean_up_that_waits_for_itself_is_ended() {
        use std::io::Read as _;
        let dir = tempfile::tempdir().unwrap();
        let podman = dir.path().join("podman");
        std::os::unix::fs::symlink("/bin/sleep", &podman).unwrap();
        let script = format!("{} 20 & echo; wait $!; exit $?", podman.display());
        let mut ending = pretend(dir.path(), "ctr-e", &script);
        ending.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        until(|| look(&["ctr-e"]).values().any(|seen| !seen.clean_ups.is_empty()));
        assert!(!all_run(&["ctr-e"]));
        let waiting = thread::spawn(|| settle(&["ctr-e"]));
        assert_eq!(ending.wait().unwrap().code(), Some(137), "its child was ended, not itself");
        waiting.join().unwrap();
    }
}
