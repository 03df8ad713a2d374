//! Rules about requests in entries and credentials: methods, paths, GraphQL fields, repositories.

pub(super) mod git;

use std::collections::BTreeSet;

use super::read::{self, Fields, Keys, fields, shorten};
use super::suggest::nearest;
use super::yaml::{Kind, Node};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::policy::{GraphqlRule, PathError, PathGlob, RequestRule, STEERING, Upgrade};
use crate::source::Located;

pub(super) const GRAPHQL: Keys = Keys {
    what: "`graphql`",
    known: &["queries", "mutations", "subscriptions"],
    elsewhere: &[
        ("query", "write `queries: [field]`"),
        ("mutation", "write `mutations: [field]`"),
        ("subscription", "write `subscriptions: [field]`"),
    ],
};

/// Methods that are forwarded. CONNECT is for proxies, and TRACE would show what the router added.
const METHODS: [&str; 16] = [
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "PATCH",
    "DELETE",
    "OPTIONS",
    "QUERY",
    "PROPFIND",
    "PROPPATCH",
    "MKCOL",
    "COPY",
    "MOVE",
    "LOCK",
    "UNLOCK",
    "REPORT",
];

/// The keys of an entry that are about requests.
pub(super) const KEYS: [&str; 6] = ["methods", "paths", "graphql", "git", "upgrade", "pass_headers"];

/// Reads [`KEYS`] of an entry; `None` if it has none of them.
pub(super) fn rule(map: &Fields<'_>, d: &mut Diagnostics) -> Option<RequestRule> {
    let said = KEYS.iter().any(|key| map.get(key).is_some());
    let methods = methods(map, d);
    let rule = RequestRule {
        paths: paths(map, d),
        graphql: map.get("graphql").map(|node| graphql(node, d)),
        methods: methods.as_ref().map(|l| l.value.clone()),
        git: git::rule(map, d),
        upgrade: words(map, "upgrade", &["websocket"], d).into_iter().map(|_| Upgrade::Websocket).collect(),
        pass_headers: words(map, "pass_headers", &STEERING, d).into_iter().collect(),
    };
    if let (Some(_), false, Some(span)) = (&rule.graphql, rule.upgrade.is_empty(), map.key_span("upgrade")) {
        let message = "`graphql` reads the body of a request, and a WebSocket has none";
        let help = "give the WebSocket an entry of its own, with its `paths`";
        d.push(Diagnostic::new(Code::BadValue, message).at(span, "").help(help));
    }
    if let Some(methods) = methods.filter(|l| rule.graphql.is_some() && !l.value.contains("POST")) {
        d.push(
            Diagnostic::new(
                Code::BadValue,
                "`graphql` reads the body of a POST request, which `methods` does not include",
            )
            .at(methods.span, "")
            .help("add `POST`, or remove `methods`, which defaults to `[POST]` with `graphql`"),
        );
    }
    said.then_some(rule)
}

/// Reads a list of known words, ignoring case.
fn words(map: &Fields<'_>, key: &str, known: &[&'static str], d: &mut Diagnostics) -> Vec<String> {
    let Some(node) = map.get(key) else { return Vec::new() };
    let mut all = Vec::new();
    for item in items(node, &format!("`{key}`"), d) {
        let Some(text) = read::string(item, &format!("an item of `{key}`"), d) else { continue };
        let lower = text.value.to_ascii_lowercase();
        if known.contains(&lower.as_str()) {
            all.push(lower);
            continue;
        }
        let message = format!("`{}` cannot stand in `{key}`", shorten(&text.value));
        let finding = Diagnostic::new(Code::BadValue, message);
        d.push(match nearest(&lower, known.iter().copied()) {
            Some(near) => finding.at(text.span, format!("did you mean `{near}`?")).help(format!("write `{near}`")),
            None => finding.at(text.span, "").help(format!("write one of {}", read::listed(known))),
        });
    }
    all
}

/// An empty list would permit nothing, which nobody means.
fn items<'n>(node: &'n Node, what: &str, d: &mut Diagnostics) -> &'n [Node] {
    if node.is_empty() {
        let message = format!("an empty {what} permits nothing");
        let help = "remove the key to permit all, or remove the entry to permit none";
        d.push(Diagnostic::new(Code::BadValue, message).at(node.span, "").help(help));
        return &[];
    }
    read::list(node, what, d)
}

/// Reads `methods`; GET includes HEAD.
pub(super) fn methods(map: &Fields<'_>, d: &mut Diagnostics) -> Option<Located<BTreeSet<String>>> {
    let node = map.get("methods")?;
    let mut all = BTreeSet::new();
    for item in items(node, "`methods`", d) {
        let Some(text) = read::string(item, "a method", d) else { continue };
        let upper = text.value.to_ascii_uppercase();
        if METHODS.contains(&text.value.as_str()) {
            all.insert(text.value);
            continue;
        }
        let finding = Diagnostic::new(Code::BadValue, format!("`{}` is not a supported method", shorten(&text.value)));
        d.push(match nearest(&upper, METHODS) {
            _ if METHODS.contains(&upper.as_str()) => {
                finding.at(text.span, "methods are upper case").help(format!("write `{upper}`"))
            }
            Some(near) => finding.at(text.span, format!("did you mean `{near}`?")).help(format!("write `{near}`")),
            None => finding.at(text.span, "").help(format!("write one of {}", read::listed(&METHODS))),
        });
    }
    if all.contains("GET") {
        all.insert("HEAD".to_owned());
    }
    Some(Located::new(all, map.key_span("methods").unwrap_or(node.span)))
}

/// Reads `paths`.
pub(super) fn paths(map: &Fields<'_>, d: &mut Diagnostics) -> Option<Vec<PathGlob>> {
    let node = map.get("paths")?;
    let mut all = Vec::new();
    for item in items(node, "`paths`", d) {
        let Some(text) = read::string(item, "a path", d) else { continue };
        match PathGlob::parse(&text.value) {
            Ok(glob) => all.push(glob),
            Err(error) => {
                let message = format!("`{}` is not a valid path pattern: {error}", shorten(&text.value));
                let help = match error {
                    PathError::NoSlash => "start it with `/`, as in `/repos/acme/**`; the host has a key of its own",
                    PathError::Query => "remove the query; rules do not match queries",
                    PathError::Wildcard => "`*` stays inside a segment, `**` crosses segments",
                    PathError::Byte => "percent-encode characters outside ASCII, as in `/caf%C3%A9`",
                    _ => {
                        "write the canonical path; the router refuses requests with such a path before it checks any rule"
                    }
                };
                d.push(Diagnostic::new(Code::BadPath, message).at(text.span, "").help(help));
            }
        }
    }
    all.sort();
    all.dedup();
    Some(all)
}

fn graphql(node: &Node, d: &mut Diagnostics) -> GraphqlRule {
    let map = fields(node, &GRAPHQL, d);
    let mut names = |key: &str| -> BTreeSet<String> {
        let Some(list) = map.get(key) else { return BTreeSet::new() };
        read::list(list, &format!("`{key}`"), d).iter().filter_map(|item| field(item, d)).collect()
    };
    let rule =
        GraphqlRule { queries: names("queries"), mutations: names("mutations"), subscriptions: names("subscriptions") };
    let said = |key: &str| map.get(key).is_some_and(|list| !list.is_empty());
    if matches!(node.kind, Kind::Map(_)) && !GRAPHQL.known.iter().any(|key| said(key)) {
        d.push(
            Diagnostic::new(Code::BadValue, "an empty `graphql` permits nothing")
                .at(node.span, "")
                .help("name top-level fields, as in `{queries: [viewer, repository]}`; `\"*\"` matches all of them"),
        );
    }
    rule
}

/// Reads the name of a top-level field, or `*`.
fn field(node: &Node, d: &mut Diagnostics) -> Option<String> {
    let text = read::string(node, "a field", d)?;
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let name = !text.value.starts_with(|c: char| c.is_ascii_digit()) && text.value.chars().all(word);
    if text.value == "*" || (name && !text.value.is_empty()) {
        return Some(text.value);
    }
    let message = format!("`{}` is not a field name", shorten(&text.value));
    d.push(
        Diagnostic::new(Code::BadValue, message)
            .at(text.span, "")
            .help("write the field's name from the schema, not an alias; `\"*\"` matches every field"),
    );
    None
}
