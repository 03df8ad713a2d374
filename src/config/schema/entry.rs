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
    host: String,
    #[schemars(length(min = 1))]
    ports: Option<Vec<Port>>,
    exact: Option<bool>,
    private: Option<bool>,
    broad: Option<bool>,
    methods: Option<Items>,
    paths: Option<Items>,
    graphql: Option<Graphql>,
    git: Option<Git>,
    upgrade: Option<Items>,
    pass_headers: Option<Items>,
}

/// Top-level fields that GraphQL operations may select, by their names in the schema; `*` means every field, a missing
/// list none.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Graphql {
    queries: Option<Vec<String>>,
    mutations: Option<Vec<String>>,
    subscriptions: Option<Vec<String>>,
}

/// Repositories of a host by their paths, as in `acme/widgets`; `*` stays in a part of a path or name, `**` does not.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(clippy::zero_sized_map_values)] // only the schema is used
pub(super) struct Git {
    fetch: Option<Items>,
    push: Option<BTreeMap<String, Items>>,
}

/// A TCP port.
#[derive(JsonSchema)]
pub(super) struct Port(#[schemars(range(min = 1, max = 65535))] u16);
