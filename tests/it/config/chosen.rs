//! What the server file chooses for a repo, and what it locks.

use sandboxc::config::Identity;

use super::*;

const REPO: &str = "version: 1\nimage: docker.io/x/mine:1\ncommand: [mine]\nidentity: root\nenv: {A: mine, B: mine}\nuser_namespaces: true\n";

fn with(repo: &str, server: &str) -> World {
    let world = World::new();
    world.repo(repo).server(&format!("version: 1\n{server}\n"));
    world
}

#[test]
fn plain_values_of_the_server_are_defaults() {
    let server = "defaults:\n  image: docker.io/x/theirs:1\n  command: [theirs]\n  identity: root\n  env: {A: theirs, C: theirs}";
    let resolved = with("version: 1\n", server).resolved();
    assert_eq!(resolved.image.value.reference(), "docker.io/x/theirs:1");
    assert_eq!((resolved.command[0].value.as_str(), resolved.identity.value), ("theirs", Identity::Root));
    assert_eq!(resolved.image.from.short(), "server.yaml:3");
    let allowed = format!("{server}\n  allow_user_namespaces: true");
    let resolved = with(REPO, &allowed).resolved();
    assert_eq!(resolved.image.value.reference(), "docker.io/x/mine:1");
    assert_eq!(resolved.command[0].value, "mine");
    let env: Vec<(&str, &str)> = resolved.env.iter().map(|(name, v)| (name.as_str(), v.value.as_str())).collect();
    assert_eq!(env, [("A", "mine"), ("B", "mine"), ("C", "theirs")]);
}

#[test]
fn a_repo_cannot_change_what_is_locked() {
    for (key, value) in [
        ("image", "\"docker.io/x/theirs:1\""),
        ("command", "[theirs]"),
        ("identity", "host-user"),
        ("user_namespaces", "false"),
        ("env", "{}"),
    ] {
        let server = |locked: bool| {
            format!("defaults:\n  allow_user_namespaces: true\n  {key}: {{value: {value}, locked: {locked}}}")
        };
        let codes = with(REPO, &server(true)).codes();
        assert!(codes.contains(&Code::Locked), "{key}: {codes:?}");
        with(REPO, &server(false)).resolved();
        with("version: 1\n", &server(true)).resolved();
    }
    let one = with(REPO, "defaults: {allow_user_namespaces: true, env: {A: {value: theirs, locked: true}}}");
    assert!(one.text().contains("the server file locks `env.A`"), "{}", one.text());
    assert!(!one.text().contains("env.B"));
}

#[test]
fn a_finding_about_a_lock_has_both_places() {
    let world = with("version: 1\nidentity: root\n", "defaults:\n  identity: {value: host-user, locked: true}");
    let loaded = world.load();
    let findings = loaded.diagnostics.sorted();
    let files: Vec<_> = findings[0].labels.iter().map(|l| loaded.sources.place(l.span).short()).collect();
    assert_eq!(files, [".sandboxc/sandbox.yaml:2", "server.yaml:3"]);
}

#[test]
fn the_same_value_as_the_locked_one_is_no_conflict() {
    let world = with("version: 1\nidentity: host-user\n", "defaults: {identity: {value: host-user, locked: true}}");
    assert_eq!(world.codes(), []);
}

#[test]
fn an_entry_overrides_the_defaults() {
    let world = World::new();
    let path = world.inputs.repo_dir.display().to_string();
    world.repo("version: 1\n").server(&format!(
        "version: 1\ndefaults: {{command: {{value: [a], locked: true}}, env: {{A: a, B: a}}}}\n\
         repos: {{w: {{path: {path}, command: [b], env: {{B: b}}}}}}\n"
    ));
    let resolved = world.resolved();
    assert_eq!(resolved.command[0].value, "b");
    assert_eq!((resolved.env["A"].value.as_str(), resolved.env["B"].value.as_str()), ("a", "b"));
}

#[test]
fn user_namespaces_of_the_server_itself_need_no_permission() {
    let world = with("version: 1\n", "defaults: {user_namespaces: true}");
    assert!(world.resolved().user_namespaces.value);
    assert_eq!(with("version: 1\nuser_namespaces: true\n", "").codes(), [Code::NotPermitted]);
}

#[test]
fn values_of_the_host_do_not_get_into_the_plan_through_the_server_file() {
    let mut world = with("version: 1\n", "defaults: {env: {A: !env HOME_TOKEN}}");
    world.inputs.env.insert("HOME_TOKEN".to_owned(), "hunter2".to_owned());
    assert_eq!(world.codes(), [Code::BadTag]);
}
