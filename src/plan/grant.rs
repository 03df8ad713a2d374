//! The list of permissions that a reviewer reads first.

use serde::Serialize;

use crate::config::{Identity, Resolved};
use crate::source::Place;

use super::agent::Agent;

/// One permission and the file and line that gave it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Grant {
    /// What kind: `egress`, `mount`, `limit`, `identity`, `image`, `env`, `home`.
    pub kind: &'static str,
    /// What exactly, one line.
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
    add("mount", what, &workspace.from);
    for mount in &agent.mounts {
        let what = format!("{} at {}, {}", mount.source.display(), mount.target.display(), mode(mount.read_only));
        add("mount", what, &mount.from);
    }
    let home = &agent.home;
    add("home", format!("volume {} at {}", home.volume.value, home.target.display()), &home.volume.from);
    add("image", format!("agent {}", agent.image.value.reference()), &agent.image.from);
    add("image", format!("router {}", resolved.router_image.value), &resolved.router_image.from);
    let who = match agent.identity.value {
        Identity::HostUser => "host-user: no capabilities",
        Identity::Root => "root: CHOWN DAC_OVERRIDE FOWNER SETGID SETUID",
    };
    add("identity", who.to_owned(), &agent.identity.from);
    for (name, value) in &agent.env {
        add("env", name.clone(), &value.from);
    }
    limits(agent, &mut add);
    grants.sort();
    grants
}

fn egress(resolved: &Resolved, add: &mut impl FnMut(&'static str, String, &Place)) {
    if !resolved.sandbox_enabled.value {
        add("egress", "EVERYTHING: the network sandbox is off".to_owned(), &resolved.sandbox_enabled.from);
        return;
    }
    for rule in resolved.policy.allow.rules() {
        let web = if rule.covers_port(443) { "80 443" } else { "" };
        let named: Vec<String> = rule.ports.iter().map(u16::to_string).collect();
        let private = if rule.private { " (may be private)" } else { "" };
        let ports = format!("{web} {}", named.join(" "));
        add("egress", format!("allow {} {}{private}", rule.pattern, ports.trim()), &rule.from);
    }
    for rule in resolved.policy.deny.rules() {
        add("egress", format!("deny {}", rule.pattern), &rule.from);
    }
    for rule in resolved.policy.ceiling.iter().flat_map(crate::policy::RuleSet::rules) {
        add("egress", format!("at most {}", rule.pattern), &rule.from);
    }
}

fn limits(agent: &Agent, add: &mut impl FnMut(&'static str, String, &Place)) {
    let limits = &agent.limits;
    let all = [
        ("timeout", &limits.timeout, "s"),
        ("memory", &limits.memory, " bytes, no swap"),
        ("cpus", &limits.cpus, "/1000"),
        ("pids", &limits.pids, ""),
    ];
    for (name, limit, unit) in all {
        if let Some(limit) = limit {
            add("limit", format!("{name} {}{unit}", limit.value), &limit.from);
        }
    }
}
