//! Compiled trees: each is written beside its place and takes it in one rename, so that nothing stale remains.
//!
//! What is replaced must consist of files that sandboxc writes. Anything else is refused, before and after the rename.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, RenameFlags, mkdirat, renameat_with, unlinkat};
use rustix::io::Errno;

use super::super::RuntimeError;
use super::{Inside, make_dir, open_dir, shown, temporary_name, write};
use crate::config::is_compiled;
use crate::emit;
use crate::emit::tree::is_of_a_tree;

/// How many names of the previous tree are examined.
const NAMES: usize = 20_000;

/// The beginning of the names of trees that are being written.
const BESIDE: &str = ".sandboxc-";

/// Where sandboxc reads its config.
const CONFIG: &str = ".sandboxc";

/// Makes these files the whole content of a directory, which does not exist yet, is empty, or holds a compiled tree.
///
/// A directory in the workspace that is protected because of the tree in it stays the same directory: running sandboxes
/// hold it read-only, and a new one in its place would be writable for them.
pub fn fresh(dir: &Path, files: &[emit::File], inside: &Inside) -> Result<(), RuntimeError> {
    let real = allowed(dir, inside)?;
    let old = survey(dir, &real)?;
    let failed = |error: io::Error| RuntimeError::Io(format!("writing {}", shown(dir)), error);
    match inside.contains(&real) {
        true => in_place(&real, files, &old).map_err(failed),
        false => match swap(dir, &real, files) {
            // A mount point cannot be renamed.
            Err(RuntimeError::Io(_, error)) if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {
                in_place(&real, files, &old).map_err(failed)
            }
            swapped => swapped,
        },
    }
}

/// Checks that a directory of several trees holds nothing else.
pub fn only_trees(dir: &Path, inside: &Inside) -> Result<(), RuntimeError> {
    let real = allowed(dir, inside)?;
    for entry in entries(&real).map_err(RuntimeError::io(format!("reading {}", shown(dir))))? {
        let name = entry.file_name();
        let is_tree = entry.file_type().is_ok_and(|kind| kind.is_dir()) && is_compiled(&entry.path());
        if !is_tree && !is_beside(&name) {
            return Err(foreign(dir, Path::new(&name)));
        }
    }
    Ok(())
}

fn allowed(dir: &Path, inside: &Inside) -> Result<PathBuf, RuntimeError> {
    let real = inside.place(dir)?;
    if real.components().any(|part| part.as_os_str() == CONFIG) {
        return Err(RuntimeError::Host(format!(
            "{} is in `{CONFIG}`, which holds what is compiled: choose a directory elsewhere",
            shown(dir)
        )));
    }
    Ok(real)
}

/// The files of the previous tree. Fails if anything else is there.
fn survey(dir: &Path, real: &Path) -> Result<Vec<PathBuf>, RuntimeError> {
    let failed = |error| RuntimeError::Io(format!("reading {}", shown(dir)), error);
    let (mut files, mut waiting) = (Vec::new(), vec![PathBuf::new()]);
    let mut left = NAMES;
    while let Some(below) = waiting.pop() {
        for entry in entries(&real.join(&below)).map_err(failed)? {
            let path = below.join(entry.file_name());
            let kind = entry.file_type().map_err(failed)?;
            left = left.checked_sub(1).ok_or_else(|| foreign(dir, &path))?;
            match (kind.is_dir(), kind.is_file()) {
                (true, _) if below.as_os_str().is_empty() => waiting.push(path),
                (_, true) if is_of_a_tree(&path) => files.push(path),
                _ => return Err(foreign(dir, &path)),
            }
        }
    }
    match files.is_empty() || is_compiled(real) {
        true => Ok(files),
        false => Err(foreign(dir, files.first().map_or(Path::new(""), PathBuf::as_path))),
    }
}

fn foreign(dir: &Path, path: &Path) -> RuntimeError {
    RuntimeError::Host(format!(
        "{} holds {}, which sandboxc did not write there: choose a directory of its own, or remove it; nothing was written",
        shown(dir),
        shown(path)
    ))
}

/// What is in a directory; nothing if it does not exist.
fn entries(dir: &Path) -> io::Result<Vec<fs::DirEntry>> {
    match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries?.collect(),
    }
}

fn is_beside(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(BESIDE.as_bytes())
}

fn swap(dir: &Path, real: &Path, files: &[emit::File]) -> Result<(), RuntimeError> {
    let failed = |error: Errno| RuntimeError::Io(format!("writing {}", shown(dir)), error.into());
    let (Some(parent), Some(name)) = (real.parent(), real.file_name()) else { return Err(failed(Errno::BUSY)) };
    let parent = make_dir(parent).map_err(failed)?;
    let beside = temporary_name().map_err(RuntimeError::io("choosing a name"))?;
    mkdirat(&parent, &beside, Mode::from_raw_mode(0o777)).map_err(failed)?;
    let placed = fill(&parent, &beside, files)
        .map_err(|error| RuntimeError::Io(format!("writing {}", shown(dir)), error))
        .and_then(|()| place(&parent, &beside, name).map_err(failed));
    // What has the other name now: the new tree if it could not be placed, the previous one, or nothing.
    let rest = real.with_file_name(&beside);
    match placed {
        Ok(()) if survey(dir, &rest).is_err() => Err(RuntimeError::Host(format!(
            "{} got other files while it was replaced: they are in {}",
            shown(dir),
            shown(&rest)
        ))),
        placed => {
            let _ = fs::remove_dir_all(&rest);
            placed
        }
    }
}

fn fill(parent: &OwnedFd, name: &str, files: &[emit::File]) -> io::Result<()> {
    let root = open_dir(parent, Path::new(name))?;
    files.iter().try_for_each(|file| write(&root, file))
}

/// Exchanges the new tree with the previous one, if there is one.
fn place(parent: &OwnedFd, beside: &str, name: &OsStr) -> Result<(), Errno> {
    match renameat_with(parent, beside, parent, name, RenameFlags::EXCHANGE) {
        Err(Errno::NOENT) => renameat_with(parent, beside, parent, name, RenameFlags::NOREPLACE),
        placed => placed,
    }
}

/// Writes each file in its place, and removes those of the previous tree that are not among them.
fn in_place(real: &Path, files: &[emit::File], old: &[PathBuf]) -> io::Result<()> {
    let root = make_dir(real)?;
    files.iter().try_for_each(|file| write(&root, file))?;
    for stale in old.iter().filter(|old| !files.iter().any(|file| Path::new(&file.path) == old.as_path())) {
        let (dir, name) = (stale.parent().unwrap_or(Path::new("")), stale.file_name().unwrap_or_default());
        let dir = if dir.as_os_str().is_empty() { root.try_clone()? } else { open_dir(&root, dir)? };
        unlinkat(&dir, name, AtFlags::empty())?;
    }
    let emptied = old.iter().filter_map(|old| old.parent()).filter(|dir| !dir.as_os_str().is_empty());
    for dir in emptied {
        // One with files remains.
        let _ = unlinkat(&root, dir, AtFlags::REMOVEDIR);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::os::unix::fs::symlink;

    use super::*;

    const PLAN: &str = r#"{"format_version": 9, "session": "s", "hash": "h", "pods": []}"#;

    fn files(names: &[&str]) -> Vec<emit::File> {
        let text = |name: &str| if name == "plan.json" { PLAN.to_owned() } else { name.to_owned() };
        names.iter().map(|name| emit::File::new(*name, text(name))).collect()
    }

    fn names(dir: &Path) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        for entry in entries(dir).unwrap() {
            let name = entry.file_name().into_string().unwrap();
            match entry.file_type().unwrap().is_dir() {
                true => all.extend(names(&entry.path()).into_iter().map(|below| format!("{name}/{below}"))),
                false => drop(all.insert(name)),
            }
        }
        all
    }

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn a_new_tree_takes_the_place_of_the_previous_one_and_nothing_of_that_remains() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (out, inside) = (root.join("new/out"), Inside::default());
        let first = ["plan.json", "kube.yaml", "router/policy.json", "agent/hosts"];
        fresh(&out, &files(&first), &inside).unwrap();
        assert_eq!(names(&out), set(&first));
        let second = ["plan.json", "run.sh", "agent/hosts"];
        fresh(&out, &files(&second), &inside).unwrap();
        assert_eq!(names(&out), set(&second));
        assert_eq!(names(&root).len(), second.len(), "nothing is left beside it");
        fs::create_dir(root.join("empty")).unwrap();
        fresh(&root.join("empty"), &files(&first), &inside).unwrap();
        assert_eq!(names(&root.join("empty")), set(&first));
    }

    #[test]
    fn a_directory_with_anything_else_is_refused_and_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let inside = Inside::default();
        let refused = |name: &str, word: &str| {
            let before = names(&root);
            let said = fresh(&root.join(name), &files(&["plan.json", "run.sh"]), &inside).unwrap_err().to_string();
            assert!(said.contains(word) && said.contains("nothing was written"), "{name}: {said}");
            assert_eq!(names(&root), before, "{name}");
        };
        for (name, path) in [("a", "notes.txt"), ("b", ".git/config"), ("c", "agent/own"), ("d", "agent/deep/hosts")] {
            let out = root.join(name);
            fresh(&out, &files(&["plan.json"]), &inside).unwrap();
            fs::create_dir_all(out.join(path).parent().unwrap()).unwrap();
            fs::write(out.join(path), "").unwrap();
            refused(name, path.split('/').next().unwrap());
        }
        let linked = root.join("e");
        fresh(&linked, &files(&["plan.json"]), &inside).unwrap();
        symlink("/etc/hosts", linked.join("run.sh")).unwrap();
        refused("e", "run.sh");
        fs::create_dir(root.join("f")).unwrap();
        fs::write(root.join("f/run.sh"), "").unwrap();
        refused("f", "run.sh");
        let config = fresh(&root.join(".sandboxc/out"), &files(&["plan.json"]), &inside).unwrap_err().to_string();
        assert!(config.contains("holds what is compiled") && !root.join(".sandboxc").exists(), "{config}");
    }

    /// A running sandbox holds the directory itself.
    #[test]
    fn a_protected_tree_in_the_workspace_stays_the_same_directory() {
        use std::os::unix::fs::MetadataExt as _;
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let out = root.join("ws/kept");
        fresh(&out, &files(&["plan.json", "kube.yaml", "router/policy.json"]), &Inside::default()).unwrap();
        let inside = Inside { writable: vec![root.join("ws")], kept: vec![out.clone()] };
        let inode = || fs::metadata(&out).unwrap().ino();
        let before = inode();
        fresh(&out, &files(&["plan.json", "agent/hosts"]), &inside).unwrap();
        assert_eq!((inode(), names(&out)), (before, set(&["plan.json", "agent/hosts"])));
        assert!(!out.join("router").exists());
        fresh(&out, &files(&["plan.json"]), &Inside::default()).unwrap();
        assert_ne!(inode(), before, "the twin");
    }

    #[test]
    fn a_directory_of_trees_holds_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let inside = Inside::default();
        only_trees(&root.join("missing"), &inside).unwrap();
        fresh(&root.join("one"), &files(&["plan.json"]), &inside).unwrap();
        only_trees(&root, &inside).unwrap();
        fs::write(root.join("kube.yaml"), "").unwrap();
        assert!(only_trees(&root, &inside).unwrap_err().to_string().contains("kube.yaml"));
    }
}
