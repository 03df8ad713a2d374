//! Sessions that stay for many commands: `start`, `exec`, `stop`.

use std::fs;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::{REPO, SERVER, Sandbox, code, everything, signal, text, unique, wait_until};
use crate::quadlet_live::systemctl;
use crate::survival::processes;

/// Starts a session; returns its id, which is all that stdout has.
fn start(sandbox: &Sandbox, flags: &[&str]) -> String {
    let output = sandbox.command(&[&["start"], flags].concat()).output().unwrap();
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let stdout = text(&output.stdout);
    let session = stdout.trim_end().to_owned();
    assert_eq!(stdout, format!("{session}\n"));
    session
}

fn exec(sandbox: &Sandbox, session: &str, script: &str) -> Output {
    sandbox.command(&["exec", session, "--", "sh", "-c", script]).output().unwrap()
}

fn stop(sandbox: &Sandbox, session: &str) {
    let output = sandbox.command(&["stop", session]).output().unwrap();
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
}

fn runs(sandbox: &Sandbox, session: &str) -> bool {
    text(&sandbox.command(&["ps"]).output().unwrap().stdout).contains(session)
}

#[test]
fn a_session_stays_for_many_commands_in_parallel_each_with_its_own_streams_and_code() {
    let sandbox = Sandbox::alone();
    sandbox.sh("true");
    let before = everything();
    let session = start(&sandbox, &[]);
    assert!(runs(&sandbox, &session));
    // What one leaves, the next one finds: it is one container.
    assert_eq!(code(&exec(&sandbox, &session, "echo kept >/tmp/kept; exit 3")), 3);
    assert_eq!(text(&exec(&sandbox, &session, "cat /tmp/kept").stdout), "kept\n");
    let many: Vec<_> = (0..8)
        .map(|index| {
            let script = format!("cat; echo e{index} >&2; sleep 1; exit {}", 10 + index);
            let mut command = sandbox.command(&["exec", &session, "--", "sh", "-c", &script]);
            let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            (index, child)
        })
        .collect();
    for (index, mut child) in many {
        use std::io::Write as _;
        child.stdin.take().unwrap().write_all(format!("in {index}").as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!((code(&output), text(&output.stdout)), (10 + index, format!("in {index}")));
        assert!(text(&output.stderr).contains(&format!("e{index}\n")), "{}", text(&output.stderr));
    }
    assert_eq!(code(&exec(&sandbox, &session, "curl -sS https://api.example.com/x >/dev/null")), 0);
    assert_ne!(code(&exec(&sandbox, &session, "curl -sS https://denied.example.com/x >/dev/null")), 0);
    stop(&sandbox, &session);
    assert!(!runs(&sandbox, &session));
    assert_eq!(everything(), before);
    assert_eq!(code(&exec(&sandbox, &session, "true")), 2, "it is gone");
}

#[test]
fn a_session_ends_when_nobody_has_used_it_but_never_under_a_command() {
    let sandbox = Sandbox::new();
    let session = start(&sandbox, &["--idle", "3s"]);
    let begin = Instant::now();
    assert_eq!(text(&exec(&sandbox, &session, "sleep 7; echo done").stdout), "done\n", "used all the time");
    assert!(begin.elapsed() >= Duration::from_secs(7));
    wait_until("the idle session to end", || !runs(&sandbox, &session));
    // Twin: without `--idle`, nothing ends it.
    let session = start(&sandbox, &[]);
    thread::sleep(Duration::from_secs(5));
    assert!(runs(&sandbox, &session));
    stop(&sandbox, &session);
}

#[test]
fn a_session_ends_at_its_age_and_its_commands_with_it() {
    let sandbox = Sandbox::new();
    let session = start(&sandbox, &["--max-age", "15s"]);
    let output = exec(&sandbox, &session, "echo begun; sleep 60; echo late");
    assert_eq!(text(&output.stdout), "begun\n");
    assert!(text(&output.stderr).contains("has ended"), "{}", text(&output.stderr));
    wait_until("the old session to end", || !runs(&sandbox, &session));
}

/// The server's limit is a promise for every session, not only for those with a command.
#[test]
fn a_session_ends_at_the_configured_timeout_whatever_its_age_may_be() {
    let server = format!("{SERVER}defaults: {{resource_limits: {{timeout: 20}}}}\n");
    let sandbox = Sandbox::with(REPO, &server);
    let session = start(&sandbox, &["--max-age", "1h"]);
    assert!(runs(&sandbox, &session));
    wait_until("the session to time out", || !runs(&sandbox, &session));
}

#[test]
fn a_session_outlives_the_terminal_and_the_shell_that_started_it() {
    let sandbox = Sandbox::new();
    // `script` is a terminal; when it ends, everything in its session gets SIGHUP.
    let program = env!("CARGO_BIN_EXE_sandboxc");
    let line = format!("{program} start >{}", sandbox.scratch("id").display());
    let output = sandbox.in_shell(&format!("script -qec '{line}' /dev/null </dev/null")).output().unwrap();
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let session = fs::read_to_string(sandbox.scratch("id")).unwrap().trim().to_owned();
    thread::sleep(Duration::from_secs(1));
    assert_eq!(text(&exec(&sandbox, &session, "echo here").stdout), "here\n");
    let scope = format!("sandboxc-keeper-{session}.scope");
    let state = systemctl(&["show", "--property=ActiveState", "--value", &scope]);
    assert_eq!(text(&state.stdout).trim(), "active", "the user's systemd knows it");
    stop(&sandbox, &session);
    let state = systemctl(&["show", "--property=LoadState", "--value", &scope]);
    assert_eq!(text(&state.stdout).trim(), "not-found", "and nothing of it is left there");
}

#[test]
fn what_a_killed_keeper_leaves_is_removed_by_gc() {
    let sandbox = Sandbox::alone();
    sandbox.sh("true");
    let before = everything();
    let session = start(&sandbox, &[]);
    let listed = sandbox.command(&["ps", "--json"]).output().unwrap();
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let pid = listed["sessions"].as_array().unwrap().iter().find(|one| one["session"] == session.as_str());
    signal(u32::try_from(pid.unwrap()["pid"].as_u64().unwrap()).unwrap(), "KILL");
    wait_until("its end", || !runs(&sandbox, &session));
    assert_ne!(everything(), before);
    assert_eq!(code(&sandbox.command(&["gc"]).output().unwrap()), 0);
    assert_eq!(everything(), before);
}

#[test]
fn a_start_that_fails_says_why_and_prints_no_id() {
    let sandbox = Sandbox::with("version: 1\nnetwork: {allow: [1]}\n", "version: 1\n");
    for (args, expected, why) in [
        (&["start"][..], 2, "sandbox.yaml"),
        (&["start", "--tty"], 2, "use it with `exec`"),
        (&["start", "--timeout", "5m"], 2, "--max-age"),
        (&["start", "--session", "A B"], 2, "session id"),
    ] {
        let output = sandbox.command(args).output().unwrap();
        assert_eq!((code(&output), text(&output.stdout).as_str()), (expected, ""), "{args:?}");
        assert!(text(&output.stderr).contains(why), "{args:?}: {}", text(&output.stderr));
    }
    let sandbox = Sandbox::new();
    let output = sandbox.command(&["start"]).env("SANDBOXC_IMAGE", "localhost/not-there:1").output().unwrap();
    assert_eq!((code(&output), text(&output.stdout).as_str()), (125, ""));
    assert!(text(&output.stderr).contains("localhost/not-there:1"), "{}", text(&output.stderr));
    // A session of that name exists: the second one is refused, and the first one goes on.
    let session = start(&sandbox, &["--session", "one"]);
    let output = sandbox.command(&["start", "--session", "one"]).output().unwrap();
    assert_eq!((code(&output), text(&output.stdout).as_str()), (125, ""), "{}", text(&output.stderr));
    assert_eq!(code(&exec(&sandbox, &session, "true")), 0);
    stop(&sandbox, &session);
}

#[test]
fn a_start_that_nobody_waits_for_any_more_leaves_nothing() {
    let sandbox = Sandbox::new();
    let session = unique();
    let mut child = sandbox.command(&["start", "--session", &session]).stdout(Stdio::piped()).spawn().unwrap();
    thread::sleep(Duration::from_millis(300));
    signal(child.id(), "KILL");
    child.wait().unwrap();
    drop(child.stdout.take());
    // Whether it was before the session existed or after, it ends: the keeper, and all that it has begun.
    wait_until("the end of the start", || processes(&[&session]).is_empty());
    assert!(!runs(&sandbox, &session));
}

/// Hides the socket by which programs find the user's systemd. podman reaches it by the bus, for control groups.
struct Hidden(PathBuf);

impl Hidden {
    fn systemd() -> Self {
        let socket = PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR").unwrap()).join("systemd/private");
        fs::rename(&socket, socket.with_extension("hidden")).unwrap();
        Self(socket)
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        fs::rename(self.0.with_extension("hidden"), &self.0).unwrap();
    }
}

#[test]
fn without_systemd_the_keeper_is_a_process_of_its_own() {
    let sandbox = Sandbox::alone();
    let hidden = Hidden::systemd();
    let session = start(&sandbox, &[]);
    assert_eq!(text(&exec(&sandbox, &session, "echo inside").stdout), "inside\n");
    drop(hidden);
    let scope = format!("sandboxc-keeper-{session}.scope");
    assert!(!text(&systemctl(&["list-units", "--all"]).stdout).contains(&scope));
    assert!(runs(&sandbox, &session));
    stop(&sandbox, &session);
    assert!(!runs(&sandbox, &session));
    // The twin: where there is a systemd, a scope holds the keeper.
    let session = start(&sandbox, &[]);
    assert!(text(&systemctl(&["list-units", "--all"]).stdout).contains(&format!("sandboxc-keeper-{session}.scope")));
    stop(&sandbox, &session);
}
