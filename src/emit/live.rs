//! A policy file with more rules, for a router that runs.

use thiserror::Error;

use crate::plan::{PlanError, TakenRoute, ca_scopes, more_routes};
use crate::policy::{EVERY_NAME, Policy, Rule, RuleSet};
use crate::router::PolicyFile;
use crate::router::policy_file::TcpRoute;

/// Why a rule cannot be added while the session runs.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LiveError {
    /// Its requests would have to be decrypted.
    #[error(
        "rules about requests to {0} on port 443 need certificates for it, and the session's CA cannot sign for it: \
         put the entry into the config and start again, or allow the host without rules"
    )]
    NoCertificate(String),
    /// The routes cannot be made.
    #[error(transparent)]
    Routes(#[from] PlanError),
}

/// The file with these rules in addition. Everything else stays as it is, above all the addresses of named ports.
pub fn with_rules(file: &PolicyFile, rules: Vec<Rule>) -> Result<PolicyFile, LiveError> {
    let all = file.policy.allow.rules().iter().cloned().chain(rules).collect();
    let policy = Policy { allow: RuleSet::new(all), ..file.policy.clone() };
    if let Some(missing) = ca_scopes(&policy).into_iter().find(|scope| !signs(&file.ca_scopes, scope)) {
        return Err(LiveError::NoCertificate(missing));
    }
    let taken: Vec<TakenRoute> = file.tcp.iter().map(taken).collect();
    let added = more_routes(&policy, &taken)?.into_iter().map(|route| TcpRoute {
        host: route.host,
        name: route.name,
        port: route.port,
        loopback: route.loopback,
        router_port: route.router_port,
        rule: route.rule,
        from: route.from,
    });
    let tcp = file.tcp.iter().cloned().chain(added).collect();
    Ok(PolicyFile { tcp, policy, ..file.clone() })
}

fn taken(route: &TcpRoute) -> TakenRoute {
    let TcpRoute { host, port, loopback, router_port, name: _, rule: _, from: _ } = route;
    TakenRoute { host: host.clone(), port: *port, loopback: *loopback, router_port: *router_port }
}

/// Whether a CA for these scopes, each with its subdomains, can sign for another one.
fn signs(scopes: &[String], wanted: &str) -> bool {
    scopes.iter().any(|scope| {
        let below = || wanted.strip_suffix(scope.as_str()).is_some_and(|rest| rest.ends_with('.'));
        scope == EVERY_NAME || scope == wanted || below()
    })
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::policy::{RequestRule, RuleId, parse_pattern};
    use crate::router::policy_file::{FORMAT, Listen, RouterLimits};
    use crate::source::Place;

    fn rule(id: &str, host: &str, methods: Option<&str>) -> Rule {
        let (pattern, port) = parse_pattern(host).unwrap();
        Rule {
            id: RuleId::new(id),
            ports: port.map(|port| pattern.web_ports().iter().copied().chain([port]).collect()).unwrap_or_default(),
            pattern,
            private: false,
            request: methods
                .map(|one| RequestRule { methods: Some([one.to_owned()].into()), ..RequestRule::default() }),
            from: Place::built_in(),
        }
    }

    fn file(ca_scopes: &[&str], rules: Vec<Rule>) -> PolicyFile {
        let policy = Policy { allow: RuleSet::new(rules), ..Policy::default() };
        let file = PolicyFile {
            format: FORMAT,
            plan: String::new(),
            session: "s".to_owned(),
            listen: Listen {
                router: Ipv4Addr::new(10, 0, 0, 2),
                agent: Ipv4Addr::new(10, 0, 0, 3),
                internal: "10.0.0.0/29".parse().unwrap(),
                web_loopback: Ipv4Addr::new(127, 0, 1, 1),
            },
            own_networks: Vec::new(),
            upstream_dns: Vec::new(),
            log_query: false,
            limits: RouterLimits::default(),
            ca_scopes: ca_scopes.iter().map(|&scope| scope.to_owned()).collect(),
            tcp: Vec::new(),
            policy: Policy::default(),
        };
        with_rules(&file, policy.allow.rules().to_vec()).unwrap()
    }

    #[test]
    fn existing_named_ports_keep_their_addresses_and_new_ones_get_their_own() {
        let old = file(&[], vec![rule("a", "m.test:22", None), rule("b", "z.test:22", None)]);
        let new = with_rules(
            &old,
            vec![rule("c", "a.test:22", None), rule("d", "m.test:25", None), rule("e", "203.0.113.1:9", None)],
        )
        .unwrap();
        assert_eq!(new.tcp.get(..old.tcp.len()).unwrap(), old.tcp);
        let of = |host: &str, port| new.tcp.iter().find(|route| route.host == host && route.port == port).unwrap();
        assert_eq!(of("m.test", 25).loopback, of("m.test", 22).loopback, "one host has one address");
        let mut addresses: Vec<_> = ["a.test", "z.test", "m.test"].map(|host| of(host, 22).loopback).into();
        addresses.push(of("203.0.113.1", 9).loopback);
        addresses.sort();
        addresses.dedup();
        assert_eq!(addresses.len(), 4);
        let mut ports: Vec<u16> = new.tcp.iter().map(|route| route.router_port).collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 5);
        // Again, from what is in force then.
        let third = with_rules(&new, vec![rule("f", "b.test:22", None)]).unwrap();
        assert_eq!(third.tcp.get(..5).unwrap(), new.tcp);
    }

    #[test]
    fn rules_about_requests_need_a_ca_that_can_sign() {
        let old = file(&["api.test"], vec![rule("a", "api.test", Some("GET"))]);
        assert!(with_rules(&old, vec![rule("b", "api.test", Some("POST"))]).is_ok());
        assert!(with_rules(&old, vec![rule("b", "v2.api.test", Some("GET"))]).is_ok(), "the CA may sign below, too");
        let missing = with_rules(&old, vec![rule("b", "other.test", Some("GET"))]).unwrap_err();
        assert_eq!(missing, LiveError::NoCertificate("other.test".to_owned()));
        assert!(with_rules(&old, vec![rule("b", "other.test", None)]).is_ok(), "without rules, nothing is decrypted");
        assert!(with_rules(&old, vec![rule("b", "xapi.test", Some("GET"))]).is_err());
    }
}
