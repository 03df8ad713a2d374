//! What an import has found so far, and the files that it becomes.

use std::collections::BTreeMap;

use crate::config::lint::covering;
use crate::config::live::{SessionBounds, session_rule};
use crate::policy::{HostPattern, Policy, parse_pattern};

/// How the result differs from what was imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ImportNote {
    /// Ours permits more.
    Wider,
    /// Ours permits less.
    Narrower,
    /// Only the owner of the machine can say it.
    Server,
    /// There is no counterpart.
    Cannot,
    /// A person must decide.
    Ask,
}

impl ImportNote {
    /// The kind as a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Wider => "wider",
            Self::Narrower => "narrower",
            Self::Server => "server",
            Self::Cannot => "cannot",
            Self::Ask => "ask",
        }
    }
}

/// A line of the table: something of the source, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportRow {
    /// File and line.
    pub place: String,
    /// What the source says.
    pub theirs: String,
    /// What we say; empty if nothing.
    pub ours: String,
    /// How they differ.
    pub note: Option<ImportNote>,
    /// Why.
    pub why: String,
}

/// The result of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The repo file.
    pub repo: String,
    /// Lines for this repo's entry in the server file; empty if there are none.
    pub server: String,
    /// What became of each part of the source.
    pub rows: Vec<ImportRow>,
}

/// The conditions of an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Conditions {
    pub(super) methods: Vec<String>,
    pub(super) paths: Vec<String>,
    /// The value of `graphql`, as YAML.
    pub(super) graphql: Option<String>,
}

impl Conditions {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// An entry of `allow`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) host: String,
    pub(super) port: Option<u16>,
    /// Whether ports 80 and 443 are open beside a named one.
    pub(super) web: bool,
    pub(super) conditions: Conditions,
    pub(super) place: String,
    pub(super) theirs: String,
    pub(super) note: Option<(ImportNote, String)>,
}

/// Everything that was found.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) items: Vec<Item>,
    /// Values of the repo file by key, as YAML lines; a key with a dot is inside another one.
    repo: BTreeMap<&'static str, Vec<String>>,
    /// The same of the server file.
    server: BTreeMap<&'static str, Vec<String>>,
    comments: Vec<String>,
    rows: Vec<ImportRow>,
}

/// A text as a YAML scalar.
pub(super) fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

impl Draft {
    /// Adds a host.
    pub(super) fn allow(&mut self, host: String, port: Option<u16>, theirs: &str, place: &str) {
        let (place, theirs) = (place.to_owned(), theirs.to_owned());
        let conditions = Conditions::default();
        self.items.push(Item { host, port, web: false, conditions, place, theirs, note: None });
    }

    /// Adds a host with its web ports and a named one.
    pub(super) fn allow_beside_web(&mut self, host: String, port: u16, theirs: &str, place: &str) {
        self.allow(host, Some(port), theirs, place);
        if let Some(item) = self.items.last_mut() {
            item.web = true;
        }
    }

    /// Adds a value to a key of the repo file: `env`, `resource_limits`, `mounts`, `image` and others.
    pub(super) fn set(&mut self, key: &'static str, line: &str, theirs: &str, place: &str) {
        self.row(place, theirs, &shown(key, line), None, "");
        self.repo.entry(key).or_default().push(format!("{line}  # {place}"));
    }

    /// Adds a value to a key of the server file. Nothing writes that file.
    pub(super) fn server(&mut self, key: &'static str, line: &str, theirs: &str, place: &str, why: &str) {
        self.row(place, theirs, &shown(key, line), Some(ImportNote::Server), why);
        let lines = self.server.entry(key).or_default();
        let line = format!("{line}  # {place}");
        if !lines.contains(&line) {
            lines.push(line);
        }
    }

    /// Something that has no entry.
    pub(super) fn note(&mut self, note: ImportNote, place: &str, theirs: &str, why: &str) {
        self.row(place, theirs, "", Some(note), why);
        self.comments.push(format!("# {place}: {} ({}): {why}", one_line(theirs), note.word()));
    }

    fn row(&mut self, place: &str, theirs: &str, ours: &str, note: Option<ImportNote>, why: &str) {
        self.rows.push(ImportRow {
            place: place.to_owned(),
            theirs: one_line(theirs),
            ours: one_line(ours),
            note,
            why: why.to_owned(),
        });
    }

    /// The files.
    pub(super) fn finish(mut self) -> Imported {
        let mut allow = Vec::new();
        for item in self.owned() {
            let entry = item.entry(item.web || self.is_covered(&item));
            match problem(&entry) {
                None => {
                    let (note, why) = item.note.clone().map_or((None, String::new()), |(note, why)| (Some(note), why));
                    let comment = note.map(|note| format!("; {}: {why}", note.word())).unwrap_or_default();
                    self.row(&item.place, &item.theirs, &entry, note, &why);
                    allow.push(format!("- {entry}  # {}{comment}", item.place));
                }
                Some(why) => {
                    self.row(&item.place, &item.theirs, "", Some(ImportNote::Cannot), &why);
                    allow.push(format!("# - {entry}  # {}; cannot: {why}", item.place));
                }
            }
        }
        Imported { repo: self.repo_text(&allow), server: self.server_text(), rows: self.rows }
    }

    /// The items as our patterns own hosts: the most specific one decides alone, so what a wider one permits is repeated, and
    /// what a wider one permits anyway is left out.
    fn owned(&mut self) -> Vec<Item> {
        let mut all: Vec<Item> = Vec::new();
        for item in self.items.clone() {
            let wider: Vec<&Item> = self.items.iter().filter(|other| other.covers(&item)).collect();
            let open = wider.iter().find(|other| other.conditions.is_empty() && other.port.is_none());
            if let Some(open) = open.filter(|_| matches!(item.port, None | Some(80 | 443))) {
                let (place, theirs) = (item.place.clone(), item.theirs.clone());
                let why = format!("{} permits all of it ({})", open.host, open.place);
                self.row(&place, &theirs, &open.host.clone(), None, &why);
                continue;
            }
            let repeated = wider.iter().filter(|other| !other.conditions.is_empty() || other.port.is_some());
            let repeated: Vec<Item> = repeated
                .map(|other| Item {
                    host: item.host.clone(),
                    theirs: other.theirs.clone(),
                    place: other.place.clone(),
                    note: None,
                    ..(*other).clone()
                })
                .collect();
            for one in std::iter::once(item).chain(repeated) {
                let same = |other: &Item| {
                    (&other.host, other.port, &other.conditions) == (&one.host, one.port, &one.conditions)
                };
                if !all.iter().any(same) {
                    all.push(one);
                }
            }
        }
        all
    }

    /// Whether a wider entry permits the web ports of the item's host.
    fn is_covered(&self, item: &Item) -> bool {
        self.items.iter().any(|other| other.covers(item) && other.conditions.is_empty() && other.port.is_none())
    }

    fn repo_text(&self, allow: &[String]) -> String {
        let mut text =
            "# Imported. A comment says what the source said where it could not be kept.\nversion: 1\n".to_owned();
        text.push_str(&sections(&self.repo, ""));
        for comment in &self.comments {
            text.push_str(comment);
            text.push('\n');
        }
        let is_empty = !allow.iter().any(|line| line.starts_with('-'));
        text.push_str(if is_empty { "network:\n  allow: []\n" } else { "network:\n  allow:\n" });
        text.extend(allow.iter().map(|line| format!("    {line}\n")));
        text
    }

    fn server_text(&self) -> String {
        sections(&self.server, "")
    }
}

/// A key with its lines. Keys that start alike with a dot share a mapping.
fn sections(all: &BTreeMap<&'static str, Vec<String>>, indent: &str) -> String {
    let mut text = String::new();
    let mut open = "";
    for (key, lines) in all {
        let (outer, inner) = key.split_once('.').unwrap_or(("", key));
        if outer != open && !outer.is_empty() {
            text.push_str(&format!("{indent}{outer}:\n"));
        }
        open = outer;
        let indent = if outer.is_empty() { indent.to_owned() } else { format!("{indent}  ") };
        let is_scalar = lines.len() == 1 && lines.first().is_some_and(|line| line.starts_with("= "));
        if is_scalar {
            let value = lines.first().map_or("", |line| line.trim_start_matches("= "));
            text.push_str(&format!("{indent}{inner}: {value}\n"));
        } else {
            text.push_str(&format!("{indent}{inner}:\n"));
            text.extend(lines.iter().map(|line| format!("{indent}  {line}\n")));
        }
    }
    text
}

fn shown(key: &str, line: &str) -> String {
    let line = line.trim_start_matches("- ").trim_start_matches("= ");
    if line.contains(": ") && !line.starts_with(['{', '"']) {
        format!("{key}.{line}")
    } else {
        format!("{key}: {line}")
    }
}

fn one_line(text: &str) -> String {
    text.split(char::is_control).collect::<Vec<_>>().join(" ")
}

impl Item {
    /// Whether this is about more hosts, the other one's among them.
    fn covers(&self, other: &Self) -> bool {
        let pattern = |item: &Self| parse_pattern(&item.host).ok().map(|(pattern, _)| pattern);
        match (pattern(self), pattern(other)) {
            (Some(wide), Some(narrow)) => {
                wide != narrow && !matches!(narrow, HostPattern::Ip(_)) && covering(&narrow).any(|one| one == wide)
            }
            _ => false,
        }
    }

    /// The entry, on one line. `web` means that ports 80 and 443 stay open beside a named one.
    fn entry(&self, web: bool) -> String {
        let simple = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
        let host = |text: &str| {
            if text.chars().all(simple) && !text.is_empty() { text.to_owned() } else { quoted(text) }
        };
        let Conditions { methods, paths, graphql } = &self.conditions;
        let exact = !self.host.starts_with(['.', '*']);
        let is_address = self.host.parse::<std::net::Ipv4Addr>().is_ok();
        let mut parts = vec![format!("host: {}", host(&self.host))];
        match self.port {
            None if self.conditions.is_empty() => return host(&self.host),
            None => {}
            Some(port) if exact && self.conditions.is_empty() && (is_address || matches!(port, 80 | 443) || web) => {
                return format!("{}:{port}", self.host);
            }
            Some(port @ (80 | 443)) => parts.push(format!("ports: [{port}]")),
            Some(port) => parts.push(format!("ports: [{port}], exact: true")),
        }
        if !methods.is_empty() {
            parts.push(format!("methods: [{}]", methods.join(", ")));
        }
        if !paths.is_empty() {
            let paths: Vec<String> = paths.iter().map(|path| quoted(path)).collect();
            parts.push(format!("paths: [{}]", paths.join(", ")));
        }
        parts.extend(graphql.as_ref().map(|graphql| format!("graphql: {graphql}")));
        format!("{{{}}}", parts.join(", "))
    }
}

/// What is wrong with an entry, if anything.
fn problem(entry: &str) -> Option<String> {
    let policy = Policy::default();
    let bounds = SessionBounds { policy: &policy, own_networks: &[], allow_private: &[] };
    let (findings, _) = session_rule(entry, &bounds).err()?;
    let first = findings.sorted().into_iter().next()?.clone();
    let help = first.help.first().map(|help| format!("; {help}")).unwrap_or_default();
    Some(one_line(&format!("{}{help}", first.message)))
}
