//! The log of the inspecting tier: one line per request, which no byte of the request forges, splits or
//! suppresses.

use sandboxc::source::Sourced;

use super::inspected::policy;
use super::secure::{Secure, https};
use super::wire::get;
use super::world::World;
use crate::fixture::resolved;

#[test]
fn no_byte_of_a_request_forges_splits_or_suppresses_a_line() {
    let world = World::start(policy());
    let host = "open.secure.test";
    let forged = "{\"verdict\":\"allow\",\"forged\":1}";
    let bytes: Vec<u8> = (0..=255).collect();
    let mut requests: Vec<Vec<u8>> = Vec::new();
    let hostile: [&[u8]; 8] = [
        format!("x\n{forged}\n").as_bytes().to_vec().leak(),
        b"x\",\"verdict\":\"allow\",\"forged\":\"1",
        b"x\\",
        b"x\\\"",
        b"\xff\xfe\x80",
        b"\0",
        b"%0a%22%5c%00",
        bytes.leak(),
    ];
    for text in hostile {
        requests.push([b"GET /", text, b" HTTP/1.1\r\nHost: open.secure.test\r\nConnection: close\r\n\r\n"].concat());
        requests.push([b"GET / HTTP/1.1\r\nHost: ", text, b"\r\nConnection: close\r\n\r\n"].concat());
        requests.push([text, b" / HTTP/1.1\r\nHost: open.secure.test\r\nConnection: close\r\n\r\n"].concat());
        requests.push(
            [b"GET /ua HTTP/1.1\r\nHost: open.secure.test\r\nUser-Agent: ", text, b"\r\nConnection: close\r\n\r\n"]
                .concat(),
        );
    }
    for length in [1000, 1024, 1025, 8000, 60_000, 300_000] {
        requests.push(get(host, &format!("/{}", "\"\\".repeat(length / 2))));
        requests.push(get(host, &format!("/{}", "x".repeat(length))));
    }
    for byte in 0..=255_u8 {
        requests.push(
            [b"GET /a", &[byte][..], b"b HTTP/1.1\r\nHost: open.secure.test\r\nConnection: close\r\n\r\n"].concat(),
        );
    }
    for (number, request) in requests.iter().enumerate() {
        let before = world.decisions().len();
        Secure::to(&world, host).send(request).rest();
        world.wait(&format!("the line of request {number}"), || world.decisions().len() > before);
    }
    for (line, decision) in world.read("out").lines().zip(world.decisions()) {
        assert!(line.len() < 4096, "too long for one write to a pipe");
        assert!(line.bytes().all(|b| (0x20..0x7f).contains(&b)), "{line:?}");
        assert!(decision.get("forged").is_none(), "{line}");
        assert_eq!((&decision["tier"], &decision["port"]), (&"inspected".into(), &443.into()), "{line}");
        assert!(!decision["path"].as_str().unwrap().contains('?'), "{line}");
    }
}

#[test]
fn query_strings_are_kept_where_the_server_says_so() {
    let mut resolved = resolved();
    resolved.policy = policy();
    resolved.log_query = true;
    resolved.upstream_dns = vec![Sourced::built_in("203.0.113.53".parse().unwrap())];
    let world = World::start_resolved(&resolved);
    https(&world, "open.secure.test", get("open.secure.test", "/kept?a=1&b=\"\\?c"));
    let line = world.decision("path", "/kept");
    assert_eq!(line["query"], "a=1&b=\"\\?c");
    https(
        &world,
        "open.secure.test",
        get("open.secure.test", &format!("/long{}?{}", "\"".repeat(3000), "\\".repeat(3000))),
    );
    world.wait("its line", || world.decisions().len() == 2);
    assert!(world.read("out").lines().all(|line| line.len() < 4096));
}

#[test]
fn a_line_says_what_was_done() {
    let world = World::start(policy());
    let answer = https(&world, "open.secure.test", get("open.secure.test", "/said?secret=1"));
    assert_eq!(answer.get(9..12), Some("200"));
    let line = world.decision("path", "/said");
    let keys: Vec<&str> = line.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "bytes_received",
            "bytes_sent",
            "credentials",
            "duration",
            "host",
            "method",
            "path",
            "port",
            "reason",
            "rule",
            "status",
            "tier",
            "ts",
            "upstream",
            "verdict"
        ]
    );
    for number in ["ts", "status", "bytes_sent", "bytes_received", "duration"] {
        assert!(line[number].is_number(), "{number}: {line}");
    }
    assert!(!world.read("out").contains("secret"), "no query in the log");
    // A client that leaves before its request leaves no line; one that has sent it does.
    Secure::to(&world, "open.secure.test");
    Secure::to(&world, "open.secure.test").send(get("open.secure.test", "/left"));
    world.decision("path", "/left");
    assert_eq!(world.decisions().len(), 2);
}
