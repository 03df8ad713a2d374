//! One name that must stay as it is while the command runs, or that nobody may take.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use rustix::fs::{RenameFlags, renameat_with};
use rustix::io::Errno;

use super::shown;
use crate::config::Workspace;
use crate::config::disk::{Kind, Seen, Tree};
use crate::config::git::executing_unasked;
use crate::source::Place as From;

/// Bytes of a file that is compared.
const BYTES: u64 = 1 << 20;

/// Names that are tried for what is set aside.
const ASIDE: u32 = 100;

/// What must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Rule {
    /// Nothing is there.
    Absent,
    /// The same object, or a file of the same content.
    Same(Seen, Vec<u8>),
    /// A file of git's settings, with those that it acted on by itself: no other may come in. The host may replace it.
    Settings(Seen, Vec<String>),
}

/// A name, and what must hold of it.
#[derive(Debug)]
pub(super) struct Place {
    /// Relative to the workspace.
    pub(super) path: PathBuf,
    rule: Rule,
    /// It has been told; from then on nothing may be there.
    broken: bool,
}

/// What has happened, in words, and what is to be set aside.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Broken {
    pub(super) what: String,
    pub(super) aside: PathBuf,
}

impl Place {
    /// All places of a workspace. Where nothing holds protected parts in their places, files that people named are among
    /// them; else the host may replace those.
    pub(super) fn all(tree: &Tree, workspace: &Workspace, held: bool) -> Vec<Self> {
        let mut all: Vec<Self> = workspace.watched.iter().map(|path| Self::watched(tree, path)).collect();
        if workspace.read_only {
            return all;
        }
        for (path, overlay) in workspace.overlays() {
            let by_people = workspace.protect.iter().any(|part| part.path == path && part.from != From::built_in());
            all.extend(Self::protected(tree, path, overlay.read_only && by_people && held));
        }
        all
    }

    fn watched(tree: &Tree, path: &Path) -> Self {
        let rule = match tree.look(path) {
            Ok(Some(seen)) if seen.kind != Kind::File => Rule::Same(seen, Vec::new()),
            // It appeared meanwhile; so the first check tells.
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

    /// The directory that it is in.
    pub(super) fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    /// True if whatever takes the name breaks the rule.
    pub(super) fn is_absent(&self, name: &OsStr) -> bool {
        self.rule == Rule::Absent && self.path.file_name() == Some(name)
    }

    /// Says what has happened, if something has.
    pub(super) fn check(&mut self, tree: &Tree) -> Option<Broken> {
        let now = tree.look(&self.path);
        if self.broken {
            // What is put there again is set aside again, without more words.
            let again = matches!(now, Ok(Some(_)));
            return again.then(|| Broken { what: String::new(), aside: self.path.clone() });
        }
        let shown_path = shown(&self.path.display().to_string());
        let what = match (&mut self.rule, now) {
            (Rule::Absent, Ok(Some(_))) => format!("`{shown_path}` appeared, and git on this host would obey it"),
            // As it was; or a link, or worse, is among the directories that lead there, which are places of their own.
            (Rule::Absent, Ok(None)) | (_, Err(_)) => return None,
            (_, Ok(None)) => format!("`{shown_path}` was removed or renamed"),
            (Rule::Same(was, content), Ok(Some(seen))) => {
                if seen.id == was.id || is_same_file(tree, &self.path, seen, content) {
                    *was = seen;
                    return None;
                }
                format!("`{shown_path}` is no longer what it was")
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

/// Gives what is at a path another name, so that git does not find it: nothing is lost. The new path.
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
