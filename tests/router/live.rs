//! A new policy while the router runs.

use std::fs;
use std::time::{Duration, Instant};

use sandboxc::policy::{Policy, RuleSet};
use sandboxc::router::PolicyFile;

use super::h2::{END_STREAM, H2, pseudo};
use super::hello::{hello, is_unrecognized_name};
use super::inspected::{request, with_requests};
use super::secure::Secure;
use super::wire::{Wire, dns, exchange, get, http};
use super::world::World;

/// Puts another policy in place, as its owner would: written whole, and renamed.
fn replace(world: &World, text: &[u8]) {
    let (new, file) = (world.path("router/policy.new"), world.path("router/policy.json"));
    fs::write(&new, text).unwrap();
    fs::rename(new, file).unwrap();
}

fn change(world: &World, change: impl Fn(&mut PolicyFile)) {
    let text = fs::read(world.path("router/policy.json")).unwrap();
    let mut file = PolicyFile::read(&text).unwrap();
    change(&mut file);
    replace(world, &serde_json::to_vec(&file).unwrap());
}

fn without(policy: &Policy, pattern: &str) -> RuleSet {
    RuleSet::new(policy.allow.rules().iter().filter(|rule| rule.pattern.to_string() != pattern).cloned().collect())
}

#[test]
fn a_new_policy_holds_within_a_second_and_ends_what_it_does_not_allow() {
    let world = World::start(super::policy());
    let open = |name: &str| {
        let mut wire = Wire::to_router(&world, 443);
        wire.send(&hello(name)).until("here is");
        wire
    };
    let (mut kept, mut cut) = (open("api.example.com"), open("x.suffix.example.com"));
    let db = world.net.tcp.iter().find(|route| route.port == 5432 && route.host == "db.example.com").unwrap();
    let mut named = Wire::to_router(&world, db.router_port);
    named.until("\n");
    let started = Instant::now();
    change(&world, |file| {
        file.policy.allow = without(&file.policy, ".suffix.example.com");
        file.policy.deny = crate::fixture::rules("server.deny", &["db.example.com"]);
    });
    assert!(cut.rest().is_some() && named.rest().is_some(), "what is not allowed any more is closed");
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    kept.send(b"still here").until("still here");
    assert!(is_unrecognized_name(&exchange(&world, 443, &hello("x.suffix.example.com"))));
    assert!(http(&world, &get("x.suffix.example.com", "/")).starts_with("HTTP/1.1 403 "));
    assert!(http(&world, &get("api.example.com", "/")).starts_with("HTTP/1.1 200 "));
    // And what is new is allowed.
    change(&world, |file| {
        let new = crate::fixture::rules("repo.allow", &["new.example.com"]);
        file.policy.allow = RuleSet::new(file.policy.allow.rules().iter().chain(new.rules()).cloned().collect());
    });
    world.wait("the new host", || exchange(&world, 443, &hello("new.example.com")).starts_with(b"here is"));
}

#[test]
fn a_file_that_is_no_policy_changes_nothing_and_is_told() {
    let world = World::start(super::policy());
    let good = fs::read_to_string(world.path("router/policy.json")).unwrap();
    for (number, bad) in ["", "{", "{\"format\": 1}", &good.replace("\"allow\"", "\"alow\"")].into_iter().enumerate() {
        replace(&world, bad.as_bytes());
        world.wait("the complaint", || world.read("err").matches("kept the old policy").count() == number + 1);
        assert!(exchange(&world, 443, &hello("api.example.com")).starts_with(b"here is"), "{bad:.40}");
    }
    // Nor does one that would serve somebody else.
    replace(&world, good.as_bytes());
    change(&world, |file| file.listen.agent = [203, 0, 113, 1].into());
    world.wait("the complaint", || world.read("err").contains("`listen` cannot change while the router runs"));
    assert!(exchange(&world, 443, &hello("api.example.com")).starts_with(b"here is"));
}

#[test]
fn requests_of_a_connection_that_is_open_are_asked_against_the_new_policy() {
    let world = World::start(super::inspected::policy());
    let host = "open.secure.test";
    let mut secure = Secure::to(&world, host);
    let mut idle = Secure::to(&world, "capped.secure.test");
    let ask = |secure: &mut Secure| secure.send(format!("GET /x HTTP/1.1\r\nHost: {host}\r\n\r\n")).answer();
    assert!(ask(&mut secure).starts_with("HTTP/1.1 200 "));
    change(&world, |file| {
        let narrow = with_requests("repo.allow", &[(host, Some(request("GET", "/y")))]);
        let keep =
            file.policy.allow.rules().iter().filter(|rule| {
                !["open.secure.test", "capped.secure.test"].contains(&rule.pattern.to_string().as_str())
            });
        file.policy.allow = RuleSet::new(keep.chain(narrow.rules()).cloned().collect());
    });
    assert!(idle.rest().is_empty(), "an idle connection of a host that is gone ends");
    let answer = ask(&mut secure);
    assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("path-not-allowed"), "{answer}");
}

#[test]
fn answers_under_way_end_where_their_requests_are_no_longer_allowed() {
    let world = World::start(super::inspected::policy());
    let head = |host: &str, path: &str| format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let open = |host: &str| {
        let mut secure = Secure::to(&world, host);
        secure.send(head(host, "/sse/100/0.1")).until("data: 1");
        secure
    };
    let (mut cut, mut kept) = (open("open.secure.test"), open("x.any.secure.test"));
    let mut plain = Wire::to_router(&world, 80);
    plain.send(head("plain.example.com", "/sse/100/0.1").as_bytes()).until("data: 1");
    let mut socket = Secure::to(&world, "open.secure.test");
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\
                   Sec-WebSocket-Version: 13\r\n\r\n";
    socket.send(head("open.secure.test", "/ws").replace("\r\n\r\n", &format!("\r\n{upgrade}"))).until("\r\n\r\n");
    let started = Instant::now();
    change(&world, |file| {
        let ws = with_requests("repo.allow", &[("open.secure.test", Some(request("GET", "/other")))]);
        let gone = ["open.secure.test", "plain.example.com"];
        let keep = file.policy.allow.rules().iter().filter(|rule| !gone.contains(&rule.pattern.to_string().as_str()));
        file.policy.allow = RuleSet::new(keep.chain(ws.rules()).cloned().collect());
    });
    // Each would go on for ten seconds.
    assert!(plain.rest().is_some());
    cut.rest();
    socket.rest();
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    kept.until("data: 30");
}

#[test]
fn an_http2_stream_under_way_is_reset_where_its_host_is_withdrawn() {
    let world = World::start(super::inspected::policy());
    let open = |host: &str| {
        let mut h2 = H2::to(&world, host);
        h2.head(1, END_STREAM, &pseudo("GET", host, "/sse/40/0.1"));
        h2.until("data: 1");
        h2
    };
    let (mut cut, mut kept) = (open("open.secure.test"), open("x.any.secure.test"));
    let started = Instant::now();
    change(&world, |file| file.policy.allow = without(&file.policy, "open.secure.test"));
    let rest = cut.answer(1);
    assert!(!rest.whole && started.elapsed() < Duration::from_secs(2), "{:?}: {}", started.elapsed(), rest.body);
    let rest = kept.answer(1);
    assert!(rest.body.contains("data: 39"), "{}", rest.body);
    // Nor is another stream served there.
    assert!(Secure::try_to(&world, "open.secure.test", &["h2"]).is_err());
}

/// Adds `host:port`, as a plan with it would have it.
fn add_named(file: &mut PolicyFile, host: &str, port: u16, loopback: [u8; 4]) {
    let entry = format!("{host}:{port}");
    let new = crate::fixture::rules("repo.allow", &[&entry]);
    file.policy.allow = RuleSet::new(file.policy.allow.rules().iter().chain(new.rules()).cloned().collect());
    let mut route = file.tcp[0].clone();
    (route.host, route.name, route.port) = (host.to_owned(), host.to_owned(), port);
    (route.loopback, route.router_port) = (loopback.into(), 30_000 + port);
    file.tcp.push(route);
}

#[test]
fn a_new_named_port_is_served_within_a_second_and_nothing_is_cut() {
    let world = World::start(super::policy());
    world.wait("the hand-over", || world.read("forwarder.log").contains("accepts connections itself"));
    let db = world.net.tcp.iter().find(|route| route.port == 5432 && route.host == "db.example.com").unwrap();
    let mut kept = Wire::to(&world, db.loopback.into(), 5432).unwrap();
    kept.until("here is");
    let loopback = [127, 0, 77, 1];
    assert!(Wire::to(&world, loopback.into(), 22).is_err(), "nobody listens yet");
    assert_eq!(dns(&world, "new.example.com", 1).code, 3);
    let started = Instant::now();
    // Below 1024, which needs a capability; and another port of a host that has one.
    change(&world, |file| {
        add_named(file, "new.example.com", 22, loopback);
        add_named(file, "db.example.com", 22, db.loopback.octets());
    });
    world.wait("the new policy", || world.read("err").contains("router: a new policy is in force\n"));
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    assert_eq!(dns(&world, "new.example.com", 1).addresses, [std::net::Ipv4Addr::from(loopback)]);
    for (address, host) in [(loopback.into(), "new.example.com"), (db.loopback, "db.example.com")] {
        assert_eq!(Wire::to(&world, address.into(), 22).unwrap().until("\n"), "here is 203.0.113.10:22\n", "{host}");
        let line = world.first_decision(|line| line["host"] == host && line["port"] == 22);
        assert_eq!((&line["tier"], &line["verdict"]), (&"tcp".into(), &"allow".into()), "{line}");
    }
    // Web ports are there as on every such address, and what was open goes on.
    let mut web = Wire::to(&world, std::net::IpAddr::from(loopback), 80).unwrap();
    assert!(web.send(&get("api.example.com", "/")).end().until("\r\n").starts_with("HTTP/1.1 200 "));
    kept.send(b"still here").until("still here");
    // A port that goes again is denied.
    change(&world, |file| {
        file.tcp.retain(|route| route.host != "new.example.com");
        file.policy.allow = without(&file.policy, "new.example.com");
    });
    world.wait("the third policy", || world.read("err").matches("router: a new policy is in force\n").count() == 2);
    assert!(Wire::to(&world, loopback.into(), 22).unwrap().rest().is_some_and(|said| said.is_empty()));
    kept.send(b"and here").until("and here");
}

#[test]
fn a_named_port_that_cannot_be_listened_for_changes_nothing_and_is_told() {
    let world = World::start(super::policy());
    world.wait("the hand-over", || world.read("forwarder.log").contains("accepts connections itself"));
    let loopback = std::net::Ipv4Addr::new(127, 0, 77, 2);
    let _other = world.as_agent(|| std::net::TcpListener::bind((loopback, 9999)).unwrap());
    change(&world, |file| add_named(file, "new.example.com", 9999, loopback.octets()));
    world.wait("the complaint", || {
        let said = world.read("err");
        said.contains("kept the old policy")
            && said.contains("cannot listen on 127.0.77.2:9999: Address already in use")
    });
    assert!(exchange(&world, 443, &hello("api.example.com")).starts_with(b"here is"));
    assert_eq!(dns(&world, "new.example.com", 1).code, 3);
    // Nor can it be where the forwarder has not handed its sockets over.
    let apart = World::start_apart(super::policy());
    change(&apart, |file| add_named(file, "new.example.com", 9999, [127, 0, 77, 3]));
    apart.wait("the complaint", || {
        apart.read("err").contains("nothing listens for its new named ports: router and forwarder share no volume")
    });
}

#[test]
fn what_was_fixed_at_the_start_does_not_change() {
    let world = World::start(super::policy());
    let complaint = |change_it: &dyn Fn(&mut PolicyFile), said: &str| {
        change(&world, change_it);
        world.wait(said, || world.read("err").contains(said));
        assert!(exchange(&world, 443, &hello("api.example.com")).starts_with(b"here is"));
    };
    let good = fs::read(world.path("router/policy.json")).unwrap();
    let taken = |file: &mut PolicyFile| {
        let mut route = file.tcp[0].clone();
        (route.host, route.name) = ("other.example.com".to_owned(), "other.example.com".to_owned());
        file.tcp.push(route);
    };
    complaint(&taken, "needs a loopback address of its own");
    replace(&world, &good);
    let elsewhere = |file: &mut PolicyFile| file.tcp[0].loopback = world.net.agent_address;
    complaint(&elsewhere, "needs a loopback address of its own");
    replace(&world, &good);
    let credential = |file: &mut PolicyFile| {
        file.policy.credentials = vec![super::masking::masked("NEW", "api.example.com", "authorization")];
    };
    complaint(&credential, "`policy.credentials` cannot change while the router runs");
    replace(&world, &good);
    // The same ports by other lines of the config are the same.
    change(&world, |file| file.tcp.iter_mut().for_each(|route| route.from.line += 7));
    world.wait("the new policy", || world.read("err").ends_with("router: a new policy is in force\n"));
    let db = world.net.tcp.iter().find(|route| route.port == 5432 && route.host == "db.example.com").unwrap();
    Wire::to_router(&world, db.router_port).until("here is");
}
