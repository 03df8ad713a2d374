//! The vectors of `masking.json`, and new cases.

use std::collections::BTreeMap;
use std::time::UNIX_EPOCH;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::*;

const CLOCK: Clock = Clock { now: UNIX_EPOCH, ends: None };

fn field(name: &str, value: &str) -> Field {
    (name.as_bytes().to_vec(), value.as_bytes().to_vec())
}

fn host(name: &str) -> HostName {
    HostName::from_wire(name).unwrap()
}

fn settle(table: &Table, method: &str, name: &str, target: &str, headers: &[Field]) -> Settled {
    let host = host(name);
    let head = RequestHead { method, host: &host, target: target.as_bytes(), headers };
    table.settle(&head, None, &NoTokens, CLOCK)
}

fn said(settled: &Settled) -> String {
    match settled {
        Settled::Pass(_) => "pass".to_owned(),
        Settled::NeedsBody { credential, .. } => format!("body {credential}"),
        Settled::Refuse(refusal) => format!("{} {}", refusal.reason.code(), refusal.credential),
    }
}

#[test]
fn every_vector_is_settled_as_before() {
    let all: Vec<Value> = serde_json::from_str(include_str!("../../../tests/vectors/masking.json")).unwrap();
    assert!(all.len() > 100);
    for one in &all {
        let request = &one["request"];
        let name = request["host"].as_str().unwrap();
        // Invalid names never get here.
        let Some(host) = HostName::from_wire(name).filter(|host| host.as_str() == name) else { continue };
        let table = Table::read(one["table"].to_string().as_bytes()).unwrap();
        let headers: Vec<Field> = request["headers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|header| field(header[0].as_str().unwrap(), header[1].as_str().unwrap()))
            .collect();
        let head = RequestHead {
            method: request["method"].as_str().unwrap(),
            host: &host,
            target: request["uri"].as_str().unwrap().as_bytes(),
            headers: &headers,
        };
        let settled = table.settle(&head, None, &NoTokens, CLOCK);
        let expect = &one["expect"];
        assert_eq!(said(&settled), expect["verdict"].as_str().unwrap().trim_end(), "{one}");
        let Settled::Pass(pass) = settled else { continue };
        let set: BTreeMap<String, String> = pass
            .set
            .iter()
            .map(|(name, value)| {
                (String::from_utf8(name.clone()).unwrap(), String::from_utf8_lossy(value).into_owned())
            })
            .filter(|(name, _)| name != "accept-encoding")
            .collect();
        assert_eq!(json!(set), expect["headers"], "{one}");
        assert_eq!(json!(pass.used), expect["used"], "{one}");
        // Whatever Basic contained comes back unchanged.
        for pair in expect["pairs"].as_array().unwrap() {
            let (up, came) = (pair[0].as_str().unwrap(), pair[1].as_str().unwrap());
            let cleared = pass.clear.as_ref().unwrap().text(up.as_bytes());
            assert_eq!(cleared.as_deref(), Some(came.as_bytes()), "{one}");
        }
    }
}

fn masked(name: &str, hosts: &[&str], value: &str) -> Value {
    json!({
        "name": name, "surrogate": format!("{name}_surrogate_0000"), "value": value, "hosts": hosts,
        "headers": ["authorization"], "methods": null, "paths": null, "allow_foreign": false,
    })
}

fn aws(hosts: &[&str], paths: &Value) -> Value {
    let pair = |name: &str| json!({ "surrogate": format!("SUR{name}0000"), "value": format!("REAL{name}0000") });
    json!({
        "name": "AWS", "hosts": hosts, "methods": null, "paths": paths, "allow_foreign": false,
        "access_key_id": pair("id"), "secret_access_key": pair("secret"), "session_token": null,
    })
}

fn app(repositories: &Value) -> Value {
    json!({
        "name": "APP", "surrogate": "ghs_app_surrogate", "hosts": ["api.test", "github.com"], "methods": null, "paths": null,
        "allow_foreign": false, "app_id": "1", "installation_id": 2, "private_key": "", "base_url": "https://api.test",
        "repositories": repositories, "permissions": null,
    })
}

fn table(masked: &[Value], aws: &[Value], github: &[Value]) -> Table {
    Table::read(json!({ "masked": masked, "aws": aws, "github": github }).to_string().as_bytes()).unwrap()
}

/// A token and its owner.
struct Fixed(Option<&'static str>);

impl Tokens for Fixed {
    fn token(&self, _: &str) -> Option<String> {
        self.0.map(str::to_owned)
    }

    fn old(&self, _: &str) -> Vec<String> {
        vec!["ghs_token_of_before".to_owned()]
    }

    fn owner(&self, _: &str) -> Option<String> {
        Some("acme".to_owned())
    }
}

#[test]
fn a_github_app_its_token_its_repositories_no_token() {
    let known = table(&[], &[], &[app(&json!(["widgets"]))]);
    let ask = |tokens: Fixed, method: &str, target: &str, value: &str, body: Option<&str>| {
        let (host, headers) = (host("api.test"), [field("Authorization", value)]);
        let document = body.map(|body| crate::router::graphql::read(body.as_bytes()).unwrap());
        let bytes = document.as_ref().map(|document| document.forward.clone()).unwrap_or_default();
        let body = document.as_ref().map(|document| Body { bytes: &bytes, rewritten: true, graphql: Some(document) });
        let head = RequestHead { method, host: &host, target: target.as_bytes(), headers: &headers };
        known.settle(&head, body.as_ref(), &tokens, CLOCK)
    };
    let own = "/repos/acme/widgets";
    let Settled::Pass(pass) = ask(Fixed(Some("ghs_real_token")), "GET", own, "token ghs_app_surrogate", None) else {
        panic!()
    };
    assert!(pass.set.contains(&field("authorization", "token ghs_real_token")));
    assert_eq!(pass.used, ["APP"]);
    let clear = pass.clear.unwrap();
    assert_eq!(clear.text(b"ghs_real_token ghs_token_of_before").unwrap(), b"ghs_app_surrogate ghs_app_surrogate");
    let verdict =
        |tokens, method: &str, target: &str, value: &str, body| said(&ask(tokens, method, target, value, body));
    assert_eq!(verdict(Fixed(None), "GET", own, "ghs_app_surrogate", None), "credential-unavailable APP");
    assert_eq!(
        verdict(Fixed(Some("t")), "GET", "/repos/acme/other", "ghs_app_surrogate", None),
        "repository-not-allowed APP"
    );
    assert_eq!(
        verdict(Fixed(None), "GET", "/repos/acme/other", "ghs_app_surrogate", None),
        "repository-not-allowed APP",
        "a token would not help"
    );
    assert_eq!(verdict(Fixed(Some("t")), "GET", own, "mine", None), "foreign-credential APP");
    assert_eq!(verdict(Fixed(Some("t")), "POST", "/graphql", "ghs_app_surrogate", None), "body APP");
    let query = r#"{"query":"{ repository(owner: \"acme\", name: \"widgets\") { id } }"}"#;
    assert_eq!(verdict(Fixed(Some("t")), "POST", "/graphql", "ghs_app_surrogate", Some(query)), "pass");
    assert_eq!(
        verdict(Fixed(Some("t")), "POST", "/graphql", "ghs_app_surrogate", Some(r#"{"query":"{viewer{login}}"}"#)),
        "repository-not-allowed APP"
    );
}

fn signed(target: &str, headers: &[(&str, &str)], host: &str) -> Vec<Field> {
    let mut all = vec![
        field("Host", host),
        field("X-Amz-Date", "19700101T000000Z"),
        field(
            "Authorization",
            &format!(
                "AWS4-HMAC-SHA256 Credential=SURid0000/19700101/eu-west-1/s3/aws4_request, SignedHeaders=host;x-amz-date, Signature={}",
                "0".repeat(64)
            ),
        ),
    ];
    assert!(target.starts_with('/'));
    all.extend(headers.iter().map(|(name, value)| field(name, value)));
    all
}

#[test]
fn aws_keys_sign_for_their_scope_alone() {
    let known = table(&[], &[aws(&["b.s3.amazonaws.com", "*.amazonaws.com"], &Value::Null)], &[]);
    let of = |host: &str, headers: &[(&str, &str)]| settle(&known, "GET", host, "/k", &signed("/k", headers, host));
    let Settled::Pass(pass) = of("b.s3.amazonaws.com", &[("Range", "bytes=0-9")]) else { panic!() };
    assert!(pass.remove.iter().all(|name| name != b"range"), "downloads come in parts");
    assert_eq!(pass.used, ["AWS"]);
    let clear = pass.clear.unwrap();
    assert!(clear.keeps_length());
    assert_eq!(clear.text(b"<AWSAccessKeyId>REALid0000<").unwrap(), b"<AWSAccessKeyId>SURid00000<");
    // S3 shows the bytes of the string to sign.
    assert_eq!(clear.text(b"52 45 41 4c 69 64 30 30 30 30").unwrap(), b"53 55 52 69 64 30 30 30 30000");
    assert_eq!(said(&of("elsewhere.test", &[])), "leak AWS");
    assert_eq!(said(&of("b.s3.amazonaws.com", &[("X-A", "SURsecret0000")])), "leak AWS");
    let bearer = [field("Authorization", "Bearer x")];
    assert_eq!(said(&settle(&known, "GET", "b.s3.amazonaws.com", "/k", &bearer)), "foreign-credential AWS");
    assert_eq!(said(&settle(&known, "GET", "b.s3.amazonaws.com", "/k", &[])), "pass");
}

#[test]
fn a_copy_reads_no_more_than_the_credential_may() {
    let copy = |table: &Table, host: &str, target: &str, source: &str| {
        let settled = settle(
            table,
            "PUT",
            host,
            target,
            &signed(target, &[("x-amz-copy-source", source), ("content-length", "0")], host),
        );
        match settled {
            Settled::Pass(pass) => pass.reads.map(|(host, target)| format!("{host}{target}")).unwrap_or_default(),
            other => said(&other),
        }
    };
    let one = table(&[], &[aws(&["b.s3.eu-west-1.amazonaws.com"], &Value::Null)], &[]);
    assert_eq!(copy(&one, "b.s3.eu-west-1.amazonaws.com", "/k", "b/x"), "b.s3.eu-west-1.amazonaws.com/x");
    assert_eq!(copy(&one, "b.s3.eu-west-1.amazonaws.com", "/k", "secret/x"), "leak AWS");
    let wide = table(&[], &[aws(&["*.s3.eu-west-1.amazonaws.com"], &Value::Null)], &[]);
    assert_eq!(copy(&wide, "b.s3.eu-west-1.amazonaws.com", "/k", "other/x"), "other.s3.eu-west-1.amazonaws.com/x");
    let paths = table(&[], &[aws(&["s3.eu-west-1.amazonaws.com"], &json!(["/mine/**"]))], &[]);
    assert_eq!(copy(&paths, "s3.eu-west-1.amazonaws.com", "/mine/k", "mine/x"), "s3.eu-west-1.amazonaws.com/mine/x");
    assert_eq!(copy(&paths, "s3.eu-west-1.amazonaws.com", "/mine/k", "other/x"), "leak AWS");
    assert_eq!(copy(&paths, "s3.eu-west-1.amazonaws.com", "/mine/k", "mine/../other/x"), "leak AWS");
}

#[test]
fn an_answer_is_asked_for_that_can_be_read() {
    let known = table(&[masked("GH", &["api.test"], "real-value-0001")], &[], &[]);
    let came = [
        field("Accept-Encoding", "gzip, dcb, *;q=0.1"),
        field("Range", "bytes=0-1"),
        field("If-Range", "x"),
        field("grpc-accept-encoding", "gzip"),
        field("Sec-WebSocket-Extensions", "permessage-deflate"),
        field("Accept", "*/*"),
    ];
    let Settled::Pass(pass) = settle(&known, "GET", "api.test", "/", &came) else { panic!() };
    assert_eq!(pass.set, [field("accept-encoding", "gzip")]);
    let removed: Vec<&str> = pass.remove.iter().map(|name| std::str::from_utf8(name).unwrap()).collect();
    assert_eq!(removed, ["grpc-accept-encoding", "range", "if-range", "sec-websocket-extensions"]);
    let Settled::Pass(pass) = settle(&known, "GET", "other.test", "/", &came) else { panic!() };
    assert!(pass.set.is_empty() && pass.remove.is_empty() && pass.clear.is_none(), "no business of anybody's");
}

#[test]
fn what_was_sent_in_basic_comes_back_as_it_came_whatever_the_lengths() {
    for value in ["real-value-of-22-bytes", "short1", "a-value-that-is-much-longer-than-what-stands-for-it"] {
        let known = table(&[masked("GH", &["api.test"], value)], &[], &[]);
        for user in ["", "u", "us", "user:"] {
            let came = BASE64_STANDARD.encode(format!("{user}:GH_surrogate_0000"));
            if user.contains(':') {
                continue;
            }
            let Settled::Pass(pass) =
                settle(&known, "GET", "api.test", "/", &[field("authorization", &format!("Basic {came}"))])
            else {
                panic!()
            };
            let sent = String::from_utf8(pass.set[0].1.clone()).unwrap();
            let clear = pass.clear.unwrap();
            assert_eq!(
                String::from_utf8(clear.text(sent.as_bytes()).unwrap()).unwrap(),
                format!("Basic {came}"),
                "{value} {user}"
            );
        }
    }
}

#[test]
fn port_80_is_nobodys() {
    let known = table(&[masked("GH", &["api.test"], "real-value-0001")], &[], &[]);
    assert!(known.leak(b"/", &[field("authorization", "Bearer mine")]).is_none());
    assert_eq!(known.leak(b"/?a=GH%5Fsurrogate_0000", &[]).unwrap().credential, "GH");
    let basic = format!("Basic {}", BASE64_STANDARD.encode("u:GH_surrogate_0000"));
    assert!(known.leak(b"/", &[field("x", &basic)]).is_some());
}

#[test]
fn a_file_that_is_not_what_it_should_be_is_refused_and_never_quoted() {
    for json in ["", "{", "{}", r#"{"masked":[]}"#, "[]", "null"] {
        assert!(Table::read(json.as_bytes()).is_err(), "{json}");
    }
    let good = masked("A", &["api.test"], "secret-value-1");
    for (name, value) in [
        ("surrogate", json!("")),
        ("value", json!("")),
        ("value", json!(null)),
        ("value", json!("secret\r\nvalue")),
        ("headers", json!(null)),
        ("headers", json!([])),
        ("hosts", json!(null)),
        ("hosts", json!([""])),
        ("hosts", json!(["secret value"])),
        ("paths", json!(1)),
        ("methods", json!("GET")),
        ("more", json!("secret")),
        ("allow_foreign", json!("secret")),
    ] {
        let mut entry = good.clone();
        entry[name] = value;
        let error =
            Table::read(json!({ "masked": [entry], "aws": [], "github": [] }).to_string().as_bytes()).err().unwrap();
        assert!(!error.contains("secret"), "{name}: {error}");
    }
    assert!(Table::read(json!({ "masked": [good], "aws": [], "github": [] }).to_string().as_bytes()).is_ok());
    assert!(matches!(settle(&Table::empty(), "GET", "api.test", "/", &[]), Settled::Pass(_)));
}
