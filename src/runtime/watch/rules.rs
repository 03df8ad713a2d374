//! Which places of a workspace are of interest.

use std::path::Path;

/// Files that some tool acts on by itself, in whatever directory they are.
const FILES: [&str; 16] = [
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

/// Directories that are such files as a whole.
const DIRECTORIES: [&str; 11] = [
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

/// What there is to do about a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A file to look at.
    Watched,
    /// A directory to look into, however deep.
    Inside,
    /// Of a repository's own, and harmless.
    Skipped,
    /// A part of the tree like any other.
    Unknown,
}

/// The place of a path, relative to the workspace.
pub(super) fn place(path: &Path, is_dir: bool) -> Place {
    let names: Vec<&str> = path.iter().map(|name| name.to_str().unwrap_or("")).collect();
    let entry = if is_dir { Place::Inside } else { Place::Watched };
    if let Some(at) = names.iter().position(|&name| name == ".git") {
        return in_git(&names[at + 1..], entry);
    }
    if names.iter().any(|name| DIRECTORIES.contains(name)) {
        return entry;
    }
    let is_one = names.last().is_some_and(|last| FILES.contains(last) || last.ends_with(".code-workspace"));
    if is_one && !is_dir { Place::Watched } else { Place::Unknown }
}

/// Below `.git`, which itself may be a file that points elsewhere (a worktree, a submodule).
fn in_git(names: &[&str], entry: Place) -> Place {
    match names {
        // Of a submodule's own repository, whose name may have slashes in it.
        ["modules", .., "objects" | "refs" | "logs" | "lfs"] => Place::Skipped,
        []
        | ["config" | "config.worktree" | "commondir" | "gitdir"]
        | ["hooks", ..]
        | ["info", "attributes"]
        | ["worktrees", _, "config.worktree" | "commondir" | "gitdir"]
        | ["modules", .., "config" | "config.worktree" | "commondir"]
        | ["modules", .., "hooks", _]
        | ["modules", .., "info", "attributes"] => entry,
        ["info" | "modules" | "worktrees"] | ["worktrees", _] | ["modules", ..] if entry == Place::Inside => entry,
        _ => Place::Skipped,
    }
}

/// True for what git reads as its settings.
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
        use Place::{Inside, Skipped, Unknown, Watched};
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
            ("sub/.git/hooks/pre-push", false, Watched),
        ] {
            assert_eq!(place(Path::new(path), is_dir), expected, "{path}");
        }
    }
}
