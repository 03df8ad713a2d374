//! Rules for the plan and the router, and sets of rules that quickly find those for a host.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use ipnet::IpNet;
use serde::{Deserialize, Deserializer, Serialize};

use super::credential::Credential;
use super::git::GitRule;
use super::host::{HostName, HostPattern};
use super::request::{GraphqlRule, RequestRule};
use crate::source::Place;

/// The name of a rule in log lines, policies and explanations: its position in the config, e.g. `repo.allow[2]`,
/// `server.deny[0]`, `server.repos.widgets.allow[1]`, `allow_file[7]` (the line there). Printable ASCII without quotes,
/// so that it never needs escaping.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RuleId(String);

impl RuleId {
    /// Creates an id; characters outside `[A-Za-z0-9._[]-]` become `_`.
    pub fn new(text: &str) -> Self {
        let keep = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '[' | ']' | '-');
        Self(text.chars().map(|c| if keep(c) { c } else { '_' }).collect())
    }

    /// The id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for RuleId {
    type Error = String;

    /// Parses an id without replacing anything.
    fn try_from(text: String) -> Result<Self, String> {
        let id = Self::new(&text);
        if id.0 == text { Ok(id) } else { Err(format!("`{text}` is not a rule id")) }
    }
}

impl From<RuleId> for String {
    fn from(id: RuleId) -> Self {
        id.0
    }
}

impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An entry of `allow`, `deny` or `ceiling`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Its name.
    pub id: RuleId,
    /// The hosts that it matches.
    pub pattern: HostPattern,
    /// The only TCP ports that it is about. Empty: 80 and 443 of names in `allow` and `ceiling`, every port in `deny`.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub ports: BTreeSet<u16>,
    /// Whether the names it matches may resolve to special-purpose addresses.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub private: bool,
    /// Its conditions on requests; `None` for an entry that permits all requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<RequestRule>,
    /// Its place.
    pub from: Place,
}

impl Rule {
    /// Its conditions on git, if it has any.
    pub fn git(&self) -> Option<&GitRule> {
        self.request.as_ref()?.git.as_ref()
    }

    /// Its conditions on a GraphQL body, if it reads one.
    pub fn graphql(&self) -> Option<&GraphqlRule> {
        self.request.as_ref()?.graphql.as_ref()
    }

    /// Whether an allow or ceiling entry covers this port, if its pattern matches.
    pub fn covers_port(&self, port: u16) -> bool {
        if self.ports.is_empty() { self.pattern.web_ports().contains(&port) } else { self.ports.contains(&port) }
    }

    /// All ports that an allow or ceiling entry covers.
    pub fn covered_ports(&self) -> BTreeSet<u16> {
        covered_ports(&self.pattern, &self.ports)
    }
}

/// The ports that an allow or ceiling entry with this pattern and these [`Rule::ports`] covers.
pub fn covered_ports(pattern: &HostPattern, ports: &BTreeSet<u16>) -> BTreeSet<u16> {
    if ports.is_empty() { pattern.web_ports().iter().copied().collect() } else { ports.clone() }
}

/// A list of rules with an index by pattern. Entries with the same pattern form a group and apply together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSet {
    rules: Vec<Rule>,
    groups: BTreeMap<HostPattern, Vec<usize>>,
}

impl Serialize for RuleSet {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.rules.serialize(serializer)
    }
}

/// The index is built again, so that no file can set it.
impl<'de> Deserialize<'de> for RuleSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::new)
    }
}

impl RuleSet {
    /// Sorts the rules by id, so that the order in which they were written never matters, and indexes them.
    pub fn new(mut rules: Vec<Rule>) -> Self {
        rules.sort_by(|a, b| (&a.pattern, &a.id).cmp(&(&b.pattern, &b.id)));
        let mut groups: BTreeMap<HostPattern, Vec<usize>> = BTreeMap::new();
        for (index, rule) in rules.iter().enumerate() {
            groups.entry(rule.pattern.clone()).or_default().push(index);
        }
        Self { rules, groups }
    }

    /// All rules, by pattern and id.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Each distinct pattern with its rules.
    pub fn groups(&self) -> impl Iterator<Item = (&HostPattern, Vec<&Rule>)> {
        self.groups.iter().map(|(pattern, indices)| (pattern, self.pick(indices)))
    }

    /// The group of the most specific pattern that matches: exact, then the longest suffix; of `.x` and `*.x` with the
    /// same base, the latter. Empty if none matches.
    pub fn owner(&self, host: &HostName) -> Vec<&Rule> {
        self.matching(host).next().unwrap_or_default()
    }

    /// The group of an address. Empty if there is none.
    pub fn owner_of_ip(&self, address: std::net::IpAddr) -> Vec<&Rule> {
        self.groups.get(&HostPattern::Ip(address)).map(|indices| self.pick(indices)).unwrap_or_default()
    }

    /// Every group that matches, most specific first.
    pub fn matching<'a>(&'a self, host: &HostName) -> impl Iterator<Item = Vec<&'a Rule>> + use<'a> {
        let name = host.as_str().to_owned();
        let starts: Vec<usize> = host.self_and_parents().map(|base| name.len() - base.len()).collect();
        let exact = std::iter::once(HostPattern::Exact(host.clone()));
        let suffixes = starts.into_iter().flat_map(move |start| {
            let base = name.get(start..).unwrap_or_default();
            let below = (start > 0).then(|| HostPattern::Subdomains(base.to_owned()));
            below.into_iter().chain(std::iter::once(HostPattern::Suffix(base.to_owned())))
        });
        let every = std::iter::once(HostPattern::Subdomains(String::new()));
        // Lazy, since most callers only need the first match.
        let patterns = exact.chain(suffixes).chain(every).take_while(|_| !self.groups.is_empty());
        patterns.filter_map(|pattern| self.groups.get(&pattern).map(|indices| self.pick(indices)))
    }

    fn pick(&self, indices: &[usize]) -> Vec<&Rule> {
        indices.iter().filter_map(|&i| self.rules.get(i)).collect()
    }
}

/// The maximum number of `host:port` pairs that a router can listen on.
pub const MOST_NAMED_PORTS: usize = 5_000;

/// Everything that decides about egress.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// What repo and server permit together.
    pub allow: RuleSet,
    /// What the server denies, whatever else matches. Required in a file, so that a lost key never permits anything.
    pub deny: RuleSet,
    /// If not null, the most that can be permitted. An empty one permits nothing. Required in a file, as `deny` is.
    #[serde(deserialize_with = "Option::deserialize")]
    pub ceiling: Option<RuleSet>,
    /// Special-purpose ranges that the server makes reachable.
    pub reachable: Vec<IpNet>,
    /// The credentials that the router inserts, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub credentials: Vec<Credential>,
}
