//! Writes YAML that podman reads back unchanged (podman decodes a stream twice, with two parsers).

use serde::Serialize;

/// Serializes a value. Long lines are not folded, since folded blocks are hard to review.
pub fn write(value: &impl Serialize) -> Result<String, String> {
    let options = serde_yaml::ser_options! { folded_wrap_chars: usize::MAX };
    serde_yaml::to_string_with_options(value, options).map_err(|error| error.to_string())
}
