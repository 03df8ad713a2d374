//! What a reviewer reads is what is decided: the header, `plan.json`, `explain` and `decide` agree about random policies.

use std::fs;
use std::process::Command;

use proptest::prelude::*;
use proptest::sample::select;
use sandboxc::policy::{Effective, Tier, Verdict};
use serde_json::Value;

use crate::machine::World;

const HOSTS: [&str; 8] = [
    "a.test.example",
    "b.a.test.example",
    "c.b.a.test.example",
    "test.example",
    "x.test.example",
    "other.example",
    "203.0.113.7",
    "203.0.113.8",
];

const PORTS: [u16; 5] = [22, 80, 443, 5432, 9];

/// Entries of every kind; the first list has what a suffix cannot have.
fn entry(gives: bool) -> impl Strategy<Value = String> {
    let exact = select(vec!["a.test.example", "b.a.test.example", "x.test.example", "other.example"]);
    let suffix =
        select(vec![".test.example", "*.test.example", ".a.test.example", "*.a.test.example", "*.b.a.test.example"]);
    let ports = select(vec!["", "443", "80", "5432", "22, 443"]);
    let web = select(vec!["", "443", "80"]);
    let listed = |ports: &str| if ports.is_empty() { String::new() } else { format!(", ports: [{ports}]") };
    let flags = select(vec!["", ", exact: true", ", private: true"]);
    let rules = select(vec!["", "", ", methods: [GET]", ", paths: [/a/**]"]);
    let named = (exact.clone(), ports, flags).prop_map(move |(host, ports, flags)| {
        let flags = if ports.is_empty() && flags.contains("exact") || !gives { "" } else { flags };
        format!("{{host: {host}{}{flags}}}", listed(ports))
    });
    let many = (prop_oneof![exact, suffix], web, rules).prop_map(move |(host, ports, rules)| {
        format!("{{host: \"{host}\"{}{}}}", listed(ports), if gives { rules } else { "" })
    });
    let address = select(vec!["{host: 203.0.113.7, ports: [22, 443]}", "{host: 203.0.113.8, ports: [5432]}"]);
    prop_oneof![3 => named, 4 => many, 1 => address.prop_map(str::to_owned)]
}

fn list(gives: bool, most: usize) -> impl Strategy<Value = String> {
    proptest::collection::vec(entry(gives), 0..most).prop_map(|entries| entries.join(", "))
}

/// How specific the host of an entry is for a host; `None` if it does not match.
fn specific(pattern: &str, host: &str) -> Option<usize> {
    let below = |base: &str| host.strip_suffix(base).is_some_and(|rest| rest.ends_with('.'));
    match (pattern.strip_prefix("*."), pattern.strip_prefix('.')) {
        _ if pattern == host => Some(usize::MAX),
        (Some(base), _) if below(base) => Some(base.len()),
        (_, Some(base)) if base == host || below(base) => Some(base.len()),
        _ if pattern == "*" && host.parse::<std::net::Ipv4Addr>().is_err() => Some(0),
        _ => None,
    }
}

/// The entry that a reader finds for a host and port: that of the most specific pattern.
fn find<'a, T>(all: &'a [T], host: &str, port: u16, read: impl Fn(&T) -> (String, Vec<u16>)) -> Option<&'a T> {
    let best = all.iter().filter_map(|entry| specific(&read(entry).0, host)).max()?;
    let of_best = all.iter().filter(|entry| specific(&read(entry).0, host) == Some(best));
    let (named, every): (Vec<&T>, Vec<&T>) = of_best.partition(|entry| read(entry).1.contains(&port));
    named.into_iter().next().or_else(|| every.into_iter().find(|entry| read(entry).1.is_empty()))
}

/// A line of the header about a host.
#[derive(Debug)]
struct Line {
    verdict: String,
    host: String,
    ports: Vec<u16>,
    rest: String,
}

fn lines(header: &str) -> Vec<Line> {
    let about = header.lines().filter_map(|line| line.strip_prefix("#   egress   "));
    let line = |line: &str| {
        let (verdict, rest) = line.split_once(' ')?;
        let (host, rest) = rest.split_once(' ')?;
        let words = rest.split([' ', ':']).take_while(|word| word.parse::<u16>().is_ok());
        let ports = words.map(|word| word.parse().unwrap()).collect();
        (verdict != "ceiling").then(|| Line { verdict: verdict.into(), host: host.into(), ports, rest: rest.into() })
    };
    about.filter_map(line).collect()
}

fn sandboxc(world: &World, args: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_sandboxc"))
        .args(args)
        .env_clear()
        .env("HOME", world.root().join("h"))
        .env("XDG_CONFIG_HOME", world.root().join("c"))
        .current_dir(world.root().join("w"))
        .output()
        .unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

    #[test]
    fn header_plan_explain_and_decide_agree(
        allow in list(true, 7), deny in list(false, 3), ceiling in proptest::option::of(list(true, 7)),
        credential: bool, asked in select(&HOSTS[..]), asked_port in select(&PORTS[..])
    ) {
        let world = World::new();
        world.repo("version: 1\ncommand: [\"true\"]\n");
        let ceiling = ceiling.map_or_else(String::new, |list| format!("  ceiling: [{list}]\n"));
        let masked = "defaults: {masked_secrets: {T: {value: \"0123456789\", scopes: [\"*.a.test.example\"], headers: [x-t]}}}\n";
        world.server(&format!(
            "version: 1\nnetwork:\n  reachable: [203.0.113.0/24]\n  allow: [{allow}]\n  deny: [{deny}]\n{ceiling}{}",
            if credential { masked } else { "" }
        ));
        let Some(resolved) = world.load().resolved else {
            return Err(TestCaseError::reject("a credential without HTTPS"));
        };
        let out = world.root().join("out");
        let (code, _) = sandboxc(&world, &["compile", "-o", out.to_str().unwrap()]);
        prop_assert_eq!(code, 0);
        let plan: Value = serde_json::from_slice(&fs::read(out.join("plan.json")).unwrap()).unwrap();
        let egress: Vec<Effective> =
            plan.get("egress").map(|list| serde_json::from_value(list.clone()).unwrap()).unwrap_or_default();
        let header = fs::read_to_string(out.join("kube.yaml")).unwrap();
        let lines = lines(&header);
        for host in HOSTS {
            for port in PORTS {
                let decision = resolved.policy.decide(host, port);
                let entry = find(&egress, host, port, |e| (e.host.clone(), e.ports.clone()));
                let line = find(&lines, host, port, |line| (line.host.clone(), line.ports.clone()));
                let at = format!("{host}:{port} {entry:?} {line:?}");
                let allowed = decision.verdict == Verdict::Allow;
                prop_assert_eq!(entry.is_some_and(|entry| entry.verdict == Verdict::Allow), allowed, "{}", at);
                prop_assert_eq!(line.is_some_and(|line| line.verdict == "allow"), allowed, "{}", at);
                if let (true, Some(entry), Some(line)) = (allowed, entry, line) {
                    prop_assert_eq!(entry.private, decision.private, "{}", at);
                    prop_assert_eq!(line.rest.contains("(may be private)"), decision.private, "{}", at);
                    let decrypted = decision.tier == Tier::Inspected;
                    prop_assert_eq!((entry.decrypted, line.rest.contains(" decrypted")), (decrypted, decrypted), "{}", at);
                    let rule = decision.rule.clone().unwrap();
                    prop_assert!(entry.rules.iter().any(|by| by.id == rule), "{}", at);
                }
                if let (false, Some(entry), Some(rule)) = (allowed, entry, &decision.rule) {
                    let reason = decision.reason.code();
                    let said = entry.reason != reason || entry.rules.iter().any(|by| by.id == *rule);
                    prop_assert!(said, "{} {}", reason, at);
                }
            }
        }
        let decision = resolved.policy.decide(asked, asked_port);
        let (code, text) = sandboxc(&world, &["explain", "--json", &format!("{asked}:{asked_port}")]);
        let said: Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(code, i32::from(decision.verdict == Verdict::Deny));
        prop_assert_eq!(&said["private"], &Value::from(decision.private));
        prop_assert_eq!(&said["reason"], &Value::from(decision.reason.code()));
    }
}
