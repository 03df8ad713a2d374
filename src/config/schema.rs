//! The JSON Schemas of both config files (draft-07, which editors support). The types here exist for their doc
//! comments, which editors show on hover. Tests compare them with the readers' tables of keys and with every fixture.
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
mod entry;
mod masked;
mod timeout;

use choices::{GitIdentity, Home};
use entry::Entry;
use timeout::Timeout;

/// The schema of `.sandboxc/sandbox.yaml`, with a trailing line feed.
pub fn repo() -> String {
    text::<RepoFile>("repo")
}

/// The schema of `server.yaml`, with a trailing line feed.
pub fn server() -> String {
    text::<ServerFile>("server")
}

/// The schema of any document, with a trailing line feed.
pub fn text<T: JsonSchema>(name: &str) -> String {
    let mut schema = SchemaSettings::draft07().into_generator().into_root_schema_for::<T>();
    schema.insert("$id".to_owned(), Value::String(format!("sandboxc/{name}.schema.json")));
    format!("{:#}\n", schema.to_value())
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
    /// The version of this format: 1.
    version: Version,
    /// The image that the command runs in: a full reference such as `docker.io/library/debian:trixie-slim`, or
    /// `{containerfile: Containerfile}` for a file next to this one. Default: sandboxc's agent image.
    image: Option<Image>,
    /// The command and its arguments. They are used literally, without a shell or expansion.
    command: Option<Vec<String>>,
    /// The user that the command runs as. Default: `host-user`.
    identity: Option<Identity>,
    /// How the repo's directory is mounted.
    workspace: Option<Workspace>,
    /// Environment variables. Values are literal strings: `$` means `$`. Numbers and booleans need quotes.
    env: Option<Env>,
    /// Additional directories or files of the host. Those outside the workspace need `allow_mounts` in the server file.
    mounts: Option<Vec<Mount>>,
    /// What the sandbox may reach.
    network: Option<RepoNetwork>,
    /// Resource limits. The server's limits apply if they are lower.
    resource_limits: Option<ResourceLimits>,
    /// Size of `/dev/shm`, such as `512m`; browsers and databases need more than the default of 64 MB. It counts towards `memory`.
    /// The server's value caps it.
    shm_size: Option<String>,
    /// True if processes inside may create user namespaces, as bubblewrap and browsers do. Needs
    /// `allow_user_namespaces` in the server file. Protected paths are then watched, but not mounted over. Default:
    /// false.
    user_namespaces: Option<bool>,
}

/// A reference or a Containerfile.
#[derive(JsonSchema)]
#[schemars(untagged)]
enum Image {
    /// A full reference: registry, path, and a tag or digest.
    Reference(String),
    /// A file in `.sandboxc/`. Build it with `sandboxc image build`.
    Containerfile(Containerfile),
}

/// An image that is built from a file of this repo.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Containerfile {
    /// The name of the file, relative to `.sandboxc/`.
    containerfile: String,
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
    /// `same-path`, or an absolute path inside. Default: `same-path`.
    target: Option<String>,
    /// True if the workspace is read-only. Default: false.
    read_only: Option<bool>,
    /// Paths relative to the workspace that are read-only, in addition to `.sandboxc` and what git on the host uses.
    /// They must exist and must not be links.
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
    /// True if the mount is read-only. Default: true.
    read_only: Option<bool>,
}

/// What the sandbox may reach.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct RepoNetwork {
    /// Hosts that may be reached. Empty or missing: none.
    allow: Option<EntryList>,
}

/// Limits of a sandbox. Missing values are unlimited.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct ResourceLimits {
    /// Time until the command is stopped, at least 10 s: a number of seconds, or a text such as `30m` or `0.5h`.
    timeout: Option<Timeout>,
    /// Memory as a whole number and one of b, k, m, g: `"512m"`, `"4g"`. Swap is disabled when memory is limited.
    memory: Option<String>,
    /// CPUs, at least 0.01; may be a fraction.
    #[schemars(range(min = 0.01))]
    cpus: Option<f64>,
    /// Processes and threads, at least 1.
    #[schemars(range(min = 1, max = 4_194_304))]
    pids_limit: Option<u32>,
}

/// What the owner of this machine permits sandboxes to do.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, title = "sandboxc server file")]
struct ServerFile {
    /// The version of this format: 1.
    version: Version,
    /// Named strings and numbers for `!var NAME`. Each may itself be `!var`, `!env` or `!file`.
    vars: Option<Vars>,
    /// What all sandboxes on this machine may reach.
    network: Option<ServerNetwork>,
    /// The router's image, a full reference. Default: the program `sandboxc-router` beside this sandboxc, as an image.
    router_image: Option<String>,
    /// How SELinux confines agents, if it is enforcing: `disable` (it does not), `type:NAME` (a type of a policy
    /// module, e.g. `type:sandboxc_agent.process`), or `relabel` (like any container; permanently relabels the
    /// workspace for containers). Default: `disable`.
    selinux: Option<String>,
    /// Values for every sandbox: the keys of an entry of `repos`, without `path` and `repo_url`. Lists are combined;
    /// single values of the entry override these.
    defaults: Option<Defaults>,
    /// Entries by name. The entry in force is the one named by `--name`, or else the one whose `path` is the workspace.
    repos: Option<BTreeMap<String, Repo>>,
}

/// What all sandboxes on this machine may reach.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct ServerNetwork {
    /// Hosts that every sandbox may reach.
    allow: Option<EntryList>,
    /// Hosts that no sandbox may reach, even if something else allows them. An entry without ports denies all ports.
    deny: Option<EntryList>,
    /// If set, nothing beyond these hosts may be reached; an empty list permits nothing.
    ceiling: Option<EntryList>,
    /// IPv4 addresses of the resolvers that the router queries. Default: the host's resolvers.
    upstream_dns: Option<Vec<String>>,
    /// Private IPv4 blocks that allowed names may resolve to, e.g. `10.20.0.0/16`.
    reachable: Option<Vec<String>>,
    /// File with additional hosts, one per line, relative to this file. Default: `allowed-hosts`.
    allow_file: Option<String>,
    /// PEM file with certificates, relative to this file. The router trusts them upstream, and clients inside trust them, in
    /// addition to the system's roots.
    extra_ca: Option<String>,
    /// True if the network log keeps query strings. Default: false.
    log_query: Option<bool>,
    /// Private IPv4 block for sessions' networks, from /8 to /24. Default: `10.213.0.0/16`.
    pool: Option<String>,
}

/// Values for every sandbox.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Defaults {
    /// Image, unless the repo file names one. `{value: …, locked: true}` forbids that; the same for the keys below.
    image: Option<chosen::Setting<String>>,
    /// Command.
    command: Option<chosen::Setting<Vec<String>>>,
    /// User inside.
    identity: Option<chosen::Setting<Identity>>,
    /// Variables. A single one can be locked, or all of them: then the repo file cannot add any.
    env: Option<chosen::Setting<BTreeMap<String, chosen::Setting<String>>>>,
    /// Whether processes inside may create user namespaces.
    user_namespaces: Option<chosen::Setting<bool>>,
    /// What every sandbox may reach, and whether the network sandbox is on.
    network: Option<RepoEntryNetwork>,
    /// Upper limits for every sandbox.
    resource_limits: Option<ResourceLimits>,
    /// Size of `/dev/shm` of every sandbox, which caps what repo files ask for.
    shm_size: Option<String>,
    /// When sandboxes start: an `OnCalendar=` expression (systemd.time(7)) such as `Mon..Fri 03:00`, for `compile
    /// --target quadlet` and `install`.
    schedule: Option<String>,
    /// Absolute paths below which repos may mount directories and files.
    allow_mounts: Option<Vec<String>>,
    /// Hosts for which repo files may use `private: true`: `wiki.corp.example.com`, `.corp.example.com` or `10.0.0.5`,
    /// without ports.
    allow_private: Option<Vec<String>>,
    /// True if repo files may use `user_namespaces: true`. Default: false.
    allow_user_namespaces: Option<bool>,
    /// Variables of your environment that repo files may read with `!env`.
    pass_env: Option<Vec<String>>,
    /// Read-only parts of every workspace.
    workspace: Option<EntryWorkspace>,
    /// The home directory inside: `private` (a volume for each repo) or `shared` (a volume for all repos with this
    /// setting; what one repo's agent leaves there, the next one may run). Default: `private`.
    home: Option<Home>,
    /// `host` gives the sandbox your git name and email as `GIT_AUTHOR_NAME` and so on, from git's config files of your own.
    /// Variables of the repo file with these names come first.
    git_identity: Option<GitIdentity>,
    /// Variables whose values the agent gets.
    secrets: Option<BTreeMap<String, String>>,
    /// Variables of which the agent gets a surrogate; the router inserts the value into requests.
    masked_secrets: Option<BTreeMap<String, masked::MaskedSecret>>,
    /// Keys for signing requests: the agent gets surrogates, and the router signs requests again with the real keys.
    signing_credentials: Option<BTreeMap<String, masked::SigningCredential>>,
    /// Variables of which the agent gets a surrogate; the router gets tokens of a GitHub App and inserts them into
    /// requests.
    github_app_credentials: Option<BTreeMap<String, masked::GithubApp>>,
}

/// Values for one repo.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Repo {
    /// Absolute path of the workspace.
    path: Option<String>,
    /// Where the repo comes from, for information only.
    repo_url: Option<String>,
    /// Image, unless the repo file names one. `{value: …, locked: true}` forbids that; the same for the keys below.
    image: Option<chosen::Setting<String>>,
    /// Command.
    command: Option<chosen::Setting<Vec<String>>>,
    /// User inside.
    identity: Option<chosen::Setting<Identity>>,
    /// Variables. A single one can be locked, or all of them: then the repo file cannot add any.
    env: Option<chosen::Setting<BTreeMap<String, chosen::Setting<String>>>>,
    /// Whether processes inside may create user namespaces.
    user_namespaces: Option<chosen::Setting<bool>>,
    /// What this repo's sandboxes may reach, and whether the network sandbox is on.
    network: Option<RepoEntryNetwork>,
    /// Upper limits for this repo's sandboxes.
    resource_limits: Option<ResourceLimits>,
    /// Size of `/dev/shm` of this repo's sandboxes, which caps what its file asks for.
    shm_size: Option<String>,
    /// When this repo's sandbox starts: an `OnCalendar=` expression (systemd.time(7)) such as `Mon..Fri 03:00`, for
    /// `compile --target quadlet` and `install`.
    schedule: Option<String>,
    /// Absolute paths below which this repo may mount directories and files.
    allow_mounts: Option<Vec<String>>,
    /// Hosts for which this repo's file may use `private: true`: `wiki.corp.example.com`, `.corp.example.com` or
    /// `10.0.0.5`, without ports.
    allow_private: Option<Vec<String>>,
    /// True if this repo's file may use `user_namespaces: true`. Default: false.
    allow_user_namespaces: Option<bool>,
    /// Variables of your environment that this repo's file may read with `!env`.
    pass_env: Option<Vec<String>>,
    /// Read-only parts of this workspace.
    workspace: Option<EntryWorkspace>,
    /// The home directory inside: `private` (a volume for each repo) or `shared` (a volume for all repos with this
    /// setting; what one repo's agent leaves there, the next one may run). Default: `private`.
    home: Option<Home>,
    /// `host` gives the sandbox your git name and email as `GIT_AUTHOR_NAME` and so on, from git's config files of your own.
    /// Variables of the repo file with these names come first.
    git_identity: Option<GitIdentity>,
    /// Variables whose values the agent gets.
    secrets: Option<BTreeMap<String, String>>,
    /// Variables of which the agent gets a surrogate; the router inserts the value into requests.
    masked_secrets: Option<BTreeMap<String, masked::MaskedSecret>>,
    /// Keys for signing requests: the agent gets surrogates, and the router signs requests again with the real keys.
    signing_credentials: Option<BTreeMap<String, masked::SigningCredential>>,
    /// Variables of which the agent gets a surrogate; the router gets tokens of a GitHub App and inserts them into
    /// requests.
    github_app_credentials: Option<BTreeMap<String, masked::GithubApp>>,
}

/// What sandboxes may reach, and whether the network sandbox is on.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct RepoEntryNetwork {
    /// False switches the network sandbox off: no router, full network access. Default: true.
    sandbox_enabled: Option<bool>,
    /// Hosts that may be reached, in addition to those in `network` at the top level.
    allow: Option<EntryList>,
    /// Hosts that may not be reached, in addition to those in `network` at the top level.
    deny: Option<EntryList>,
}

/// Read-only parts of workspaces.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct EntryWorkspace {
    /// Paths relative to the workspace that are read-only, in addition to those in the repo file.
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
        same(&repo, "/definitions/Git", &request::git::GIT);
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
