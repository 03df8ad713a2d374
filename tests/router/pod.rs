//! The other modes of the program: gate and forwarder in the agent's network namespace, `ready` in the router's.

use std::fs;
use std::io::{Read as _, Write as _};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use sandboxc::router::pod_file::PodFile;
use sandboxc::router::policy_file::FORMAT;

use super::wire::Wire;
use super::world::{World, program};
use super::{policy, shared};

/// Runs a mode in the namespace of the agent's pod, or of the router's.
fn run(world: &World, inside: bool, args: &[&str]) -> Output {
    let run = || Command::new(program()).args(args).stdin(Stdio::null()).output().unwrap();
    if inside { world.as_agent(run) } else { world.as_router(run) }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The gate's file with a change.
fn pod_file(world: &World, change: impl Fn(&mut PodFile)) -> tempfile::NamedTempFile {
    let mut file = PodFile::read("pod.json", world.file("forwarder/pod.json").as_bytes()).unwrap();
    change(&mut file);
    let mut written = tempfile::NamedTempFile::new().unwrap();
    written.write_all(&serde_json::to_vec(&file).unwrap()).unwrap();
    written
}

fn gate(world: &World, inside: bool, change: impl Fn(&mut PodFile)) -> Output {
    run(world, inside, &["gate", pod_file(world, change).path().to_str().unwrap()])
}

#[test]
fn the_gate_opens_in_its_own_pod_and_for_its_own_plan_alone() {
    let world = shared();
    let open = gate(world, true, |_| ());
    assert!(open.status.success(), "{}", said(&open));
    for (inside, change, why) in [
        (false, (|_| ()) as fn(&mut PodFile), "the sandbox does not start"),
        (true, |file| file.agent = [10, 99, 99, 99].into(), "instead of 10.99.99.99"),
        (true, |file| file.internal = "10.99.99.0/29".parse().unwrap(), "route out of 10.99.99.0/29"),
        (true, |file| file.plan = "ffffffffffff".into(), "serves plan"),
        (true, |file| file.format = FORMAT + 1, "this program reads format"),
    ] {
        let shut = gate(world, inside, change);
        assert!(shut.status.code() == Some(1) && said(&shut).contains(why), "{why}: {}", said(&shut));
    }
}

#[test]
fn ready_means_that_this_plan_is_served() {
    let world = shared();
    let policy = world.path("router/policy.json");
    let ready = run(world, false, &["ready", policy.to_str().unwrap()]);
    assert!(ready.status.success(), "{}", said(&ready));
    let other = world.file("router/policy.json").replacen("\"plan\": \"", "\"plan\": \"f", 1);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(other.as_bytes()).unwrap();
    let ready = run(world, false, &["ready", file.path().to_str().unwrap()]);
    assert!(ready.status.code() == Some(1) && said(&ready).contains("serves plan"), "{}", said(&ready));
}

#[test]
fn listening_means_that_every_planned_port_is() {
    let world = shared();
    let pod = world.path("forwarder/pod.json");
    let there = run(world, true, &["listening", pod.to_str().unwrap()]);
    assert!(there.status.success(), "{}", said(&there));
    let more = pod_file(world, |file| file.web_loopback = [127, 0, 7, 7].into());
    let missing = run(world, true, &["listening", more.path().to_str().unwrap()]);
    assert!(missing.status.code() == Some(1) && said(&missing).contains("127.0.7.7:80"), "{}", said(&missing));
}

#[test]
fn what_doctor_asks_is_answered_without_another_program() {
    let world = shared();
    let routes = run(world, true, &["routes"]);
    assert!(String::from_utf8_lossy(&routes.stdout).contains("eth0"), "{routes:?}");
    let found = run(world, false, &["resolve", "203.0.113.53", "ip-203-0-113-41.example.org"]);
    assert_eq!(String::from_utf8_lossy(&found.stdout), "203.0.113.41\n", "{}", said(&found));
    for (server, name, why) in
        [("203.0.113.53", "a b", "is not a host name"), ("nowhere", "a.test", "is not an address")]
    {
        let refused = run(world, false, &["resolve", server, name]);
        assert!(refused.status.code() == Some(1) && said(&refused).contains(why), "{}", said(&refused));
    }
}

#[test]
fn a_connection_of_the_agent_has_no_hop() {
    let world = World::start(policy());
    let taken = || world.read("err").contains("router: accepts on the agent pod's own sockets");
    world.wait("the hand-over", || taken() && world.read("forwarder.log").contains("accepts connections itself"));
    let mut wire = Wire::to(&world, world.net.web_loopback.into(), 80).unwrap();
    let request = b"GET / HTTP/1.1\r\nHost: evil.test\r\nConnection: close\r\n\r\n";
    let answer = wire.send(request).rest().unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 403 "), "{}", String::from_utf8_lossy(&answer));
    assert_eq!(world.decision("host", "evil.test")["reason"], "not-allowed");
    // No connection of the agent's namespace leads to the router's address.
    let [a, b, c, d] = world.net.router_address.octets();
    let tcp = world.as_agent(|| fs::read_to_string("/proc/thread-self/net/tcp").unwrap());
    assert!(!tcp.contains(&format!(" {d:02X}{c:02X}{b:02X}{a:02X}:")), "{tcp}");
}

#[test]
fn without_a_router_that_takes_them_connections_go_over_tcp() {
    let world = shared();
    let pod = pod_file(world, |file| {
        file.web_loopback = [127, 0, 9, 9].into();
        file.tcp.clear();
    });
    let (pod, nowhere) = (pod.path().to_str().unwrap(), "/nowhere/router");
    let mut child = world.as_agent(|| {
        Command::new(program())
            .args(["forward", "--gate", pod, nowhere])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    });
    let mut passed = [0; 13];
    child.stdout.as_mut().unwrap().read_exact(&mut passed).unwrap();
    assert_eq!(&passed, b"gate: passed\n", "said once it listens");
    let mut wire = Wire::to(world, [127, 0, 9, 9].into(), 80).unwrap();
    let request = b"GET / HTTP/1.1\r\nHost: evil.test\r\nConnection: close\r\n\r\n";
    assert!(wire.send(request).rest().unwrap().starts_with(b"HTTP/1.1 403 "));
    // PID 1 or not, it ends when it is told to.
    let start = Instant::now();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143));
    assert!(start.elapsed() < Duration::from_secs(2));
    assert!(said(&output).contains("forwarder: confined: "), "{}", said(&output));
}

#[test]
fn the_program_says_what_it_is_and_what_it_can() {
    let run = |args: &[&str]| Command::new(program()).args(args).output().unwrap();
    let version = run(&["version"]);
    assert!(version.status.success());
    assert!(String::from_utf8_lossy(&version.stdout).contains(&format!("policy format {FORMAT}")));
    for args in [&[][..], &["no-such-mode"], &["router", "one"], &["gate", "--gate", "x"], &["forward", "--gate", "x"]]
    {
        let output = run(args);
        assert!(output.status.code() == Some(2) && said(&output).starts_with("usage: "), "{args:?}");
    }
    let missing = run(&["gate", "/nowhere/pod.json"]);
    assert!(missing.status.code() == Some(1) && said(&missing).starts_with("gate: /nowhere/pod.json: "));
}
