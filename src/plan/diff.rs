//! What a change of the config permits, withdraws and changes, in words, each with its line.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::grant::protected_part;
use super::{Grant, GrantKind, Plan};
use crate::config::{BuildNetwork, OnTamper, Protected, Resolved, ResourceLimits};
use crate::policy::{Affected, Change, Effect, Policy, compare};
use crate::source::{Place, Sourced};

/// Whether a difference permits more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Something is permitted that was not.
    Wider,
    /// Something is no longer permitted.
    Narrower,
    /// Something is different that is not a permission.
    Other,
}

/// A difference between two configs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Difference {
    /// Whether it permits more.
    pub direction: Direction,
    /// What it is about: `network`, `mount`, `limit` and so on.
    pub about: String,
    /// The difference in words, on one line.
    pub what: String,
    /// The line that gives the permission: of the new config, or for what is narrower, of the old one.
    pub from: Option<Place>,
}

/// One of the configs and its plan.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// The config.
    pub resolved: &'a Resolved,
    /// Its plan.
    pub plan: &'a Plan,
}

/// Compares two configs of one workspace. The result is sorted. It is empty if both permit the same; it has something
/// wider exactly if the new one permits a request or has a grant that the old one does not.
pub fn diff(old: Side<'_>, new: Side<'_>) -> Vec<Difference> {
    let mut all = BTreeSet::new();
    network(old.resolved, new.resolved, &mut all);
    grants(old, new, &mut all);
    protection(old.resolved, new.resolved, &mut all);
    tamper(old.resolved, new.resolved, &mut all);
    limits(&old.resolved.limits, &new.resolved.limits, &mut all);
    builds(old.resolved, new.resolved, &mut all);
    values(old.resolved, new.resolved, &mut all);
    all.into_iter().collect()
}

fn network(old: &Resolved, new: &Resolved, all: &mut BTreeSet<Difference>) {
    let off = |resolved: &Resolved| !resolved.sandbox_enabled.value;
    // Without the sandbox, the policy decides nothing; a grant says so.
    if off(old) || off(new) {
        return;
    }
    all.extend(policies(&old.policy, &new.policy));
}

/// Compares two policies.
pub fn policies(old: &Policy, new: &Policy) -> BTreeSet<Difference> {
    let mut all = BTreeSet::new();
    // A web host opens on 80 and 443, which is one difference for a reader.
    let mut grouped: BTreeMap<_, (Vec<u16>, Change)> = BTreeMap::new();
    for change in compare(old, new) {
        let rule = change.rule.as_ref().map(ToString::to_string).unwrap_or_default();
        let key = (change.effect, change.host.clone(), change.affected.clone(), rule);
        grouped.entry(key).or_insert_with(|| (Vec::new(), change.clone())).0.push(change.port);
    }
    for (ports, change) in grouped.into_values() {
        let ports = ports.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
        let rule =
            if change.conditions.is_empty() { String::new() } else { format!(", by the rule {}", change.conditions) };
        let what = match &change.affected {
            Affected::Connections => "everything".to_owned(),
            Affected::PrivateAddresses => "names that resolve to private addresses".to_owned(),
            Affected::Requests(example) => format!("requests such as {example}{rule}"),
            Affected::Credential(name, example) => format!("the credential {name} in requests such as {example}"),
            Affected::Header(name, example) => format!("the header {name} in requests such as {example}"),
            Affected::TooManyCases => "the rules have too many cases to compare, so this counts as wider".to_owned(),
        };
        let direction = direction(change.effect);
        let what = format!("{}:{ports}: {what}", change.host);
        all.insert(Difference { direction, about: "network".to_owned(), what, from: change.from });
    }
    let range = |(direction, range): (Direction, &ipnet::IpNet)| Difference {
        direction,
        about: "network".to_owned(),
        what: format!("the address range {range} is reachable"),
        from: None,
    };
    let missing = |from: &Policy, other: &Policy| -> Vec<ipnet::IpNet> {
        from.reachable.iter().filter(|range| !other.reachable.contains(range)).copied().collect()
    };
    all.extend(missing(new, old).iter().map(|net| range((Direction::Wider, net))));
    all.extend(missing(old, new).iter().map(|net| range((Direction::Narrower, net))));
    all
}

const fn direction(effect: Effect) -> Direction {
    match effect {
        Effect::Opens => Direction::Wider,
        Effect::Closes => Direction::Narrower,
    }
}

/// Grants by what they say. Those about requests are compared by what they permit instead, limits by their size.
fn grants(old: Side<'_>, new: Side<'_>, all: &mut BTreeSet<Difference>) {
    let protects = |side: Side<'_>, grant: &Grant| {
        let workspace = &side.resolved.workspace;
        workspace.protect.iter().any(|part| protected_part(workspace, part) == grant.what)
    };
    let compared = |grant: &&Grant| match grant.kind {
        GrantKind::Egress => grant.what.starts_with("EVERYTHING"),
        GrantKind::Limit => false,
        GrantKind::Mount => !protects(old, grant) && !protects(new, grant),
        _ => true,
    };
    let (old, new) = (&old.plan.grants, &new.plan.grants);
    let has = |list: &[Grant], grant: &Grant| list.iter().any(|g| (g.kind, &g.what) == (grant.kind, &grant.what));
    for (direction, from, other) in [(Direction::Wider, new, old), (Direction::Narrower, old, new)] {
        for grant in from.iter().filter(compared).filter(|grant| !has(other, grant)) {
            // Decryption narrows what passes, or serves a credential, which has its own line.
            let direction = if grant.kind == GrantKind::Decrypted { Direction::Other } else { direction };
            let (about, gone) = (grant.kind.to_string(), from.as_ptr() == old.as_ptr());
            let what = match (direction, gone) {
                (Direction::Other, true) => format!("no longer: {}", grant.what),
                _ => grant.what.clone(),
            };
            all.insert(Difference { direction, about, what, from: Some(grant.from.clone()) });
        }
    }
}

/// Whether the command is stopped when it changes what is watched.
fn tamper(old: &Resolved, new: &Resolved, all: &mut BTreeSet<Difference>) {
    let (before, after) = (old.workspace.on_tamper, new.workspace.on_tamper);
    if before != after {
        let (direction, what) = match after {
            OnTamper::Report => (Direction::Wider, "a change of a watched name is only reported"),
            OnTamper::Stop => (Direction::Narrower, "a change of a watched name stops the command"),
        };
        all.insert(Difference { direction, about: "workspace".to_owned(), what: what.to_owned(), from: None });
    }
}

/// A protected part that is gone can be written, unless the whole workspace is read-only.
fn protection(old: &Resolved, new: &Resolved, all: &mut BTreeSet<Difference>) {
    for (direction, from, other) in [(Direction::Wider, old, new), (Direction::Narrower, new, old)] {
        let gone = |part: &&Protected| !other.workspace.protect.iter().any(|p| p.path == part.path);
        for part in from.workspace.protect.iter().filter(|_| !other.workspace.read_only).filter(gone) {
            let place = from.workspace.target.join(&part.path);
            let what = match direction {
                Direction::Wider => format!("{} is no longer protected", place.display()),
                _ => format!("{} is protected", place.display()),
            };
            all.insert(Difference { direction, about: "mount".to_owned(), what, from: Some(part.from.clone()) });
        }
    }
}

/// A limit that is larger or gone is wider.
fn limits(old: &ResourceLimits, new: &ResourceLimits, all: &mut BTreeSet<Difference>) {
    let ResourceLimits { timeout, memory, cpus, pids, shm } = new;
    let pairs = [
        ("timeout", &old.timeout, timeout, " s"),
        ("memory", &old.memory, memory, " bytes"),
        ("cpus", &old.cpus, cpus, "/1000"),
        ("pids_limit", &old.pids, pids, ""),
    ];
    let size = |limit: &Option<Sourced<u64>>| limit.as_ref().map_or(u64::MAX, |limit| limit.value);
    // Without a size of its own, /dev/shm has podman's default.
    let shared = |limit: &Option<Sourced<u64>>| limit.as_ref().map_or(64_000_000, |limit| limit.value);
    let pairs = pairs.into_iter().map(|(name, old, new, unit)| (name, old, new, unit, size(old), size(new)));
    for (name, old, new, unit, before, after) in
        pairs.chain([("shm_size", &old.shm, shm, " bytes", shared(&old.shm), shared(shm))])
    {
        let text =
            |limit: &Option<Sourced<u64>>| limit.as_ref().map_or("none".to_owned(), |l| format!("{}{unit}", l.value));
        let direction = match before.cmp(&after) {
            std::cmp::Ordering::Less => Direction::Wider,
            std::cmp::Ordering::Greater => Direction::Narrower,
            std::cmp::Ordering::Equal => continue,
        };
        let what = format!("{name}: {} → {}", text(old), text(new));
        let from = new.as_ref().or(old.as_ref()).map(|limit| limit.from.clone());
        all.insert(Difference { direction, about: "limit".to_owned(), what, from });
    }
}

/// Where nobody decides, the host's network is that of a commit, which a working tree may become.
fn builds(old: &Resolved, new: &Resolved, all: &mut BTreeSet<Difference>) {
    let recipes = old.image.value.recipe().zip(new.image.value.recipe());
    let Some((old, new)) = recipes.map(|(old, new)| (old.network.as_ref(), new.network.as_ref())) else { return };
    let on_host = |network: Option<&Sourced<BuildNetwork>>| network.is_none_or(|n| n.value == BuildNetwork::Host);
    let direction = match (on_host(old), on_host(new)) {
        (false, true) => Direction::Wider,
        (true, false) => Direction::Narrower,
        _ => return,
    };
    let what = "the steps of its build reach everything that the host can".to_owned();
    let from = new.or(old).map(|network| network.from.clone());
    all.insert(Difference { direction, about: "image".to_owned(), what, from });
}

/// What runs, and the values of variables that both have.
fn values(old: &Resolved, new: &Resolved, all: &mut BTreeSet<Difference>) {
    let mut other = |about: &str, what: String, from: Option<&Place>| {
        all.insert(Difference { direction: Direction::Other, about: about.to_owned(), what, from: from.cloned() });
    };
    let words =
        |resolved: &Resolved| -> Vec<String> { resolved.command.iter().map(|word| word.value.clone()).collect() };
    if words(old) != words(new) {
        let what = format!("{} → {}", shown(&words(old)), shown(&words(new)));
        other("command", what, new.command.first().or(old.command.first()).map(|word| &word.from));
    }
    for (name, value) in &new.env {
        if let Some(before) = old.env.get(name).filter(|before| before.value != value.value) {
            other("env", format!("{name}: {:?} → {:?}", before.value, value.value), Some(&value.from));
        }
    }
    let schedule = |resolved: &Resolved| resolved.schedule.as_ref().map_or("none".to_owned(), |s| s.value.clone());
    if schedule(old) != schedule(new) {
        let from = new.schedule.as_ref().or(old.schedule.as_ref()).map(|schedule| &schedule.from);
        other("schedule", format!("{} → {}", schedule(old), schedule(new)), from);
    }
}

fn shown(words: &[String]) -> String {
    if words.is_empty() { "none".to_owned() } else { format!("{words:?}") }
}
