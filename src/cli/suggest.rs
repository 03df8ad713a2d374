//! `sandboxc suggest`: the entries that would allow what a run was denied.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::Args;

use super::context::{Context, say, show};
use super::{ConfigArgs, Failure};
use crate::config::add_to_allow;
use crate::policy::{Effect, HostName, PathGlob, Policy, Reason, Verdict, compare};
use crate::runtime::logged::Logged;
use crate::runtime::output;

#[derive(Debug, Args)]
pub(super) struct SuggestArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Write the entries to the repo file
    #[arg(long)]
    write: bool,
    /// Replace several paths of a host by a pattern, and say what else it permits
    #[arg(long, visible_alias = "generalize")]
    generalise: bool,
    /// Network logs; `-` is standard input
    #[arg(required = true, value_name = "LOG")]
    logs: Vec<PathBuf>,
}

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
struct Suggested {
    entries: Vec<String>,
    notes: BTreeSet<String>,
}

pub(super) fn suggest(args: &SuggestArgs) -> Result<u8, Failure> {
    let context = Context::new();
    let resolved = context.resolve(&args.config, false)?;
    let log = super::log::read(&args.logs)?;
    let denied: Vec<&Logged> = log.lines.iter().filter(|line| line.policy_verdict() == Some(Verdict::Deny)).collect();
    let (hosts, notes) = seen(&denied, &resolved.policy);
    let mut suggested = Suggested { notes, ..Suggested::default() };
    for (host, seen) in &hosts {
        seen.entries(host, args.generalise, &mut suggested);
    }
    for note in &suggested.notes {
        say(&format!("sandboxc: {note}"));
    }
    if suggested.entries.is_empty() {
        say("sandboxc: the log has nothing that an entry of the repo file would allow");
        return Ok(0);
    }
    let repo_dir = context.repo_dir(&args.config)?;
    let old = repo_text(&repo_dir)?;
    let by_hand = || Failure::usage(format!("add these entries by hand:\n{}", suggested.entries.join("\n")));
    let new = add_to_allow(&old, &suggested.entries).ok_or_else(by_hand)?;
    check(&context, &args.config, &new, &resolved.policy, &denied)?;
    if args.write {
        output::in_repo(&repo_dir, "sandbox.yaml", new.as_bytes())?;
        say(&format!("sandboxc: wrote {} entries to .sandboxc/sandbox.yaml", suggested.entries.len()));
    } else {
        show(&patch(&old, &new))?;
    }
    Ok(0)
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

/// The repo file as it is in the workspace; empty if there is none.
fn repo_text(repo_dir: &Path) -> Result<String, Failure> {
    let bytes = crate::config::disk::Tree::open(repo_dir)
        .and_then(|tree| tree.read(Path::new(".sandboxc/sandbox.yaml"), 1 << 20));
    match bytes {
        Ok(bytes) => String::from_utf8(bytes).map_err(|_| Failure::usage("the repo file is not UTF-8")),
        Err(error) if crate::config::disk::missing(&error) => Ok(String::new()),
        Err(error) => Err(Failure::usage(format!("the repo file cannot be read: {error}"))),
    }
}

/// Loads the new text. It must be valid, and permit everything that the old one did.
fn check(context: &Context, config: &ConfigArgs, text: &str, old: &Policy, denied: &[&Logged]) -> Result<(), Failure> {
    let loaded = context.load_text(config, text)?;
    let Some(new) = loaded.resolved.map(|resolved| resolved.policy) else {
        let findings = loaded.diagnostics.text(&loaded.sources, false);
        return Err(Failure::promise(format!("the suggested entries are not valid:\n{findings}")));
    };
    // The most specific pattern applies, so an entry for one host replaces what a suffix permits for it.
    if let Some(closed) = compare(old, &new).into_iter().find(|change| change.effect == Effect::Closes) {
        let from = closed.from.map(|from| format!(" ({})", from.short())).unwrap_or_default();
        let (host, port) = (closed.host, closed.port);
        return Err(Failure::usage(format!(
            "an entry for exactly {host} would replace what another one permits for port {port}{from}; change that one by hand"
        )));
    }
    let stays: BTreeSet<String> =
        denied.iter().filter(|line| line.decide(&new).verdict == Verdict::Deny).map(|line| line.request()).collect();
    for request in stays {
        say(&format!("sandboxc: {request} stays denied"));
    }
    Ok(())
}

fn patch(old: &str, new: &str) -> String {
    let old_name = if old.is_empty() { "/dev/null" } else { "a/.sandboxc/sandbox.yaml" };
    similar::TextDiff::from_lines(old, new).unified_diff().header(old_name, "b/.sandboxc/sandbox.yaml").to_string()
}
