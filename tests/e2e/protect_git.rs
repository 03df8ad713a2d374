//! Attacks on what git on the host uses, with both identities. git on the host shows whether they succeed. Also the
//! ordinary work that must still be possible.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::harness::{REPO, SERVER, Sandbox, code, text};

const IDENTITIES: [&str; 2] = ["host-user", "root"];

/// The author of the tests' commits.
const AS: &str = "-c user.name=x -c user.email=x@x";

/// A repo with an identity, and one commit in it.
fn sandbox(identity: &str, more: &str) -> Sandbox {
    let sandbox = Sandbox::with(&format!("{REPO}identity: {identity}\n{more}"), SERVER);
    fs::create_dir_all(sandbox.repo().join("src")).unwrap();
    fs::write(sandbox.repo().join("src/file"), "x").unwrap();
    host(&sandbox, &format!("git init -q && git add src && git {AS} commit -qm x"));
    sandbox
}

/// A shell script of the machine's owner, in the repo.
fn host(sandbox: &Sandbox, line: &str) -> String {
    let mut command = Command::new("sh");
    let output = command.args(["-c", line]).current_dir(sandbox.repo()).stdin(Stdio::null()).output().unwrap();
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

/// Whether git on the host executes what the command planted: `evil`, which leaves a mark outside.
fn is_executed(sandbox: &Sandbox, directories: &[&str]) -> bool {
    for directory in directories {
        for line in ["git status", "git log -1", "git diff"] {
            host(sandbox, &format!("cd {directory} && {line}"));
        }
    }
    sandbox.scratch("mark").exists()
}

/// A shell function that writes git settings that leave the mark.
fn evil(sandbox: &Sandbox) -> String {
    let mark = sandbox.scratch("mark");
    format!(
        "evil() {{ printf '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\\tworktree = %s\\n\\tfsmonitor = touch %s;\\n' \"$2\" '{}' >\"$1\"; }}\n\
         shape() {{ mkdir -p $1/objects $1/refs && echo 'ref: refs/heads/x' >$1/HEAD; }}\n",
        mark.display()
    )
}

/// What happens to a command that plants something and would continue for a minute.
fn ends(sandbox: &Sandbox, script: &str) -> Output {
    let since = Instant::now();
    let output = sandbox.run(&["sh", "-c", &format!("{}{script}\nsleep 60", evil(sandbox))]);
    assert!(since.elapsed() < Duration::from_secs(50), "the command went on: {}", text(&output.stderr));
    assert_eq!(code(&output), 125, "{script}: {}", text(&output.stderr));
    assert!(text(&output.stderr).contains("ALARM: "), "{script}: {}", text(&output.stderr));
    output
}

#[test]
fn the_mark_shows_what_git_executes() {
    let sandbox = sandbox("host-user", "");
    let script = format!("{} evil .git/config {}", evil(&sandbox), sandbox.repo().display());
    host(&sandbox, &script);
    assert!(is_executed(&sandbox, &["."]), "{}", host(&sandbox, "git --version; cat .git/config; git status"));
}

#[test]
fn a_planted_commondir_ends_the_session_and_is_gone() {
    for identity in IDENTITIES {
        let sandbox = sandbox(identity, "");
        let output = ends(&sandbox, "shape other; evil other/config \"$PWD\"; echo ../other >.git/commondir");
        assert!(text(&output.stderr).contains("`.git/commondir`"), "{}", text(&output.stderr));
        assert!(!is_executed(&sandbox, &[".", "src"]), "{identity}: {}", text(&output.stderr));
        assert!(host(&sandbox, "git log --oneline").contains(" x"), "the repository works");
    }
}

#[test]
fn a_workspace_or_a_directory_that_becomes_a_repository_ends_the_session_and_is_none() {
    for identity in IDENTITIES {
        for (at, script) in [
            (".", "rm .git/HEAD; evil config \"$PWD\"; shape ."),
            ("src", "evil src/config \"$PWD/src\"; shape src"),
            ("src", "mkdir src/.git && evil src/.git/config \"$PWD/src\" && shape src/.git"),
            ("src", "mkdir new && shape new && evil new/config \"$PWD/src\" && echo 'gitdir: ../new' >src/.git"),
        ] {
            let sandbox = sandbox(identity, "");
            let output = ends(&sandbox, script);
            assert!(!is_executed(&sandbox, &[at]), "{identity} {script}: {}", text(&output.stderr));
        }
    }
}

#[test]
fn a_gitlink_with_settings_of_its_own_ends_the_session() {
    for identity in IDENTITIES {
        let sandbox = sandbox(identity, "");
        let script = format!(
            "git init -q sub && git -C sub {AS} commit -q --allow-empty -m x && evil sub/.git/config \"$PWD/sub\" && \
             git -c advice.addEmbeddedRepo=false add sub"
        );
        let output = ends(&sandbox, &script);
        assert!(text(&output.stderr).contains("gitlink `sub`"), "{}", text(&output.stderr));
        assert!(!is_executed(&sandbox, &["."]), "{identity}: {}", text(&output.stderr));
    }
}

/// Tries each line about what git uses besides its own config, and prints those that succeed.
const ATTEMPTS: &str = "
echo x >>shared.gitconfig
mv shared.gitconfig old
cp /dev/null shared.gitconfig
ln shared.gitconfig other
echo x >.git/more.gitconfig
echo x >>.githooks/pre-commit
echo x >.githooks/post-checkout
mv .githooks old
echo x >.git/config.worktree
echo x >>tools/watch
echo x >>lib/.git
mv lib old
echo x >>.git/modules/lib/config
echo x >.git/modules/lib/hooks/pre-commit
mv .git/modules/lib .git/modules/old
mv .git/modules .git/old
echo x >>.git/worktrees/elsewhere/commondir
mv .git/worktrees/elsewhere .git/worktrees/old
echo x >.git/worktrees/elsewhere/config.worktree
";

#[test]
fn everything_that_git_uses_is_held() {
    for identity in IDENTITIES {
        let sandbox = sandbox(identity, "");
        let prepare = format!(
            "git init -q ../lib && git -C ../lib {AS} commit -q --allow-empty -m x && \
             git -c protocol.file.allow=always submodule --quiet add ../lib lib && git {AS} commit -qm lib && \
             git worktree add -q ../elsewhere && git config extensions.worktreeConfig true && \
             git config include.path ../shared.gitconfig && git config --add include.path more.gitconfig && \
             touch shared.gitconfig .git/more.gitconfig && mkdir .githooks tools && printf '#!/bin/sh\n' >.githooks/pre-commit && chmod +x .githooks/pre-commit && \
             git config core.hooksPath .githooks && printf '#!/bin/sh\\n' >tools/watch && chmod +x tools/watch && \
             git config core.fsmonitor tools/watch"
        );
        println!("{}", host(&sandbox, &prepare));
        let lines = ATTEMPTS.lines().filter(|line| !line.is_empty());
        let tries: String =
            lines.map(|line| format!("sh -c '{line}' >/dev/null 2>&1 && echo 'WORKED {line}'\n")).collect();
        let work = format!(
            "echo y >>src/file && git -c core.fsmonitor=false {AS} commit -qam y && git log --oneline | wc -l\n"
        );
        let output = sandbox.run(&["sh", "-c", &format!("{tries}{work}true")]);
        assert_eq!(text(&output.stdout).trim(), "3", "{identity}: {}", text(&output.stderr));
        assert_eq!((code(&output), text(&output.stderr)), (0, String::new()), "{identity}");
    }
}

/// A missing file cannot be protected: it is renamed, and the session ends.
#[test]
fn a_missing_file_that_git_includes_ends_the_session_when_it_appears() {
    let sandbox = sandbox("host-user", "");
    host(&sandbox, "git config include.path ../missing");
    let output = ends(&sandbox, "evil missing \"$PWD\"");
    assert!(text(&output.stderr).contains("it was renamed to `missing.planted`"), "{}", text(&output.stderr));
    assert!(!is_executed(&sandbox, &["."]));
}

/// One session creates a second name of a file that only the next session protects, and which that one could write
/// through it.
#[test]
fn a_hard_link_made_before_is_refused_afterwards() {
    for identity in IDENTITIES {
        let sandbox = sandbox(identity, "");
        sandbox.sh("touch shared.gitconfig && ln shared.gitconfig way-in");
        host(&sandbox, "git config include.path ../shared.gitconfig");
        let output = sandbox.run(&["sh", "-c", "echo x >>way-in"]);
        let said = text(&output.stderr);
        assert!(code(&output) == 2 && said.contains("`shared.gitconfig`") && said.contains("hard link"), "{said}");
        host(&sandbox, "cp -p shared.gitconfig new && mv new shared.gitconfig");
        assert_eq!(code(&sandbox.run(&["sh", "-c", "echo x >>way-in"])), 0, "the twin, as the hint says");
        assert_eq!(fs::read_to_string(sandbox.repo().join("shared.gitconfig")).unwrap(), "");
    }
}

#[test]
fn where_there_is_no_repository_and_no_config_nobody_inside_makes_one() {
    for identity in IDENTITIES {
        let sandbox = Sandbox::with(&format!("{REPO}identity: {identity}\n"), SERVER);
        let attempts = "git init -q 2>/dev/null && echo INIT; mkdir .git/hooks 2>/dev/null && echo HOOKS; \
                        mv .git other 2>/dev/null && echo MOVED; rmdir .git 2>/dev/null && echo REMOVED; git init -q new && echo fine";
        assert_eq!(sandbox.sh(attempts), "fine\n", "{identity}");
        assert_eq!(fs::read_dir(sandbox.repo().join(".git")).unwrap().count(), 0);
        // The next run would use a `.sandboxc` that the command created.
        fs::remove_dir_all(sandbox.repo().join(".sandboxc")).unwrap();
        let attempts = "mkdir .sandboxc 2>/dev/null && echo MADE; echo 'version: 1' >.sandboxc/sandbox.yaml && echo WRITTEN; \
                        mv .sandboxc x && echo MOVED; true";
        let output = sandbox.run(&["sh", "-c", attempts]);
        assert_eq!((code(&output), text(&output.stdout)), (0, String::new()), "{}", text(&output.stderr));
        assert!(sandbox.repo().join(".sandboxc").is_dir());
    }
    // The user decides what applies from the next run on.
    let sandbox = Sandbox::new();
    fs::remove_dir_all(sandbox.repo().join(".sandboxc")).unwrap();
    assert_eq!(code(&sandbox.run(&["true"])), 0);
    fs::write(sandbox.repo().join(".sandboxc/sandbox.yaml"), "version: 1\nenv: {SAID: yes-it-is}\n").unwrap();
    assert_eq!(sandbox.sh("echo $SAID"), "yes-it-is\n");
}

#[test]
fn a_flood_of_files_blinds_neither_the_watch_nor_the_report() {
    let sandbox = sandbox("host-user", "");
    let flood = "python3 - <<'END'
import os
for d in range(30):
    os.mkdir(f'a{d}')
    for f in range(1000):
        open(f'a{d}/{f}', 'w').close()
END
mkdir -p deep/er/than/four/levels .vscode && git init -q deep/er/than/four/levels/x && echo '{}' >.vscode/tasks.json
";
    let output = sandbox.run(&["sh", "-c", flood]);
    let said = text(&output.stderr);
    assert_eq!(code(&output), 0, "{said}");
    assert!(
        said.contains("new deep/er/than/four/levels/x/.git\n") && said.contains("new .vscode/tasks.json"),
        "{said}"
    );
    assert!(!said.contains("removed") && !said.contains("ALARM"), "{said}");
    // Again, with twenty thousand files from the start.
    let output = sandbox.run(&["sh", "-c", "echo '{\"x\": 1}' >.vscode/tasks.json; git init -q a29/y"]);
    let said = text(&output.stderr);
    assert!(said.contains("changed .vscode/tasks.json") && said.contains("a29/y/.git\n"), "{said}");
    assert!(!said.contains("removed") && !said.contains("ALARM"), "{said}");
    let output = ends(&sandbox, "for i in $(seq 3000); do : >.git/f$i; rm .git/f$i; done; echo x >.git/commondir");
    assert!(text(&output.stderr).contains("`.git/commondir`"), "{}", text(&output.stderr));
}

#[test]
fn a_look_that_does_not_reach_everything_says_so() {
    let sandbox = sandbox("host-user", "");
    let deep = "python3 - <<'END'
import os
for _ in range(20):
    os.mkdir('d' * 250)
    os.chdir('d' * 250)
END
true";
    let output = sandbox.run(&["sh", "-c", deep]);
    let said = text(&output.stderr);
    assert!(code(&output) == 0 && said.contains("ALARM: the command left more files than can be examined"), "{said}");
}

#[test]
fn ordinary_work_is_neither_hindered_nor_told() {
    for identity in IDENTITIES {
        let sandbox = sandbox(identity, "");
        let script = format!(
            "set -e; git checkout -q -b topic; echo z >src/more; git add src; git {AS} commit -qm more; git merge -q topic; \
             git stash -q || true; git tag x; git gc -q; git init -q --bare new/bare.git; git clone -q . new/clone 2>/dev/null; \
             git -C new/clone config alias.x '!true'; git worktree add -q new/tree; git -C new/tree {AS} commit -q --allow-empty -m w; \
             rm -rf new; git worktree prune; git status --short; mkdir refs objects; git log --oneline | wc -l"
        );
        let output = sandbox.run(&["sh", "-c", &script]);
        let said = (code(&output), text(&output.stdout), text(&output.stderr));
        assert_eq!(said, (0, "?? .sandboxc/\n2\n".to_owned(), String::new()), "{identity}");
    }
}

#[test]
fn the_script_and_the_units_keep_the_names_too() {
    let command = "mkdir .git/hooks 2>/dev/null && echo MADE >>out.txt; mv .git x 2>/dev/null && echo MOVED >>out.txt; echo end >>out.txt";
    let check = |dir: &Path| {
        assert_eq!(fs::read_to_string(dir.join("out.txt")).unwrap_or_default(), "end\n");
        assert!(dir.join(".git").is_dir());
    };
    let sandbox = Sandbox::new();
    let script = sandbox
        .command(&["compile", "--target", "script", "--session", "names-sh", "--", "sh", "-c", command])
        .output()
        .unwrap();
    assert_eq!(code(&script), 0, "{}", text(&script.stderr));
    fs::write(sandbox.scratch("run.sh"), &script.stdout).unwrap();
    let output = Command::new("sh").arg(sandbox.scratch("run.sh")).stdin(Stdio::null()).output().unwrap();
    println!("{}", text(&output.stderr));
    check(&sandbox.repo());
    let installed =
        crate::quadlet_live::Installed::prepared("q-names", &crate::quadlet_live::repo(command), |_: &Sandbox| {});
    let output = installed.run();
    println!("{}", text(&output.stderr));
    check(&installed.sandbox.repo());
    assert!(installed.gone(), "left: {}", installed.left());
}
