//! The users and groups of an agent that is not root: `/etc/passwd` and `/etc/group`.

use super::File;
use crate::plan::pod::{Container, EnvValue, FileSet, Source};

/// Accounts that programs look up by name on every distribution. Nothing inside runs as one of them.
const SYSTEM: [(&str, u32, &str, &str); 5] = [
    ("root", 0, "/root", "root"),
    ("daemon", 1, "/usr/sbin", "daemon"),
    ("bin", 2, "/bin", "bin"),
    ("www-data", 33, "/var/www", "www-data"),
    ("nobody", 65534, "/nonexistent", "nogroup"),
];

/// The agent's name, whoever started it.
const NAME: &str = "agent";

/// The files that the container mounts.
pub(super) fn files(agent: &Container) -> Vec<File> {
    let is_mounted = |file: &'static str| {
        let source = Source::Files { set: FileSet::Agent, file: Some(file) };
        agent.mounts.iter().any(|mount| mount.source == source)
    };
    let all = [("passwd", passwd(agent)), ("group", group(agent))];
    all.into_iter()
        .filter(|(name, _)| is_mounted(name))
        .map(|(name, text)| File::new(format!("agent/{name}"), text))
        .collect()
}

fn passwd(agent: &Container) -> String {
    let entry = |name: &str, id: u32, home: &str, shell: &str| format!("{name}:x:{id}:{id}:{name}:{home}:{shell}\n");
    let system = SYSTEM.iter().map(|(name, id, home, _)| {
        let shell = if *id == 0 { "/bin/sh" } else { "/usr/sbin/nologin" };
        entry(name, *id, home, shell)
    });
    system.chain([entry(NAME, agent.user, &home(agent), "/bin/sh")]).collect()
}

fn group(agent: &Container) -> String {
    let entry = |name: &str, id: u32| format!("{name}:x:{id}:\n");
    let system = SYSTEM.iter().map(|(_, id, _, group)| entry(group, *id));
    system.chain([entry("tty", 5), entry(NAME, agent.user)]).collect()
}

/// `HOME`, which ssh and Java look up here. If an entry cannot contain it, the home directory is `/`.
fn home(agent: &Container) -> String {
    match agent.env.get("HOME").map(|home| &home.value) {
        Some(EnvValue::Text(home)) if home.starts_with('/') && !home.contains([':', '\n', '\r']) => home.clone(),
        _ => "/".to_owned(),
    }
}
