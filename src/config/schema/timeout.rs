//! A time limit, in the schemas.

use schemars::JsonSchema;

/// Seconds, or a number and one of s, m, h, d.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub(super) enum Timeout {
    // Without descriptions of their own, which an editor would show instead of the key's.
    Seconds(#[schemars(range(min = 10, max = 40_000_000))] u32),
    Text(#[schemars(regex(pattern = r"^[0-9]+(\.[0-9]+)?(s|sec|m|min|h|d)$"))] String),
}
