//! How many decisions `sandboxc test` makes in a second: the whole command with its files of tests, and the decisions alone.
//! The goal is 100 000 in a second.

#![allow(
    clippy::cast_precision_loss,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a bench fails by panicking"
)]

use std::fmt::Write as _;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use sandboxc::config::Expectations;

/// Tests in each file, which may have 1 MiB, and files.
const TESTS: u32 = 8_000;
const FILES: usize = 10;

/// Entries of the config: plain hosts, suffixes, named ports, and rules about requests.
const ENTRIES: u32 = 200;

/// Odd, for a median.
const RUNS: usize = 5;

fn main() {
    let dir = tempfile::tempdir().unwrap();
    let repo = dir.path().join("repo");
    fs::create_dir_all(repo.join(".sandboxc")).unwrap();
    fs::write(repo.join(".sandboxc/sandbox.yaml"), config()).unwrap();
    for number in 0..FILES {
        fs::write(repo.join(format!("{number}.yaml")), tests()).unwrap();
    }
    let all = f64::from(TESTS) * FILES as f64;
    let whole = median((0..RUNS).map(|_| command(&repo, dir.path())).collect());
    println!("sandboxc test, with its files: {:.0} decisions a second", all / whole);
    let alone = median((0..RUNS).map(|_| decisions(&repo, dir.path())).collect());
    println!("the decisions alone:           {:.0} decisions a second", all / alone);
}

fn config() -> String {
    let mut text = "version: 1\nnetwork:\n  allow:\n".to_owned();
    for n in 0..ENTRIES {
        let entry = match n % 4 {
            0 => format!("h{n}.example.com"),
            1 => format!(".s{n}.example.org"),
            2 => format!("d{n}.example.net:5432"),
            _ => format!("{{host: r{n}.example.com, methods: [GET, POST], paths: [\"/repos/*/issues\", \"/v1/**\"]}}"),
        };
        writeln!(text, "    - {entry}").unwrap();
    }
    text
}

/// Every kind of question, half of them denied.
fn tests() -> String {
    let mut text = String::new();
    for n in 0..TESTS {
        let (host, allowed) = (n % ENTRIES, n % 2 == 0);
        let (request, expect) = match (host % 4, allowed) {
            (0, _) => (format!("GET https://h{host}.example.com/x{n}"), "allow"),
            (1, _) => (format!("https://a.b{n}.s{host}.example.org/"), "allow"),
            (2, _) => (format!("d{host}.example.net:5432"), "allow"),
            (_, _) => (format!("DELETE https://r{host}.example.com/repos/x{n}/issues"), "deny"),
        };
        writeln!(text, "- {{request: \"{request}\", expect: {expect}}}").unwrap();
    }
    text
}

/// Seconds that the command takes.
fn command(repo: &Path, home: &Path) -> f64 {
    let begin = Instant::now();
    let output = Command::new(env!("CARGO_BIN_EXE_sandboxc"))
        .arg("test")
        .args(names())
        .current_dir(repo)
        .env_clear()
        .env("HOME", home)
        .output()
        .unwrap();
    let took = begin.elapsed().as_secs_f64();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(
        said,
        format!("{} passed, 0 failed\n", TESTS as usize * FILES),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    took
}

/// Seconds for the decisions alone.
fn decisions(repo: &Path, home: &Path) -> f64 {
    let inputs = sandboxc::config::Inputs {
        repo_dir: repo.canonicalize().unwrap(),
        server_file: None,
        name: None,
        home: Some(home.to_owned()),
        config_home: home.join(".config"),
        env: [].into(),
        frozen: None,
        conversation: None,
        repo_text: None,
        write_defaults: false,
    };
    let policy = sandboxc::config::load(&inputs).resolved.unwrap().policy;
    let tests: Vec<_> = names().iter().flat_map(|name| Expectations::read(&repo.join(name)).tests).collect();
    let begin = Instant::now();
    for test in &tests {
        let decision = test.question.decide(&policy).unwrap();
        assert_eq!(black_box(decision).verdict, test.expect);
    }
    begin.elapsed().as_secs_f64()
}

fn names() -> Vec<String> {
    (0..FILES).map(|number| format!("{number}.yaml")).collect()
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}
