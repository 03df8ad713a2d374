//! Completions and manual pages.

use std::process::Command as Program;

use assert_cmd::Command;

use super::*;

#[test]
fn every_command_has_a_manual_page_and_every_shell_completions() {
    let dir = tempfile::tempdir().unwrap();
    let man = dir.path().join("man");
    Command::cargo_bin("sandboxc").unwrap().arg("man").arg(&man).assert().success();
    for page in ["sandboxc.1", "sandboxc-run.1", "sandboxc-image-build.1"] {
        let text = fs::read_to_string(man.join(page)).unwrap();
        assert!(text.contains(".SH NAME") && text.contains(".SH SYNOPSIS"), "{page}");
    }
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = Command::cargo_bin("sandboxc").unwrap().args(["completions", shell]).output().unwrap();
        assert!(output.status.success());
        assert!(String::from_utf8(output.stdout).unwrap().contains("SANDBOXC_COMPLETE"), "{shell}");
    }
}

/// What bash offers for the last of these words.
fn offered(world: &World, words: &[&str]) -> Vec<String> {
    let bin = assert_cmd::cargo::cargo_bin("sandboxc");
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    // `complete -F` and `compopt` belong to an interactive shell.
    let script = format!(
        "eval \"$(sandboxc completions bash)\"; COMP_WORDS=(sandboxc {}) COMP_CWORD={} COMP_TYPE=9; compopt() {{ :; }}; \
         $(complete -p sandboxc | sed 's/.*-F \\([^ ]*\\).*/\\1/') sandboxc \"${{COMP_WORDS[COMP_CWORD]}}\"; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        quoted.join(" "),
        words.len()
    );
    let output = Program::new("bash")
        .args(["--norc", "-c", &script])
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", bin.parent().unwrap().display()))
        .env("HOME", world.root().join("h"))
        .env("XDG_CONFIG_HOME", world.root().join("c"))
        .env("XDG_RUNTIME_DIR", world.root())
        .current_dir(world.root().join("w"))
        .output()
        .unwrap();
    let all = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{all}{}", String::from_utf8_lossy(&output.stderr));
    // Options are offered everywhere.
    let wants_options = words.last().is_some_and(|word| word.starts_with('-'));
    let fits = |line: &&str| !line.is_empty() && (wants_options || !line.starts_with('-'));
    all.lines().map(str::trim_end).filter(fits).map(str::to_owned).collect()
}

#[test]
fn a_shell_completes_commands_options_presets_repos_and_sessions() {
    let world = World::new();
    world.server("version: 1\nrepos:\n  widgets: {path: /w}\n  gadgets: {path: /g}\n");
    assert_eq!(offered(&world, &["wat"]), ["watch"]);
    assert!(offered(&world, &["run", "--network"]).contains(&"--network-log".to_owned()));
    let presets = offered(&world, &["init", "--preset", "co"]);
    assert_eq!(presets, ["codeberg", "codeberg-read-only", "codex"]);
    assert_eq!(offered(&world, &["run", "--name", ""]), ["gadgets", "widgets"]);
    // A session is one whose runner holds its lock.
    assert!(offered(&world, &["stop", "mine"]).is_empty());
    let dir = world.root().join("sandboxc/mine");
    fs::create_dir_all(&dir).unwrap();
    let lock = fs::File::create(dir.join("lock")).unwrap();
    lock.lock().unwrap();
    let record = r#"{"session": "mine", "workspace": "/w", "image": "i", "since": 1, "pid": 1, "stage": "running", "plans": []}"#;
    fs::write(dir.join("session.json"), record).unwrap();
    for command in [&["stop", ""][..], &["watch", "m"], &["allow", "--session", "mi"], &["exec", ""], &["logs", ""]] {
        assert_eq!(offered(&world, command), ["mine"], "{command:?}");
    }
}
