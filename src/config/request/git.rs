//! Rules about git: repositories that may be fetched, and refs that may be pushed.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;

use crate::config::read::{self, Fields, Keys, fields, shorten};
use crate::config::yaml::{Kind, Node};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::policy::{GitRule, PathError, RefGlob, RepositoryGlob};
use crate::source::{Located, Span};

pub(in crate::config) const GIT: Keys = Keys {
    what: "`git`",
    known: &["fetch", "push"],
    elsewhere: &[
        ("clone", "write `fetch: [acme/widgets]`"),
        ("pull", "write `fetch: [acme/widgets]`"),
        ("read", "write `fetch: [acme/widgets]`"),
        ("write", "write `push: {acme/widgets: [refs/heads/agent/**]}`"),
    ],
};

/// Keys that cannot be combined with `git`, which determines the paths, methods and bodies of its requests.
const ALONE: [&str; 4] = ["methods", "paths", "graphql", "upgrade"];

/// Reads `git`.
pub(super) fn rule(map: &Fields<'_>, d: &mut Diagnostics) -> Option<GitRule> {
    let node = map.get("git")?;
    for span in ALONE.iter().filter_map(|key| map.key_span(key)) {
        let message = "an entry with `git` permits requests of git alone, whose methods and paths are fixed";
        let help = "give the other requests an entry of their own for the same host";
        d.push(Diagnostic::new(Code::BadValue, message).at(span, "").help(help));
    }
    let git = fields(node, &GIT, d);
    if matches!(node.kind, Kind::Map(_)) && GIT.known.iter().all(|key| git.get(key).is_none()) {
        let help = "write `{fetch: [acme/*]}` or `{push: {acme/widgets: [refs/heads/agent/**]}}`, or remove the entry";
        d.push(Diagnostic::new(Code::BadValue, "an empty `git` permits nothing").at(node.span, "").help(help));
    }
    let mut fetch = Vec::new();
    if let Some(node) = git.get("fetch") {
        let help = "name repositories, as in `[acme/widgets]`, or remove the key";
        for item in items(node, "`fetch`", node.span, help, d) {
            let text = read::string(item, "a repository", d);
            fetch.extend(text.and_then(|text| repository(&text, d)));
        }
    }
    fetch.sort();
    fetch.dedup();
    let push = git.get("push").map(|node| push(node, d)).unwrap_or_default();
    Some(GitRule { fetch, push })
}

fn push(node: &Node, d: &mut Diagnostics) -> BTreeMap<RepositoryGlob, Vec<RefGlob>> {
    let (mut all, mut spans) = (BTreeMap::new(), BTreeMap::<RepositoryGlob, Span>::new());
    if matches!(node.kind, Kind::Seq(_)) {
        let help = "name the refs of each repository, as in `push: {acme/widgets: [refs/heads/agent/**]}`";
        d.push(read::wrong_type(node, "`push`", "a mapping of repositories to refs").help(help));
        return all;
    }
    if node.is_empty() {
        let help = "remove the key, or name refs, as in `push: {acme/widgets: [refs/heads/agent/**]}`";
        d.push(Diagnostic::new(Code::BadValue, "an empty `push` permits nothing").at(node.span, "").help(help));
    }
    for (key, refs) in read::entries_of(node, "`push`", d) {
        let mut list = Vec::new();
        let help = "name refs, as in `[refs/heads/agent/**]`, or remove the repository";
        let span = if refs.is_null() { key.span } else { refs.span };
        for item in items(refs, "list of refs", span, help, d) {
            let text = read::string(item, "a ref", d);
            list.extend(text.and_then(|text| name(&text, d)));
        }
        let Some(glob) = repository(&Located::new(key.text.clone(), key.span), d) else { continue };
        list.sort();
        list.dedup();
        match spans.entry(glob.clone()) {
            Slot::Vacant(slot) => {
                slot.insert(key.span);
                all.insert(glob, list);
            }
            Slot::Occupied(first) => {
                let message = format!("`{}` names the same repository twice", shorten(glob.as_str()));
                let finding = Diagnostic::new(Code::DuplicateKey, message);
                let finding = finding.at(key.span, "the second time").at(*first.get(), "the first time");
                d.push(finding.help("write all of its refs in one list"));
            }
        }
    }
    all
}

/// An empty list would permit nothing, which nobody means.
fn items<'n>(node: &'n Node, what: &str, span: Span, help: &str, d: &mut Diagnostics) -> &'n [Node] {
    if node.is_empty() {
        d.push(Diagnostic::new(Code::BadValue, format!("an empty {what} permits nothing")).at(span, "").help(help));
        return &[];
    }
    read::list(node, &format!("the {what}"), d)
}

fn repository(text: &Located<String>, d: &mut Diagnostics) -> Option<RepositoryGlob> {
    match RepositoryGlob::parse(&text.value) {
        Ok(glob) => Some(glob),
        Err(error) => {
            let why = match error {
                _ if text.value.starts_with('/') => "it starts with `/`".to_owned(),
                _ if text.value.contains("://") => "it is a URL".to_owned(),
                PathError::EmptySegment if text.value.is_empty() => "it is empty".to_owned(),
                error => error.to_string(),
            };
            let message = format!("`{}` is not a valid repository: {why}", shorten(&text.value));
            let help = match error {
                PathError::Wildcard => "`*` stays inside a part of the path, `**` crosses parts",
                _ => "write its path on the host, as in `acme/widgets`, without the host and without a `/` in front",
            };
            d.push(Diagnostic::new(Code::BadValue, message).at(text.span, "").help(help));
            None
        }
    }
}

/// Reads a ref, or a glob for refs.
fn name(text: &Located<String>, d: &mut Diagnostics) -> Option<RefGlob> {
    match RefGlob::parse(&text.value) {
        Ok(glob) => Some(glob),
        Err(error) => {
            let shown = shorten(&text.value);
            let message = format!("`{shown}` is not a valid ref: {error}");
            let help = match RefGlob::parse(&format!("refs/heads/{}", text.value)) {
                Ok(branch) if !text.value.starts_with("refs/") => {
                    format!("write `{}` for the branch", shorten(branch.as_str()))
                }
                _ => "write a whole name, as in `refs/heads/main`; `*` stays inside a part, `**` crosses parts"
                    .to_owned(),
            };
            d.push(Diagnostic::new(Code::BadValue, message).at(text.span, "").help(help));
            None
        }
    }
}
