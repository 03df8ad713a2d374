//! Rules about requests: what an entry says beyond host and port.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::path::PathGlob;

/// What requests an entry permits. A request passes if everything that is said holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestRule {
    /// Methods, upper case; GET brings HEAD. None is every method (with `graphql`: POST).
    pub methods: Option<BTreeSet<String>>,
    /// Globs for the canonical path. None is every path (with `graphql`: `/graphql`).
    pub paths: Option<Vec<PathGlob>>,
    /// Operations of a GraphQL request in a JSON body.
    pub graphql: Option<GraphqlRule>,
    /// Protocols that a permitted request may go on in, bytes both ways that no rule reads.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub upgrade: BTreeSet<Upgrade>,
    /// Names of [`STEERING`], lower case, that go up all the same.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub pass_headers: BTreeSet<String>,
}

/// A protocol that a connection can go on in (RFC 9110 7.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Upgrade {
    /// RFC 6455.
    Websocket,
}

/// Names of request headers by which frameworks and proxies let a client say another method, path or host than the one that
/// was decided on. They do not go up to hosts with rules about requests unless the entry says `pass_headers`. Compared
/// without case, and with `_` for `-`.
pub const STEERING: [&str; 12] = [
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
    "x-original-url",
    "x-original-uri",
    "x-original-host",
    "x-rewrite-url",
    "x-forwarded-host",
    "x-forwarded-server",
    "x-forwarded-uri",
    "x-forwarded-prefix",
    "forwarded",
];

/// Top-level fields that an operation may select, by its type; `*` is every field, an empty set none.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphqlRule {
    /// Of a `query`.
    pub queries: BTreeSet<String>,
    /// Of a `mutation`.
    pub mutations: BTreeSet<String>,
    /// Of a `subscription`.
    pub subscriptions: BTreeSet<String>,
}

/// A request's head as it came, in origin form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpRequest<'a> {
    /// The method, case-sensitive (RFC 9110 9.1).
    pub method: &'a str,
    /// The request target, raw: path and query.
    pub target: &'a str,
}

/// Types of GraphQL operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum GraphqlKind {
    /// Reads.
    Query,
    /// Writes.
    Mutation,
    /// Listens.
    Subscription,
}

impl RequestRule {
    /// True if a request may go on in another protocol.
    pub fn permits_upgrade(&self, to: Upgrade) -> bool {
        self.upgrade.contains(&to)
    }

    /// True if the rule is for this method. One with `graphql` reads a body, so it is never for GET.
    pub fn permits_method(&self, method: &str) -> bool {
        match (&self.methods, &self.graphql) {
            (None, None) => true,
            (None, Some(_)) => method == "POST",
            (Some(_), Some(_)) if matches!(method, "GET" | "HEAD") => false,
            (Some(methods), _) => names_method(methods, method),
        }
    }

    /// True if the rule is for this path, which must be canonical.
    pub fn permits_path(&self, canonical: &str) -> bool {
        match &self.paths {
            Some(paths) => paths.iter().any(|glob| glob.matches(canonical)),
            None => self.graphql.is_none() || canonical == GRAPHQL_PATH,
        }
    }
}

impl GraphqlRule {
    /// True if every one of an operation's top-level fields may be selected. `__typename`, which says nothing but the name of
    /// the root type, needs no listing where another field of that kind is permitted (the router's `graphql.js` alike).
    pub fn permits<'a>(&self, kind: GraphqlKind, fields: impl IntoIterator<Item = &'a str>) -> bool {
        let known = match kind {
            GraphqlKind::Query => &self.queries,
            GraphqlKind::Mutation => &self.mutations,
            GraphqlKind::Subscription => &self.subscriptions,
        };
        !known.is_empty()
            && (known.contains("*") || fields.into_iter().all(|field| field == "__typename" || known.contains(field)))
    }
}

/// The path of GraphQL requests unless a rule says otherwise.
pub const GRAPHQL_PATH: &str = "/graphql";

/// True if a list of methods names this one; GET brings HEAD (RFC 9110 9.3.2).
pub(crate) fn names_method(methods: &BTreeSet<String>, method: &str) -> bool {
    methods.contains(method) || (method == "HEAD" && methods.contains("GET"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_root_type_is_free_where_anything_of_its_kind_is() {
        let rule = GraphqlRule { queries: ["viewer".to_owned()].into(), ..GraphqlRule::default() };
        assert!(rule.permits(GraphqlKind::Query, ["__typename", "viewer"]));
        assert!(!rule.permits(GraphqlKind::Query, ["__typename", "__schema"]));
        assert!(!rule.permits(GraphqlKind::Mutation, ["__typename"]));
    }
}
