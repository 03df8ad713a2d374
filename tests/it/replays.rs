//! `tests/REPLAYS.md` says which test holds which public bug report; what it names must exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn texts(dir: &Path, into: &mut String) {
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            texts(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            into.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}

/// Every function of the code and its tests.
fn functions() -> BTreeSet<String> {
    let mut all = String::new();
    for dir in ["src", "tests"] {
        texts(&root().join(dir), &mut all);
    }
    let name = |rest: &str| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let rust = all.split("fn ").skip(1).map(name);
    let machine = fs::read_to_string(root().join("tests/host/machine")).unwrap();
    let shell = machine.lines().filter_map(|line| line.strip_suffix("() {")).map(str::to_owned);
    rust.chain(shell).collect()
}

/// The rows, with the section that each stands in.
fn rows(text: &str) -> Vec<(&str, &str)> {
    let mut section = "";
    let mut rows = Vec::new();
    for line in text.lines() {
        section = line.strip_prefix("## ").unwrap_or(section);
        if line.starts_with("| R-") {
            rows.push((section, line));
        }
    }
    rows
}

/// What a row puts in backticks: names of tests, of which the beginning may do; everything else is a file or a word.
fn named(row: &str) -> impl Iterator<Item = &str> {
    let quoted = row.split('`').skip(1).step_by(2);
    quoted.filter(|word| {
        let plain = word.trim_end_matches('…');
        plain.contains('_') && plain.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    })
}

#[test]
fn every_test_that_a_row_names_exists() {
    let (text, functions) = (fs::read_to_string(root().join("tests/REPLAYS.md")).unwrap(), functions());
    let rows = rows(&text);
    assert!(rows.len() > 60, "{}", rows.len());
    for (_, row) in &rows {
        for name in named(row) {
            let found = match name.strip_suffix('…') {
                Some(start) => functions.iter().any(|function| function.starts_with(start)),
                None => functions.contains(name),
            };
            assert!(found, "no test `{name}`: {row}");
        }
    }
}

#[test]
fn every_row_of_compiler_runner_and_host_names_a_test() {
    let text = fs::read_to_string(root().join("tests/REPLAYS.md")).unwrap();
    for (section, row) in rows(&text) {
        if ["Config and compile", "Runner and podman", "The host's safety"].contains(&section) {
            assert!(named(row).next().is_some(), "{section}: no test is named: {row}");
        }
    }
}

/// A test that is named after a row is found from the row.
#[test]
fn every_row_that_a_test_is_named_after_is_listed() {
    let text = fs::read_to_string(root().join("tests/REPLAYS.md")).unwrap();
    for function in functions() {
        let words: Vec<&str> = function.split('_').collect();
        for pair in words.windows(2).filter(|pair| pair[0] == "r") {
            let listed = pair[1].parse::<u16>().is_err() || text.contains(&format!("R-{}", pair[1]));
            assert!(listed, "{function} is named after a row that the list does not have");
        }
    }
}
