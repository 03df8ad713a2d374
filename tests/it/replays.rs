//! `tests/REPLAYS.md` says which tests replay which public bug report. What it names must exist, and what is marked
//! `// R-13` must be listed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::tidy::{root, sources};

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

fn list() -> String {
    fs::read_to_string(root().join("tests/REPLAYS.md")).unwrap()
}

/// The words in backticks.
fn quoted(row: &str) -> impl Iterator<Item = &str> {
    row.split('`').skip(1).step_by(2)
}

fn is_path(word: &str) -> bool {
    word.starts_with("src/") || word.starts_with("tests/")
}

fn is_test(word: &str) -> bool {
    word.contains('_') && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

/// The files of a module: its own, and its tests'.
fn files(module: &str) -> Vec<PathBuf> {
    let names = [module.to_owned(), format!("{module}.rs"), format!("{module}/mod.rs"), format!("{module}/tests.rs")];
    names.iter().map(|name| root().join(name)).filter(|path| path.is_file()).collect()
}

/// The functions of a file, Rust or shell.
fn functions(path: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(path).unwrap();
    let name = |rest: &str| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let rust = text.split("fn ").skip(1).map(name);
    let shell = text.lines().filter_map(|line| line.strip_suffix("() {")).map(str::to_owned);
    rust.chain(shell).collect()
}

/// What is wrong with the names of a row.
fn missing(row: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let mut last = None;
    for word in quoted(row) {
        if is_path(word) {
            if files(word).is_empty() && !root().join(word).is_dir() {
                problems.push(format!("no module `{word}`"));
            }
            last = Some(word);
        } else if is_test(word) {
            let found = last.is_some_and(|module| files(module).iter().any(|path| functions(path).contains(word)));
            if !found {
                problems.push(format!("no test `{word}` in `{}`", last.unwrap_or_default()));
            }
        }
    }
    problems
}

#[test]
fn every_test_that_a_row_names_exists_in_the_file_that_it_names() {
    let text = list();
    let rows = rows(&text);
    assert!(rows.len() > 60, "{}", rows.len());
    let problems: Vec<String> = rows
        .iter()
        .flat_map(|(_, row)| missing(row).into_iter().map(move |problem| format!("{problem}: {row}")))
        .collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    // The check can fail.
    let wrong = "| R-01 | x | `tests/it/replays`: `no_such_test`; `tests/it/no_such_file`: `no_test_either` |";
    assert_eq!(missing(wrong).len(), 3);
}

#[test]
fn every_row_of_compiler_runner_and_host_names_a_test() {
    let text = list();
    for (section, row) in rows(&text) {
        if ["Config and compile", "Runner and podman", "The host's safety"].contains(&section) {
            assert!(quoted(row).any(is_test), "{section}: no test is named: {row}");
        }
    }
}

/// The tests of a file that a comment marks with rows: `// R-13, R-14`, then the test.
fn marked(text: &str) -> Vec<(String, Vec<String>)> {
    let mut all = Vec::new();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    for (index, line) in lines.iter().enumerate() {
        let Some(ids) = line.strip_prefix("// ").or(line.strip_prefix("# ")) else { continue };
        let ids: Vec<String> = ids.split(", ").map(str::to_owned).collect();
        if ids.iter().all(|id| id.strip_prefix("R-").is_some_and(|number| number.parse::<u16>().is_ok())) {
            let after = lines[index + 1..].iter().find(|line| !line.starts_with(['#', '/'])).unwrap();
            let name = after.trim_start_matches("fn ").split('(').next().unwrap();
            all.push((name.to_owned(), ids));
        }
    }
    all
}

#[test]
fn every_test_that_is_marked_with_a_row_is_listed_there() {
    let text = list();
    let rows = rows(&text);
    let mut count = 0;
    let rust = ["src", "tests"].into_iter().flat_map(|dir| sources(&root().join(dir)));
    for path in rust.chain([root().join("tests/host/machine")]) {
        for (name, ids) in marked(&fs::read_to_string(&path).unwrap()) {
            for id in ids {
                count += 1;
                let is_it = |row: &str| row.split('|').nth(1).unwrap().split(',').any(|own| own.trim() == id);
                let row = rows.iter().find(|(_, row)| is_it(row));
                let listed = row.is_some_and(|(_, row)| quoted(row).any(|word| word == name));
                assert!(listed, "{}: `{name}` is marked {id}, whose row does not name it", path.display());
            }
        }
    }
    assert!(count > 90, "{count} marks");
}

/// A number alone does not say what a test shows.
#[test]
fn no_test_is_named_after_a_number() {
    for path in ["src", "tests"].into_iter().flat_map(|dir| sources(&root().join(dir))) {
        for name in functions(&path) {
            let numbered = name.strip_prefix("r_").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
            assert!(!numbered, "{}: {name}; write the number in a comment, `// R-13`", path.display());
        }
    }
}
