//! Hosts that differ in what the router does for them. Each name says its address to the test internet's name server.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use sandboxc::policy::{Credential, CredentialKind, PathGlob, Policy, RequestRule, Rule, RuleSet, parse_pattern};
use sandboxc::source::Place;

use crate::fixture::rules;

/// Not decrypted.
pub const PASSED: &str = "ip-203-0-113-96.example.com";
/// Decrypted for a rule about requests.
pub const INSPECTED: &str = "ip-203-0-113-97.secure.test";
/// A surrogate in its requests is replaced, and its answers are cleared of the value.
pub const MASKED: &str = "ip-203-0-113-98.secure.test";
/// Sends events; decrypted for a rule.
pub const EVENTS: &str = "ip-203-0-113-94.secure.test";
/// Sends events; decrypted, masked, and its answers are cleared.
pub const EVENTS_REDACTED: &str = "ip-203-0-113-95.secure.test";

/// The masked credential, by the name under which `mint` makes its values.
pub const CREDENTIAL: &str = "BENCH";

/// The address in a name.
pub fn address(name: &str) -> Ipv4Addr {
    name.split('.').next().unwrap().trim_start_matches("ip-").replace('-', ".").parse().unwrap()
}

/// A plain and a ruled host.
pub fn ruled() -> Policy {
    allowing(&[PASSED, INSPECTED])
}

/// The same and masked ones.
pub fn masking() -> Policy {
    Policy {
        credentials: vec![Credential {
            name: CREDENTIAL.to_owned(),
            kind: CredentialKind::Masked { headers: BTreeSet::from(["authorization".to_owned()]) },
            scopes: [MASKED, EVENTS_REDACTED].map(|name| parse_pattern(name).unwrap().0).to_vec(),
            methods: None,
            paths: None,
            allow_foreign: false,
            from: Place::built_in(),
        }],
        ..allowing(&[PASSED, INSPECTED, MASKED, EVENTS, EVENTS_REDACTED])
    }
}

/// Every host but the plain one has a rule about requests.
fn allowing(names: &[&str]) -> Policy {
    let plain = parse_pattern(PASSED).unwrap().0;
    let all = rules("repo.allow", names);
    let with_request = |rule: &Rule| Rule { request: (rule.pattern != plain).then(every_get), ..rule.clone() };
    Policy {
        allow: RuleSet::new(all.rules().iter().map(with_request).collect()),
        reachable: vec!["203.0.113.0/24".parse().unwrap()],
        ..Policy::default()
    }
}

fn every_get() -> RequestRule {
    RequestRule {
        methods: Some(BTreeSet::from(["GET".to_owned()])),
        paths: Some(vec![PathGlob::parse("/**").unwrap()]),
        ..RequestRule::default()
    }
}
