//! What a run tells its caller: refusals, a report, the progress of a start, and what to do about what is missing.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{REPO, SERVER, Sandbox, code, text, unique};
use crate::terminal::on_a_terminal;

/// The lines of sandboxc's own on stderr.
fn own(stderr: &str) -> Vec<&str> {
    stderr.lines().filter_map(|line| line.strip_prefix("sandboxc: ")).collect()
}

#[test]
fn refused_hosts_are_told_once_each_at_the_end_unless_told_to_be_quiet() {
    let sandbox = Sandbox::new();
    let script = "curl -s https://denied.example.com; curl -s http://api.example.com:81; \
                  for i in 1 2 3; do curl -s --resolve evil.example:443:$(getent hosts api.example.com | cut -d' ' -f1) https://evil.example; done; \
                  curl -sS -o /dev/null http://api.example.com; exit 3";
    let log = sandbox.scratch("log");
    for flags in [&[][..], &["--network-log", log.to_str().unwrap()]] {
        let output = sandbox.run_with(flags, &["sh", "-c", script]);
        assert_eq!(code(&output), 3, "{}", text(&output.stderr));
        let stderr = text(&output.stderr);
        let told = own(&stderr);
        assert_eq!(told[0], "refused: evil.example:443 (3 times, not in network.allow)", "{told:?}");
        assert!(
            told[1].starts_with("refused: denied.example.com (") && told[1].ends_with(" not in network.allow)"),
            "{told:?}"
        );
        assert_eq!(told.len(), 2, "{told:?}");
    }
    let output = sandbox.run_with(&["-q"], &["sh", "-c", script]);
    assert_eq!((code(&output), text(&output.stderr).as_str()), (3, ""));
    let output = sandbox.run(&["curl", "-sS", "-o", "/dev/null", "http://api.example.com"]);
    assert_eq!((code(&output), text(&output.stderr).as_str()), (0, ""), "nothing was refused");
}

#[test]
fn any_number_of_refused_names_is_ten_lines() {
    let sandbox = Sandbox::new();
    let program = crate::harness::probe(
        "for n in range(40):\n    dns(f'n{n}.example')\nfor n in range(3):\n    dns('often.example')",
    );
    let output = sandbox.run(&["python3", "-c", &program]);
    let stderr = text(&output.stderr);
    let told = own(&stderr);
    assert_eq!(told.len(), 10, "{stderr}");
    assert!(told[0].starts_with("refused: often.example (3 times, "), "{stderr}");
    assert_eq!(told[9], "refused: 32 times to other hosts; `--network-log FILE` records each");
}

/// The router writes lines together, and is still writing when the command ends.
#[test]
fn what_is_refused_at_the_last_moment_is_told_too() {
    let sandbox = Sandbox::new();
    let program = crate::harness::probe("for n in range(400):\n    dns('often.example')\nos._exit(0)");
    let log = sandbox.scratch("log");
    for flags in [&[][..], &["--network-log", log.to_str().unwrap()]] {
        let output = sandbox.run_with(flags, &["python3", "-c", &program]);
        let stderr = text(&output.stderr);
        assert!(own(&stderr)[0].starts_with("refused: often.example (400 times, "), "{stderr}");
    }
    assert_eq!(fs::read_to_string(&log).unwrap().lines().count(), 400);
}

#[test]
fn a_log_or_report_on_stdout_is_refused_and_other_descriptors_are_not() {
    let sandbox = Sandbox::new();
    for flag in ["--network-log", "--report"] {
        let output = sandbox.run_with(&[flag, "-"], &["true"]);
        let stderr = text(&output.stderr);
        assert_eq!(code(&output), 2, "{stderr}");
        assert!(stderr.contains("stdout belongs to the command") && stderr.contains("/dev/fd/3"), "{stderr}");
        assert!(!sandbox.repo().join("-").exists());
    }
    let program = env!("CARGO_BIN_EXE_sandboxc");
    let line = format!(
        "{program} run -q --network-log /dev/fd/3 --report /dev/fd/4 -- curl -s https://denied.example.com 3>../log 4>../report; \
         {program} run -q --network-log /dev/stderr -- curl -s https://denied.example.com"
    );
    let output = sandbox.in_shell(&line).output().unwrap();
    assert_eq!(text(&output.stdout), "");
    let read = |name: &str| fs::read_to_string(sandbox.scratch(name)).unwrap();
    for log in [read("log"), text(&output.stderr)] {
        let first: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
        assert_eq!((&first["host"], &first["verdict"]), (&json!("denied.example.com"), &json!("deny")), "{log}");
    }
    let report: Value = serde_json::from_str(&read("report")).unwrap();
    assert_eq!(report["exit_code"], 6, "curl could not resolve the name: {report}");
}

fn report(sandbox: &Sandbox, flags: &[&str], command: &[&str]) -> (i32, Value) {
    let path = sandbox.scratch(&unique());
    let output = sandbox.run_with(&[&["--report", path.to_str().unwrap()], flags].concat(), command);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)));
    let report: Value = serde_json::from_str(&text).unwrap();
    let schema: Value = serde_json::from_str(include_str!("../../schema/report.schema.json")).unwrap();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&report), keys(&schema["properties"]), "the document has what its schema lists");
    assert_eq!((&report["version"], &report["exit_code"]), (&json!(1), &json!(code(&output))), "{report}");
    (code(&output), report)
}

#[test]
fn a_report_says_how_the_run_ended_and_what_it_did() {
    let sandbox = Sandbox::new();
    let script =
        "curl -s https://denied.example.com; curl -sS -o /dev/null http://api.example.com/bytes/5000; kill -KILL $$";
    let (code, seen) = report(&sandbox, &["--session", "told"], &["sh", "-c", script]);
    assert_eq!((code, &seen["outcome"], &seen["signal"]), (137, &json!("exited"), &json!("SIGKILL")), "{seen}");
    assert_eq!((&seen["session"], &seen["error"]), (&json!("told"), &Value::Null));
    let refused = &seen["refusals"][0];
    assert_eq!(
        (&refused["host"], &refused["reason"], &refused["port"]),
        (&json!("denied.example.com"), &json!("not-allowed"), &Value::Null)
    );
    assert!(
        seen["bytes"]["received"].as_u64().unwrap() > 5000 && seen["bytes"]["sent"].as_u64().unwrap() > 50,
        "{seen}"
    );
    assert_eq!(seen["plan"].as_str().unwrap().len(), 12, "{seen}");
    assert_eq!(seen["images"].as_array().unwrap().len(), 2, "{seen}");
    assert!(seen["images"][0]["digest"].as_str().unwrap().starts_with("sha256:"), "{seen}");
    assert!(seen["duration"].as_f64() > seen["command_duration"].as_f64(), "{seen}");

    let (_, seen) = report(&sandbox, &["--timeout", "1s"], &["sleep", "30"]);
    assert_eq!((&seen["outcome"], &seen["limits_hit"]), (&json!("timed-out"), &json!(["timeout"])), "{seen}");
    let (_, seen) = report(&sandbox, &["--podman", "5.3"], &["true"]);
    assert_eq!((&seen["outcome"], &seen["command_duration"]), (&json!("failed"), &Value::Null), "{seen}");
    assert!(seen["error"].as_str().unwrap().contains("5.3"), "{seen}");
    let (_, seen) = report(&sandbox, &[], &["sh", "-c", "echo 'exit 1' >.envrc"]);
    assert_eq!(
        (&seen["outcome"], &seen["exit_code"], &seen["alarms"]),
        (&json!("exited"), &json!(0), &json!([])),
        "{seen}"
    );
    assert!(seen["changes"][0].as_str().unwrap().contains(".envrc"), "{seen}");
}

#[test]
fn a_report_that_the_command_could_change_is_refused_before_anything_runs() {
    let sandbox = Sandbox::new();
    let output = sandbox.run_with(&["--report", "report.json"], &["touch", "ran"]);
    assert_eq!(code(&output), 125, "{}", text(&output.stderr));
    assert!(!sandbox.repo().join("ran").exists() && !sandbox.repo().join("report.json").exists());
    let output = sandbox.run_with(&["--report", ".sandboxc"], &["touch", "ran"]);
    assert_eq!(code(&output), 125, "a directory: {}", text(&output.stderr));
    let (code, _) = report(&sandbox, &[], &["touch", "ran"]);
    assert!(code == 0 && sandbox.repo().join("ran").exists(), "the twin");
}

#[test]
fn agent_takes_the_flags_of_run_before_its_arguments() {
    let sandbox = Sandbox::with("version: 1\ncommand: [sh, -c, 'echo \"$@\"; pwd', sh]\n", "version: 1\n");
    let elsewhere = sandbox.scratch("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let repo = sandbox.repo();
    let log = sandbox.scratch("log");
    let flags =
        ["agent", "--repo", repo.to_str().unwrap(), "--timeout", "60s", "--network-log", log.to_str().unwrap(), "-q"];
    for (args, expected) in [
        (&["--continue", "--timeout", "5", "a b"][..], "--continue --timeout 5 a b"),
        (&["--", "--timeout", "x", "-q"], "--timeout x -q"),
        (&["plan", "--", "-q"], "plan -- -q"),
        (&[], ""),
    ] {
        let output = sandbox.command(&[&flags[..], args].concat()).current_dir(&elsewhere).output().unwrap();
        assert_eq!(code(&output), 0, "{args:?}: {}", text(&output.stderr));
        assert_eq!(text(&output.stdout), format!("{expected}\n{}\n", repo.display()), "{args:?}");
        assert!(log.exists());
    }
    let sleeps = Sandbox::with("version: 1\ncommand: [sleep, \"60\"]\n", "version: 1\n");
    assert_eq!(code(&sleeps.command(&["agent", "--timeout", "1s"]).output().unwrap()), 124);
}

#[test]
fn both_missing_images_are_told_at_once_with_one_command() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(&["run", "--image", "localhost/not-there:1", "--", "true"]);
    let output = command.env("SANDBOXC_ROUTER_IMAGE", "registry.example/router:1").output().unwrap();
    assert_eq!(code(&output), 125);
    let expected = "sandboxc: the images localhost/not-there:1 and registry.example/router:1 are missing: get them with \
                    `sandboxc image build agent && podman pull registry.example/router:1`\n";
    assert!(text(&output.stderr).ends_with(expected), "{}", text(&output.stderr));
    let output = sandbox.run_with(&["--image", "localhost/sandboxc-agent:0.1.0"], &["true"]);
    assert_eq!(code(&output), 0, "the twin: {}", text(&output.stderr));
}

#[test]
fn on_a_terminal_a_missing_image_is_built_if_the_user_agrees() {
    let sandbox = Sandbox::with("version: 1\nimage: {containerfile: Containerfile}\n", "version: 1\n");
    let mark = unique();
    let containerfile = format!("FROM localhost/sandboxc-base-agent:test\nRUN echo {mark} >/mark\n");
    fs::write(sandbox.repo().join(".sandboxc/Containerfile"), containerfile).unwrap();
    let command = ["run", "--", "cat", "/mark"];
    let (out, code) = on_a_terminal(&sandbox, &command, "n\r");
    assert_eq!(code, 125, "{out}");
    assert!(out.contains("is missing") && out.contains("sandboxc image build agent") && !out.contains(&mark), "{out}");
    let output = sandbox.command(&command).output().unwrap();
    assert_eq!(crate::harness::code(&output), 125, "without a terminal, nobody is asked");
    let (out, code) = on_a_terminal(&sandbox, &command, "\r");
    assert_eq!(code, 0, "{out}");
    assert!(out.contains(&format!("{mark}\r\n")), "{out}");
}

#[test]
fn a_limit_that_this_host_cannot_enforce_is_told_with_the_fix_of_doctor() {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap();
    let path = own.trim().trim_start_matches("0::").split("/user@").next().unwrap().to_owned();
    let uid = text(&Command::new("id").arg("-u").output().unwrap().stdout);
    let manager = format!("/sys/fs/cgroup{path}/user@{}.service/cgroup.controllers", uid.trim());
    let delegated = fs::read_to_string(Path::new(&manager)).unwrap_or_default();
    for (limit, controller) in [("memory: 64m", "memory"), ("cpus: 1", "cpu"), ("pids_limit: 64", "pids")] {
        let sandbox = Sandbox::with(&format!("version: 1\nresource_limits: {{{limit}}}\n"), "version: 1\n");
        let output = sandbox.run(&["true"]);
        let stderr = text(&output.stderr);
        if delegated.split_whitespace().any(|word| word == controller) {
            assert_eq!(code(&output), 0, "{stderr}");
        } else {
            assert_eq!(code(&output), 125, "{stderr}");
            assert!(stderr.contains(&format!("`{controller}`")) && stderr.contains("delegate.conf"), "{stderr}");
            assert!(!stderr.contains("crun") && !stderr.contains("OCI"), "{stderr}");
        }
    }
}

#[test]
fn a_command_that_the_image_lacks_is_told_with_the_file_to_change() {
    let sandbox = Sandbox::new();
    let output = sandbox.run(&["no-such-agent", "--flag"]);
    let stderr = text(&output.stderr);
    assert_eq!(code(&output), 127, "{stderr}");
    assert!(
        stderr.contains("`no-such-agent` is not in the image localhost/") && stderr.contains(".sandboxc/Containerfile"),
        "{stderr}"
    );
    let output = sandbox.run(&["sh", "-c", "no-such-agent; exit 127"]);
    assert!(!text(&output.stderr).contains("Containerfile"), "the shell is there: {}", text(&output.stderr));
}

#[test]
fn a_terminal_shows_the_session_while_it_waits_and_a_pipe_does_not() {
    let sandbox = Sandbox::with(REPO, SERVER);
    let (out, code) = on_a_terminal(&sandbox, &["run", "--session", "waited", "--", "echo", "began"], "");
    assert_eq!(code, 0, "{out}");
    let (before, _) = out.split_once("began").unwrap();
    assert!(
        before.contains("sandboxc: session waited: starting") && before.ends_with("sandboxc: session waited\r\n"),
        "{out:?}"
    );
    let (out, _) = on_a_terminal(&sandbox, &["run", "-q", "--", "echo", "began"], "");
    assert_eq!(out, "began\r\n");
    assert_eq!(text(&sandbox.run(&["echo", "began"]).stderr), "");
}

#[test]
fn a_pipe_that_ends_ends_the_input_of_a_command_with_a_terminal() {
    let sandbox = Sandbox::new();
    for typed in [&b"one\n"[..], b"one\nunfinished", b""] {
        let output =
            sandbox.feed(&["run", "--tty", "--timeout", "30s", "--", "sh", "-c", "test -t 0 && cat >/dev/null"], typed);
        assert_eq!(code(&output), 0, "{:?}: {}", text(typed), text(&output.stderr));
    }
}

#[test]
fn a_timeout_is_told_in_our_words_only() {
    let sandbox = Sandbox::new();
    for flags in [&["--timeout", "1s"][..], &["--timeout", "1s", "--tty"]] {
        let output = sandbox.run_with(flags, &["sh", "-c", "trap '' TERM; sleep 60"]);
        assert_eq!(
            (code(&output), text(&output.stderr).as_str()),
            (124, "sandboxc: timed out after 1 s\n"),
            "{flags:?}"
        );
    }
}
