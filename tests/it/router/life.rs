//! Start and end of the router's processes.

use std::process::Command;
use std::time::{Duration, Instant};

use sandboxc::emit;

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
fn if_one_process_ends_all_end() {
    for victim in ["dns.conf", "resolver.conf", "resolver-private.conf", "nginx: master"] {
        let Some(world) = World::start(super::policy()) else { return };
        let found = world.processes(victim);
        assert_eq!(found.len(), 1, "{victim}");
        let (all, workers) = (world.processes(""), world.processes("nginx: worker"));
        signal(found[0], "KILL");
        assert_eq!(exit_code(&world), "1", "{victim}");
        // A zombie has ended; who is to reap it is another question.
        let alive =
            |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
        // A worker whose master was killed ends with the container alone, whose first process is the script.
        let rest: Vec<u32> =
            all.into_iter().filter(|pid| victim != "nginx: master" || !workers.contains(pid)).collect();
        world.wait(&format!("all others' end after {victim}, {rest:?}"), || !rest.iter().any(alive));
    }
}

#[test]
fn term_ends_it_quickly() {
    let Some(world) = World::start(super::policy()) else { return };
    let started = Instant::now();
    signal(world.entry_pid(), "TERM");
    assert_eq!(exit_code(&world), "143");
    assert!(started.elapsed() < Duration::from_millis(1500), "{:?}", started.elapsed());
}

#[test]
fn ready_says_what_is_missing_and_gives_up() {
    let Some(world) = World::start(super::policy()) else { return };
    // In the agent's namespace nothing of the router listens.
    let script = world.file("router/entry.sh").replace("-gt 400", "-gt 2");
    let output = world.as_agent(|| Command::new("sh").args(["-c", &script, "entry.sh", "ready"]).output().unwrap());
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("router: nothing listens on udp "), "{said}");
}

#[test]
fn without_the_sessions_certificates_it_does_not_start() {
    let Some(world) = World::start(super::inspected::policy()) else { return };
    let script = world.file("router/entry.sh");
    let run = |materials: &str| {
        let script = script.replace("/run/sandboxc/", materials);
        world.as_agent(|| Command::new("sh").args(["-c", &script, "entry.sh"]).output().unwrap())
    };
    let materials = world.directory().join("materials");
    for missing in ["", "upstream.pem", "tls/api.secure.test.pem", "tls/_.any.secure.test.pem"] {
        let partial = world.directory().join("partial");
        let copy = Command::new("cp").arg("-r").arg(&materials).arg(&partial).status().unwrap();
        assert!(copy.success());
        if missing.is_empty() {
            std::fs::remove_dir_all(&partial).unwrap();
        } else {
            std::fs::write(partial.join(missing), "").unwrap();
        }
        let output = run(&format!("{}/", partial.display()));
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{missing}: {said}");
        let first = if missing.is_empty() { "upstream.pem" } else { missing };
        assert!(said.starts_with("router: ") && said.contains(&format!("/{first} is missing")), "{said}");
        assert_eq!(said.lines().count(), 1, "nothing was started: {said}");
        let _ = std::fs::remove_dir_all(&partial);
    }
}

#[test]
fn the_gate_opens_only_where_the_sessions_network_is_all_there_is() {
    let Some(world) = World::start(super::policy()) else { return };
    let gate = world.file("forwarder/gate.sh");
    let run = |change: &str| {
        let script = format!("set -e; {change}\n{gate}");
        // In a copy of the namespace's state it cannot be undone, so each change has its own undoing.
        let output = world.as_agent(|| Command::new("sh").args(["-c", &script]).output().unwrap());
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    let router = world.net.router_address;
    assert_eq!(run(""), (true, String::new()));
    for (change, undo, why) in [
        (format!("ip route add default via {router}"), "ip route del default", "default route"),
        (format!("ip route add 198.51.100.0/24 via {router}"), "ip route del 198.51.100.0/24", "route out of"),
        ("ip route add 0.0.0.0/1 dev eth0".to_owned(), "ip route del 0.0.0.0/1", "route out of"),
        ("ip address add 198.51.100.9/32 dev lo".to_owned(), "ip address del 198.51.100.9/32 dev lo", "the address 198.51.100.9"),
        (
            "ip link add other type veth peer name peer; echo 0 >/proc/sys/net/ipv6/conf/other/disable_ipv6; ip -6 address add fd00::1/64 dev other; ip link set other up; ip link set peer up".to_owned(),
            "ip link del other",
            "IPv6 route",
        ),
    ] {
        let (passed, said) = run(&change);
        assert!(!passed && said.contains(why) && said.lines().count() == 1, "{change}: {said}");
        assert_eq!(run(undo), (true, String::new()), "after {undo}");
    }
    let elsewhere = Command::new("unshare").args(["--net", "sh", "-c", &gate]).output().unwrap();
    assert!(!elsewhere.status.success(), "no network at all");
}

#[test]
fn a_full_router_closes_what_comes_harms_nobody_and_serves_again() {
    let few =
        |file: &mut emit::File| file.text = file.text.replace("worker_connections 1024;", "worker_connections 40;");
    let Some(world) = World::start_edited(super::policy(), &["203.0.113.53"], few) else { return };
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
    assert!((4..40).contains(&served), "{served}");
    assert!(world.read("err").contains("worker_connections are not enough"));
    // None gets past without a decision, and those that are served go on.
    let denied = exchange(&world, 443, &hello("evil.test"));
    assert!(!String::from_utf8_lossy(&denied).contains("here is"));
    for (wire, _) in held.iter_mut().filter(|(_, served)| *served) {
        wire.send(b"still there").until("still there");
    }
    held.clear();
    world.wait("a place", || exchange(&world, 443, &hello("api.example.com")).starts_with(b"here is "));
}
