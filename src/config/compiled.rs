//! Compiled trees in a workspace. The host runs their scripts and units, so they are read-only inside.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::disk::{Kind, Tree};

/// The file that every compiled tree has.
const FILE: &str = "plan.json";

/// How many bytes of it are read.
const BYTES: u64 = 1 << 20;

/// How many levels of directories are searched: a tree, and a directory of trees.
const DEPTH: usize = 2;

/// How many names are examined.
const NAMES: usize = 20_000;

/// What every `plan.json` of sandboxc contains, in any version.
#[derive(Deserialize)]
struct Document {
    #[serde(rename = "format_version")]
    _format_version: u32,
    #[serde(rename = "session")]
    _session: String,
    #[serde(rename = "hash")]
    _hash: String,
    #[serde(rename = "pods")]
    _pods: Vec<IgnoredAny>,
}

/// Whether a directory is a compiled tree.
pub fn is_compiled(dir: &Path) -> bool {
    Tree::open(dir).is_ok_and(|tree| is_tree(&tree, Path::new("")))
}

/// The compiled trees, relative to the workspace, and whether everything was examined.
pub(super) fn trees(workspace: &Tree) -> (Vec<PathBuf>, bool) {
    search(workspace, NAMES)
}

fn search(workspace: &Tree, most: usize) -> (Vec<PathBuf>, bool) {
    let (mut found, mut left) = (Vec::new(), most);
    let mut level = vec![PathBuf::new()];
    for _ in 0..DEPTH {
        let mut next = Vec::new();
        for directory in level {
            // sandboxc cannot have written a tree in a directory that this user cannot read.
            let Ok(listing) = workspace.names(&directory, left.saturating_add(1)) else { continue };
            left = match left.checked_sub(listing.names.len()) {
                Some(left) => left,
                None => return (found, false),
            };
            let directories = listing.names.into_iter().filter(|(_, kind)| *kind == Kind::Directory);
            for path in directories.map(|(name, _)| directory.join(name)) {
                if is_tree(workspace, &path) { found.push(path) } else { next.push(path) }
            }
        }
        level = next;
    }
    (found, true)
}

fn is_tree(workspace: &Tree, path: &Path) -> bool {
    let bytes = workspace.read(&path.join(FILE), BYTES);
    bytes.is_ok_and(|bytes| serde_json::from_slice::<Document>(&bytes).is_ok())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    const OURS: &str = r#"{"format_version": 9, "session": "s", "hash": "h", "pods": [{}], "more": 1}"#;

    #[test]
    fn trees_are_found_by_what_plan_json_says_and_no_link_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("compiled/plan.json", OURS),
            ("units/one/plan.json", OURS),
            ("terraform/plan.json", r#"{"format_version": "1.2", "resource_changes": []}"#),
            ("broken/plan.json", "{"),
            ("a/b/c/plan.json", OURS),
            ("plan.json", OURS),
        ] {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        symlink("compiled", dir.path().join("link")).unwrap();
        let tree = Tree::open(dir.path()).unwrap();
        let (found, whole) = trees(&tree);
        assert_eq!((found, whole), (vec!["compiled".into(), "units/one".into()], true));
    }

    #[test]
    fn names_that_are_too_many_are_said() {
        let dir = tempfile::tempdir().unwrap();
        for index in 0..3 {
            fs::create_dir(dir.path().join(index.to_string())).unwrap();
        }
        let tree = Tree::open(dir.path()).unwrap();
        assert_eq!(search(&tree, 3), (Vec::new(), true));
        assert_eq!(search(&tree, 2), (Vec::new(), false));
        fs::write(dir.path().join("0/file"), "").unwrap();
        assert_eq!(search(&tree, 3), (Vec::new(), false));
    }
}
