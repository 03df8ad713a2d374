//! Writing YAML that podman reads back as it was meant.

use serde::Serialize;

use super::EmitError;

pub(super) fn to_yaml(value: &impl Serialize) -> Result<String, EmitError> {
    // Long lines stay one line: folded blocks are unreadable in a review.
    let options = serde_yaml::ser_options! { folded_wrap_chars: usize::MAX };
    serde_yaml::to_string_with_options(value, options).map_err(|e| EmitError::Internal(e.to_string()))
}
