//! The decision as a table: what a router with exact and suffix lookups needs to agree with [`Policy::decide`].
//!
//! Decisions only change at names in some rule's pattern. So it is enough to decide at each of those names, and once
//! for everything below each suffix. A lookup of the most specific row then equals a new decision.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use serde::Serialize;

use super::decide::Subject;
use super::decision::{Decision, Reason, Verdict};
use super::host::{HostName, HostPattern};
use super::rule::{Policy, RuleSet};

/// The hosts that a row of a table is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Scope {
    /// Every subdomain of a name that no other row covers; for the empty name, every host.
    Below(String),
    /// One host.
    Host(HostName),
    /// Every IPv4 address that no other row covers. Patterns for names never match an address, not even `*`.
    Addresses,
    /// One address.
    Address(Ipv4Addr),
}

/// A row: the decision is the same for every host of the scope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The hosts.
    pub scope: Scope,
    /// The decision about them.
    pub decision: Decision,
}

impl Policy {
    /// [`Policy::decide`] for a port as a table, sorted by scope. The first row is for hosts that no rule names. The
    /// scopes are the same for every port.
    pub fn table(&self, port: u16) -> Vec<Row> {
        let decide = |scope: Scope| Row {
            decision: match scope.target() {
                Some(target) => self.decide_target(&target, port),
                None => Decision::deny(Reason::NotAllowed, None, port),
            },
            scope,
        };
        self.scopes().into_iter().map(decide).collect()
    }

    /// Whether some host that a pattern matches is allowed on a port.
    pub fn reaches(&self, pattern: &HostPattern, port: u16) -> bool {
        let matched = |scope: &Scope| match scope.target() {
            Some(Subject::Name(name)) => pattern.matches(&name),
            _ => false,
        };
        let allowed = |decision: &Decision| decision.verdict == Verdict::Allow;
        match pattern {
            HostPattern::Exact(name) => allowed(&self.decide_target(&Subject::Name(name.clone()), port)),
            _ => self.table(port).iter().any(|row| matched(&row.scope) && allowed(&row.decision)),
        }
    }

    /// The lists of rules.
    fn sets(&self) -> impl Iterator<Item = &RuleSet> {
        [Some(&self.allow), Some(&self.deny), self.ceiling.as_ref()].into_iter().flatten()
    }

    pub(super) fn scopes(&self) -> BTreeSet<Scope> {
        let mut scopes = BTreeSet::from([Scope::Below(String::new()), Scope::Addresses]);
        let rules = self.sets().flat_map(RuleSet::rules).map(|rule| &rule.pattern);
        for pattern in rules.chain(self.credentials.iter().flat_map(|credential| &credential.scopes)) {
            match pattern {
                HostPattern::Exact(name) => scopes.extend([Scope::Host(name.clone())]),
                HostPattern::Suffix(base) => {
                    scopes.extend(HostName::from_wire(base).map(Scope::Host));
                    scopes.insert(Scope::Below(base.clone()));
                }
                HostPattern::Subdomains(base) => scopes.extend([Scope::Below(base.clone())]),
                HostPattern::Ip(IpAddr::V4(address)) => scopes.extend([Scope::Address(*address)]),
                // The router has no IPv6, so `decide` never reaches such a rule.
                HostPattern::Ip(IpAddr::V6(_)) => {}
            }
        }
        scopes
    }
}

impl Scope {
    /// An example to decide about; `None` for addresses that no rule names.
    pub(super) fn target(&self) -> Option<Subject> {
        match self {
            Self::Below(base) => Some(Subject::Name(HostName::any_below(base))),
            Self::Host(name) => Some(Subject::Name(name.clone())),
            Self::Addresses => None,
            Self::Address(address) => Some(Subject::Ip((*address).into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use ipnet::IpNet;
    use proptest::prelude::*;
    use proptest::sample::{Index, select};

    use super::super::{
        Credential, CredentialKind, GraphqlRule, PathGlob, RequestRule, Rule, RuleId, RuleSet, Tier, parse_pattern,
    };
    use super::*;
    use crate::source::Place;

    const PATTERNS: [&str; 16] = [
        "a.test",
        ".a.test",
        "*.a.test",
        "b.a.test",
        ".b.a.test",
        "*.b.a.test",
        "c.b.a.test",
        "*.c.b.a.test",
        ".test",
        "*.test",
        "*",
        "x.other",
        "*.x.other",
        "203.0.113.7",
        "203.0.113.8",
        "2001:db8::1",
    ];
    const PORTS: [u16; 4] = [80, 443, 22, 5432];

    /// What an entry may say about requests.
    fn requests() -> impl Strategy<Value = Option<RequestRule>> {
        let methods = select(vec![None, Some(vec!["GET", "HEAD"]), Some(vec!["POST"])]);
        let paths = select(vec![None, Some(vec!["/a/*"]), Some(vec!["/**/b", "/a"])]);
        let request = (methods, paths, any::<bool>()).prop_map(|(methods, paths, graphql)| RequestRule {
            methods: methods.map(|all| all.into_iter().map(str::to_owned).collect()),
            paths: paths.map(|all| all.into_iter().map(|glob| PathGlob::parse(glob).unwrap()).collect()),
            graphql: graphql.then(GraphqlRule::default),
            ..RequestRule::default()
        });
        prop_oneof![Just(None), request.prop_map(Some)]
    }

    fn rules(list: &'static str, most: usize) -> impl Strategy<Value = Vec<Rule>> {
        let ports = proptest::collection::btree_set(select(&PORTS[..]), 0..3);
        let rule = (select(&PATTERNS[..]), ports, any::<bool>(), requests());
        proptest::collection::vec(rule, 0..most).prop_map(move |rules| {
            let rule = |(index, (pattern, ports, private, request)): (usize, (&str, _, bool, _))| Rule {
                id: RuleId::new(&format!("{list}[{index}]")),
                pattern: parse_pattern(pattern).unwrap().0,
                ports,
                private,
                request,
                from: Place::built_in(),
            };
            rules.into_iter().enumerate().map(rule).collect()
        })
    }

    fn credentials() -> impl Strategy<Value = Vec<Credential>> {
        let scopes = proptest::collection::vec(select(&PATTERNS[..13]), 1..3);
        proptest::collection::vec(scopes, 0..3).prop_map(|all| {
            let credential = |(index, scopes): (usize, Vec<&str>)| Credential {
                name: format!("C{index}"),
                kind: CredentialKind::Masked { headers: ["authorization".to_owned()].into() },
                scopes: scopes.into_iter().map(|scope| parse_pattern(scope).unwrap().0).collect(),
                methods: None,
                paths: None,
                allow_foreign: false,
                from: Place::built_in(),
            };
            all.into_iter().enumerate().map(credential).collect()
        })
    }

    fn policies() -> impl Strategy<Value = [Vec<Rule>; 3]> {
        (rules("allow", 8), rules("deny", 4), rules("ceiling", 6)).prop_map(|(a, b, c)| {
            // A denial says nothing about requests.
            let b = b.into_iter().map(|rule| Rule { request: None, ..rule }).collect();
            [a, b, c]
        })
    }

    fn policy([allow, deny, ceiling]: [Vec<Rule>; 3], capped: bool) -> Policy {
        Policy {
            allow: RuleSet::new(allow),
            deny: RuleSet::new(deny),
            ceiling: capped.then(|| RuleSet::new(ceiling)),
            reachable: Vec::<IpNet>::new(),
            credentials: Vec::new(),
        }
    }

    fn hosts() -> impl Strategy<Value = String> {
        let base = select(vec![
            "a.test",
            "b.a.test",
            "c.b.a.test",
            "x.other",
            "other",
            "test",
            "203.0.113.7",
            "203.0.113.9",
            "[::1]",
            "2001:db8::1",
            "",
        ]);
        ("(([abcx]|-|[a-c]{2})\\.){0,3}", base, "\\.?").prop_map(|(labels, base, dot)| labels + base + &dot)
    }

    /// The decision that a router with exact and longest-suffix lookups finds.
    fn look_up(table: &[Row], host: &str) -> Option<Decision> {
        let find = |scope: Scope| table.iter().find(|row| row.scope == scope);
        if let Ok(address) = host.parse() {
            let row = find(Scope::Address(address)).or_else(|| find(Scope::Addresses));
            return row.map(|row| row.decision.clone());
        }
        let name = HostName::from_wire(host)?;
        if let Some(row) = find(Scope::Host(name.clone())) {
            return Some(row.decision.clone());
        }
        let mut parents = name.self_and_parents().skip(1).map(str::to_owned).chain([String::new()]);
        parents.find_map(|base| find(Scope::Below(base))).map(|row| row.decision.clone())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn looking_up_equals_deciding(
            lists in policies(), credentials in credentials(), capped: bool, host in hosts(), port in select(&PORTS[..])
        ) {
            let policy = Policy { credentials, ..policy(lists, capped) };
            let decision = policy.decide(&host, port);
            if let Some(found) = look_up(&policy.table(port), &host) {
                prop_assert_eq!(&found, &decision);
            } else {
                prop_assert_eq!(decision.reason, Reason::BadHost);
            }
            let looked_at = decision.inspection.is_some();
            prop_assert_eq!(decision.tier == Tier::Inspected, looked_at && port == 443);
            prop_assert!(!looked_at || (decision.verdict == Verdict::Allow && matches!(port, 80 | 443)));
        }

        #[test]
        fn the_order_of_rules_never_matters(lists in policies(), order: Vec<Index>, host in hosts(), port in select(&PORTS[..])) {
            let shuffled = lists.clone().map(|mut list| {
                for (at, index) in order.iter().enumerate().take(list.len()) {
                    let other = index.index(list.len());
                    list.swap(at, other);
                }
                list
            });
            prop_assert_eq!(policy(lists, true).decide(&host, port), policy(shuffled, true).decide(&host, port));
        }

        #[test]
        fn more_denials_and_a_ceiling_never_allow_more(lists in policies(), host in hosts(), port in select(&PORTS[..])) {
            let capped = policy(lists.clone(), true).decide(&host, port);
            let [allow, _, ceiling] = lists;
            let open = policy([allow.clone(), Vec::new(), Vec::new()], false).decide(&host, port);
            let within = policy([ceiling, Vec::new(), Vec::new()], false).decide(&host, port);
            if capped.verdict == Verdict::Allow {
                prop_assert_eq!(open.verdict, Verdict::Allow);
                prop_assert_eq!(within.verdict, Verdict::Allow, "R-72: both must name it");
                prop_assert!(!capped.private || (open.private && within.private));
            }
        }

        #[test]
        fn case_and_a_trailing_dot_never_matter(lists in policies(), host in hosts(), port in select(&PORTS[..])) {
            let policy = policy(lists, true);
            let decision = policy.decide(&host, port);
            prop_assert_eq!(&policy.decide(&host.to_uppercase(), port), &decision);
            if HostName::from_wire(&host).is_some() && !host.ends_with('.') {
                prop_assert_eq!(&policy.decide(&format!("{host}."), port), &decision);
            }
        }

        #[test]
        fn nothing_is_allowed_by_an_empty_list(deny in rules("deny", 4), host in hosts(), port in select(&PORTS[..])) {
            let none = policy([Vec::new(), deny, Vec::new()], false);
            prop_assert_eq!(none.decide(&host, port).verdict, Verdict::Deny);
        }
    }
}
