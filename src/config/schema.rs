//! The JSON Schemas of both config files (draft-07, which editors support). The types here say what each value looks like.
//! Which keys there are is in the readers' tables (`Keys`); what editors show about each is in `keys.yaml` (`documented`).
//! Tests compare the types with the tables and with every fixture.
//!
//! A schema cannot describe what a tag resolves to, so strings that people set with `!var` have no pattern.

// No values of these types are ever created.
#![allow(dead_code, clippy::struct_field_names)]

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;

mod choices;
mod chosen;
mod documented;
mod entry;
mod masked;
mod remote;
mod timeout;

use choices::{GitIdentity, Home, ImageBuild};
use entry::Entry;
use timeout::Timeout;

/// The schema of `.sandboxc/sandbox.yaml`, with a trailing line feed.
pub fn repo() -> String {
    document(value::<RepoFile>("repo"), documented::REPO_PARTS)
}

/// The schema of `server.yaml`, with a trailing line feed.
pub fn server() -> String {
    document(value::<ServerFile>("server"), documented::SERVER_PARTS)
}

fn document(mut schema: Value, parts: &[documented::Part]) -> String {
    documented::add(&mut schema, parts);
    format!("{schema:#}\n")
}

/// The schema of any document, with a trailing line feed.
pub fn text<T: JsonSchema>(name: &str) -> String {
    format!("{:#}\n", value::<T>(name))
}

/// The `$id` of a schema stays the same as long as the format has this version.
fn value<T: JsonSchema>(name: &str) -> Value {
    let mut schema = SchemaSettings::draft07().into_generator().into_root_schema_for::<T>();
    schema.insert("$id".to_owned(), Value::String(format!("urn:sandboxc:schema:1:{name}")));
    schema.to_value()
}

/// A type that is written as its schema, for what derives cannot express.
macro_rules! written {
    ($($(#[doc = $doc:literal])+ $name:ident = $schema:expr;)+) => {
        $($(#[doc = $doc])+
        struct $name;

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                let schema: fn(&mut SchemaGenerator) -> Schema = $schema;
                schema(generator)
            }
        })+
    };
}

written! {
    /// The only version.
    Version = |_| json_schema!({ "const": 1 });
    /// Names to strings.
    Env = |_| json_schema!({
        "type": "object",
        "propertyNames": { "pattern": "^(?!SANDBOXC_)[A-Za-z_][A-Za-z0-9_]*$" },
        "additionalProperties": { "type": "string" }
    });
    /// Names to strings and numbers.
    Vars = |_| json_schema!({ "type": "object", "additionalProperties": { "type": ["string", "number"] } });
    /// Strings, at least one.
    Items = |_| json_schema!({ "type": "array", "items": { "type": "string" }, "minItems": 1 });
    /// Entries; `{}` is accepted as an empty list.
    EntryList = |generator| {
        let entry = generator.subschema_for::<Entry>();
        json_schema!({ "anyOf": [{ "type": "array", "items": entry }, { "type": "object", "maxProperties": 0 }] })
    };
}

/// What a repo asks for. The machine's server file decides what is granted.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, title = "sandboxc repo file")]
struct RepoFile {
    version: Version,
    image: Option<Image>,
    command: Option<Vec<String>>,
    identity: Option<Identity>,
    workspace: Option<Workspace>,
    env: Option<Env>,
    mounts: Option<Vec<Mount>>,
    network: Option<RepoNetwork>,
    resource_limits: Option<ResourceLimits>,
    shm_size: Option<String>,
    user_namespaces: Option<bool>,
    nested_containers: Option<choices::NestedContainers>,
}

/// A reference or a Containerfile.
#[derive(JsonSchema)]
#[schemars(untagged)]
enum Image {
    /// A full reference: registry, path, and a tag or digest.
    Reference(String),
    /// A file in `.sandboxc/`, which a start builds.
    Containerfile(Containerfile),
}

/// An image that is built from a file of this repo.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Containerfile {
    containerfile: String,
    max_age: Option<String>,
    build: Option<ImageBuild>,
}

/// The user that the command runs as.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
enum Identity {
    /// uid 1000 inside, the invoking user outside; no capabilities.
    HostUser,
    /// uid 0 inside, the invoking user outside; the five capabilities that package managers need.
    Root,
}

/// How the repo's directory is mounted.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Workspace {
    target: Option<String>,
    read_only: Option<bool>,
    protect: Option<Vec<String>>,
}

/// A directory or file of the host.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Mount {
    source: String,
    target: String,
    read_only: Option<bool>,
}

/// What the sandbox may reach.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct RepoNetwork {
    allow: Option<EntryList>,
}

/// Limits of a sandbox. Missing values are unlimited.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct ResourceLimits {
    timeout: Option<Timeout>,
    memory: Option<String>,
    #[schemars(range(min = 0.01))]
    cpus: Option<f64>,
    #[schemars(range(min = 1, max = 4_194_304))]
    pids_limit: Option<u32>,
}

/// What the owner of this machine permits sandboxes to do.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, title = "sandboxc server file")]
struct ServerFile {
    version: Version,
    vars: Option<Vars>,
    network: Option<ServerNetwork>,
    router_image: Option<String>,
    selinux: Option<String>,
    defaults: Option<Defaults>,
    repos: Option<BTreeMap<String, Repo>>,
}

/// What all sandboxes on this machine may reach.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct ServerNetwork {
    allow: Option<EntryList>,
    deny: Option<EntryList>,
    ceiling: Option<EntryList>,
    upstream_dns: Option<Vec<String>>,
    reachable: Option<Vec<String>>,
    allow_file: Option<String>,
    extra_ca: Option<String>,
    log_query: Option<bool>,
    pool: Option<String>,
}

/// Values for every sandbox.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Defaults {
    image: Option<chosen::Setting<String>>,
    image_build: Option<ImageBuild>,
    command: Option<chosen::Setting<Vec<String>>>,
    identity: Option<chosen::Setting<Identity>>,
    env: Option<chosen::Setting<BTreeMap<String, chosen::Setting<String>>>>,
    user_namespaces: Option<chosen::Setting<bool>>,
    network: Option<RepoEntryNetwork>,
    resource_limits: Option<ResourceLimits>,
    shm_size: Option<String>,
    schedule: Option<String>,
    allow_mounts: Option<Vec<String>>,
    allow_private: Option<Vec<String>>,
    allow_user_namespaces: Option<bool>,
    allow_nested: Option<bool>,
    allow_learning: Option<bool>,
    pass_env: Option<Vec<String>>,
    workspace: Option<EntryWorkspace>,
    home: Option<Home>,
    git_identity: Option<GitIdentity>,
    secrets: Option<BTreeMap<String, String>>,
    masked_secrets: Option<BTreeMap<String, masked::MaskedSecret>>,
    signing_credentials: Option<BTreeMap<String, masked::SigningCredential>>,
    github_app_credentials: Option<BTreeMap<String, masked::GithubApp>>,
}

/// Values for one repo.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Repo {
    path: Option<String>,
    repo_url: Option<String>,
    branch: Option<String>,
    clone_token: Option<String>,
    conversations: Option<remote::Conversations>,
    agent_state: Option<String>,
    tools: Option<BTreeMap<String, remote::Tool>>,
    image: Option<chosen::Setting<String>>,
    image_build: Option<ImageBuild>,
    command: Option<chosen::Setting<Vec<String>>>,
    identity: Option<chosen::Setting<Identity>>,
    env: Option<chosen::Setting<BTreeMap<String, chosen::Setting<String>>>>,
    user_namespaces: Option<chosen::Setting<bool>>,
    network: Option<RepoEntryNetwork>,
    resource_limits: Option<ResourceLimits>,
    shm_size: Option<String>,
    schedule: Option<String>,
    allow_mounts: Option<Vec<String>>,
    allow_private: Option<Vec<String>>,
    allow_user_namespaces: Option<bool>,
    allow_nested: Option<bool>,
    allow_learning: Option<bool>,
    pass_env: Option<Vec<String>>,
    workspace: Option<EntryWorkspace>,
    home: Option<Home>,
    git_identity: Option<GitIdentity>,
    secrets: Option<BTreeMap<String, String>>,
    masked_secrets: Option<BTreeMap<String, masked::MaskedSecret>>,
    signing_credentials: Option<BTreeMap<String, masked::SigningCredential>>,
    github_app_credentials: Option<BTreeMap<String, masked::GithubApp>>,
}

/// What sandboxes may reach, and whether the network sandbox is on.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct RepoEntryNetwork {
    sandbox_enabled: Option<bool>,
    allow: Option<EntryList>,
    deny: Option<EntryList>,
}

/// Read-only parts of workspaces.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct EntryWorkspace {
    protect: Option<Vec<String>>,
    on_tamper: Option<choices::OnTamper>,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_schema_has_the_keys_that_the_reader_takes_and_says_something_about_each() {
        for (text, parts) in [(repo(), documented::REPO_PARTS), (server(), documented::SERVER_PARTS)] {
            let schema: Value = serde_json::from_str(&text).unwrap();
            for (at, keys) in parts {
                let part = schema.pointer(at).unwrap_or_else(|| panic!("{at}"));
                let properties = part["properties"].as_object().unwrap();
                let names: BTreeSet<&str> = properties.keys().map(String::as_str).collect();
                assert_eq!(names, keys.known.iter().copied().collect(), "{at}");
                assert_eq!(part["additionalProperties"], false, "{at}");
                for (key, property) in properties {
                    assert!(property["description"].is_string(), "{at}: {key} has no description");
                    assert!(property["examples"].is_array(), "{at}: {key} has no example");
                }
            }
        }
    }
}
