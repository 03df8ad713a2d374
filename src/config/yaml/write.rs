//! Writing YAML that podman reads back as intended (podman decodes a stream twice, with two parsers).

use serde::ser::{SerializeMap as _, SerializeSeq as _};
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_yaml::{FlowMap, FlowSeq};

/// The longest text that is written on one line.
const SHORT: usize = 90;

/// Keys of a Kubernetes document that come first, so that a reader knows what it is.
const FIRST: [&str; 2] = ["apiVersion", "kind"];

/// Words that some parser takes for something else than a string.
const WORDS: [&str; 9] = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];

/// Serializes a value. Long lines stay on one line, since folded blocks are hard to review; short lists of plain words,
/// and list items that consist of nothing else, are written on one line each.
pub fn write(value: &impl Serialize) -> Result<String, String> {
    let options = serde_yaml::ser_options! { folded_wrap_chars: usize::MAX };
    let value = serde_json::to_value(value).map_err(|error| error.to_string())?;
    serde_yaml::to_string_with_options(&Node(&value), options).map_err(|error| error.to_string())
}

/// A value, block by block.
struct Node<'a>(&'a Value);

impl Serialize for Node<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Array(items) if is_short(self.0) => FlowSeq(items).serialize(serializer),
            Value::Array(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    match item {
                        Value::Object(fields) if is_short(item) => list.serialize_element(&FlowMap(fields))?,
                        _ => list.serialize_element(&Node(item))?,
                    }
                }
                list.end()
            }
            Value::Object(fields) => {
                let first = FIRST.iter().filter_map(|key| fields.get_key_value(*key));
                let others = fields.iter().filter(|(key, _)| !FIRST.contains(&key.as_str()));
                let mut map = serializer.serialize_map(Some(fields.len()))?;
                for (key, value) in first.chain(others) {
                    match value {
                        Value::Object(inner) if is_single(inner) && is_short(value) => {
                            map.serialize_entry(key, &FlowMap(inner))?;
                        }
                        _ => map.serialize_entry(key, &Node(value))?,
                    }
                }
                map.end()
            }
            scalar => scalar.serialize(serializer),
        }
    }
}

/// Whether a map has one field. The script replaces paths of the host by line, so each keeps a line of its own.
fn is_single(fields: &serde_json::Map<String, Value>) -> bool {
    fields.len() == 1 && !fields.contains_key("path")
}

/// Whether a list or map only contains scalars that every parser reads alike, and is short.
fn is_short(value: &Value) -> bool {
    let length: Option<usize> = match value {
        Value::Array(items) => items.iter().map(|item| plain(item).map(|length| length + 2)).sum(),
        Value::Object(fields) => {
            fields.iter().map(|(key, item)| plain(item).map(|length| key.len() + length + 4)).sum()
        }
        _ => None,
    };
    length.is_some_and(|length| (1..=SHORT).contains(&length))
}

/// The length of a plain scalar.
fn plain(value: &Value) -> Option<usize> {
    match value {
        Value::Bool(_) | Value::Number(_) => Some(value.to_string().len()),
        Value::String(text) => {
            let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
            let rest = text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
            let digits = text.len() < 10 && text.chars().all(|c| c.is_ascii_digit());
            let number = !text.is_empty() && (digits || text.parse::<std::net::Ipv4Addr>().is_ok());
            let word = WORDS.contains(&text.to_ascii_lowercase().as_str());
            ((starts && rest && !word) || number).then_some(text.len())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_short_and_plain_lists_and_items_stand_on_one_line() {
        let value = json!({
            "metadata": {"name": "a"},
            "kind": "Pod",
            "command": ["/sandboxc-router", "router"],
            "words": ["sh", "-c", "a, b"],
            "odd": ["yes", "a"],
            "env": [{"name": "HOME", "value": "/home/agent"}, {"name": "X", "value": "{a: b}"}, {"name": "Z", "value": "1"}],
            "long": ["x".repeat(100)],
            "empty": [],
        });
        let long = "x".repeat(100);
        let expected = format!(
            "kind: Pod\ncommand: [/sandboxc-router, router]\nempty: []\nenv:\n- {{name: HOME, value: /home/agent}}\n- name: X\n  value: \"{{a: b}}\"\n- {{name: Z, value: \"1\"}}\nlong:\n- {long}\nmetadata: {{name: a}}\nodd:\n- \"yes\"\n- a\nwords:\n- sh\n- -c\n- a, b\n"
        );
        let text = write(&value).unwrap();
        assert_eq!(text, expected);
        assert_eq!(serde_yaml::from_str::<Value>(&text).unwrap(), value);
    }
}
