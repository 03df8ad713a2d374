//! Writing YAML that podman reads back as it was meant (podman decodes a stream twice, with two readers).

use serde::Serialize;

/// Serialises a value; long lines stay one line, since folded blocks are unreadable in a review.
pub fn write(value: &impl Serialize) -> Result<String, String> {
    let options = serde_yaml::ser_options! { folded_wrap_chars: usize::MAX };
    serde_yaml::to_string_with_options(value, options).map_err(|error| error.to_string())
}
