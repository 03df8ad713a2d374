//! A runtime directory that is full, and one whose lock is held.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::harness::{Sandbox, code, handles_term, left_over, signal, text, wait_until};

/// Where this user's programs keep what ends with the login.
pub fn runtime_dir() -> PathBuf {
    PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR").unwrap())
}

/// Uses all space except `left` bytes, as a container can that writes to mounted files of the host.
struct Full(PathBuf);

impl Full {
    fn but(left: u64) -> Self {
        let path = runtime_dir().join("e2e-full");
        let output = Command::new("stat").args(["-f", "-c", "%a %S"]).arg(runtime_dir()).output().unwrap();
        let numbers: Vec<u64> = text(&output.stdout).split_whitespace().map(|word| word.parse().unwrap()).collect();
        let size = (numbers[0] * numbers[1]).saturating_sub(left);
        let status = Command::new("fallocate").args(["-l", &size.to_string()]).arg(&path).status().unwrap();
        assert!(status.success());
        Self(path)
    }
}

impl Drop for Full {
    fn drop(&mut self) {
        // Missing files need no removal.
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn a_full_runtime_directory_is_said_at_once_and_nobody_waits_for_ever() {
    let sandbox = Sandbox::alone();
    sandbox.sh("true");
    for left in [1 << 20, 0] {
        let full = Full::but(left);
        let begin = Instant::now();
        let output = sandbox.run(&["true"]);
        assert_eq!(code(&output), 125, "{}", text(&output.stderr));
        let said = text(&output.stderr);
        assert!(said.contains("has space for") && said.contains("sandboxc gc") && said.lines().count() == 1, "{said}");
        for args in [&["ps"][..], &["gc"], &["stop", "nobody"]] {
            let output = sandbox.command(args).output().unwrap();
            println!("{args:?} with {left} bytes: {:?} {}", output.status, text(&output.stderr));
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
        drop(full);
        assert_eq!(code(&sandbox.run(&["true"])), 0, "with room again");
    }
    assert_eq!(left_over(), [""; 0]);
}

#[test]
fn one_that_fills_while_the_command_runs_ends_in_time_and_leaves_nothing() {
    let sandbox = Sandbox::alone();
    let mut child = sandbox
        .command(&["run", "--", "sh", "-c", "touch started; while [ ! -e go ]; do sleep 0.1; done; exit 6"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the command runs", || sandbox.repo().join("started").exists());
    let full = Full::but(0);
    fs::write(sandbox.repo().join("go"), "").unwrap();
    let begin = Instant::now();
    let status = child.wait().unwrap();
    println!("ended with {status:?} after {:?}", begin.elapsed());
    assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
    drop(full);
    let output = sandbox.command(&["gc"]).output().unwrap();
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    assert_eq!(left_over(), [""; 0]);
}

/// A holder that does not release the lock: stopped, or stuck.
#[test]
fn a_registry_that_somebody_keeps_locked_ends_the_wait_by_time_and_by_signal() {
    let sandbox = Sandbox::alone();
    sandbox.sh("true");
    let path: &Path = &runtime_dir().join("sandboxc/.lock");
    let lock = File::options().write(true).open(path).unwrap();
    lock.lock().unwrap();
    let mut child =
        sandbox.command(&["run", "--", "true"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("it hears signals", || handles_term(child.id()));
    std::thread::sleep(Duration::from_millis(500));
    signal(child.id(), "TERM");
    let begin = Instant::now();
    assert_eq!(child.wait().unwrap().code(), Some(143));
    // By time, the wait ends after half a minute.
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    let output = sandbox.run(&["true"]);
    assert_eq!(code(&output), 125);
    assert!(text(&output.stderr).contains("another process has locked"), "{}", text(&output.stderr));
    drop(lock);
    assert_eq!(code(&sandbox.run(&["true"])), 0);
    assert_eq!(left_over(), [""; 0]);
}
