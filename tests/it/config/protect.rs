//! What of the workspace stays read-only, and who may say so.

use std::os::unix::fs::symlink;

use super::*;

/// The protected parts, one a word.
fn protected(world: &World) -> String {
    let resolved = world.resolved();
    let paths = resolved.workspace.protect.iter().map(|part| part.path.display().to_string());
    paths.collect::<Vec<_>>().join(" ")
}

#[test]
fn what_is_there_of_the_built_in_list_is_protected_and_nothing_else() {
    let world = repo("version: 1\n");
    assert_eq!(protected(&world), ".sandboxc");
    world.write("w/.git/config", "[core]\n").write("w/src/main.rs", "");
    assert_eq!(protected(&world), ".git/config .sandboxc");
    world.write("w/.git/hooks/pre-commit.sample", "");
    assert_eq!(protected(&world), ".git/config .git/hooks .sandboxc");
    assert_eq!(world.codes(), []);
}

#[test]
fn a_file_that_says_where_the_repository_is_is_protected_itself() {
    let world = repo("version: 1\n");
    world.write("w/.git", "gitdir: ../main/.git/worktrees/w\n");
    assert_eq!(protected(&world), ".git .sandboxc");
}

#[test]
fn repo_defaults_and_entry_add_up_and_nobody_takes_away() {
    let world = repo("version: 1\nworkspace: {protect: [ci/./keys/, .sandboxc/sandbox.yaml]}\n");
    world.write("w/ci/keys/a", "").write("w/ci/other", "").write("w/Makefile", "").write("w/.git/config", "");
    world.server(&format!(
        "version: 1\ndefaults: {{workspace: {{protect: [Makefile]}}}}\nrepos:\n  w: {{path: {:?}, workspace: {{protect: [ci/other]}}}}\n",
        world.inputs.repo_dir
    ));
    let all = ".git/config .sandboxc Makefile ci/keys ci/other";
    assert_eq!(protected(&world), all);
    let resolved = world.resolved();
    let from: Vec<String> = resolved.workspace.protect.iter().map(|part| part.from.short()).collect();
    assert!(
        from[0] == "built in" && from[2].contains("server.yaml:2") && from[3].contains("sandbox.yaml:2"),
        "{from:?}"
    );
    for nothing in ["[]", "null", "{}"] {
        world.repo(&format!("version: 1\nworkspace: {{protect: {nothing}}}\n"));
        assert_eq!(protected(&world), ".git/config .sandboxc Makefile ci/other", "{nothing}");
    }
}

/// A directory around a protected part must be a mount too: else it could be renamed, and another put in its place.
#[test]
fn the_directories_around_are_mounted_on_themselves_outermost_first() {
    let world = repo("version: 1\nworkspace: {protect: [a/b/c]}\n");
    world.write("w/a/b/c", "").write("w/.git/config", "").write("w/.git/hooks/x", "");
    let resolved = world.resolved();
    let overlays = resolved.workspace.overlays().into_iter();
    let words: Vec<String> =
        overlays.map(|(path, ro)| format!("{}{}", path.display(), if ro { "" } else { " rw" })).collect();
    assert_eq!(words, [".git rw", ".git/config", ".git/hooks", ".sandboxc", "a rw", "a/b rw", "a/b/c"]);
    world.repo("version: 1\nworkspace: {protect: [a/b/c], read_only: true}\n");
    assert!(world.resolved().workspace.overlays().is_empty(), "nothing to be kept from being written");
}

#[test]
fn links_are_never_followed() {
    let world = repo("version: 1\n");
    world.write("h/elsewhere/hooks/x", "").write("w/.git/config", "").write("w/real/file", "");
    symlink(world.root().join("h/elsewhere/hooks"), world.root().join("w/.git/hooks")).unwrap();
    assert_eq!(protected(&world), ".git/config .sandboxc");
    assert_eq!(world.codes(), [Code::Unprotected]);
    assert!(world.text().contains("`.git/hooks` is a symbolic link"), "{}", world.text());
    symlink("real", world.root().join("w/alias")).unwrap();
    symlink("nowhere", world.root().join("w/dangling")).unwrap();
    for path in ["alias", "alias/file", "dangling", "dangling/x", ".git/hooks/x"] {
        world.repo(&format!("version: 1\nworkspace: {{protect: [{path}]}}\n"));
        assert!(
            world.codes().contains(&Code::BadPath) && world.text().contains("is a link"),
            "{path}: {}",
            world.text()
        );
        assert!(world.load().resolved.is_none());
    }
    world.repo("version: 1\nworkspace: {protect: [real/file]}\n");
    assert_eq!(protected(&world), ".git/config .sandboxc real/file", "the twin: no link, no word");
}
