//! `decide_request` against the running router: random requests over real connections, and the response and log line of each.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use sandboxc::policy::{HostName, HttpRequest, Policy, Reason, Verdict};

use super::inspected::{request, with_requests};
use super::secure::Secure;
use super::wire::Wire;
use super::world::World;
use crate::fixture::rules;

const SEED: [u8; 32] = *b"sandboxc: decide equals router 2";
const REQUESTS: usize = 10_000;
const PLAIN_REQUESTS: usize = 1500;
const CLIENTS: usize = 4;

const HOSTS: [&str; 6] = [
    "api.secure.test",
    "open.secure.test",
    "capped.secure.test",
    "any.secure.test",
    "one.any.secure.test",
    "none.secure.test",
];

fn policy() -> Policy {
    let allow = [
        ("api.secure.test", Some(request("GET", "/repos/*/issues /a%2fb/** /@x/*.tgz /~a/**/z"))),
        ("api.secure.test", Some(request("POST PUT", "/repos/** /a/*/b"))),
        ("api.secure.test", Some(request("*", "/a;b /x+y:z /%25/*"))),
        ("open.secure.test", Some(request("*", "/**"))),
        ("capped.secure.test", Some(request("GET POST", "/**"))),
        (".any.secure.test", Some(request("GET DELETE", "/a* /repos/**"))),
        ("none.secure.test", Some(request("X-ODD", "/never"))),
    ];
    let ceiling = [
        ("*.secure.test", None),
        (".any.secure.test", None),
        ("capped.secure.test", Some(request("GET", "/repos/** /a/**"))),
        ("capped.secure.test", Some(request("*", "/x/*"))),
    ];
    Policy {
        allow: with_requests("repo.allow", &allow),
        deny: rules("server.deny", &["denied.any.secure.test"]),
        ceiling: Some(with_requests("server.ceiling", &ceiling)),
        reachable: vec!["203.0.113.0/24".parse().unwrap()],
        credentials: Vec::new(),
    }
}

/// A request, by the name in the handshake and the header.
#[derive(Clone, Debug)]
struct Call {
    host: &'static str,
    header: String,
    method: &'static str,
    target: String,
    extra: &'static str,
}

fn calls(count: usize) -> Vec<Call> {
    let piece = prop_oneof![
        12 => select(vec!["/", "/", "/", "a", "b", "x", "z", "repos", "issues", "/repos/", "/issues", ".tgz", "@x", "~a"]),
        4 => select(vec!["%61", "%2f", "%2F", "%40", "%7E", "%7e", "%72epos", "%25", "+y", ":", ";b", "*", "x.y", "..x", "%c3%a9", "%3A"]),
        1 => select(vec![
            "..", ".", "%2e", "%2E%2e", "/../", "/..;/", "%3b", "//", "\\", "%5c", "%00", "%1f", "%7f", "%252e", "%25%36%31", "%zz", "%", "#",
            "\u{e9}", "%2f..%2f", "%c0%ae", "|", "\"", "'", "{}", "^", "`",
        ]),
    ];
    let known = select(vec![
        "/repos/x/issues",
        "/a%2Fb/c/d",
        "/@x/y.tgz",
        "/~a/b/c/z",
        "/a/q/b",
        "/a;b",
        "/x+y:z",
        "/%25/x",
        "/x/y",
        "/repos/a/b",
        "/never",
        "/abc",
    ]);
    let query = select(vec!["", "", "", "?", "?q=1", "?../..", "?a=%00&b=//", "?/repos/x/issues"]);
    let path = prop_oneof![
        3 => proptest::collection::vec(piece.clone(), 0..7).prop_map(|pieces| format!("/{}", pieces.concat())),
        1 => (known.clone(), piece).prop_map(|(known, piece)| format!("{known}{piece}")),
        1 => known.prop_map(str::to_owned),
    ];
    let method =
        select(vec!["GET", "GET", "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "X-ODD", "GETX", "M_X"]);
    let extra = select(vec![
        "",
        "",
        "X-Forwarded-Host: open.secure.test\r\n",
        "X-Original-URL: /repos/x/issues\r\nX-Rewrite-URL: /never\r\n",
        "X-HTTP-Method-Override: GET\r\n",
        "Content-Length: 0\r\n",
        "Cookie: a=\"b\\\"\r\nUser-Agent: {\"verdict\":\"allow\"}\r\n",
    ]);
    let header = select(vec!["same", "same", "same", "same", "same", "same", "upper", "dot", "port", "other", "none"]);
    let call = (select(&HOSTS[..]), header, method, path, query, extra).prop_map(
        |(host, header, method, path, query, extra)| Call {
            host,
            header: match header {
                "upper" => host.to_uppercase(),
                "dot" => format!("{host}."),
                "port" => format!("{host}:443"),
                "other" => "other.secure.test".to_owned(),
                "none" => format!("x_{host}"),
                _ => host.to_owned(),
            },
            method,
            target: path + query,
            extra,
        },
    );
    let mut runner = TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &SEED));
    (0..count).map(|_| call.new_tree(&mut runner).unwrap().current()).collect()
}

/// What a log line and an answer say of one request, by these fields.
const FIELDS: [&str; 6] = ["host", "method", "path", "verdict", "reason", "rule"];
type Outcome = [String; 6];

/// What must come of it, given the status that came.
fn expected(policy: &Policy, call: &Call, port: u16, status: &str) -> (Outcome, String) {
    let decision = policy.decide_request(call.host, port, &HttpRequest { method: call.method, target: &call.target });
    let header = HostName::from_wire(call.header.trim_end_matches(":443"));
    let mut rule = decision.rule.map(|rule| rule.to_string()).unwrap_or_default();
    let mut reason = decision.reason;
    let mut want = if decision.verdict == Verdict::Allow { "200" } else { "403" };
    let mut host = header.map_or_else(|| call.header.clone(), |name| name.to_string());
    if status == "400" {
        // Some of these paths are refused before a Host is read; only on 443 is there a name by then.
        assert_eq!(reason, Reason::BadPath, "{call:?}");
        want = "400";
        host = if port == 443 { call.host.to_owned() } else { String::new() };
        reason = if port == 443 { reason } else { Reason::BadRequest };
    } else if host != call.host {
        (want, reason, rule) = ("421", Reason::Misdirected, String::new());
    }
    let verdict = if want == "200" { "allow" } else { "deny" };
    // The log has what is printable of the path.
    let path: String = call.target.chars().take_while(|c| matches!(c, '!'..='~') && *c != '?').collect();
    let line = [host, call.method.to_owned(), path, verdict.to_owned(), reason.code().to_owned(), rule];
    (line, want.to_owned())
}

fn said(call: &Call, answer: &str, line: &Outcome) {
    if call.method == "HEAD" || line[3] == "allow" {
        return;
    }
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let body: serde_json::Value = serde_json::from_str(body).unwrap_or_else(|e| panic!("{e}: {call:?}: {answer}"));
    assert_eq!(body["reason"], line[4], "{call:?}: {answer}");
    assert_eq!(body["rule"].as_str().unwrap_or_default(), line[5], "{call:?}: {answer}");
}

fn text(call: &Call) -> String {
    format!("{} {} HTTP/1.1\r\nHost: {}\r\n{}\r\n", call.method, call.target, call.header, call.extra)
}

/// Asks one after the other on connections that are kept, and returns the lines that the log must have.
fn ask(world: &World, calls: &[Call]) -> Vec<Outcome> {
    let mut kept: BTreeMap<&str, Secure> = BTreeMap::new();
    let mut lines = Vec::new();
    for call in calls {
        let mut secure = kept.remove(call.host).unwrap_or_else(|| Secure::to(world, call.host));
        let answer = secure.send(text(call)).answer_to(call.method);
        let status = answer.get(9..12).unwrap_or_default();
        let (line, want) = expected(&world.policy, call, 443, status);
        assert_eq!(status, want, "{call:?}: {answer}");
        said(call, &answer, &line);
        if !answer.contains("\r\nConnection: close\r\n") {
            kept.insert(call.host, secure);
        }
        lines.push(line);
    }
    lines
}

fn logged(world: &World, from: usize, count: usize) -> Vec<Outcome> {
    world.wait("all lines", || world.decisions().len() >= from + count);
    let field = |line: &serde_json::Value, name: &str| line[name].as_str().unwrap().to_owned();
    let lines = world.decisions().split_off(from);
    let line = |line| FIELDS.map(|name| field(line, name));
    let mut all: Vec<Outcome> = lines.iter().map(line).collect();
    all.sort();
    all
}

#[test]
fn every_request_is_decided_as_decide_request_says() {
    let world = World::start(policy());
    let started = std::time::Instant::now();
    let calls = calls(REQUESTS);
    let parts: Vec<&[Call]> = calls.chunks(REQUESTS.div_ceil(CLIENTS)).collect();
    let mut lines: Vec<Outcome> = std::thread::scope(|scope| {
        let clients: Vec<_> = parts.into_iter().map(|part| scope.spawn(|| ask(&world, part))).collect();
        clients.into_iter().flat_map(|client| client.join().unwrap_or_else(|e| std::panic::resume_unwind(e))).collect()
    });
    lines.sort();
    let logged = logged(&world, 0, REQUESTS);
    for (want, got) in lines.iter().zip(&logged) {
        assert_eq!(want, got, "the log's line against what was decided");
    }
    assert_eq!(lines.len(), logged.len());
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for line in &lines {
        *reasons.entry(&line[4]).or_default() += 1;
    }
    println!("{REQUESTS} requests in {:?}: {reasons:?}", started.elapsed());
    for reason in ["allowed", "bad-path", "path-not-allowed", "method-not-allowed", "above-ceiling", "misdirected"] {
        assert!(reasons.get(reason) > Some(&(REQUESTS / 100)), "{reason} is too rare: {reasons:?}");
    }
}

#[test]
fn port_80_decides_alike() {
    let world = World::start(policy());
    let mut lines = Vec::new();
    for call in &mut calls(PLAIN_REQUESTS) {
        call.header = call.host.to_owned();
        let mut wire = Wire::to_router(&world, 80);
        let answer = wire.send(text(call).as_bytes()).end().rest().unwrap();
        let answer = String::from_utf8_lossy(&answer);
        let (line, want) = expected(&world.policy, call, 80, answer.get(9..12).unwrap_or_default());
        assert_eq!(answer.get(9..12), Some(want.as_str()), "{call:?}: {answer}");
        said(call, &answer, &line);
        lines.push(line);
    }
    lines.sort();
    assert_eq!(lines, logged(&world, 0, PLAIN_REQUESTS));
}
