//! Nodes with values of secrets: their tags are not looked up, and findings hide them in the lines they show.

use super::suggest::nearest;
use super::vars::{Vars, missing_var};
use super::yaml::{Kind, Node, Tag};
use crate::diagnostic::Diagnostics;
use crate::source::Span;

/// Keys of `defaults` and of an entry whose values contain secrets.
pub(super) const SECTIONS: [&str; 4] = ["secrets", "masked_secrets", "signing_credentials", "github_app_credentials"];

/// The values of a signing credential.
pub(super) const AWS_KEYS: [&str; 3] = ["access_key_id", "secret_access_key", "session_token"];

/// A key of an entry whose value is a secret.
const TOKEN: &str = "clone_token";

/// Keys inside of sections, one level down, that do not contain secrets.
const HARMLESS: [&str; 11] = [
    "scopes",
    "headers",
    "methods",
    "paths",
    "type",
    "app_id",
    "installation_id",
    "permissions",
    "repositories",
    "base_url",
    "allow_foreign_credentials",
];

/// Looks up all tags of `defaults` or an entry except those of secrets, which are read when a session starts, and at no
/// other time. `!var` is replaced by what the variable contains, a tag or text.
pub(super) fn substitute(
    part: &mut Node,
    others: &dyn Fn(&mut Node, &mut Diagnostics),
    vars: &Vars,
    d: &mut Diagnostics,
) {
    let mut kept = Vec::new();
    visit(part, &mut |node| kept.push(std::mem::replace(&mut node.kind, Kind::Null)));
    others(part, d);
    let mut kept = kept.into_iter();
    visit(part, &mut |node| {
        let Some(kind) = kept.next() else { return };
        node.kind = match kind {
            Kind::Tagged(Tag::Var, name) => {
                if vars.get(&name).is_none() {
                    d.push(missing_var(&name, node.span, vars.names()));
                }
                vars.leaf(&name).map_or(Kind::Broken, |leaf| leaf.kind.clone())
            }
            other => other,
        };
    });
}

/// Every node of `defaults` or an entry that contains the value of a secret.
fn visit(part: &mut Node, f: &mut dyn FnMut(&mut Node)) {
    part.entry_mut(TOKEN).into_iter().for_each(&mut *f);
    for section in SECTIONS {
        let Some(Node { kind: Kind::Map(entries), .. }) = part.entry_mut(section) else { continue };
        for (_, entry) in entries {
            match section {
                "secrets" => f(entry),
                "masked_secrets" => entry.entry_mut("value").into_iter().for_each(&mut *f),
                "github_app_credentials" => entry.entry_mut("private_key").into_iter().for_each(&mut *f),
                _ => {
                    for key in AWS_KEYS {
                        match entry.entry_mut(key) {
                            Some(node) if matches!(node.kind, Kind::Map(_)) => {
                                node.entry_mut("value").into_iter().for_each(&mut *f);
                            }
                            Some(node) => f(node),
                            None => {}
                        }
                    }
                }
            }
        }
    }
}

/// The bytes of a file that may be values of secrets. In a section, that is everything but keys, tags and what is known
/// to be harmless, so that neither a misspelled key nor a comment shows one. A file that is not YAML is hidden
/// completely if it mentions secrets.
pub(super) fn hidden(tree: Option<&Node>, text: &str, whole: Span) -> Vec<Span> {
    let Some(root) = tree else {
        let speaks = ["secret", "credential", "private_key"].iter().any(|word| text.contains(word));
        return if speaks { vec![whole] } else { Vec::new() };
    };
    let mut found = Found::default();
    found.walk(root);
    let mut hidden: Vec<Span> = found.sections.iter().flat_map(|(node, strict)| gaps(node, *strict, text)).collect();
    if let (true, Kind::Map(entries)) = (found.vars, &root.kind) {
        let vars = entries.iter().filter(|(key, _)| key.text == "vars");
        hidden.extend(vars.flat_map(|(_, node)| gaps(node, true, text)));
    }
    hidden
}

/// The sections of a tree, and whether one takes its values from `vars`.
#[derive(Default)]
struct Found<'n> {
    sections: Vec<(&'n Node, bool)>,
    vars: bool,
}

impl<'n> Found<'n> {
    fn walk(&mut self, node: &'n Node) {
        match &node.kind {
            Kind::Seq(items) => items.iter().for_each(|item| self.walk(item)),
            Kind::Map(entries) => {
                for (key, value) in entries {
                    // Lists of hosts are long, and an entry of such a list has no section of secrets.
                    if ["allow", "deny", "ceiling"].contains(&key.text.as_str()) {
                        continue;
                    }
                    // A misspelled section contains secrets, too.
                    if nearest(&key.text, SECTIONS.into_iter().chain([TOKEN])).is_some() || key.text.contains("secret")
                    {
                        let strict = key.text == "secrets" || !SECTIONS.contains(&key.text.as_str());
                        self.sections.push((value, strict));
                        self.vars |= has_var(value);
                    } else {
                        self.walk(value);
                    }
                }
            }
            _ => {}
        }
    }
}

fn has_var(node: &Node) -> bool {
    match &node.kind {
        Kind::Seq(items) => items.iter().any(has_var),
        Kind::Map(entries) => entries.iter().any(|(_, value)| has_var(value)),
        kind => matches!(kind, Kind::Tagged(Tag::Var, _)),
    }
}

/// The bytes of a section except those that may be shown.
fn gaps(section: &Node, strict: bool, text: &str) -> Vec<Span> {
    let mut shown = Vec::new();
    visible(section, strict, 0, &mut shown);
    shown.sort_unstable();
    let Span { file, start, end } = section.span;
    let mut at = start;
    let mut gaps = Vec::new();
    let punctuation = |c: char| c.is_whitespace() || "{}[],:-".contains(c);
    for (from, to) in shown.into_iter().chain([(end, end)]) {
        if let Some(piece) = text.get(at..from.max(at)) {
            let start = at + piece.len() - piece.trim_start_matches(punctuation).len();
            let end = at + piece.trim_end_matches(punctuation).len();
            if start < end {
                gaps.push(Span { file, start, end });
            }
        }
        at = at.max(to);
    }
    // A comment after it may contain a previous value.
    let line = text.get(end..).and_then(|rest| rest.lines().next()).unwrap_or("");
    if let Some((_, comment)) = line.split_once('#') {
        gaps.push(Span { file, start: end + line.len() - comment.len(), end: end + line.trim_end().len() });
    }
    gaps
}

fn visible(node: &Node, strict: bool, depth: usize, shown: &mut Vec<(usize, usize)>) {
    match &node.kind {
        Kind::Tagged(..) => shown.push((node.span.start, node.span.end)),
        Kind::Seq(items) => items.iter().for_each(|item| visible(item, strict, depth, shown)),
        Kind::Map(entries) => {
            for (key, value) in entries {
                shown.push((key.span.start, key.span.end));
                let name = key.text.as_str();
                let harmless = (depth == 1 && HARMLESS.contains(&name)) || (depth == 2 && name == "name");
                match harmless && !strict {
                    true => shown.push((value.span.start, value.span.end)),
                    false => visible(value, strict, depth + 1, shown),
                }
            }
        }
        _ => {}
    }
}
