//! What a name stood for when it was looked at.

use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::rules;
use crate::config::disk::{Kind, Seen, Tree};
use crate::config::git::executing;

/// Bytes of a file that are compared; what lies beyond counts by its length and the time of its change.
const BYTES: u64 = 1 << 20;

/// One name as it was.
#[derive(Clone, Debug)]
pub(super) enum Mark {
    /// A plain file.
    File {
        seen: Seen,
        /// Hash of its beginning; None if it was not read.
        hash: Option<[u8; 32]>,
        /// Of git's settings those that make git execute or fetch something.
        settings: Vec<String>,
    },
    /// A link, and where it leads.
    Link(PathBuf),
    /// A git repository.
    Repository(Seen),
    /// Anything else.
    Other,
}

impl Mark {
    /// Looks at a name. A file is read if `read` says so.
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

    /// What became of it, in a word; None if it is as it was.
    pub(super) fn became(&self, now: &Self) -> Option<&'static str> {
        match (self, now) {
            (Self::File { seen: old, hash: Some(before), .. }, Self::File { seen: new, hash: Some(after), .. }) => {
                let beyond = new.len > BYTES && old.changed != new.changed;
                let executable = |seen: &Seen| seen.mode & 0o111 != 0;
                let same = before == after && old.len == new.len && executable(old) == executable(new);
                (!same || beyond).then_some("changed")
            }
            // Not read, so nobody knows whether other bytes were written.
            (Self::File { seen: old, .. }, Self::File { seen: new, .. }) => {
                ((old.id, old.changed) != (new.id, new.changed)).then_some("written")
            }
            (Self::Link(before), Self::Link(after)) => (before != after).then_some("changed"),
            (Self::Repository(before), Self::Repository(after)) => (before.id != after.id).then_some("replaced"),
            (Self::Other, Self::Other) => None,
            _ => Some("replaced"),
        }
    }

    /// Settings of git in it.
    pub(super) fn settings(&self) -> &[String] {
        match self {
            Self::File { settings, .. } => settings,
            _ => &[],
        }
    }
}
