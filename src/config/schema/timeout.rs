//! A time limit, in the schemas.

use schemars::JsonSchema;

/// Seconds, or a number with a unit.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub(super) enum Timeout {
    /// Seconds.
    Seconds(#[schemars(range(min = 10, max = 40_000_000))] u32),
    /// A number and one of s, m, h, d.
    Text(#[schemars(regex(pattern = r"^[0-9]+(\.[0-9]+)?(s|sec|m|min|h|d)$"))] String),
}
