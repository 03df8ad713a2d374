//! The repo file: what the repo asks for. An agent may have written it, so nothing in it takes effect without the
//! server's permission, or beyond the sandbox.

use std::collections::BTreeMap;

use super::entry::{self, Entry, ListKind};
use super::limits::Wish;
use super::literal;
use super::nested;
use super::read::{self, Keys, fields, version};
use super::recipe::{self, BuildNetwork};
use super::resolved::{Identity, Nested};
use super::suggest::nearest;
use super::value::{self, checked};
use super::yaml::{Key, Kind, Node};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::source::{Located, Span};

pub(super) const REPO: Keys = Keys {
    what: "the repo file",
    known: &[
        "version",
        "image",
        "command",
        "identity",
        "workspace",
        "env",
        "mounts",
        "network",
        "resource_limits",
        "shm_size",
        "user_namespaces",
        "nested_containers",
    ],
    elsewhere: &[
        ("allow_nested", "`allow_nested` belongs to the server file; write `nested_containers: true` here"),
        ("git_identity", "`git_identity` belongs to the server file"),
        ("vars", "`vars` belongs to the server file"),
        ("repos", "`repos` belongs to the server file"),
        ("defaults", "`defaults` belongs to the server file"),
        ("secrets", "secrets belong to the server file, in the entry for this repo"),
        ("masked_secrets", "secrets belong to the server file, in the entry for this repo"),
        ("allow", "write it inside `network:`"),
        (
            "ports",
            "not supported, because nothing outside can connect to a sandbox (docs/dev-servers.md says what to do instead); hosts that it may reach belong to `network: {allow: […]}`",
        ),
        (
            "publish",
            "not supported, because a page of the agent in your browser would be a way out; docs/dev-servers.md says what to do instead",
        ),
        ("volumes", "write `mounts: [{source: ../data, target: /data}]`"),
        ("environment", "write `env: {NAME: value}`"),
        ("build", "write `image: {containerfile: Containerfile}`"),
        ("user", "write `identity: host-user` or `identity: root`"),
        ("working_dir", "write `workspace: {target: /work}`; the command starts there"),
        (
            "network_mode",
            "not supported, because the sandbox has a network of its own; list hosts in `network: {allow: […]}`",
        ),
        ("env_file", "not supported, because its values would be part of the plan; write `env: {NAME: value}`"),
        ("entrypoint", "write `command: [program, argument]`"),
        ("privileged", "not supported, because it would end the sandbox"),
        ("cap_add", "not supported, because capabilities follow from `identity`"),
        ("timeout", "write `resource_limits: {timeout: 3600}`"),
        ("memory", "write `resource_limits: {memory: \"4g\"}`"),
        ("cpus", "write `resource_limits: {cpus: 2}`"),
    ],
};
pub(super) const NETWORK: Keys = Keys {
    what: "`network` of the repo file",
    known: &["allow"],
    elsewhere: &[
        ("sandbox_enabled", "only the server file may switch the sandbox off"),
        ("deny", "`deny` belongs to the server file; hosts that the repo does not allow are denied anyway"),
        ("ceiling", "`ceiling` belongs to the server file"),
        ("reachable", "`reachable` belongs to the server file"),
        ("upstream_dns", "`upstream_dns` belongs to the server file"),
        ("allow_file", "`allow_file` belongs to the server file"),
    ],
};
pub(super) const WORKSPACE: Keys =
    Keys { what: "`workspace`", known: &["target", "read_only", "protect"], elsewhere: &[] };
pub(super) const MOUNT: Keys = Keys {
    what: "a mount",
    known: &["source", "target", "read_only"],
    elsewhere: &[("readonly", "write `read_only`"), ("ro", "write `read_only: true`")],
};
pub(super) const IMAGE: Keys = Keys {
    what: "`image`",
    known: &["containerfile", "max_age", "build"],
    elsewhere: &[("dockerfile", "write `containerfile`")],
};

/// Where the image comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ImageWish {
    Reference(String),
    Containerfile(ContainerfileWish),
}

/// An image that is built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ContainerfileWish {
    pub(super) name: Located<String>,
    pub(super) max_age: Option<Located<u64>>,
    pub(super) build: Option<Located<BuildNetwork>>,
}

/// A mount as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MountWish {
    pub(super) source: Located<String>,
    pub(super) target: Located<String>,
    pub(super) read_only: bool,
    pub(super) span: Span,
}

/// The content of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RepoFile {
    pub(super) image: Option<Located<ImageWish>>,
    pub(super) command: Vec<Located<String>>,
    pub(super) identity: Option<Located<Identity>>,
    /// `None` means the same path as outside.
    pub(super) workspace_target: Option<Located<String>>,
    pub(super) workspace_read_only: bool,
    pub(super) protect: Vec<Located<String>>,
    pub(super) env: BTreeMap<String, Located<String>>,
    pub(super) mounts: Vec<MountWish>,
    pub(super) allow: Vec<(usize, Entry)>,
    pub(super) limits: Wish,
    pub(super) user_namespaces: Option<Located<bool>>,
    /// `None` if they are off.
    pub(super) nested: Option<Located<Nested>>,
}

impl RepoFile {
    /// Reads the tree of the file.
    pub(super) fn read(root: &Node, d: &mut Diagnostics) -> Self {
        let map = fields(root, &REPO, d);
        if !version(root, &map, d) {
            return Self::default();
        }
        let mut file = Self {
            image: map.get("image").and_then(|n| image(n, d)),
            command: map.get("command").map(|n| command(n, d)).unwrap_or_default(),
            identity: map.get("identity").and_then(|n| identity(n, d)),
            env: map.get("env").map(|n| env(n, d)).unwrap_or_default(),
            mounts: map.get("mounts").map(|n| mounts(n, d)).unwrap_or_default(),
            limits: Wish::of(&map, d),
            user_namespaces: map.get("user_namespaces").and_then(|n| read::boolean(n, "`user_namespaces`", d)),
            nested: map.get("nested_containers").and_then(|n| nested::read(n, d)),
            ..Self::default()
        };
        if let Some(node) = map.get("workspace") {
            let workspace = fields(node, &WORKSPACE, d);
            let target = workspace.get("target").and_then(|n| read::string(n, "`target`", d));
            file.workspace_target = target.filter(|t| t.value != "same-path");
            file.workspace_read_only =
                workspace.get("read_only").and_then(|n| read::boolean(n, "`read_only`", d)).is_some_and(|l| l.value);
            file.protect = workspace
                .get("protect")
                .map(|n| read::strings(n, "`protect`", "a path of `protect`", d))
                .unwrap_or_default();
        }
        if let Some(node) = map.get("network") {
            let network = fields(node, &NETWORK, d);
            file.allow =
                network.get("allow").map(|n| entry::entries(n, "`allow`", ListKind::Allow, d)).unwrap_or_default();
        }
        file
    }
}

pub(super) fn image(node: &Node, d: &mut Diagnostics) -> Option<Located<ImageWish>> {
    if let Kind::Map(_) = node.kind {
        let map = fields(node, &IMAGE, d);
        let Some(name) = map.get("containerfile") else {
            // A misspelled key has been reported.
            if !node.is_empty() {
                return None;
            }
            d.push(
                Diagnostic::new(Code::MissingKey, "`image` has neither a reference nor a `containerfile`")
                    .at(node.span, "")
                    .help("write `image: {containerfile: Containerfile}`, or a reference"),
            );
            return None;
        };
        let max_age = map.get("max_age").and_then(|n| recipe::max_age(n, d));
        let build = map.get("build").and_then(|n| recipe::network(n, "`build`", d));
        let name = read::string(name, "`containerfile`", d)?;
        let span = name.span;
        return Some(Located::new(ImageWish::Containerfile(ContainerfileWish { name, max_age, build }), span));
    }
    let text = read::string(node, "`image`", d)?;
    checked(value::image_reference(&text.value), Code::BadValue, text.span, d)?;
    Some(text.map(ImageWish::Reference))
}

pub(super) fn command(node: &Node, d: &mut Diagnostics) -> Vec<Located<String>> {
    let (mut words, mut looked_up) = (Vec::new(), Vec::new());
    for (index, item) in read::list(node, "`command`", d).iter().enumerate() {
        let Some(word) = read::string(item, "a word of `command`", d) else { continue };
        if index == 0 && word.value.is_empty() {
            d.push(
                Diagnostic::new(Code::BadValue, "the program's name is empty")
                    .at(word.span, "")
                    .help("write e.g. `[claude]`"),
            );
        } else if passable(&word, d) {
            words.push(word);
            looked_up.push(item.looked_up.is_some());
        }
    }
    literal::in_command(&words, &looked_up, d);
    words
}

/// Whether podman can pass the string to a process unchanged.
fn passable(text: &Located<String>, d: &mut Diagnostics) -> bool {
    if text.value.contains('\0') {
        d.push(
            Diagnostic::new(Code::BadValue, "the value contains a NUL character")
                .at(text.span, "")
                .help("remove it; arguments and variables cannot contain NUL"),
        );
        return false;
    }
    if !value::survives_podman(&text.value) {
        d.push(
            Diagnostic::new(Code::PodmanLossy, "podman would alter this string when it reads it")
                .at(text.span, "it has several lines and starts with white space")
                .help("start it with another character, or put the text into a file in the workspace"),
        );
        return false;
    }
    true
}

pub(super) fn identity(node: &Node, d: &mut Diagnostics) -> Option<Located<Identity>> {
    let text = read::string(node, "`identity`", d)?;
    match text.value.as_str() {
        "host-user" => Some(text.map(|_| Identity::HostUser)),
        "root" => Some(text.map(|_| Identity::Root)),
        other => {
            let finding = Diagnostic::new(Code::BadValue, format!("`{}` is not an identity", read::shorten(other)));
            let label = nearest(other, ["host-user", "root"]).map(|near| format!("did you mean `{near}`?"));
            d.push(finding.at(text.span, label.unwrap_or_default()).help("write `host-user` or `root`"));
            None
        }
    }
}

fn env(node: &Node, d: &mut Diagnostics) -> BTreeMap<String, Located<String>> {
    let mut env = BTreeMap::new();
    for (key, item) in read::entries_of(node, "`env`", d) {
        if let Some(value) = variable(key, item, d) {
            literal::in_repo(key, item, &value, d);
            env.insert(key.text.clone(), value);
        }
    }
    env
}

/// Reads one variable.
pub(super) fn variable(key: &Key, item: &Node, d: &mut Diagnostics) -> Option<Located<String>> {
    let name = checked(value::env_name(&key.text), Code::BadValue, key.span, d);
    let value = read::string(item, &format!("the value of `{}`", read::shorten(&key.text)), d);
    name.and(value.filter(|value| passable(value, d)))
}

fn mounts(node: &Node, d: &mut Diagnostics) -> Vec<MountWish> {
    read::list(node, "`mounts`", d).iter().filter_map(|item| mount(item, d)).collect()
}

/// `source:target:options` of Docker, where a mount is writable unless it says otherwise, as a mapping.
fn mount_meant(text: &str) -> Option<String> {
    let mut parts = text.split(':');
    let (source, target) = (parts.next()?, parts.next().filter(|target| target.starts_with('/'))?);
    let read_only = parts.next().is_some_and(|options| options.split(',').any(|option| option == "ro"));
    let fits = !source.is_empty() && parts.next().is_none() && text.len() <= 120;
    let access = if read_only { "" } else { ", read_only: false" };
    fits.then(|| format!("{{source: {}, target: {}{access}}}", quoted_path(source), quoted_path(target)))
}

/// A path for a flow mapping; `../data` needs no quotes either.
fn quoted_path(path: &str) -> String {
    let rest = path.trim_start_matches("../");
    if rest.len() < path.len() && read::quoted(rest) == rest { path.to_owned() } else { read::quoted(path) }
}

fn mount(node: &Node, d: &mut Diagnostics) -> Option<MountWish> {
    if let Kind::Str(text) = &node.kind {
        let finding = read::wrong_type(node, "a mount", "a mapping of `source`, `target` and `read_only`");
        let meant = mount_meant(text).unwrap_or_else(|| "{source: ../data, target: /data}".to_owned());
        d.push(finding.help(format!("write `{meant}`; `source:target:options` strings are not supported")));
        return None;
    }
    let map = fields(node, &MOUNT, d);
    let read_only = map.get("read_only").and_then(|n| read::boolean(n, "`read_only`", d));
    let mut required = |key: &str| {
        if map.get(key).is_none() && !matches!(node.kind, Kind::Broken) {
            d.push(
                Diagnostic::new(Code::MissingKey, format!("the mount has no `{key}`"))
                    .at(node.span, "")
                    .help(format!("add `{key}: PATH`")),
            );
        }
        map.get(key).and_then(|n| read::string(n, &format!("`{key}`"), d))
    };
    let (source, target) = (required("source"), required("target"));
    Some(MountWish { source: source?, target: target?, read_only: read_only.is_none_or(|l| l.value), span: node.span })
}
