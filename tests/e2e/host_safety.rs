//! What the agent leaves behind for the host to execute, and what it must not reach that way.

use std::fs;

use crate::harness::{Sandbox, code, text};

#[test]
fn what_the_host_may_execute_later_is_named_at_the_end() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo();
    // Hooks and config of the workspace's own repository are protected; these belong to others.
    for dir in ["objects", "refs/heads"] {
        fs::create_dir_all(repo.join(".git").join(dir)).unwrap();
    }
    fs::write(repo.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    let quiet = sandbox.run(&["sh", "-c", "echo x >file; mkdir -p src .git/objects; git add file"]);
    assert_eq!((code(&quiet), text(&quiet.stderr)), (0, String::new()), "ordinary work is not worth a word");
    let script =
        "git init -q new; printf '#!/bin/sh\\n' >new/.git/hooks/pre-commit; chmod 755 new/.git/hooks/pre-commit; cd new
        git config core.hooksPath .githooks; git config core.fsmonitor ./watch; git config filter.x.smudge 'sh x'; cd ..
        echo '* filter=x' >.gitattributes; mkdir -p .githooks .vscode sub/.git; echo x >.githooks/post-checkout
        echo '{}' >.vscode/tasks.json; echo export >.envrc; ln -s /etc/passwd sub/.git/config
        printf '[submodule \"s\"]\\n url = ext::sh\\n' >.gitmodules; exit 3";
    let output = sandbox.run(&["sh", "-c", script]);
    assert_eq!(code(&output), 3);
    let said = text(&output.stderr);
    for wanted in [
        "may execute later",
        "new new/.git/hooks/pre-commit",
        "new new/.git/config: core.hookspath = .githooks; core.fsmonitor = ./watch; filter.x.smudge = sh x",
        "new .gitattributes",
        "new .githooks/post-checkout",
        "new .vscode/tasks.json",
        "new .envrc",
        "new sub/.git/config, a link to /etc/passwd",
        "new .gitmodules: submodule.s.url = ext::sh",
    ] {
        assert!(said.contains(wanted), "{wanted}\n{said}");
    }
    assert!(!said.contains("root:"), "a link was followed: {said}");
    let again = sandbox.run(&["true"]);
    assert_eq!(text(&again.stderr), "", "told once, by the run that did it");
}
