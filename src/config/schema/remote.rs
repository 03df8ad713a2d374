//! Repos by URL, in the schemas.

use schemars::JsonSchema;

use super::timeout::Timeout;

/// How conversations of a repo by URL live.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Conversations {
    expire_after: Option<Timeout>,
    #[schemars(range(min = 1, max = 1000))]
    max_concurrent: Option<u32>,
    #[schemars(range(min = 1, max = 1000))]
    keep: Option<u32>,
}

/// A program of the host, or a directory of programs.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Tool {
    source: String,
    target: String,
}
