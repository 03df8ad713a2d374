//! Paths of requests: one canonical form, and globs that match it.

use serde::Serialize;

/// A glob for canonical paths: `*` stays inside a segment, `**` crosses segments, all else is literal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct PathGlob(String);

impl PathGlob {
    /// As written in the config, canonicalised.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
