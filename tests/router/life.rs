//! Start and end of the router's processes.

use std::process::Command;
use std::time::{Duration, Instant};

use super::hello::hello;
use super::wire::{Wire, exchange};
use super::world::World;

fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args(["-s", name, &pid.to_string()]).status().unwrap().success());
}

fn exit_code(world: &World) -> String {
    world.wait("the router's end", || !world.read("router.exit").is_empty());
    world.read("router.exit").trim().to_owned()
}

#[test]
fn term_ends_it_quickly() {
    let world = World::start(super::policy());
    let started = Instant::now();
    signal(world.pid(), "TERM");
    assert_eq!(exit_code(&world), "143");
    assert!(started.elapsed() < Duration::from_millis(1500), "{:?}", started.elapsed());
}

#[test]
fn without_what_it_enforces_it_does_not_start() {
    let world = World::start(super::masking::policy());
    let whole = world.directory();
    let run = |policy: &std::path::Path, secrets: &std::path::Path| {
        let output = Command::new(super::world::program())
            .arg("router")
            .args([policy, secrets])
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for missing in ["policy.json", "ca.pem", "upstream.pem", "credentials.json"] {
        for empty in [false, true] {
            let partial = tempfile::tempdir().unwrap();
            let mut copy = Command::new("cp");
            copy.arg("-r").args([whole.join("router"), whole.join("materials")]).arg(partial.path());
            assert!(copy.status().unwrap().success());
            let [policy, secrets] = ["router/policy.json", "materials"].map(|name| partial.path().join(name));
            let file = if missing == "policy.json" { policy.clone() } else { secrets.join(missing) };
            if empty {
                std::fs::write(&file, "").unwrap();
            } else {
                std::fs::remove_file(&file).unwrap();
            }
            let (code, said) = run(&policy, &secrets);
            assert_eq!(code, Some(1), "{missing}: {said}");
            assert!(said.starts_with("router: ") && said.contains(missing), "{missing}: {said}");
            assert_eq!(said.lines().count(), 1, "nothing was started: {said}");
        }
    }
}

#[test]
fn a_full_router_closes_what_comes_harms_nobody_and_serves_again() {
    let world = World::start_limited(super::policy(), |limits| limits.connections = 20);
    let mut held: Vec<(Wire, bool)> = Vec::new();
    for _ in 0..60 {
        let mut wire = Wire::to_router(&world, 443);
        let mut first = [0; 8];
        let served = std::io::Read::read_exact(&mut wire.send(&hello("api.example.com")).0, &mut first).is_ok();
        assert!(!served || &first == b"here is ", "{first:?}");
        held.push((wire, served));
    }
    let served = held.iter().filter(|(_, served)| *served).count();
    println!("{served} of {} are served", held.len());
    assert_eq!(served, 20);
    let line = world.decision("reason", "router-full");
    assert_eq!(
        (&line["verdict"], &line["tier"], &line["status"]),
        (&"deny".into(), &"passthrough".into(), &503.into())
    );
    // None gets past without a decision, and those that are served go on.
    let denied = exchange(&world, 443, &hello("evil.test"));
    assert!(!String::from_utf8_lossy(&denied).contains("here is"));
    for (wire, _) in held.iter_mut().filter(|(_, served)| *served) {
        wire.send(b"still there").until("still there");
    }
    held.clear();
    world.wait("a place", || exchange(&world, 443, &hello("api.example.com")).starts_with(b"here is "));
}

#[test]
fn heads_that_do_not_end_take_what_they_may_and_no_more() {
    let world = World::start_limited(super::policy(), |limits| limits.waiting_heads = 150_000);
    let half = format!("GET / HTTP/1.1\r\nHost: api.example.com\r\nX: {}", "x".repeat(60_000));
    let mut held: Vec<Wire> = Vec::new();
    for _ in 0..4 {
        let mut wire = Wire::to_router(&world, 80);
        wire.send(half.as_bytes());
        held.push(wire);
    }
    let line = world.first_decision(|line| line["reason"] == "router-full");
    assert_eq!((&line["status"], &line["verdict"]), (&503.into(), &"deny".into()));
    // Small ones are served all the same, and large ones when there is room again.
    assert!(super::wire::http(&world, &super::wire::get("api.example.com", "/")).starts_with("HTTP/1.1 200 "));
    held.clear();
    let large = format!("{half}\r\nConnection: close\r\n\r\n");
    world.wait("room", || super::wire::http(&world, large.as_bytes()).starts_with("HTTP/1.1 200 "));
}
