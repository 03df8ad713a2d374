//! What of the workspace stays read-only, and who may say so.

use std::os::unix::fs::symlink;

use super::*;

/// The protected parts, one a word; `+` stands before what is put there first.
fn protected(world: &World) -> String {
    let resolved = world.resolved();
    let shown = |part: &sandboxc::config::Protected| {
        format!("{}{}", if part.stand_in.is_some() { "+" } else { "" }, part.path.display())
    };
    resolved.workspace.protect.iter().map(shown).collect::<Vec<_>>().join(" ")
}

/// What is watched, one a word.
fn watched(world: &World) -> String {
    let resolved = world.resolved();
    resolved.workspace.watched.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ")
}

/// A repository with nothing in it.
fn git(world: &World, at: &str) {
    world
        .write(&format!("{at}/HEAD"), "ref: refs/heads/main\n")
        .write(&format!("{at}/config"), "[core]\n\tbare = false\n");
    for dir in ["objects", "refs", "hooks"] {
        fs::create_dir_all(world.root().join(at).join(dir)).unwrap();
    }
}

#[test]
fn where_nothing_is_the_names_are_taken() {
    let world = repo("version: 1\n");
    assert_eq!(protected(&world), "+.git .sandboxc");
    fs::remove_dir_all(world.root().join("w/.sandboxc")).unwrap();
    assert_eq!(protected(&world), "+.git +.sandboxc");
    fs::create_dir_all(world.root().join("w/.git")).unwrap();
    assert_eq!(
        (protected(&world).as_str(), watched(&world).as_str()),
        (".git +.sandboxc", ""),
        "as a session leaves it"
    );
    fs::create_dir_all(world.root().join("w/.git/objects")).unwrap();
    assert_eq!(protected(&world), "+.git/config +.git/hooks +.sandboxc");
    assert_eq!(watched(&world), ".git/commondir");
    git(&world, "w/.git");
    assert_eq!(protected(&world), ".git/config .git/hooks +.sandboxc");
    world.write("w/src/main.rs", "").write("w/.git/commondir", "../../x\n");
    assert_eq!((protected(&world).as_str(), watched(&world).as_str()), (".git/commondir +.sandboxc", ""), "outside");
    world.write("w/.git/commondir", "../.git\n");
    assert_eq!(protected(&world), ".git/commondir .git/config .git/hooks +.sandboxc");
    assert_eq!(world.codes(), []);
}

#[test]
fn nothing_is_put_into_a_workspace_that_is_read_only() {
    let world = repo("version: 1\nworkspace: {read_only: true}\n");
    assert_eq!(protected(&world), ".sandboxc");
}

#[test]
fn a_file_that_says_where_the_repository_is_is_protected_and_followed() {
    let world = repo("version: 1\n");
    world.write("w/.git", "gitdir: ../main/.git/worktrees/w\n");
    assert_eq!(protected(&world), ".git .sandboxc");
    git(&world, "w/real/git");
    world.write("w/.git", "gitdir: real/git\n");
    assert_eq!(protected(&world), ".git .sandboxc real/git/config real/git/hooks");
    assert_eq!(watched(&world), "real/git/commondir");
}

/// Included files, hooks and commands are used wherever they are, and whoever names them.
#[test]
fn what_settings_name_is_protected_and_what_is_missing_of_it_watched() {
    let world = repo("version: 1\n");
    git(&world, "w/.git");
    world.write(
        "w/.git/config",
        "[include]\n path = ../shared.gitconfig\n path = missing\n[includeIf \"onbranch:x\"]\n path = ../by-branch\n\
         [core]\n fsmonitor = \"sh tools/watch.sh --all\"\n[filter \"x\"]\n clean = ./tools/clean %f\n[alias]\n t = !./tools/test\n",
    );
    world.write("w/shared.gitconfig", "[core]\n hooksPath = .githooks\n[include]\n path = deep/er\n path = ~/src\n");
    world.write("w/by-branch", "[diff \"x\"]\n textconv = tools/show\n").write("w/deep/er", "[include]\n path = er\n");
    for tool in ["watch.sh", "clean", "test", "show"] {
        world.write(&format!("w/tools/{tool}"), "");
    }
    let all = ".git/config .git/hooks +.githooks .sandboxc by-branch deep/er shared.gitconfig tools/clean tools/show tools/watch.sh";
    assert_eq!(protected(&world), all);
    assert_eq!(watched(&world), ".git/commondir .git/missing");
    // The user's own settings lead into the workspace too.
    world.write("h/.gitconfig", "[core]\n hooksPath = my-hooks\n[include]\n path = ../w/mine\n");
    world.write("w/.git/config", "").write("w/my-hooks/x", "").write("w/mine", "");
    assert_eq!(protected(&world), ".git/config .git/hooks .sandboxc mine my-hooks");
    world.write("c/git/config", "[init]\n templateDir = ../w/my-templates\n[core]\n hooksPath = /elsewhere\n");
    assert_eq!(world.codes(), [], "what leads nowhere is nobody's business");
    world.write("w/.git/config", "[core]\n hooksPath = .\n[include]\n path = ../src\n").write("w/src/x", "");
    assert_eq!(world.codes(), [Code::Unprotected]);
    assert!(world.text().contains("reads hooks or settings from `.`"), "{}", world.text());
    assert!(watched(&world).contains(" src"), "a directory where a file is wanted: {}", watched(&world));
}

#[test]
fn worktree_configs_modules_and_worktrees_elsewhere() {
    let world = repo("version: 1\n");
    git(&world, "w/.git");
    world.write("w/.git/config", "[extensions]\n worktreeConfig = true\n");
    assert_eq!(protected(&world), ".git/config +.git/config.worktree .git/hooks .sandboxc");
    world
        .write("w/.git/config.worktree", "[core]\n hooksPath = ../own\n")
        .write("w/.git/config", "[extensions]\n worktreeConfig\n");
    git(&world, "w/.git/modules/lib/deep");
    world.write("w/lib/x", "");
    world.write("w/.git/modules/lib/deep/config", "[core]\n worktree = ../../../../lib\n hooksPath = h\n");
    world.write("w/.git/worktrees/a/gitdir", format!("{}/elsewhere/.git\n", world.root().display()));
    world.write("w/.git/worktrees/a/commondir", "../..\n");
    world.write("w/.git/worktrees/b/gitdir", format!("{}/w/b/.git\n", world.root().display()));
    world.write("w/.git/worktrees/b/commondir", "../..\n");
    let all = ".git/config .git/config.worktree .git/hooks .git/modules/lib/deep/config .git/modules/lib/deep/hooks \
               .git/worktrees/a/commondir +.git/worktrees/a/config.worktree .git/worktrees/a/gitdir .sandboxc +lib/h";
    assert_eq!(protected(&world), all);
    assert_eq!(watched(&world), ".git/commondir .git/modules/lib/deep/commondir");
}

/// An index of version 2 with gitlinks alone.
fn index(links: &[&str]) -> Vec<u8> {
    let mut bytes = b"DIRC\0\0\0\x02".to_vec();
    bytes.extend(u32::try_from(links.len()).unwrap().to_be_bytes());
    for link in links {
        let start = bytes.len();
        bytes.extend([0; 24]);
        bytes.extend(0o160_000_u32.to_be_bytes());
        bytes.extend([0; 34]);
        bytes.extend(link.as_bytes());
        let length = bytes.len() - start;
        bytes.extend(vec![0; (length / 8 + 1) * 8 - length]);
    }
    bytes.extend([0; 20]);
    bytes
}

/// `git status` goes into what the index names, whether `.gitmodules` knows of it or not.
#[test]
fn repositories_that_the_index_names_are_protected_and_others_are_not() {
    let world = repo("version: 1\n");
    git(&world, "w/.git");
    git(&world, "w/own/.git");
    git(&world, "w/vendored/.git");
    git(&world, "w/.git/modules/sub");
    world
        .write("w/sub/.git", "gitdir: ../.git/modules/sub\n")
        .write("w/.git/index", index(&["own", "sub", "unborn/x"]));
    let all = ".git/config .git/hooks .git/modules/sub/config .git/modules/sub/hooks .sandboxc own/.git/config own/.git/hooks sub/.git";
    assert_eq!(protected(&world), all);
    assert_eq!(watched(&world), ".git/commondir .git/modules/sub/commondir own/.git/commondir unborn/x/.git");
    world.write("w/.git/index", "no index");
    assert_eq!(world.codes(), [Code::Unprotected]);
    assert!(world.text().contains("`.git/index`"), "{}", world.text());
}

#[test]
fn a_workspace_that_is_a_bare_repository_is_one() {
    let world = repo("version: 1\n");
    git(&world, "w");
    assert_eq!(protected(&world), "+.git .sandboxc config hooks");
    assert_eq!(watched(&world), "commondir");
    fs::remove_dir(world.root().join("w/refs")).unwrap();
    assert_eq!(protected(&world), "+.git .sandboxc", "the twin: a directory with a HEAD");
}

/// Whoever has another name of a file writes it past every mount.
#[test]
fn files_with_names_elsewhere_are_refused() {
    let world = repo("version: 1\n");
    git(&world, "w/.git");
    world.write("w/.git/hooks/a", "x");
    let link = |from: &str, to: &str| fs::hard_link(world.root().join(from), world.root().join(to)).unwrap();
    link("w/.git/hooks/a", "w/.git/hooks/b");
    assert_eq!(world.codes(), [], "both names are protected");
    link("w/.git/hooks/a", "w/other");
    assert_eq!(world.codes(), [Code::HardLink]);
    assert!(world.text().contains("`.git/hooks/a`") && world.text().contains("cp -p"), "{}", world.text());
    fs::remove_file(world.root().join("w/other")).unwrap();
    link("w/.git/config", "c/elsewhere");
    assert_eq!(world.codes(), [Code::HardLink], "nobody knows where the other one is");
}

#[test]
fn repo_defaults_and_entry_add_up_and_nobody_takes_away() {
    let world = repo("version: 1\nworkspace: {protect: [ci/./keys/, .sandboxc/sandbox.yaml]}\n");
    world.write("w/ci/keys/a", "").write("w/ci/other", "").write("w/Makefile", "").write("w/.git/config", "");
    world.server(&format!(
        "version: 1\ndefaults: {{workspace: {{protect: [Makefile]}}}}\nrepos:\n  w: {{path: {:?}, workspace: {{protect: [ci/other]}}}}\n",
        world.inputs.repo_dir
    ));
    let all = ".git/config +.git/hooks .sandboxc Makefile ci/keys ci/other";
    assert_eq!(protected(&world), all);
    let resolved = world.resolved();
    let from: Vec<String> = resolved.workspace.protect.iter().map(|part| part.from.short()).collect();
    assert!(
        from[0] == "built in" && from[3].contains("server.yaml:2") && from[4].contains("sandbox.yaml:2"),
        "{from:?}"
    );
    for nothing in ["[]", "null", "{}"] {
        world.repo(&format!("version: 1\nworkspace: {{protect: {nothing}}}\n"));
        assert_eq!(protected(&world), ".git/config +.git/hooks .sandboxc Makefile ci/other", "{nothing}");
    }
}

/// A directory around a protected part must be a mount too: else it could be renamed, and another put in its place.
#[test]
fn the_directories_around_are_mounted_on_themselves_outermost_first() {
    let world = repo("version: 1\nworkspace: {protect: [a/b/c]}\n");
    world.write("w/a/b/c", "").write("w/.git/config", "").write("w/.git/hooks/x", "");
    let resolved = world.resolved();
    let overlays = resolved.workspace.overlays().into_iter();
    let words: Vec<String> = overlays
        .map(|(path, overlay)| format!("{}{}", path.display(), if overlay.read_only { "" } else { " rw" }))
        .collect();
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
    assert_eq!(watched(&world), ".git/commondir .git/hooks");
}
