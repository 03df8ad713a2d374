//! `learn`, `suggest` after a denied run, and `agent` without a config.

use std::fs;

use sandboxc::config::private_home;

use crate::harness::{SERVER, Sandbox, code, podman, text};
use crate::terminal::on_a_terminal_typing;

const NEEDS: &str = "curl -sSf -o /dev/null https://static.example.com/a && curl -sSf -o /dev/null http://www.example.com/b/c && \
                     curl -sSf -o /dev/null -X POST -d x http://www.example.com/d";

fn learning() -> String {
    format!("{SERVER}defaults:\n  allow_learning: true\n")
}

#[test]
fn what_a_learned_run_needed_makes_the_same_run_pass_without_learning() {
    let sandbox = Sandbox::with("version: 1\n", &learning());
    assert_ne!(code(&sandbox.run(&["sh", "-c", NEEDS])), 0);
    let output = sandbox.command(&["learn", "--", "sh", "-c", NEEDS]).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(code(&output), 0, "{said}");
    assert!(said.contains("EVERY PUBLIC NAME IS ALLOWED"), "{said}");
    assert!(said.contains("+    - static.example.com:443"), "{said}");
    let repo = || fs::read_to_string(sandbox.repo().join(".sandboxc/sandbox.yaml")).unwrap();
    assert_eq!(repo(), "version: 1\n", "nothing was written");
    assert_eq!(code(&sandbox.command(&["learn", "--write", "--", "sh", "-c", NEEDS]).output().unwrap()), 0);
    assert!(repo().contains("{host: www.example.com, ports: [80], methods: [GET], paths: [\"/b/c\"]}"), "{}", repo());
    let output = sandbox.run(&["sh", "-c", NEEDS]);
    assert_eq!(code(&output), 0, "{}\n{}", text(&output.stderr), repo());
    assert_ne!(code(&sandbox.run(&["curl", "-sSf", "https://evil.example"])), 0, "and nothing else");
}

#[test]
fn learning_needs_the_servers_permission_and_opens_nothing_private() {
    let sandbox = Sandbox::new();
    let output = sandbox.command(&["learn", "--", "true"]).output().unwrap();
    assert_eq!(code(&output), 2);
    assert!(text(&output.stderr).contains("add `allow_learning: true`"), "{}", text(&output.stderr));
    let server = format!(
        "{SERVER}  deny: [evil.example]\ndefaults:\n  allow_learning: true\n  allow_private: [private.example.com]\n  pass_env: [MINE]\n  secrets: {{PLAIN: plain-secret}}\n  masked_secrets: {{TOKEN: {{value: masked-secret, scopes: [api.example.com]}}}}\n"
    );
    let repo = "version: 1\nenv: {PASSED: !env MINE, KEPT: kept}\nnetwork:\n  allow: [{host: private.example.com, private: true}]\n";
    let sandbox = Sandbox::with(repo, &server);
    assert_eq!(
        sandbox.command(&["run", "--", "sh", "-c", "touch ~/left"]).env("MINE", "my-value").status().unwrap().code(),
        Some(0)
    );
    let script = "for h in evil.example private.example.com api.example.com; do curl -sf -o /dev/null -m 5 http://$h/; echo $?; done; \
                  env | grep -c -e secret -e my-value -e TOKEN; echo $KEPT; ls ~ | wc -l";
    let output = sandbox.command(&["learn", "--", "sh", "-c", script]).env("MINE", "my-value").output().unwrap();
    let (out, said) = (text(&output.stdout), text(&output.stderr));
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0], "6", "the server's deny holds: {out}{said}");
    assert_ne!(lines[1], "0", "{out}");
    assert_eq!(lines[2..], ["0", "0", "kept", "0"], "{out}{said}");
    assert!(said.contains("not passed on while learning: PASSED"), "{said}");
    let home = format!("{}-learn", private_home(None, &sandbox.repo().canonicalize().unwrap()));
    assert!(!podman(&["volume", "ls", "--format", "{{.Name}}"]).contains(&home), "its home is gone");
}

#[test]
fn what_suggest_adds_after_a_denied_run_makes_the_same_run_pass() {
    let sandbox = Sandbox::with(
        "version: 1\nnetwork:\n  allow:\n    - {host: www.example.com, methods: [GET], paths: [/x]}  # mine\n",
        SERVER,
    );
    let log = sandbox.scratch("log");
    let log = log.to_str().unwrap();
    let mut passed = false;
    // A run stops at its first denial, so each shows one more.
    for _ in 0..6 {
        let _ = fs::remove_file(log);
        let output = sandbox.run_with(&["--network-log", log], &["sh", "-c", NEEDS]);
        passed = code(&output) == 0;
        if passed {
            break;
        }
        let output = sandbox.command(&["suggest", "--write", log]).output().unwrap();
        assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    }
    let repo = fs::read_to_string(sandbox.repo().join(".sandboxc/sandbox.yaml")).unwrap();
    assert!(passed, "{repo}");
    assert!(repo.contains("# mine"), "{repo}");
}

#[test]
fn agent_without_a_config_offers_to_write_one_on_a_terminal() {
    let sandbox = Sandbox::new();
    let config = sandbox.repo().join(".sandboxc");
    fs::remove_dir_all(&config).unwrap();
    let typed = [("Which agent", "opencode\n"), ("[Y/n]", "n\n")];
    let (out, _) = on_a_terminal_typing(&sandbox, &["agent"], &typed);
    assert!(out.contains("wrote .sandboxc/sandbox.yaml"), "{out}");
    let written = fs::read_to_string(config.join("sandbox.yaml")).unwrap();
    assert!(written.contains("command: [opencode]") && config.join("Containerfile").exists(), "{written}");
    // It goes on to the image, which is not there.
    assert!(out.contains("[Y/n]"), "{out}");
    fs::remove_dir_all(&config).unwrap();
    let (out, code) = on_a_terminal_typing(&sandbox, &["agent"], &[("Which agent", "\n")]);
    assert_eq!(code, 2, "{out}");
    assert!(!config.join("sandbox.yaml").exists(), "{out}");
}
