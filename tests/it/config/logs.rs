//! `suggest`, `replay` and `log summary` as commands.

use serde_json::Value;

use super::*;

const LOG: &str = r#"{"tier":"dns","verdict":"deny","rule":null,"reason":"not-allowed","host":"new.example.com","port":53,"count":3}
{"tier":"passthrough","verdict":"deny","rule":null,"reason":"not-allowed","host":"tls.example.com","port":443,"bytes_sent":7}
{"tier":"inspected","verdict":"deny","rule":"repo.allow[0]","reason":"method-not-allowed","host":"api.example.com","port":443,"method":"POST","path":"/v1/items"}
{"tier":"inspected","verdict":"deny","rule":"repo.allow[0]","reason":"path-not-allowed","host":"api.example.com","port":443,"method":"GET","path":"/v2"}
{"tier":"inspected","verdict":"allow","rule":"repo.allow[0]","reason":"allowed","host":"api.example.com","port":443,"method":"GET","path":"/v1/x","status":200,"bytes_sent":1000,"bytes_received":10,"duration":0.25,"credentials":["TOKEN"]}
{"tier":"tcp","verdict":"deny","rule":null,"reason":"upstream-failed","host":"db.example.com","port":5432}
{"tier":"passthrough","verdict":"deny","rule":"server.deny[0]","reason":"denied","host":"bad.example.com","port":443}
{"tier":"inspected","verdict":"deny","rule":null,"reason":"leak","host":"api.example.com","port":443,"method":"GET","path":"/v1/x"}
{"tier":"log","dropped_lines":5,"dropped_bytes":9}
"#;

fn world() -> World {
    let world = World::new();
    world.repo(
        "version: 1
network:
  allow:
    - {host: api.example.com, methods: [GET], paths: [/v1/**]}  # why
    - db.example.com:5432
",
    );
    world.server("version: 1\nnetwork: {deny: [bad.example.com]}\n");
    fs::write(world.root().join("w/log"), LOG).unwrap();
    world
}

#[test]
fn what_was_denied_becomes_the_smallest_entries() {
    let world = world();
    let (code, out, said) = run(&world, &["suggest", "log"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(
        out,
        r#"--- a/.sandboxc/sandbox.yaml
+++ b/.sandboxc/sandbox.yaml
@@ -3,3 +3,7 @@
   allow:
     - {host: api.example.com, methods: [GET], paths: [/v1/**]}  # why
     - db.example.com:5432
+    - {host: api.example.com, methods: [POST], paths: ["/v1/items"]}
+    - {host: api.example.com, methods: [GET], paths: ["/v2"]}
+    - new.example.com
+    - tls.example.com:443
"#
    );
    assert!(said.contains("bad.example.com:443: the server file forbids it (server.yaml:2)"), "{said}");
    let (code, out, _) = run(&world, &["suggest", "--write", "log"]);
    assert_eq!((code, out.as_str()), (Some(0), ""));
    for (request, code) in [
        (&["https://new.example.com/"][..], 0),
        (&["tls.example.com:443"], 0),
        (&["tls.example.com:80"], 1),
        (&["--method", "POST", "https://api.example.com/v1/items"], 0),
        (&["--method", "POST", "https://api.example.com/v2"], 1),
        (&["https://api.example.com/v2"], 0),
    ] {
        assert_eq!(run(&world, &[&["explain"], request].concat()).0, Some(code), "{request:?}");
    }
    let (code, out, said) = run(&world, &["suggest", "log"]);
    assert_eq!((code, out.as_str()), (Some(0), ""), "nothing is left to suggest: {said}");
}

#[test]
fn a_pattern_is_only_suggested_on_demand_and_says_what_else_it_permits() {
    let world = world();
    let line = |path: &str| {
        format!(
            r#"{{"tier":"inspected","verdict":"deny","reason":"path-not-allowed","host":"api.example.com","port":443,"method":"GET","path":"{path}"}}"#
        )
    };
    let log: Vec<String> = ["/x/a", "/x/b", "/x/c", "/x/d/*", "/x/d/e"].map(line).to_vec();
    fs::write(world.root().join("w/log"), log.join("\n")).unwrap();
    let (_, out, said) = run(&world, &["suggest", "log"]);
    assert!(out.contains(r#"paths: ["/x/a", "/x/b", "/x/c", "/x/d/e"]"#), "{out}");
    assert!(said.contains("/x/d/*: no entry can name exactly this path"), "{said}");
    let (_, out, said) = run(&world, &["suggest", "--generalise", "log"]);
    assert!(out.contains(r#"paths: ["/x/**"]"#), "{out}");
    assert!(said.contains("`/x/**` also permits every other GET request below /x/"), "{said}");
}

#[test]
fn an_address_that_an_agent_asked_for_is_told_and_not_suggested() {
    let world = world();
    let line = r#"{"tier":"http","verdict":"deny","reason":"not-allowed","host":"198.51.100.7","port":80,"method":"GET","path":"/"}"#;
    fs::write(world.root().join("w/log"), format!("{line}\n{LOG}")).unwrap();
    let (code, out, said) = run(&world, &["suggest", "log"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(out.contains("+    - new.example.com") && !out.contains("198.51.100.7"), "{out}");
    assert!(said.contains("198.51.100.7/: write an entry for an address by hand"), "{said}");
}

#[test]
fn an_entry_that_would_close_something_is_refused() {
    let world = world();
    world.repo("version: 1\nnetwork:\n  allow: [.example.com]\n");
    let line = r#"{"tier":"tcp","verdict":"deny","reason":"port-not-allowed","host":"db.example.com","port":5432}"#;
    fs::write(world.root().join("w/log"), line).unwrap();
    let (code, out, said) = run(&world, &["suggest", "--write", "log"]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(said.contains("would replace what another one permits for port 80 (.sandboxc/sandbox.yaml:3)"), "{said}");
}

#[test]
fn nothing_is_written_through_a_link() {
    let world = world();
    let (repo, away) = (world.root().join("w/.sandboxc"), world.root().join("w/away"));
    fs::rename(&repo, &away).unwrap();
    std::os::unix::fs::symlink(&away, &repo).unwrap();
    let before = fs::read_to_string(away.join("sandbox.yaml")).unwrap();
    let (code, _, said) = run(&world, &["suggest", "--write", "log"]);
    assert_eq!(code, Some(2), "{said}");
    assert_eq!(fs::read_to_string(away.join("sandbox.yaml")).unwrap(), before);
}

#[test]
fn recorded_requests_are_decided_again() {
    let world = world();
    let (code, out, _) = run(&world, &["replay", "log"]);
    assert_eq!(code, Some(0));
    assert_eq!(
        out,
        "9 decisions are the same, 0 questions have another answer, 1 decisions depended on more than the log shows\n"
    );
    world.repo("version: 1\nnetwork:\n  allow: [{host: api.example.com, methods: [POST]}, db.example.com:5432]\n");
    let (code, out, _) = run(&world, &["replay", "log"]);
    assert_eq!(code, Some(1));
    assert!(
        out.contains("allow → deny  GET https://api.example.com/v1/x (method-not-allowed, by repo.allow[0]"),
        "{out}"
    );
    assert!(out.contains("deny → allow  POST https://api.example.com/v1/items (allowed, by repo.allow[0]"), "{out}");
    let (_, out, _) = run(&world, &["replay", "--json", "log"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&report["version"], report["changed"].as_array().unwrap().len()), (&1.into(), 2));
}

#[test]
fn a_log_is_summarized_by_host_and_rule() {
    let world = world();
    let (code, out, _) = run(&world, &["log", "summary", "log"]);
    assert_eq!(code, Some(0));
    assert!(
        out.starts_with("HOST             RULE            REQUESTS  DENIED  SENT  RECEIVED  SLOWEST  CREDENTIALS\n"),
        "{out}"
    );
    assert!(
        out.contains("api.example.com  repo.allow[0]   3         2       1000  10        0.250s   TOKEN\n"),
        "{out}"
    );
    assert!(out.contains("new.example.com  -               3         3"), "{out}");
    assert!(out.ends_with("5 lines are lost or are not decisions\n"), "{out}");
    let (_, out, _) = run(&world, &["log", "summary", "--json", "log"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&report["version"], report["hosts"].as_array().unwrap().len()), (&1.into(), 6));
    let (code, _, said) = run(&world, &["log", "summary", "missing"]);
    assert_eq!(code, Some(2));
    assert!(said.contains("reading missing"), "{said}");
}
