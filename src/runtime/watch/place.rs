//! A name that must not change, or must not exist, while the command runs.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use rustix::fs::{RenameFlags, renameat_with};
use rustix::io::Errno;

use super::shown;
use crate::config::Workspace;
use crate::config::disk::{Kind, Seen, Tree};
use crate::config::git::executing_unasked;
use crate::source::Place;

/// How many bytes of a file are compared.
const BYTES: u64 = 1 << 20;

/// How many names are tried for renaming.
const ASIDE: u32 = 100;

/// The rule for a name.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Rule {
    /// It must not exist.
    Absent,
    /// It must be the same object, or a file with the same content.
    Same(Seen, Vec<u8>),
    /// A file of git settings, with those that git acts on. No others may be added; the host may replace the file.
    Settings(Seen, Vec<String>),
}

/// A name and its rule.
#[derive(Debug)]
pub(super) struct WatchedName {
    /// Relative to the workspace.
    pub(super) path: PathBuf,
    rule: Rule,
    /// Whether a violation was reported. From then on, nothing may exist at the name.
    broken: bool,
}

/// What happened, in words, and what must be renamed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Broken {
    pub(super) what: String,
    pub(super) aside: PathBuf,
}

impl WatchedName {
    /// All places of a workspace. If no mounts protect the protected parts, files that users configured are included;
    /// otherwise the host may replace those.
    pub(super) fn all(tree: &Tree, workspace: &Workspace, held: bool) -> Vec<Self> {
        let mut all: Vec<Self> = workspace.watched.iter().map(|path| Self::watched(tree, path)).collect();
        if workspace.read_only {
            return all;
        }
        for (path, overlay) in workspace.overlays() {
            let by_people = workspace.protect.iter().any(|part| part.path == path && part.from != Place::built_in());
            all.extend(Self::protected(tree, path, overlay.read_only && by_people && held));
        }
        all
    }

    fn watched(tree: &Tree, path: &Path) -> Self {
        let rule = match tree.look(path) {
            Ok(Some(seen)) if seen.kind != Kind::File => Rule::Same(seen, Vec::new()),
            // It has appeared since; the first check reports it.
            _ => Rule::Absent,
        };
        Self { path: path.to_owned(), rule, broken: false }
    }

    fn protected(tree: &Tree, path: &Path, may_be_replaced: bool) -> Option<Self> {
        let seen = tree.look(path).ok().flatten();
        let rule = match seen {
            None => Rule::Absent,
            Some(seen) if seen.kind != Kind::File => Rule::Same(seen, Vec::new()),
            Some(_) if may_be_replaced => return None,
            Some(seen) => {
                let content = tree.head(path, BYTES).map(|(_, bytes)| bytes).unwrap_or_default();
                let pointer = ["commondir", "gitdir", ".git"].iter().any(|name| path.ends_with(name));
                match pointer {
                    true => Rule::Same(seen, content),
                    false => Rule::Settings(seen, executing_unasked(&String::from_utf8_lossy(&content))),
                }
            }
        };
        Some(Self { path: path.to_owned(), rule, broken: false })
    }

    /// The directory of the name.
    pub(super) fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    /// Whether anything that appears at the name breaks the rule.
    pub(super) fn is_absent(&self, name: &OsStr) -> bool {
        self.rule == Rule::Absent && self.path.file_name() == Some(name)
    }

    /// Checks the rule.
    pub(super) fn check(&mut self, tree: &Tree) -> Option<Broken> {
        let now = tree.look(&self.path);
        if self.broken {
            // What appears there again is renamed again, without another report.
            let again = matches!(now, Ok(Some(_)));
            return again.then(|| Broken { what: String::new(), aside: self.path.clone() });
        }
        let shown_path = shown(&self.path.display().to_string());
        let what = match (&mut self.rule, now) {
            (Rule::Absent, Ok(Some(_))) => format!("`{shown_path}` appeared; git on this host would act on it"),
            // Either it is unchanged, or a link is among its parent directories, which are places of their own.
            (Rule::Absent, Ok(None)) | (_, Err(_)) => return None,
            (_, Ok(None)) => format!("`{shown_path}` was removed or renamed"),
            (Rule::Same(was, content), Ok(Some(seen))) => {
                if seen.id == was.id || is_same_file(tree, &self.path, seen, content) {
                    *was = seen;
                    return None;
                }
                format!("`{shown_path}` was replaced or changed")
            }
            (Rule::Settings(was, settings), Ok(Some(seen))) => {
                if (seen.id, seen.changed) == (was.id, was.changed) {
                    return None;
                }
                *was = seen;
                let now = match tree.head(&self.path, BYTES) {
                    Ok((seen, bytes)) if seen.len <= BYTES => executing_unasked(&String::from_utf8_lossy(&bytes)),
                    _ => vec!["it cannot be read".to_owned()],
                };
                let new: Vec<String> = now.into_iter().filter(|setting| !settings.contains(setting)).collect();
                if new.is_empty() {
                    return None;
                }
                format!("`{shown_path}` has new settings that git acts on: {}", new.join("; "))
            }
        };
        self.broken = true;
        Some(Broken { what: shown(&what), aside: self.path.clone() })
    }
}

fn is_same_file(tree: &Tree, path: &Path, seen: Seen, content: &[u8]) -> bool {
    let same = |(seen, bytes): (Seen, Vec<u8>)| seen.len <= BYTES && bytes == content;
    seen.kind == Kind::File && !content.is_empty() && tree.head(path, BYTES).is_ok_and(same)
}

/// Renames what is at a path, so that git does not find it; nothing is lost. Returns the new path.
pub(super) fn set_aside(tree: &Tree, path: &Path) -> Option<PathBuf> {
    let (directory, name) = (tree.directory(path.parent()?).ok()?, path.file_name()?);
    for number in 0..ASIDE {
        let mut new = OsString::from(name);
        new.push(if number == 0 { ".planted".to_owned() } else { format!(".planted-{number}") });
        match renameat_with(&directory, name, &directory, &new, RenameFlags::NOREPLACE) {
            Ok(()) => return Some(path.with_file_name(new)),
            Err(Errno::EXIST) => {}
            Err(_) => return None,
        }
    }
    None
}
