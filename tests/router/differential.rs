//! `decide` against the running router: random names, every tier.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use sandboxc::policy::{HostName, Policy, Reason, Verdict};

use super::hello::{hello, is_unrecognized_name};
use super::wire::{Wire, dns_socket, query, read_answer};
use super::world::World;
use crate::fixture::rules;

const SEED: [u8; 32] = *b"sandboxc: decide equals router 1";
const NAMES: usize = 2500;

/// Everything, but for what is said otherwise.
fn broad_policy() -> Policy {
    Policy {
        allow: rules("repo.allow", &["*", "!.y.test", "203.0.113.22:443"]),
        deny: rules("server.deny", &[".d.a.test", "*.c.b.a.test"]),
        ceiling: None,
        reachable: vec!["203.0.113.0/24".parse().unwrap()],
        credentials: Vec::new(),
    }
}

/// Overlapping patterns on few labels, so that each list wins somewhere.
fn policy() -> Policy {
    Policy {
        allow: rules(
            "repo.allow",
            &[
                ".a.test",
                "*.b.a.test",
                "c.b.a.test",
                "x.test",
                "*.x.test",
                "!.y.test",
                "z.y.test",
                "a.b.c.d.test",
                "xn--bcher-kva.test",
                "db.a.test:5432",
                "only.b.test:443",
                "203.0.113.10:80",
                "203.0.113.22:443",
                "203.0.113.22:22",
            ],
        ),
        deny: rules(
            "server.deny",
            &["c.a.test", ".d.a.test", "*.c.b.a.test", "b.x.test:80", "y.y.test:443", "b.a.test:22"],
        ),
        ceiling: Some(rules(
            "server.ceiling",
            &[
                ".a.test",
                "only.b.test",
                "*.b.a.test",
                "!.y.test",
                "x.x.test",
                "a.b.c.d.test:9",
                "203.0.113.22:443",
                "203.0.113.10:80",
            ],
        )),
        reachable: vec!["203.0.113.0/24".parse().unwrap()],
        credentials: Vec::new(),
    }
}

fn names() -> BTreeSet<String> {
    let label = proptest::prop_oneof![
        12 => proptest::sample::select(vec!["a", "b", "c", "d", "x", "y", "z", "db", "only", "test", "xn--bcher-kva"]).prop_map(str::to_owned),
        2 => "[a-z0-9]([a-z0-9-]{0,3}[a-z0-9])?",
        1 => "[a-zA-Z0-9_*-]{1,4}",
        1 => proptest::sample::select(vec![63, 64]).prop_map(|n: usize| "l".repeat(n)),
    ];
    let base = proptest::sample::select(vec![
        "a.test",
        "b.a.test",
        "c.b.a.test",
        "x.test",
        "y.test",
        "z.y.test",
        "a.b.c.d.test",
        "d.a.test",
        "test",
        "203.0.113.10",
        "203.0.113.22",
        "203.0.113.022",
        "1.2.3",
        "",
    ]);
    let name =
        (proptest::collection::vec(label, 0..4), base, 0..8_u8, 0..8_u8).prop_map(|(mut labels, base, case, dots)| {
            if !base.is_empty() {
                labels.push(base.to_owned());
            }
            let name = labels.join(".");
            let name = match case {
                0 => name.to_uppercase(),
                1 => name.char_indices().map(|(i, c)| if i % 2 == 0 { c.to_ascii_uppercase() } else { c }).collect(),
                _ => name,
            };
            name + match dots {
                0 => ".",
                1 if case == 2 => "..",
                _ => "",
            }
        });
    let mut runner = TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &SEED));
    let mut names = BTreeSet::new();
    for _ in 0..NAMES * 20 {
        if names.len() == NAMES {
            break;
        }
        names.insert(name.new_tree(&mut runner).unwrap().current());
    }
    assert_eq!(names.len(), NAMES, "the generator is too narrow");
    names
}

/// What the router did: allowed or not, and what its log line says about rule and reason.
type Outcome = (bool, String, String);

fn decided(policy: &Policy, host: &str, port: u16) -> Outcome {
    let decision = policy.decide(host, port);
    let rule = decision.rule.map(|rule| rule.to_string()).unwrap_or_default();
    (decision.verdict == Verdict::Allow, rule, decision.reason.code().to_owned())
}

/// Lets one client after another ask on a port and pairs the answers with the log's lines.
fn ask(world: &World, names: &BTreeSet<String>, port: u16, one: impl Fn(&str) -> bool) -> Vec<Outcome> {
    let before = world.decisions().len();
    let length = || std::fs::metadata(world.path("out")).map_or(0, |file| file.len());
    // Its line must be there before the next begins: the router's workers write theirs as they come.
    let and_line = |name: &String| {
        let (from, end) = (length(), Instant::now() + Duration::from_secs(10));
        let allowed = one(name);
        while length() == from {
            assert!(Instant::now() < end, "no line for {name:?}");
            std::thread::sleep(Duration::from_micros(100));
        }
        allowed
    };
    let allowed: Vec<bool> = names.iter().map(and_line).collect();
    world.wait("all lines", || world.decisions().len() >= before + names.len());
    let lines = world.decisions().split_off(before);
    assert_eq!(lines.len(), names.len(), "one line a decision");
    let outcome = |(allowed, line): (bool, &serde_json::Value)| {
        assert_eq!(line["port"], port);
        let text = |field: &str| line[field].as_str().unwrap_or_default().to_owned();
        (allowed, text("rule"), text("reason"))
    };
    allowed.into_iter().zip(&lines).map(outcome).collect()
}

fn ask_tls(world: &World, name: &str) -> bool {
    let answer = super::wire::exchange(world, 443, &hello(name));
    let passed = answer.starts_with(b"here is");
    assert!(passed || is_unrecognized_name(&answer), "{name}: {answer:?}");
    passed
}

fn ask_http(world: &World, name: &str) -> bool {
    let mut wire = Wire::to_router(world, 80);
    wire.send(&super::wire::get(name, "/"));
    let answer = wire.rest().expect("the end");
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 200 ") || answer.contains("\"reason\""), "{name}: {answer}");
    answer.starts_with("HTTP/1.1 200 ")
}

fn compare(world: &World, names: &BTreeSet<String>, port: u16, outcomes: &[Outcome]) -> BTreeSet<String> {
    let mut allowed = 0;
    let mut reasons = BTreeSet::new();
    for (name, outcome) in names.iter().zip(outcomes) {
        let expected = decided(&world.policy, name, port);
        // Some Host headers are malformed requests before anything is decided.
        let malformed = port == 80 && outcome.2 == "bad-request" && expected.2 == "bad-host" && !outcome.0;
        assert!(malformed || *outcome == expected, "{name:?} on {port}: router {outcome:?}, decide {expected:?}");
        allowed += usize::from(outcome.0);
        reasons.insert(outcome.2.clone());
    }
    assert!(allowed > names.len() / 20, "only {allowed} of {} were allowed", names.len());
    reasons
}

#[test]
fn the_router_does_what_decide_says() {
    let world = World::start(policy());
    println!("seed {:?}, {NAMES} names", String::from_utf8_lossy(&SEED));
    let names = names();
    for (port, outcomes) in [
        (443, ask(&world, &names, 443, |name| ask_tls(&world, name))),
        (80, ask(&world, &names, 80, |name| ask_http(&world, name))),
    ] {
        let reasons = compare(&world, &names, port, &outcomes);
        for reason in [
            Reason::Allowed,
            Reason::BadHost,
            Reason::NotAllowed,
            Reason::Denied,
            Reason::AboveCeiling,
            Reason::PortNotAllowed,
        ] {
            assert!(reasons.contains(reason.code()), "{} never came up on {port}", reason.code());
        }
    }
}

#[test]
fn no_address_is_allowed_by_a_pattern_for_names() {
    let world = World::start(broad_policy());
    let addresses = ["203.0.113.10", "203.0.113.53", "203.0.113.22", "10.55.0.1", "0.0.0.0"].map(str::to_owned);
    let names: BTreeSet<String> = names().into_iter().step_by(4).chain(addresses).collect();
    // With every name allowed, only the form stands between these and a dial.
    let hostile = [
        "unix:/tmp/sandboxc/reject.sock",
        "evil.t/st",
        "evil.te_st",
        "evil.test\0",
        "evil.test\n",
        "evil.test:80",
        "127.0.0.1:80#.test",
        "[::1]",
        "::1",
        "1",
        "127.1",
        "0x7f.0.0.1",
        "2130706433",
        "evil.test ",
        "a..test",
        "-.test",
    ];
    let all = names.iter().cloned().chain(hostile.map(str::to_owned)).collect();
    compare(&world, &all, 443, &ask(&world, &all, 443, |name| ask_tls(&world, name)));
    compare(&world, &names, 80, &ask(&world, &names, 80, |name| ask_http(&world, name)));
    resolves_as_decided(&world, &names);
}

#[test]
fn the_name_server_does_what_decide_says() {
    let world = World::start(policy());
    resolves_as_decided(&world, &names());
}

fn resolves_as_decided(world: &World, names: &BTreeSet<String>) {
    let mut buffer = [0; 4096];
    let socket = dns_socket(world);
    let mut resolved = 0;
    for name in names {
        let Some(normal) = HostName::from_wire(name) else { continue };
        let allows = |port| world.policy.decide(name, port).verdict == Verdict::Allow;
        let route = world.net.tcp.iter().find(|route| route.name == normal.as_str());
        let web = (allows(443) || allows(80)).then_some(world.net.web_loopback);
        let expected: Vec<_> = route.map(|route| route.loopback).or(web).into_iter().collect();
        let query = query(name.as_bytes(), 1);
        socket.send(&query).unwrap();
        let length = socket.recv(&mut buffer).unwrap();
        let answer = read_answer(&query, &buffer[..length]);
        assert_eq!(answer.addresses, expected, "{name}");
        assert_eq!(answer.code, if expected.is_empty() { 3 } else { 0 }, "{name}");
        resolved += expected.len();
    }
    assert!(resolved > names.len() / 20, "{resolved}");
}
