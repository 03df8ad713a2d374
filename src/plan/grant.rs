//! The list of permissions for reviewers.

use std::fmt;

use crate::config::{Identity, Nested, Protected, Resolved, Workspace};
use crate::policy::{CredentialKind, Inspection, Policy, RequestRule, RuleSet, Scope, Tier};
use crate::source::Place;

use super::agent::Agent;
use super::pod::capabilities_of;

/// What a permission is about, in the order of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GrantKind {
    /// A credential that the router inserts.
    Credential,
    /// A host that the router decrypts.
    Decrypted,
    /// The ceiling, or that everything is allowed.
    Egress,
    /// A variable.
    Env,
    /// The home volume.
    Home,
    /// The agent's identity.
    Identity,
    /// An image.
    Image,
    /// A limit.
    Limit,
    /// A directory or file of the host.
    Mount,
    /// A secret whose value the agent gets.
    Secret,
}

impl fmt::Display for GrantKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Credential => "credential",
            Self::Decrypted => "decrypted",
            Self::Egress => "egress",
            Self::Env => "env",
            Self::Home => "home",
            Self::Identity => "identity",
            Self::Image => "image",
            Self::Limit => "limit",
            Self::Mount => "mount",
            Self::Secret => "secret",
        })
    }
}

/// A permission and the place that gave it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grant {
    /// The kind.
    pub kind: GrantKind,
    /// What exactly, on one line.
    pub what: String,
    /// Where it was given.
    pub from: Place,
}

pub(super) fn grants(resolved: &Resolved, agent: &Agent) -> Vec<Grant> {
    let mut grants = Vec::new();
    let mut add = |kind, what: String, from: &Place| grants.push(Grant { kind, what, from: from.clone() });
    egress(resolved, &mut add);
    let mode = |read_only: bool| if read_only { "read-only" } else { "read-write" };
    let workspace = &agent.workspace;
    let what =
        format!("{} at {}, {}", workspace.source.display(), workspace.target.display(), mode(workspace.read_only));
    add(GrantKind::Mount, what, &workspace.from);
    for part in workspace.protect.iter().filter(|_| !workspace.read_only) {
        add(GrantKind::Mount, protected_part(workspace, part), &part.from);
    }
    for mount in &agent.mounts {
        let what = format!("{} at {}, {}", mount.source.display(), mount.target.display(), mode(mount.read_only));
        add(GrantKind::Mount, what, &mount.from);
    }
    let home = &agent.home;
    add(GrantKind::Home, format!("volume {} at {}", home.volume.value, home.target.display()), &home.volume.from);
    add(GrantKind::Image, format!("agent {}", agent.image.value.reference()), &agent.image.from);
    add(GrantKind::Image, format!("router {}", resolved.router_image.value), &resolved.router_image.from);
    let capabilities = capabilities_of(resolved);
    let who = match agent.identity.value {
        Identity::HostUser if capabilities.is_empty() => "host-user: no capabilities".to_owned(),
        Identity::HostUser => format!("host-user: {}", capabilities.join(" ")),
        Identity::Root => format!("root: {}", capabilities.join(" ")),
    };
    add(GrantKind::Identity, who, &agent.identity.from);
    if let Some(nested) = &resolved.nested {
        add(GrantKind::Identity, nested_containers(nested.value), &nested.from);
    } else if resolved.user_namespaces.value {
        let what = "user namespaces: protected paths are watched, but not mounted over".to_owned();
        add(GrantKind::Identity, what, &resolved.user_namespaces.from);
    }
    for (name, secret) in &resolved.secrets.plain {
        add(GrantKind::Secret, format!("{name}: the agent gets the value"), &secret.from);
    }
    for (name, value) in &agent.env {
        add(GrantKind::Env, name.clone(), &value.from);
    }
    limits(agent, &mut add);
    grants.sort();
    grants
}

/// What containers inside open, in a line.
pub fn nested_containers(nested: Nested) -> String {
    let networks =
        if nested.networks { "user, mount and network namespaces, /dev/net/tun" } else { "user and mount namespaces" };
    let socket = if nested.docker_socket { "; docker's API inside" } else { "" };
    format!(
        "nested containers: {networks}{socket}; /proc is unmasked; protected paths are watched, but not mounted over; a kernel bug there is a way out"
    )
}

/// The mount over a protected part, in words.
pub(super) fn protected_part(workspace: &Workspace, part: &Protected) -> String {
    let (source, target) = (workspace.source.join(&part.path), workspace.target.join(&part.path));
    format!("{} at {}, read-only", source.display(), target.display())
}

fn egress(resolved: &Resolved, add: &mut impl FnMut(GrantKind, String, &Place)) {
    if !resolved.sandbox_enabled.value {
        add(GrantKind::Egress, "EVERYTHING: the network sandbox is off".to_owned(), &resolved.sandbox_enabled.from);
        return;
    }
    for rule in resolved.policy.ceiling.iter().flat_map(RuleSet::rules) {
        let ports: Vec<String> = rule.covered_ports().iter().map(u16::to_string).collect();
        let private = if rule.private { " (may be private)" } else { "" };
        let what = format!("ceiling {} {}{private}{}", rule.pattern, ports.join(" "), requests(rule.request.as_ref()));
        add(GrantKind::Egress, what, &rule.from);
    }
    inspected(&resolved.policy, add);
    for credential in &resolved.policy.credentials {
        let hosts: Vec<String> = credential.scopes.iter().map(ToString::to_string).collect();
        let how = match &credential.kind {
            CredentialKind::Masked { headers } => format!("headers {}", list(headers)),
            CredentialKind::AwsSigv4 { .. } => "AWS signatures".to_owned(),
            CredentialKind::GithubApp { repositories: Some(repositories), .. } => {
                format!("GitHub App, repositories {}", list(repositories))
            }
            CredentialKind::GithubApp { .. } => "GitHub App, every repository of the installation".to_owned(),
        };
        let (methods, paths) = (credential.methods.clone(), credential.paths.clone());
        let narrow = RequestRule { methods, paths, ..RequestRule::default() };
        let foreign = if credential.allow_foreign { ", other credentials pass" } else { "" };
        let requests = requests(Some(&narrow));
        let what = format!("{} for {} ({how}{foreign}){requests}", credential.name, hosts.join(" "));
        add(GrantKind::Credential, what, &credential.from);
    }
}

/// Which hosts the router decrypts, and why.
fn inspected(policy: &Policy, add: &mut impl FnMut(GrantKind, String, &Place)) {
    for row in policy.table(443) {
        let Some(inspection) = row.decision.inspection.filter(|_| row.decision.tier == Tier::Inspected) else {
            continue;
        };
        let host = match &row.scope {
            Scope::Host(name) => name.to_string(),
            Scope::Below(base) => format!("*.{base}"),
            Scope::Addresses | Scope::Address(_) => continue,
        };
        for (why, from) in reasons(policy, &inspection) {
            add(GrantKind::Decrypted, format!("{host} because of {why}"), &from);
        }
    }
}

fn reasons(policy: &Policy, inspection: &Inspection) -> Vec<(String, Place)> {
    let rules = inspection.allow.iter().chain(inspection.ceiling.iter().flatten());
    let rules = rules.filter(|rule| rule.request.is_some()).map(|rule| (rule.id.to_string(), rule.from.clone()));
    let credentials = policy.credentials.iter().filter(|credential| inspection.credentials.contains(&credential.name));
    rules.chain(credentials.map(|c| (format!("the credential {}", c.name), c.from.clone()))).collect()
}

fn list<'a>(words: impl IntoIterator<Item = &'a String>) -> String {
    words.into_iter().map(String::as_str).collect::<Vec<_>>().join(" ")
}

/// A rule's conditions on requests, after a colon.
fn requests(rule: Option<&RequestRule>) -> String {
    let words = rule.map(ToString::to_string).filter(|words| !words.is_empty());
    words.map_or_else(String::new, |words| format!(": {words}"))
}

fn limits(agent: &Agent, add: &mut impl FnMut(GrantKind, String, &Place)) {
    let limits = &agent.limits;
    let all = [
        ("timeout", &limits.timeout, "s"),
        ("memory", &limits.memory, " bytes, no swap"),
        ("cpus", &limits.cpus, "/1000"),
        ("pids", &limits.pids, ""),
        ("shm_size", &limits.shm, " bytes"),
    ];
    for (name, limit, unit) in all {
        if let Some(limit) = limit {
            add(GrantKind::Limit, format!("{name} {}{unit}", limit.value), &limit.from);
        }
    }
}
