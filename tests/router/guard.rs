//! The address guard: an allowed name that leads to a special-purpose address is refused, unless its entry permits it.

use serde_json::Value;

use super::hello::hello;
use super::shared;
use super::wire::{Wire, exchange, get, http, json};
use super::world::World;

fn upstream_of(world: &World, name: &str) -> Option<String> {
    let answer = String::from_utf8_lossy(&exchange(world, 443, &hello(name))).into_owned();
    answer.strip_prefix("here is ").map(|rest| rest.lines().next().unwrap_or_default().to_owned())
}

fn assert_refused(world: &World, name: &str) -> Value {
    assert_refused_for(world, name, "address-refused")
}

fn assert_refused_for(world: &World, name: &str, reason: &str) -> Value {
    assert_eq!(upstream_of(world, name), None, "{name}");
    let decision = world.decision("host", name);
    assert_eq!((&decision["verdict"], &decision["reason"]), (&"deny".into(), &reason.into()), "{decision}");
    assert_eq!(decision["upstream"], "");
    decision
}

//
#[test]
fn a_name_that_leads_to_a_special_address_is_refused() {
    let world = shared();
    for address in [
        "10-55-0-1",
        "127-0-0-1",
        "169-254-169-254",
        "100-100-100-200",
        "198-18-0-1",
        "192-168-7-7",
        "172-16-9-9",
        "0-0-0-0",
        "224-0-0-1",
        "255-255-255-255",
        "192-0-0-1",
    ] {
        let decision = assert_refused(world, &format!("ip-{address}.suffix.example.com"));
        assert_eq!(decision["rule"], "repo.allow[1]", "the rule that allowed the name");
    }
    assert_eq!(upstream_of(world, "ip-203-0-113-10.suffix.example.com").as_deref(), Some("203.0.113.10:443"));
}

#[test]
fn a_mixed_answer_and_one_by_way_of_another_name_are_refused_as_a_whole() {
    let world = shared();
    assert_refused(world, "ip-203-0-113-10-and-10-55-0-1.suffix.example.com");
    assert_refused(world, "ip-10-55-0-1-and-203-0-113-10.suffix.example.com");
    assert_refused(world, "cname-10-55-0-1.suffix.example.com");
    assert_refused_for(world, "nx.guard.suffix.example.com", "no-address");
    assert_refused_for(world, "v6only.guard.suffix.example.com", "no-address");
    assert_eq!(upstream_of(world, "cname-203-0-113-10.suffix.example.com").as_deref(), Some("203.0.113.10:443"));
    assert!(upstream_of(world, "ip-203-0-113-10-and-203-0-113-22.suffix.example.com").is_some());
}

#[test]
fn a_name_that_changes_its_mind_is_judged_at_each_lookup() {
    let world = shared();
    let name = "rebind-10-55-0-1.suffix.example.com";
    assert_eq!(upstream_of(world, name).as_deref(), Some("203.0.113.10:443"));
    // Within the second of its lookup an answer of TTL 0 is used again: the address that was judged.
    std::thread::sleep(std::time::Duration::from_millis(2100));
    assert_eq!(upstream_of(world, name), None);
    assert_eq!(upstream_of(world, name), None);
}

#[test]
fn the_sessions_own_networks_are_never_reached() {
    let world = shared();
    let own = [world.net.router_address, world.net.agent_address, world.net.egress.hosts().next().unwrap()];
    for address in own {
        let label = address.to_string().replace('.', "-");
        assert_refused(world, &format!("ip-{label}.own.suffix.example.com"));
        assert_refused(world, &format!("ip-{label}.own.private.example.com"));
    }
    assert_refused(world, "ip-127-0-0-1.own.private.example.com");
    assert_refused(world, "ip-169-254-1-2.own.private.example.com");
}

#[test]
fn private_entries_and_reachable_ranges_open_what_they_say() {
    let world = shared();
    for address in ["10.55.0.1", "192.168.7.7", "100.100.100.200", "203.0.113.10"] {
        let name = format!("ip-{}.private.example.com", address.replace('.', "-"));
        assert_eq!(upstream_of(world, &name), Some(format!("{address}:443")));
        let answer = http(world, &get(&name, "/"));
        assert!(answer.contains(&format!("\r\n\r\n{address}:80\n")), "{answer}");
    }
    // 10.66.0.0/16 is reachable for every name, its neighbour is not.
    assert_eq!(upstream_of(world, "ip-10-66-0-1.suffix.example.com").as_deref(), Some("10.66.0.1:443"));
    assert_refused(world, "ip-10-67-0-1.suffix.example.com");
}

// One reason for each cause, with the hint that helps: a private entry only opens private addresses.
#[test]
fn each_cause_of_no_connection_has_its_own_reason() {
    let world = shared();
    let started = std::time::Instant::now();
    for (label, reason, said) in [
        ("v6", "ipv6-only", "IPv6"),
        ("v6only", "no-address", "no address"),
        ("nx", "no-address", "does not exist"),
        ("refused", "resolver-failed", "REFUSED"),
        ("silent", "resolver-failed", "no resolver responded"),
        ("ip-10-55-0-1", "address-refused", "10.55.0.1"),
        ("ip-203-0-113-53", "upstream-failed", "refused"),
    ] {
        let name = format!("{label}.cause.suffix.example.com");
        let answer = http(world, &get(&name, "/"));
        assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
        let body = json(&answer);
        assert_eq!(body["reason"], reason, "{answer}");
        let hint = body["hint"].as_str().unwrap();
        assert!(hint.contains(said), "{label}: {hint}");
        assert_eq!(hint.contains("private: true"), reason == "address-refused", "{label}: {hint}");
        assert_eq!(world.decision("host", &name)["reason"], reason);
    }
    assert!(started.elapsed() < std::time::Duration::from_secs(10), "silence is not 15 s: {:?}", started.elapsed());
}

#[test]
fn port_80_says_why() {
    let world = shared();
    let answer = http(world, &get("ip-10-55-0-1.web.suffix.example.com", "/"));
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    let body = json(&answer);
    assert_eq!((&body["reason"], &body["rule"]), (&"address-refused".into(), &"repo.allow[1]".into()));
    let decision = world.decision("host", "ip-10-55-0-1.web.suffix.example.com");
    assert_eq!((&decision["verdict"], &decision["reason"]), (&"deny".into(), &"address-refused".into()));
    // Nobody listens there, but it may be reached.
    let answer = http(world, &get("ip-203-0-113-53.web.suffix.example.com", "/"));
    assert_eq!(json(&answer)["reason"], "upstream-failed", "{answer}");
    let decision = world.decision("host", "ip-203-0-113-53.web.suffix.example.com");
    assert_eq!((&decision["verdict"], &decision["reason"]), (&"deny".into(), &"upstream-failed".into()));
    assert_eq!((&decision["status"], &decision["upstream"]), (&502.into(), &"203.0.113.53:80".into()));
    // A server that says so itself has answered.
    for status in [502, 503, 504] {
        let path = format!("/status/{status}/own");
        let answer = http(world, &get("own.web.suffix.example.com", &path));
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")) && answer.ends_with("\r\n\r\nown"), "{answer}");
        let decision = world.decision("path", &path);
        assert_eq!((&decision["verdict"], &decision["reason"]), (&"allow".into(), &"allowed".into()), "{decision}");
        assert_eq!(decision["status"], status);
    }
}

#[test]
fn passthrough_says_that_nobody_answered() {
    let world = shared();
    for (name, verdict, reason) in [
        ("ip-203-0-113-53.gone.suffix.example.com", "deny", "upstream-failed"),
        ("ip-203-0-113-10.here.suffix.example.com", "allow", "allowed"),
    ] {
        assert_eq!(upstream_of(world, name).is_some(), verdict == "allow", "{name}");
        let decision = world.decision("host", name);
        assert_eq!((&decision["verdict"], &decision["reason"]), (&verdict.into(), &reason.into()), "{decision}");
        assert_eq!(
            decision["upstream"],
            format!("{}:443", if verdict == "allow" { "203.0.113.10" } else { "203.0.113.53" })
        );
    }
}

#[test]
fn named_ports_are_guarded_too() {
    let world = shared();
    for (host, open) in [("ip-10-55-0-1.example.org", true), ("ip-10-55-0-1.example.net", false)] {
        let route = world.net.tcp.iter().find(|route| route.host == host).unwrap();
        let answer = Wire::to_router(world, route.router_port).send(b"x").end().rest().unwrap();
        assert_eq!(answer.starts_with(b"here is 10.55.0.1:5432\n"), open, "{host}");
        let decision = world.decision("host", host);
        assert_eq!(decision["verdict"], if open { "allow" } else { "deny" });
        assert_eq!(decision["reason"], if open { "allowed" } else { "address-refused" });
    }
}

#[test]
fn without_reachable_ranges_documentation_addresses_are_refused_as_well() {
    let policy = sandboxc::policy::Policy { reachable: Vec::new(), ..super::policy() };
    let addresses =
        sandboxc::policy::Policy { allow: crate::fixture::rules("repo.allow", &["api.example.com"]), ..policy };
    let world = World::start(addresses);
    assert_refused(&world, "api.example.com");
}

//
#[test]
fn resolvers_are_asked_in_their_order_and_a_dead_one_is_passed_over() {
    let policy = || sandboxc::policy::Policy { reachable: vec!["203.0.113.0/24".parse().unwrap()], ..super::policy() };
    let world = World::start_with(policy(), &["203.0.113.54", "203.0.113.53"]);
    for number in 0..20 {
        assert!(upstream_of(&world, &format!("order{number}.suffix.example.com")).is_some());
    }
    let asked = world.read("dns.log");
    assert_eq!(asked.lines().filter(|line| line.ends_with(" 203.0.113.54")).count(), 20, "{asked}");
    assert!(!asked.contains(" 203.0.113.53"), "{asked}");

    // One that never answers, and one where nobody listens.
    for dead in ["203.0.113.55", "203.0.113.22"] {
        let world = World::start_with(policy(), &[dead, "203.0.113.53"]);
        let started = std::time::Instant::now();
        assert!(upstream_of(&world, "dead.suffix.example.com").is_some(), "{dead}");
        println!("past {dead} in {:?}", started.elapsed());
    }
}
