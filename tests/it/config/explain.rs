//! `explain` as a command: what it says about requests.

use assert_cmd::Command;
use serde_json::Value;

use super::*;

fn world() -> World {
    let world = World::new();
    world.repo(
        "version: 1
network:
  allow:
    - {host: api.github.com, methods: [GET], paths: [/repos/acme/**]}
    - {host: api.github.com, graphql: {queries: [viewer]}}
    - plain.example.com
",
    );
    world.server(
        "version: 1
defaults:
  masked_secrets: {GH_TOKEN: {value: !env UNSET, scopes: [api.github.com], paths: [/repos/**]}}
",
    );
    world
}

/// Exit code and stdout.
fn explain(world: &World, args: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::cargo_bin("sandboxc").unwrap();
    command.env_clear().env("HOME", world.root().join("h")).env("XDG_CONFIG_HOME", world.root().join("c"));
    let output = command.arg("explain").arg("--repo").arg(world.root().join("w")).args(args).output().unwrap();
    assert!(output.status.code() != Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_request_is_explained_with_rule_tier_and_credentials() {
    let world = world();
    let (code, text) = explain(&world, &["https://api.github.com/repos/acme/x?token=hunter2"]);
    assert_eq!(code, Some(0));
    assert!(!text.contains("hunter2"), "the query is dropped: {text}");
    assert_eq!(
        text,
        "allow  api.github.com:443 GET /repos/acme/x
rule   repo.allow[0] at .sandboxc/sandbox.yaml:4
ports  80 443
tier   inspected
reason allowed: an allow entry matches
decrypted because of repo.allow[0] at .sandboxc/sandbox.yaml:4, repo.allow[1] at .sandboxc/sandbox.yaml:5, \
credential GH_TOKEN at server.yaml:3
credentials GH_TOKEN
"
    );
    for (args, code, words) in [
        (["--method", "POST", "https://api.github.com/repos/acme/x"], 1, "reason method-not-allowed"),
        (["--method", "POST", "https://api.github.com/graphql"], 0, "body   must be a GraphQL operation"),
        (["--method", "GET", "https://api.github.com/repos/acme/../x"], 1, "reason bad-path"),
        (["--method", "GET", "https://api.github.com/user"], 1, "reason path-not-allowed"),
        (["--method", "GET", "https://api.github.com"], 1, "reason path-not-allowed"),
        (["--method", "GET", "api.github.com"], 0, "tier   inspected"),
        (["--method", "DELETE", "https://plain.example.com/x/../y"], 0, "tier   passthrough"),
        (["--method", "GET", "http://api.github.com/repos/acme/x"], 0, "inspected because of repo.allow[0]"),
    ] {
        let (got, text) = explain(&world, &args);
        assert!(got == Some(code) && text.contains(words), "{args:?}: {text}");
    }
}

#[test]
fn the_same_for_programs() {
    let world = world();
    let (_, text) = explain(&world, &["--json", "https://api.github.com/repos/%61cme/x?y"]);
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&value["tier"], &value["path"]), (&"inspected".into(), &"/repos/acme/x".into()));
    assert_eq!((&value["credentials"][0], &value["decrypted"]), (&"GH_TOKEN".into(), &true.into()));
    assert_eq!(value["because"].as_array().unwrap().len(), 3);
    let (_, text) = explain(&world, &["--json", "http://api.github.com/repos/acme/x"]);
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&value["decrypted"], &value["tier"]), (&false.into(), &"http".into()));
    assert_eq!(value["credentials"].as_array().unwrap().len(), 0, "never over plain HTTP");
}

#[test]
fn a_push_is_explained_by_its_repository_and_ref() {
    let world = World::new();
    let git = |host: &str, refs: &str| {
        format!("    - {{host: {host}, git: {{fetch: [\"acme/*\"], push: {{acme/widgets: [\"{refs}\"]}}}}}}\n")
    };
    let head = "version: 1\nnetwork:\n  allow:\n";
    world.repo(&format!("{head}{}    - plain.example.com\n", git("github.com", "refs/heads/agent/**")));
    let (code, text) = explain(&world, &["--git", "push", "acme/widgets", "refs/heads/agent/x"]);
    assert_eq!(code, Some(0));
    assert_eq!(
        text,
        "allow  github.com:443 push acme/widgets refs/heads/agent/x
rule   repo.allow[0] at .sandboxc/sandbox.yaml:4
ports  80 443
tier   inspected
reason allowed: an allow entry matches
decrypted because of repo.allow[0] at .sandboxc/sandbox.yaml:4
"
    );
    for (args, code, words) in [
        (&["--git", "push", "acme/widgets", "refs/heads/main"][..], 1, "reason ref-not-allowed"),
        (
            &["--git", "push", "acme/widgets.git", "refs/heads/main", "http://github.com"],
            1,
            "deny   github.com:80 push",
        ),
        (&["--git", "push", "acme/widgets", "https://github.com/"], 0, "allow  github.com:443 push acme/widgets\n"),
        (&["--git", "push", "acme/gadgets", "refs/heads/agent/x"], 1, "reason git-not-allowed"),
        (&["--git", "fetch", "acme/gadgets"], 0, "allow  github.com:443 fetch acme/gadgets\n"),
        (&["--git", "fetch", "other/gadgets"], 1, "reason git-not-allowed"),
        (&["--git", "push", "any/thing", "refs/heads/main", "plain.example.com"], 0, "tier   passthrough"),
        (&["--git", "fetch", "acme/x", "nowhere.example.com"], 1, "reason not-allowed"),
        (&["https://github.com/acme/widgets"], 1, "reason path-not-allowed"),
        (&["--method", "POST", "https://github.com/acme/widgets/git-receive-pack"], 0, "body   must be a push of refs"),
    ] {
        let (got, text) = explain(&world, args);
        assert!(got == Some(code) && text.contains(words), "{args:?}: {text}");
    }
    let (_, text) = explain(&world, &["--json", "--git", "push", "acme/widgets", "refs/heads/main"]);
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&value["git"]["ref"], &value["path"]),
        (&"refs/heads/main".into(), &"/acme/widgets/git-receive-pack".into())
    );
    // A host is needed where several have such rules.
    world.repo(&format!("{head}{}{}", git("github.com", "refs/**"), git("git.example.com", "refs/**")));
    let mut command = Command::cargo_bin("sandboxc").unwrap();
    command.env_clear().env("HOME", world.root().join("h")).env("XDG_CONFIG_HOME", world.root().join("c"));
    command.arg("explain").arg("--repo").arg(world.root().join("w")).args(["--git", "fetch", "acme/x"]);
    let output = command.output().unwrap();
    assert!(output.status.code() == Some(2) && String::from_utf8_lossy(&output.stderr).contains("several hosts"));
    assert_eq!(explain(&world, &["--git", "fetch", "acme/x", "git.example.com"]).0, Some(0));
}

#[test]
fn a_name_with_an_underscore_is_no_host_even_below_an_allowed_suffix() {
    let world = World::new();
    world.repo("version: 1\nnetwork: {allow: [.example.org]}\n");
    let (code, text) = explain(&world, &["_sip._tcp.example.org:443"]);
    assert!(code == Some(1) && text.contains("reason bad-host") && text.contains("only A records exist"), "{text}");
    let (_, text) = explain(&world, &["--json", "_sip._tcp.example.org"]);
    let said: Value = serde_json::from_str(&text).unwrap();
    assert!(said["hint"].as_str().unwrap().contains("SRV"), "{text}");
    let (code, text) = explain(&world, &["sip.example.org:443"]);
    assert!(code == Some(0) && !text.contains("SRV"), "the twin: {text}");
}
