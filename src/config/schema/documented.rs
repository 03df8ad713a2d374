//! What editors show about each key: descriptions, defaults and examples, for the keys of the readers' tables.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::config::read::Keys;
use crate::config::yaml::{self, Kind, Node};
use crate::config::{credential, entry, limits, nested, remote, repo, request, server};
use crate::diagnostic::Diagnostics;
use crate::source::SourceMap;

/// Where the keys of a table are in a schema.
pub(super) type Part = (&'static str, &'static Keys);

/// The tables of the repo file.
pub(super) const REPO_PARTS: &[Part] = &[
    ("", &repo::REPO),
    ("/definitions/RepoNetwork", &repo::NETWORK),
    ("/definitions/Workspace", &repo::WORKSPACE),
    ("/definitions/Mount", &repo::MOUNT),
    ("/definitions/Containerfile", &repo::IMAGE),
    ("/definitions/Nested", &nested::NESTED),
    ("/definitions/EntryMapping", &entry::ENTRY),
    ("/definitions/Graphql", &request::GRAPHQL),
    ("/definitions/Git", &request::git::GIT),
    ("/definitions/ResourceLimits", &limits::LIMITS),
];

/// The tables of the server file.
pub(super) const SERVER_PARTS: &[Part] = &[
    ("", &server::SERVER),
    ("/definitions/ServerNetwork", &server::NETWORK),
    ("/definitions/Defaults", &server::DEFAULTS),
    ("/definitions/Repo", &server::ENTRY),
    ("/definitions/Conversations", &remote::CONVERSATIONS),
    ("/definitions/Tool", &remote::TOOL),
    ("/definitions/EntryWorkspace", &server::ENTRY_WORKSPACE),
    ("/definitions/RepoEntryNetwork", &server::ENTRY_NETWORK),
    ("/definitions/EntryMapping", &entry::ENTRY),
    ("/definitions/Graphql", &request::GRAPHQL),
    ("/definitions/Git", &request::git::GIT),
    ("/definitions/ResourceLimits", &limits::LIMITS),
    ("/definitions/MaskedSecret", &credential::MASKED),
    ("/definitions/SigningCredential", &credential::SIGNING),
    ("/definitions/AwsKey", &credential::AWS_KEY),
    ("/definitions/GithubApp", &credential::GITHUB),
];

/// The texts.
const TEXTS: &str = include_str!("keys.yaml");

/// Adds what is known about each key of these tables. A key without a text stays without one, which a test excludes.
pub(super) fn add(schema: &mut Value, parts: &[Part]) {
    let texts = texts();
    let choices = choices(schema);
    for (at, keys) in parts {
        let Some(properties) = schema.pointer_mut(at).and_then(|part| part.get_mut("properties")) else { continue };
        for key in keys.known {
            let about = texts.get(keys.what).and_then(|table| table.get(key));
            // An entry of `repos` has the keys of `defaults`, and two of its own.
            let about = about.or_else(|| texts.get(server::DEFAULTS.what)?.get(key).filter(|_| is_entry(keys)));
            let (Some(about), Some(property)) = (about, properties.get_mut(key)) else { continue };
            let choice = property.pointer("/anyOf/0/$ref").or(property.get("$ref")).and_then(Value::as_str);
            if let Some(words) = choice.and_then(|choice| choices.get(choice)) {
                // A language server would show what one word means instead of what the key means.
                let optional = property.get("anyOf").map(|_| Value::Null);
                *property = json!({ "enum": words.iter().cloned().chain(optional).collect::<Vec<_>>() });
            }
            describe(property, about);
        }
    }
}

/// The words of each definition that is a choice of words, by the reference to it.
fn choices(schema: &Value) -> BTreeMap<String, Vec<Value>> {
    let definitions = schema["definitions"].as_object().into_iter().flatten();
    let words = |definition: &Value| -> Option<Vec<Value>> {
        definition["oneOf"].as_array()?.iter().map(|one| one.get("const").cloned()).collect()
    };
    definitions.filter_map(|(name, one)| Some((format!("#/definitions/{name}"), words(one)?))).collect()
}

fn is_entry(keys: &Keys) -> bool {
    keys.what == server::ENTRY.what
}

fn describe(property: &mut Value, about: &Value) {
    let default = about.get("default");
    let shown = |value: &Value| match value {
        Value::String(text) => format!("`{text}`"),
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        Value::Object(items) if items.is_empty() => "none".to_owned(),
        other => format!("`{other}`"),
    };
    let otherwise = match (default, about.get("unset").and_then(Value::as_str)) {
        (Some(default), _) => format!(" Default: {}.", shown(default)),
        (None, Some(unset)) => format!(" Default: {unset}."),
        (None, None) => String::new(),
    };
    let text = about.get("about").and_then(Value::as_str).unwrap_or_default();
    let examples = about.get("examples").cloned().or_else(|| about.get("example").map(|one| json!([one])));
    // draft-07 ignores what stands beside a reference.
    if let Some(reference) = property.as_object_mut().and_then(|property| property.remove("$ref")) {
        *property = json!({ "allOf": [{ "$ref": reference }] });
    }
    let Some(property) = property.as_object_mut() else { return };
    // The language server for YAML escapes the first and shows the second, if there is one.
    for name in ["description", "markdownDescription"] {
        property.insert(name.to_owned(), format!("{text}{otherwise}").into());
    }
    for (name, value) in [("default", default.cloned()), ("examples", examples)] {
        property.extend(value.map(|value| (name.to_owned(), value)));
    }
}

/// The texts by table and key.
fn texts() -> Value {
    let (mut sources, mut d) = (SourceMap::new(), Diagnostics::new());
    let file = sources.add("keys.yaml", "keys.yaml", TEXTS);
    yaml::read(file, TEXTS, &mut d).map_or(Value::Null, |root| plain(&root))
}

fn plain(node: &Node) -> Value {
    match &node.kind {
        Kind::Bool(value) => json!(value),
        Kind::Int(value) => json!(value),
        Kind::Float(value) => json!(value),
        Kind::Str(text) => json!(text),
        Kind::Seq(items) => items.iter().map(plain).collect(),
        Kind::Map(entries) => {
            let map: Map<String, Value> = entries.iter().map(|(key, value)| (key.text.clone(), plain(value))).collect();
            Value::Object(map)
        }
        Kind::Null | Kind::OddNumber | Kind::Tagged(..) | Kind::Broken => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_is_about_a_key_and_says_what_applies_without_it() {
        let texts = texts();
        let tables: Vec<&&Keys> = REPO_PARTS.iter().chain(SERVER_PARTS).map(|(_, keys)| keys).collect();
        for (what, table) in texts.as_object().unwrap() {
            let keys = tables.iter().find(|keys| keys.what == what).unwrap_or_else(|| panic!("no table is {what}"));
            for (key, about) in table.as_object().unwrap() {
                assert!(keys.known.contains(&key.as_str()), "{what} has no key {key}");
                let has = |name: &str| usize::from(about.get(name).is_some());
                assert_eq!(has("default") + has("unset") + has("required"), 1, "{what}: {key}");
                assert_eq!(has("example") + has("examples"), 1, "{what}: {key}");
                let text = about["about"].as_str().unwrap_or_else(|| panic!("{what}: {key}"));
                assert!(text.ends_with('.'), "{what}: {key}");
            }
        }
    }

    #[test]
    fn every_example_and_default_fits_its_schema() {
        for (text, parts) in [(super::super::repo(), REPO_PARTS), (super::super::server(), SERVER_PARTS)] {
            let schema: Value = serde_json::from_str(&text).unwrap();
            for (at, keys) in parts {
                for (key, property) in schema.pointer(at).unwrap()["properties"].as_object().unwrap() {
                    let one = json!({ "definitions": schema["definitions"], "allOf": [property] });
                    let validator = jsonschema::draft7::new(&one).unwrap();
                    let examples = property["examples"].as_array().unwrap().iter();
                    for example in examples.chain(property.get("default")) {
                        let wrong: Vec<String> = validator.iter_errors(example).map(|e| e.to_string()).collect();
                        assert!(wrong.is_empty(), "{}: {key}: {example}: {wrong:?}", keys.what);
                    }
                }
            }
        }
    }
}
