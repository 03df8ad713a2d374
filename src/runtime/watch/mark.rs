//! What a name referred to when it was examined.

use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::rules;
use crate::config::disk::{Kind, Seen, Tree};
use crate::config::git::executing;

/// How many bytes of a file are compared. Beyond them, only the length and the change time count.
const BYTES: u64 = 1 << 20;

/// The state of a name.
#[derive(Clone, Debug)]
pub(super) enum Mark {
    /// A plain file.
    File {
        seen: Seen,
        /// A hash of its beginning; `None` if it was not read.
        hash: Option<[u8; 32]>,
        /// The git settings in it that make git execute or fetch something.
        settings: Vec<String>,
    },
    /// A link, and its target.
    Link(PathBuf),
    /// A git repository.
    Repository(Seen),
    /// Anything else.
    Other,
}

impl Mark {
    /// Examines a name. Reads a file if `read` is set.
    pub(super) fn of(tree: &Tree, path: &Path, seen: Seen, read: bool) -> Self {
        match seen.kind {
            Kind::Link => tree.link(path).map_or(Self::Other, Self::Link),
            Kind::Directory => Self::Repository(seen),
            Kind::Other => Self::Other,
            Kind::File if !read => Self::File { seen, hash: None, settings: Vec::new() },
            Kind::File => match tree.head(path, BYTES) {
                Ok((seen, bytes)) => Self::File {
                    seen,
                    hash: Some(Sha256::digest(&bytes).into()),
                    settings: match rules::is_git_settings(path) {
                        true => executing(&String::from_utf8_lossy(&bytes)),
                        false => Vec::new(),
                    },
                },
                Err(_) => Self::File { seen, hash: None, settings: Vec::new() },
            },
        }
    }

    /// Describes the change in a word; `None` if nothing changed.
    pub(super) fn became(&self, now: &Self) -> Option<&'static str> {
        match (self, now) {
            (Self::File { seen: old, hash: Some(before), .. }, Self::File { seen: new, hash: Some(after), .. }) => {
                let beyond = new.len > BYTES && old.changed != new.changed;
                let executable = |seen: &Seen| seen.mode & 0o111 != 0;
                let same = before == after && old.len == new.len && executable(old) == executable(new);
                (!same || beyond).then_some("changed")
            }
            // It was not read, so whether its content changed is unknown.
            (Self::File { seen: old, .. }, Self::File { seen: new, .. }) => {
                ((old.id, old.changed) != (new.id, new.changed)).then_some("written")
            }
            (Self::Link(before), Self::Link(after)) => (before != after).then_some("changed"),
            (Self::Repository(before), Self::Repository(after)) => (before.id != after.id).then_some("replaced"),
            (Self::Other, Self::Other) => None,
            _ => Some("replaced"),
        }
    }

    /// git settings in it.
    pub(super) fn settings(&self) -> &[String] {
        match self {
            Self::File { settings, .. } => settings,
            _ => &[],
        }
    }
}
