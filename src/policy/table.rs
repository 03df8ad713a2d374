//! The decision as a table: what a router with exact and suffix lookups needs to agree with [`Policy::decide`].
//!
//! Decisions change only at names that some rule's pattern spells out. So it is enough to decide at each of those
//! names, and once for everything below each suffix; a lookup of the most specific row then equals deciding afresh.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use serde::Serialize;

use super::decide::{Decision, Reason, Target};
use super::host::{HostName, HostPattern};
use super::rule::{Policy, RuleSet};

/// The hosts that one row of a table is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Scope {
    /// Every subdomain of a name that no other row covers; of the empty name, every host.
    Below(String),
    /// One host.
    Host(HostName),
    /// Every IPv4 address that no other row covers. No pattern for names matches an address, not even `*`.
    Addresses,
    /// One address.
    Address(Ipv4Addr),
}

/// One row: the decision is the same for every host of the scope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The hosts.
    pub scope: Scope,
    /// The decision about them.
    pub decision: Decision,
}

impl Policy {
    /// [`Policy::decide`] for one port as a table, sorted by scope; the first row is for hosts that no rule names.
    /// The scopes are the same for every port.
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

    fn scopes(&self) -> BTreeSet<Scope> {
        let mut scopes = BTreeSet::from([Scope::Below(String::new()), Scope::Addresses]);
        let rules = [Some(&self.allow), Some(&self.deny), self.ceiling.as_ref()];
        for rule in rules.into_iter().flatten().flat_map(RuleSet::rules) {
            match &rule.pattern {
                HostPattern::Exact(name) => scopes.extend([Scope::Host(name.clone())]),
                HostPattern::Suffix(base) => {
                    scopes.extend(HostName::from_wire(base).map(Scope::Host));
                    scopes.insert(Scope::Below(base.clone()));
                }
                HostPattern::Subdomains(base) => scopes.extend([Scope::Below(base.clone())]),
                HostPattern::Ip(IpAddr::V4(address)) => scopes.extend([Scope::Address(*address)]),
                // The router has no IPv6, so `decide` never gets as far as such a rule.
                HostPattern::Ip(IpAddr::V6(_)) => {}
            }
        }
        scopes
    }
}

impl Scope {
    /// What to decide about; none for addresses that no rule names.
    fn target(&self) -> Option<Target> {
        match self {
            Self::Below(base) => Some(Target::Name(HostName::any_below(base))),
            Self::Host(name) => Some(Target::Name(name.clone())),
            Self::Addresses => None,
            Self::Address(address) => Some(Target::Ip((*address).into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ipnet::IpNet;
    use proptest::prelude::*;
    use proptest::sample::{Index, select};

    use super::super::{Rule, RuleId, RuleSet, Verdict, parse_pattern};
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

    fn rules(list: &'static str, most: usize) -> impl Strategy<Value = Vec<Rule>> {
        let rule = (select(&PATTERNS[..]), proptest::collection::btree_set(select(&PORTS[..]), 0..3), any::<bool>());
        proptest::collection::vec(rule, 0..most).prop_map(move |rules| {
            let rule = |(index, (pattern, ports, private)): (usize, (&str, BTreeSet<u16>, bool))| Rule {
                id: RuleId::new(&format!("{list}[{index}]")),
                pattern: parse_pattern(pattern).unwrap().0,
                ports,
                private,
                request: None,
                from: Place::built_in(),
            };
            rules.into_iter().enumerate().map(rule).collect()
        })
    }

    fn policies() -> impl Strategy<Value = [Vec<Rule>; 3]> {
        (rules("allow", 8), rules("deny", 4), rules("ceiling", 6)).prop_map(|(a, b, c)| [a, b, c])
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

    /// The row that a router with exact and longest-suffix lookups finds.
    fn look_up<'a>(table: &'a [Row], host: &str) -> Option<&'a Row> {
        let find = |scope: Scope| table.iter().find(|row| row.scope == scope);
        if let Ok(address) = host.parse() {
            return find(Scope::Address(address)).or_else(|| find(Scope::Addresses));
        }
        let name = HostName::from_wire(host)?;
        let parents = name.self_and_parents().skip(1).map(str::to_owned).chain([String::new()]);
        find(Scope::Host(name.clone())).or_else(|| parents.map(Scope::Below).find_map(find))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn looking_up_equals_deciding(lists in policies(), capped: bool, host in hosts(), port in select(&PORTS[..])) {
            let policy = policy(lists, capped);
            let decision = policy.decide(&host, port);
            if let Some(row) = look_up(&policy.table(port), &host) {
                prop_assert_eq!(&row.decision, &decision);
            } else {
                prop_assert_eq!(decision.reason, Reason::BadHost);
            }
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
