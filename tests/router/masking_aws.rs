//! Requests that are signed with surrogate keys leave signed with the real ones. The signatures
//! themselves are tested with `tests/vectors`.

use std::process::Command;

use sandboxc::source::Sourced;

use super::masking::{reached, refused, shared};
use super::mint::{surrogate, value};
use super::secure::https;
use super::world::World;

const HOST: &str = "aws.secure.test";

fn signed(method: &str, target: &str, key: &str, body: &str) -> String {
    let zeros = "0".repeat(64);
    format!(
        "{method} {target} HTTP/1.1\r\nHost: {HOST}\r\nUser-Agent: it\r\nX-Amz-Date: 20200101T000000Z\r\n\
         X-Amz-Security-Token: {}\r\nAuthorization: AWS4-HMAC-SHA256 Credential={key}/20200101/eu-west-1/sts/aws4_request, \
         SignedHeaders=host;x-amz-date;x-amz-security-token, Signature={zeros}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        surrogate("TOKEN"),
        body.len()
    )
}

fn is_signed_anew(head: &str) {
    assert!(head.contains(&format!("Credential={}/20200101/eu-west-1/sts/aws4_request", value("ID"))), "{head}");
    assert!(head.contains(&value("TOKEN")) && !head.contains(&"0".repeat(64)), "{head}");
    assert!(!head.to_lowercase().contains("surrogate") && !head.contains(&value("SECRET")), "{head}");
}

#[test]
fn a_signed_request_is_signed_anew() {
    let world = shared();
    is_signed_anew(&reached(&https(world, HOST, signed("GET", "/hex/anew?a=b", &surrogate("ID"), ""))));
    let line = world.first_decision(|line| line["host"] == HOST && line["path"] == "/hex/anew");
    assert_eq!(line["credentials"], "prod", "{line}");
}

#[test]
fn a_body_without_a_digest_is_read_for_it_up_to_a_cap() {
    let world = shared();
    let body = "a".repeat(40_000);
    let answer = https(world, HOST, signed("POST", "/hex", &surrogate("ID"), &body));
    is_signed_anew(&reached(&answer));
    let upload = https(world, HOST, signed("POST", "/upload", &surrogate("ID"), &body));
    assert!(upload.contains("40000 "), "{upload}");
    let large = https(world, HOST, signed("POST", "/hex", &surrogate("ID"), &"a".repeat(1_100_000)));
    refused(&large, "413", "body-too-large");
}

#[test]
fn a_presigned_url_goes_up_with_another_target() {
    let world = shared();
    let target = format!(
        "/hex?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={}%2F20200101%2Feu-west-1%2Fs3%2Faws4_request\
         &X-Amz-Date=20200101T000000Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host&X-Amz-Security-Token={}&X-Amz-Signature={}",
        surrogate("ID"),
        surrogate("TOKEN"),
        "0".repeat(64)
    );
    let request = format!("GET {target} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n");
    let head = reached(&https(world, HOST, request));
    assert!(
        head.starts_with(&format!("GET /hex?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={}%2F", value("ID"))),
        "{head}"
    );
    assert!(!head.to_lowercase().contains("surrogate") && !head.contains(&"0".repeat(64)), "{head}");
}

#[test]
fn a_presigned_url_does_not_outlive_the_session() {
    let mut resolved = crate::fixture::resolved();
    resolved.policy = super::masking::policy();
    resolved.upstream_dns = vec![Sourced::built_in("203.0.113.53".parse().unwrap())];
    resolved.limits.timeout = Some(Sourced::built_in(120));
    let world = World::start_resolved(&resolved);
    let now = Command::new("date").args(["-u", "+%Y%m%dT%H%M%SZ"]).output().unwrap();
    let now = String::from_utf8(now.stdout).unwrap().trim().to_owned();
    let expires = |asked: &str| {
        let target = format!(
            "/hex?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={}%2F{}%2Feu-west-1%2Fs3%2Faws4_request&X-Amz-Date={now}\
             &X-Amz-Expires={asked}&X-Amz-SignedHeaders=host&X-Amz-Security-Token={}&X-Amz-Signature={}",
            surrogate("ID"),
            &now[..8],
            surrogate("TOKEN"),
            "0".repeat(64)
        );
        let request = format!("GET {target} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n");
        let head = reached(&https(&world, HOST, request));
        let rest = head.split("X-Amz-Expires=").nth(1).unwrap_or_else(|| panic!("{head}"));
        rest.split('&').next().unwrap().parse::<u64>().unwrap()
    };
    let week = expires("604800");
    assert!((60..=120).contains(&week), "{week}");
    assert_eq!(expires("30"), 30);
}

#[test]
fn other_keys_and_other_places_are_refused() {
    let world = shared();
    let foreign = signed("GET", "/hex", "AKIAFOREIGN000000000", "").replace(&surrogate("TOKEN"), "x");
    refused(&https(world, HOST, foreign), "403", "foreign-credential");
    let elsewhere = signed("GET", "/hex", &surrogate("ID"), "").replace(HOST, "key.secure.test");
    refused(&https(world, "key.secure.test", elsewhere), "403", "leak");
    let secret =
        format!("GET /hex HTTP/1.1\r\nHost: {HOST}\r\nX-A: {}\r\nConnection: close\r\n\r\n", surrogate("SECRET"));
    refused(&https(world, HOST, secret), "403", "leak");
    let old = signed("GET", "/hex", &surrogate("ID"), "").replace("AWS4-HMAC-SHA256 ", "AWS4-ECDSA-P256-SHA256 ");
    let answer = https(world, HOST, old);
    refused(&answer, "403", "unsupported-signature");
    assert!(answer.contains("AWS_AUTH_SCHEME_PREFERENCE"), "says what avoids it: {answer}");
}
