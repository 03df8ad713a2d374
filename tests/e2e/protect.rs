//! Protected paths, with every way to start a sandbox, and the limits of that protection.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::harness::{REPO, SERVER, Sandbox, code, text};
use crate::quadlet_live::{Installed, repo as unit_repo};

/// A repository, as git creates it.
fn git_init(dir: &Path) {
    for args in [
        &["init", "-q"][..],
        &["-c", "user.name=x", "-c", "user.email=x@x", "commit", "-q", "--allow-empty", "-m", "x"],
    ] {
        git(dir, args);
    }
    assert!(dir.join(".git/hooks").is_dir());
}

fn git(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git").args(args).current_dir(dir).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Tries each line, and prints those that succeed.
const ATTEMPTS: &str = "
echo x >ci/other && git add ci/other && git -c user.name=x -c user.email=x@x commit -qm y && git log --oneline | wc -l
while read -r attempt; do sh -c \"$attempt\" >/dev/null 2>&1 && echo \"WORKED $attempt\"; done <<'END'
echo x >.git/hooks/pre-commit
echo x >>.git/hooks/pre-commit.sample
mv .git/hooks/pre-commit.sample .git/hooks/pre-commit
ln -s /etc/passwd .git/hooks/post-checkout
chmod 777 .git/hooks/pre-push.sample
rm -rf .git/hooks/pre-push.sample
rmdir .git/hooks
mv .git/hooks aside
mv .git aside
ln -sfnT aside .git
mv -T aside .git/hooks
git config core.fsmonitor ./x
echo x >>.git/config
mv .git/config old
ln .git/config other
cp /dev/null .git/config
echo x >.sandboxc/sandbox.yaml
mv .sandboxc aside
touch .sandboxc/Containerfile
echo x >ci/keys/key
mv ci aside
mv ci/keys aside
umount .git/hooks
mount -o remount,rw,bind .git/hooks
unshare -Urm umount .git/hooks
unshare -Urm sh -c 'umount -l .git'
unshare -Urm mv .git aside
unshare -Urm sh -c 'mkdir m; mount --bind . m && mv m/.git m/aside'
rm -rf .git .sandboxc ci
END
true
";

const PROTECT: &str = "workspace: {protect: [ci/keys]}\n";

fn prepare(sandbox: &Sandbox) {
    git_init(&sandbox.repo());
    fs::create_dir_all(sandbox.repo().join("ci/keys")).unwrap();
    fs::write(sandbox.repo().join("ci/keys/key"), "secret").unwrap();
}

//
#[test]
fn nothing_protected_is_written_renamed_or_swapped_as_either_identity() {
    for identity in ["host-user", "root"] {
        let sandbox = Sandbox::with(&format!("{REPO}{PROTECT}identity: {identity}\n"), SERVER);
        prepare(&sandbox);
        let output = sandbox.run(&["sh", "-c", ATTEMPTS]);
        assert_eq!((code(&output), text(&output.stdout).trim()), (0, "2"), "{identity}: {}", text(&output.stderr));
        assert_eq!(text(&output.stderr).matches("may execute later").count(), 0, "{}", text(&output.stderr));
        assert_eq!(fs::read_to_string(sandbox.repo().join("ci/keys/key")).unwrap(), "secret");
        assert!(!sandbox.repo().join(".git/HEAD").exists(), "what is not protected can be removed");
        for kept in [".git/hooks/pre-push.sample", ".git/config", ".sandboxc/sandbox.yaml"] {
            assert!(sandbox.repo().join(kept).exists(), "{kept}");
        }
    }
}

#[test]
fn the_script_and_the_units_protect_the_same() {
    let command = format!("{{ {ATTEMPTS} }} >out.txt 2>err.txt");
    let sandbox = Sandbox::with(&format!("{REPO}{PROTECT}"), SERVER);
    prepare(&sandbox);
    let script = sandbox
        .command(&["compile", "--target", "script", "--session", "protect-sh", "--", "sh", "-c", &command])
        .output()
        .unwrap();
    assert_eq!(code(&script), 0, "{}", text(&script.stderr));
    let path = sandbox.scratch("run.sh");
    fs::write(&path, &script.stdout).unwrap();
    let output = Command::new("sh").arg(&path).stdin(Stdio::null()).output().unwrap();
    let said = |dir: &Path| ["out.txt", "err.txt"].map(|name| fs::read_to_string(dir.join(name)).unwrap_or_default());
    assert_eq!(said(&sandbox.repo())[0].trim(), "2", "{:?} {}", said(&sandbox.repo()), text(&output.stderr));

    let installed = Installed::prepared("q-protect", &format!("{}{PROTECT}", unit_repo(&command)), prepare);
    let output = installed.run();
    let dir = installed.sandbox.repo();
    assert_eq!(said(&dir)[0].trim(), "2", "{:?} {}", said(&dir), text(&output.stderr));
    assert!(installed.gone(), "left: {}", installed.left());
}

/// If the host replaces a file by renaming, the mount on the old file disappears. Settings that git acts on then end
/// the session.
#[test]
fn what_the_host_replaces_is_watched_from_then_on() {
    let sandbox = Sandbox::new();
    git_init(&sandbox.repo());
    let mut live = sandbox.start(&[]);
    assert_ne!(live.try_sh("echo x >>.git/config").0, 0);
    let (new, old) = (sandbox.repo().join(".git/config.lock"), sandbox.repo().join(".git/config"));
    fs::write(&new, "[core]\n\tbare = false\n[alias]\n\tx = !true\n").unwrap();
    fs::rename(&new, &old).unwrap();
    let errors = live.ended_by("printf '[core]\\n\\tfsmonitor = ./x\\n' >>.git/config; sleep 30");
    assert!(errors.contains("ALARM: ") && errors.contains("core.fsmonitor = "), "{errors}");
}

/// Runs a command with all warnings, of which there would be only the number.
fn verbose(sandbox: &Sandbox, command: &[&str]) -> std::process::Output {
    sandbox.command(&[&["--verbose", "run", "--"], command].concat()).output().unwrap()
}

#[test]
fn a_mount_below_a_protected_part_is_refused_and_a_link_is_never_followed() {
    let sandbox = Sandbox::with(&format!("{REPO}workspace: {{protect: [ci]}}\n"), SERVER);
    let secret = sandbox.scratch("secret");
    fs::create_dir(&secret).unwrap();
    fs::write(secret.join("pre-commit"), "only for the host").unwrap();
    fs::create_dir_all(sandbox.repo().join(".git")).unwrap();
    std::os::unix::fs::symlink(&secret, sandbox.repo().join(".git/hooks")).unwrap();
    std::os::unix::fs::symlink(&secret, sandbox.repo().join("ci")).unwrap();
    let output = sandbox.run(&["true"]);
    assert_eq!(code(&output), 2);
    assert!(text(&output.stderr).contains("`ci` is a link"), "{}", text(&output.stderr));
    fs::write(sandbox.repo().join(".sandboxc/sandbox.yaml"), REPO).unwrap();
    let output = verbose(&sandbox, &["sh", "-c", "cat .git/hooks/pre-commit; cat ci/pre-commit; ls -A .git"]);
    assert_eq!(text(&output.stdout), "config\nhooks\n", "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("`.git/hooks` is a symbolic link"), "{}", text(&output.stderr));
}

//
#[test]
fn a_worktree_is_warned_about_and_works_read_only_as_the_warning_says() {
    let sandbox = Sandbox::new();
    let main = sandbox.scratch("main");
    fs::create_dir(&main).unwrap();
    git_init(&main);
    fs::rename(sandbox.repo().join(".sandboxc"), sandbox.scratch("kept")).unwrap();
    fs::remove_dir(sandbox.repo()).unwrap();
    git(&main, &["worktree", "add", "-q", sandbox.repo().to_str().unwrap()]);
    fs::rename(sandbox.scratch("kept"), sandbox.repo().join(".sandboxc")).unwrap();
    let output = verbose(&sandbox, &["git", "log", "--oneline"]);
    let said = text(&output.stderr);
    assert!(
        code(&output) == 128 && said.contains("git will not work inside") && said.contains("allow_mounts"),
        "{said}"
    );

    let common = main.join(".git");
    fs::write(
        sandbox.repo().join(".sandboxc/sandbox.yaml"),
        format!("{REPO}mounts: [{{source: {common:?}, target: {common:?}}}]\n"),
    )
    .unwrap();
    fs::write(
        sandbox.config_home().join("sandboxc/server.yaml"),
        format!("{SERVER}defaults: {{allow_mounts: [{common:?}]}}\n"),
    )
    .unwrap();
    let script = "git log --oneline | wc -l; git status --short; git worktree prune; git gc -q --prune=now; echo x >.git; mv .git aside; \
                  git -c user.name=x -c user.email=x@x commit -qm y --allow-empty && echo COMMITTED; git log --oneline | wc -l";
    let output = verbose(&sandbox, &["sh", "-c", script]);
    assert_eq!(text(&output.stdout), "1\n?? .sandboxc/\n1\n", "{}", text(&output.stderr));
    assert!(!text(&output.stderr).contains("git will not work"), "{}", text(&output.stderr));
    let all = git(&main, &["worktree", "list"]);
    assert!(all.contains(sandbox.repo().to_str().unwrap()) && all.lines().count() == 2, "nothing was pruned: {all}");
    assert_eq!(git(&sandbox.repo(), &["log", "--oneline"]).lines().count(), 1, "the pointer still stands");
}
