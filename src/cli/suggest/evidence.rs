//! Entries that would allow what was denied, from what is known about it.

use std::collections::{BTreeMap, BTreeSet};

use crate::policy::{HostName, PathGlob, Policy, Reason};
use crate::runtime::logged::Logged;

/// What was seen of a host that is denied.
#[derive(Debug, Default)]
struct Seen {
    /// Its name was asked for, and nothing else is known.
    name: bool,
    /// Connections to ports, without requests.
    ports: BTreeSet<u16>,
    /// Paths by port and method.
    requests: BTreeMap<(u16, String), BTreeSet<String>>,
}

/// Entries, and what they cannot allow.
#[derive(Debug, Default)]
pub(in super::super) struct Suggested {
    pub(in super::super) entries: Vec<String>,
    pub(in super::super) notes: BTreeSet<String>,
}

/// The smallest entries that would allow all of this, and what no entry of the repo file can allow.
pub(in super::super) fn suggested(denied: &[&Logged], policy: &Policy, generalise: bool) -> Suggested {
    let (hosts, notes) = seen(denied, policy);
    let mut suggested = Suggested { notes, ..Suggested::default() };
    for (host, seen) in &hosts {
        seen.entries(host, generalise, &mut suggested);
    }
    suggested
}

/// Groups what is still denied by host. What no entry of the repo file can allow is a note.
fn seen(denied: &[&Logged], policy: &Policy) -> (BTreeMap<String, Seen>, BTreeSet<String>) {
    let (mut hosts, mut notes): (BTreeMap<String, Seen>, BTreeSet<String>) = Default::default();
    for line in denied {
        let decision = line.decide(policy);
        let from = decision.from.as_ref().map(|from| format!(" ({})", from.short())).unwrap_or_default();
        match decision.reason {
            Reason::Allowed => {}
            Reason::Denied | Reason::AboveCeiling => {
                notes.insert(format!("{}: the server file forbids it{from}", line.request()));
            }
            Reason::NotAllowed | Reason::PortNotAllowed | Reason::MethodNotAllowed | Reason::PathNotAllowed => {
                // An agent can ask for any address; an entry for one is the user's own decision.
                let Some(host) = HostName::from_wire(&line.host) else {
                    notes.insert(format!("{}: write an entry for an address by hand", line.request()));
                    continue;
                };
                let seen = hosts.entry(host.to_string()).or_default();
                match (line.tier.as_str(), &line.method, &line.path) {
                    ("dns", ..) => seen.name = true,
                    (_, Some(method), Some(path)) => {
                        let key = (line.port, method.clone());
                        seen.requests.entry(key).or_default().insert(path.clone());
                    }
                    _ => drop(seen.ports.insert(line.port)),
                }
            }
            reason => {
                notes.insert(format!("{}: {} ({})", line.request(), reason.text(), reason.hint()));
            }
        }
    }
    (hosts, notes)
}

impl Seen {
    fn entries(&self, host: &str, generalise: bool, suggested: &mut Suggested) {
        // Nothing else is known, so the ports of the web are what the name was asked for.
        if self.name {
            suggested.entries.push(host.to_owned());
        }
        for port in &self.ports {
            match port {
                80 | 443 if self.name => {}
                80 | 443 => suggested.entries.push(format!("{host}:{port}")),
                port => suggested.entries.push(format!("{{host: {host}, ports: [{port}], exact: true}}")),
            }
        }
        // Methods with the same paths fit into one entry; others would permit combinations that were not seen.
        let mut groups: BTreeMap<(u16, Vec<String>), BTreeSet<&str>> = BTreeMap::new();
        for ((port, method), paths) in &self.requests {
            let (paths, odd): (Vec<&String>, Vec<&String>) = paths.iter().partition(|path| literal(path));
            for path in odd {
                let note = format!("{method} {host}{path}: no entry can name exactly this path; write one by hand");
                suggested.notes.insert(note);
            }
            let paths: Vec<String> = paths.into_iter().cloned().collect();
            if !paths.is_empty() {
                let paths = if generalise { pattern(host, method, paths, suggested) } else { paths };
                groups.entry((*port, paths)).or_default().insert(method);
            }
        }
        for ((port, paths), methods) in groups {
            if self.name || self.ports.contains(&port) {
                continue;
            }
            let methods: Vec<&str> = methods.into_iter().collect();
            let paths: Vec<String> = paths.iter().map(|path| quoted(path)).collect();
            let port = if port == 443 { String::new() } else { format!(", ports: [{port}]") };
            let (methods, paths) = (methods.join(", "), paths.join(", "));
            suggested.entries.push(format!("{{host: {host}{port}, methods: [{methods}], paths: [{paths}]}}"));
        }
    }
}

/// Whether a glob of the same text matches exactly this path.
fn literal(path: &str) -> bool {
    !path.contains('*') && !path.contains("[redacted]") && PathGlob::parse(path).is_ok_and(|glob| glob.as_str() == path)
}

fn quoted(path: &str) -> String {
    format!("\"{}\"", path.replace('\\', "\\\\").replace('"', "\\\""))
}

/// More than three paths as everything below the directory that they share.
fn pattern(host: &str, method: &str, paths: Vec<String>, suggested: &mut Suggested) -> Vec<String> {
    let Some(first) = paths.first().filter(|_| paths.len() > 3) else { return paths };
    let shared = paths.iter().fold(first.as_str(), |shared, path| {
        let same = shared.char_indices().zip(path.chars()).take_while(|((_, a), b)| a == b).count();
        shared.get(..same).unwrap_or("")
    });
    let dir = shared.get(..shared.rfind('/').unwrap_or(0)).unwrap_or("");
    suggested.notes.insert(format!("{host}: `{dir}/**` also permits every other {method} request below {dir}/"));
    vec![format!("{dir}/**")]
}
