//! Rules about requests: conditions of an entry beyond host and port.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::git::{GitRequest, GitRule};
use super::path::PathGlob;

/// Which requests an entry permits. A request must satisfy all conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestRule {
    /// Methods, upper case; GET includes HEAD. `None` means all methods (with `graphql`: POST).
    pub methods: Option<BTreeSet<String>>,
    /// Globs for the canonical path. `None` means all paths (with `graphql`: `/graphql`).
    pub paths: Option<Vec<PathGlob>>,
    /// Operations of a GraphQL request in a JSON body.
    pub graphql: Option<GraphqlRule>,
    /// Repositories and refs for git over smart HTTP; `None` if the rule is not about git.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<GitRule>,
    /// Protocols that a permitted request may upgrade to. No rule reads what follows in both directions.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub upgrade: BTreeSet<Upgrade>,
    /// Names of [`STEERING`] headers, lower case, that are forwarded nevertheless.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub pass_headers: BTreeSet<String>,
}

/// A protocol that a connection can be upgraded to (RFC 9110 7.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Upgrade {
    /// RFC 6455.
    Websocket,
}

/// Request headers with which frameworks and proxies let a client set another method, path or host than those that were
/// checked. They are not forwarded to hosts with rules about requests unless the entry permits it with `pass_headers`.
/// Compared without case, and with `_` equal to `-`.
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

/// Top-level fields that an operation may select, by its type; `*` means all fields, an empty set none.
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

/// A request's head as received, in origin form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpRequest<'a> {
    /// The method, case-sensitive (RFC 9110 9.1).
    pub method: &'a str,
    /// The raw request target: path and query.
    pub target: &'a str,
}

/// Types of GraphQL operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
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
    /// Whether a request may upgrade to another protocol.
    pub fn permits_upgrade(&self, to: Upgrade) -> bool {
        self.upgrade.contains(&to)
    }

    /// Whether the rule includes this method. A rule with `graphql` reads a body, so it never includes GET.
    pub fn permits_method(&self, method: &str) -> bool {
        match (&self.methods, &self.graphql) {
            (None, None) => true,
            (None, Some(_)) => method == "POST",
            (Some(_), Some(_)) if matches!(method, "GET" | "HEAD") => false,
            (Some(methods), _) => names_method(methods, method),
        }
    }

    /// Whether the rule is about requests like this one; with `git`, those are smart HTTP.
    pub(super) fn is_for(&self, canonical: &str, git: Option<&GitRequest>) -> bool {
        self.permits_path(canonical) && (self.git.is_none() || git.is_some())
    }

    /// Whether the rule permits the head of a request that it is about.
    pub(super) fn permits_head(&self, method: &str, git: Option<&GitRequest>) -> bool {
        let repository = |rule: &GitRule| git.is_some_and(|request| rule.permits(request));
        self.permits_method(method) && self.git.as_ref().is_none_or(repository)
    }

    /// Whether the rule must also check the body of such a request.
    pub(super) fn reads_body(&self, git: Option<&GitRequest>) -> bool {
        self.graphql.is_some() || (self.git.is_some() && git.is_some_and(GitRequest::changes_refs))
    }

    /// Whether the rule includes this canonical path.
    pub fn permits_path(&self, canonical: &str) -> bool {
        match &self.paths {
            Some(paths) => paths.iter().any(|glob| glob.matches(canonical)),
            None => self.graphql.is_none() || canonical == GRAPHQL_PATH,
        }
    }
}

impl fmt::Display for RequestRule {
    /// The conditions in words, as in `GET HEAD on /repos/**`. Destructured, so that no new condition is forgotten.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { methods, paths, graphql, git, upgrade, pass_headers } = self;
        let list = |words: &mut dyn Iterator<Item = &str>| words.collect::<Vec<_>>().join(" ");
        let mut parts = Vec::new();
        parts.extend(methods.as_ref().map(|all| list(&mut all.iter().map(String::as_str))));
        parts.extend(paths.as_ref().map(|all| format!("on {}", list(&mut all.iter().map(PathGlob::as_str)))));
        for (kind, word) in [
            (GraphqlKind::Query, "queries"),
            (GraphqlKind::Mutation, "mutations"),
            (GraphqlKind::Subscription, "subscriptions"),
        ] {
            let fields = graphql.iter().map(|rule| rule.fields(kind)).filter(|fields| !fields.is_empty());
            parts.extend(
                fields.map(|fields| format!("GraphQL {word} {}", list(&mut fields.iter().map(String::as_str)))),
            );
        }
        if let Some(git) = git {
            let fetch = list(&mut git.fetch.iter().map(super::git::RepositoryGlob::as_str));
            parts.extend((!fetch.is_empty()).then(|| format!("git fetch {fetch}")));
            for (repository, refs) in &git.push {
                let refs = list(&mut refs.iter().map(super::git::RefGlob::as_str));
                parts.push(format!("git push {} {refs}", repository.as_str()));
            }
        }
        parts.extend((!upgrade.is_empty()).then(|| "WebSockets".to_owned()));
        parts.extend(
            (!pass_headers.is_empty())
                .then(|| format!("headers {}", list(&mut pass_headers.iter().map(String::as_str)))),
        );
        f.write_str(&parts.join(", "))
    }
}

impl GraphqlKind {
    /// As in an operation.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Query => "query",
            Self::Mutation => "mutation",
            Self::Subscription => "subscription",
        }
    }
}

impl GraphqlRule {
    /// The fields of a type.
    pub(super) fn fields(&self, kind: GraphqlKind) -> &BTreeSet<String> {
        match kind {
            GraphqlKind::Query => &self.queries,
            GraphqlKind::Mutation => &self.mutations,
            GraphqlKind::Subscription => &self.subscriptions,
        }
    }

    /// Whether an operation may select all of these top-level fields. `__typename`, which only returns the name of the
    /// root type, does not need to be listed if another field of that type is permitted (like in the router's
    /// `graphql.js`).
    pub fn permits<'a>(&self, kind: GraphqlKind, fields: impl IntoIterator<Item = &'a str>) -> bool {
        let known = self.fields(kind);
        !known.is_empty()
            && (known.contains("*") || fields.into_iter().all(|field| field == "__typename" || known.contains(field)))
    }
}

/// The path of GraphQL requests unless a rule has `paths`.
pub const GRAPHQL_PATH: &str = "/graphql";

/// Whether a list of methods includes this one; GET includes HEAD (RFC 9110 9.3.2).
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
