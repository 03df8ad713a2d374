//! What a policy permits, for people: for each host the ports, the rule that decides, and the rules that lose.
//!
//! Made of [`Policy::decide`] alone, so no other code has an opinion about it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::decide::Subject;
use super::decision::{Decision, Reason, Tier, Verdict};
use super::rule::{Policy, Rule, RuleId};
use super::table::Scope;
use crate::source::Place;

/// A rule that takes part in a decision.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Deciding {
    /// Its name.
    pub id: RuleId,
    /// Its place.
    pub from: Place,
    /// Its conditions on requests, in words; empty without conditions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub conditions: String,
}

/// The decision about some ports of a host. The most specific entry for a host applies, as for rules; a port that it
/// does not list is closed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effective {
    /// `a.test`, `.a.test` (it and everything below), `*.a.test` (everything below), `*` (every name), or an address.
    pub host: String,
    /// The ports, sorted. Empty for every port.
    pub ports: Vec<u16>,
    /// Allowed or denied.
    pub verdict: Verdict,
    /// The code of the reason.
    pub reason: String,
    /// Whether the router decrypts the connections.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub decrypted: bool,
    /// Whether names may resolve to private addresses.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub private: bool,
    /// The rules that decide: one of those with conditions must permit a request.
    pub rules: Vec<Deciding>,
    /// The rules of the ceiling, one of which must permit a request too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ceiling: Vec<Deciding>,
    /// The credentials that requests may carry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub credentials: Vec<String>,
    /// Rules for the same host and ports that have no effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loses: Vec<Deciding>,
}

impl Effective {
    /// The lines for a reviewer, each with the place of its rule.
    pub fn lines(&self) -> Vec<(String, Place)> {
        let ports = match self.ports.as_slice() {
            [] => "every port".to_owned(),
            ports => ports.iter().map(u16::to_string).collect::<Vec<_>>().join(" "),
        };
        let place = |rule: &Deciding| format!("{} ({})", rule.id, rule.from.short());
        let places = |rules: &[Deciding]| rules.iter().map(place).collect::<Vec<_>>().join(", ");
        let mut after = String::new();
        if !self.ceiling.is_empty() {
            let within = |rule: &Deciding| format!("{}: {}", place(rule), rule.conditions);
            after += &format!(", and within {}", self.ceiling.iter().map(within).collect::<Vec<_>>().join(" or "));
        }
        if !self.loses.is_empty() {
            after += &format!("; no effect: {}", places(&self.loses));
        }
        let head = match self.verdict {
            Verdict::Allow => {
                let decrypted = if self.decrypted { " decrypted" } else { "" };
                let private = if self.private { " (may be private)" } else { "" };
                format!("allow {} {ports}{decrypted}{private}", self.host)
            }
            Verdict::Deny if self.reason == Reason::AboveCeiling.code() => {
                format!("deny {} {ports}: above the ceiling", self.host)
            }
            Verdict::Deny => format!("deny {} {ports}", self.host),
        };
        if self.rules.is_empty() {
            return vec![(
                format!("{head}{after}"),
                self.loses.first().map_or_else(Place::built_in, |r| r.from.clone()),
            )];
        }
        let line = |rule: &Deciding| {
            let conditions = if rule.conditions.is_empty() { "" } else { ": " };
            (format!("{head} by {}{conditions}{}{after}", rule.id, rule.conditions), rule.from.clone())
        };
        self.rules.iter().map(line).collect()
    }
}

/// The decisions about the ports of a scope; `None` stands for every other port.
type Ports = BTreeMap<Option<u16>, Decision>;

impl Policy {
    /// What is permitted, and what is denied that would otherwise be permitted or that a rule denies. A host without an
    /// entry has that of the longest suffix that matches it, and everything is closed without any.
    pub fn effective(&self) -> Vec<Effective> {
        let scopes = self.scopes();
        let decided: BTreeMap<&Scope, Ports> =
            scopes.iter().filter_map(|scope| Some((scope, self.ports_of(&scope.target()?)))).collect();
        let mut all = Vec::new();
        for (scope, ports) in &decided {
            let around = parent(scope, &scopes).and_then(|scope| decided.get(&scope));
            if says_nothing(ports, around) {
                continue;
            }
            let apex = match scope {
                Scope::Host(name) => decided.get(&Scope::Below(name.as_str().to_owned())).is_some_and(|b| b == ports),
                _ => false,
            };
            if !apex {
                all.extend(self.entries(scope, &shown(scope, &decided), ports));
            }
        }
        all
    }

    fn ports_of(&self, target: &Subject) -> Ports {
        let allow = target.owner(&self.allow).into_iter().flat_map(Rule::covered_ports);
        let deny = self.denials(target).flat_map(|rule| rule.ports.iter().copied());
        let mut named: BTreeSet<u16> = allow.chain(deny).collect();
        if !matches!(target, Subject::Ip(_)) {
            named.extend(super::WEB_PORTS);
        }
        // No list of rules names all ports.
        let other = (1..=u16::MAX).find(|port| !named.contains(port));
        let decide = |port: u16| self.decide_target(target, port);
        let other = other.map(|port| (None, decide(port)));
        named.into_iter().map(|port| (Some(port), decide(port))).chain(other).collect()
    }

    /// The entries of one scope: ports with the same decision together.
    fn entries(&self, scope: &Scope, host: &str, ports: &Ports) -> Vec<Effective> {
        let mut all: Vec<Effective> = Vec::new();
        let Some(target) = scope.target() else { return all };
        let owner = target.owner(&self.allow);
        let everywhere = ports.get(&None).filter(|decision| decision.reason == Reason::Denied);
        all.extend(everywhere.map(|decision| entry(host, None, decision, &owner)));
        for (port, decision) in ports.iter().filter(|(port, _)| port.is_some()) {
            let listed = !matches!(decision.reason, Reason::NotAllowed | Reason::PortNotAllowed);
            if !listed || everywhere.is_some_and(|every| every.rule == decision.rule) {
                continue;
            }
            let entry = entry(host, *port, decision, &owner);
            let same = |other: &&mut Effective| {
                !other.ports.is_empty() && Effective { ports: entry.ports.clone(), ..(**other).clone() } == entry
            };
            match all.iter_mut().find(same) {
                Some(other) => other.ports.extend(port),
                None => all.push(entry),
            }
        }
        // A host with an entry that opens nothing is not covered by a wider one.
        if all.is_empty() {
            all.extend(ports.values().next().map(|decision| entry(host, None, decision, &owner)));
        }
        all
    }

    /// The rules of `deny` that match.
    fn denials<'a>(&'a self, target: &Subject) -> impl Iterator<Item = &'a Rule> + use<'a> {
        let rules = match target {
            Subject::Name(name) => self.deny.matching(name).flatten().collect::<Vec<_>>(),
            Subject::Ip(address) => self.deny.owner_of_ip(*address),
        };
        rules.into_iter()
    }
}

/// Whether the scope around it says the same about every port.
fn says_nothing(ports: &Ports, around: Option<&Ports>) -> bool {
    fn at(ports: &Ports, port: Option<u16>) -> Option<&Decision> {
        ports.get(&port).or_else(|| ports.get(&None))
    }
    let Some(around) = around else {
        return ports.values().all(|decision| decision.reason == Reason::NotAllowed);
    };
    // The tier of a port that only one of them names is that of an example.
    let same = |a: &Decision, b: &Decision| Decision { tier: b.tier, ..a.clone() } == *b;
    let named: BTreeSet<Option<u16>> = ports.keys().chain(around.keys()).copied().collect();
    named.into_iter().all(|port| matches!((at(ports, port), at(around, port)), (Some(a), Some(b)) if same(a, b)))
}

fn entry(host: &str, port: Option<u16>, decision: &Decision, owner: &[&Rule]) -> Effective {
    let inspection = decision.inspection.as_ref();
    let all = |rules: &[Rule]| rules.iter().map(deciding).collect::<Vec<_>>();
    let plain =
        |(id, from): (&RuleId, &Place)| Deciding { id: id.clone(), from: from.clone(), conditions: String::new() };
    let rules = match inspection {
        Some(inspection) => all(&inspection.allow),
        None => decision.rule.as_ref().zip(decision.from.as_ref()).map(plain).into_iter().collect(),
    };
    let here = |rule: &&&Rule| port.is_none_or(|port| rule.covers_port(port));
    let loses = owner.iter().filter(here).map(|rule| deciding(rule));
    Effective {
        host: host.to_owned(),
        ports: port.into_iter().collect(),
        verdict: decision.verdict,
        reason: decision.reason.code().to_owned(),
        decrypted: decision.tier == Tier::Inspected,
        private: decision.private,
        ceiling: inspection.and_then(|inspection| inspection.ceiling.as_deref()).map(all).unwrap_or_default(),
        credentials: inspection.map(|inspection| inspection.credentials.clone()).unwrap_or_default(),
        loses: loses.filter(|rule| !rules.iter().any(|by| by.id == rule.id)).collect(),
        rules,
    }
}

fn deciding(rule: &Rule) -> Deciding {
    let conditions = rule.request.as_ref().map(ToString::to_string).unwrap_or_default();
    Deciding { id: rule.id.clone(), from: rule.from.clone(), conditions }
}

/// The scope with the longest suffix around another one; none around the widest, and around addresses.
fn parent(scope: &Scope, scopes: &BTreeSet<Scope>) -> Option<Scope> {
    let above = |name: &str| {
        let parents = std::iter::successors(name.split_once('.').map(|(_, rest)| rest), |name| {
            name.split_once('.').map(|(_, rest)| rest)
        });
        let mut below = parents.map(|base| Scope::Below(base.to_owned())).chain([Scope::Below(String::new())]);
        below.find(|scope| scopes.contains(scope))
    };
    match scope {
        Scope::Host(name) => above(name.as_str()),
        Scope::Below(base) if !base.is_empty() => above(base),
        Scope::Below(_) | Scope::Address(_) | Scope::Addresses => None,
    }
}

/// A scope as a pattern. One with the same decisions about its apex includes it.
fn shown(scope: &Scope, decided: &BTreeMap<&Scope, Ports>) -> String {
    match scope {
        Scope::Host(name) => name.to_string(),
        Scope::Address(address) => address.to_string(),
        Scope::Below(base) if base.is_empty() => super::EVERY_NAME.to_owned(),
        Scope::Below(base) => {
            let apex = super::HostName::from_wire(base).and_then(|name| decided.get(&Scope::Host(name)));
            let whole = apex.is_some() && apex == decided.get(scope);
            if whole { format!(".{base}") } else { format!("*.{base}") }
        }
        Scope::Addresses => String::new(),
    }
}
