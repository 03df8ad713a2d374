//! The corpus' DNS queries: responses, log lines, and no query to any other server.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use super::wire::{Wire, dns_socket, query};
use super::world::World;
use crate::corpus::case::Case;
use crate::corpus::dns::{check, message};
use crate::corpus::log::says;

/// Runs one case; a difference is a panic.
pub fn run(world: &World, case: &Case) {
    let (sent, tcp) = message(case);
    let outside = world.read("dns.log");
    let before = refused(world).len();
    let answer = if tcp { over_tcp(world, &sent) } else { over_udp(world, &sent) };
    let message = if tcp { &sent[2..] } else { &sent };
    match answer {
        None => assert_eq!(case.expect.status, ["error"], "no answer"),
        Some(answer) => {
            let named = |host: &str| world.net.tcp.iter().find(|route| route.name == host).map(|route| route.loopback);
            check(named, world.net.web_loopback, case, message, &answer);
        }
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
    world.lines().into_iter().filter(|line| line["tier"] == "dns").collect()
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
