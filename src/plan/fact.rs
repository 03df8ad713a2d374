//! What a reviewer wants to know besides permissions: what runs, what the router uses, limits that are not set.

use crate::config::{Resolved, SERVER_FILE};
use crate::pem;
use crate::policy::CredentialKind;
use crate::source::{Place, Sourced};

use super::agent::{Agent, Command};

/// A fact and its place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fact {
    /// What it is about, in one word.
    pub about: &'static str,
    /// What exactly, on one line.
    pub what: String,
    /// Where it was set.
    pub from: Place,
}

/// What a plan says that was made for `learn`.
pub const LEARNING: &str = "EVERY PUBLIC NAME IS ALLOWED, to learn what the command needs; no credentials are loaded";

pub(super) fn facts(resolved: &Resolved, agent: &Agent, command: &Command) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut add = |about, what: String, from: &Place| facts.push(Fact { about, what, from: from.clone() });
    let configured: Vec<String> = resolved.command.iter().map(|word| word.value.clone()).collect();
    match command {
        Command::Run(words) if !words.is_empty() && *words != configured => {
            let typed = Place { file: "command line".to_owned(), line: 0, column: 0 };
            add("command", crate::shell::line(words), &typed);
        }
        Command::Run(_) | Command::Hold => {
            if let Some(first) = resolved.command.first() {
                add("command", crate::shell::line(&configured), &first.from);
            }
        }
    }
    if let Some(schedule) = &resolved.schedule {
        add("schedule", schedule.value.clone(), &schedule.from);
    }
    limits(agent, &mut add);
    let image = agent.image.value.reference();
    let by_tag = !image.starts_with("localhost/") && !image.contains("@sha256:");
    if by_tag {
        add(
            "warning",
            format!("the image {image} is named by a tag, which can change; pin it with @sha256:…"),
            &agent.image.from,
        );
    }
    for (name, tag) in &resolved.env_from {
        if let Some(value) = resolved.env.get(name) {
            add("env", format!("{name} is {tag} of this host"), &value.from);
        }
    }
    if let Some(learning) = &resolved.learning {
        add("learning", LEARNING.to_owned(), learning);
    }
    if resolved.sandbox_enabled.value {
        network(resolved, &mut add);
    }
    facts.sort();
    facts
}

/// For settings whose line is not known after merging.
fn server_file() -> Place {
    Place { file: SERVER_FILE.to_owned(), line: 0, column: 0 }
}

fn limits(agent: &Agent, add: &mut impl FnMut(&'static str, String, &Place)) {
    let limits = &agent.limits;
    let all =
        [("timeout", &limits.timeout), ("memory", &limits.memory), ("cpus", &limits.cpus), ("pids", &limits.pids)];
    let open: Vec<&str> = all.into_iter().filter(|(_, limit)| limit.is_none()).map(|(name, _)| name).collect();
    if !open.is_empty() {
        add("limit", format!("none for {}", open.join(" ")), &Place::built_in());
    }
}

fn network(resolved: &Resolved, add: &mut impl FnMut(&'static str, String, &Place)) {
    let ranges: Vec<String> = resolved.policy.reachable.iter().map(ToString::to_string).collect();
    if !ranges.is_empty() {
        add("reachable", format!("{} for every allowed name", ranges.join(" ")), &server_file());
    }
    let address = |resolver: &Sourced<std::net::IpAddr>| resolver.value.to_string();
    if let Some(first) = resolved.upstream_dns.first() {
        let all: Vec<String> = resolved.upstream_dns.iter().map(address).collect();
        add("dns", format!("the router asks {}", all.join(" ")), &first.from);
    }
    if resolved.log_query {
        add("log", "query strings are logged".to_owned(), &server_file());
    }
    if let Some(ca) = &resolved.extra_ca {
        for certificate in pem::described(&ca.value) {
            add("extra-ca", certificate, &ca.from);
        }
    }
    for credential in &resolved.policy.credentials {
        let CredentialKind::GithubApp { permissions, repositories, .. } = &credential.kind else { continue };
        let permissions = match permissions {
            Some(all) => all.iter().map(|(name, level)| format!("{name}:{level}")).collect::<Vec<_>>().join(" "),
            None => "all of the installation".to_owned(),
        };
        let repositories = repositories.as_ref().map_or_else(
            || "all of the installation".to_owned(),
            |all| all.iter().cloned().collect::<Vec<_>>().join(" "),
        );
        add(
            "app",
            format!("{}: permissions {permissions}; repositories {repositories}", credential.name),
            &credential.from,
        );
    }
}
