//! Removes conversations: by hand, when they expire, and when newer ones of a schedule take their place.

use std::fs;
use std::io;
use std::path::Path;

use super::super::RuntimeError;
use super::super::mirror::write_whole;
use super::super::podman::Podman;
use super::{Conversation, Store, now};
use crate::config::Remote;

/// `run` removes expired conversations at most this often.
const DAY: u64 = 24 * 60 * 60;

/// A directory that is being removed.
const REMOVED: &str = ".removed-";

impl Store {
    /// Removes a conversation. False if it is running.
    pub fn remove(&self, id: &str) -> Result<bool, RuntimeError> {
        let guard = self.guard()?;
        if self.noted(id).is_none() {
            return Err(self.unknown(id));
        }
        let Some(lock) = self.lock(id)? else { return Ok(false) };
        let dir = self.dir(id);
        let gone = self.dir(&format!("{REMOVED}{id}"));
        // What an earlier removal left.
        remove_tree(&gone)?;
        match fs::rename(&dir, &gone) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(RuntimeError::Io(format!("removing {}", dir.display()), error));
            }
            _ => {}
        }
        for what in ["json", "lock"] {
            let _ = fs::remove_file(self.file(id, what));
        }
        drop((lock, guard));
        remove_tree(&gone).map(|()| true)
    }

    /// The conversations that have expired, the oldest first.
    pub fn expired(&self, remote: &Remote) -> Result<Vec<Conversation>, RuntimeError> {
        let until = now().saturating_sub(remote.expire_after);
        let all = self.list()?.into_iter().filter(|one| !one.running && one.conversation.last_use() < until);
        Ok(all.map(|one| one.conversation).collect())
    }

    /// Removes the conversations of a schedule beyond the newest ones that stay.
    pub fn supersede(&self, remote: &Remote) -> Result<(), RuntimeError> {
        let all = self.list()?.into_iter().rev().filter(|one| one.conversation.scheduled);
        for old in all.skip(remote.keep as usize).filter(|one| !one.running) {
            self.remove(&old.conversation.id)?;
        }
        Ok(())
    }

    /// Removes what has expired, and what earlier removals left, at most once a day.
    pub fn expire_daily(&self, remote: &Remote) -> Result<Vec<Conversation>, RuntimeError> {
        let stamp = self.base.join("expired.json");
        let last: u64 = fs::read(&stamp).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or(0);
        if now().saturating_sub(last) < DAY {
            return Ok(Vec::new());
        }
        write_whole(&stamp, &now())?;
        self.expire(remote)
    }

    /// Removes what has expired, and what earlier removals left.
    pub fn expire(&self, remote: &Remote) -> Result<Vec<Conversation>, RuntimeError> {
        let mut old = Vec::new();
        for conversation in self.expired(remote)? {
            // One that has started since stays.
            if self.remove(&conversation.id)? {
                old.push(conversation);
            }
        }
        let entries = fs::read_dir(self.base.join("conversations")).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(REMOVED.as_bytes())) {
            remove_tree(&entry.path())?;
        }
        Ok(old)
    }
}

/// Removes a directory of a sandbox, following no link. Parts of it may belong to subordinate ids.
pub(super) fn remove_tree(path: &Path) -> Result<(), RuntimeError> {
    match fs::remove_dir_all(path) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(_) => {}
    }
    let what = format!("removing {}", path.display());
    let shown = path.display().to_string();
    Podman::apart()?.call(&what, &["unshare", "rm", "-rf", "--one-file-system", "--", &shown], None).map(drop)
}
