//! The server file: what the owner of the machine permits.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use ipnet::{IpNet, Ipv4Net};

use super::authorship;
use super::calendar::calendar;
use super::chosen::Chosen;
use super::credential::{self, Wishes};
use super::entry::{self, Entry, ListKind};
use super::home::{self, Home};
use super::limits::Wish;
use super::network;
use super::private;
use super::read::{self, Keys, fields, version};
use super::recipe::{self, BuildNetwork};
use super::remote::{self, RemoteWish};
use super::resolved::{OnTamper, Selinux};
use super::sealed;
use super::tamper;
use super::value::{self, absolute_problem, checked, path_finding};
use super::vars::Vars;
use super::yaml::{Kind, Node};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::policy::HostPattern;
use crate::source::Located;

pub(super) const SERVER: Keys = Keys {
    what: "the server file",
    known: &["version", "vars", "network", "router_image", "selinux", "defaults", "repos"],
    elsewhere: &[
        ("image", "write it inside `defaults:` or an entry of `repos:`"),
        ("image_build", "write it inside `defaults:` or an entry of `repos:`"),
        ("env", "write it inside `defaults:` or an entry of `repos:`"),
        ("command", "write it inside `defaults:` or an entry of `repos:`"),
        ("identity", "write it inside `defaults:` or an entry of `repos:`"),
        ("resource_limits", "write it inside `defaults:` or an entry of `repos:`"),
        ("git_identity", "write it inside `defaults:` or an entry of `repos:`"),
        ("shm_size", "write it inside `defaults:` or an entry of `repos:`"),
        ("sandbox_enabled", "write it inside `network:` of `defaults:` or of an entry of `repos:`"),
    ],
};
pub(super) const NETWORK: Keys = Keys {
    what: "`network` of the server file",
    known: &["allow", "deny", "ceiling", "upstream_dns", "reachable", "allow_file", "extra_ca", "log_query", "pool"],
    elsewhere: &[("sandbox_enabled", "write it inside `network:` of `defaults:` or of an entry of `repos:`")],
};
/// Keys of `repos` and of the repo file, and words of Docker and Compose, that people write in `defaults` or an entry.
const ELSEWHERE: [(&str, &str); 18] = [
    ("path", "`path` belongs to an entry of `repos`"),
    ("repo_url", "`repo_url` belongs to an entry of `repos`"),
    ("clone_token", "`clone_token` belongs to an entry of `repos`"),
    ("nested_containers", "`nested_containers` belongs to the repo file; `allow_nested: true` permits it"),
    ("environment", "write `env: {NAME: value}`"),
    ("user", "write `identity: host-user` or `identity: root`"),
    ("volumes", "only a repo file has mounts; `allow_mounts: [/srv/data]` permits it to mount what is below"),
    ("mounts", "only a repo file has mounts; `allow_mounts: [/srv/data]` permits it to mount what is below"),
    ("build", "only a repo file can name a Containerfile; `image_build: sandboxed` says how to build it"),
    ("ports", "not supported, because nothing outside can connect to a sandbox"),
    (
        "network_mode",
        "not supported, because the sandbox has a network of its own; `network: {sandbox_enabled: false}` switches it off",
    ),
    ("env_file", "write `secrets: {NAME: !file PATH}` for single values"),
    ("working_dir", "`workspace: {target: /work}` belongs to the repo file"),
    ("timeout", "write `resource_limits: {timeout: 3600}`"),
    ("memory", "write `resource_limits: {memory: \"4g\"}`"),
    ("cpus", "write `resource_limits: {cpus: 2}`"),
    ("allow", "write it inside `network:`"),
    ("deny", "write it inside `network:`"),
];

/// The keys of `defaults`.
pub(super) const DEFAULTS: Keys = Keys {
    what: "`defaults`",
    known: &[
        "image",
        "image_build",
        "command",
        "identity",
        "env",
        "user_namespaces",
        "network",
        "resource_limits",
        "shm_size",
        "schedule",
        "allow_mounts",
        "allow_private",
        "allow_user_namespaces",
        "allow_nested",
        "allow_learning",
        "pass_env",
        "workspace",
        "home",
        "git_identity",
        "secrets",
        "masked_secrets",
        "signing_credentials",
        "github_app_credentials",
    ],
    elsewhere: &ELSEWHERE,
};
/// The keys of an entry of `repos`.
pub(super) const ENTRY: Keys = Keys {
    what: "an entry of `repos`",
    known: &[
        "path",
        "repo_url",
        "branch",
        "clone_token",
        "conversations",
        "agent_state",
        "tools",
        "image",
        "image_build",
        "command",
        "identity",
        "env",
        "user_namespaces",
        "network",
        "resource_limits",
        "shm_size",
        "schedule",
        "allow_mounts",
        "allow_private",
        "allow_user_namespaces",
        "allow_nested",
        "allow_learning",
        "pass_env",
        "workspace",
        "home",
        "git_identity",
        "secrets",
        "masked_secrets",
        "signing_credentials",
        "github_app_credentials",
    ],
    elsewhere: &ELSEWHERE,
};
pub(super) const ENTRY_NETWORK: Keys = Keys {
    what: "`network` of an entry",
    known: &["sandbox_enabled", "allow", "deny"],
    elsewhere: &[("ceiling", "the only `ceiling` is in `network` at the top level of the server file")],
};

pub(super) const ENTRY_WORKSPACE: Keys = Keys {
    what: "`workspace` of the server file",
    known: &["protect", "on_tamper"],
    elsewhere: &[
        ("target", "`target` belongs to `workspace` of the repo file"),
        (
            "read_only",
            "`read_only` belongs to `workspace` of the repo file; use `protect` here to make parts of it read-only",
        ),
    ],
};

/// What `defaults` and entries of `repos` have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    /// What it chooses for the repo.
    pub(super) chosen: Chosen,
    pub(super) sandbox_enabled: Option<Located<bool>>,
    pub(super) allow: Vec<(usize, Entry)>,
    pub(super) deny: Vec<(usize, Entry)>,
    pub(super) limits: Wish,
    pub(super) schedule: Option<Located<String>>,
    pub(super) allow_mounts: Vec<Located<PathBuf>>,
    /// Hosts that the repo file may open to private addresses.
    pub(super) allow_private: Vec<Located<HostPattern>>,
    /// Whether the repo file may ask for user namespaces.
    pub(super) allow_user_namespaces: Option<Located<bool>>,
    /// Whether the repo file may ask for nested containers.
    pub(super) allow_nested: Option<Located<bool>>,
    /// Whether `learn` may run.
    pub(super) allow_learning: Option<Located<bool>>,
    /// Which network builds of the repo's Containerfile use.
    pub(super) image_build: Option<Located<BuildNetwork>>,
    pub(super) pass_env: Vec<Located<String>>,
    pub(super) wishes: Wishes,
    pub(super) home: Option<Located<Home>>,
    /// Whether the sandbox gets the host's git name and email.
    pub(super) git_identity: Option<Located<()>>,
    /// Protected parts of the workspace.
    pub(super) protect: Vec<Located<String>>,
    pub(super) on_tamper: Option<Located<OnTamper>>,
}

/// An entry of `repos` and its findings. For an entry that is not in force, values that are missing in this environment
/// are not reported.
#[derive(Clone, Debug)]
pub(super) struct Repo {
    pub(super) path: Option<Located<PathBuf>>,
    /// What it says about a repo by URL.
    pub(super) remote: Option<RemoteWish>,
    pub(super) part: Part,
    pub(super) findings: Diagnostics,
}

/// The content of the file.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerFile {
    pub(super) allow: Vec<(usize, Entry)>,
    pub(super) deny: Vec<(usize, Entry)>,
    pub(super) ceiling: Option<Located<Vec<(usize, Entry)>>>,
    pub(super) upstream_dns: Vec<Located<IpAddr>>,
    pub(super) reachable: Vec<Located<IpNet>>,
    pub(super) allow_file: Option<Located<String>>,
    pub(super) extra_ca: Option<Located<String>>,
    pub(super) log_query: bool,
    pub(super) pool: Option<Located<Ipv4Net>>,
    pub(super) router_image: Option<Located<String>>,
    pub(super) selinux: Option<Located<Selinux>>,
    pub(super) defaults: Part,
    pub(super) repos: BTreeMap<String, Repo>,
}

/// What is needed to read the file.
pub(super) struct Around<'a> {
    /// Looks tags up.
    pub(super) substitute: &'a dyn Fn(&mut Node, &mut Diagnostics),
    pub(super) vars: &'a Vars,
    /// Where relative paths start.
    pub(super) base: &'a Path,
}

impl Around<'_> {
    /// Looks up the tags of `defaults` or an entry, except those of secrets.
    fn part(&self, node: &mut Node, d: &mut Diagnostics) {
        sealed::substitute(node, self.substitute, self.vars, d);
    }
}

impl ServerFile {
    /// Reads the tree. Tags are looked up separately for each entry of `repos`, so that findings about an entry stay
    /// with it. Returns `None` if the file has another version, which has been reported.
    pub(super) fn read(root: &mut Node, around: &Around<'_>, d: &mut Diagnostics) -> Option<Self> {
        let (repos, defaults) = (detach(root, "repos"), detach(root, "defaults"));
        (around.substitute)(root, d);
        let map = fields(root, &SERVER, d);
        if !version(root, &map, d) {
            return None;
        }
        let mut file = Self::default();
        if let Some(node) = map.get("network") {
            file.network(node, d);
        }
        file.router_image = map.get("router_image").and_then(|n| read::string(n, "`router_image`", d));
        if let Some(image) = &file.router_image {
            checked(value::image_reference(&image.value), Code::BadValue, image.span, d);
        }
        file.selinux = map.get("selinux").and_then(|n| selinux(n, d));
        if let Some(mut defaults) = defaults {
            around.part(&mut defaults, d);
            file.defaults = part(&fields(&defaults, &DEFAULTS, d), around.base, d);
        }
        if let Some(mut repos) = repos {
            file.repos = read_repos(&mut repos, around, d);
        }
        Some(file)
    }

    fn network(&mut self, node: &Node, d: &mut Diagnostics) {
        let map = fields(node, &NETWORK, d);
        self.allow = map.get("allow").map(|n| entry::entries(n, "`allow`", ListKind::Allow, d)).unwrap_or_default();
        self.deny = map.get("deny").map(|n| entry::entries(n, "`deny`", ListKind::Deny, d)).unwrap_or_default();
        self.ceiling = map.get("ceiling").map(|n| {
            Located::new(
                entry::entries(n, "`ceiling`", ListKind::Ceiling, d),
                map.key_span("ceiling").unwrap_or(n.span),
            )
        });
        self.pool = map.get("pool").and_then(|n| network::pool(n, d));
        self.upstream_dns = map.get("upstream_dns").map(|n| network::resolvers(n, d)).unwrap_or_default();
        self.reachable = map.get("reachable").map(|n| network::reachable(n, d)).unwrap_or_default();
        self.allow_file = map.get("allow_file").and_then(|n| read::string(n, "`allow_file`", d));
        self.extra_ca = map.get("extra_ca").and_then(|n| read::string(n, "`extra_ca`", d));
        self.log_query = map.get("log_query").and_then(|n| read::boolean(n, "`log_query`", d)).is_some_and(|l| l.value);
    }
}

fn selinux(node: &Node, d: &mut Diagnostics) -> Option<Located<Selinux>> {
    let text = read::string(node, "`selinux`", d)?;
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    let value = match text.value.split_once(':') {
        None if text.value == "disable" => Some(Selinux::Disable),
        None if text.value == "relabel" => Some(Selinux::Relabel),
        Some(("type", name)) if !name.is_empty() && name.chars().all(word) => Some(Selinux::Type(name.to_owned())),
        _ => None,
    };
    if value.is_none() {
        let finding =
            Diagnostic::new(Code::BadValue, format!("`{}` is not a choice for `selinux`", read::shorten(&text.value)));
        d.push(
            finding
                .at(text.span, "")
                .help("write `disable`, `relabel`, or a type such as `type:sandboxc_agent.process`"),
        );
    }
    value.map(|value| Located::new(value, text.span))
}

/// Takes a value out of the root mapping and replaces it with null.
fn detach(root: &mut Node, key: &str) -> Option<Node> {
    let value = root.entry_mut(key)?;
    let kind = std::mem::replace(&mut value.kind, Kind::Null);
    Some(Node { kind, ..value.clone() })
}

fn read_repos(node: &mut Node, around: &Around<'_>, d: &mut Diagnostics) -> BTreeMap<String, Repo> {
    if !matches!(node.kind, Kind::Map(_)) {
        read::entries_of(node, "`repos`", d);
        return BTreeMap::new();
    }
    let Kind::Map(entries) = &mut node.kind else { return BTreeMap::new() };
    let mut repos = BTreeMap::new();
    for (key, value) in entries {
        let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let fits = (1..=64).contains(&key.text.len()) && !key.text.starts_with('.') && key.text.chars().all(word);
        if !fits {
            let finding = Diagnostic::new(Code::BadValue, format!("`{}` cannot name a repo", read::shorten(&key.text)));
            d.push(finding.at(key.span, "").help("use at most 64 letters, digits, `.`, `_` and `-`, and no `.` first"));
        }
        let mut findings = Diagnostics::new();
        around.part(value, &mut findings);
        let map = fields(value, &ENTRY, &mut findings);
        let path = map.get("path").and_then(|n| absolute(n, "`path`", &mut findings));
        let remote = remote::read(&map, around.base, &mut findings);
        let part = part(&map, around.base, &mut findings);
        repos.insert(key.text.clone(), Repo { path, remote, part, findings });
    }
    repos
}

fn part(map: &read::Fields<'_>, base: &Path, d: &mut Diagnostics) -> Part {
    let mut part = Part { chosen: Chosen::read(map, d), ..Part::default() };
    if let Some(node) = map.get("network") {
        let network = fields(node, &ENTRY_NETWORK, d);
        part.sandbox_enabled = network.get("sandbox_enabled").and_then(|n| read::boolean(n, "`sandbox_enabled`", d));
        part.allow = network.get("allow").map(|n| entry::entries(n, "`allow`", ListKind::Allow, d)).unwrap_or_default();
        part.deny = network.get("deny").map(|n| entry::entries(n, "`deny`", ListKind::Deny, d)).unwrap_or_default();
    }
    part.limits = Wish::of(map, d);
    part.schedule = map.get("schedule").and_then(|n| read::string(n, "`schedule`", d));
    if let Some(schedule) = &part.schedule {
        checked(calendar(&schedule.value), Code::BadValue, schedule.span, d);
    }
    if let Some(node) = map.get("allow_mounts") {
        part.allow_mounts =
            read::list(node, "`allow_mounts`", d).iter().filter_map(|n| absolute(n, "a path", d)).collect();
    }
    part.allow_user_namespaces =
        map.get("allow_user_namespaces").and_then(|n| read::boolean(n, "`allow_user_namespaces`", d));
    part.allow_nested = map.get("allow_nested").and_then(|n| read::boolean(n, "`allow_nested`", d));
    part.allow_learning = map.get("allow_learning").and_then(|n| read::boolean(n, "`allow_learning`", d));
    part.image_build = map.get("image_build").and_then(|n| recipe::network(n, "`image_build`", d));
    part.allow_private = map.get("allow_private").map(|n| private::patterns(n, d)).unwrap_or_default();
    if let Some(node) = map.get("pass_env") {
        part.pass_env = read::strings(node, "`pass_env`", "a name", d);
        for name in &part.pass_env {
            checked(value::env_name(&name.value), Code::BadValue, name.span, d);
        }
    }
    if let Some(node) = map.get("workspace") {
        let workspace = fields(node, &ENTRY_WORKSPACE, d);
        part.on_tamper = workspace.get("on_tamper").and_then(|n| tamper::read(n, d));
        part.protect = workspace
            .get("protect")
            .map(|n| read::strings(n, "`protect`", "a path of `protect`", d))
            .unwrap_or_default();
    }
    part.git_identity = map.get("git_identity").and_then(|n| authorship::read(n, d));
    part.home = map.get("home").and_then(|n| home::read(n, d));
    part.wishes = credential::wishes(map, base, d);
    part
}

/// Reads an absolute path without `..`.
fn absolute(node: &Node, what: &str, d: &mut Diagnostics) -> Option<Located<PathBuf>> {
    let text = read::string(node, what, d)?;
    let path = PathBuf::from(&text.value);
    match absolute_problem(&text.value, &path) {
        None => Some(Located::new(path, text.span)),
        Some(problem) => {
            d.push(path_finding(&problem, text.span, "write an absolute path, e.g. `/home/me/src/widgets`"));
            None
        }
    }
}
