//! Worktrees, submodules and clones that borrow objects: reported at the start, with what to do.

use super::*;

fn warned(world: &World) -> bool {
    world.codes().contains(&Code::GitOutside)
}

//
#[test]
fn a_worktree_is_told_why_git_fails_and_what_to_do() {
    let world = World::new();
    let main = world.root().join("main/.git");
    let pointer = main.join("worktrees/w");
    fs::create_dir_all(&pointer).unwrap();
    world.repo("version: 1\n").write("w/.git", format!("gitdir: {}\n", pointer.display()));
    let said = world.text();
    for words in ["`@/main/.git/worktrees/w`", "git clone", "allow_mounts: [\"@/main/.git\"]"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(world.load().resolved.is_some(), "a warning: not every command needs git");
    // As the message says.
    world.repo(&format!("version: 1\nmounts: [{{source: {main:?}, target: {main:?}}}]\n"));
    world.server(&format!("version: 1\ndefaults: {{allow_mounts: [{main:?}]}}\n"));
    assert_eq!(world.codes(), [], "{}", world.text());
}

//
#[test]
fn a_submodule_is_told_the_same_and_a_pointer_that_stays_inside_is_fine() {
    let world = World::new();
    world.repo("version: 1\n").write("w/.git", "gitdir: ../.git/modules/w\n");
    assert!(warned(&world) && world.text().contains("`@/.git/modules/w`"), "{}", world.text());
    assert!(!world.text().contains("allow_mounts"), "a relative pointer has no place to be mounted at");
    world.write("w/.git", "gitdir: .repo/git\n").write("w/.repo/git/HEAD", "");
    assert!(!warned(&world), "the twin: inside is inside");
}

//
#[test]
fn objects_borrowed_from_another_repository_are_warned_about() {
    let world = World::new();
    world.repo("version: 1\n").write("w/.git/HEAD", "").write("o/x", "");
    assert!(!warned(&world));
    world.write("w/.git/objects/info/alternates", format!("{}\n", world.root().join("o").display()));
    assert!(warned(&world) && world.text().contains("git repack"), "{}", world.text());
    world.write("w/more/x", "").write("w/.git/objects/info/alternates", "../../more\n");
    assert!(!warned(&world), "the twin: {}", world.text());
}

#[test]
fn what_is_no_pointer_is_no_ones_business() {
    let world = World::new();
    world.repo("version: 1\n");
    for text in ["", "x", "gitdir", "\u{fffd}"] {
        world.write("w/.git", text);
        assert!(!warned(&world), "{text:?}");
    }
    world.write("w/.git", format!("gitdir: /{}\u{1b}[2J\n", "x".repeat(5000)));
    assert!(world.text().len() < 1000 && !world.text().contains('\u{1b}'), "{}", world.text());
}
