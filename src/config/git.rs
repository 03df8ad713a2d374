//! Workspaces that depend on something else: worktrees and submodules, whose repository is elsewhere, and clones that
//! borrow objects. git is not called, since a stranger controls the workspace; sandboxc reads the two files that point
//! outside.
//!
//! The other repository is not mounted. Its directory contains hooks and settings that the host executes, and `git gc`
//! inside would remove objects of worktrees that it cannot see.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

mod executing;
mod index;
pub(super) mod syntax;
mod uses;

pub use executing::{executing, executing_unasked};
pub use index::{Index, read_index};
pub use syntax::{Setting, settings};
pub(super) use uses::{Around, Uses, Want, uses};

use super::mounts::Ground;
use super::read::shorten;
use super::resolved::{ExtraMount, Workspace};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};

/// git's system and user config files (git-config(1), "Files").
pub fn own_files(env: &BTreeMap<String, String>, home: Option<&Path>, config_home: &Path) -> Vec<PathBuf> {
    let var = |name: &str| env.get(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let system = var("GIT_CONFIG_SYSTEM").unwrap_or_else(|| "/etc/gitconfig".into());
    let user = var("GIT_CONFIG_GLOBAL").map_or_else(
        || {
            let own = home.map(|home| home.join(".gitconfig"));
            std::iter::once(config_home.join("git/config")).chain(own).collect()
        },
        |path| vec![path],
    );
    std::iter::once(system).chain(user).filter(|path| path.is_absolute()).collect()
}

/// Warns if git inside would not find its repository.
pub(super) fn lint(ground: &Ground<'_>, workspace: &Workspace, mounts: &[ExtraMount], d: &mut Diagnostics) {
    let read = |path: &str| {
        let bytes = ground.disk.read_beneath(ground.repo_dir, Path::new(path)).ok()?;
        String::from_utf8(bytes).ok()
    };
    let seen = |inside: &Path| {
        let mut all = std::iter::once((&workspace.target, &workspace.source))
            .chain(mounts.iter().map(|mount| (&mount.target, &mount.source)));
        all.any(|(target, source)| {
            inside.strip_prefix(target).is_ok_and(|rest| ground.disk.canonical(&source.join(rest)).is_ok())
        })
    };
    if let Some(text) = read(".git")
        && let Some(pointer) = text.lines().next().and_then(|line| line.strip_prefix("gitdir:"))
    {
        let inside = plain(&workspace.target.join(pointer.trim()));
        let outside = plain(&workspace.source.join(pointer.trim()));
        if !seen(&inside) {
            let message = format!("git will not work inside: `.git` is a file that refers to `{}`", shown(&outside));
            d.push(advise(Diagnostic::new(Code::GitOutside, message), &repository(&outside), pointer));
        }
    }
    if let Some(text) = read(".git/objects/info/alternates") {
        let start = Path::new("/").join(workspace.target.join(".git/objects"));
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if !seen(&plain(&start.join(line))) {
                let outside = plain(&workspace.source.join(".git/objects").join(line));
                let message =
                    format!("git will lack objects inside: this clone borrows them from `{}`", shown(&outside));
                d.push(
                    Diagnostic::new(Code::GitOutside, message)
                        .help("run `git repack -a -d` outside to copy the objects into this clone"),
                );
                return;
            }
        }
    }
}

fn advise(finding: Diagnostic, repository: &Path, pointer: &str) -> Diagnostic {
    let finding = finding.help("run from a full clone: `git clone --no-hardlinks`");
    if !Path::new(pointer.trim()).is_absolute() {
        return finding;
    }
    let path = shown(repository);
    finding.help(format!(
        "or show it the repository read-only, for looking but not for commits: `mounts: [{{source: \"{path}\", target: \
         \"{path}\"}}]`, with `allow_mounts: [\"{path}\"]` in the server file"
    ))
}

/// A worktree's directory is inside the repository's, which must be mounted; a submodule's directory is complete.
fn repository(git_dir: &Path) -> PathBuf {
    match git_dir.parent() {
        Some(worktrees) if worktrees.ends_with("worktrees") => worktrees.parent().unwrap_or(worktrees).to_path_buf(),
        _ => git_dir.to_path_buf(),
    }
}

/// Removes `.` and `..` from the path without looking at the file system.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

/// A stranger's path on one line.
fn shown(path: &Path) -> String {
    shorten(&path.display().to_string())
}
