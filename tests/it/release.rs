//! What a release needs before anything is built: `scripts/release --check`, in a small repository.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::tidy::root;

fn git(dir: &Path, args: &[&str]) {
    let output = Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main"])
        .args(args)
        .current_dir(dir)
        .output()
        .unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The script's error; empty if it finds nothing wrong.
fn check(dir: &Path) -> String {
    let output = Command::new("bash").args(["scripts/release", "--check"]).current_dir(dir).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.success(), text.is_empty(), "{text}");
    text
}

#[test]
fn a_release_needs_a_clean_tree_a_section_in_the_changelog_and_a_new_version() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    fs::create_dir(dir.join("scripts")).unwrap();
    for file in ["scripts/release", "scripts/common.sh", "Cargo.toml", "Cargo.lock"] {
        fs::copy(root().join(file), dir.join(file)).unwrap();
    }
    let version = env!("CARGO_PKG_VERSION");
    fs::write(dir.join("CHANGELOG.md"), "# Changelog\n\n## [Unreleased]\n").unwrap();
    git(dir, &["init", "--quiet"]);
    git(dir, &["add", "--all"]);
    git(dir, &["commit", "--quiet", "--message", "one"]);
    assert!(check(dir).contains(&format!("no section `## [{version}]`")));

    fs::write(dir.join("CHANGELOG.md"), format!("# Changelog\n\n## [{version}] - 2026-11-30\n")).unwrap();
    let dirty = check(dir);
    assert!(dirty.contains("has changes") && dirty.contains("CHANGELOG.md"), "{dirty}");
    git(dir, &["commit", "--quiet", "--all", "--message", "two"]);
    assert_eq!(check(dir), "", "a clean tree with a section and without a tag can be released");
    fs::write(dir.join("new"), "").unwrap();
    assert!(check(dir).contains("has changes"), "files that git does not know count too");
    fs::remove_file(dir.join("new")).unwrap();

    git(dir, &["tag", &format!("v{version}")]);
    assert!(check(dir).contains(&format!("the tag v{version} exists")));
}
