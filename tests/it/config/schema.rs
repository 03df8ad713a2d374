//! The checked-in schemas are up to date, accept what the readers accept, and refuse what a schema can refuse.

use std::fs;
use std::path::PathBuf;

use sandboxc::config::schema;
use sandboxc::config::yaml::{self, Kind, Node};
use sandboxc::diagnostic::Diagnostics;
use sandboxc::source::SourceMap;
use serde_json::{Value, json};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_files_are_current() {
    for (name, text) in sandboxc::cli::schemas() {
        let path = root().join(format!("schema/{name}.schema.json"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, &text).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), text, "run the tests with UPDATE_GOLDEN=1");
    }
}

/// The tree as an editor would pass it to a schema. The value of a tag is unknown, so it is left out.
fn to_json(node: &Node) -> Option<Value> {
    Some(match &node.kind {
        Kind::Null => Value::Null,
        Kind::Bool(value) => json!(value),
        Kind::Int(value) => json!(value),
        Kind::Float(value) => json!(value),
        Kind::OddNumber => json!(1),
        Kind::Str(text) => json!(text),
        Kind::Seq(items) => Value::Array(items.iter().filter_map(to_json).collect()),
        Kind::Map(entries) => {
            Value::Object(entries.iter().filter_map(|(k, v)| Some((k.text.clone(), to_json(v)?))).collect())
        }
        Kind::Tagged(..) | Kind::Broken => return None,
    })
}

/// `None` if the file is not YAML at all.
pub fn accepts(server: bool, text: &str) -> Option<bool> {
    let schema = if server { schema::server() } else { schema::repo() };
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let validator = jsonschema::draft7::new(&schema).unwrap();
    let mut sources = SourceMap::new();
    let file = sources.add("x", "x", text);
    let mut diagnostics = Diagnostics::new();
    let node = yaml::read(file, text, &mut diagnostics)?;
    let value = to_json(&node)?;
    // An empty file is an empty config, which the schema of an object cannot express.
    Some(value.is_null() || validator.is_valid(&value))
}

#[test]
fn every_example_is_accepted() {
    let mut seen = 0;
    for dir in fs::read_dir(root().join("examples")).unwrap().flatten() {
        let mut todo = vec![dir.path()];
        while let Some(path) = todo.pop() {
            if path.is_dir() {
                todo.extend(fs::read_dir(&path).unwrap().flatten().map(|e| e.path()));
                continue;
            }
            let server = match path.file_name().and_then(|n| n.to_str()) {
                Some("server.yaml") => true,
                Some("sandbox.yaml") => false,
                _ => continue,
            };
            seen += 1;
            assert_eq!(accepts(server, &fs::read_to_string(&path).unwrap()), Some(true), "{}", path.display());
        }
    }
    assert!(seen > 0);
}
