//! The decisions of the corpus, asked of the library and of `sandboxc explain`.

use std::process::Command;

use sandboxc::policy::{Decision, GraphqlKind, HostName, HttpRequest, Policy, Verdict};
use serde_json::Value;

use crate::corpus::by_config;
use crate::corpus::case::Case;
use crate::corpus::log::shown;
use crate::corpus::text::{Secrets, Text};

/// What only the router sees: bytes, bodies, certificates, addresses, other requests of the same connection.
const BEYOND: [&str; 18] = [
    "bad-host",
    "not-tls",
    "bad-request",
    "misdirected",
    "address-refused",
    "no-address",
    "upstream-failed",
    "upstream-untrusted",
    "upgrade-not-allowed",
    "bad-body",
    "body-too-large",
    "graphql-not-allowed",
    "leak",
    "foreign-credential",
    "duplicate-credential",
    "repository-not-allowed",
    "unsupported-signature",
    "credential-unavailable",
];

/// What follows `#` in a URL is no part of a request.
const NOT_IN_URLS: &str = "paths/fragment";

/// Host, port, and path and query of a question; no path where only the connection is meant.
fn target(text: &str) -> (String, u16, Option<String>) {
    // As `explain` reads what a person types; names on the wire are the router's to judge.
    let plain = |host: &str, port: u16| match host.rsplit_once(':').filter(|(host, _)| !host.ends_with(']')) {
        Some((host, port)) if !host.contains(':') => (host.to_owned(), port.parse().unwrap()),
        _ => (host.to_owned(), port),
    };
    let (rest, port) = match text.split_once("://") {
        Some(("https", rest)) => (rest, 443),
        Some(("http", rest)) => (rest, 80),
        _ => {
            let (host, port) = plain(text, 443);
            return (host, port, None);
        }
    };
    let (authority, path) = rest.split_at(rest.find('/').expect("a path"));
    let (host, port) = plain(authority, port);
    (host, port, Some(path.to_owned()))
}

fn asked(case: &Case) -> (String, String) {
    let target = Text::read(&case.question.1).unwrap().fill(&Secrets::default());
    // What is no UTF-8 is no argument of a command either.
    (case.question.0.clone(), String::from_utf8(target).unwrap_or_else(|_| case.question.1.clone()))
}

fn decide(policy: &Policy, case: &Case) -> Decision {
    let (method, question) = asked(case);
    let (host, port, path) = target(&question);
    match (HostName::typed(&host), port, path) {
        (host, port, None) => policy.decide(&host, port),
        (host, port, Some(path)) => policy.decide_request(&host, port, &HttpRequest { method: &method, target: &path }),
    }
}

/// What a decision is other than the corpus says.
fn differs(case: &Case, decision: &Decision) -> Option<String> {
    let name = &case.name;
    let verdict = if decision.verdict == Verdict::Allow { "allow" } else { "deny" };
    let rule = decision.rule.as_ref().map_or("none", |rule| rule.as_str());
    let got = [("verdict", verdict), ("reason", decision.reason.code()), ("rule", rule)];
    let other = got.iter().find(|(key, value)| case.answered(key).is_some_and(|said| said != *value));
    let (router, answered) = (case.expect.reason.as_str(), case.answered("reason")?);
    // What is sent and what is asked are one thing, but for what a question cannot say.
    let beyond = BEYOND.contains(&router) || case.graphql.is_some() || *name == NOT_IN_URLS;
    let same = router == answered || beyond;
    match other {
        Some((key, value)) => Some(format!("{name}: {key} is {value}")),
        None => (!same).then(|| format!("{name}: the router says {router}, `explain` {answered}")),
    }
}

fn none(failures: &[String]) {
    assert!(failures.is_empty(), "{} differ\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn the_library_decides_as_the_corpus_says() {
    let mut failures = Vec::new();
    for (_, resolved, cases) in by_config(|_| true) {
        failures.extend(cases.iter().filter_map(|case| differs(case, &decide(&resolved.policy, case))));
    }
    none(&failures);
}

#[test]
fn bodies_are_decided_as_the_corpus_says() {
    let mut seen = 0;
    for (_, resolved, cases) in by_config(|_| true) {
        for case in cases {
            let Some((kind, fields)) = &case.graphql else { continue };
            let (method, question) = asked(case);
            let (host, port, path) = target(&question);
            let kind = match kind.as_str() {
                "query" => GraphqlKind::Query,
                "mutation" => GraphqlKind::Mutation,
                "subscription" => GraphqlKind::Subscription,
                other => panic!("{}: {other}", case.name),
            };
            let request = HttpRequest { method: &method, target: path.as_deref().unwrap() };
            let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
            let decision = resolved.policy.decide_graphql(&host, port, &request, kind, &fields);
            assert_eq!(decision.reason.code(), case.expect.reason, "{}: {decision:?}", case.name);
            seen += 1;
        }
    }
    assert!(seen > 20, "{seen}");
}

#[test]
fn explain_answers_as_the_corpus_says() {
    let mut failures = Vec::new();
    for (world, _, cases) in by_config(|_| true) {
        for case in cases {
            let (method, question) = asked(case);
            let output = Command::new(env!("CARGO_BIN_EXE_sandboxc"))
                .args(["explain", "--json", "--method", &method, "--repo"])
                .arg(&world.inputs.repo_dir)
                .arg(&question)
                .env_clear()
                .env("HOME", world.root().join("h"))
                .env("XDG_CONFIG_HOME", &world.inputs.config_home)
                .output()
                .unwrap();
            let name = &case.name;
            let text = String::from_utf8_lossy(&output.stdout);
            let errors = String::from_utf8_lossy(&output.stderr);
            if output.status.code() != Some(case.answer.0) {
                failures.push(format!("{name}: {}: {text}{errors}", output.status));
                continue;
            }
            let answer: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{name}: {e}: {text}{errors}"));
            let differs = case.answer.1.iter().filter(|(key, expected)| shown(&answer[key.as_str()]) != *expected);
            failures.extend(differs.map(|(key, _)| format!("{name}: {key} in {text}")));
        }
    }
    none(&failures);
}
