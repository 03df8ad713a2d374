//! Rules that read bodies: the server gets exactly what was read.

use sandboxc::policy::{GraphqlRule, Policy, RequestRule, Rule, RuleSet};

use super::inspected::{request, with_requests};
use super::secure::{Secure, https};
use super::wire::{http, json};
use super::world::World;

pub fn graphql(queries: &str, mutations: &str) -> RequestRule {
    let names = |text: &str| text.split_whitespace().map(str::to_owned).collect();
    let rule = GraphqlRule { queries: names(queries), mutations: names(mutations), subscriptions: names("") };
    RequestRule { graphql: Some(rule), ..RequestRule::default() }
}

fn policy() -> Policy {
    let allow = with_requests(
        "repo.allow",
        &[
            ("gql.secure.test", Some(graphql("viewer repository", "addStar"))),
            ("gql.secure.test", Some(graphql("node", ""))),
            ("gql.secure.test", Some(request("GET POST", "/plain/**"))),
            (".any.secure.test", Some(graphql("*", ""))),
            ("capped.secure.test", Some(request("*", "/**"))),
        ],
    );
    let plain = with_requests("server.ceiling", &[(".secure.test", None)]);
    let capped = with_requests(
        "server.ceiling",
        &[("x.secure.test", None), ("capped.secure.test", Some(graphql("viewer", "")))],
    );
    let rules: Vec<Rule> =
        plain.rules().iter().chain(capped.rules().iter().filter(|r| r.request.is_some())).cloned().collect();
    Policy {
        allow,
        ceiling: Some(RuleSet::new(rules)),
        reachable: vec!["203.0.113.0/24".parse().unwrap()],
        ..Policy::default()
    }
}

fn shared() -> &'static World {
    static WORLD: std::sync::OnceLock<World> = std::sync::OnceLock::new();
    WORLD.get_or_init(|| World::start(policy()))
}

fn post(host: &str, path: &str, headers: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n{headers}\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

fn assert_refused(answer: &str, status: &str, reason: &str) -> serde_json::Value {
    assert_eq!(answer.get(9..12), Some(status), "{answer}");
    let body = json(answer);
    assert_eq!(body["reason"], reason, "{answer}");
    body
}

#[test]
fn the_server_gets_what_was_read_and_nothing_else() {
    let world = shared();
    let body = "{ \"query\" : \"query A { viewer { login } } # é\",\n \"variables\": {\"x\": \"ü\"} }";
    for port in [443, 80] {
        let request = post("gql.secure.test", "/graphql", "X-Other: 1\r\n", body);
        let answer = if port == 443 { https(world, "gql.secure.test", &request) } else { http(world, &request) };
        assert_eq!(answer.get(9..12), Some("200"), "{answer}");
        assert!(answer.contains("POST /graphql HTTP/1.1\r\n") && answer.contains("\r\nX-Other: 1"), "{answer}");
        if port == 443 {
            let (head, forwarded) = answer.rsplit_once("\r\n\r\n").unwrap();
            let length: usize =
                head.rsplit_once("Content-Length: ").unwrap().1.lines().next().unwrap().parse().unwrap();
            assert_eq!(length, forwarded.len(), "{answer}");
            assert!(!forwarded.contains('#'), "written anew: {forwarded}");
            let read: serde_json::Value = serde_json::from_str(forwarded).unwrap();
            assert!(read["query"].as_str().unwrap().contains("viewer"));
            assert_eq!(read["variables"]["x"], "ü");
        }
    }
    let line = world.first_decision(|line| line["tier"] == "http" && line["status"] == 200);
    assert_eq!((&line["verdict"], &line["rule"]), (&"allow".into(), &"repo.allow[0]".into()));
}

#[test]
fn one_rule_must_permit_all_of_an_operation() {
    let world = shared();
    let ask = |query: &str| {
        let body = serde_json::json!({ "query": query }).to_string();
        https(world, "gql.secure.test", post("gql.secure.test", "/graphql", "", body))
    };
    for query in [
        "{viewer{login}}",
        "query { repository(name: \"x\") { id } viewer { id } }",
        "{ node(id: 1) { id } }",
        "mutation { addStar { id } }",
        "{ a: viewer { id } }",
    ] {
        assert_eq!(ask(query).get(9..12), Some("200"), "{query}: {}", ask(query));
    }
    for query in [
        "{ viewer { id } node(id: 1) { id } }",
        "mutation { viewer { id } }",
        "{ viewer: secrets { id } }",
        "mutation { node }",
        "subscription { viewer { id } }",
    ] {
        let body = assert_refused(&ask(query), "403", "graphql-not-allowed");
        assert_eq!(body["rule"], "repo.allow[0]", "{query}");
    }
    // No other method, and no other path.
    let get = "GET /graphql?query={viewer{id}} HTTP/1.1\r\nHost: gql.secure.test\r\nConnection: close\r\n\r\n";
    assert_refused(&https(world, "gql.secure.test", get), "403", "method-not-allowed");
    assert_refused(
        &https(world, "gql.secure.test", post("gql.secure.test", "/graphql/", "", "{}")),
        "403",
        "path-not-allowed",
    );
    // Below a suffix, without a kept connection; a rule without `graphql` reads no body.
    let body = "{\"query\":\"{ anything { id } }\"}";
    assert_eq!(
        https(world, "x.any.secure.test", post("x.any.secure.test", "/graphql", "", body)).get(9..12),
        Some("200")
    );
    let answer = https(
        world,
        "gql.secure.test",
        post("gql.secure.test", "/plain/x", "Content-Encoding: gzip\r\n", "\u{1f}\u{8b}"),
    );
    assert_eq!(answer.get(9..12), Some("200"), "{answer}");
}

#[test]
fn a_ceiling_may_read_a_body_too() {
    let world = shared();
    let ask = |query: &str| {
        let body = serde_json::json!({ "query": query }).to_string();
        https(world, "capped.secure.test", post("capped.secure.test", "/graphql", "", body))
    };
    assert_eq!(ask("{viewer{id}}").get(9..12), Some("200"));
    let body = assert_refused(&ask("{secrets{id}}"), "403", "above-ceiling");
    assert_eq!(body["rule"], "server.ceiling[1]");
    assert_refused(
        &https(world, "capped.secure.test", post("capped.secure.test", "/other", "", "{}")),
        "403",
        "above-ceiling",
    );
}

#[test]
fn bodies_that_have_two_readings_are_refused() {
    let world = shared();
    let good = "{\"query\":\"{viewer{id}}\"}";
    let cases: [(&str, &str, Vec<u8>); 9] = [
        ("/graphql", "Content-Encoding: gzip\r\n", good.into()),
        ("/graphql", "Content-Encoding: br\r\n", good.into()),
        ("/graphql", "Content-Type: text/plain\r\n", good.into()),
        ("/graphql?query={secrets}", "", good.into()),
        ("/graphql", "", b"{\"query\":\"{viewer{id}}\",\"query\":\"{secrets}\"}".to_vec()),
        ("/graphql", "", b"{\"query\":\"{viewer{id}}\xff\"}".to_vec()),
        ("/graphql", "", format!("[{good}]").into_bytes()),
        ("/graphql", "", b"".to_vec()),
        ("/graphql", "", b"query={viewer}".to_vec()),
    ];
    for (path, headers, body) in cases {
        let answer = https(world, "gql.secure.test", post("gql.secure.test", path, headers, &body));
        assert_refused(&answer, "403", "bad-body");
    }
    let answer =
        https(world, "gql.secure.test", post("gql.secure.test", "/graphql", "Content-Encoding: identity\r\n", good));
    assert_eq!(answer.get(9..12), Some("200"), "{answer}");
    let line = world.first_decision(|line| line["reason"] == "bad-body");
    assert_eq!((&line["verdict"], &line["rule"]), (&"deny".into(), &"repo.allow[0]".into()));
}

//
#[test]
fn a_body_that_is_too_large_is_refused_early_and_is_never_a_request() {
    let world = shared();
    let smuggled = "GET /plain/smuggled HTTP/1.1\r\nHost: gql.secure.test\r\n\r\n";
    let head = "POST /graphql HTTP/1.1\r\nHost: gql.secure.test\r\nContent-Type: application/json\r\n";
    let mut secure = Secure::to(world, "gql.secure.test");
    let answer = secure.send(format!("{head}Content-Length: 1048577\r\n\r\n{smuggled}")).until("}\n");
    assert_refused(&answer, "413", "body-too-large");
    let rest = secure.rest();
    assert!(rest.is_empty(), "{}", String::from_utf8_lossy(&rest));
    // Chunked, it is seen when it is there.
    let mut secure = Secure::to(world, "gql.secure.test");
    secure.send(format!("{head}Transfer-Encoding: chunked\r\n\r\n"));
    let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
    for _ in 0..17 {
        secure.send(&chunk);
    }
    let answer = secure.until("}\n");
    assert_refused(&answer, "413", "body-too-large");
    assert!(!String::from_utf8_lossy(&secure.send(smuggled).rest()).contains("HTTP/1.1 200"));
    assert!(!world.decisions().iter().any(|line| line["path"] == "/plain/smuggled"));
    // Just below the cap it is read, chunked as well.
    let query = format!("{{viewer(x: \"{}\"){{id}}}}", "x".repeat(1_000_000));
    let body = serde_json::json!({ "query": query }).to_string();
    let mut secure = Secure::to(world, "gql.secure.test");
    secure.send(format!(
        "{head}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
        body.len()
    ));
    let answer = String::from_utf8(secure.rest()).unwrap();
    assert_eq!(answer.get(9..12), Some("200"), "{}", &answer[..answer.len().min(300)]);
}
