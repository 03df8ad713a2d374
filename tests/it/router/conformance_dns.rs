//! Queries of names in the corpus: what the router's name server answers, what it says of them, and that it asks nobody.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};

use sandboxc::policy::parse_dns_line;
use serde_json::{Value, json};

use super::conformance::says;
use super::wire::{Wire, dns_socket, query};
use super::world::World;
use crate::conformance::case::{Case, Step};
use crate::conformance::text::Secrets;

const CODES: [&str; 6] = ["NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED"];
/// Those of an answer to what was understood.
const GOOD: [&str; 2] = ["NOERROR", "NXDOMAIN"];

/// Runs one case; a difference is a panic.
pub fn run(world: &World, case: &Case) {
    let [Step::Send(text)] = &case.steps[..] else { panic!("one query") };
    let sent = text.fill(&Secrets::default());
    let outside = world.read("dns.log");
    let before = refused(world).len();
    let tcp = case.connect.transport.as_deref() == Some("tcp");
    let answer = if tcp { over_tcp(world, &sent) } else { over_udp(world, &sent) };
    let message = if tcp { &sent[2..] } else { &sent };
    match answer {
        None => assert_eq!(case.expect.status, ["error"], "no answer"),
        Some(answer) => check(world, case, message, &answer),
    }
    // Refused last, so that what was said before it is all there is.
    let last = format!("last-{}.test", COUNT.fetch_add(1, Ordering::Relaxed));
    over_udp(world, &query(last.as_bytes(), 1)).expect("an answer");
    let mut lines = Vec::new();
    world.wait("the lines of the log", || {
        lines = refused(world).split_off(before);
        let ended = lines.iter().any(|line| line["host"] == *last);
        lines.retain(|line| line["host"] != *last && line["host"] != NEXT);
        ended && lines.len() >= case.logs.len()
    });
    assert_eq!(lines.len(), case.logs.len(), "{lines:#?}");
    assert!(case.logs.iter().all(|wanted| lines.iter().any(|line| says(line, wanted))), "{lines:#?}");
    assert_eq!(world.read("dns.log"), outside, "nobody is asked");
}

static COUNT: AtomicUsize = AtomicUsize::new(0);
/// What is asked after a message that may not be answered.
const NEXT: &str = "next.test";

/// What a session's log says of refused names.
fn refused(world: &World) -> Vec<Value> {
    let text = world.read("err");
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let queries = whole.lines().filter_map(parse_dns_line).filter(|query| !query.answered);
    queries
        .map(|query| {
            let decision = world.policy.decide(&query.name, 443);
            let (rule, reason) = (decision.rule, decision.reason.code());
            json!({ "tier": "dns", "verdict": "deny", "rule": rule, "reason": reason, "host": query.name, "port": 53 })
        })
        .collect()
}

/// The answer to a message, or `None` if the next query of the same socket is answered first.
fn over_udp(world: &World, message: &[u8]) -> Option<Vec<u8>> {
    let mut next = query(NEXT.as_bytes(), 1);
    next[..2].copy_from_slice(b"nx");
    let socket = dns_socket(world);
    socket.send(message).expect("sent");
    socket.send(&next).expect("sent");
    let mut buffer = [0; 4096];
    let length = socket.recv(&mut buffer).expect("an answer");
    let is_next = buffer.starts_with(b"nx");
    assert!(is_next || socket.recv(&mut [0; 4096]).is_ok(), "no answer to the next query");
    (!is_next).then(|| buffer[..length].to_vec())
}

fn over_tcp(world: &World, framed: &[u8]) -> Option<Vec<u8>> {
    let answer = Wire::to_router(world, 53).send(framed).end().rest().expect("the end");
    (!answer.is_empty()).then(|| answer[2..].to_vec())
}

fn check(world: &World, case: &Case, message: &[u8], answer: &[u8]) {
    assert!(answer[..2] == message[..2] && answer[2] & 0x80 != 0, "no answer to it: {answer:x?}");
    let code = CODES[usize::from(answer[3] & 15)];
    match case.expect.status[0].as_str() {
        "error" => assert!(!GOOD.contains(&code), "{answer:x?}"),
        wanted => assert_eq!(code, wanted, "{answer:x?}"),
    }
    let addresses = addresses(answer);
    match case.expect.address.as_deref() {
        Some("none") => assert!(addresses.is_empty(), "{answer:x?}"),
        Some("inside") => {
            let (host, _) = case.question.1.rsplit_once(':').expect("HOST:PORT");
            let named = world.net.tcp.iter().find(|route| route.name == *host).map(|route| route.loopback);
            assert_eq!(addresses, [named.unwrap_or(world.net.web_loopback)], "{answer:x?}");
        }
        other => panic!("`address: {other:?}`"),
    }
    if GOOD.contains(&code) {
        let question = &message[12..end_of_question(message)];
        assert_eq!(&answer[12..12 + question.len()], question, "the question comes back as it was asked");
    }
}

/// Where the first question ends.
fn end_of_question(message: &[u8]) -> usize {
    end_of_name(message, 12) + 4
}

fn end_of_name(message: &[u8], mut at: usize) -> usize {
    loop {
        match message[at] {
            0 => return at + 1,
            0xc0.. => return at + 2,
            length => at += 1 + usize::from(length),
        }
    }
}

/// The addresses of an answer, which holds no other record: each is an A record, or the test fails.
fn addresses(answer: &[u8]) -> Vec<Ipv4Addr> {
    let count = |at: usize| u16::from_be_bytes([answer[at], answer[at + 1]]);
    assert_eq!(count(8), 0, "an authority: {answer:x?}");
    let mut at = 12;
    for _ in 0..count(4) {
        at = end_of_name(answer, at) + 4;
    }
    let one = |_| {
        at = end_of_name(answer, at);
        let [0, 1, 0, 1, _, _, _, _, 0, 4, a, b, c, d] = answer[at..at + 14] else { panic!("no A: {answer:x?}") };
        at += 14;
        Ipv4Addr::new(a, b, c, d)
    };
    (0..count(6)).map(one).collect()
}
