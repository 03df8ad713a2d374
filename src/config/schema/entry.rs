//! An entry of a list of hosts in the schemas.

use schemars::JsonSchema;

use super::Items;

/// A host: `example.com` (this host, ports 80 and 443), `.example.com` (it and every subdomain), `*.example.com`
/// (subdomains only), `example.com:5432` (this host, TCP port 5432 too), or a mapping that says more.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub(super) enum Entry {
    /// A host, or a host and a port.
    Text(String),
    /// A host and what else is to be said about it.
    Mapping(EntryMapping),
}

/// A host and what else is to be said about it.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct EntryMapping {
    /// The host, a suffix, or an IPv4 address (which needs `ports`).
    host: String,
    /// TCP ports besides 80 and 443.
    ports: Option<Vec<Port>>,
    /// True if the host may resolve to private addresses. In a repo file it needs the server's `allow_private`. Default:
    /// false.
    private: Option<bool>,
    /// True if a pattern as wide as `*.com` is meant. Default: false.
    broad: Option<bool>,
    /// Methods of requests that may be sent, upper case; GET brings HEAD. Missing: all. The host is then decrypted.
    methods: Option<Items>,
    /// Paths that may be requested; `*` stays in a segment, `**` does not. Missing: all. The host is then decrypted.
    paths: Option<Items>,
    /// GraphQL operations that may be sent, on `/graphql` unless `paths` says otherwise. The host is then decrypted.
    graphql: Option<Graphql>,
    /// What a permitted request may turn into: `websocket`, whose messages are not checked. Missing: nothing.
    upgrade: Option<Items>,
    /// Headers like `x-forwarded-host`, which name another host, path or method, that may pass. Missing: none.
    pass_headers: Option<Items>,
}

/// Top-level fields that GraphQL operations may select, by their own names; `*` is every field, a missing list none.
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

/// A TCP port.
#[derive(JsonSchema)]
pub(super) struct Port(#[schemars(range(min = 1, max = 65535))] u16);
