//! Rules about requests: what an entry says beyond host and port.

use std::collections::BTreeSet;

use serde::Serialize;

use super::path::PathGlob;

/// What requests an entry permits. A request passes if everything that is said holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RequestRule {
    /// Methods, upper case; GET brings HEAD. None is every method (with `graphql`: POST).
    pub methods: Option<BTreeSet<String>>,
    /// Globs for the canonical path. None is every path (with `graphql`: `/graphql`).
    pub paths: Option<Vec<PathGlob>>,
    /// Operations of a GraphQL request in a JSON body.
    pub graphql: Option<GraphqlRule>,
}

/// Top-level fields that an operation may select, by its type; `*` is every field, an empty set none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
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
