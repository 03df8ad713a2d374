//! Responses of hosts: trailers, interim responses, early ends, and bytes that are not a response.

use std::io::Read as _;
use std::sync::Arc;

use super::script::{say, serve};
use super::wire::{Wire, get, http, json, statuses};
use super::world::World;

const HOST: &str = "ip-203-0-113-41.suffix.example.com";

#[test]
fn trailers_pass_both_ways_and_interim_answers_come_down() {
    let world = World::start(super::policy());
    let heads = serve(
        &world,
        Arc::new(|_, _, stream| {
            let mut body = Vec::new();
            while !body.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                assert!(matches!(stream.read(&mut byte), Ok(1)));
                body.push(byte[0]);
            }
            say(stream, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 Fine\r\nTrailer: X-Sum\r\n");
            say(stream, "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\nContent-Length: 9\r\n\r\n");
            assert_eq!(String::from_utf8_lossy(&body), "3\r\nxyz\r\n0\r\nX-Up: 2\r\n\r\n");
            false
        }),
    );
    let mut wire = Wire::to_router(&world, 80);
    wire.send(format!("POST /t HTTP/1.1\r\nHost: {HOST}\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\n").as_bytes());
    wire.send(b"Trailer: X-Up\r\n\r\n3;ignored=1\r\nxyz\r\n0\r\nX-Up: 2\r\nHost: evil.test\r\n\r\n");
    let answer = wire.until("\r\nX-Sum: 1\r\n\r\n");
    assert_eq!(statuses(&answer), ["103", "200"], "{answer}");
    assert!(answer.contains("Link: </a>\r\n") && answer.contains("HTTP/1.1 200 Fine\r\n"), "{answer}");
    assert!(answer.ends_with("3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n"), "no length in a trailer: {answer}");
    let head = heads.lock().unwrap().concat();
    assert!(head.contains("TE: trailers\r\n") && head.contains("Trailer: X-Up\r\n"), "{head}");
}

#[test]
fn each_way_not_to_answer_has_its_own_reason() {
    let world = World::start(super::policy());
    let large = format!("HTTP/1.1 200 OK\r\nX: {}\r\nContent-Length: 2\r\n\r\nok", "x".repeat(300_000));
    let fits = format!("HTTP/1.1 200 OK\r\nX: {}\r\nContent-Length: 2\r\n\r\nok", "x".repeat(200_000));
    let cases: Vec<(String, &str)> = [
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok", ""),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok", "upstream-malformed"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nok", "upstream-malformed"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\nok", "upstream-malformed"),
        ("HTTP/1.1 200 OK\r\nX : y\r\n\r\n", "upstream-malformed"),
        ("HTTP/1.1 200 OK\r\nX: y\r\n z\r\n\r\n", "upstream-malformed"),
        ("HTTP/1.1 20 OK\r\n\r\n", "upstream-malformed"),
        ("HTTP/2.0 200 OK\r\n\r\n", "upstream-malformed"),
        ("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n", "upstream-malformed"),
        ("SSH-2.0-x\r\n", "upstream-malformed"),
        ("", "upstream-failed"),
        ("HTTP/1.1 200 OK\r\nX: ", "upstream-failed"),
        (&large, "upstream-head-too-large"),
        (&fits, ""),
    ]
    .map(|(answer, reason)| (answer.to_owned(), reason))
    .into();
    let answers: Vec<String> = cases.iter().map(|(answer, _)| answer.clone()).collect();
    serve(
        &world,
        Arc::new(move |number, _, stream| {
            say(stream, &answers[number]);
            false
        }),
    );
    for (number, (said, reason)) in cases.iter().enumerate() {
        let answer = http(&world, &get(HOST, &format!("/{number}")));
        let said = &said[..said.len().min(100)];
        if reason.is_empty() {
            assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\nok"), "{said:?}");
            continue;
        }
        assert!(answer.starts_with("HTTP/1.1 502 "), "{said:?}: {answer}");
        let body = json(&answer);
        assert_eq!(body["reason"], *reason, "{said:?}: {answer}");
        assert!(!body["hint"].as_str().unwrap().contains("extra_ca"), "{answer}");
    }
}

#[test]
fn an_answer_that_ends_early_ends_early() {
    let world = World::start(super::policy());
    serve(
        &world,
        Arc::new(|number, _, stream| {
            let framing = ["Content-Length: 9\r\n\r\nabc", "Transfer-Encoding: chunked\r\n\r\n9\r\nabc", "\r\nabc"];
            say(stream, format!("HTTP/1.1 200 OK\r\n{}", framing[number]));
            false
        }),
    );
    let ask = || http(&world, &get(HOST, "/"));
    assert!(ask().ends_with("Content-Length: 9\r\nConnection: close\r\n\r\nabc"));
    let chunked = ask();
    assert!(chunked.ends_with("\r\n\r\n3\r\nabc\r\n"), "no end of the chunks: {chunked}");
    assert!(ask().ends_with("\r\n\r\n3\r\nabc\r\n0\r\n\r\n"), "one that ends with the connection is whole");
}

#[test]
fn what_was_sent_on_a_dying_connection_is_sent_once_more_if_that_is_safe() {
    let world = World::start(super::policy());
    // Each connection answers one request, and ends in the middle of the second.
    let heads = serve(
        &world,
        Arc::new(|_, request, stream| {
            if request == 0 {
                say(stream, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            }
            request == 0
        }),
    );
    let mut wire = Wire::to_router(&world, 80);
    let mut ask = |method: &str, path: &str| {
        wire.send(format!("{method} {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 0\r\n\r\n").as_bytes());
        wire.until("\r\n\r\n")
    };
    // Both of the router's threads have a connection of their own, so this is one client's connection.
    assert!(ask("GET", "/1").starts_with("HTTP/1.1 200 "));
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert!(ask("POST", "/2").starts_with("HTTP/1.1 502 "), "what may have been done is not done twice");
    let mut wire = Wire::to_router(&world, 80);
    let mut ask = |path: &str| {
        wire.send(format!("GET {path} HTTP/1.1\r\nHost: {HOST}\r\n\r\n").as_bytes());
        wire.until("\r\n\r\n")
    };
    assert!(ask("/3").starts_with("HTTP/1.1 200 "));
    assert!(ask("/4").starts_with("HTTP/1.1 200 "));
    let count = |path: &str| heads.lock().unwrap().iter().filter(|head| head.contains(&format!(" {path} "))).count();
    assert_eq!((count("/2"), count("/4")), (1, 2));
}
