//! The document of a repo by URL: its units decide nothing about containers.

use std::collections::BTreeMap;

use super::Review;
use crate::config::Remote;
use crate::plan::{FORMAT_VERSION, hash_of};

/// The document of units that start this command, or the configured one, in conversations. `hash` is that of the units.
pub fn remote_review(session: &str, remote: &Remote, command: &[String], hash: String) -> Review {
    let branch = remote.branch.as_deref().unwrap_or("the remote's HEAD");
    let mut facts = vec![
        format!("each start makes a conversation of {}", remote.url),
        format!(
            "what it may do is in .sandboxc/ of its branch ({branch}) at that moment; `sandboxc explain --name {}` shows it",
            remote.name
        ),
        format!(
            "conversations that stay: the newest {}, for {} s after their last end",
            remote.keep, remote.expire_after
        ),
    ];
    facts.extend((!command.is_empty()).then(|| format!("command: {}", command.join(" "))));
    Review {
        format_version: FORMAT_VERSION,
        session: session.to_owned(),
        hash,
        schedule: remote.schedule.clone(),
        sandboxc: env!("CARGO_PKG_VERSION").to_owned(),
        keys: BTreeMap::from([("schedule".to_owned(), hash_of(&remote.schedule))]),
        facts,
        ..Review::default()
    }
}
