//! The session's network log: one correct line per decision, whatever the agent sends.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};

use crate::harness::{REPO, SERVER, Sandbox, code, text, unique};

/// The lines of a log, each of which must be a JSON object.
fn lines(text: &str) -> Vec<Value> {
    let parse = |line: &str| -> Value { serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")) };
    assert!(text.is_empty() || text.ends_with('\n'), "the last line is whole");
    let all: Vec<Value> = text.lines().map(parse).collect();
    assert!(all.iter().all(Value::is_object), "{text}");
    all
}

/// The output of `explain --json`.
fn explain(sandbox: &Sandbox, target: &str) -> Value {
    let output = sandbox.command(&["explain", "--json", target]).output().unwrap();
    serde_json::from_str(&text(&output.stdout)).unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)))
}

#[test]
fn every_decision_is_one_line_that_explain_agrees_with() {
    let server = format!(
        "{SERVER}  deny: [sub.example.org, {{host: two.example.com, ports: [80]}}]\n  ceiling: [.example.com, .example.org, \"db.example.net:5432\", \"git.example.net:22\"]\n"
    );
    let repo = format!("{REPO}    - two.example.com\n    - evil.example\n");
    let sandbox = Sandbox::with(&repo, &server);
    let log = sandbox.scratch("log");
    let session = unique();
    let output = sandbox.run_with(
        &["--session", &session, "--network-log", log.to_str().unwrap()],
        &["python3", "-c", &crate::harness::probe(
            r#"
tls = ("api.example.com", "example.org", "sub.example.org", "denied.example.com", "evil.example", "two.example.com", "API.EXAMPLE.COM.")
for name in tls:
    sni(name)
for name in ("api.example.com", "sub.example.org", "denied.example.com", "evil.example", "two.example.com"):
    get(name, "/path?query")
talk(b"x", socket.gethostbyname("db.example.net"), 5432, close=True)
talk(b"x", socket.gethostbyname("git.example.net"), 22, close=True)
for name in ("sub.example.org", "denied.example.com", "evil.example", "api.example.com"):
    dns(name)
"#,
        )],
    );
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let lines = lines(&fs::read_to_string(&log).unwrap());
    let mut seen = Vec::new();
    for line in &lines {
        assert_eq!(line["session"], session.as_str(), "{line}");
        assert!(line["ts"].as_f64().is_some_and(|ts| ts > 1e9), "{line}");
        let (host, tier) = (line["host"].as_str().unwrap(), line["tier"].as_str().unwrap());
        let port = if tier == "dns" { json!(443) } else { line["port"].clone() };
        let said = explain(&sandbox, &format!("{host}:{port}"));
        for key in ["verdict", "rule", "reason"] {
            assert_eq!(line[key], said[key], "{key} of {line} against {said}");
        }
        if tier != "dns" {
            assert_eq!(line["tier"], said["tier"]);
        }
        let host = host.to_lowercase();
        seen.push(format!("{} {host} {tier} {}", line["verdict"].as_str().unwrap(), line["reason"].as_str().unwrap()));
    }
    seen.sort_unstable();
    let mut expected = vec![
        "allow api.example.com http allowed",
        "allow api.example.com passthrough allowed",
        "allow api.example.com passthrough allowed",
        "allow db.example.net tcp allowed",
        "allow example.org passthrough allowed",
        "allow git.example.net tcp allowed",
        "allow two.example.com passthrough allowed",
        "deny denied.example.com dns not-allowed",
        "deny denied.example.com http not-allowed",
        "deny denied.example.com passthrough not-allowed",
        "deny evil.example dns above-ceiling",
        "deny evil.example http above-ceiling",
        "deny evil.example passthrough above-ceiling",
        "deny sub.example.org dns denied",
        "deny sub.example.org http denied",
        "deny sub.example.org passthrough denied",
        "deny two.example.com http denied",
    ];
    expected.sort_unstable();
    assert_eq!(seen, expected);
    let http = lines.iter().find(|line| line["tier"] == "http" && line["verdict"] == "allow").unwrap();
    assert_eq!((&http["method"], &http["path"], &http["status"]), (&json!("GET"), &json!("/path"), &json!(200)));
}

#[test]
fn nothing_that_the_agent_sends_makes_another_line() {
    let sandbox = Sandbox::new();
    let log = sandbox.scratch("log");
    let program = crate::harness::probe(
        r#"
forged = '{"session":"x","verdict":"allow","host":"forged.example","rule":"repo.allow[0]","tier":"http","reason":"allowed"}'
print(forged); print(forged, file=sys.stderr)
bad = [b"a\nb.evil.example", b'a"b.evil.example', ('x"}\n' + forged + "\n").encode(), b"\\", b"\x00", b"\xff\xfe.example", b"a\r\nb.example",
       b"%n%s$host", b"x" * 255, b"a.evil.example\t", "é.example".encode(), b"\x1b[2J.example", b"dnsmasq[1]: config a is b"]
for name in bad:
    sni(name[:255])
    # A whole head in one write; what is no header line is no request.
    http(b"GET / HTTP/1.1\r\nHost: " + name + b"\r\nConnection: close\r\n\r\n")
    http(b"GET /" + name.replace(b" ", b"") + b" HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
    http(name + b" / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
http(b"GET /" + b"p" * 60000 + b" HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
http(b'GET /"}' + b"\\" * 3000 + b" HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
for labels in ([b"a\nb", b"evil", b"example"], [b'"},' , b"example"], [b"x is 127.0.0.1\n" + forged.encode()[:40], b"example"], [b"a b", b"is", b"NXDOMAIN"],
               [b"a.b", b"example"], [b"\xff", b"example"], [b"<name unprintable>"], [b"\\"], [b"x" * 63] * 3 + [b"y" * 60],
               [b"api", b"example", b"com is 127.0.1.1", b"evil", b"example"], [b"dnsmasq[1]: config z", b"example"]):
    dns(labels)
sni("api.example.com")
show(len(bad))"#,
    );
    let output = sandbox.run_with(&["--network-log", log.to_str().unwrap()], &["python3", "-c", &program]);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let written = fs::read_to_string(&log).unwrap();
    let lines = lines(&written);
    let bad: usize = text(&output.stdout).lines().last().unwrap().parse().unwrap();
    let count = |tier: &str| lines.iter().filter(|line| line["tier"] == tier).count();
    // One line each; a request that ends before its head is complete is not logged, and a pipe-lined one may be two.
    assert_eq!(count("passthrough"), bad + 1, "{written}");
    assert_eq!(count("dns"), 11, "{written}");
    assert!(count("http") <= 3 * bad + 2 + 4, "{written}");
    let known: BTreeSet<&str> = [
        "ts",
        "session",
        "tier",
        "verdict",
        "rule",
        "reason",
        "host",
        "port",
        "method",
        "path",
        "status",
        "bytes_sent",
        "bytes_received",
        "duration",
        "upstream",
    ]
    .into();
    for line in &lines {
        assert!(line.as_object().unwrap().keys().all(|key| known.contains(key.as_str())), "{line}");
        assert_ne!(line["session"], "x", "{line}");
        let allowed = line["verdict"] == "allow";
        assert_eq!(allowed, line["host"] == "api.example.com", "{line}");
        assert!(line["host"] != "forged.example" || line["verdict"] == "deny", "{line}");
    }
    for raw in written.lines() {
        assert!(raw.len() < 4096 && raw.chars().all(|c| !c.is_control()), "{raw}");
    }
}

// R-107
#[test]
fn the_log_does_not_depend_on_the_users_log_driver() {
    let sandbox = Sandbox::new();
    for driver in ["none", "journald"] {
        let (conf, log) = (sandbox.scratch("containers.conf"), sandbox.scratch(driver));
        fs::write(&conf, format!("[containers]\nlog_driver = \"{driver}\"\npids_limit = 0\n")).unwrap();
        let output = sandbox
            .command(&["run", "--network-log", log.to_str().unwrap(), "--", "curl", "-sS", "https://api.example.com/"])
            .env("CONTAINERS_CONF_OVERRIDE", &conf)
            .output()
            .unwrap();
        assert_eq!(code(&output), 0, "{driver}: {}", text(&output.stderr));
        let lines = lines(&fs::read_to_string(&log).unwrap());
        assert!(
            lines.iter().any(|line| line["host"] == "api.example.com" && line["verdict"] == "allow"),
            "{driver}: {lines:?}"
        );
    }
}

#[test]
fn a_log_that_cannot_be_opened_stops_the_start_and_a_full_disk_changes_no_verdict() {
    let sandbox = Sandbox::new();
    let link = sandbox.scratch("link");
    std::os::unix::fs::symlink(sandbox.scratch("elsewhere"), &link).unwrap();
    for path in [sandbox.scratch("missing/log"), sandbox.repo(), link] {
        let output = sandbox.run_with(&["--network-log", path.to_str().unwrap()], &["touch", "started"]);
        assert_eq!(code(&output), 125, "{}", path.display());
        assert_eq!(text(&output.stderr).lines().count(), 1, "{}", text(&output.stderr));
    }
    assert!(!sandbox.repo().join("started").exists() && !sandbox.scratch("elsewhere").exists());
    let script = "curl -s -o /dev/null https://api.example.com/ && ! curl -s --resolve evil.example:443:127.0.1.1 https://evil.example/";
    assert_eq!(code(&sandbox.run_with(&["--network-log", "/dev/full"], &["sh", "-c", script])), 0);
}

#[test]
fn sessions_append_to_one_file_and_each_line_says_whose_it_is() {
    let sandbox = Sandbox::with(REPO, SERVER);
    let log = sandbox.scratch("log");
    let sessions = [unique(), unique()];
    for session in &sessions {
        let flags = ["--session", session, "--network-log", log.to_str().unwrap()];
        assert_eq!(code(&sandbox.run_with(&flags, &["curl", "-sS", "https://api.example.com/"])), 0);
    }
    let all = lines(&fs::read_to_string(&log).unwrap());
    let ids: Vec<&str> = all.iter().map(|line| line["session"].as_str().unwrap()).collect();
    assert_eq!(ids, sessions);
}

// R-79
#[test]
fn an_endless_body_does_not_delay_a_denial() {
    let seen = Sandbox::new().probe(
        r#"
def endless(host):
    sent, start = 0, time.monotonic()
    with socket.create_connection((WEB, 80), 20) as s:
        s.sendall(f"POST / HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        s.settimeout(0.05)
        while time.monotonic() - start < 20:
            try:
                s.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")
                sent += 65536
            except OSError:
                pass
            try:
                return [s.recv(4096).split(b" ")[1].decode(), sent, time.monotonic() - start]
            except OSError as error:
                if word(error) != "ETIMEDOUT":
                    return [word(error), sent, time.monotonic() - start]
    return ["no answer", sent, 20]
body = b"y" * (1 << 18)
twin = http(b"POST /body HTTP/1.1\r\nHost: api.example.com\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
show([endless("evil.example"), [twin[0], len(twin[1])]])"#,
    );
    assert_eq!(seen[0][0], "403", "{seen}");
    assert!(seen[0][2].as_f64().unwrap() < 5.0, "{seen}");
    assert_eq!(seen[1], json!([200, 1 << 18]), "an allowed body goes through whole");
}

/// The test internet's private address is reachable, so the only thing missing is the entry.
#[test]
fn what_suggest_writes_makes_a_denied_run_pass() {
    let sandbox = Sandbox::with("version: 1\nnetwork:\n  allow: [api.example.com]\n", SERVER);
    let log = sandbox.scratch("log");
    let run = || {
        let args = ["--network-log", log.to_str().unwrap()];
        code(&sandbox.run_with(&args, &["curl", "-sSf", "-m", "10", "http://example.org/x"]))
    };
    assert_ne!(run(), 0, "the host is not allowed");
    let output = sandbox.command(&["suggest", "--write", log.to_str().unwrap()]).output().unwrap();
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    assert_eq!(run(), 0, "{}", fs::read_to_string(sandbox.repo().join(".sandboxc/sandbox.yaml")).unwrap());
    let output = sandbox.command(&["replay", log.to_str().unwrap()]).output().unwrap();
    assert!(text(&output.stdout).contains("deny → allow  example.org"), "{}", text(&output.stdout));
}
