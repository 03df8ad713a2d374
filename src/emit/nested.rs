//! Files for podman inside the agent's container (docs/nested.md).

use std::fmt::Write as _;
use std::path::Path;

use super::File;
use crate::config::Nested;
use crate::plan::pod::{Container, EnvValue, NESTED_AT};
use crate::plan::{Part, Plan, trust};

/// The files, if there may be containers inside.
pub(super) fn files(plan: &Plan) -> Vec<File> {
    // Networks need a device and the gate's consent, and the socket a process.
    let Some(Nested { networks: _, docker_socket: _ }) = plan.nested else { return Vec::new() };
    let agent = &plan.agent.main;
    vec![
        File::new("agent/containers.conf", containers_conf(plan, agent)),
        File::new("agent/storage.conf", storage_conf(agent)),
        File::new("agent/subid", ranges(agent)),
    ]
}

/// Containers share the pod's network, so that the same names and rules apply, and its host name, which they may not change.
/// Without systemd and control groups of their own, they run in the agent's. Two sessions that share one list of containers
/// end each other's.
fn containers_conf(plan: &Plan, agent: &Container) -> String {
    let mut text =
        "[containers]\nnetns = \"host\"\nutsns = \"host\"\ncgroups = \"disabled\"\nlog_driver = \"k8s-file\"\n\
                    default_sysctls = []\n"
            .to_owned();
    if plan.needs(Part::Trust) {
        let mut volumes = vec![format!("{0}:{0}:ro", trust::TRUST_AT)];
        if plan.needs(Part::Router) {
            // `update-ca-certificates` in a build can replace neither a bundle nor a directory that is a mount.
            volumes.push(root(trust::SESSION_CA, trust::CA_HASH));
        }
        // OpenSSL reads all certificates in a file that it finds by the hash of one.
        let added = plan.nested_roots.iter().filter(|hash| *hash != trust::CA_HASH);
        volumes.extend(added.map(|hash| root(trust::ADDED, hash)));
        // Writing to a String cannot fail.
        let _ = writeln!(text, "volumes = [{}]", quoted(&volumes));
        let below = |value: &EnvValue| match value {
            EnvValue::Text(text) if Path::new(text).starts_with(trust::TRUST_AT) => Some(text.clone()),
            EnvValue::Text(_) | EnvValue::Surrogate | EnvValue::Secret => None,
        };
        let variables = agent.env.iter().filter_map(|(name, value)| Some(format!("{name}={}", below(&value.value)?)));
        let _ = writeln!(text, "env = [{}, {{append = true}}]", quoted(&variables.collect::<Vec<_>>()));
    }
    let _ = write!(
        text,
        "[engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\n\
         static_dir = \"{NESTED_AT}/libpod\"\nvolume_path = \"{NESTED_AT}/volumes\"\n\
         [network]\nnetwork_config_dir = \"{NESTED_AT}/networks\"\n[secrets.opts]\npath = \"{NESTED_AT}/secrets\"\n"
    );
    text
}

/// The mount by which programs find a root in `/etc/ssl/certs`.
fn root(file: &str, hash: &str) -> String {
    format!("{}:/etc/ssl/certs/{hash}.0:ro", trust::path(file))
}

/// Images are in the home volume, which the sessions of a repo share: overlayfs cannot be stacked on the container's own.
fn storage_conf(agent: &Container) -> String {
    let home = agent.mounts.iter().find(|mount| mount.name == "home").map(|mount| mount.target.as_path());
    let images = home.unwrap_or(Path::new("/")).join(".local/share/containers/storage");
    // podman as a user other than root reads only the second name (5.4), and warns if there are both (5.8).
    let key = if agent.user == 0 { "graphroot" } else { "rootless_storage_path" };
    format!(
        "[storage]\ndriver = \"overlay\"\nrunroot = \"{NESTED_AT}/run\"\n{key} = {}\n",
        quoted(&[images.display().to_string()])
    )
}

/// Which ids podman inside may map: all of the container's, but for root of an agent that is not root itself.
fn ranges(agent: &Container) -> String {
    match agent.user {
        0 => "root:1:65535\n".to_owned(),
        user => format!("{user}:1:{}\n{user}:{}:{}\n", user - 1, user + 1, 65535 - user),
    }
}

/// Strings of TOML.
fn quoted(words: &[String]) -> String {
    let one = |word: &String| {
        let mut text = String::from("\"");
        for c in word.chars() {
            match c {
                '"' | '\\' => text.extend(['\\', c]),
                c if c.is_control() => _ = write!(text, "\\u{:04X}", u32::from(c)),
                c => text.push(c),
            }
        }
        text + "\""
    };
    words.iter().map(one).collect::<Vec<_>>().join(", ")
}
