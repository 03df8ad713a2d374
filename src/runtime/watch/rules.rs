//! Which places of a workspace are of interest.

use std::path::Path;

/// Files that some tool acts on without being asked, in any directory.
pub(super) const FILES: [&str; 16] = [
    ".envrc",
    ".gitattributes",
    ".gitmodules",
    ".lfsconfig",
    ".mcp.json",
    ".mise.toml",
    "mise.toml",
    ".tool-versions",
    ".pre-commit-config.yaml",
    "lefthook.yml",
    ".exrc",
    ".nvimrc",
    ".nvim.lua",
    ".vimrc",
    ".dir-locals.el",
    ".autoenv",
];

/// Directories whose files are all of that kind.
pub(super) const DIRECTORIES: [&str; 11] = [
    ".sandboxc",
    ".husky",
    ".githooks",
    ".vscode",
    ".idea",
    ".zed",
    ".fleet",
    ".devcontainer",
    ".claude",
    ".cursor",
    ".direnv",
];

/// What to do about a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Treatment {
    /// A file to examine.
    Watched,
    /// A directory to examine, at any depth.
    Inside,
    /// A harmless part of a repository.
    Skipped,
    /// Any other part of the tree.
    Unknown,
}

/// Classifies a path, relative to the workspace.
pub(super) fn treatment(path: &Path, is_dir: bool) -> Treatment {
    let names: Vec<&str> = path.iter().map(|name| name.to_str().unwrap_or("")).collect();
    let entry = if is_dir { Treatment::Inside } else { Treatment::Watched };
    if let Some(at) = names.iter().position(|&name| name == ".git") {
        return in_git(&names[at + 1..], entry);
    }
    if names.iter().any(|name| DIRECTORIES.contains(name)) {
        return entry;
    }
    let is_one = names.last().is_some_and(|last| FILES.contains(last) || last.ends_with(".code-workspace"));
    if is_one && !is_dir { Treatment::Watched } else { Treatment::Unknown }
}

/// Classifies a path below `.git`, which may itself be a file that points elsewhere (a worktree, a submodule).
fn in_git(names: &[&str], entry: Treatment) -> Treatment {
    match names {
        // Directories that git fills with thousands of files. Those of a submodule's own repository count as well, and
        // its name may contain slashes.
        ["objects" | "refs" | "logs" | "lfs" | "rr-cache", ..]
        | ["modules", .., "objects" | "refs" | "logs" | "lfs" | "rr-cache"]
        | ["worktrees", _, "refs" | "logs"] => Treatment::Skipped,
        // Examples, which git never runs.
        [.., "hooks", name] if name.ends_with(".sample") => Treatment::Skipped,
        []
        | ["config" | "config.worktree" | "commondir" | "gitdir"]
        | ["hooks" | "rebase-merge" | "rebase-apply" | "sequencer" | "remotes" | "branches", ..]
        | ["info", "attributes"]
        | ["worktrees", _, "config.worktree" | "commondir" | "gitdir"]
        | ["modules", .., "config" | "config.worktree" | "commondir"]
        | ["modules", .., "hooks", _]
        | ["modules", .., "info", "attributes"] => entry,
        ["info" | "modules" | "worktrees"] | ["worktrees", _] | ["modules", ..] if entry == Treatment::Inside => entry,
        // Anything may be hidden in a directory that git does not create.
        _ if entry == Treatment::Inside => Treatment::Unknown,
        _ => Treatment::Skipped,
    }
}

/// The names by which git recognizes a repository: `HEAD`, and `objects` with `refs` or a `commondir` that tells where
/// they are.
pub(super) const SHAPE: [&str; 4] = ["HEAD", "commondir", "objects", "refs"];

/// Whether git would treat a directory with these names as a repository, even without `.git` (`is_git_directory`).
pub(super) fn is_repository(has: impl Fn(&str) -> bool) -> bool {
    has("HEAD") && (has("commondir") || (has("objects") && has("refs")))
}

/// Whether a directory is where git keeps repositories anyway, or inside such a place: `.git` is covered by its name,
/// and nobody works inside a linked worktree's part of it.
pub(super) fn is_gits_own(directory: &Path) -> bool {
    let is = |name: &str| directory.file_name().is_some_and(|last| last == name);
    is(".git") || (directory.parent().is_some_and(|parent| parent.ends_with(".git/worktrees")))
}

/// What is always examined in each repository, relative to its `$GIT_DIR`.
pub(super) const IN_REPOSITORY: [&str; 10] = [
    "config",
    "config.worktree",
    "commondir",
    "hooks",
    "info/attributes",
    "rebase-merge",
    "rebase-apply",
    "sequencer",
    "remotes",
    "branches",
];

/// Whether git reads this file as settings.
pub(super) fn is_git_settings(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
    let in_git = path.iter().any(|part| part == ".git");
    matches!(name, ".gitmodules" | ".lfsconfig") || (in_git && matches!(name, "config" | "config.worktree"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        use Treatment::{Inside, Skipped, Unknown, Watched};
        for (path, is_dir, expected) in [
            ("src", true, Unknown),
            ("src/main.rs", false, Unknown),
            ("a/.envrc", false, Watched),
            (".envrc", true, Unknown),
            ("x.code-workspace", false, Watched),
            (".vscode", true, Inside),
            (".vscode/tasks.json", false, Watched),
            (".sandboxc/deep/er", true, Inside),
            (".git", true, Inside),
            (".git", false, Watched),
            (".git/index", false, Skipped),
            (".git/objects", true, Skipped),
            (".git/info/exclude", false, Skipped),
            (".git/info/attributes", false, Watched),
            (".git/modules/a/b", true, Inside),
            (".git/modules/a/b/config", false, Watched),
            (".git/modules/a/index", false, Skipped),
            (".git/modules/a/objects", true, Skipped),
            (".git/hooks/pre-push", false, Watched),
            (".git/hooks/pre-push.sample", false, Skipped),
            (".git/rebase-merge/git-rebase-todo", false, Watched),
            (".git/odd/one", true, Unknown),
            (".git/odd/one", false, Skipped),
            ("sub/.git/hooks/pre-push", false, Watched),
        ] {
            assert_eq!(treatment(Path::new(path), is_dir), expected, "{path}");
        }
    }
}
