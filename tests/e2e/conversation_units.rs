//! Units of repos by URL: each start is a conversation of its own.

use std::fs;

use serde_json::Value;

use crate::conversations::Remote;
use crate::harness::{code, text, wait_until};
use crate::quadlet_live::{config_home, journal, place_program, property, systemctl};

const SESSION: &str = "q-conversations";
const UNIT: &str = "sandboxc-q-conversations.service";

/// Uninstalls the units when a test ends, however it does.
struct Uninstalled<'a>(&'a Remote);

impl Drop for Uninstalled<'_> {
    fn drop(&mut self) {
        let _ = self.0.command(&["uninstall", SESSION]).env("XDG_CONFIG_HOME", config_home()).output();
    }
}

#[test]
fn every_start_of_a_unit_is_a_new_conversation_and_the_newest_stay() {
    let remote = Remote::with("    schedule: \"2099-01-01\"\n    conversations: {keep: 2}\n", CONFIG);
    place_program();
    let units = remote.sandbox.scratch("units");
    let script = "echo \"$RULES\" >/outbox/rules; sleep 1; exit 7";
    let output = remote.output(&[
        "compile",
        "--target",
        "quadlet",
        "--name",
        "widgets",
        "--session",
        SESSION,
        "-o",
        units.to_str().unwrap(),
        "--",
        "sh",
        "-c",
        script,
    ]);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let as_user = |args: &[&str]| remote.command(args).env("XDG_CONFIG_HOME", config_home()).output().unwrap();
    let output = as_user(&["install", units.join(SESSION).to_str().unwrap()]);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let _uninstalled = Uninstalled(&remote);
    assert_eq!(text(&output.stdout), format!("{UNIT}\n"));
    for timer in ["sandboxc-q-conversations.timer", "sandboxc-q-conversations-expire.timer"] {
        assert_eq!(property(timer, "ActiveState"), "active", "{timer}");
    }
    for rules in ["one", "two", "three"] {
        remote.push(&[(".sandboxc/sandbox.yaml", &format!("version: 1\nenv: {{RULES: {rules}}}\n"))]);
        assert!(systemctl(&["start", UNIT]).status.success(), "{}", journal(UNIT));
        wait_until("the conversation ends", || {
            ["inactive", "failed"].contains(&property(UNIT, "ActiveState").as_str())
        });
        assert_eq!(property(UNIT, "ExecMainStatus"), "7", "{}", journal(UNIT));
        let newest = remote.list().pop().unwrap();
        let outbox = remote.dir(newest["id"].as_str().unwrap()).join("outbox/rules");
        assert_eq!(fs::read_to_string(outbox).unwrap(), format!("{rules}\n"));
        systemctl(&["reset-failed", UNIT]);
    }
    assert_eq!(remote.list().len(), 2, "the newest two stay");
    assert!(systemctl(&["start", "sandboxc-q-conversations-expire.service"]).status.success());
    // A stop ends the session, and its conversation can start again.
    assert!(systemctl(&["start", UNIT]).status.success());
    wait_until("it runs", || remote.list().iter().any(|one| one["running"] == true));
    assert!(systemctl(&["stop", UNIT]).status.success());
    assert!(remote.list().iter().all(|one| one["running"] == false), "{:?}", remote.list());
    let output = as_user(&["status", "--json", SESSION]);
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(status["sandboxes"][0]["unit"], UNIT, "{}", text(&output.stderr));
    let output = as_user(&["uninstall", SESSION]);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    assert_eq!(property(UNIT, "LoadState"), "not-found");
}

const CONFIG: &str = "version: 1\nenv: {RULES: none}\n";

#[test]
fn what_starts_nothing_reads_the_branch_as_it_was_fetched_last() {
    let remote = Remote::new();
    let explain = || remote.output(&["explain", "--name", "widgets", "https://api.example.com/"]);
    let none = explain();
    assert_eq!(code(&none), 125);
    assert!(text(&none.stderr).contains("there is no mirror"), "{}", text(&none.stderr));
    remote.start("true");
    assert_eq!(code(&explain()), 0);
    remote.push(&[(".sandboxc/sandbox.yaml", "version: 1\n")]);
    assert_eq!(code(&explain()), 0);
    remote.start("true");
    let denied = explain();
    assert_eq!(code(&denied), 1, "{}", text(&denied.stderr));
    let valid = remote.output(&["validate", "--name", "widgets"]);
    assert_eq!(code(&valid), 0, "{}", text(&valid.stderr));
    for target in ["kube", "script"] {
        let output = remote.output(&["compile", "--name", "widgets", "--target", target, "--", "true"]);
        assert_eq!(code(&output), 2);
        assert!(text(&output.stderr).contains("--target quadlet"), "{}", text(&output.stderr));
    }
}
