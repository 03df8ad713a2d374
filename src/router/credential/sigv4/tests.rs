//! Vectors: `botocore.json` contains what botocore sends with the surrogate keys and with the real ones; `sigv4.json`
//! contains AWS's published suite and what botocore cannot send (refusals, foreign keys, tokens, headers that the
//! router writes).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use proptest::prelude::*;
use serde_json::Value;

use super::*;

const SUITE: &str = include_str!("../../../../tests/vectors/sigv4.json");
const BOTOCORE: &str = include_str!("../../../../tests/vectors/botocore.json");

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn pair(value: &Value) -> Pair {
    Pair { surrogate: text(&value["surrogate"]), value: text(&value["value"]) }
}

/// A request of a vector, owned.
#[derive(Clone)]
struct Sent {
    method: String,
    host: String,
    target: Vec<u8>,
    headers: Vec<Field>,
    body: Option<(Vec<u8>, bool)>,
}

impl Sent {
    fn read(value: &Value) -> Self {
        let field = |field: &Value| (text(&field[0]).into_bytes(), text(&field[1]).into_bytes());
        let body = value.get("body").map(|body| BASE64_STANDARD.decode(text(body)).unwrap());
        Self {
            method: text(&value["method"]),
            host: text(&value["host"]),
            target: text(&value["uri"]).into_bytes(),
            headers: value["headers"].as_array().unwrap().iter().map(field).collect(),
            body: body.map(|body| (body, value["rewritten"] == true)),
        }
    }

    fn resign(&self, keys: &Keys, now: SystemTime, ends: Option<SystemTime>, allow_foreign: bool) -> Answer {
        let body = self.body.as_ref().map(|(bytes, rewritten)| Body { bytes, rewritten: *rewritten, graphql: None });
        let request = Request {
            method: &self.method,
            host: &self.host,
            target: &self.target,
            headers: &self.headers,
            body: body.as_ref(),
            clock: Clock { now, ends },
            allow_foreign,
            drops_range: false,
        };
        resign(&request, keys)
    }
}

fn at(text: &str) -> SystemTime {
    let moment = crate::router::credential::date::seconds(text).unwrap();
    UNIX_EPOCH + Duration::from_secs(u64::try_from(moment).unwrap())
}

/// The expected result: `[target, authorization, token, digest]`, with null for what is not replaced.
fn shown(answer: &Answer, target: &[u8]) -> Value {
    match answer {
        Answer::Unsigned => Value::Null,
        Answer::NeedsBody => serde_json::json!({ "needsBody": true }),
        Answer::Refuse(reason, text) => serde_json::json!({ "deny": reason.code(), "text": text }),
        Answer::Signed(signed) => {
            let value = |value: &Option<Vec<u8>>| String::from_utf8(value.clone().unwrap_or_default()).unwrap();
            let headers: serde_json::Map<String, Value> =
                signed.headers.iter().map(|(name, one)| ((*name).to_owned(), value(one).into())).collect();
            let target = signed.target.clone().unwrap_or_else(|| String::from_utf8(target.to_vec()).unwrap());
            serde_json::json!({ "headers": headers, "uri": target })
        }
    }
}

#[test]
fn the_published_suite_and_every_refusal() {
    let suite: Vec<Value> = serde_json::from_str(SUITE).unwrap();
    assert!(suite.len() > 180);
    for one in &suite {
        let sent = Sent::read(&one["request"]);
        if let Some(key) = one.get("key") {
            let found = access_key_id(&sent.target, &sent.headers);
            assert_eq!(found.map_or(Value::Null, Value::from), *key, "{one}");
            continue;
        }
        let credential = &one["credential"];
        let keys = Keys {
            id: pair(&credential["access_key_id"]),
            secret: pair(&credential["secret_access_key"]),
            token: credential["session_token"].as_object().map(|_| pair(&credential["session_token"])),
        };
        let now = UNIX_EPOCH + Duration::from_millis(one["now"].as_u64().unwrap());
        let answer = sent.resign(&keys, now, None, credential["allow_foreign"] == true);
        assert_eq!(shown(&answer, &sent.target), one["expect"], "{}: {}", one["test"], one["request"]);
    }
}

fn keys(corpus: &Value, token: &str) -> Keys {
    let pair = |name: &str| Pair { surrogate: text(&corpus["surrogate"][name]), value: text(&corpus["real"][name]) };
    let token = matches!(token, "both" | "added").then(|| pair("session_token"));
    Keys { id: pair("access_key_id"), secret: pair("secret_access_key"), token }
}

/// A session that is longer than the validity of any URL.
fn long() -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_secs(4_000_000_000))
}

/// The new signature of a case, and botocore's.
fn signatures(corpus: &Value, one: &Value, sent: &Sent) -> (Option<String>, Option<String>) {
    let answer = sent.resign(&keys(corpus, &text(&one["token"])), at("20260304T050607Z"), long(), false);
    let shown = shown(&answer, &sent.target);
    let of = |value: &Value| {
        let text =
            value["uri"].as_str().filter(|uri| uri.contains("X-Amz-Signature=")).or(value["authorization"].as_str());
        text.map(str::to_owned)
    };
    let made = of(&shown).or_else(|| of(&shown["headers"]));
    (made, of(&one["expect"]))
}

#[test]
fn what_leaves_is_what_botocore_signs_with_the_real_keys() {
    let corpus: Value = serde_json::from_str(BOTOCORE).unwrap();
    let cases = corpus["cases"].as_array().unwrap();
    assert!(cases.len() > 300);
    let mut different = Vec::new();
    for one in cases {
        let sent = Sent::read(one);
        // Except for S3, `Range` is not forwarded, and therefore not signed: see below.
        if sent.headers.iter().any(|(name, _)| name == b"Range") && !one.to_string().contains("/s3/") {
            continue;
        }
        let (made, wanted) = signatures(&corpus, one, &sent);
        if made != wanted || made.is_none() {
            different.push(format!("{}: {made:?} for {wanted:?}", one["name"]));
        }
        let keys = keys(&corpus, &text(&one["token"]));
        let answer = sent.resign(&keys, at("20260304T050607Z"), None, false);
        let all = shown(&answer, &sent.target).to_string();
        for gone in [&keys.id.surrogate, &keys.secret.surrogate, &keys.secret.value, "surrogateToken"] {
            assert!(!all.contains(gone), "{}: {all}", one["name"]);
        }
        // A token in a header is the real one.
        if let Answer::Signed(signed) = answer {
            let token = signed.headers.iter().find(|(name, _)| *name == TOKEN).and_then(|(_, token)| token.clone());
            let wanted = keys.token.filter(|_| one["expect"]["uri"].is_null()).map(|token| token.value.into_bytes());
            assert_eq!(token, wanted, "{}", one["name"]);
        }
    }
    assert!(different.is_empty(), "{different:#?}");
}

#[test]
fn the_comparison_sees_a_single_changed_byte() {
    type Change = fn(&mut Sent);
    let changes: [(&str, Change); 4] = [
        ("method", |sent| {
            let others = [("GET", "HEAD"), ("HEAD", "GET"), ("DELETE", "OPTIONS"), ("POST", "PUT"), ("PUT", "PATCH")];
            let other = others.iter().find(|(method, _)| *method == sent.method).map_or("POST", |(_, other)| *other);
            other.clone_into(&mut sent.method);
        }),
        ("host", |sent| sent.host.push('x')),
        ("path", |sent| {
            let end = sent.target.iter().position(|byte| *byte == b'?').unwrap_or(sent.target.len());
            sent.target.insert(end, b'x');
        }),
        ("query", |sent| sent.target.extend(if sent.target.contains(&b'?') { b"&x=y" } else { b"?x=y" })),
    ];
    let corpus: Value = serde_json::from_str(BOTOCORE).unwrap();
    for (name, change) in changes {
        for one in corpus["cases"].as_array().unwrap() {
            let mut sent = Sent::read(one);
            change(&mut sent);
            let (made, wanted) = signatures(&corpus, one, &sent);
            let last =
                |text: Option<String>| text.and_then(|text| text.rsplit_once("Signature=").map(|(_, s)| s.to_owned()));
            assert!(made.is_none() || last(made) != last(wanted), "{name} of {}", one["name"]);
        }
    }
}

const SCOPE: &str = "20260304/eu-west-1/s3/aws4_request";

fn own() -> Keys {
    let pair = |name: &str| Pair { surrogate: format!("SUR{name}"), value: format!("REAL{name}") };
    Keys { id: pair("id"), secret: pair("secret"), token: None }
}

fn request(host: &str, target: &str, headers: &[(&str, &str)]) -> Sent {
    let mut all: Vec<(String, String)> =
        headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    if !target.contains("X-Amz-Signature") {
        let names: Vec<String> = headers.iter().map(|(name, _)| format!(";{}", name.to_ascii_lowercase())).collect();
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential=SURid/{SCOPE}, SignedHeaders=host;x-amz-date{}, Signature={}",
            names.concat(),
            "0".repeat(64)
        );
        all.extend([
            ("x-amz-date".to_owned(), "20260304T050607Z".to_owned()),
            ("Authorization".to_owned(), authorization),
        ]);
    }
    let headers = all.into_iter().map(|(name, value)| (name.into_bytes(), value.into_bytes())).collect();
    Sent {
        method: "PUT".to_owned(),
        host: host.to_owned(),
        target: target.as_bytes().to_vec(),
        headers,
        body: Some((Vec::new(), false)),
    }
}

#[test]
fn a_url_is_not_signed_for_longer_than_the_session() {
    let now = at("20260304T050607Z");
    let expires = |asked: &str, ends: Option<SystemTime>| {
        let target = format!(
            "/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=SURid%2F20260304%2Feu-west-1%2Fs3%2Faws4_request\
             &X-Amz-Date=20260304T050607Z&X-Amz-Expires={asked}&X-Amz-SignedHeaders=host&X-Amz-Signature={}",
            "0".repeat(64)
        );
        let Answer::Signed(signed) = request("b.s3.amazonaws.com", &target, &[]).resign(&own(), now, ends, false)
        else {
            panic!("not signed")
        };
        let target = signed.target.unwrap();
        target.split("X-Amz-Expires=").nth(1).unwrap().split('&').next().unwrap().to_owned()
    };
    let end = |seconds| Some(now + Duration::from_secs(seconds));
    assert_eq!(expires("604800", end(90)), "90");
    assert_eq!(expires("60", end(90)), "60");
    assert_eq!(expires("604800", None), "3600");
    assert_eq!(expires("900", None), "900");
    assert_eq!(expires("604800", Some(now - Duration::from_secs(5))), "1");
    assert_eq!(expires("0", end(90)), "1");
}

#[test]
fn the_source_of_a_copy_is_told() {
    let source = |host: &str, target: &str, headers: &[(&str, &str)]| match request(host, target, headers).resign(
        &own(),
        at("20260304T050607Z"),
        None,
        false,
    ) {
        Answer::Signed(signed) => {
            signed.reads.map_or("none".to_owned(), |source| format!("{}{}", source.host, source.target))
        }
        Answer::Refuse(reason, text) => format!("{}: {text}", reason.code()),
        other => format!("{other:?}"),
    };
    let virtual_host = "b.s3.eu-west-1.amazonaws.com";
    let copy = |value: &str| source(virtual_host, "/k", &[("x-amz-copy-source", value)]);
    assert_eq!(source(virtual_host, "/k", &[]), "none");
    assert_eq!(copy("/b/x/y"), "b.s3.eu-west-1.amazonaws.com/x/y");
    assert_eq!(copy("b/x%2Fy?versionId=1"), "b.s3.eu-west-1.amazonaws.com/x%2Fy");
    assert_eq!(copy("other/x"), "other.s3.eu-west-1.amazonaws.com/x");
    assert_eq!(
        source("s3.eu-west-1.amazonaws.com", "/b/k", &[("X-Amz-Copy-Source", "other/x")]),
        "s3.eu-west-1.amazonaws.com/other/x"
    );
    assert_eq!(source("minio.test", "/b/k", &[("x-amz-copy-source", "b/x")]), "minio.test/b/x");
    assert_eq!(source("b.minio.test", "/k", &[("x-amz-copy-source", "b/x")]), "b.minio.test/x");
    assert_eq!(
        source("my.s3.b.s3.eu-west-1.amazonaws.com", "/k", &[("x-amz-copy-source", "my.s3.b/x")]),
        "my.s3.b.s3.eu-west-1.amazonaws.com/x"
    );
    let refused = format!("unsupported-signature: {}", text::COPY);
    for value in
        ["", "b", "/", "b/", "/b/", "%62/x", "arn:aws:s3:eu-west-1:1:accesspoint/a/object/x", "b/x?y", "//b/x", "é/x"]
    {
        assert_eq!(copy(value), refused, "{value}");
    }
    assert_eq!(source("minio.test", "/b/k", &[("x-amz-copy-source", "other/x")]), refused);
    assert_eq!(source(virtual_host, "/k", &[("x-amz-copy-source", "b/x"), ("x_amz_copy_source", "b/y")]), refused);
    let point = "ap-1.s3-accesspoint.eu-west-1.amazonaws.com";
    assert_eq!(source(point, "/k", &[("x-amz-copy-source", "other/x")]), refused);
    assert_eq!(source(point, "/k", &[("x-amz-copy-source", "ap-1/x")]), format!("{point}/x"));
}

#[test]
fn no_signature_rests_on_a_range_that_does_not_go_up() {
    let mut sent = request("b.s3.amazonaws.com", "/k", &[("range", "bytes=0-9")]);
    let names = |sent: &Sent| match sent.resign(&own(), at("20260304T050607Z"), None, false) {
        Answer::Signed(signed) => {
            (signed.drops_range, String::from_utf8(signed.headers[0].1.clone().unwrap()).unwrap().contains("range"))
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(names(&sent), (false, true), "downloads from S3 come in parts");
    for (_, value) in &mut sent.headers {
        *value = String::from_utf8(value.clone()).unwrap().replace("/s3/", "/execute-api/").into_bytes();
    }
    assert_eq!(names(&sent), (true, false));
}

proptest! {
    #[test]
    fn nothing_panics(
        target in "/[!-~é]{0,60}", name in "(?i)(x-amz-date|authorization|x-amz-content-sha256|x-amz-copy-source|host)",
        value in "(AWS4-HMAC-SHA256 )?[ -~]{0,80}", date in "[0-9T:Z ,A-Za-z]{0,30}",
    ) {
        let mut sent = request("b.s3.amazonaws.com", &target, &[]);
        sent.headers.push((name.into_bytes(), value.into_bytes()));
        sent.headers[0].1 = date.into_bytes();
        let _ = sent.resign(&own(), at("20260304T050607Z"), None, false);
        let _ = access_key_id(&sent.target, &sent.headers);
    }
}
