//! Walks through a workspace breadth first, so that what is near the top is examined, however much is below.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use super::rules::{self, Treatment};
use crate::config::disk::{Kind, Tree, missing};

/// How many names of one directory are read. Beyond them, the names of interest are looked up one by one.
const IN_ONE: usize = 100_000;

/// What a walk found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Files, links and repositories of interest, and directories that git would treat as repositories.
    pub(super) paths: Vec<PathBuf>,
    /// The first directory that was not, or not completely, examined.
    pub(super) unseen: Option<PathBuf>,
}

/// Examines at most this many names.
pub(super) fn walk(tree: &Tree, most: usize) -> Found {
    let (mut found, mut left) = (Found::default(), most);
    let mut waiting = VecDeque::from([PathBuf::new()]);
    while let Some(directory) = waiting.pop_front() {
        if left == 0 {
            found.unseen.get_or_insert(directory);
            break;
        }
        match tree.names(&directory, left.min(IN_ONE)) {
            Ok(mut listing) => {
                left -= listing.names.len();
                if !listing.complete {
                    found.unseen.get_or_insert_with(|| directory.clone());
                    ask(tree, &directory, &mut listing.names);
                }
                found.directory(&directory, listing.names, &mut waiting);
            }
            Err(error) if missing(&error) => {}
            // The directory is not readable, but names in it may be reachable; or the path is longer than the kernel
            // permits.
            Err(error) => {
                let denied = |error: &io::Error| error.kind() == io::ErrorKind::PermissionDenied;
                let is_closed = |error: io::Error| denied(&error);
                if denied(&error) && tree.look(&directory.join(".git")).is_err_and(is_closed) {
                    // In that case, nothing else of this user can reach it either.
                    continue;
                }
                let mut names = BTreeMap::new();
                ask(tree, &directory, &mut names);
                found.directory(&directory, names, &mut waiting);
                found.unseen.get_or_insert(directory);
            }
        }
    }
    found
}

/// Looks up the names of interest in a directory with too many names.
fn ask(tree: &Tree, directory: &Path, names: &mut BTreeMap<OsString, Kind>) {
    let all = rules::FILES.iter().chain(&rules::DIRECTORIES).chain(&[".git"]).chain(&rules::SHAPE);
    for name in all {
        if let Ok(Some(seen)) = tree.look(&directory.join(name)) {
            names.insert(OsString::from(name), seen.kind);
        }
    }
}

impl Found {
    fn directory(&mut self, directory: &Path, names: BTreeMap<OsString, Kind>, waiting: &mut VecDeque<PathBuf>) {
        let has = |name: &str| names.contains_key(OsStr::new(name));
        if rules::is_repository(has) && !rules::is_gits_own(directory) {
            self.paths.push(directory.to_owned());
        }
        for (name, kind) in names {
            let path = directory.join(&name);
            let as_directory = rules::treatment(&path, true);
            match kind {
                Kind::Directory => {
                    if name == ".git" {
                        self.paths.push(path.clone());
                    }
                    match as_directory {
                        Treatment::Inside => waiting.push_front(path),
                        Treatment::Unknown => waiting.push_back(path),
                        Treatment::Watched | Treatment::Skipped => {}
                    }
                }
                Kind::Link if as_directory == Treatment::Inside => self.paths.push(path),
                _ if rules::treatment(&path, false) == Treatment::Watched => self.paths.push(path),
                _ => {}
            }
        }
    }
}
