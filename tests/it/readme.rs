//! The README stays true: its config compiles, its table means what it says, its shown errors are the real ones.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use sandboxc::config::{Inputs, Loaded, load};
use sandboxc::policy::Verdict;

fn readme() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap()
}

/// The fenced blocks of a language.
fn blocks(language: &str) -> Vec<String> {
    let text = readme();
    let fence = format!("```{language}\n");
    text.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

fn load_text(yaml: &str) -> Loaded {
    let dir = tempfile::tempdir().unwrap();
    let repo = dir.path().join("repo");
    fs::create_dir_all(repo.join(".sandboxc")).unwrap();
    fs::write(repo.join(".sandboxc/sandbox.yaml"), yaml).unwrap();
    load(&Inputs {
        repo_dir: repo.canonicalize().unwrap(),
        server_file: None,
        name: None,
        home: Some("/home/me".into()),
        config_home: dir.path().join("config"),
        env: BTreeMap::new(),
        write_defaults: false,
    })
}

#[test]
fn the_shown_config_is_that_of_the_minimal_example() {
    let yaml = blocks("yaml").remove(0);
    assert!(load_text(&yaml).resolved.is_some());
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/minimal/repo/.sandboxc/sandbox.yaml");
    let example = fs::read_to_string(example).unwrap();
    let without_comment: Vec<&str> = example.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(yaml.trim_end(), without_comment.join("\n"));
}

#[test]
fn the_shown_rules_and_credentials_are_those_of_the_inspecting_example() {
    for file in ["repo/.sandboxc/sandbox.yaml", "server.yaml"] {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/inspect").join(file);
        let example = fs::read_to_string(example).unwrap();
        let without_comment: Vec<&str> = example.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(blocks("yaml").contains(&(without_comment.join("\n") + "\n")), "{file}");
    }
}

#[test]
fn what_explain_says_of_the_inspecting_example_is_what_is_shown() {
    let shown = blocks("console").into_iter().find_map(|block| {
        let (command, text) = block.split_once('\n')?;
        Some((command.strip_prefix("$ sandboxc explain --method ")?.to_owned(), text.to_owned()))
    });
    let (arguments, text) = shown.expect("an explanation");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/inspect");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_sandboxc"))
        .args(["explain", "--name", "inspect", "--repo"])
        .arg(example.join("repo"))
        .arg("--server")
        .arg(example.join("server.yaml"))
        .arg("--method")
        .args(arguments.split(' '))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), text);
}

#[test]
fn the_table_of_entries_means_what_it_says() {
    let entries: Vec<String> = readme()
        .lines()
        .filter(|line| line.starts_with("| `") && line.contains("example.com") || line.contains("| `{host:"))
        .map(|line| line.split('`').nth(1).unwrap().to_owned())
        .collect();
    assert_eq!(entries.len(), 7, "{entries:?}");
    let decide = |entry: &str, host: &str, port: u16| {
        let loaded = load_text(&format!("version: 1\nnetwork:\n  allow:\n    - {entry}\n"));
        let errors = loaded.diagnostics.text(&loaded.sources, false);
        loaded.resolved.unwrap_or_else(|| panic!("{errors}")).policy.decide(host, port).verdict == Verdict::Allow
    };
    let cases = [
        (0, "api.example.com", 443, true),
        (0, "a.api.example.com", 443, false),
        (1, "example.com", 80, true),
        (1, "a.b.example.com", 443, true),
        (2, "example.com", 443, false),
        (2, "a.example.com", 443, true),
        (3, "db.example.com", 5432, true),
        (3, "db.example.com", 443, true),
        (4, "10.0.0.5", 5432, true),
        (4, "10.0.0.5", 443, false),
        (5, "wiki.corp.example.com", 443, true),
        (6, "any.thing.net", 443, true),
    ];
    for (index, host, port, allowed) in cases {
        assert_eq!(decide(&entries[index], host, port), allowed, "{} {host}:{port}", entries[index]);
    }
}

#[test]
fn the_shown_error_is_the_real_one() {
    let shown =
        blocks("console").into_iter().find_map(|block| block.strip_prefix("$ sandboxc validate\n").map(str::to_owned));
    let loaded = load_text("version: 1\nnetwork:\n  allow_hosst: [api.example.com]\n");
    let text = loaded.diagnostics.text(&loaded.sources, false);
    let path = text.split("--> ").nth(1).unwrap().split(".sandboxc").next().unwrap().to_owned();
    assert_eq!(text.replace(&path, ""), shown.unwrap().trim_end());
}
