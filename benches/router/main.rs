//! The cost of the router: each way through it next to a direct connection and to mitmproxy, in one run, in network
//! namespaces of their own; then latency, how soon events come through, memory, and how soon a router is ready.
//!
//! Needs root, and wrk and nginx on this machine; `scripts/bench-router` sees to all of them.
//! `SANDBOXC_MITMDUMP` names mitmproxy's program; without it that comparison is left out. `SANDBOXC_ROUTER` names the
//! router; without it, cargo's own build is measured. Arguments choose among the parts: `rates`, `latency`, `events`,
//! `memory`, `start`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a bench fails by panicking")]

mod events;
#[allow(dead_code, reason = "shared with the tests")]
#[path = "../../tests/it/fixture.rs"]
mod fixture;
mod load;
#[path = "../../tests/router/mint.rs"]
mod mint;
mod policy;
mod processes;
mod rival;
#[allow(dead_code, reason = "shared with the tests")]
#[path = "../../tests/router/secure.rs"]
mod secure;
#[path = "../../tests/router/start.rs"]
mod start;
mod upstream;
mod ways;
#[allow(dead_code, reason = "shared with the tests")]
#[path = "../../tests/router/wire.rs"]
mod wire;
#[allow(dead_code, reason = "shared with the tests")]
#[path = "../../tests/router/world.rs"]
mod world;

use load::Target;
use policy::{INSPECTED, MASKED, PASSED};
use rival::Rival;
use upstream::Upstream;
use ways::{Goal, Way, added_latency, at_most, line, measure, median};
use world::World;

/// A file, what its figures are called, and what passthrough and every way that decrypts should reach.
const SIZES: [(&str, &str, [Goal; 2]); 2] = [
    (
        "/1k",
        "1 KiB",
        [Goal { direct: Some(0.49), mitmproxy: None }, Goal { direct: Some(0.30), mitmproxy: Some(20.0) }],
    ),
    ("/1m", "1 MiB", [Goal { direct: Some(0.54), mitmproxy: None }, Goal { direct: Some(0.45), mitmproxy: None }]),
];

/// Odd, for a median.
const STARTS: usize = 11;

/// How many connections are busy when memory is measured.
const BUSY: usize = 1000;

fn main() {
    // cargo adds words of its own, such as `--bench`.
    let chosen: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let wants = |part: &str| chosen.is_empty() || chosen.iter().any(|word| word == part);
    let load_before = processes::load();
    if wants("rates") {
        rates();
    }
    if wants("latency") || wants("events") || wants("memory") {
        let world = World::start(policy::masking());
        let session = processes::of_session(&world);
        // Before anything has happened.
        let idle = processes::memory_of(&session);
        let upstream = Upstream::start(&world);
        upstream.probe();
        if wants("latency") {
            added_latency(&upstream, &Target::routed(&world, PASSED), "passthrough");
            added_latency(&upstream, &Target::routed(&world, INSPECTED), "inspected, another host masked");
            added_latency(&upstream, &Target::routed(&world, MASKED).authorized(), "masked, answers cleared");
        }
        if wants("events") {
            events(&world);
        }
        if wants("memory") {
            memory(&world, &session, idle);
        }
    }
    if wants("start") {
        starts();
    }
    line("load average of this machine", &format!("{load_before} before, {} after", processes::load()), "");
}

fn rates() {
    let mut found = Vec::new();
    without_credentials(&mut found);
    let world = World::start(policy::masking());
    let session = processes::of_session(&world);
    let upstream = Upstream::start(&world);
    upstream.probe();
    let rival = Rival::start(&world);
    let mut slow = Vec::new();
    for (path, size, [_, goal]) in SIZES {
        for (what, target) in [
            ("inspected, another host masked", Target::routed(&world, INSPECTED)),
            ("masked, answers cleared", Target::routed(&world, MASKED).authorized()),
        ] {
            found.push(measure(&upstream, &target, &session, path, format!("{size}: {what}"), goal));
        }
        if let Some(rival) = &rival {
            let what = format!("{size}: mitmproxy, header rewritten");
            slow.push(measure(&upstream, &rival.target(), &rival.processes(), path, what, Goal::default()));
        }
    }
    for (_, size, _) in SIZES {
        let of_size = |way: &&Way| way.what.starts_with(size);
        let reference = median(found.iter().filter(of_size).flat_map(|way| way.direct.clone()).collect());
        line(&format!("{size}: direct"), &format!("{reference:.0}/s"), "");
        let slow = slow.iter().find(of_size);
        for way in found.iter().filter(of_size).chain(slow) {
            way.print(slow.map(Way::ratio));
        }
    }
}

/// Passthrough and inspection, where the session has no credential.
fn without_credentials(found: &mut Vec<Way>) {
    let apart = World::start_apart(policy::ruled());
    let upstream = Upstream::start(&apart);
    let session = processes::of_session(&apart);
    for (path, size, [goal, _]) in SIZES {
        let what = format!("{size}: passthrough, two hops");
        found.push(measure(&upstream, &Target::routed(&apart, PASSED), &session, path, what, goal));
    }
    drop(upstream);
    drop(apart);
    let world = World::start(policy::ruled());
    let upstream = Upstream::start(&world);
    let session = processes::of_session(&world);
    for (path, size, [passthrough, inspected]) in SIZES {
        for (what, name, goal) in [("passthrough", PASSED, passthrough), ("inspected", INSPECTED, inspected)] {
            let routed = Target::routed(&world, name);
            found.push(measure(&upstream, &routed, &session, path, format!("{size}: {what}"), goal));
        }
    }
}

fn events(world: &World) {
    for (name, what) in [(policy::EVENTS, "inspected"), (policy::EVENTS_REDACTED, "with response redaction")] {
        let delays = events::delays(world, name);
        let text = format!("median {:.1} ms, most {:.1} ms", delays.median, delays.most);
        at_most(&format!("first event after the host's, {what}"), delays.median, &text, "1 ms", 1.0);
    }
}

fn memory(world: &World, session: &[u32], idle: f64) {
    at_most("idle memory of router and forwarder", idle, &format!("{idle:.1} MB PSS"), "12 MB", 12.0);
    for (what, target) in
        [("masked", Target::routed(world, MASKED).authorized()), ("passthrough", Target::routed(world, PASSED))]
    {
        let (load, most) = processes::most_memory_during(session, || target.measure_with(world, "/1k", BUSY));
        let text = format!("{most:.1} MB PSS at most, {:.0}/s, {} unanswered", load.rate, load.errors);
        at_most(&format!("{BUSY} busy connections, {what}"), most, &text, "60 MB", 60.0);
    }
    let text = format!("{:.1} MB PSS", processes::memory_of(session));
    line("  idle again", &text, "");
}

fn starts() {
    let world = World::start(policy::masking());
    let took = start::milliseconds(&world, STARTS);
    at_most("router ready after its first instruction", took, &format!("{took:.1} ms"), "15 ms", 15.0);
    let policy = start::named_ports();
    let count = policy.allow.rules().len();
    let world = World::start(policy);
    let took = start::milliseconds(&world, STARTS);
    at_most(&format!("  with {count} named ports"), took, &format!("{took:.0} ms"), "1 s", 1000.0);
}
