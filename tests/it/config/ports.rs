//! Which ports an entry opens: written in a config, decided by the policy, and listened on by the plan.

use std::collections::BTreeSet;

use sandboxc::plan::{Command, Keeper, PlanRequest, plan};
use sandboxc::policy::{Policy, Verdict};

use super::*;

/// The ports of hosts that the table asks about.
const PORTS: [u16; 5] = [22, 80, 443, 5432, 8443];

/// What is written, the host to ask about, and the ports that are open.
const TABLE: [(&str, &str, &[u16]); 17] = [
    ("a.example.com", "a.example.com", &[80, 443]),
    ("a.example.com:443", "a.example.com", &[443]),
    ("a.example.com:80", "a.example.com", &[80]),
    ("a.example.com:5432", "a.example.com", &[80, 443, 5432]),
    ("{host: a.example.com, ports: [443]}", "a.example.com", &[443]),
    ("{host: a.example.com, ports: [80]}", "a.example.com", &[80]),
    ("{host: a.example.com, ports: [443, 80]}", "a.example.com", &[80, 443]),
    ("{host: a.example.com, ports: [22, 5432]}", "a.example.com", &[22, 80, 443, 5432]),
    ("{host: a.example.com, ports: [443, 5432]}", "a.example.com", &[80, 443, 5432]),
    ("{host: a.example.com, ports: [443, 5432], exact: true}", "a.example.com", &[443, 5432]),
    ("{host: a.example.com, ports: [5432], exact: true}", "a.example.com", &[5432]),
    ("{host: a.example.com, ports: [5432], exact: false}", "a.example.com", &[80, 443, 5432]),
    ("{host: \"a.example.com:5432\", exact: true}", "a.example.com", &[5432]),
    (".example.com:443", "a.example.com", &[443]),
    ("{host: \"*.example.com\", ports: [80]}", "a.example.com", &[80]),
    ("{host: 203.0.113.7, ports: [22, 443]}", "203.0.113.7", &[22, 443]),
    ("{host: 203.0.113.7, ports: [22], exact: true}", "203.0.113.7", &[22]),
];

fn open(policy: &Policy, host: &str) -> Vec<u16> {
    PORTS.into_iter().filter(|port| policy.decide(host, *port).verdict == Verdict::Allow).collect()
}

/// The named ports that a plan listens on.
fn listens(world: &World) -> BTreeSet<(String, u16)> {
    let resolved = world.resolved();
    let request =
        PlanRequest { resolved: &resolved, session: "s", command: &Command::Hold, attempt: 0, keeper: Keeper::Applier };
    let routes = plan(request).unwrap().network.unwrap().tcp;
    routes.into_iter().map(|route| (route.host, route.port)).collect()
}

/// 203.0.113.0/24 is not public.
const REACHABLE: &str = "reachable: [203.0.113.0/24]";

#[test]
fn an_entry_opens_the_ports_that_it_names() {
    for (entry, host, ports) in TABLE {
        let world = repo(&format!("version: 1\nnetwork:\n  allow:\n    - {entry}\n"));
        world.server(&format!("version: 1\nnetwork: {{{REACHABLE}}}\n"));
        assert_eq!(open(&world.resolved().policy, host), ports, "{entry}");
        let named = |port: &&u16| !matches!(**port, 80 | 443) || host == "203.0.113.7";
        let routes: BTreeSet<_> = ports.iter().filter(named).map(|port| (host.to_owned(), *port)).collect();
        assert_eq!(listens(&world), routes, "{entry}");
    }
}

#[test]
fn a_ceiling_covers_the_ports_that_it_names() {
    for (entry, host, ports) in TABLE {
        let all = PORTS.map(|port| port.to_string()).join(", ");
        let world = repo(&format!("version: 1\nnetwork: {{allow: [{{host: \"{host}\", ports: [{all}]}}]}}\n"));
        world.server(&format!("version: 1\nnetwork:\n  {REACHABLE}\n  ceiling:\n    - {entry}\n"));
        assert_eq!(open(&world.resolved().policy, host), ports, "{entry}");
    }
}

#[test]
fn a_denial_is_about_the_listed_ports_or_all() {
    for (entry, left) in [
        ("a.example.com", &[][..]),
        ("a.example.com:80", &[443, 5432]),
        ("{host: a.example.com, ports: [80, 5432]}", &[443]),
        ("a.example.com:5432", &[80, 443]),
        (".example.com:443", &[80, 5432]),
    ] {
        let world = repo("version: 1\nnetwork: {allow: [\"a.example.com:5432\"]}\n");
        world.server(&format!("version: 1\nnetwork:\n  deny:\n    - {entry}\n"));
        assert_eq!(open(&world.resolved().policy, "a.example.com"), left, "{entry}");
    }
}

#[test]
fn entries_for_one_host_add_up() {
    let world = repo("version: 1\nnetwork: {allow: [\"a.example.com:443\", \"a.example.com:80\"]}\n");
    assert_eq!(open(&world.resolved().policy, "a.example.com"), [80, 443]);
    assert_eq!(world.codes(), [], "neither repeats the other");
    let world = repo("version: 1\nnetwork: {allow: [a.example.com, \"a.example.com:443\"]}\n");
    assert_eq!(world.codes(), [Code::MootRule]);
    let world = repo("version: 1\nnetwork: {allow: [\"a.example.com:443\", a.example.com]}\n");
    assert_eq!(open(&world.resolved().policy, "a.example.com"), [80, 443]);
    assert_eq!(world.codes(), []);
}

#[test]
fn an_entry_outside_the_ports_of_the_ceiling_is_moot() {
    for (ceiling, codes) in [("a.example.com:80", &[Code::MootRule][..]), ("a.example.com", &[])] {
        let world = repo("version: 1\nnetwork: {allow: [\"a.example.com:443\"]}\n");
        world.server(&format!("version: 1\nnetwork: {{ceiling: [\"{ceiling}\"]}}\n"));
        assert_eq!(world.codes(), codes, "{ceiling}");
    }
}

#[test]
fn a_permission_for_private_addresses_covers_its_own_ports() {
    for (own, fits) in [("db.corp.example", true), ("db.corp.example:443", true), ("db.corp.example:80", false)] {
        let world = repo("version: 1\nnetwork: {allow: [{host: \"db.corp.example:443\", private: true}]}\n");
        world.server(&format!("version: 1\nnetwork: {{allow: [{{host: \"{own}\", private: true}}]}}\n"));
        assert_eq!(world.codes().is_empty(), fits, "{own}");
    }
}

#[test]
fn rules_about_requests_may_name_a_web_port() {
    let world = repo("version: 1\nnetwork: {allow: [{host: a.example.com, ports: [443], methods: [GET]}]}\n");
    assert_eq!(open(&world.resolved().policy, "a.example.com"), [443]);
    let world = repo("version: 1\nnetwork: {allow: [{host: a.example.com, ports: [8443], methods: [GET]}]}\n");
    assert_eq!(world.codes(), [Code::NotEnforceable]);
}
