//! The tables of names that nginx looks decisions up in, and the form a name must have before it does.

use serde::Serialize;
use serde_json::{Value, json};

use super::inspect::{self, Asked, depth};
use crate::policy::{Decision, Row, Scope, Tier, Verdict};

/// `HostName` as a regular expression, for names of any case.
const NAME: &str = "((?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\\.)+[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?)";

/// A number of an IPv4 address as `Ipv4Addr` reads it.
const OCTET: &str = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";

/// The lines of one map, and what decides how large nginx's hash tables must be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Map {
    pub(super) lines: Vec<String>,
    longest_key: usize,
}

/// How large nginx's hash tables must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct HashSizes {
    bucket: usize,
    max: usize,
}

/// The regular expressions that a name passes before it is looked up. Alone, as in an SNI, and followed by `|` and
/// what nginx made of the header.
pub(super) fn forms() -> Value {
    let address = format!("({OCTET}(?:\\.{OCTET}){{3}})");
    // The header's port, if it has one, is the connection's, which stands at the end.
    let port = "(?::80(?=\\|[^|]*\\|80\\z)|:443(?=\\|[^|]*\\|443\\z))?\\|\\1\\|(?:80|443)\\z";
    let (path, large) = inspect::forms();
    json!({
        "name": format!("~*\\A(?=.{{1,253}}\\.?\\z){NAME}\\.?\\z"),
        "address": format!("~\\A{address}\\z"),
        "name_header": format!("~*\\A(?=[^:|]{{1,253}}\\.?[:|]){NAME}\\.?{port}"),
        "address_header": format!("~\\A{address}{port}"),
        "path": path,
        "large": large,
    })
}

/// The map for one port.
pub(super) fn map(table: &[Row], asked: &Asked<'_>) -> Map {
    let mut map = Map::default();
    let below = |name: &str| {
        let at = table.binary_search_by(|row| row.scope.cmp(&Scope::Below(name.to_owned()))).ok()?;
        table.get(at)
    };
    let words = |row: &Row| Words { depth: depth(row), asked: asked.word(&row.decision) };
    for row in table {
        match &row.scope {
            Scope::Below(base) if base.is_empty() => map.push("default", &row.decision, &words(row)),
            // Written with its apex if both are decided alike.
            Scope::Below(base) if depth(row).is_some() => map.push(&format!("*.{base}"), &row.decision, &words(row)),
            Scope::Below(base) => {
                let apex =
                    table.binary_search_by(|other| cmp_host(&other.scope, base)).ok().and_then(|at| table.get(at));
                if apex.is_none_or(|apex| apex.decision != row.decision) {
                    map.push(&format!("*.{base}"), &row.decision, &words(row));
                }
            }
            Scope::Host(name) => {
                let both =
                    below(name.as_str()).is_some_and(|below| below.decision == row.decision && depth(below).is_none());
                map.push(&format!("{}{name}", if both { "." } else { "" }), &row.decision, &words(row));
            }
            // Names never look like this, and exact keys are found before any pattern.
            Scope::Addresses => map.push("~^[0-9.]+$", &row.decision, &words(row)),
            Scope::Address(address) => map.push(&address.to_string(), &row.decision, &words(row)),
        }
    }
    map
}

fn cmp_host(scope: &Scope, name: &str) -> std::cmp::Ordering {
    match scope {
        Scope::Below(_) => std::cmp::Ordering::Less,
        Scope::Host(host) => host.as_str().cmp(name),
        Scope::Addresses | Scope::Address(_) => std::cmp::Ordering::Greater,
    }
}

/// What is said besides the decision: how many labels names have, and the list of rules that requests are asked against.
struct Words {
    depth: Option<usize>,
    asked: String,
}

impl Map {
    /// `KEY "ROUTE REASON [RULE [LIST]]"; # PLACE`. Keys are LDH and rule ids need no quoting, so neither can end the word.
    fn push(&mut self, key: &str, decision: &Decision, words: &Words) {
        let route = match (decision.verdict, decision.tier, decision.private) {
            (Verdict::Deny, ..) => "deny".to_owned(),
            (Verdict::Allow, Tier::Inspected, _) => {
                words.depth.map_or_else(|| "inspect".to_owned(), |depth| format!("inspect/{depth}"))
            }
            (Verdict::Allow, _, false) => "pass".to_owned(),
            (Verdict::Allow, _, true) => "private".to_owned(),
        };
        let rule = decision.rule.as_ref().map_or_else(String::new, |rule| format!(" {rule}"));
        let comment = decision.from.as_ref().map_or_else(String::new, |from| format!(" # {}", from.short()));
        self.longest_key = self.longest_key.max(key.len());
        self.lines.push(format!("{key} \"{route} {}{rule}{}\";{comment}", decision.reason.code(), words.asked));
    }
}

/// A bucket holds the longest key with its bookkeeping; the table has several buckets for each key.
pub(super) fn hash_sizes(maps: [&Map; 2]) -> HashSizes {
    let longest = maps.iter().map(|map| map.longest_key).max().unwrap_or(0);
    let most = maps.iter().map(|map| map.lines.len()).max().unwrap_or(0);
    HashSizes { bucket: (longest + 64).next_power_of_two(), max: (most * 4).next_power_of_two().max(2048) }
}
