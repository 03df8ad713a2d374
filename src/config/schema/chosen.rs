//! A value that the server file chooses, in the schemas.

use schemars::JsonSchema;

/// A value, or a value that the repo file cannot change.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub(super) enum Setting<T> {
    /// Applies unless the repo file says something else.
    Value(T),
    /// The value with its lock.
    Locked(LockedSetting<T>),
}

/// A value and its lock.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct LockedSetting<T> {
    value: T,
    locked: bool,
}
