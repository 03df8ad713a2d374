//! Lines of the log, as the corpus writes them.

use sandboxc::policy::{HostName, canonical};
use serde_json::Value;

use super::case::Pairs;
use super::text::{Secrets, Text};

/// A field as the corpus writes it.
pub fn shown(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) if text.is_empty() => "none".to_owned(),
        Value::Array(all) if all.is_empty() => "none".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(shown).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

/// True if a line of the log has these values, read as the session's own log writes them.
pub fn says(line: &Value, wanted: &Pairs) -> bool {
    wanted.iter().all(|(key, value)| {
        let said = shown(&line[key.as_str()]);
        let said = match key.as_str() {
            "host" => HostName::from_wire(&said).map_or(said, |name| name.as_str().to_owned()),
            "path" => canonical(&said).unwrap_or(said),
            _ => said,
        };
        let text = Text::read(value).map_or_else(
            |_| value.clone(),
            |text| String::from_utf8_lossy(&text.fill(&Secrets::default())).into_owned(),
        );
        let text = if key == "path" { canonical(&text).unwrap_or(text) } else { text };
        said == text
    })
}
