//! The documents of `conversation`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;

use super::VERSION;
use crate::runtime::conversation::files::TakenOut;
use crate::runtime::conversation::{Conversation, Listed};

/// `conversation ls --json`
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::cli) struct Conversations {
    /// The version of this document.
    pub version: u32,
    /// The conversations, the oldest of each repo first.
    pub conversations: Vec<Listed>,
}

/// `conversation new --json` and `conversation show --json`
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::cli) struct ConversationShown {
    /// The version of this document.
    pub version: u32,
    /// Its directory on this host.
    pub dir: PathBuf,
    /// The conversation.
    #[serde(flatten)]
    pub conversation: Listed,
}

/// `conversation expire --json`
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::cli) struct ExpiredConversations {
    /// The version of this document.
    pub version: u32,
    /// Whether nothing was removed.
    pub dry_run: bool,
    /// The conversations that have expired.
    pub expired: Vec<Conversation>,
}

/// `conversation take --json`
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::cli) struct TakenFiles {
    /// The version of this document.
    pub version: u32,
    /// How many files were copied.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What was not copied, at most 1000 names.
    pub skipped: Vec<SkippedName>,
    /// How many more names were not copied.
    pub more: u64,
}

/// A name in the outbox that was not copied.
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::cli) struct SkippedName {
    /// The path in the outbox; bytes that are not UTF-8 are replaced.
    pub path: String,
    /// Why.
    pub reason: String,
}

impl TakenFiles {
    pub(in crate::cli) fn of(taken: TakenOut) -> Self {
        let skipped = taken
            .skipped
            .into_iter()
            .map(|(path, why)| SkippedName { path: path.to_string_lossy().into_owned(), reason: why.to_owned() });
        let (files, bytes, more) = (taken.files, taken.bytes, taken.more);
        Self { version: VERSION, files, bytes, skipped: skipped.collect(), more }
    }
}
