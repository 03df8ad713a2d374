//! Signals without a terminal.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::harness::{Sandbox, left_over, signal, unique, wait_until};
use crate::runtime_dir::runtime_dir;

/// A command that first prints `ready` and then stays. Its later output is in the result.
fn ready(sandbox: &Sandbox, script: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = sandbox
        .command(&["run", "--", "sh", "-c", &format!("{script}; echo ready; while :; do sleep 0.1; done")])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    (child, reader)
}

#[test]
fn the_first_interrupt_is_the_commands_and_the_second_ends_the_sandbox() {
    let sandbox = Sandbox::alone();
    let (mut child, mut reader) = ready(&sandbox, "trap 'echo interrupted' INT");
    signal(child.id(), "INT");
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    assert_eq!(line, "interrupted\n");
    std::thread::sleep(Duration::from_millis(2500));
    assert!(child.try_wait().unwrap().is_none(), "the command chose to go on");
    signal(child.id(), "INT");
    std::thread::sleep(Duration::from_millis(300));
    let start = Instant::now();
    signal(child.id(), "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    assert_eq!(left_over(), [""; 0]);
}

#[test]
fn an_interrupt_that_the_command_does_not_catch_ends_it() {
    let sandbox = Sandbox::new();
    let (mut child, _reader) = ready(&sandbox, "true");
    signal(child.id(), "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn term_and_hup_tear_down_at_any_time() {
    let sandbox = Sandbox::alone();
    for (name, expected) in [("TERM", 143), ("HUP", 129)] {
        let (mut child, _reader) = ready(&sandbox, "trap '' TERM HUP INT");
        signal(child.id(), name);
        assert_eq!(child.wait().unwrap().code(), Some(expected));
        assert_eq!(left_over(), [""; 0], "after {name}");
        // Also during setup.
        for delay in [50, 400, 900] {
            let mut child = sandbox
                .command(&["run", "--", "sleep", "60"])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(Duration::from_millis(delay));
            signal(child.id(), name);
            // Before there is anything to remove, the signal itself may end it; a shell sees the same code.
            let status = child.wait().unwrap();
            let code = status.code().or(status.signal().map(|signal| 128 + signal));
            assert_eq!(code, Some(expected), "{name} after {delay} ms");
            assert_eq!(left_over(), [""; 0], "{name} after {delay} ms");
        }
    }
}

/// The name of a process may contain a line break. Parsed line by line, the rest would look like another process.
#[test]
fn an_interrupt_reaches_the_command_and_no_process_that_it_names() {
    let sandbox = Sandbox::new();
    let mut bystander = std::process::Command::new("sleep").arg("300").spawn().unwrap();
    for name in [format!("a\n{} b", bystander.id()), "a\n-1 b".to_owned(), "podman-init".to_owned()] {
        let program = format!(
            "import os, signal, sys, time
open('/proc/self/comm', 'w').write({name:?})
def interrupted(*_): os.write(1, b'interrupted\\n'); sys.exit(7)
signal.signal(signal.SIGINT, interrupted)
os.write(1, b'ready\\n')
time.sleep(60)"
        );
        let mut child = sandbox
            .command(&["run", "--", "python3", "-c", &program])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert_eq!(lines.next().as_deref(), Some("ready"));
        signal(child.id(), "INT");
        let next = lines.next();
        assert_eq!(next.as_deref(), Some("interrupted"), "{name:?}: {:?}", child.wait());
        assert_eq!(child.wait().unwrap().code(), Some(7), "{name:?}");
        assert!(bystander.try_wait().unwrap().is_none(), "{name:?} reached a process outside");
    }
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

#[test]
fn usr1_and_quit_are_the_commands_and_it_goes_on() {
    let sandbox = Sandbox::alone();
    // A helper of the command must not be killed by a message for the command.
    let traps = "sleep 200 & trap 'echo usr1' USR1; trap 'echo usr2' USR2; trap 'echo quit' QUIT";
    let (mut child, mut reader) = ready(&sandbox, traps);
    for (name, expected) in [("USR1", "usr1\n"), ("USR2", "usr2\n"), ("QUIT", "quit\n")] {
        signal(child.id(), name);
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert_eq!(line, expected);
    }
    assert!(child.try_wait().unwrap().is_none());
    std::thread::sleep(Duration::from_millis(2500));
    signal(child.id(), "QUIT");
    std::thread::sleep(Duration::from_millis(300));
    signal(child.id(), "QUIT");
    assert_eq!(child.wait().unwrap().code(), Some(131), "twice ends the sandbox");
    assert_eq!(left_over(), [""; 0]);
    // A command that does not handle the signal is killed by it, as with `podman run`.
    let (mut child, _reader) = ready(&sandbox, "true");
    signal(child.id(), "USR1");
    assert_eq!(child.wait().unwrap().code(), Some(138));
    assert_eq!(left_over(), [""; 0]);
}

#[test]
fn every_other_signal_that_would_end_the_runner_tears_down() {
    let sandbox = Sandbox::alone();
    for (name, expected) in [("ALRM", 142), ("XCPU", 152), ("VTALRM", 154), ("IO", 157), ("ABRT", 134), ("41", 169)] {
        let (mut child, _reader) = ready(&sandbox, "trap '' ALRM USR1 TERM");
        signal(child.id(), name);
        assert_eq!(child.wait().unwrap().code(), Some(expected), "{name}");
        assert_eq!(left_over(), [""; 0], "after {name}");
    }
    for (name, expected) in [("USR1", 138), ("QUIT", 131), ("INT", 130), ("PROF", 155)] {
        let session = unique();
        let record = runtime_dir().join("sandboxc").join(&session).join("session.json");
        let mut run = sandbox.command(&["run", "--session", &session, "--", "sleep", "60"]);
        let mut child = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_until("the set-up", || record.exists());
        signal(child.id(), name);
        assert_eq!(child.wait().unwrap().code(), Some(expected), "{name} during the set-up");
        assert_eq!(left_over(), [""; 0], "{name} during the set-up");
    }
}
