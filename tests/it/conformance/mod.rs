//! What the corpus must be like, and what decides without a router. `tests/router/conformance.rs` sends its bytes to a real one.

#![allow(clippy::unwrap_used, clippy::panic)]

mod decide;
mod dns;
mod format;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use sandboxc::policy::Reason;

use crate::corpus::case::{Case, Step, Upstream};
use crate::corpus::{cases, root};

fn readme() -> String {
    fs::read_to_string(root().join("README.md")).unwrap()
}

/// The file as text.
fn source(case: &Case) -> String {
    fs::read_to_string(root().join(format!("{}.case", case.name))).unwrap()
}

#[test]
fn there_are_enough_and_every_group_is_described() {
    assert!(cases().len() >= 150, "{}", cases().len());
    let groups: BTreeSet<&str> = cases().iter().map(|case| case.name.split('/').next().unwrap()).collect();
    for group in groups {
        assert!(readme().contains(&format!("| `{group}/` |")), "the README does not know {group}");
    }
}

#[test]
fn every_denial_has_a_twin_that_is_allowed() {
    let verdict = |name: &str| cases().iter().find(|case| case.name == name).map(|case| case.expect.verdict.as_str());
    for case in cases() {
        match (case.expect.verdict.as_str(), &case.twin) {
            ("deny", Some(twin)) => assert_eq!(verdict(twin), Some("allow"), "{}'s twin {twin}", case.name),
            ("deny", None) => panic!("{} has no twin", case.name),
            ("allow", None) => {}
            other => panic!("{}: {other:?}", case.name),
        }
    }
}

#[test]
fn no_case_says_what_another_says() {
    let mut whys: BTreeMap<String, &str> = BTreeMap::new();
    for case in cases() {
        // What is sent to whom; why and what comes of it do not make a case another one.
        let text = source(case);
        let (_, sent) = text.split_once("== repo").unwrap();
        let (sent, _) = sent.split_once("== expect").unwrap();
        let twice = whys.insert(sent.to_owned() + &case.question.1, &case.name);
        assert_eq!(twice, None, "{} repeats it", case.name);
        assert!(case.why.ends_with(['.', '!']), "{}: `why` is a sentence", case.name);
    }
}

#[test]
fn expectations_are_consistent() {
    for case in cases() {
        let name = &case.name;
        let codes: BTreeSet<&str> = Reason::ALL.iter().map(|reason| reason.code()).collect();
        assert!(codes.contains(case.expect.reason.as_str()), "{name}: {}", case.expect.reason);
        assert_eq!(case.expect.verdict == "allow", case.expect.reason == "allowed", "{name}");
        // HTTP/2 resets a stream whose head is malformed before anybody knows what it asks for.
        let refused = case.expect.status == ["refused"];
        let silent = refused || case.expect.status == ["reset"];
        if case.is_dns() {
            // An address opens nothing by itself, and what is no query says no name: only names are refused in the log.
            let named = case.expect.verdict == "deny" && case.expect.reason != "bad-request";
            assert_eq!(!case.logs.is_empty(), named, "{name}: a line for each name that is refused");
            assert!(case.connect.port == 53 && case.expect.address.is_some(), "{name}");
            assert!(case.expect.verdict == "allow" || case.expect.address.as_deref() == Some("none"), "{name}");
            assert_eq!(case.expect.upstream, Upstream::Nothing, "{name}: nothing is asked outside");
            continue;
        }
        assert_eq!(case.logs.is_empty(), silent, "{name}: a line for each decision");
        assert!(refused || case.steps.iter().any(|step| matches!(step, Step::Send(_))), "{name} sends nothing");
        if case.expect.verdict == "allow" {
            assert!(case.expect.upstream != Upstream::Nothing, "{name}: what was allowed arrives");
        }
        let known = |from: &Case| from.twin.iter().all(|twin| twin != name);
        assert!(known(case), "{name} is its own twin");
    }
}

#[test]
fn the_readme_knows_every_reason_and_every_key() {
    let readme = readme();
    for reason in cases().iter().map(|case| case.expect.reason.as_str()).collect::<BTreeSet<_>>() {
        assert!(readme.contains(&format!("| `{reason}` |")), "{reason}");
    }
    let number = cases().len().to_string();
    assert!(readme.contains(&format!("{number} cases")), "the README counts them: {number}");
}

#[test]
fn rows_of_the_replays_name_their_cases() {
    // A row that the corpus claims to hold is a row of the table of replays.
    let table = fs::read_to_string(root().join("../REPLAYS.md")).unwrap();
    for case in cases() {
        for row in source(case).lines().filter_map(|line| line.strip_prefix("replay: ")).flat_map(str::split_whitespace)
        {
            assert!(table.contains(row), "{}: {row}", case.name);
        }
    }
}
