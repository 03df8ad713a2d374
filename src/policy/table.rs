//! The decision as a table: what a router with exact and suffix lookups needs to agree with [`Policy::decide`].
//!
//! Decisions change only at names that some rule's pattern spells out. So it is enough to decide at each of those
//! names, and once for everything below each suffix; a lookup of the most specific row then equals deciding afresh.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use serde::Serialize;

use super::decide::{Decision, Target};
use super::host::{HostName, HostPattern};
use super::rule::{Policy, RuleSet};

/// The hosts that one row of a table is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Scope {
    /// Every subdomain of a name that no other row covers; of the empty name, every host.
    Below(String),
    /// One host.
    Host(HostName),
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
        let decide = |scope: Scope| Row { decision: self.decide_target(&scope.target(), port), scope };
        self.scopes().into_iter().map(decide).collect()
    }

    fn scopes(&self) -> BTreeSet<Scope> {
        let mut scopes = BTreeSet::from([Scope::Below(String::new())]);
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
    fn target(&self) -> Target {
        match self {
            Self::Below(base) => Target::Name(HostName::any_below(base)),
            Self::Host(name) => Target::Name(name.clone()),
            Self::Address(address) => Target::Ip((*address).into()),
        }
    }
}
