//! What a change of the policy opens and closes.
//!
//! Both policies decide about the same finite set of questions, which has one for every case that the rules of either
//! can tell apart. So there are no changes exactly if both decide every question alike, and every change comes with a
//! question that they decide differently.

mod requests;
mod witness;

use std::collections::BTreeSet;

use serde::Serialize;

use self::requests::Case;
use super::decision::{Decision, Tier, Verdict};
use super::host::HostName;
use super::rule::{Policy, Rule, RuleId, RuleSet};
use super::table::Scope;
use crate::source::Place;

/// Whether more or less is permitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// Something is permitted that was not.
    Opens,
    /// Something is no longer permitted.
    Closes,
}

/// What a change is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Affected {
    /// Connections to the port, and all requests in them.
    Connections,
    /// Names that resolve to private addresses.
    PrivateAddresses,
    /// Some requests; one of them as an example.
    Requests(String),
    /// Requests that may carry this credential; one of them as an example.
    Credential(String, String),
    /// A header that steers servers, in requests like this example.
    Header(String, String),
    /// The rest, if the rules have too many cases to examine all.
    TooManyCases,
}

/// A change at one host and port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Change {
    /// More or less.
    pub effect: Effect,
    /// The host; `*.example.com` is everything below, `*` every name that no entry names.
    pub host: String,
    /// The port.
    pub port: u16,
    /// What exactly.
    pub affected: Affected,
    /// The rule that permits it, in the policy that does.
    pub rule: Option<RuleId>,
    /// Its conditions on requests, in words; empty without conditions.
    pub conditions: String,
    /// The rule's place.
    pub from: Option<Place>,
}

/// Compares two policies. The result is sorted by host and port.
pub fn compare(old: &Policy, new: &Policy) -> Vec<Change> {
    let mut changes = BTreeSet::new();
    let scopes: BTreeSet<Scope> = old.scopes().into_iter().chain(new.scopes()).collect();
    for scope in &scopes {
        let Some((shown, host)) = example(scope, &scopes) else { continue };
        for port in ports(&host, [old, new]) {
            let place = At { old, new, host: &host, shown: &shown, port };
            place.compare(&mut changes);
        }
    }
    let mut changes: Vec<Change> = changes.into_iter().collect();
    changes.sort_by(|a, b| (&a.host, a.port, &a.affected, a.effect).cmp(&(&b.host, b.port, &b.affected, b.effect)));
    changes
}

/// How a scope is shown, and one host of it that no other scope includes. `None` for addresses that no rule names, which
/// are never reachable.
fn example(scope: &Scope, scopes: &BTreeSet<Scope>) -> Option<(String, String)> {
    match scope {
        Scope::Host(name) => Some((name.to_string(), name.to_string())),
        Scope::Address(address) => Some((address.to_string(), address.to_string())),
        Scope::Addresses => None,
        Scope::Below(base) => {
            let shown = if base.is_empty() { "*".to_owned() } else { format!("*.{base}") };
            let base = if base.is_empty() { String::new() } else { format!(".{base}") };
            let free = |host: &String| {
                let name = HostName::from_wire(host);
                name.is_some_and(|name| {
                    !scopes.contains(&Scope::Host(name.clone())) && nearest(&name, scopes) == *scope
                })
            };
            let candidate = |n: usize| if base.is_empty() { format!("x{n}.x{n}") } else { format!("x{n}{base}") };
            (0..=scopes.len()).map(candidate).find(free).map(|host| (shown, host))
        }
    }
}

/// The scope with the longest suffix that includes a name.
fn nearest(name: &HostName, scopes: &BTreeSet<Scope>) -> Scope {
    let mut parents = name.self_and_parents().skip(1).map(str::to_owned);
    let below = |base: String| Some(Scope::Below(base)).filter(|scope| scopes.contains(scope));
    parents.find_map(below).unwrap_or(Scope::Below(String::new()))
}

/// The ports that some rule for a host opens; no others are ever allowed.
fn ports(host: &str, policies: [&Policy; 2]) -> BTreeSet<u16> {
    let owner = |set: &RuleSet| match (HostName::from_wire(host), host.parse()) {
        (Some(name), _) => set.owner(&name).into_iter().flat_map(|rule| rule.ports.clone()).collect::<Vec<_>>(),
        (None, Ok(address)) => set.owner_of_ip(address).into_iter().flat_map(|rule| rule.ports.clone()).collect(),
        (None, Err(_)) => Vec::new(),
    };
    policies.into_iter().flat_map(|policy| owner(&policy.allow)).chain([80, 443]).collect()
}

/// A host and port in both policies.
struct At<'a> {
    old: &'a Policy,
    new: &'a Policy,
    host: &'a str,
    shown: &'a str,
    port: u16,
}

impl At<'_> {
    fn compare(&self, changes: &mut BTreeSet<Change>) {
        let old = self.old.decide(self.host, self.port);
        let new = self.new.decide(self.host, self.port);
        let all = |decision: &Decision| {
            allows(decision) && decision.inspection.as_ref().is_none_or(super::Inspection::permits_everything)
        };
        match (all(&old), all(&new)) {
            (false, true) => changes.extend([self.change(Effect::Opens, Affected::Connections, &new)]),
            (true, false) => changes.extend([self.change(Effect::Closes, Affected::Connections, &old)]),
            _ => {}
        }
        match (old.private, new.private) {
            (false, true) => changes.extend([self.change(Effect::Opens, Affected::PrivateAddresses, &new)]),
            (true, false) => changes.extend([self.change(Effect::Closes, Affected::PrivateAddresses, &old)]),
            _ => {}
        }
        if old.inspection.is_none() && new.inspection.is_none() {
            return;
        }
        // A change of all connections says enough about requests.
        let whole = all(&old) != all(&new);
        match Case::all(&old, &new, [self.old, self.new]) {
            Ok(cases) => cases.iter().for_each(|case| self.compare_case(case, whole, changes)),
            Err(witness::TooMany)
                if old.inspection == new.inspection && self.old.credentials == self.new.credentials => {}
            Err(witness::TooMany) => changes.extend([self.change(Effect::Opens, Affected::TooManyCases, &new)]),
        }
    }

    fn compare_case(&self, case: &Case, whole: bool, changes: &mut BTreeSet<Change>) {
        let (old, new) = (case.decide(self.old, self.host, self.port), case.decide(self.new, self.host, self.port));
        let example = case.to_string();
        for (effect, from, to) in [(Effect::Opens, &old, &new), (Effect::Closes, &new, &old)] {
            if !allows(to) {
                continue;
            }
            if !allows(from) && !whole {
                self.once(changes, effect, Affected::Requests(example.clone()), to);
            }
            for name in credentials(to).difference(&credentials(from)) {
                self.once(changes, effect, Affected::Credential(name.clone(), example.clone()), to);
            }
            if allows(from) && !whole {
                for header in headers(to).difference(&headers(from)) {
                    self.once(changes, effect, Affected::Header((*header).to_owned(), example.clone()), to);
                }
            }
        }
    }

    /// Adds a change unless another example of the same is there.
    fn once(&self, changes: &mut BTreeSet<Change>, effect: Effect, affected: Affected, by: &Decision) {
        let change = self.change(effect, affected, by);
        let same = |other: &Change| {
            let same = match (&other.affected, &change.affected) {
                (Affected::Requests(_), Affected::Requests(_)) => true,
                (Affected::Credential(a, _), Affected::Credential(b, _))
                | (Affected::Header(a, _), Affected::Header(b, _)) => a == b,
                _ => false,
            };
            same && (&other.host, other.port, other.effect, &other.rule)
                == (&change.host, change.port, effect, &change.rule)
        };
        if !changes.iter().any(same) {
            changes.insert(change);
        }
    }

    fn change(&self, effect: Effect, affected: Affected, by: &Decision) -> Change {
        let rules = by.inspection.iter().flat_map(|inspection| &inspection.allow);
        let rule = rules.into_iter().find(|rule| Some(&rule.id) == by.rule.as_ref());
        let conditions = rule.and_then(|rule: &Rule| rule.request.as_ref()).map(ToString::to_string);
        Change {
            effect,
            host: self.shown.to_owned(),
            port: self.port,
            affected,
            rule: by.rule.clone(),
            conditions: conditions.unwrap_or_default(),
            from: by.from.clone(),
        }
    }
}

fn allows(decision: &Decision) -> bool {
    decision.verdict == Verdict::Allow
}

fn credentials(decision: &Decision) -> BTreeSet<String> {
    let inspection = decision.inspection.iter().filter(|_| allows(decision) && decision.tier == Tier::Inspected);
    inspection.flat_map(|inspection| inspection.credentials.iter().cloned()).collect()
}

/// The steering headers that are forwarded.
fn headers(decision: &Decision) -> BTreeSet<&'static str> {
    let passes = |name: &&str| decision.inspection.as_ref().is_none_or(|inspection| inspection.passes_header(name));
    super::STEERING.into_iter().filter(passes).collect()
}

#[cfg(test)]
mod tests;
