//! The promised capacity: concurrent connections, and named ports.

use std::fs;
use std::time::Instant;

use sandboxc::policy::MOST_NAMED_PORTS;

use super::start;
use super::wire::{Wire, get, http, json};
use super::world::World;

/// The most memory that the router's process has used, in KiB.
fn most_memory(world: &World) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", router(world))).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// The pid of the router.
fn router(world: &World) -> u32 {
    world.pid()
}

#[test]
fn four_thousand_connections_are_served_at_once() {
    const CONNECTIONS: usize = 4_000;
    let world = World::start(super::policy());
    let started = Instant::now();
    let mut held: Vec<Wire> = (0..CONNECTIONS).map(|_| Wire::to_router(&world, 80)).collect();
    for wire in &mut held {
        wire.send(b"GET / HTTP/1.1\r\nHost: evil.test\r\n");
    }
    assert!(http(&world, &get("api.example.com", "/")).starts_with("HTTP/1.1 200 "), "one more is served");
    for wire in &mut held {
        wire.send(b"Connection: close\r\n\r\n");
    }
    for wire in &mut held {
        let answer = String::from_utf8(wire.rest().expect("an answer")).unwrap();
        assert_eq!(json(&answer)["reason"], "not-allowed", "{answer}");
    }
    let (took, memory) = (started.elapsed(), most_memory(&world));
    println!("{CONNECTIONS} connections in {took:?}, {memory} KiB at most");
    assert!(memory < 100 << 10, "{memory} KiB");
    world.wait("every line", || {
        world.decisions().iter().filter(|line| line["reason"] == "not-allowed").count() == CONNECTIONS
    });
    assert!(!world.read("out").contains("router-full"));
}

#[test]
fn as_many_named_ports_as_compile_takes_are_served() {
    let started = Instant::now();
    let world = World::start(start::named_ports());
    println!("{MOST_NAMED_PORTS} named ports are ready after {:?}, {} KiB", started.elapsed(), most_memory(&world));
    assert_eq!(world.net.tcp.len(), MOST_NAMED_PORTS);
    // A release takes 0.2 s, this build on a busy machine ten times as much.
    let ready = start::milliseconds(&world, 1);
    assert!(ready < 5_000.0, "ready after {ready} ms");
    for route in world.net.tcp.iter().step_by(499).chain(world.net.tcp.last()) {
        let mut wire = Wire::to(&world, route.loopback.into(), route.port).unwrap();
        assert_eq!(wire.until("\n"), "here is 203.0.113.10:5432\n", "{} by way of the pod's own socket", route.host);
        Wire::to_router(&world, route.router_port).until("here is 203.0.113.10:5432\n");
        let line = world.first_decision(|line| line["host"] == route.host.as_str());
        assert_eq!(line["verdict"], "allow", "{line}");
    }
}
