//! The JSON Schemas of both files (draft-07, which editors read). The types here exist for their doc comments, which
//! an editor shows on hover; tests hold them against the readers' own tables of keys and against every fixture.
//!
//! A schema cannot say what a tag gives, so strings that people look up with `!var` carry no pattern.

// Nothing makes values of these types.
#![allow(dead_code, clippy::struct_field_names)]

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;

mod entry;
mod masked;

use entry::Entry;

/// The schema of `.sandboxc/sandbox.yaml`, with a line feed at its end.
pub fn repo() -> String {
    text::<RepoFile>("repo")
}

/// The schema of `server.yaml`, with a line feed at its end.
pub fn server() -> String {
    text::<ServerFile>("server")
}

fn text<T: JsonSchema>(name: &str) -> String {
    let mut schema = SchemaSettings::draft07().into_generator().into_root_schema_for::<T>();
    schema.insert("$id".to_owned(), Value::String(format!("sandboxc/{name}.schema.json")));
    format!("{:#}\n", schema.to_value())
}

/// A type that is written as its schema: for what doc comments and derives cannot say.
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
    /// The one version there is.
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
    /// Entries; `{}` is a spelling of none.
    EntryList = |generator| {
        let entry = generator.subschema_for::<Entry>();
        json_schema!({ "anyOf": [{ "type": "array", "items": entry }, { "type": "object", "maxProperties": 0 }] })
    };
}

/// What a repo wants of its sandbox. The server file of the machine decides what of it is granted.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, title = "sandboxc repo file")]
struct RepoFile {
    /// The version of this format: 1.
    version: Version,
    /// The image that the command runs in: a full reference such as `docker.io/library/debian:trixie-slim`, or
    /// `{containerfile: Containerfile}` for a file beside this one. Default: the agent image of this sandboxc.
    image: Option<Image>,
    /// The command and its arguments, each taken literally: no shell, no expansion.
    command: Option<Vec<String>>,
    /// Who the command is inside. Default: `host-user`.
    identity: Option<Identity>,
    /// How the directory of the repo appears inside.
    workspace: Option<Workspace>,
    /// Environment variables. Values are strings, taken literally: `$` means `$`. Numbers and booleans need quotes.
    env: Option<Env>,
    /// Further directories or files of the host. Outside the workspace they need the server's `allow_mounts`.
    mounts: Option<Vec<Mount>>,
    /// What the sandbox may reach.
    network: Option<RepoNetwork>,
    /// What the sandbox may use. The server's limits cap these.
    resource_limits: Option<ResourceLimits>,
    /// True if processes inside may make user namespaces, as bubblewrap and the sandboxes of browsers do. The server must
    /// allow it (`allow_user_namespaces`). Protected paths are then watched, not held. Default: false.
    user_namespaces: Option<bool>,
}

/// A reference or a Containerfile.
#[derive(JsonSchema)]
#[schemars(untagged)]
enum Image {
    /// A full reference: registry, path, and a tag or digest.
    Reference(String),
    /// A file in `.sandboxc/`; `sandboxc image build` builds it.
    Containerfile(Containerfile),
}

/// An image that is built from a file of this repo.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Containerfile {
    /// Name of the file, relative to `.sandboxc/`.
    containerfile: String,
}

/// Who the command is inside.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
enum Identity {
    /// uid 1000 inside, you outside; no capabilities.
    HostUser,
    /// uid 0 inside, you outside; the five capabilities that package managers need.
    Root,
}

/// How the directory of the repo appears inside.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Workspace {
    /// `same-path`, or an absolute path inside. Default: `same-path`.
    target: Option<String>,
    /// True if nothing in it may be written. Default: false.
    read_only: Option<bool>,
    /// Paths relative to the workspace that stay read-only, besides `.sandboxc` and what git on the host uses. They must
    /// exist and be no links.
    protect: Option<Vec<String>>,
}

/// A directory or file of the host.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Mount {
    /// Path on the host: absolute, or relative to `.sandboxc/`. `~` and `$` are not expanded.
    source: String,
    /// Absolute path inside.
    target: String,
    /// True if nothing in it may be written. Default: true.
    read_only: Option<bool>,
}

/// What the sandbox may reach.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct RepoNetwork {
    /// Hosts that may be reached. Empty or missing: none.
    allow: Option<EntryList>,
}

/// Limits of one sandbox. A missing one is no limit.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct ResourceLimits {
    /// Seconds until the command is ended, at least 10.
    #[schemars(range(min = 10, max = 40_000_000))]
    timeout: Option<u32>,
    /// Memory as a whole number and one of b, k, m, g: `"512m"`, `"4g"`. Swap is off where memory is limited.
    memory: Option<String>,
    /// CPUs, at least 0.01; fractions are fine.
    #[schemars(range(min = 0.01))]
    cpus: Option<f64>,
    /// Processes and threads, at least 1.
    #[schemars(range(min = 1, max = 4_194_304))]
    pids_limit: Option<u32>,
}

/// What the owner of this machine permits to sandboxes.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, title = "sandboxc server file")]
struct ServerFile {
    /// The version of this format: 1.
    version: Version,
    /// Named strings and numbers for `!var NAME`. Each may itself be `!var`, `!env` or `!file`.
    vars: Option<Vars>,
    /// What all sandboxes of this machine may reach.
    network: Option<ServerNetwork>,
    /// The router's image, a full reference. Default: the router image of this sandboxc.
    router_image: Option<String>,
    /// How agents stand to SELinux, where it is enforcing: `disable` (not confined by it), `type:NAME` (a type of a policy
    /// module, e.g. `type:sandboxc_agent.process`), or `relabel` (confined like any container; the workspace gets the label
    /// of containers, for good). Default: `disable`.
    selinux: Option<String>,
    /// For every sandbox: what an entry of `repos` says, without `path` and `repo_url`. Lists add up, single values of
    /// the entry win.
    defaults: Option<Defaults>,
    /// Entries by name. In force is the one that `--name` says, else the one whose `path` is the workspace.
    repos: Option<BTreeMap<String, Repo>>,
}

/// What all sandboxes of this machine may reach.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct ServerNetwork {
    /// Hosts that every sandbox may reach.
    allow: Option<EntryList>,
    /// Hosts that no sandbox may reach, whatever else allows them. One without ports is denied on every port.
    deny: Option<EntryList>,
    /// If set, nothing beyond it may be reached; an empty list permits nothing.
    ceiling: Option<EntryList>,
    /// IPv4 addresses of resolvers that the router asks. Default: what the host uses.
    upstream_dns: Option<Vec<String>>,
    /// Private IPv4 blocks that allowed names may resolve into, e.g. `10.20.0.0/16`.
    reachable: Option<Vec<String>>,
    /// File of further hosts, one a line, relative to this file. Default: `allowed-hosts`.
    allow_file: Option<String>,
    /// A PEM file of certificates, relative to this file. The router trusts them upstream, and clients inside trust them, besides
    /// the system's roots.
    extra_ca: Option<String>,
    /// True if the network log keeps query strings. Default: false.
    log_query: Option<bool>,
    /// Private IPv4 block that the sessions' networks are cut from, from /8 to /24. Default: `10.213.0.0/16`.
    pool: Option<String>,
}

/// What holds for every sandbox.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Defaults {
    /// What every sandbox may reach, and whether it is confined at all.
    network: Option<RepoEntryNetwork>,
    /// Limits that cap every sandbox.
    resource_limits: Option<ResourceLimits>,
    /// When a sandbox starts by itself: an `OnCalendar=` expression (systemd.time(7)) such as `Mon..Fri 03:00`, for
    /// `compile --target quadlet` and `install`.
    schedule: Option<String>,
    /// Absolute paths under which repos may mount what they ask for.
    allow_mounts: Option<Vec<String>>,
    /// Hosts that repo files may open to private addresses with `private: true`: `wiki.corp.example.com`,
    /// `.corp.example.com` or `10.0.0.5`, without ports.
    allow_private: Option<Vec<String>>,
    /// True if repo files may say `user_namespaces: true`. Default: false.
    allow_user_namespaces: Option<bool>,
    /// Variables of your environment that repo files may read with `!env`.
    pass_env: Option<Vec<String>>,
    /// What of every workspace stays read-only.
    workspace: Option<EntryWorkspace>,
    /// The home directory inside: `private` (a volume for each repo) or `shared` (one volume for all repos that say so;
    /// what the agent of one leaves there, the next one runs). Default: `private`.
    home: Option<Home>,
    /// Variables whose values the agent gets as they are.
    secrets: Option<BTreeMap<String, String>>,
    /// Variables of which the agent gets a surrogate; the router puts the value into requests.
    masked_secrets: Option<BTreeMap<String, masked::MaskedSecret>>,
    /// Keys that requests are signed with: the agent gets surrogates, the router signs anew.
    signing_credentials: Option<BTreeMap<String, masked::SigningCredential>>,
    /// Variables of which the agent gets a surrogate; the router gets tokens of a GitHub App and puts them into requests.
    github_app_credentials: Option<BTreeMap<String, masked::GithubApp>>,
}

/// What holds for one repo.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Repo {
    /// Absolute path of the workspace that this entry is about.
    path: Option<String>,
    /// Where the repo comes from; for people and other tools.
    repo_url: Option<String>,
    /// What this repo's sandboxes may reach, and whether they are confined at all.
    network: Option<RepoEntryNetwork>,
    /// Limits that cap this repo's sandboxes.
    resource_limits: Option<ResourceLimits>,
    /// When this repo's sandbox starts by itself: an `OnCalendar=` expression (systemd.time(7)) such as `Mon..Fri
    /// 03:00`, for `compile --target quadlet` and `install`.
    schedule: Option<String>,
    /// Absolute paths under which this repo may mount what it asks for.
    allow_mounts: Option<Vec<String>>,
    /// Hosts that this repo's file may open to private addresses with `private: true`: `wiki.corp.example.com`,
    /// `.corp.example.com` or `10.0.0.5`, without ports.
    allow_private: Option<Vec<String>>,
    /// True if this repo's file may say `user_namespaces: true`. Default: false.
    allow_user_namespaces: Option<bool>,
    /// Variables of your environment that this repo's file may read with `!env`.
    pass_env: Option<Vec<String>>,
    /// What of this workspace stays read-only.
    workspace: Option<EntryWorkspace>,
    /// The home directory inside: `private` (a volume for each repo) or `shared` (one volume for all repos that say so;
    /// what the agent of one leaves there, the next one runs). Default: `private`.
    home: Option<Home>,
    /// Variables whose values the agent gets as they are.
    secrets: Option<BTreeMap<String, String>>,
    /// Variables of which the agent gets a surrogate; the router puts the value into requests.
    masked_secrets: Option<BTreeMap<String, masked::MaskedSecret>>,
    /// Keys that requests are signed with: the agent gets surrogates, the router signs anew.
    signing_credentials: Option<BTreeMap<String, masked::SigningCredential>>,
    /// Variables of which the agent gets a surrogate; the router gets tokens of a GitHub App and puts them into requests.
    github_app_credentials: Option<BTreeMap<String, masked::GithubApp>>,
}

/// What sandboxes may reach, and whether they are confined at all.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct RepoEntryNetwork {
    /// False is the break-glass: no router, full access to the network. Default: true.
    sandbox_enabled: Option<bool>,
    /// Hosts that may be reached, besides those that the server's own `network` names.
    allow: Option<EntryList>,
    /// Hosts that may not be reached, besides those that the server's own `network` names.
    deny: Option<EntryList>,
}

/// Who shares a home directory.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
enum Home {
    /// A volume for each repo.
    Private,
    /// One volume for all repos that say so.
    Shared,
}

/// What of workspaces stays read-only.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct EntryWorkspace {
    /// Paths relative to the workspace that stay read-only, besides those that the repo file names.
    protect: Option<Vec<String>>,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::config::{credential, entry, limits, read::Keys, repo as repo_file, request, server as server_file};

    #[test]
    fn a_schema_has_the_keys_that_the_reader_takes() {
        let same = |text: &str, at: &str, keys: &Keys| {
            let schema: Value = serde_json::from_str(text).unwrap();
            let part = schema.pointer(at).unwrap_or_else(|| panic!("{at}"));
            let properties: BTreeSet<&str> =
                part["properties"].as_object().unwrap().keys().map(String::as_str).collect();
            assert_eq!(properties, keys.known.iter().copied().collect(), "{at}");
            assert_eq!(part["additionalProperties"], false, "{at}");
            for (key, property) in part["properties"].as_object().unwrap() {
                assert!(property["description"].is_string(), "{at}: {key} has no description");
            }
        };
        let (repo, server) = (repo(), server());
        same(&repo, "", &repo_file::REPO);
        same(&repo, "/definitions/RepoNetwork", &repo_file::NETWORK);
        same(&repo, "/definitions/Workspace", &repo_file::WORKSPACE);
        same(&repo, "/definitions/Mount", &repo_file::MOUNT);
        same(&repo, "/definitions/Containerfile", &repo_file::IMAGE);
        same(&repo, "/definitions/EntryMapping", &entry::ENTRY);
        same(&repo, "/definitions/Graphql", &request::GRAPHQL);
        same(&server, "/definitions/MaskedSecret", &credential::MASKED);
        same(&server, "/definitions/SigningCredential", &credential::SIGNING);
        same(&server, "/definitions/AwsKey", &credential::AWS_KEY);
        same(&server, "/definitions/GithubApp", &credential::GITHUB);
        same(&repo, "/definitions/ResourceLimits", &limits::LIMITS);
        same(&server, "", &server_file::SERVER);
        same(&server, "/definitions/ServerNetwork", &server_file::NETWORK);
        same(&server, "/definitions/Defaults", &server_file::DEFAULTS);
        same(&server, "/definitions/Repo", &server_file::ENTRY);
        same(&server, "/definitions/EntryWorkspace", &server_file::ENTRY_WORKSPACE);
        same(&server, "/definitions/RepoEntryNetwork", &server_file::ENTRY_NETWORK);
        same(&server, "/definitions/EntryMapping", &entry::ENTRY);
    }
}
