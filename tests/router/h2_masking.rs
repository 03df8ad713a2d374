//! Masked credentials in HTTP/2 and in the metadata of gRPC calls.

use std::sync::OnceLock;

use sandboxc::policy::Policy;
use serde_json::Value;

use super::h2::{END_STREAM, H2, pseudo};
use super::inspected::{request, with_requests};
use super::masking::{masked, shown};
use super::mint::{surrogate, value};
use super::wire::json;
use super::world::World;

const HOST: &str = "grpc.secure.test";
const OTHER: &str = "open.secure.test";

/// A world for each test: a router that has seen a host speak HTTP/2 goes on with it, and `/hex` is known to servers of HTTP/1.1.
fn world_of(world: &'static OnceLock<World>) -> &'static World {
    let policy = || Policy {
        allow: with_requests(
            "repo.allow",
            &[(HOST, None), (OTHER, Some(request("*", "/**"))), (".any.secure.test", None)],
        ),
        reachable: vec!["203.0.113.0/24".parse().unwrap()],
        credentials: vec![
            masked("PLAIN", "grpc.secure.test *.any.secure.test", "authorization"),
            masked("KEY", HOST, "x-api-key"),
        ],
        ..Policy::default()
    };
    world.get_or_init(|| World::start(policy()))
}

type Fields = Vec<(&'static str, String)>;

/// What is refused: the host, the fields, and the reason.
fn refusals() -> Vec<(&'static str, Fields, &'static str)> {
    let bearer = format!("Bearer {}", surrogate("PLAIN"));
    vec![
        (OTHER, vec![("authorization", bearer)], "leak"),
        (HOST, vec![("x-note", surrogate("PLAIN"))], "leak"),
        (HOST, vec![("x-api-key", surrogate("PLAIN"))], "leak"),
        (HOST, vec![("authorization", "Bearer somebody-elses".to_owned())], "foreign-credential"),
        (HOST, vec![("x-api-key", surrogate("KEY")), ("x-api-key", surrogate("KEY"))], "duplicate-credential"),
    ]
}

/// A request's fields.
fn fields<'a>(
    method: &'a str,
    host: &'a str,
    path: &'a str,
    more: &'a [(&'static str, String)],
) -> Vec<(&'a str, &'a str)> {
    let more = more.iter().map(|(name, value)| (*name, value.as_str()));
    pseudo(method, host, path).into_iter().chain(more).collect()
}

#[test]
fn a_stream_has_its_surrogate_swapped_and_no_other_place_has() {
    static WORLD: OnceLock<World> = OnceLock::new();
    let world = world_of(&WORLD);
    for host in [HOST, "h2.any.secure.test"] {
        let mut h2 = H2::to(world, host);
        // Streams beside it without one, and with one.
        for (stream, more) in [(1, vec![]), (3, vec![("authorization", format!("Bearer {}", surrogate("PLAIN")))])] {
            h2.head(stream, END_STREAM, &fields("GET", host, "/hex", &more));
            let answer = h2.answer(stream);
            assert_eq!(answer.status, "200", "{host}: {}", answer.body);
            let head = shown(&answer.body);
            let line = format!("\r\nauthorization: Bearer {}\r\n", value("PLAIN"));
            assert_eq!(head.to_lowercase().contains(&line.to_lowercase()), stream == 3, "{host}: {head}");
            assert!(!head.contains(&surrogate("PLAIN")), "{host}: {head}");
        }
        // What the host repeats comes back as the surrogate.
        let more = [("authorization", format!("Bearer {}", surrogate("PLAIN")))];
        h2.head(5, END_STREAM, &fields("GET", host, "/echo", &more));
        let answer = h2.answer(5);
        assert!(answer.body.contains(&surrogate("PLAIN")) && !answer.body.contains(&value("PLAIN")), "{}", answer.body);
    }
    let before = world.read("seen");
    for (host, more, reason) in refusals() {
        let mut h2 = H2::to(world, host);
        h2.head(1, END_STREAM, &fields("GET", host, "/hex/refused", &more));
        let answer = h2.answer(1);
        assert_eq!((answer.status.as_str(), &json(&answer.body)["reason"]), ("403", &reason.into()), "{host} {more:?}");
    }
    assert!(!world.read("seen")[before.len()..].contains("/hex/refused"), "nothing of them arrives");
}

/// Calls a method, and says what came of it: the status, the body, and whether there were trailers.
fn call(world: &World, host: &str, path: &str, more: &[(&'static str, String)]) -> (String, String, bool) {
    let kind = [("content-type", "application/grpc".to_owned()), ("te", "trailers".to_owned())];
    let more = [&kind, more].concat();
    let mut h2 = H2::to(world, host);
    h2.head(1, 0, &fields("POST", host, path, &more));
    h2.frame(0, END_STREAM, 1, b"\0\0\0\0\x03one");
    let answer = h2.answer(1);
    (answer.status, answer.body, !answer.trailers.is_empty())
}

/// What came to gRPC servers: blocks of header fields, as bits.
fn blocks(world: &World) -> Vec<String> {
    let text = world.read("seen");
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let bits = |text: &str| text.chars().map(|byte| format!("{:08b}", u32::from(byte))).collect::<String>();
    lines.filter_map(|line| line["grpc"].as_str().map(bits)).collect()
}

/// A text in the code of HPACK (RFC 7541, appendix B), as far as it is needed here.
fn huffman(text: &str) -> String {
    let code = |c: char| match c {
        ' ' => "010100",
        '!' => "1111111000",
        '0' => "00000",
        '1' => "00001",
        'B' => "1011101",
        'X' => "11111100",
        'Z' => "11111101",
        'a' => "00011",
        'e' => "00101",
        'l' => "101000",
        'r' => "101100",
        other => panic!("no code for {other}"),
    };
    text.chars().map(code).collect()
}

#[test]
fn metadata_of_a_call_has_its_surrogate_swapped_and_no_other_place_has() {
    static WORLD: OnceLock<World> = OnceLock::new();
    let world = world_of(&WORLD);
    let bearer = [("authorization", format!("Bearer {}", surrogate("PLAIN")))];
    for host in [HOST, "rpc.any.secure.test"] {
        for (more, swapped) in [(&bearer[..], true), (&[], false)] {
            let before = blocks(world).len();
            let (status, body, trailers) = call(world, host, "/swap/Method", more);
            assert_eq!((status.as_str(), trailers), ("200", true), "{host}: {body}");
            assert!(body.ends_with("one"), "{host}: {body:?}");
            let arrived = blocks(world).split_off(before);
            assert_eq!(arrived.len(), 1, "{host}: {arrived:?}");
            assert_eq!(
                arrived[0].contains(&huffman(&format!("Bearer {}", value("PLAIN")))),
                swapped,
                "{host}: {arrived:?}"
            );
        }
    }
    let said = |line: &Value| line["path"] == "/swap/Method" && line["credentials"] == "PLAIN";
    let line = world.first_decision(said);
    assert_eq!((&line["verdict"], &line["status"]), (&"allow".into(), &200.into()), "{line}");
    let before = blocks(world).len();
    for (host, more, reason) in refusals() {
        let (status, body, trailers) = call(world, host, "/refused/Method", &more);
        assert_eq!((status.as_str(), trailers), ("403", false), "{host} {more:?}");
        assert_eq!(json(&body)["reason"], reason, "{host} {more:?}");
    }
    assert_eq!(blocks(world).len(), before, "nothing of them arrives");
}
