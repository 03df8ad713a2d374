//! The agent's name server: allowed names to loopback, everything else NXDOMAIN, nothing forwarded.

use std::net::Ipv4Addr;

use super::shared;
use super::wire::{Answer, Wire, dns, query, read_answer};

const A: u16 = 1;
const TYPES: [(&str, u16); 15] = [
    ("NS", 2),
    ("CNAME", 5),
    ("SOA", 6),
    ("NULL", 10),
    ("PTR", 12),
    ("MX", 15),
    ("TXT", 16),
    ("AAAA", 28),
    ("SRV", 33),
    ("NAPTR", 35),
    ("DS", 43),
    ("DNSKEY", 48),
    ("SVCB", 64),
    ("HTTPS", 65),
    ("CAA", 257),
];

fn is_nxdomain(answer: &Answer) -> bool {
    answer.code == 3 && answer.records == 0
}

#[test]
fn allowed_names_resolve_to_the_loopback_where_the_forwarder_listens() {
    let world = shared();
    let web = vec![world.net.web_loopback];
    for name in [
        "api.example.com",
        "suffix.example.com",
        "a.b.suffix.example.com",
        "x.subs.example.com",
        "x.evil.suffix.example.com",
    ] {
        assert_eq!(dns(world, name, A).addresses, web, "{name}");
    }
    for route in &world.net.tcp {
        assert_eq!(dns(world, &route.name, A).addresses, [route.loopback], "{}", route.name);
    }
    // Denied on 80, allowed on 443.
    assert_eq!(dns(world, "web.suffix.example.com", A).addresses, web);
    assert_eq!(dns(world, "localhost", A).addresses, [Ipv4Addr::LOCALHOST]);
    for name in [
        "evil.suffix.example.com",
        "a.worse.suffix.example.com",
        "subs.example.com",
        "x.api.example.com",
        "example.com",
        "com",
        "evil.test",
        "x.db.example.com",
    ] {
        assert!(is_nxdomain(&dns(world, name, A)), "{name}");
    }
}

//
#[test]
fn other_types_of_an_allowed_name_are_empty_not_missing() {
    let world = shared();
    for name in ["api.example.com", "a.suffix.example.com", "db.example.com", "localhost"] {
        for (kind, number) in TYPES {
            let answer = dns(world, name, number);
            assert_eq!((answer.code, answer.records), (0, 0), "{kind} {name}");
        }
    }
}

//
#[test]
fn no_type_of_any_other_name_leaves() {
    let world = shared();
    let long = "0123456789abcdef".repeat(3);
    for (kind, number) in TYPES.into_iter().chain([("A", 1), ("ANY", 255), ("AXFR", 252)]) {
        for name in [
            format!("{long}.r32.evil.test"),
            format!("{long}.worse.suffix.example.com"),
            "10.113.0.203.in-addr.arpa".to_owned(),
        ] {
            let answer = dns(world, &name, number);
            assert!(is_nxdomain(&answer) || answer.code == 4, "{kind} {name}: {answer:?}");
        }
    }
    for name in ["version.bind", "hostname.bind", "authors.bind"] {
        assert_eq!(dns(world, name, 16).records, 0, "{name}");
    }
    let asked = world.read("dns.log");
    assert!(!asked.contains("r32") && !asked.contains("worse") && !asked.contains("arpa"), "{asked}");
}

//
#[test]
fn the_answer_keeps_the_querys_case() {
    let world = shared();
    for name in ["aPi.ExAmPlE.cOm", "API.EXAMPLE.COM", "api.example.com."] {
        let answer = dns(world, name, A);
        assert_eq!(answer.addresses, [world.net.web_loopback], "{name}");
        let sent = query(name.as_bytes(), A);
        assert_eq!(answer.question, sent[12..], "{name}");
    }
    assert!(is_nxdomain(&dns(world, "eViL.SuFfIx.ExAmPlE.com", A)));
}

#[test]
fn tcp_is_answered_as_udp_is() {
    let world = shared();
    for (name, code) in [("api.example.com", 0), ("evil.test", 3)] {
        let query = query(name.as_bytes(), A);
        let framed = [&u16::try_from(query.len()).unwrap().to_be_bytes()[..], &query].concat();
        let answer = Wire::to_router(world, 53).send(&framed).end().rest().unwrap();
        assert_eq!(read_answer(&query, &answer[2..]).code, code, "{name}");
    }
}

#[test]
fn any_is_answered_from_the_same_table() {
    let world = shared();
    assert_eq!(dns(world, "api.example.com", 255).addresses, [world.net.web_loopback]);
    assert!(is_nxdomain(&dns(world, "evil.test", 255)));
}

//
#[test]
fn there_is_no_other_resolver() {
    let world = shared();
    for address in ["1.1.1.1", "203.0.113.53", "169.254.1.1"] {
        let error = Wire::to(world, address.parse().unwrap(), 53).err().expect("no route");
        assert!(error.raw_os_error() == Some(101), "{address}: {error}");
    }
    // The router's own resolvers are on its loopback.
    for port in [5353, 5354] {
        assert!(Wire::to(world, world.net.router_address.into(), port).is_err());
    }
}
