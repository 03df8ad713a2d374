//! Decrypted connections on port 443: hosts, methods, paths, and refusals.

use std::collections::BTreeSet;

use sandboxc::policy::{PathGlob, Policy, RequestRule, Rule, RuleSet, Upgrade};

use super::secure::{Secure, https};
use super::wire::{get, http, json, statuses};
use super::world::World;
use crate::fixture::rules;

/// What an entry says about requests: methods, then paths, each separated by spaces; `*` is all.
pub fn request(methods: &str, paths: &str) -> RequestRule {
    let words = |text: &str| (text != "*").then(|| text.split(' ').map(str::to_owned).collect::<Vec<String>>());
    RequestRule {
        methods: words(methods).map(|all| all.into_iter().collect()),
        paths: words(paths).map(|all| all.iter().map(|glob| PathGlob::parse(glob).unwrap()).collect()),
        ..RequestRule::default()
    }
}

/// The same, and `WebSocket`s.
pub fn web_sockets(request: RequestRule) -> RequestRule {
    RequestRule { upgrade: [Upgrade::Websocket].into(), ..request }
}

/// Rules, some of which say something about requests.
pub fn with_requests(list: &str, entries: &[(&str, Option<RequestRule>)]) -> RuleSet {
    let hosts: Vec<&str> = entries.iter().map(|(host, _)| *host).collect();
    let plain = rules(list, &hosts);
    let numbered = |rule: &Rule| {
        let (_, number) = rule.id.as_str().split_once('[').unwrap();
        let number: usize = number.trim_end_matches(']').parse().unwrap();
        Rule { request: entries[number].1.clone(), ..rule.clone() }
    };
    RuleSet::new(plain.rules().iter().map(numbered).collect())
}

/// Exact hosts, a suffix, a private one, one under a ceiling, and one that is not decrypted.
pub fn policy() -> Policy {
    Policy {
        allow: with_requests(
            "repo.allow",
            &[
                ("api.secure.test", Some(request("GET", "/repos/*/issues /a%2fb /pkg/@scope%2Fname"))),
                ("api.secure.test", Some(request("POST PUT", "/upload/** /repos/*/issues"))),
                ("open.secure.test", Some(web_sockets(request("*", "/**")))),
                (".any.secure.test", Some(request("*", "/**"))),
                ("!ip-10-55-0-30.secure.test", Some(request("GET", "/**"))),
                ("ip-10-55-0-1.secure.test", Some(request("GET", "/**"))),
                ("capped.secure.test", Some(request("*", "/**"))),
                ("untrusted.secure.test", Some(request("GET", "/**"))),
                ("wrong.secure.test", Some(request("GET", "/**"))),
                ("ip-203-0-113-53.secure.test", Some(request("GET", "/**"))),
                ("plain.example.com", None),
            ],
        ),
        deny: rules("server.deny", &["denied.any.secure.test"]),
        ceiling: Some(with_requests(
            "server.ceiling",
            &[
                ("!*.secure.test", None),
                (".any.secure.test", None),
                ("plain.example.com", None),
                ("capped.secure.test", Some(request("GET", "/public/**"))),
            ],
        )),
        reachable: vec!["203.0.113.0/24".parse().unwrap()],
        credentials: Vec::new(),
    }
}

/// The router of these tests.
pub fn shared() -> &'static World {
    static WORLD: std::sync::OnceLock<World> = std::sync::OnceLock::new();
    WORLD.get_or_init(|| World::start(policy()))
}

fn refused(answer: &str, status: &str, reason: &str) -> serde_json::Value {
    assert_eq!(answer.get(9..12), Some(status), "{answer}");
    let body = json(answer);
    assert_eq!(body["reason"], reason, "{answer}");
    body
}

#[test]
fn a_request_passes_as_it_was_sent_if_a_rule_permits_it() {
    let world = shared();
    let request = "GET /repos/x%2e%7Ey/issues?q=%00&..//x HTTP/1.1\r\nHost: api.secure.test\r\nX_Under-Score: 1\r\nCookie: a=b\r\nConnection: close\r\n\r\n";
    let answer = https(world, "api.secure.test", request);
    assert_eq!(statuses(&answer), ["200"], "{answer}");
    let (_, seen) = answer.split_once("\r\n\r\n").unwrap();
    let (_, seen) = seen.split_once('\n').unwrap();
    assert_eq!(
        seen,
        "GET /repos/x%2e%7Ey/issues?q=%00&..//x HTTP/1.1\r\nHost: api.secure.test\r\nX_Under-Score: 1\r\nCookie: a=b\r\n\r\n"
    );
    let line = world.decision("path", "/repos/x%2e%7Ey/issues");
    for (field, value) in [
        ("tier", "inspected"),
        ("verdict", "allow"),
        ("reason", "allowed"),
        ("rule", "repo.allow[0]"),
        ("host", "api.secure.test"),
        ("method", "GET"),
        ("credentials", ""),
    ] {
        assert_eq!(line[field], value, "{line}");
    }
    assert_eq!((&line["port"], &line["status"]), (&443.into(), &200.into()));
    assert!(line["bytes_sent"].as_u64() > Some(0) && line["bytes_received"].as_u64() > Some(0));
}

#[test]
fn methods_and_paths_decide_and_the_answer_says_why() {
    let world = shared();
    let ask = |method: &str, path: &str| {
        https(
            world,
            "api.secure.test",
            format!("{method} {path} HTTP/1.1\r\nHost: api.secure.test\r\nConnection: close\r\n\r\n"),
        )
    };
    for (method, path) in [
        ("GET", "/repos/x/issues"),
        ("HEAD", "/repos//issues".replace("//", "/y/").as_str()),
        ("GET", "/%72epos/x/issues"),
        ("POST", "/repos/x/issues"),
        ("PUT", "/upload/"),
        ("PUT", "/upload/a/b/c%2Fd"),
        ("GET", "/a%2Fb"),
        ("GET", "/a%2fb?x"),
        ("GET", "/pkg/@scope%2fname"),
    ] {
        assert_eq!(ask(method, path).get(9..12), Some("200"), "{method} {path}");
    }
    for (method, path, reason, rule) in [
        ("DELETE", "/repos/x/issues", "method-not-allowed", "repo.allow[0]"),
        ("GET", "/upload/x", "method-not-allowed", "repo.allow[1]"),
        ("GET", "/repos/x/y/issues", "path-not-allowed", "repo.allow[0]"),
        ("GET", "/repos/x/issues/", "path-not-allowed", "repo.allow[0]"),
        ("GET", "/a/b", "path-not-allowed", "repo.allow[0]"),
        ("POST", "/", "path-not-allowed", "repo.allow[0]"),
    ] {
        let answer = ask(method, path);
        let body = refused(&answer, "403", reason);
        assert!(answer.contains("\r\nContent-Type: application/json\r\n"), "{answer}");
        assert_eq!(
            (&body["rule"], &body["host"], &body["method"]),
            (&rule.into(), &"api.secure.test".into(), &method.into())
        );
        assert_eq!(body["path"], path);
        assert!(body["hint"].as_str().is_some_and(|hint| !hint.is_empty()));
    }
    let line = world.decision("path", "/repos/x/y/issues");
    assert_eq!(
        (&line["verdict"], &line["reason"], &line["rule"]),
        (&"deny".into(), &"path-not-allowed".into(), &"repo.allow[0]".into())
    );
    assert_eq!((&line["tier"], &line["status"]), (&"inspected".into(), &403.into()));
}

#[test]
fn paths_of_two_readings_are_refused() {
    let world = shared();
    for path in [
        "/a/../b",
        "/a/%2e%2E/b",
        "/a/.%2e",
        "/./a",
        "/..;/a",
        "/..%3bx/a",
        "//a",
        "/a//b",
        "/a\\b",
        "/a%5Cb",
        "/a%00",
        "/a%1f",
        "/%7f",
        "/%252e",
        "/%25%32%65",
        "/a#b",
        "/%zz",
        "/%",
        "/\u{e9}",
        "/..",
        "/../..",
        "/..%2f..",
    ] {
        let answer = https(world, "open.secure.test", get("open.secure.test", path));
        assert!(["403", "400"].contains(&answer.get(9..12).unwrap_or_default()), "{path}: {answer}");
        assert_eq!(json(&answer)["reason"], "bad-path", "{path}: {answer}");
    }
    for path in ["/a/..b", "/...", "/a;b=..", "/%25", "/100%25x", "/a%2Fb", "/%7E", "/@%3A", "/a?..//%00"] {
        let answer = https(world, "open.secure.test", get("open.secure.test", path));
        assert_eq!(answer.get(9..12), Some("200"), "{path}: {answer}");
    }
    for length in [8000, 60_000] {
        let path = format!("/{}", "x%2f/".repeat(length / 5));
        let answer = https(world, "open.secure.test", get("open.secure.test", &path));
        assert_eq!(answer.get(9..12), Some("200"), "a long path: {}", &answer[..answer.len().min(500)]);
        let answer = https(world, "api.secure.test", get("api.secure.test", &path));
        assert_eq!(json(&answer)["reason"], "path-not-allowed");
    }
}

//
#[test]
fn sni_and_host_must_be_one_name_for_each_request() {
    let world = shared();
    for host in [
        "open.secure.test",
        "evil.test",
        "API.secure.test.",
        "x",
        "api.secure.test:80",
        "api.secure.test:8443",
        "[::1]",
        "a_b.test",
    ] {
        let answer = https(world, "api.secure.test", get(host, "/repos/x/issues"));
        if host == "API.secure.test." {
            assert_eq!(answer.get(9..12), Some("200"), "{host}: {answer}");
        } else {
            refused(&answer, "421", "misdirected");
        }
    }
    assert_eq!(https(world, "api.secure.test", get("api.secure.test:443", "/a%2fb")).get(9..12), Some("200"));
    refused(&https(world, "api.secure.test", "GET /a%2fb HTTP/1.0\r\n\r\n"), "421", "misdirected");
    let mut secure = Secure::to(world, "api.secure.test");
    let one = |host: &str| format!("GET /repos/x/issues HTTP/1.1\r\nHost: {host}\r\n\r\n");
    for (host, status) in [("api.secure.test", "200"), ("open.secure.test", "421"), ("api.secure.test", "200")] {
        let answer = secure.send(one(host)).answer();
        assert_eq!(answer.get(9..12), Some(status), "{host}: {answer}");
    }
    let line = world.first_decision(|line| line["reason"] == "misdirected" && line["host"] == "evil.test");
    assert_eq!((&line["verdict"], &line["rule"], &line["status"]), (&"deny".into(), &"".into(), &421.into()));
}

//
#[test]
fn targets_elsewhere_are_refused() {
    let world = shared();
    for (line, status) in [
        ("GET https://open.secure.test/ HTTP/1.1", "403"),
        ("GET http://open.secure.test/ HTTP/1.1", "403"),
        ("GET https://evil.test/ HTTP/1.1", "403"),
        ("CONNECT open.secure.test:443 HTTP/1.1", "400"),
        ("CONNECT evil.test:443 HTTP/1.1", "400"),
        ("OPTIONS * HTTP/1.1", "400"),
        ("TRACE / HTTP/1.1", "405"),
        ("get / HTTP/1.1", "400"),
    ] {
        let answer =
            https(world, "open.secure.test", format!("{line}\r\nHost: open.secure.test\r\nConnection: close\r\n\r\n"));
        refused(&answer, status, "bad-request");
    }
}

#[test]
fn names_outside_get_no_handshake() {
    let world = shared();
    for name in ["evil.test", "x.api.secure.test", "denied.any.secure.test", "other.secure.test"] {
        assert!(Secure::try_to(world, name, &[]).is_err(), "{name}");
    }
    let line = world.decision("host", "denied.any.secure.test");
    assert_eq!(
        (&line["reason"], &line["rule"], &line["verdict"]),
        (&"denied".into(), &"server.deny[0]".into(), &"deny".into())
    );
    for name in ["any.secure.test", "x.any.secure.test", "a.b.any.secure.test"] {
        assert_eq!(https(world, name, get(name, "/")).get(9..12), Some("200"), "{name}");
    }
    assert_eq!(http(world, &get("a.b.any.secure.test", "/")).get(9..12), Some("200"));
}

#[test]
fn an_entry_about_every_name_may_have_rules() {
    let policy = Policy {
        allow: with_requests("repo.allow", &[("*", Some(request("GET", "/**")))]),
        deny: rules("server.deny", &["denied.any.secure.test"]),
        ceiling: None,
        ..policy()
    };
    let world = World::start(policy);
    for name in ["one.secure.test", "a.b.any.secure.test"] {
        for port in [443, 80] {
            let ask = |method: &str| {
                let text =
                    format!("{method} /x HTTP/1.1\r\nHost: {name}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                if port == 443 { https(&world, name, text) } else { http(&world, text.as_bytes()) }
            };
            assert_eq!(ask("GET").get(9..12), Some("200"), "{name}:{port}");
            refused(&ask("POST"), "403", "method-not-allowed");
        }
        let line = world.first_decision(|line| line["host"] == name && line["tier"] == "inspected");
        assert_eq!(line["rule"], "repo.allow[0]");
    }
    // Nothing is passed through unseen, and a denial still wins.
    assert!(Secure::try_to(&world, "denied.any.secure.test", &[]).is_err());
    assert!(world.decisions().iter().all(|line| line["tier"] != "passthrough" || line["verdict"] == "deny"));
}

#[test]
fn a_ceiling_narrows_and_port_80_has_the_same_rules() {
    let world = shared();
    for port in [443, 80] {
        let ask = |path: &str, method: &str| {
            let request = format!("{method} {path} HTTP/1.1\r\nHost: capped.secure.test\r\nConnection: close\r\n\r\n");
            if port == 443 { https(world, "capped.secure.test", request) } else { http(world, request.as_bytes()) }
        };
        assert_eq!(ask("/public/x", "GET").get(9..12), Some("200"));
        for (path, method) in [("/private/x", "GET"), ("/public/x", "POST")] {
            let body = refused(&ask(path, method), "403", "above-ceiling");
            assert_eq!(body["rule"], "server.ceiling[3]");
        }
    }
    assert_eq!(http(world, &get("api.secure.test", "/a%2fb")).get(9..12), Some("200"));
    refused(&http(world, &get("api.secure.test", "/a/b")), "403", "path-not-allowed");
    refused(&http(world, &get("api.secure.test", "/a/../b")), "403", "bad-path");
    assert_eq!(http(world, &get("plain.example.com", "/a/../b")).get(9..12), Some("200"), "no rules, no forms");
}

#[test]
fn an_upstream_that_is_not_who_it_should_be_is_not_spoken_to() {
    let world = shared();
    for (name, reason) in [
        ("untrusted.secure.test", "upstream-untrusted"),
        ("wrong.secure.test", "upstream-untrusted"),
        ("ip-203-0-113-53.secure.test", "upstream-failed"),
        ("ip-10-55-0-1.secure.test", "address-refused"),
        ("untrusted.any.secure.test", "upstream-untrusted"),
        ("ip-10-55-0-1.any.secure.test", "address-refused"),
        ("nx.any.secure.test", "no-address"),
    ] {
        let body = refused(&https(world, name, get(name, "/")), "502", reason);
        assert!(body["rule"].is_string(), "{body}");
        assert_eq!(body["hint"].as_str().unwrap().contains("extra_ca"), reason == "upstream-untrusted", "{body}");
        let line = world.decision("host", name);
        assert_eq!(line["status"], 502, "{line}");
        assert_eq!((&line["reason"], &line["verdict"]), (&reason.into(), &"deny".into()), "{line}");
        // The address is known, though it was refused or did not do, but for a name without any.
        assert_eq!(line["upstream"] != "", reason.starts_with("upstream-"), "{line}");
    }
    // A server that says so itself has answered; so has one whose certificate is good.
    for (name, status) in [("open.secure.test", "502"), ("own.any.secure.test", "502"), ("own.any.secure.test", "503")]
    {
        let path = format!("/status/{status}/own");
        assert!(https(world, name, get(name, &path)).ends_with("\r\n\r\nown"), "{name}");
        let is_it = |line: &serde_json::Value| line["host"] == name && line["status"] == status.parse::<u16>().unwrap();
        let line = world.first_decision(is_it);
        assert_eq!((&line["verdict"], &line["reason"]), (&"allow".into(), &"allowed".into()), "{line}");
    }
    let name = "ip-10-55-0-30.secure.test";
    let answer = https(world, name, get(name, "/"));
    assert!(answer.contains("\r\n\r\n10.55.0.30:443 "), "a private one: {answer}");
}

#[test]
fn connections_to_a_host_are_kept_for_that_host_alone() {
    let world = shared();
    let seen = |name: &str| {
        let answer = https(world, name, get(name, "/kept"));
        let (_, rest) = answer.split_once("connection=").unwrap();
        let (connection, rest) = rest.split_once(" request=").unwrap();
        (connection.to_owned(), rest.split_once('\n').unwrap().0.to_owned())
    };
    // One for each of the router's two threads at most, whatever the clients' connections.
    let to_one: Vec<_> = (0..10).map(|_| seen("open.secure.test")).collect();
    let kept: BTreeSet<&String> = to_one.iter().map(|(connection, _)| connection).collect();
    assert!(kept.len() <= 2, "{to_one:?}");
    // Names below one suffix are hosts of their own.
    let others = ["x", "x", "y", "y", "x", "x", "y"].map(|label| (label, seen(&format!("{label}.any.secure.test")).0));
    let of = |name: &str| -> BTreeSet<&String> {
        others.iter().filter(|(label, _)| *label == name).map(|(_, connection)| connection).collect()
    };
    assert!(of("x").is_disjoint(&of("y")) && of("x").len() <= 2 && of("y").len() <= 2, "{others:?}");
    assert!(others.iter().all(|(_, connection)| !kept.contains(connection)), "{others:?} {to_one:?}");
}
