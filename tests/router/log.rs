//! The log: one JSON line per decision, which no byte of a client can forge or split.

use sandboxc::policy::Verdict;

use super::hello::hello;
use super::wire::{dns, exchange, get, http};
use super::world::World;

#[test]
fn a_line_says_what_decide_says() {
    let world = World::start(super::policy());
    let hosts = [
        "api.example.com",
        "a.suffix.example.com",
        "evil.suffix.example.com",
        "x.worse.suffix.example.com",
        "web.suffix.example.com",
        "x.private.example.com",
        "x.db.example.com",
        "evil.test",
        "203.0.113.22",
    ];
    for (index, host) in hosts.iter().enumerate() {
        for (port, bytes) in [(443, hello(host)), (80, get(host, "/"))] {
            exchange(&world, port, &bytes);
            let count = index * 2 + if port == 443 { 1 } else { 2 };
            world.wait("its line", || world.decisions().len() == count);
            let (line, decided) = (world.decisions().pop().unwrap(), world.policy.decide(host, port));
            assert_eq!(line["host"], *host);
            assert_eq!(line["port"], port);
            assert_eq!(line["tier"], decided.tier.name());
            assert_eq!(line["verdict"], if decided.verdict == Verdict::Allow { "allow" } else { "deny" }, "{line}");
            assert_eq!(line["reason"], decided.reason.code(), "{line}");
            assert_eq!(line["rule"], decided.rule.map(|rule| rule.to_string()).unwrap_or_default(), "{line}");
            for number in ["ts", "status", "bytes_sent", "bytes_received", "duration"] {
                assert!(line[number].is_number(), "{number}: {line}");
            }
        }
    }
}

#[test]
fn no_byte_of_a_client_forges_or_splits_a_line() {
    let world = World::start(super::policy());
    let forged = "{\"verdict\":\"allow\",\"forged\":1}";
    let bytes: Vec<u8> = (0..=255).collect();
    let names: Vec<Vec<u8>> = vec![
        format!("x\n{forged}\n").into_bytes(),
        b"x\",\"verdict\":\"allow\",\"forged\":\"1".to_vec(),
        b"x\\".to_vec(),
        b"\xff\xfe\x80.suffix.example.com".to_vec(),
        bytes.clone(),
    ];
    for name in &names {
        exchange(&world, 443, &hello(name));
        exchange(&world, 80, &[b"GET / HTTP/1.1\r\nHost: ", &name[..], b"\r\nConnection: close\r\n\r\n"].concat());
        exchange(
            &world,
            80,
            &[b"GET /", &name[..], b" HTTP/1.1\r\nHost: api.example.com\r\nConnection: close\r\n\r\n"].concat(),
        );
        exchange(
            &world,
            80,
            &[&name[..], b" / HTTP/1.1\r\nHost: api.example.com\r\nConnection: close\r\n\r\n"].concat(),
        );
    }
    for byte in 0..=255_u8 {
        exchange(
            &world,
            80,
            &[
                b"GET /a",
                &[byte][..],
                b"b HTTP/1.1\r\nHost: api.example.com\r\nUser-Agent: ",
                &[byte],
                b"\r\nConnection: close\r\n\r\n",
            ]
            .concat(),
        );
        exchange(&world, 443, &hello([b"a", &[byte][..], b"b.evil.test"].concat()));
    }
    http(&world, &get("api.example.com", &format!("/{}", "\"\\".repeat(20_000))));
    let expected = names.len() * 4 + 512 + 1;
    world.wait("all lines", || world.decisions().len() >= expected);
    for (line, decision) in world.read("out").lines().zip(world.decisions()) {
        assert!(line.len() < 4096, "too long for one write to a pipe");
        assert!(line.bytes().all(|b| (0x20..0x7f).contains(&b)), "{line:?}");
        let keys: Vec<&String> = decision.as_object().unwrap().keys().collect();
        assert!(!keys.iter().any(|key| *key == "forged"), "{line}");
        assert!(decision["host"].as_str().unwrap().len() <= 255);
    }
}

#[test]
fn denials_of_the_name_server_are_lines_too() {
    let world = World::start(super::policy());
    let hostile: [&[u8]; 6] = [
        b"dnslog.evil.test",
        b"dnslog.suffix.example.com",
        b"a is 127.0.0.1.evil.test",
        b"config x is NXDOMAIN.evil.test",
        b"dnsmasq[1]: config x is 127.0.0.1",
        b"x\ndnsmasq[1]: config forged is NXDOMAIN\n.evil.test",
    ];
    for name in hostile {
        dns(&world, name, 1);
        dns(&world, name, 16);
    }
    let read =
        || -> Vec<serde_json::Value> { world.lines().into_iter().filter(|line| line["tier"] == "dns").collect() };
    // An answer opens nothing, so it has no line.
    world.wait("the name server's lines", || read().len() == (hostile.len() - 1) * 2);
    let said = read();
    assert_eq!(said[0]["host"], "dnslog.evil.test");
    for two in said.chunks(2) {
        assert_eq!(two[0]["host"], two[1]["host"], "whatever the type");
        let keys: Vec<&str> = two[0].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["host", "port", "reason", "rule", "tier", "ts", "verdict"]);
        assert_eq!((&two[0]["verdict"], &two[0]["port"]), (&"deny".into(), &53.into()));
    }
    assert!(world.read("out").bytes().all(|b| b == b'\n' || (b' '..=b'~').contains(&b)));
}
