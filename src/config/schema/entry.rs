//! An entry of a list of hosts, in the schemas.

use std::collections::BTreeMap;

use schemars::JsonSchema;

use super::Items;

/// A host: `example.com` (this host, ports 80 and 443), `.example.com` (it and every subdomain), `*.example.com`
/// (subdomains only), `example.com:443` (only port 443), `example.com:5432` (ports 80 and 443, and TCP port 5432), or a
/// mapping with more options.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub(super) enum Entry {
    /// A host, or a host and a port.
    Text(String),
    /// A host and its options.
    Mapping(EntryMapping),
}

/// A host and its options.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct EntryMapping {
    /// The host, a suffix, or an IPv4 address (which needs `ports`).
    host: String,
    /// TCP ports. If the list contains only 80 or 443, the others are closed; all other ports are added to 80 and 443,
    /// unless `exact` is true.
    #[schemars(length(min = 1))]
    ports: Option<Vec<Port>>,
    /// True if only the listed ports are open, without 80 and 443. Default: false.
    exact: Option<bool>,
    /// True if the host may resolve to private addresses. In a repo file, this needs `allow_private` in the server
    /// file. Default: false.
    private: Option<bool>,
    /// Permits a pattern as wide as `*.com`. Default: false.
    broad: Option<bool>,
    /// Request methods that are permitted, in upper case; GET includes HEAD. Missing: all. The host is then decrypted.
    methods: Option<Items>,
    /// Paths that are permitted; `*` stays inside a segment, `**` crosses segments. Missing: all. The host is then
    /// decrypted.
    paths: Option<Items>,
    /// GraphQL operations that are permitted, on `/graphql` unless `paths` is set. The host is then decrypted.
    graphql: Option<Graphql>,
    /// Repositories that may be fetched, and refs that may be pushed, over smart HTTP. The host is then decrypted.
    git: Option<Git>,
    /// Protocols that a permitted request may upgrade to: `websocket`, whose messages are not checked. Missing: none.
    upgrade: Option<Items>,
    /// Headers such as `x-forwarded-host`, which can set another host, path or method, that are forwarded. Missing:
    /// none.
    pass_headers: Option<Items>,
}

/// Top-level fields that GraphQL operations may select, by their names in the schema; `*` means every field, a missing
/// list none.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Graphql {
    /// Of a `query`.
    queries: Option<Vec<String>>,
    /// Of a `mutation`.
    mutations: Option<Vec<String>>,
    /// Of a `subscription`.
    subscriptions: Option<Vec<String>>,
}

/// Repositories of a host by their paths, as in `acme/widgets`; `*` stays in a part of a path or name, `**` does not.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(clippy::zero_sized_map_values)] // only the schema is used
pub(super) struct Git {
    /// Repositories that may be fetched and cloned.
    fetch: Option<Items>,
    /// Repositories that may be pushed to, each with the refs that may be created and moved there, as in
    /// `refs/heads/agent/**`. No ref may be deleted.
    push: Option<BTreeMap<String, Items>>,
}

/// A TCP port.
#[derive(JsonSchema)]
pub(super) struct Port(#[schemars(range(min = 1, max = 65535))] u16);
