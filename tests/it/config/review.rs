//! `test`, `diff` and `--config-from` as commands, with a repository made by git.

use std::os::unix::fs::symlink;
use std::process::{Command as Process, Stdio};

use serde_json::Value;

use super::*;

const NARROW: &str = "version: 1
env: {CI: \"1\"}
network:
  allow:
    - {host: api.example.com, methods: [GET], paths: [/v1/**]}
resource_limits: {memory: 1g}
";

const WIDE: &str = "version: 1
env: {CI: \"2\"}
mounts: [{source: ., target: /again}]
network:
  allow:
    - {host: api.example.com, methods: [GET, POST], paths: [/v1/**]}
    - db.example.com:5432
resource_limits: {memory: 2g}
";

fn git(world: &World, args: &[&str]) {
    let identity = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"];
    let repo = world.root().join("w");
    let mut command = Process::new("git");
    command.current_dir(&repo).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    let status = command.args(identity).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert!(status.success(), "git {args:?}");
}

/// A repository whose branch `main` has the narrow config, with the wide one in its working tree.
fn repository() -> World {
    let world = World::new();
    world.repo(NARROW);
    git(&world, &["init", "--quiet", "--initial-branch=main"]);
    git(&world, &["add", "."]);
    git(&world, &["commit", "--quiet", "-m", "narrow"]);
    world.repo(WIDE);
    world
}

#[test]
fn expected_decisions_are_checked_and_failures_name_both_lines() {
    let world = repo(WIDE);
    let tests = world.root().join("w/.sandboxc/tests.yaml");
    let (code, _, said) = run(&world, &["test"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("there are no tests in"), "{said}");
    let passing = "- {request: \"POST https://api.example.com/v1/x\", expect: allow}
- {request: \"DELETE https://api.example.com/v1/x\", expect: deny, reason: method-not-allowed}
- {request: \"db.example.com:5432\", expect: allow}
- {request: db.example.com, expect: allow}
- {request: other.example.com, expect: deny, reason: not-allowed}
";
    fs::write(&tests, passing).unwrap();
    assert_eq!(run(&world, &["test"]), (Some(0), "5 passed, 0 failed\n".to_owned(), String::new()));
    fs::write(&tests, format!("{passing}- {{request: \"https://api.example.com/v2\", expect: allow}}\n")).unwrap();
    let (code, out, _) = run(&world, &["test"]);
    assert_eq!(code, Some(1));
    assert_eq!(
        out,
        "FAIL .sandboxc/tests.yaml:6: https://api.example.com/v2
     expected allow
     found    deny (path-not-allowed), by repo.allow[0] at .sandboxc/sandbox.yaml:6
5 passed, 1 failed
"
    );
    let (code, out, _) = run(&world, &["test", "--json"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &report["version"], &report["failed"]), (Some(1), &1.into(), &1.into()));
    let (_, out, _) = run(&world, &["test", "--junit"]);
    assert!(
        out.contains("tests=\"6\" failures=\"1\"") && out.contains("<failure message=\"expected allow, found deny")
    );
    fs::write(world.root().join("w/other.yaml"), "- {request: a.b, expect: perhaps}\n").unwrap();
    let (code, _, said) = run(&world, &["test", "other.yaml"]);
    assert_eq!(code, Some(2));
    assert!(said.contains("other.yaml:1:26") && said.contains("write `allow` or `deny`"), "{said}");
}

#[test]
fn a_change_is_shown_in_words_with_the_line_of_each_permission() {
    let world = repository();
    let (code, out, said) = run(&world, &["diff", "main"]);
    assert_eq!((code, said.as_str()), (Some(0), ""));
    for line in [
        "Permits more:",
        "api.example.com:80,443: requests such as POST /v1/",
        "by the rule GET HEAD POST, on /v1/**  (.sandboxc/sandbox.yaml:6)",
        "db.example.com:80,443,5432: everything  (.sandboxc/sandbox.yaml:7)",
        "at /again, read-only  (.sandboxc/sandbox.yaml:3)",
        "memory: 1073741824 bytes → 2147483648 bytes  (.sandboxc/sandbox.yaml:8)",
        "Other changes:",
        "CI: \"1\" → \"2\"",
    ] {
        assert!(out.contains(line), "{line}\n{out}");
    }
    assert!(!out.contains("Permits less"), "{out}");
    assert_eq!(run(&world, &["diff", "main", "--fail-on-wider"]).0, Some(1));
    assert_eq!(run(&world, &["diff", "main", "main", "--fail-on-wider"]).0, Some(0));
    let (_, out, _) = run(&world, &["diff", "main", "main"]);
    assert_eq!(out, "no difference: both configs permit the same\n");
    let (_, out, _) = run(&world, &["diff", "main", "--format", "json"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&report["version"], &report["wider"]), (&1.into(), &true.into()));
    let (_, out, _) = run(&world, &["diff", "main", "--format", "markdown"]);
    assert!(out.starts_with("### Permits more\n\n| what | change | line |\n"), "{out}");
    // The other way round, nothing is wider.
    git(&world, &["checkout", "--quiet", "-b", "wide"]);
    git(&world, &["commit", "--quiet", "-am", "wide"]);
    let (code, out, _) = run(&world, &["diff", "wide", "main", "--fail-on-wider"]);
    assert_eq!(code, Some(0), "{out}");
    assert!(out.contains("Permits less:") && out.contains("main:.sandboxc") || !out.contains("Permits more"), "{out}");
}

#[test]
fn a_protected_part_that_is_given_up_is_wider() {
    let world = World::new();
    fs::create_dir(world.root().join("w/ci")).unwrap();
    world.repo("version: 1\nworkspace: {protect: [ci]}\n");
    git(&world, &["init", "--quiet", "--initial-branch=main"]);
    git(&world, &["add", "."]);
    git(&world, &["commit", "--quiet", "-m", "protected"]);
    world.repo("version: 1\n");
    let (code, out, _) = run(&world, &["diff", "main", "--fail-on-wider"]);
    assert_eq!(code, Some(1), "{out}");
    assert!(
        out.starts_with("Permits more:\n  + mount ") && out.contains("/ci is no longer protected  (main:"),
        "{out}"
    );
    git(&world, &["checkout", "--quiet", "-b", "open"]);
    git(&world, &["commit", "--quiet", "-am", "open"]);
    let (code, out, _) = run(&world, &["diff", "open", "main", "--fail-on-wider"]);
    assert_eq!(code, Some(0), "{out}");
    assert!(out.contains("/ci is protected") && !out.contains("Permits more"), "{out}");
}

#[test]
fn a_directory_never_passes_for_a_ref() {
    let world = repository();
    let dir = world.root().join("w/main/.sandboxc");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("sandbox.yaml"), WIDE).unwrap();
    assert_eq!(run(&world, &["diff", "main", "--fail-on-wider"]).0, Some(1), "the ref is compared");
    assert_eq!(run(&world, &["diff", "./main", "--fail-on-wider"]).0, Some(0), "the directory, which is the same");
    fs::create_dir(world.root().join("w/other")).unwrap();
    let (code, _, said) = run(&world, &["diff", "other"]);
    assert_eq!(code, Some(2));
    assert!(said.contains("write `./other`"), "{said}");
}

#[test]
fn the_config_of_a_commit_replaces_that_of_the_working_tree() {
    let world = repository();
    let ask = ["explain", "db.example.com:5432"];
    assert_eq!(run(&world, &ask).0, Some(0), "the working tree allows it");
    let (code, out, said) = run(&world, &[&ask[..], &["--config-from", "main"]].concat());
    assert_eq!(code, Some(1), "{out}{said}");
    assert_eq!(
        said,
        "sandboxc: the config is that of main; these files of the working tree differ and are ignored: .sandboxc/sandbox.yaml\n"
    );
    let (_, out, _) =
        run(&world, &["explain", "https://api.example.com/v1/x", "--config-from", "refs/heads/main", "--json"]);
    let decision: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(decision["from"]["file"], "refs/heads/main:.sandboxc/sandbox.yaml");
    // Packed refs and objects, and a linked work tree, are read as well.
    git(&world, &["gc", "--quiet"]);
    assert_eq!(run(&world, &[&ask[..], &["--config-from", "main"]].concat()).0, Some(1));
    git(&world, &["worktree", "add", "--quiet", "linked"]);
    assert_eq!(
        run(&world, &["explain", "db.example.com:5432", "--repo", "linked", "--config-from", "main"]).0,
        Some(1)
    );
    for (name, words) in [
        ("nowhere", "is not a ref or a commit id"),
        ("main~1", "is not a ref or a commit id"),
        ("-", "is not a ref or a commit id"),
        ("../main", "is not a ref or a commit id"),
        ("0123456789012345678901234567890123456789", "is not a ref or a commit id"),
    ] {
        let (code, _, said) = run(&world, &["validate", &format!("--config-from={name}")]);
        assert_eq!(code, Some(2), "{name}");
        assert!(said.contains(words), "{name}: {said}");
    }
}

/// A tag of a fork that CI has fetched must not pass for the branch.
#[test]
fn a_short_name_of_two_refs_is_refused_and_the_full_name_works() {
    let world = repository();
    git(&world, &["tag", "main"]);
    let (code, _, said) = run(&world, &["validate", "--config-from", "main"]);
    assert_eq!(code, Some(2));
    assert!(said.contains("`main` could be refs/tags/main or refs/heads/main; write one of them in full"), "{said}");
    assert_eq!(run(&world, &["validate", "--config-from", "refs/heads/main"]).0, Some(0));
}

#[test]
fn a_build_that_leaves_the_sandbox_is_wider() {
    let world = World::new();
    let config = |build: &str| format!("version: 1\nimage: {{containerfile: Containerfile{build}}}\n");
    world.repo(&config(", build: sandboxed"));
    fs::write(world.root().join("w/.sandboxc/Containerfile"), "FROM docker.io/library/debian\n").unwrap();
    git(&world, &["init", "--quiet", "--initial-branch=main"]);
    git(&world, &["add", "."]);
    git(&world, &["commit", "--quiet", "-m", "image"]);
    let words = "the steps of its build reach everything that the host can";
    // Without the key, that is how the files would be built once they are committed.
    for build in [", build: host", ""] {
        world.repo(&config(build));
        let (code, out, _) = run(&world, &["diff", "main", "--fail-on-wider"]);
        assert!(code == Some(1) && out.contains(words), "{build}: {out}");
    }
    // The server's word is the last one.
    world.server("version: 1\ndefaults: {image_build: sandboxed}\n");
    assert_eq!(run(&world, &["diff", "main", "--fail-on-wider"]).0, Some(0));
    world.repo(&config(", build: sandboxed, max_age: 1d"));
    let (code, out, _) = run(&world, &["diff", "main", "--fail-on-wider"]);
    assert!(code == Some(0) && !out.contains(words), "{out}");
}

#[test]
fn an_image_is_named_after_every_file_that_its_build_can_use_in_a_commit_as_in_the_working_tree() {
    let world = World::new();
    world.repo("version: 1\nimage: {containerfile: Containerfile}\n");
    let dir = world.root().join("w/.sandboxc");
    fs::write(dir.join("Containerfile"), "FROM docker.io/library/debian\nCOPY setup /\n").unwrap();
    fs::write(dir.join("setup"), "reviewed\n").unwrap();
    git(&world, &["init", "--quiet", "--initial-branch=main"]);
    git(&world, &["add", "."]);
    git(&world, &["commit", "--quiet", "-m", "image"]);
    let tag = |from: &[&str]| {
        let args = [&["compile", "--target", "script"], from, &["--", "true"]].concat();
        let mut command = assert_cmd::Command::cargo_bin("sandboxc").unwrap();
        command.env_clear().env("HOME", world.root().join("h")).env("XDG_CONFIG_HOME", world.root().join("c"));
        command.env("SANDBOXC_ROUTER_IMAGE", "localhost/router:1").current_dir(world.root().join("w"));
        let out = String::from_utf8(command.args(args).output().unwrap().stdout).unwrap();
        let tag = out.split("localhost/sandboxc-repo:").nth(1).map(|rest| rest.get(..12).unwrap().to_owned());
        tag.unwrap_or_else(|| panic!("{out}"))
    };
    let main = tag(&["--config-from", "main"]);
    assert_eq!(tag(&[]), main, "the same files");
    fs::write(dir.join("sandbox.yaml"), "version: 1\nimage: {containerfile: Containerfile, max_age: 7d}\n").unwrap();
    assert_eq!(tag(&[]), main, "sandbox.yaml is not in the context");
    fs::write(dir.join(".containerignore"), "!sandbox.yaml\nnotes/**\n").unwrap();
    let with_ignore = tag(&[]);
    assert_ne!(with_ignore, main, "unless the ignore file says so");
    fs::create_dir(dir.join("notes")).unwrap();
    symlink("/etc/passwd", dir.join("notes/link")).unwrap();
    assert_eq!(tag(&[]), with_ignore, "what is left out does not matter");
    fs::set_permissions(dir.join("setup"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    assert_ne!(tag(&[]), with_ignore, "modes do");
    fs::remove_file(dir.join(".containerignore")).unwrap();
    let (code, _, said) = run(&world, &["validate"]);
    assert_eq!(code, Some(2));
    assert!(said.contains("the build context cannot be used: `.sandboxc/notes/link` is a symbolic link"), "{said}");
    assert!(said.contains("sandbox.yaml:2:24") && said.contains("name it in `.sandboxc/.containerignore`"), "{said}");
    fs::remove_dir_all(dir.join("notes")).unwrap();
    fs::write(dir.join("setup"), "a stranger's\n").unwrap();
    assert_ne!(tag(&[]), main);
    assert_eq!(tag(&["--config-from", "main"]), main, "the working tree does not matter");
    // Another file of the same context is another image.
    fs::write(dir.join("setup"), "reviewed\n").unwrap();
    fs::set_permissions(dir.join("setup"), std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    fs::copy(dir.join("Containerfile"), dir.join("Other")).unwrap();
    let one = tag(&[]);
    fs::write(dir.join("sandbox.yaml"), "version: 1\nimage: {containerfile: Other}\n").unwrap();
    assert_ne!(tag(&[]), one);
    fs::remove_file(dir.join("Other")).unwrap();
    fs::write(dir.join("sandbox.yaml"), "version: 1\nimage: {containerfile: Containerfile}\n").unwrap();
    fs::write(dir.join("setup"), "a stranger's\n").unwrap();
    git(&world, &["commit", "--quiet", "-am", "other"]);
    assert_ne!(tag(&["--config-from", "main"]), main, "the context does");
}

#[test]
fn a_git_file_that_never_ends_is_not_read() {
    let world = World::new();
    world.repo(NARROW);
    symlink("/dev/zero", world.root().join("w/.git")).unwrap();
    let (code, _, said) = run(&world, &["explain", "a.example.com", "--config-from", "main"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("is not in a git repository"), "{said}");
}

#[test]
fn errors_in_a_commit_are_shown_with_its_name() {
    let world = World::new();
    world.repo("version: 1\nnetwork:\n  allow_hosst: []\n");
    git(&world, &["init", "--quiet", "--initial-branch=main"]);
    git(&world, &["add", "."]);
    git(&world, &["commit", "--quiet", "-m", "broken"]);
    world.repo(NARROW);
    let (code, _, said) = run(&world, &["validate", "--config-from", "main"]);
    assert_eq!(code, Some(2));
    assert!(said.contains("main:.sandboxc/sandbox.yaml:3:3"), "{said}");
}

#[test]
fn a_poisoned_repository_runs_and_reads_nothing_else() {
    let world = repository();
    let repo = world.root().join("w");
    let canary = world.root().join("ran");
    let hook = format!("#!/bin/sh\ntouch {}\n", canary.display());
    for name in ["post-checkout", "reference-transaction", "fsmonitor"] {
        let path = repo.join(".git/hooks").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &hook).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let config = repo.join(".git/config");
    let text = fs::read_to_string(&config).unwrap();
    let more = format!(
        "{text}[core]\n\tfsmonitor = {0}\n\tworktree = /\n\tsshCommand = {0}\n[include]\n\tpath = /etc/passwd\n",
        repo.join(".git/hooks/fsmonitor").display()
    );
    fs::write(&config, more).unwrap();
    let (code, _, said) = run(&world, &["explain", "db.example.com:5432", "--config-from", "main"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(!canary.exists(), "nothing ran");

    // Objects of another repository.
    let info = repo.join(".git/objects/info");
    fs::create_dir_all(&info).unwrap();
    fs::write(info.join("alternates"), "/elsewhere/objects\n").unwrap();
    let (code, _, said) = run(&world, &["validate", "--config-from", "main"]);
    assert_eq!(code, Some(2));
    assert!(said.contains("borrows objects from another one"), "{said}");
    fs::remove_file(info.join("alternates")).unwrap();

    // A link in the commit.
    symlink("/etc/passwd", repo.join(".sandboxc/Containerfile")).unwrap();
    fs::write(&config, text).unwrap();
    git(&world, &["-c", "core.hooksPath=/dev/null", "add", ".sandboxc"]);
    git(&world, &["-c", "core.hooksPath=/dev/null", "commit", "--quiet", "-m", "link"]);
    let (code, _, said) = run(&world, &["validate", "--config-from", "main"]);
    assert_eq!(code, Some(2));
    assert!(said.contains("`main:.sandboxc/Containerfile` is a symbolic link"), "{said}");
}
