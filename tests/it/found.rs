//! Which config is in force, and what `validate` says about it: the program in a directory of a machine.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::machine::World;

/// Runs `sandboxc` in a directory of the machine.
fn sandboxc(world: &World, dir: &str, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sandboxc"))
        .args(args)
        .env_clear()
        .env("HOME", world.root().join("h"))
        .env("XDG_CONFIG_HOME", world.root().join("c"))
        .current_dir(world.root().join(dir))
        .output()
        .unwrap()
}

/// The exit code, and stderr with the machine's directory replaced.
fn said(world: &World, dir: &str, args: &[&str]) -> (Option<i32>, String) {
    let output = sandboxc(world, dir, args);
    let text = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), text.replace(world.root().to_str().unwrap(), "@"))
}

/// The value of a line of the summary.
fn line<'a>(text: &'a str, name: &str) -> &'a str {
    let found = text.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("no {name} in {text}")).trim()
}

const REPO: &str = "version: 1\nnetwork: {allow: [a.example.com, b.example.com]}\ncommand: [claude, --x, a b]\n";

fn repo_with_git() -> World {
    let world = World::new();
    world.repo(REPO).write("w/.git/HEAD", "ref: refs/heads/main\n").write("w/a/b/x", "");
    world
}

#[test]
fn a_config_is_found_from_a_directory_below_it() {
    let world = repo_with_git();
    for dir in ["w", "w/a", "w/a/b", "w/.sandboxc"] {
        let output = sandboxc(&world, dir, &["explain", "b.example.com"]);
        assert_eq!(output.status.code(), Some(0), "{dir}");
        let (code, text) = said(&world, dir, &["validate"]);
        assert_eq!((code, line(&text, "workspace")), (Some(0), "@/w"), "{dir}");
    }
    let (_, text) = said(&world, "w/a/b", &["explain", "b.example.com"]);
    assert_eq!(text, "sandboxc: the workspace is @/w, whose config is in force in a/b\n");
    let (code, text) = said(&world, "w/a/b", &["validate", "--repo", "."]);
    assert_eq!((code, line(&text, "workspace")), (Some(0), "@/w/a/b"), "--repo is taken as it is");
}

#[test]
fn a_config_outside_of_the_git_repository_is_not_found() {
    let world = repo_with_git();
    fs::rename(world.root().join("w/.git"), world.root().join("w/a/.git")).unwrap();
    let output = sandboxc(&world, "w/a/b", &["explain", "b.example.com"]);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn the_summary_names_what_is_in_force() {
    let world = repo_with_git();
    let server = format!(
        "version: 1\nrepos: {{widgets: {{path: {}, resource_limits: {{timeout: 60}}}}}}\n",
        world.root().join("w").display()
    );
    world.server(&server).write("c/sandboxc/allowed-hosts", "c.example.com\n");
    let (code, text) = said(&world, "w", &["validate"]);
    assert_eq!(code, Some(0));
    for (name, value) in [
        ("repo file", "@/w/.sandboxc/sandbox.yaml"),
        ("server file", "@/c/sandboxc/server.yaml"),
        ("entry", "repos.widgets of the server file"),
        ("allow file", "@/c/sandboxc/allowed-hosts"),
        ("environment", "overrides nothing"),
        ("hosts", "3 are allowed"),
        ("identity", "host-user  (built in)"),
        ("command", "claude --x 'a b'  (.sandboxc/sandbox.yaml:3)"),
        ("timeout", "60 s  (server.yaml:2)"),
    ] {
        assert_eq!(line(&text, name), value);
    }
}

#[test]
fn a_machine_without_a_config_is_not_called_valid() {
    let world = World::new();
    let (code, text) = said(&world, "w", &["validate"]);
    assert_eq!(code, Some(0));
    assert!(text.starts_with("sandboxc: there is no config here"), "{text}");
    assert_eq!(line(&text, "repo file"), "none (@/w/.sandboxc/sandbox.yaml does not exist)");
    assert_eq!(line(&text, "server file"), "none (@/c/sandboxc/server.yaml does not exist)");
    assert_eq!(line(&text, "hosts"), "none is allowed");
    let (code, text) = said(&world, "w", &["validate", "--deny-warnings"]);
    assert_eq!(code, Some(2));
    assert!(text.ends_with("sandboxc: --deny-warnings: there is no config\n"), "{text}");
}

#[test]
fn warnings_fail_only_where_they_are_denied() {
    let world = World::new();
    world.repo("version: 1\nnetwork: {allow: [\"*.example.com\"]}\n");
    assert_eq!(said(&world, "w", &["validate"]).0, Some(0));
    let (code, text) = said(&world, "w", &["validate", "--deny-warnings"]);
    assert_eq!(code, Some(2));
    assert!(text.contains("apex-not-included") && text.ends_with("--deny-warnings: there are warnings\n"), "{text}");
    world.repo("version: 1\nnetwork: {allow: [.example.com]}\n");
    assert_eq!(said(&world, "w", &["validate", "--deny-warnings"]).0, Some(0));
}

#[test]
fn a_server_file_that_is_named_must_exist() {
    let world = World::new();
    world.repo(REPO);
    let (code, text) = said(&world, "w", &["validate", "--server", "/missing/server.yaml"]);
    assert_eq!(code, Some(2));
    assert!(text.contains("`/missing/server.yaml` does not exist") && !text.contains("1 MiB"), "{text}");
}

#[test]
fn a_link_to_nothing_is_not_a_missing_file() {
    for link in ["w/.sandboxc/sandbox.yaml", "c/sandboxc/server.yaml"] {
        let world = World::new();
        std::os::unix::fs::symlink("nowhere", world.root().join(link)).unwrap();
        let (code, text) = said(&world, "w", &["validate"]);
        assert_eq!(code, Some(2), "{link}");
        assert!(
            text.contains(&format!("`@/{link}` cannot be read: it is a link to a file that does not exist")),
            "{text}"
        );
    }
}

#[test]
fn the_summary_says_where_the_search_ended() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = repo_with_git();
    fs::set_permissions(world.root().join("w"), fs::Permissions::from_mode(0o777)).unwrap();
    let (_, text) = said(&world, "w/a", &["validate"]);
    let repo = line(&text, "repo file");
    assert_eq!(
        repo,
        "none (@/w/a/.sandboxc/sandbox.yaml does not exist; the search did not enter @/w, which other users can write)"
    );
    assert!(Path::new(&world.root()).join("w/.sandboxc/sandbox.yaml").exists());
}
