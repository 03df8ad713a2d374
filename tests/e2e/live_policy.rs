//! The policy of a session that runs, changed and watched by its owner.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{REPO, SERVER, Sandbox, code, text, wait_until};
use crate::live::Live;
use crate::terminal::on_a_terminal_typing;

fn allow(sandbox: &Sandbox, live: &Live, entry: &str) -> (i32, String) {
    let output = sandbox.command(&["allow", "--session", &live.session, entry]).output().unwrap();
    assert_eq!(text(&output.stdout), "");
    (code(&output), text(&output.stderr))
}

fn allowed(sandbox: &Sandbox, live: &Live, entry: &str) {
    let (code, said) = allow(sandbox, live, entry);
    assert_eq!(code, 0, "{entry}: {said}");
}

#[test]
fn allow_reaches_names_web_and_named_ports_within_a_second_and_drops_no_connection() {
    let sandbox = Sandbox::new();
    let log = sandbox.scratch("log");
    let mut live = sandbox.start(&["-q", "--network-log", log.to_str().unwrap()]);
    assert_eq!(live.try_sh("getent hosts www.example.com; curl -s https://www.example.com").0, 6);
    // A connection that lasts longer than the changes, over the web and over a named port.
    live.sh("(curl -sS -N https://api.example.com/stream?n=20 >/tmp/sse 2>&1; echo $? >/tmp/sse.code) & \
             (python3 -c 'import socket, time
s = socket.create_connection((\"db.example.net\", 5432), 5); s.settimeout(20); time.sleep(4); s.sendall(b\"PING\\nx\"); print(s.recv(99))
' >/tmp/db 2>&1; echo $? >/tmp/db.code) & sleep 0.5");
    let begin = Instant::now();
    allowed(&sandbox, &live, "www.example.com");
    // The command and its first connection together.
    live.sh("curl -sSf https://www.example.com/x && curl -sSf http://www.example.com/x");
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
    let begin = Instant::now();
    allowed(&sandbox, &live, "aws.example.net:5432");
    assert!(begin.elapsed() < Duration::from_millis(1500), "{:?}", begin.elapsed());
    live.sh("python3 -c 'import socket; socket.create_connection((\"aws.example.net\", 5432), 5)'");
    live.sh("while [ ! -e /tmp/sse.code ] || [ ! -e /tmp/db.code ]; do sleep 0.1; done; sleep 0.1");
    assert_eq!(live.sh("cat /tmp/sse.code /tmp/db.code"), "0\n0\n", "{}", live.sh("cat /tmp/sse /tmp/db"));
    assert!(live.sh("cat /tmp/sse").contains("data: 19"));
    live.end();
    let lines: Vec<Value> =
        fs::read_to_string(&log).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let changes: Vec<&Value> = lines.iter().filter(|line| line["tier"] == "policy").collect();
    assert_eq!(changes.len(), 2, "{changes:?}");
    for (change, (rule, host)) in
        changes.iter().zip([("session.allow[0]", "www.example.com"), ("session.allow[1]", "aws.example.net")])
    {
        assert_eq!(
            (&change["change"], &change["rule"], &change["host"]),
            (&json!("added"), &json!(rule), &json!(host))
        );
    }
    assert!(lines.iter().any(|line| line["rule"] == "session.allow[0]" && line["verdict"] == "allow"), "{lines:?}");
    // It ended with the session.
    assert!(!sandbox.run(&["curl", "-sSf", "https://www.example.com"]).status.success());
}

#[test]
fn rules_about_requests_hold_for_a_session_too() {
    let repo = format!("{REPO}    - {{host: secure.example.org, methods: [GET], paths: [/a]}}\n");
    let sandbox = Sandbox::with(&repo.replace("secure.example.org", "www.example.com"), SERVER);
    let mut live = sandbox.start(&["-q"]);
    let get = |live: &mut Live, path: &str| {
        live.sh(&format!("curl -s -o /dev/null -w '%{{http_code}}' http://www.example.com{path}"))
    };
    assert_eq!((get(&mut live, "/a").as_str(), get(&mut live, "/b").as_str()), ("200", "403"));
    allowed(&sandbox, &live, "{host: www.example.com, methods: [GET], paths: [/b]}");
    assert_eq!((get(&mut live, "/b").as_str(), get(&mut live, "/c").as_str()), ("200", "403"));
    // Nothing can sign for another host.
    let (code, said) = allow(&sandbox, &live, "{host: denied.example.com, methods: [GET]}");
    assert_eq!(code, 2);
    assert!(said.contains("the session's CA cannot sign for it"), "{said}");
}

#[test]
fn allow_never_wins_against_a_deny_a_ceiling_or_the_address_guard() {
    let server = "version: 1
network:
  reachable: [203.0.113.0/24]
  deny: [evil.example, {host: two.example.com, ports: [80]}]
  ceiling: [.example.com, .example.org, db.example.net:5432, git.example.net:22, evil.example]
";
    let sandbox = Sandbox::with(REPO, server);
    let mut live = sandbox.start(&["-q"]);
    for (entry, why) in [
        ("evil.example", "evil.example:443 stays denied: the server's deny list names it"),
        ("aws.example.net", "aws.example.net:443 stays denied: the server's ceiling does not include it"),
        ("{host: private.example.com, private: true}", "error[private-from-repo]"),
        ("*.com", "error[broad-host]"),
        (
            "sub.example.org:443",
            "the entry would replace what another one permits for sub.example.org:80 (.sandboxc/sandbox.yaml:5)",
        ),
        ("10.1.2.3:80", "error[bad-host]"),
        ("127.0.0.1:80", "error[bad-host]"),
        ("{host: x.example.com, port: 1}", "error[unknown-key]"),
    ] {
        let (code, said) = allow(&sandbox, &live, entry);
        assert_eq!(code, 2, "{entry}: {said}");
        assert!(said.contains(why), "{entry}: {said}");
    }
    // What is left of an entry is put into force, and the rest is told.
    let (code, said) = allow(&sandbox, &live, "two.example.com");
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("two.example.com:80 stays denied"), "{said}");
    live.sh("curl -sSf https://two.example.com/x");
    assert_eq!(live.try_sh("curl -sSf http://two.example.com/x").0, 22);
    // A public name that leads to a private address stays closed.
    allowed(&sandbox, &live, "private.example.com");
    assert_ne!(live.try_sh("curl -sSf -m 5 http://private.example.com/x").0, 0);
    let (code, said) = allow(&sandbox, &live, "api.example.com");
    assert_eq!(code, 0);
    assert!(said.contains("already; nothing was changed"), "{said}");
    let output = sandbox.command(&["allow", "--session", "nobody", "x.example.com"]).output().unwrap();
    assert_eq!(crate::harness::code(&output), 2);
    assert!(text(&output.stderr).contains("no session `nobody`"));
}

/// The file is not where the command could write, and the command cannot reach what puts it there.
#[test]
fn nothing_inside_can_change_the_policy() {
    let sandbox = Sandbox::new();
    let mut live = sandbox.start(&["-q"]);
    let (_, seen) =
        live.try_sh("find / -xdev -name policy.json 2>/dev/null; ls /etc/sandboxc /run 2>/dev/null; cat /proc/mounts");
    assert!(seen.contains("/etc/hosts") && !seen.contains("policy.json") && !seen.contains("router-files"), "{seen}");
    let container = live.container("router", "router");
    let mounts = crate::harness::podman(&[
        "inspect",
        "--format",
        "{{range .Mounts}}{{.Destination}} {{.RW}}\n{{end}}",
        &container,
    ]);
    assert!(mounts.contains("/etc/sandboxc false"), "{mounts}");
}

#[test]
fn several_changes_at_once_are_all_in_force() {
    let sandbox = Sandbox::new();
    let mut live = sandbox.start(&["-q"]);
    let hosts = ["shared.example.net", "static.example.com", "www.example.com", "two.example.com"];
    let children: Vec<_> = hosts
        .iter()
        .map(|host| {
            sandbox.command(&["allow", "--session", &live.session, host]).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    for host in hosts {
        live.sh(&format!("curl -sSf http://{host}/x"));
    }
}

#[test]
fn watch_in_a_pipe_prints_a_line_for_each_destination_and_json_one_for_each_decision() {
    let sandbox = Sandbox::new();
    let mut live = sandbox.start(&["-q"]);
    let watch = |flags: &[&str]| {
        let args = [&["watch"], flags, &[&live.session]].concat();
        sandbox.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let (plain, documents) = (watch(&[]), watch(&["--json"]));
    live.sh(
        "for n in 1 2 3; do curl -sS -o /dev/null https://api.example.com; done; curl -s https://www.example.com; \
             curl -s http://api.example.com:81; true",
    );
    allowed(&sandbox, &live, "www.example.com");
    live.sh("curl -sS -o /dev/null https://www.example.com");
    std::thread::sleep(Duration::from_millis(300));
    live.end();
    let output = plain.wait_with_output().unwrap();
    let lines = text(&output.stdout);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    for line in [
        "allowed  api.example.com:443, 1 time\n",
        "allowed  api.example.com:443, 2 times\n",
        "denied   www.example.com, 1 time: no allow entry matches this host; add the host to network.allow",
        "policy   added www.example.com (session.allow[0])\n",
        "allowed  www.example.com:443, 1 time\n",
    ] {
        assert!(lines.contains(line), "{line}: {lines}");
    }
    assert!(!lines.contains("443, 3 times"), "{lines}");
    let output = documents.wait_with_output().unwrap();
    let all: Vec<Value> = text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let count = |host: &str, verdict: &str| {
        all.iter().filter(|line| line["host"] == host && line["verdict"] == verdict).count()
    };
    assert_eq!(count("api.example.com", "allow"), 3, "{all:?}");
    assert!(count("www.example.com", "deny") >= 1 && count("www.example.com", "added") == 1, "{all:?}");
    assert_eq!(all.last().unwrap()["event"], "end");
    let schema = sandbox.command(&["schema", "watch"]).output().unwrap();
    let schema: Value = serde_json::from_slice(&schema.stdout).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for line in &all {
        assert!(validator.is_valid(line), "{line}");
    }
}

#[test]
fn a_key_allows_a_host_for_the_session_and_another_also_remembers_it() {
    let sandbox = Sandbox::new();
    let mut live = sandbox.start(&["-q"]);
    live.sh("curl -s https://www.example.com; true");
    let session = live.session.clone();
    let (out, code) =
        on_a_terminal_typing(&sandbox, &["watch", &session], &[("www.example.com: a allow", "a"), ("q quit", "q")]);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("allowed www.example.com until the end (session.allow[0])"), "{out}");
    live.sh("curl -sSf -o /dev/null https://www.example.com");
    let repo = || fs::read_to_string(sandbox.repo().join(".sandboxc/sandbox.yaml")).unwrap();
    assert_eq!(repo(), REPO, "it was not remembered");
    live.sh("curl -s https://static.example.com; true");
    let typed = [("static.example.com: a allow", "r"), ("remembered in .sandboxc/sandbox.yaml", "q")];
    let (out, code) = on_a_terminal_typing(&sandbox, &["watch", &session], &typed);
    assert_eq!(code, 0, "{out}");
    live.sh("curl -sSf -o /dev/null https://static.example.com");
    assert_eq!(repo(), format!("{REPO}    - static.example.com\n"));
    // The session goes on, and the next one allows it from the start.
    let stderr = live.end();
    assert!(!stderr.contains("stopped the command"), "{stderr}");
    sandbox.sh("curl -sSf -o /dev/null https://static.example.com");
}

#[test]
fn watch_follows_a_session_until_it_ends() {
    let sandbox = Sandbox::new();
    let mut live = sandbox.start(&["-q"]);
    let mut child = sandbox.command(&["watch", "--json", &live.session]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    live.sh("curl -s https://evil.example; true");
    let first: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!((&first["host"], &first["verdict"]), (&json!("evil.example"), &json!("deny")));
    assert!(child.try_wait().unwrap().is_none(), "the session goes on");
    live.end();
    wait_until("the end of watch", || child.try_wait().unwrap().is_some());
}
