//! Entries that have no effect, or less than they seem to: warnings, each with both positions.
//!
//! Only repetitions inside one list are reported. A repo may ask for what the server allows anyway, and an exact host
//! may follow an allowed suffix, since the most specific match applies.

use std::collections::{BTreeMap, BTreeSet};

use super::entry::Entry;
use super::network::{Lists, Named};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::policy::{HostName, HostPattern, RequestRule};
use crate::source::Span;

/// A deny list or ceiling, indexed to find out whether it covers a pattern.
struct Index<'a> {
    by_pattern: BTreeMap<&'a HostPattern, Vec<&'a Named>>,
    /// Every base of a pattern and all its parents, to find out whether something below a suffix is covered.
    bases: BTreeSet<&'a str>,
}

/// Reports all of them.
pub(super) fn lint(repo: &[(usize, Entry)], lists: &Lists, d: &mut Diagnostics) {
    repeated(&lists.allow, d);
    repeated(&lists.deny, d);
    if let Some(ceiling) = &lists.ceiling {
        repeated(&ceiling.value, d);
    }
    plain_beside_rules(&lists.allow, d);
    plain_beside_rules(lists.ceiling.as_ref().map_or(&[], |ceiling| ceiling.value.as_slice()), d);
    apexes(&lists.allow, d);
    apexes(&lists.deny, d);
    let deny = Index::new(&lists.deny);
    let ceiling = lists.ceiling.as_ref().map(|c| (Index::new(&c.value), c.span));
    for (_, entry) in repo {
        if let Some(by) = deny.denies(entry) {
            d.push(
                moot(entry, "the server denies it")
                    .at(by, "denied here")
                    .help("remove the entry, or ask the owner of this machine"),
            );
        } else if let Some(span) = ceiling.as_ref().filter(|(c, _)| !c.permits(entry)).map(|(_, span)| *span) {
            d.push(
                moot(entry, "the server's ceiling does not include it")
                    .at(span, "the ceiling")
                    .help("remove the entry, or ask the owner of this machine"),
            );
        }
    }
}

fn moot(entry: &Entry, why: &str) -> Diagnostic {
    Diagnostic::new(Code::MootRule, format!("`{}` can never be reached: {why}", entry.pattern))
        .at(entry.span, "has no effect")
}

/// Entries that earlier entries of the same list and pattern cover together.
fn repeated(entries: &[Named], d: &mut Diagnostics) {
    struct Seen {
        ports: BTreeSet<u16>,
        all_ports: bool,
        private: bool,
        first: Span,
    }
    type Same<'a> = (&'a str, &'a HostPattern, Option<&'a RequestRule>);
    let mut seen: BTreeMap<Same<'_>, Seen> = BTreeMap::new();
    for Named { id, entry } in entries {
        let list = id.as_str().rsplit_once('[').map_or("", |(list, _)| list);
        let private = entry.private.is_some();
        let same = (list, &entry.pattern, entry.request.as_ref());
        let denies = list.ends_with("deny");
        let about = |entry: &Entry| if denies { entry.ports.clone() } else { entry.covered_ports() };
        let Some(seen) = seen.get_mut(&same) else {
            let all_ports = denies && entry.ports.is_empty();
            seen.insert(same, Seen { ports: about(entry), all_ports, private, first: entry.span });
            continue;
        };
        let ports = about(entry);
        let every = denies && ports.is_empty();
        let covered = seen.all_ports || (!every && ports.is_subset(&seen.ports));
        if covered && (seen.private || !private) {
            d.push(
                Diagnostic::new(Code::MootRule, format!("`{}` repeats an earlier entry", entry.pattern))
                    .at(entry.span, "has no effect")
                    .at(seen.first, "the earlier entry")
                    .help("remove one of them"),
            );
        }
        seen.ports.extend(ports);
        seen.all_ports |= every;
        seen.private |= private;
    }
}

/// Rules of a pattern for which a plain entry in any list permits every request: all entries with the most specific
/// pattern apply together.
fn plain_beside_rules(entries: &[Named], d: &mut Diagnostics) {
    let plain = entries.iter().filter(|named| named.entry.request.is_none());
    let plain: BTreeMap<&HostPattern, &Entry> = plain.map(|named| (&named.entry.pattern, &named.entry)).collect();
    for Named { entry, .. } in entries.iter().filter(|named| named.entry.request.is_some()) {
        let Some(by) = plain.get(&entry.pattern) else { continue };
        d.push(
            Diagnostic::new(Code::MootRule, format!("a plain entry for `{}` permits every request", entry.pattern))
                .at(entry.span, "this rule has no effect")
                .at(by.span, "permits everything")
                .help("remove one of them"),
        );
    }
}

/// `*.example.com` where nothing covers `example.com`.
fn apexes(entries: &[Named], d: &mut Diagnostics) {
    let patterns: BTreeSet<&HostPattern> = entries.iter().map(|n| &n.entry.pattern).collect();
    for Named { entry, .. } in entries {
        let HostPattern::Subdomains(base) = &entry.pattern else { continue };
        let Some(apex) = HostName::from_wire(base) else { continue };
        if !covering(&HostPattern::Exact(apex)).any(|p| patterns.contains(&p)) {
            d.push(
                Diagnostic::new(Code::ApexNotIncluded, format!("`*.{base}` does not match `{base}` itself"))
                    .at(entry.span, "subdomains only")
                    .help(format!("write `.{base}` to match both, or add `{base}`")),
            );
        }
    }
}

fn base(pattern: &HostPattern) -> &str {
    match pattern {
        HostPattern::Exact(name) => name.as_str(),
        HostPattern::Suffix(base) | HostPattern::Subdomains(base) => base,
        HostPattern::Ip(_) => "",
    }
}

fn parents(name: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(name), |name| name.split_once('.').map(|(_, parent)| parent))
}

/// The patterns that match everything this one matches, itself first.
pub(super) fn covering(pattern: &HostPattern) -> impl Iterator<Item = HostPattern> {
    let mut all = vec![pattern.clone()];
    if !matches!(pattern, HostPattern::Ip(_)) {
        // `*.x` covers `*.x` and everything at or below `y.x`, but neither `x` nor `.x`.
        for (depth, parent) in parents(base(pattern)).enumerate().filter(|(_, p)| !p.is_empty()) {
            if depth > 0 {
                all.push(HostPattern::Subdomains(parent.to_owned()));
            }
            all.push(HostPattern::Suffix(parent.to_owned()));
        }
        all.push(HostPattern::Subdomains(String::new()));
    }
    all.into_iter()
}

impl<'a> Index<'a> {
    fn new(entries: &'a [Named]) -> Self {
        let mut by_pattern: BTreeMap<&HostPattern, Vec<&Named>> = BTreeMap::new();
        for named in entries {
            by_pattern.entry(&named.entry.pattern).or_default().push(named);
        }
        Self { by_pattern, bases: entries.iter().flat_map(|n| parents(base(&n.entry.pattern))).collect() }
    }

    fn covering(&self, pattern: &HostPattern) -> Vec<&'a Named> {
        covering(pattern).filter_map(|p| self.by_pattern.get(&p)).flatten().copied().collect()
    }

    /// The deny entry that covers everything an allow entry permits.
    fn denies(&self, allow: &Entry) -> Option<Span> {
        let ports = allow.covered_ports();
        let forbids = |deny: &&Named| deny.entry.ports.is_empty() || ports.is_subset(&deny.entry.ports);
        self.covering(&allow.pattern).into_iter().find(forbids).map(|named| named.entry.span)
    }

    /// Whether the ceiling matches some of what an allow entry permits.
    fn permits(&self, allow: &Entry) -> bool {
        let many = matches!(allow.pattern, HostPattern::Suffix(_) | HostPattern::Subdomains(_));
        let base = base(&allow.pattern);
        let ports = allow.covered_ports();
        let owner = covering(&allow.pattern).find_map(|pattern| self.by_pattern.get(&pattern));
        let shares = |named: &&Named| !named.entry.covered_ports().is_disjoint(&ports);
        owner.is_some_and(|group| group.iter().any(shares)) || (many && (base.is_empty() || self.bases.contains(base)))
    }
}
