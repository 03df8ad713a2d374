//! Every document that `--json` prints is what its schema describes.

use std::fs;

use serde_json::Value;

use crate::harness::{Sandbox, code, text};

/// The document, which its schema must accept, and whose version it must have.
fn document(sandbox: &Sandbox, schema: &str, args: &[&str], expected: i32) -> Value {
    let output = sandbox.command(args).output().unwrap();
    assert_eq!(code(&output), expected, "{args:?}: {}", text(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{args:?}: {error}: {}", text(&output.stdout)));
    check(schema, &document);
    document
}

pub fn check(name: &str, document: &Value) {
    let path = format!("{}/schema/{name}.schema.json", env!("CARGO_MANIFEST_DIR"));
    let schema: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let validator = jsonschema::draft7::new(&schema).unwrap();
    let errors: Vec<String> = validator.iter_errors(document).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{name}: {errors:?}: {document}");
    assert_eq!(document["version"], 1, "{name}: {document}");
    let mut without = document.clone();
    without.as_object_mut().unwrap().remove("version");
    assert!(!validator.is_valid(&without), "{name}: the schema must demand the version");
}

#[test]
fn every_document_has_a_version_and_is_what_its_schema_describes() {
    let sandbox = Sandbox::new();
    let live = sandbox.start(&[]);
    let session = live.session.clone();
    let sessions = document(&sandbox, "ps", &["ps", "--json"], 0);
    assert!(
        sessions["sessions"].as_array().unwrap().iter().any(|one| one["session"] == session.as_str()),
        "{sessions}"
    );
    document(&sandbox, "gc", &["gc", "--json", "--dry-run"], 0);
    let valid = document(&sandbox, "validate", &["validate", "--json"], 0);
    assert_eq!((&valid["valid"], valid["findings"].as_array().unwrap().len()), (&Value::Bool(true), 0), "{valid}");
    document(&sandbox, "explain", &["explain", "--json", "https://denied.example.com"], 1);
    document(&sandbox, "explain", &["explain", "--json", "https://api.example.com"], 0);
    let doctor = sandbox.command(&["doctor", "--json"]).output().unwrap();
    check("doctor", &serde_json::from_slice(&doctor.stdout).unwrap());
    let out = sandbox.scratch("out");
    for target in ["kube", "script", "quadlet"] {
        let args = ["compile", "--json", "--target", target, "-o", out.to_str().unwrap(), "--", "true"];
        let compiled = document(&sandbox, "compile", &args, 0);
        for file in compiled["files"].as_array().unwrap() {
            assert!(out.join(file.as_str().unwrap()).is_file(), "{file}");
        }
        assert_eq!(compiled["unit"].is_string(), target == "quadlet", "{compiled}");
        fs::remove_dir_all(&out).unwrap();
    }
    let output = sandbox.command(&["compile", "--json", "--", "true"]).output().unwrap();
    assert_eq!(code(&output), 2, "stdout has the manifest: {}", text(&output.stderr));
    let logs = sandbox.command(&["logs", "--json", &session]).output().unwrap();
    let lines: Vec<Value> = text(&logs.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().any(|line| line["line"] == "router: ready"), "{lines:?}");
    for line in &lines {
        check("logs", line);
    }
    let stopped = document(&sandbox, "stop", &["stop", "--json", &session], 0);
    assert_eq!(stopped["left"].as_array().unwrap().len(), 0, "{stopped}");
    fs::write(sandbox.repo().join(".sandboxc/sandbox.yaml"), "version: 1\nnetwork: {allow: [1]}\n").unwrap();
    let invalid = document(&sandbox, "validate", &["validate", "--json"], 2);
    assert_eq!(
        (&invalid["valid"], &invalid["findings"][0]["severity"]),
        (&Value::Bool(false), &"error".into()),
        "{invalid}"
    );
}
