//! README and docs stay true: their configs are valid, their tables are correct, and shown errors are the real ones.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use sandboxc::config::{Inputs, Loaded, load};
use sandboxc::policy::Verdict;

fn read(page: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(page)).unwrap()
}

/// The fenced blocks of a language on a page.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    read(page).split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

fn load_text(yaml: &str) -> Loaded {
    load_files(yaml, "version: 1\n")
}

fn load_files(yaml: &str, server: &str) -> Loaded {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("config/sandboxc")).unwrap();
    fs::write(dir.path().join("config/sandboxc/server.yaml"), server).unwrap();
    let repo = dir.path().join("repo");
    fs::create_dir_all(repo.join(".sandboxc")).unwrap();
    fs::write(repo.join(".sandboxc/sandbox.yaml"), yaml).unwrap();
    fs::write(repo.join(".sandboxc/Containerfile"), "FROM docker.io/library/debian:trixie-slim\n").unwrap();
    load(&Inputs {
        repo_dir: repo.canonicalize().unwrap(),
        server_file: None,
        name: None,
        home: Some("/home/me".into()),
        config_home: dir.path().join("config"),
        env: BTreeMap::new(),
        frozen: None,
        conversation: None,
        repo_text: None,
        write_defaults: false,
    })
}

#[test]
fn the_shown_config_is_that_of_the_minimal_example() {
    let yaml = blocks("README.md", "yaml").remove(0);
    assert_eq!(blocks("docs/quick-start.md", "yaml")[0], yaml);
    assert!(load_text(&yaml).resolved.is_some());
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/minimal/repo/.sandboxc/sandbox.yaml");
    let example = fs::read_to_string(example).unwrap();
    let without_comment: Vec<&str> = example.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(yaml.trim_end(), without_comment.join("\n"));
}

#[test]
fn the_shown_rules_and_credentials_are_those_of_the_inspecting_example() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/inspect/server.yaml");
    let example = fs::read_to_string(example).unwrap();
    let without_comment: Vec<&str> = example.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(blocks("docs/secrets.md", "yaml").contains(&(without_comment.join("\n") + "\n")));
}

/// Every config on every page. One with keys of the server file is read as a server file.
#[test]
fn every_shown_config_is_valid() {
    let mut pages = vec!["README.md".to_owned()];
    for dir in ["docs", "docs/guides"] {
        let entries = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(dir)).unwrap().flatten();
        let files = entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "md"));
        pages.extend(files.map(|path| format!("{dir}/{}", path.file_name().unwrap().to_str().unwrap())));
    }
    let mut shown = 0;
    for page in pages {
        for yaml in blocks(&page, "yaml").iter().filter(|yaml| yaml.starts_with("version: 1")) {
            let server = ["\nrepos:", "\ndefaults:", "\n  ceiling:"].iter().any(|key| yaml.contains(key));
            let loaded = if server { load_files("version: 1\n", yaml) } else { load_text(yaml) };
            assert!(!loaded.diagnostics.has_errors(), "{page}:\n{}", loaded.diagnostics.text(&loaded.sources, false));
            shown += 1;
        }
    }
    assert!(shown >= 8, "{shown}");
}

#[test]
fn what_explain_says_of_the_minimal_example_is_what_is_shown() {
    let shown = blocks("README.md", "console").remove(0);
    let (_, shown) = shown.split_once("$ sandboxc explain https://denied.example.com/\n").expect("an explanation");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/minimal");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_sandboxc"))
        .args(["explain", "https://denied.example.com/", "--repo"])
        .arg(example.join("repo"))
        .arg("--server")
        .arg(example.join("server.yaml"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), shown);
}

#[test]
fn the_table_of_entries_means_what_it_says() {
    let entries: Vec<String> = read("docs/rules.md")
        .lines()
        .filter(|line| line.starts_with("| `") && line.contains("example.com") || line.contains("| `{host:"))
        .map(|line| line.split('`').nth(1).unwrap().to_owned())
        .collect();
    assert_eq!(entries.len(), 9, "{entries:?}");
    let decide = |entry: &str, host: &str, port: u16| {
        let server = "version: 1\ndefaults: {allow_private: [10.0.0.5, wiki.corp.example.com]}\n";
        let loaded = load_files(&format!("version: 1\nnetwork:\n  allow:\n    - {entry}\n"), server);
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
        (3, "api.example.com", 443, true),
        (3, "api.example.com", 80, false),
        (4, "db.example.com", 5432, true),
        (4, "db.example.com", 443, true),
        (5, "db.example.com", 5432, true),
        (5, "db.example.com", 443, false),
        (6, "10.0.0.5", 5432, true),
        (6, "10.0.0.5", 443, false),
        (7, "wiki.corp.example.com", 443, true),
        (8, "any.thing.net", 443, true),
    ];
    for (index, host, port, allowed) in cases {
        assert_eq!(decide(&entries[index], host, port), allowed, "{} {host}:{port}", entries[index]);
    }
}

#[test]
fn the_shown_error_is_the_real_one() {
    let shown = blocks("README.md", "console")
        .into_iter()
        .find_map(|block| block.strip_prefix("$ sandboxc validate\n").map(str::to_owned));
    let loaded = load_text("version: 1\nnetwork:\n  allow_hosst: [api.example.com]\n");
    let text = loaded.diagnostics.text(&loaded.sources, false);
    let path = text.split("--> ").nth(1).unwrap().split(".sandboxc").next().unwrap().to_owned();
    assert_eq!(text.replace(&path, ""), shown.unwrap().trim_end());
}
