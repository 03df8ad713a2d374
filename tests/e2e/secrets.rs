//! Where values of secrets are, and where they are not.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::harness::{
    Sandbox, code, everything, in_base64, left_over, look_into, podman, signal, text, unique, wait_until,
};

const ALLOW: &str = "version: 1\nnetwork:\n  allow: [api.example.com, sub.example.org]\n";

/// A server file with these lines for the workspace.
pub fn server(lines: &str) -> String {
    format!("version: 1\nnetwork:\n  reachable: [203.0.113.0/24]\n  extra_ca: /srv/internet/ca.pem\ndefaults:\n{lines}")
}

fn masked(value: &str) -> String {
    server(&format!(
        "  masked_secrets:\n    TOKEN:\n      value: {value}\n      scopes: [api.example.com]\n      headers: [authorization]\n"
    ))
}

/// A value in a file, so that it is not in any environment or arguments.
pub fn in_file(sandbox: &Sandbox, name: &str) -> String {
    let value = format!("real-{}-{}", unique(), unique());
    fs::write(sandbox.config_home().join("sandboxc").join(name), format!("{value}\n")).unwrap();
    value
}

/// Files below a directory that contain the value, literally or in base64, with access as every id of the user
/// namespace. Files that were last changed before the value existed cannot contain it. podman's store has base64 of
/// YAML that contains base64.
pub fn holding(value: &str, dir: &str, since: &Path) -> String {
    let find = ["unshare", "find", dir, "-type", "f", "-newer", since.to_str().unwrap()];
    let once = in_base64(value);
    let twice = once.iter().flat_map(|form| in_base64(form)).collect::<Vec<_>>();
    let forms = [&[value.to_owned()], &once[..], &twice].concat();
    let grep = forms.iter().flat_map(|form| ["-e", form]);
    let args: Vec<&str> = find.into_iter().chain(["-exec", "grep", "-lF"]).chain(grep).chain(["{}", "+"]).collect();
    text(&Command::new("podman").args(args).output().unwrap().stdout)
}

/// podman's output about all objects, and the arguments of every process.
pub fn visible() -> String {
    let all = |kind: &str, list: &[&str]| {
        let names = podman(list);
        let words: Vec<&str> = names.lines().collect();
        podman(&[&[kind, "inspect"], words.as_slice()].concat())
    };
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let arguments: Vec<String> =
        processes.map(|entry| text(&fs::read(entry.path().join("cmdline")).unwrap_or_default())).collect();
    [
        all("container", &["ps", "-aq"]),
        all("pod", &["pod", "ls", "-q"]),
        podman(&["secret", "ls"]),
        podman(&["events", "--stream=false", "--since", "1h"]),
        arguments.join("\n"),
    ]
    .concat()
}

#[test]
fn a_secret_without_a_value_is_named_before_anything_starts() {
    let empty = "!file empty";
    for (value, code_of_it) in [
        ("!env NOBODY_SETS_THIS", "NOBODY_SETS_THIS"),
        (empty, "empty"),
        ("!file nowhere", "nowhere"),
        ("!file short", "fewer than 6 characters"),
    ] {
        let sandbox = Sandbox::alone_with(ALLOW, &masked(value));
        fs::write(sandbox.config_home().join("sandboxc/empty"), "\n").unwrap();
        fs::write(sandbox.config_home().join("sandboxc/short"), "12345\n").unwrap();
        let before = everything();
        let output = sandbox.run(&["true"]);
        let said = text(&output.stderr);
        assert_eq!(code(&output), 125, "{said}");
        assert!(said.contains("TOKEN") && said.contains("server.yaml:8"), "{value}: {said}");
        assert!(said.contains(code_of_it), "{said}");
        assert_eq!(everything(), before);
    }
}

#[test]
fn a_plain_secret_is_the_commands_and_nobody_elses() {
    let sandbox = Sandbox::alone_with(
        ALLOW,
        &server("  secrets:\n    PLAIN: !file plain\n    QUOTED: \"a'b $HOME `id` \\\\\"\n"),
    );
    let since = sandbox.scratch("since");
    fs::write(&since, "").unwrap();
    let value = in_file(&sandbox, "plain");
    let storage = podman(&["info", "--format", "{{.Store.GraphRoot}}"]);
    {
        let mut live = sandbox.start(&[]);
        assert_eq!(live.sh("echo $PLAIN").trim(), value);
        assert_eq!(live.sh("printf %s \"$QUOTED\""), "a'b $HOME `id` \\");
        let seen = visible();
        assert!(seen.contains(&live.container("agent", "agent")), "the probe sees the session");
        assert!(!seen.contains(&value));
        // While it runs, values are only in memory, in files of this session.
        assert_eq!(holding(&value, storage.trim(), &since), "");
        let router = live.container("router", "router");
        assert!(!look_into(&router, "cat /proc/$pid/environ; grep -rF real- run etc/sandboxc").contains(&value));
    }
    assert_eq!(holding(&value, storage.trim(), &since), "");
    assert_eq!(holding(&value, &std::env::var("XDG_RUNTIME_DIR").unwrap(), &since), "");
    let compiled = sandbox.command(&["compile", "--", "true"]).output().unwrap();
    assert!(!text(&compiled.stdout).contains(&value));
}

/// Arguments, streams and exit codes pass unchanged through the shell that reads the secrets.
#[test]
fn a_command_with_secrets_is_the_same_command() {
    let sandbox = Sandbox::with(ALLOW, &server("  secrets:\n    PLAIN: value\n"));
    let output = sandbox.run(&["sh", "-c", "printf '%s|' \"$@\"; cat; exit 7", "sh", "a b", "", "$x", "'"]);
    assert_eq!((code(&output), text(&output.stdout)), (7, "a b||$x|'|".to_owned()));
    assert_eq!(code(&sandbox.run(&["nothing-of-this-name"])), 127);
    assert_eq!(code(&sandbox.run(&["/etc/hosts"])), 126);
}

#[test]
fn a_masked_value_is_in_the_router_and_nowhere_else() {
    let sandbox = Sandbox::alone_with(ALLOW, &masked("!file token"));
    let since = sandbox.scratch("since");
    fs::write(&since, "").unwrap();
    let value = in_file(&sandbox, "token");
    let storage = podman(&["info", "--format", "{{.Store.GraphRoot}}"]);
    let log = sandbox.scratch("network-log");
    let backwards: String = value.chars().rev().collect();
    {
        let mut live = sandbox.start(&["--network-log", log.to_str().unwrap()]);
        let surrogate = live.sh("echo $TOKEN");
        assert_eq!(surrogate.trim().len(), value.len());
        assert_ne!(surrogate.trim(), value);
        // Not in the environment, memory or files of anything inside. The needle is assembled there.
        let search = format!(
            "value = \"{backwards}\"[::-1].encode()\nimport glob, os, re\nfound = []\n\
             for path in glob.glob(\"/proc/[0-9]*/environ\") + glob.glob(\"/proc/[0-9]*/cmdline\") + glob.glob(\"/run/**\", recursive=True) + glob.glob(\"/etc/**\", recursive=True):\n\
             \x20try:\n\x20\x20data = open(path, \"rb\").read()\n\x20except OSError: continue\n\x20if value in data: found.append(path)\n\
             import json; print(json.dumps(found))"
        );
        assert_eq!(live.probe(&search), serde_json::json!([]));
        assert!(!visible().contains(&value));
        assert_eq!(holding(&value, storage.trim(), &since), "");
        let router = live.container("router", "router");
        assert!(look_into(&router, "cat run/sandboxc/credentials.json").contains(&value), "the search can find it");
        // What the agent knows nevertheless does not get into a log.
        live.sh(&format!(
            "curl -sS -o /dev/null http://sub.example.org/$(python3 -c 'print(\"{backwards}\"[::-1])')/x; sleep 0.3"
        ));
        let said = sandbox.command(&["logs", &live.session]).output().unwrap();
        assert!(text(&said.stdout).contains("[redacted]"), "{}", text(&said.stdout));
        assert!(!text(&said.stdout).contains(&value));
    }
    let log = fs::read_to_string(log).unwrap();
    assert!(log.contains("[redacted]") && !log.contains(&value), "{log}");
    assert_eq!(holding(&value, storage.trim(), &since), "");
    assert_eq!(holding(&value, &std::env::var("XDG_RUNTIME_DIR").unwrap(), &since), "");
    for target in ["kube", "script"] {
        let output = sandbox.command(&["compile", "--target", target, "--", "true"]).output().unwrap();
        assert!(!text(&output.stdout).contains(&value) && !text(&output.stderr).contains(&value));
    }
}

/// A manifest refers to podman secrets, starts nothing without them, and contains no values.
#[test]
fn a_compiled_sandbox_takes_its_secrets_from_podman_or_does_not_start() {
    let repo = "version: 1\nnetwork:\n  allow: [{host: api.example.com, methods: [GET]}, sub.example.org]\n";
    let sandbox = Sandbox::alone_with(repo, &server("  secrets:\n    PLAIN: !file plain\n"));
    let value = in_file(&sandbox, "plain");
    let script = "echo $PLAIN; for host in api.example.com sub.example.org; do \
                  curl -sS -o /dev/null -w '%{http_code}\\n' https://$host/; done; \
                  curl -sS -o /dev/null -w '%{http_code}\\n' -X POST https://api.example.com/";
    let command = ["--session", "compiled", "--", "sh", "-c", script];
    let compiled = sandbox.command(&[&["compile", "--target", "script"], &command[..]].concat()).output().unwrap();
    assert_eq!(code(&compiled), 0, "{}", text(&compiled.stderr));
    assert!(!text(&compiled.stdout).contains(&value));
    let path = sandbox.scratch("run.sh");
    fs::write(&path, &compiled.stdout).unwrap();
    let run = || Command::new("sh").arg(&path).output().unwrap();
    let without = run();
    assert_eq!(code(&without), 125);
    assert!(text(&without.stderr).contains("sandboxc secrets"), "{}", text(&without.stderr));
    let secrets = sandbox.command(&[&["secrets"], &command[..]].concat()).output().unwrap();
    assert_eq!(code(&secrets), 0, "{}", text(&secrets.stderr));
    let made = sandbox.scratch("secrets.yaml");
    fs::write(&made, &secrets.stdout).unwrap();
    podman(&["kube", "play", made.to_str().unwrap()]);
    let with = run();
    let down = podman(&["secret", "ls", "--format", "{{.Name}}"]);
    let names: Vec<&str> = down.lines().filter(|name| name.starts_with("sandboxc-")).collect();
    assert_eq!(names.len(), 4, "{down}");
    podman(&[&["secret", "rm"], names.as_slice()].concat());
    assert_eq!(code(&with), 0, "{}", text(&with.stderr));
    assert_eq!(text(&with.stdout), format!("{value}\n200\n200\n403\n"), "{}", text(&with.stderr));
    assert!(!podman(&["volume", "ls", "--format", "{{.Name}}"]).lines().any(|name| names.contains(&name)));
}

/// A killed runner's directory is removed with its content, and no other session's is.
#[test]
fn gc_removes_a_dead_sessions_values_and_leaves_a_living_ones() {
    let sandbox = Sandbox::alone_with(ALLOW, &masked("!file token"));
    let since = sandbox.scratch("since");
    fs::write(&since, "").unwrap();
    let value = in_file(&sandbox, "token");
    let runtime = std::env::var("XDG_RUNTIME_DIR").unwrap();
    let registry = Path::new(&runtime).join("sandboxc");
    let credentials = |session: &str| registry.join(session).join("router/credentials.json");
    let held = || holding(&value, &runtime, &since);
    let mut alive = sandbox.start(&[]);
    let command = ["run", "--session", "killed", "--", "sleep", "600"];
    let mut child = sandbox.command(&command).stderr(Stdio::null()).spawn().unwrap();
    wait_until("its command runs", || {
        let record = fs::read_to_string(registry.join("killed/session.json")).unwrap_or_default();
        record.contains("\"running\"")
    });
    signal(child.id(), "KILL");
    child.wait().unwrap();
    for session in ["killed", &alive.session] {
        assert!(fs::read_to_string(credentials(session)).unwrap().contains(&value), "{session}");
    }
    assert!(held().contains("/killed/"), "the search sees it: {}", held());
    let gc = sandbox.command(&["gc"]).output().unwrap();
    assert_eq!(code(&gc), 0, "{}", text(&gc.stderr));
    assert!(!registry.join("killed").exists());
    let left = held();
    assert!(left.lines().count() >= 1 && left.lines().all(|path| path.contains(&alive.session)), "{left}");
    assert!(credentials(&alive.session).exists());
    let works = "curl -sS -o /dev/null -w '%{http_code}' -H \"Authorization: Bearer $TOKEN\" https://api.example.com/";
    assert_eq!(alive.sh(works), "200", "and it goes on");
    drop(alive);
    assert_eq!(held(), "");
    assert_eq!(left_over(), [""; 0]);
}
