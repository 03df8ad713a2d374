//! Cleanup after the runner, or a part of a session, died at any moment: nothing is left after `gc` or the next run.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sandboxc::runtime::fault::POINTS;
use serde_json::Value;

use crate::harness::{REPO, Sandbox, code, left_over, podman, signal, text, wait_until};

/// A session whose command runs until it is stopped.
fn background(sandbox: &Sandbox, session: &str, script: &str) -> Child {
    let child = sandbox
        .command(&["run", "--session", session, "--", "sh", "-c", script])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("the session runs", || state_of(sandbox, session).as_deref() == Some("running"));
    child
}

fn ps(sandbox: &Sandbox) -> Vec<Value> {
    let output = sandbox.command(&["ps", "--json"]).output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    document["sessions"].as_array().unwrap().clone()
}

fn state_of(sandbox: &Sandbox, session: &str) -> Option<String> {
    let all = ps(sandbox);
    let record = all.iter().find(|record| record["session"] == session)?;
    Some(record["state"].as_str().unwrap().to_owned())
}

fn gc(sandbox: &Sandbox, flags: &[&str]) -> Value {
    let output = sandbox.command(&[&["gc", "--json"], flags].concat()).output().unwrap();
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Processes of this user whose command line contains all these words.
pub fn processes(words: &[&str]) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let line = text(&std::fs::read(entry.path().join("cmdline")).unwrap_or_default());
        if pid != std::process::id() && words.iter().all(|word| line.contains(word)) {
            found.push(pid);
        }
    }
    found
}

fn kill_all(words: &[&str]) {
    let found = processes(words);
    assert!(!found.is_empty(), "no process has {words:?}");
    for pid in found {
        // One may end together with another.
        let _ = Command::new("kill").args(["-9", &pid.to_string()]).stderr(Stdio::null()).status();
    }
}

#[test]
fn wherever_the_runner_is_killed_gc_or_the_next_run_leaves_nothing() {
    let sandbox = Sandbox::alone();
    gc(&sandbox, &[]);
    assert_eq!(left_over(), [""; 0], "before");
    for (index, point) in POINTS.into_iter().enumerate() {
        // The runner only inspects the created container before the start if there is a limit.
        let limits = if point == "agent-created" { "resource_limits: {memory: 1g}\n" } else { "" };
        std::fs::write(sandbox.repo().join(".sandboxc/sandbox.yaml"), format!("{REPO}{limits}")).unwrap();
        let output = sandbox.command(&["run", "--", "true"]).env("SANDBOXC_FAULT", point).output().unwrap();
        assert_eq!(output.status.signal(), Some(9), "{point}: {:?} {}", output.status, text(&output.stderr));
        assert_ne!(left_over(), [""; 0], "{point} leaves something to remove");
        let mut said = String::new();
        if index % 2 == 0 {
            gc(&sandbox, &[]);
        } else {
            std::fs::write(sandbox.repo().join(".sandboxc/sandbox.yaml"), REPO).unwrap();
            let output = sandbox.run(&["true"]);
            said = text(&output.stderr);
            assert_eq!(code(&output), 0, "after {point}: {said}");
        }
        assert_eq!(left_over(), [""; 0], "after {point}: {said}");
    }
}

#[test]
fn gc_removes_the_dead_and_touches_nobody_else() {
    let sandbox = Sandbox::alone();
    let (label, net) = ("io.sandboxc.session=by-hand", "e2e-not-a-runners");
    podman(&["network", "create", "--label", label, net]);
    podman(&["create", "--name", "e2e-other-tool", "--pull=never", "localhost/sandboxc-base-agent:test", "true"]);
    let alive = background(&sandbox, "alive", "sleep 100");
    let output = sandbox
        .command(&["run", "--session", "dead", "--", "true"])
        .env("SANDBOXC_FAULT", "command-started")
        .output()
        .unwrap();
    assert_eq!(output.status.signal(), Some(9));
    let before = left_over();
    let would = gc(&sandbox, &["--dry-run"]);
    assert_eq!(left_over(), before, "--dry-run removes nothing");
    assert_eq!(would["sessions"], serde_json::json!(["dead"]));
    let start = Instant::now();
    let did = gc(&sandbox, &[]);
    println!("gc of one dead session beside a living one: {:?}", start.elapsed());
    assert_eq!(did["objects"], would["objects"]);
    let kinds: std::collections::BTreeSet<_> =
        did["objects"].as_array().unwrap().iter().map(|object| object["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ["container", "network", "pod", "volume"]);
    assert_eq!(gc(&sandbox, &[])["objects"], serde_json::json!([]), "twice is nothing more");
    let (nets, ctrs) = (podman(&["network", "ls", "-q"]), podman(&["ps", "-a", "--format", "{{.Names}}"]));
    podman(&["network", "rm", net]);
    podman(&["rm", "e2e-other-tool"]);
    assert!(nets.contains(net) && ctrs.contains("e2e-other-tool"), "others' things are not ours to remove");
    the_living_one_is_listed_heard_and_stopped(&sandbox, alive);
    assert_eq!(left_over(), [""; 0]);
}

fn the_living_one_is_listed_heard_and_stopped(sandbox: &Sandbox, alive: Child) {
    let all = ps(sandbox);
    let record = all.iter().find(|record| record["session"] == "alive").expect("still listed");
    assert_eq!(record["workspace"], sandbox.repo().to_str().unwrap());
    assert!(record["image"].as_str().unwrap().starts_with("localhost/"));
    let table = text(&sandbox.command(&["ps"]).output().unwrap().stdout);
    assert!(table.contains("alive") && table.contains("running"), "{table}");
    let logs = sandbox.command(&["logs", "alive"]).output().unwrap();
    assert_eq!(code(&logs), 0, "{}", text(&logs.stderr));
    let said = text(&logs.stdout);
    assert!(said.contains("router: router: ready\n") && said.contains("forwarder: "), "{said}");
    let stop = sandbox.command(&["stop", "alive"]).output().unwrap();
    assert_eq!(code(&stop), 0, "{}", text(&stop.stderr));
    let ended = alive.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(143), "{}", text(&ended.stderr));
    for command in ["stop", "logs"] {
        let output = sandbox.command(&[command, "alive"]).output().unwrap();
        assert_eq!(code(&output), 2, "{command} of what is gone");
    }
}

#[test]
fn a_session_name_is_free_again_after_its_runner_was_killed() {
    let sandbox = Sandbox::alone();
    let mut first = background(&sandbox, "again", "sleep 100");
    let twin = sandbox.run_with(&["--session", "again"], &["true"]);
    assert_eq!(code(&twin), 125);
    assert!(text(&twin.stderr).contains("already running"), "{}", text(&twin.stderr));
    first.kill().unwrap();
    first.wait().unwrap();
    let next = sandbox.run_with(&["--session", "again"], &["echo", "here"]);
    assert_eq!((code(&next), text(&next.stdout)), (0, "here\n".to_owned()), "{}", text(&next.stderr));
    assert_eq!(left_over(), [""; 0]);
}

#[test]
fn after_a_restart_of_the_machine_the_names_tell_who_is_dead() {
    let sandbox = Sandbox::alone();
    let args = ["run", "--session", "restarted", "--", "true"];
    let output = sandbox.command(&args).env("SANDBOXC_FAULT", "command-started").output().unwrap();
    assert_eq!(output.status.signal(), Some(9));
    // What a reboot does to the runtime directory, a tmpfs.
    let registry = std::path::PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR").unwrap()).join("sandboxc");
    std::fs::remove_dir_all(registry.join("restarted")).unwrap();
    std::fs::remove_file(registry.join(".lock")).unwrap();
    assert_ne!(left_over(), [""; 0]);
    assert_eq!(code(&sandbox.run(&["true"])), 0);
    assert_eq!(left_over(), [""; 0], "the first run after it has cleaned up");
}

/// Kills parts of a running session. Nothing is left when it has ended.
#[test]
fn parts_of_a_session_die_and_nothing_is_left() {
    let sandbox = Sandbox::alone();
    for (session, words) in
        [("exec", &["podman", "exec", "--interactive"][..]), ("conmon", &["conmon", "sandboxc-run-"])]
    {
        let child = background(&sandbox, session, "sleep 8");
        kill_all(words);
        let start = Instant::now();
        let output = child.wait_with_output().unwrap();
        assert!(start.elapsed() < Duration::from_secs(60), "{session}: {:?}", start.elapsed());
        println!("{session}: {:?} {}", output.status, text(&output.stderr));
        gc(&sandbox, &[]);
        assert_eq!(left_over(), [""; 0], "after {session}: {}", text(&output.stderr));
    }
    assert_eq!(code(&sandbox.run(&["true"])), 0, "and the next one works");
}

#[test]
fn without_its_router_or_forwarder_the_agent_reaches_nothing() {
    let sandbox = Sandbox::alone();
    let script = "touch started; while [ ! -e go ]; do sleep 0.1; done
        curl -sS -m 5 https://api.example.com/ -o /dev/null && echo REACHED
        curl -sS -m 5 http://203.0.113.11/ -o /dev/null && echo REACHED
        cat /proc/net/route | awk '$2 == \"00000000\" { print \"ROUTE\" }'; echo done";
    for part in ["router-router", "forwarder"] {
        let child = background(&sandbox, part, script);
        wait_until("the command runs", || sandbox.repo().join("started").exists());
        let names = podman(&["ps", "--format", "{{.Names}}"]);
        let name = names.lines().find(|n| n.starts_with("sandboxc-run-") && n.ends_with(part)).unwrap();
        let pid = podman(&["inspect", "--format", "{{.State.Pid}}", name]);
        podman(&["unshare", "kill", "-9", pid.trim()]);
        std::fs::write(sandbox.repo().join("go"), "").unwrap();
        let start = Instant::now();
        let output = child.wait_with_output().unwrap();
        println!("{part}: the rest took {:?}", start.elapsed());
        assert_eq!(text(&output.stdout), "done\n", "{part}: {}", text(&output.stderr));
        for file in ["started", "go"] {
            std::fs::remove_file(sandbox.repo().join(file)).unwrap();
        }
        assert_eq!(left_over(), [""; 0], "after the {part} died");
    }
}

/// podman's cleanup of a container that ended by itself, and a `pod rm`, wait for each other until systemd gives up.
#[test]
fn a_part_that_dies_right_before_the_end_does_not_delay_the_teardown() {
    let sandbox = Sandbox::alone();
    for part in ["router-router", "forwarder"] {
        let child = background(&sandbox, part, "touch started; while [ ! -e go ]; do sleep 0.02; done");
        wait_until("the command runs", || sandbox.repo().join("started").exists());
        let names = podman(&["ps", "--format", "{{.Names}}"]);
        let name = names.lines().find(|n| n.starts_with("sandboxc-run-") && n.ends_with(part)).unwrap();
        let pid = podman(&["inspect", "--format", "{{.State.Pid}}", name]);
        podman(&["unshare", "sh", "-c", &format!("kill -9 {}; touch {}/go", pid.trim(), sandbox.repo().display())]);
        let start = Instant::now();
        let output = child.wait_with_output().unwrap();
        println!("{part}: {:?}", start.elapsed());
        assert!(start.elapsed() < Duration::from_secs(30), "{part}: {:?}", start.elapsed());
        assert_eq!(code(&output), 0, "{}", text(&output.stderr));
        assert_eq!(left_over(), [""; 0], "after the {part} died");
        for file in ["started", "go"] {
            std::fs::remove_file(sandbox.repo().join(file)).unwrap();
        }
    }
}

#[test]
fn a_podman_that_is_killed_midway_leaves_nothing() {
    let sandbox = Sandbox::alone();
    let bin = sandbox.scratch("bin");
    std::fs::create_dir(&bin).unwrap();
    let wrapper = bin.join("podman");
    for delay in ["0.05", "0.2", "0.4"] {
        let text_of = format!(
            "#!/bin/sh\ncase \"$*\" in\n*'kube play'*) /usr/bin/podman \"$@\" <&0 & sleep {delay}; kill -9 $!; exit 137;;\nesac\nexec /usr/bin/podman \"$@\"\n"
        );
        std::fs::write(&wrapper, text_of).unwrap();
        Command::new("chmod").arg("755").arg(&wrapper).status().unwrap();
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        let output = sandbox.command(&["run", "--", "true"]).env("PATH", path).output().unwrap();
        assert_eq!(code(&output), 125, "{}", text(&output.stderr));
        gc(&sandbox, &[]);
        assert_eq!(left_over(), [""; 0], "killed after {delay} s: {}", text(&output.stderr));
    }
}

#[test]
fn a_stopped_runner_goes_on_where_it_was() {
    let sandbox = Sandbox::new();
    let child = background(&sandbox, "stopped", "sleep 2; exit 9");
    signal(child.id(), "STOP");
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(state_of(&sandbox, "stopped").as_deref(), Some("running"), "it still holds its session");
    signal(child.id(), "CONT");
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(9));
}
