//! Rules about requests as tables, and the parts of nginx that decrypt.
//!
//! A table is looked up by `METHOD PATH`, the path as it came: the globs' regular expressions match what has the canonical
//! form meant, so nothing is decoded on the way.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::ensure;
use serde::Serialize;
use serde_json::{Value, json};

use super::credentials::{Credentials, Masked};
use crate::policy::{
    Decision, GRAPHQL_PATH, Inspection, PathGlob, Reason, RequestRule, Row, Rule, RuleId, Scope, Tier, Verdict,
    refused_paths,
};
use crate::source::Place;

/// nginx reads no word longer than its buffer of 4096 bytes.
const LONGEST_WORD: usize = 4000;

type Key = (Vec<RuleId>, Option<Vec<RuleId>>);

/// Every distinct pair of lists that requests are asked against, numbered.
#[derive(Debug, Default)]
pub(super) struct Asked<'a> {
    numbers: BTreeMap<Key, usize>,
    all: Vec<&'a Inspection>,
}

/// A server that decrypts for the hosts of one scope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Inspected {
    server_name: String,
    certificate: String,
    upstream: String,
    exact: bool,
    private: bool,
    from: String,
    #[serde(flatten)]
    masked: Masked,
}

impl<'a> Asked<'a> {
    /// Those of the tables.
    pub(super) fn of(rows: impl Iterator<Item = &'a Row>) -> Self {
        let mut asked = Self::default();
        for inspection in rows.filter_map(|row| row.decision.inspection.as_ref()) {
            let next = asked.all.len();
            if *asked.numbers.entry(key(inspection)).or_insert(next) == next {
                asked.all.push(inspection);
            }
        }
        asked
    }

    /// Requests of some host are asked.
    pub(super) fn any(&self) -> bool {
        !self.all.is_empty()
    }

    /// Some rule reads bodies.
    pub(super) fn bodies(&self) -> bool {
        self.all.iter().any(|one| lists(one).flatten().any(|rule| graphql(rule).is_some()))
    }

    /// The fourth word of a decision.
    pub(super) fn word(&self, decision: &Decision) -> String {
        let number = decision.inspection.as_ref().and_then(|inspection| self.numbers.get(&key(inspection)));
        number.map_or_else(String::new, |number| format!(" i{number}"))
    }

    /// The maps of requests.conf.
    pub(super) fn lines(&self) -> anyhow::Result<Vec<String>> {
        let mut lines = Vec::new();
        let (mut allow, mut ceiling) = (Vec::new(), Vec::new());
        for (number, one) in self.all.iter().enumerate() {
            lines.extend(map(&format!("$web_allow_{number}"), &one.allow, None)?);
            allow.push(format!("    i{number} $web_allow_{number};"));
            if let Some(rules) = &one.ceiling {
                lines.extend(map(&format!("$web_ceiling_{number}"), rules, Some(Reason::AboveCeiling))?);
                ceiling.push(format!("    i{number} $web_ceiling_{number};"));
            }
        }
        lines.push("map $web_asked $web_allow {".to_owned());
        lines.extend(allow);
        lines.push(format!("    default \"deny {}\";", Reason::NotAllowed.code()));
        lines.push("}".to_owned());
        lines.push("map $web_asked $web_ceiling {".to_owned());
        lines.extend(ceiling);
        lines.push("    default \"\";".to_owned());
        lines.push("}".to_owned());
        Ok(lines)
    }

    /// The same for inspect.js: the lists in which some rule reads bodies.
    pub(super) fn bodies_json(&self) -> anyhow::Result<Value> {
        let mut all = serde_json::Map::new();
        for (number, one) in self.all.iter().enumerate() {
            if lists(one).flatten().any(|rule| graphql(rule).is_some()) {
                let list = |rules: &[Rule]| rules.iter().map(rule_json).collect::<anyhow::Result<Vec<Value>>>();
                let ceiling = one.ceiling.as_deref().map(list).transpose()?;
                all.insert(format!("i{number}"), json!({ "allow": list(&one.allow)?, "ceiling": ceiling }));
            }
        }
        Ok(Value::Object(all))
    }
}

/// The servers of the hosts that are decrypted.
pub(super) fn inspected(tls: &[Row], credentials: &Credentials<'_>) -> Vec<Inspected> {
    let decrypted = |row: &&Row| row.decision.verdict == Verdict::Allow && row.decision.tier == Tier::Inspected;
    let server = |(number, row): (usize, &Row)| {
        let (server_name, certificate, exact) = match &row.scope {
            Scope::Host(name) => (name.to_string(), name.to_string(), true),
            // Every name below a base of one label is too deep.
            Scope::Below(base) if base.contains('.') => (format!("*.{base}"), format!("_.{base}"), false),
            Scope::Below(_) | Scope::Addresses | Scope::Address(_) => return None,
        };
        Some(Inspected {
            server_name,
            certificate,
            // Below a suffix there is no end of names, so those are resolved and dialled for each request.
            upstream: if exact { format!("host_{number}") } else { "$host:443".to_owned() },
            exact,
            private: row.decision.private,
            from: row.decision.from.as_ref().map_or_else(String::new, Place::short),
            masked: credentials.at(row),
        })
    };
    tls.iter().filter(decrypted).enumerate().filter_map(server).collect()
}

/// How many labels the names of inspected suffixes have.
pub(super) fn depths(tls: &[Row]) -> BTreeSet<usize> {
    tls.iter().filter_map(depth).collect()
}

/// How many labels the names of a row have, where others are too deep.
pub(super) fn depth(row: &Row) -> Option<usize> {
    let Scope::Below(base) = &row.scope else { return None };
    let deep = row.decision.verdict == Verdict::Allow && row.decision.tier == Tier::Inspected;
    deep.then(|| base.split('.').count() + 1)
}

/// The regular expressions about requests.
pub(super) fn forms() -> (String, String) {
    let path = format!("~\\A[A-Z_-]+ (?![\\s\\S]*(?:{}))/", refused_paths());
    // More than 1048576.
    let seven = ["[2-9]\\d{6}", "1[1-9]\\d{5}", "10[5-9]\\d{4}", "1049\\d{3}", "1048[6-9]\\d\\d", "10485[89]\\d"];
    (path, format!("~\\A0*(?:\\d{{8,}}|{}|104857[7-9])\\z", seven.join("|")))
}

fn key(inspection: &Inspection) -> Key {
    let ids = |rules: &[Rule]| rules.iter().map(|rule| rule.id.clone()).collect();
    (ids(&inspection.allow), inspection.ceiling.as_deref().map(ids))
}

fn lists(inspection: &Inspection) -> impl Iterator<Item = &[Rule]> {
    std::iter::once(inspection.allow.as_slice()).chain(inspection.ceiling.as_deref())
}

fn graphql(rule: &Rule) -> Option<&crate::policy::GraphqlRule> {
    rule.request.as_ref()?.graphql.as_ref()
}

/// One list: who permits without a body, who might with one, whose path it is at least, and if nobody's. `always` is
/// the reason for both of the latter.
fn map(name: &str, rules: &[Rule], always: Option<Reason>) -> anyhow::Result<Vec<String>> {
    let mut lines: Vec<String> = rules.iter().map(|rule| format!("# {}: {}", rule.id, rule.from.short())).collect();
    lines.push(format!("map $web_call {name} {{"));
    let reason = |other: Reason| always.unwrap_or(other).code();
    let mut line = |rule: &Rule, method: &str, answer: &str| {
        for (glob, path) in paths(rule)? {
            let word = format!("~\\A{method} {path}\\z");
            let line = format!("    \"{word}\" \"{answer} {}\"; # {glob}", rule.id);
            ensure!(
                word.len() < LONGEST_WORD,
                "{}: a path of this entry is too long for nginx, which reads words of at most 4096 bytes: about 250 \
                 characters are possible",
                rule.from.short()
            );
            lines.push(line);
        }
        anyhow::Ok(())
    };
    let (bodies, heads): (Vec<&Rule>, Vec<&Rule>) = rules.iter().partition(|rule| graphql(rule).is_some());
    for (rules, answer) in [(heads, "allow"), (bodies, "body")] {
        for rule in rules {
            if let Some(methods) = methods(rule) {
                line(rule, &methods, answer)?;
            }
        }
    }
    for rule in rules {
        line(rule, "\\S+", &format!("deny {}", reason(Reason::MethodNotAllowed)))?;
    }
    let first = rules.first().map_or_else(String::new, |rule| format!(" {}", rule.id));
    lines.push(format!("    default \"deny {}{first}\";", reason(Reason::PathNotAllowed)));
    lines.push("}".to_owned());
    Ok(lines)
}

/// The methods that a rule permits; none if there is no such method.
fn methods(rule: &Rule) -> Option<String> {
    let Some(RequestRule { methods, graphql, .. }) = &rule.request else { return Some("\\S+".to_owned()) };
    let Some(methods) = methods else {
        return Some(if graphql.is_some() { "POST".to_owned() } else { "\\S+".to_owned() });
    };
    let mut all: BTreeSet<&str> = methods.iter().map(String::as_str).collect();
    if all.contains("GET") {
        all.insert("HEAD");
    }
    if graphql.is_some() {
        // A body is what they do not have.
        all.retain(|method| !matches!(*method, "GET" | "HEAD"));
    }
    // nginx knows methods of these letters alone.
    all.retain(|method| method.bytes().all(|b| b.is_ascii_uppercase() || matches!(b, b'_' | b'-')));
    (!all.is_empty()).then(|| format!("(?:{})", all.into_iter().collect::<Vec<_>>().join("|")))
}

/// The globs of a rule, and the regular expressions for them.
fn paths(rule: &Rule) -> anyhow::Result<Vec<(String, String)>> {
    let every = || vec![("every path".to_owned(), "\\S+".to_owned())];
    let Some(request) = &rule.request else { return Ok(every()) };
    let both = |glob: &PathGlob| (glob.as_str().to_owned(), glob.regex());
    Ok(match &request.paths {
        Some(paths) => paths.iter().map(both).collect(),
        None if request.graphql.is_some() => vec![both(&PathGlob::parse(GRAPHQL_PATH)?)],
        None => every(),
    })
}

fn rule_json(rule: &Rule) -> anyhow::Result<Value> {
    let method = methods(rule).map(|methods| format!("^{methods}$"));
    let paths: Vec<String> = paths(rule)?.into_iter().map(|(_, path)| path).collect();
    let path = format!("^(?:{})$", paths.join("|"));
    Ok(json!({ "id": rule.id, "method": method, "path": path, "graphql": graphql(rule) }))
}
