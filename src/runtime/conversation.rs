//! Conversations: for each, a clone of a repo by URL and four more directories that outlive its containers.
//!
//! `$XDG_STATE_HOME/sandboxc/NAME/conversations/ID/` holds what is mounted: `workspace`, `state`, `inbox`, `outbox` and
//! `storage`. The directory itself is not mounted, so nothing inside can replace one of the five. `ID.json` and `ID.lock` lie
//! beside it. Everything below the five is the agent's: it is deleted, and copied by `files`, but never read for a decision.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::RuntimeError;
use super::fault::point;
use super::host::random_session;
use super::lock::{Lock, Wait};
use super::mirror::{Mirror, make_dir};
use crate::config::{CONVERSATION_MOUNTS, CONVERSATION_STATE, CONVERSATION_WORKSPACE};
use held::make_shared;

pub mod files;
mod held;
mod removal;

/// How long to wait for another process that looks at all conversations.
const GUARD: Duration = Duration::from_secs(60);

/// How often to look whether another conversation has ended.
const LOOK: Duration = Duration::from_millis(250);

/// The length of an id.
const DIGITS: usize = 8;

/// What became of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// Its workspace has not been cloned.
    New,
    /// It can start.
    Ready,
    /// The clone failed; the next start clones again.
    Failed,
}

/// What is known about a conversation, outside of every mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Conversation {
    /// Eight hexadecimal digits.
    pub id: String,
    /// The entry of `repos`.
    pub repo: String,
    /// What became of it.
    pub condition: Condition,
    /// Whether a schedule made it.
    pub scheduled: bool,
    /// When it was made, in seconds since the epoch.
    pub created: u64,
    /// The last start.
    pub last_start: Option<u64>,
    /// The end of the last start. A start that was killed has none.
    pub last_end: Option<u64>,
    /// Starts that failed before the command, since the last one that did not.
    pub failures: u32,
    /// The branch that was cloned.
    pub branch: Option<String>,
    /// The commit whose config the last start had.
    pub commit: Option<String>,
    /// The hash of the last plan.
    pub plan: Option<String>,
    /// The exit code of the last start.
    pub exit_code: Option<u8>,
}

impl Conversation {
    /// The time from which it expires.
    pub fn last_use(&self) -> u64 {
        self.last_end.max(self.last_start).unwrap_or(self.created)
    }
}

/// A conversation, and whether it is running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Listed {
    /// The conversation.
    #[serde(flatten)]
    pub conversation: Conversation,
    /// Whether it is running.
    pub running: bool,
}

/// All conversations of one repo.
#[derive(Debug)]
pub struct Store {
    repo: String,
    base: PathBuf,
}

/// A conversation that this process runs. Its lock is released when this is dropped.
#[derive(Debug)]
pub struct HeldConversation {
    /// What is written beside it.
    pub conversation: Conversation,
    dir: PathBuf,
    _lock: Lock,
}

/// Which conversation to start.
#[derive(Clone, Copy, Debug)]
pub enum Which<'a> {
    /// A new one; whether a schedule makes it.
    New {
        /// Whether a schedule makes it.
        scheduled: bool,
    },
    /// This one.
    Id(&'a str),
}

/// Whether this can be the id of a conversation.
pub fn is_id(text: &str) -> bool {
    text.len() == DIGITS && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Seconds since the epoch.
pub fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl Store {
    /// The conversations of an entry of `repos`. `state_home` is `$XDG_STATE_HOME`.
    pub fn open(state_home: &Path, repo: &str) -> Result<Self, RuntimeError> {
        let base = state_home.join("sandboxc").join(repo);
        make_dir(&base.join("conversations"))?;
        // Mounts are given by paths without links.
        let base = base.canonicalize().map_err(RuntimeError::io(format!("finding {}", base.display())))?;
        Ok(Self { repo: repo.to_owned(), base })
    }

    /// The repos that have a directory here.
    pub fn repos(state_home: &Path) -> Vec<String> {
        let entries = fs::read_dir(state_home.join("sandboxc")).into_iter().flatten().flatten();
        let has = |entry: &fs::DirEntry| entry.path().join("conversations").is_dir();
        let mut names: Vec<_> = entries.filter(has).filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// The mirror.
    pub fn mirror(&self) -> Mirror {
        Mirror::new(&self.base)
    }

    /// The directory of a conversation.
    pub fn dir(&self, id: &str) -> PathBuf {
        self.base.join("conversations").join(id)
    }

    /// The directory of a conversation in which nothing has happened, for questions about the config.
    pub fn blank(&self) -> Result<PathBuf, RuntimeError> {
        let dir = self.base.join("blank");
        make_dir(&dir.join(CONVERSATION_WORKSPACE))?;
        Ok(dir)
    }

    fn file(&self, id: &str, what: &str) -> PathBuf {
        self.base.join("conversations").join(format!("{id}.{what}"))
    }

    /// Everybody who takes or looks at a conversation's lock holds this one, so that a look is never taken for a start.
    fn guard(&self) -> Result<Lock, RuntimeError> {
        Lock::take(&self.base.join("conversations.lock"), Wait { most: GUARD, may_go_on: &|| Ok(()) })
    }

    /// All conversations, the oldest first.
    pub fn list(&self) -> Result<Vec<Listed>, RuntimeError> {
        let _guard = self.guard()?;
        self.listed()
    }

    fn listed(&self) -> Result<Vec<Listed>, RuntimeError> {
        let dir = self.base.join("conversations");
        let mut all = Vec::new();
        for entry in fs::read_dir(&dir).map_err(RuntimeError::io(format!("reading {}", dir.display())))?.flatten() {
            let name = entry.file_name();
            let id = name.to_str().and_then(|name| name.strip_suffix(".json")).filter(|id| is_id(id));
            let Some(conversation) = id.and_then(|id| self.noted(id)) else { continue };
            let running = self.lock(&conversation.id)?.is_none();
            all.push(Listed { conversation, running });
        }
        all.sort_by(|a, b| {
            (a.conversation.created, &a.conversation.id).cmp(&(b.conversation.created, &b.conversation.id))
        });
        Ok(all)
    }

    /// One conversation.
    pub fn find(&self, id: &str) -> Result<Listed, RuntimeError> {
        let found = self.list()?.into_iter().find(|listed| listed.conversation.id == id);
        found.ok_or_else(|| self.unknown(id))
    }

    fn unknown(&self, id: &str) -> RuntimeError {
        RuntimeError::Host(format!("{} has no conversation `{id}`; `sandboxc conversation ls` lists them", self.repo))
    }

    fn noted(&self, id: &str) -> Option<Conversation> {
        let text = fs::read(self.file(id, "json")).ok()?;
        serde_json::from_slice(&text).ok().filter(|noted: &Conversation| noted.id == id)
    }

    fn lock(&self, id: &str) -> Result<Option<Lock>, RuntimeError> {
        Lock::try_take(&self.file(id, "lock")).map_err(RuntimeError::io("looking at the lock of a conversation"))
    }

    /// Takes a conversation, or makes a new one, as soon as fewer than `most` others run.
    pub fn begin(
        &self,
        which: Which<'_>,
        most: Option<u32>,
        tell: &dyn Fn(&str),
        may_go_on: &dyn Fn() -> Result<(), RuntimeError>,
    ) -> Result<HeldConversation, RuntimeError> {
        let mut told = Vec::new();
        loop {
            let guard = self.guard()?;
            let running: Vec<String> =
                self.listed()?.into_iter().filter(|one| one.running).map(|one| one.conversation.id).collect();
            if let Which::Id(id) = which {
                if self.noted(id).is_none() {
                    return Err(self.unknown(id));
                }
                if running.iter().any(|one| one == id) {
                    return Err(RuntimeError::Host(format!(
                        "the conversation {id} of {} is running: wait for it, or see `sandboxc ps`",
                        self.repo
                    )));
                }
            }
            if most.is_none_or(|most| running.len() < most as usize) {
                let held = self.take(which);
                drop(guard);
                return held;
            }
            drop(guard);
            if running != told {
                tell(&format!("sandboxc: waiting for one of the conversations {} to end", running.join(", ")));
                told = running;
            }
            may_go_on()?;
            thread::sleep(LOOK);
        }
    }

    fn take(&self, which: Which<'_>) -> Result<HeldConversation, RuntimeError> {
        let conversation = match which {
            Which::Id(id) => self.noted(id).ok_or_else(|| self.unknown(id))?,
            Which::New { scheduled } => Conversation {
                id: self.free_id()?,
                repo: self.repo.clone(),
                condition: Condition::New,
                scheduled,
                created: now(),
                last_start: None,
                last_end: None,
                failures: 0,
                branch: None,
                commit: None,
                plan: None,
                exit_code: None,
            },
        };
        let id = conversation.id.clone();
        let lock = self.lock(&id)?.ok_or_else(|| self.unknown(&id))?;
        let held = HeldConversation { dir: self.dir(&id), conversation, _lock: lock };
        // Noted first: what has a note is found and removed later, whatever happens now.
        held.note()?;
        point("conversation-noted");
        make_dir(&held.dir)?;
        for name in CONVERSATION_MOUNTS.iter().map(|(name, _)| *name).chain([CONVERSATION_STATE]) {
            make_shared(&held.dir.join(name))?;
        }
        point("conversation-made");
        Ok(held)
    }

    fn free_id(&self) -> Result<String, RuntimeError> {
        for _ in 0..100 {
            let id = random_session()?;
            if !self.file(&id, "json").exists() && !self.dir(&id).exists() {
                return Ok(id);
            }
        }
        Err(RuntimeError::Host("found no free id for a conversation".to_owned()))
    }
}
