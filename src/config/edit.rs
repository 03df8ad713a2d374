//! Adds entries to `network.allow` in the text of a repo file, and keeps everything else as it is.

use super::yaml::{self, Kind, Node};
use crate::diagnostic::Diagnostics;
use crate::source::SourceMap;

/// A repo file without anything.
const EMPTY: &str = "version: 1\n";

/// The text with these entries, which must be YAML on one line each, at the end of `network.allow`. `None` if the text
/// is not written in a way that can be extended, such as with an alias.
pub fn add_to_allow(text: &str, entries: &[String]) -> Option<String> {
    let text = if text.trim().is_empty() { EMPTY } else { text };
    let mut sources = SourceMap::new();
    let file = sources.add("", "", text);
    let mut findings = Diagnostics::new();
    let root = yaml::read(file, text, &mut findings).filter(|_| !findings.has_errors())?;
    let network = child(&root, "network");
    let network_key = key_end(&root, "network");
    let allow = network.and_then(|network| child(network, "allow"));
    let (at, added) = match (network, allow) {
        (Some(network), Some(allow)) => in_list(text, allow, key_end(network, "allow")?, entries)?,
        (Some(network), None) => in_network(text, network, network_key?, entries)?,
        (None, _) => {
            let root_is_block = matches!(root.kind, Kind::Map(_)) && !text.get(root.span.start..)?.starts_with('{');
            if !root_is_block {
                return None;
            }
            let line = if text.ends_with('\n') { "" } else { "\n" };
            (text.len(), format!("{line}network:\n  allow:\n{}", block("    ", entries)))
        }
    };
    let (before, after) = text.split_at_checked(at)?;
    Some(format!("{before}{added}{after}"))
}

fn child<'a>(node: &'a Node, key: &str) -> Option<&'a Node> {
    match &node.kind {
        Kind::Map(entries) => entries.iter().find(|(name, _)| name.text == key).map(|(_, value)| value),
        _ => None,
    }
}

/// Where the key ends.
fn key_end(node: &Node, key: &str) -> Option<usize> {
    match &node.kind {
        Kind::Map(entries) => entries.iter().find(|(name, _)| name.text == key).map(|(name, _)| name.span.end),
        _ => None,
    }
}

fn block(indent: &str, entries: &[String]) -> String {
    entries.iter().map(|entry| format!("{indent}- {entry}\n")).collect()
}

/// Where to add to an existing value of `allow`, and what.
fn in_list(text: &str, allow: &Node, key_end: usize, entries: &[String]) -> Option<(usize, String)> {
    let is_flow = text.get(allow.span.start..)?.starts_with(['[', '{']);
    match &allow.kind {
        Kind::Seq(items) if is_flow => {
            let close =
                allow.span.end.checked_sub(1).filter(|&at| text.get(at..).is_some_and(|t| t.starts_with(']')))?;
            let inner = text.get(allow.span.start + 1..close)?;
            // A comment in a list in brackets could swallow what follows.
            let last = inner.trim_end();
            let end = allow.span.start + 1 + last.len();
            if inner.lines().any(|line| line.contains('#')) {
                return None;
            }
            let comma = if items.is_empty() || last.ends_with(',') { "" } else { "," };
            let space = if items.is_empty() { "" } else { " " };
            Some((end, format!("{comma}{space}{}", entries.join(", "))))
        }
        Kind::Seq(items) => {
            let (first, last) = (items.first()?, items.last()?);
            let indent = indent_of_item(text, first.span.start)?;
            // A comment after the last item stays on its line.
            let end = line_end(text, last.span.end);
            let line = if text.get(..end)?.ends_with('\n') { "" } else { "\n" };
            Some((end, format!("{line}{}", block(indent, entries))))
        }
        // Nothing after the colon.
        Kind::Null if allow.span.start == allow.span.end => after_key(text, key_end, entries),
        _ => None,
    }
}

/// Where to add `allow` in a `network` that has none.
fn in_network(text: &str, network: &Node, key_end: usize, entries: &[String]) -> Option<(usize, String)> {
    match &network.kind {
        Kind::Map(keys) if text.get(network.span.start..)?.starts_with('{') => {
            let comma = if keys.is_empty() { "" } else { ", " };
            Some((network.span.start + 1, format!("allow: [{}]{comma}", entries.join(", "))))
        }
        Kind::Map(keys) => {
            let (key, _) = keys.first()?;
            let start = text.get(..key.span.start)?.rfind('\n').map_or(0, |at| at + 1);
            let indent = text.get(start..key.span.start).filter(|indent| indent.trim().is_empty())?;
            Some((start, format!("{indent}allow:\n{}", block(&format!("{indent}  "), entries))))
        }
        Kind::Null if network.span.start == network.span.end => {
            let end = line_end(text, key_end);
            let line = if text.get(..end)?.ends_with('\n') { "" } else { "\n" };
            Some((end, format!("{line}  allow:\n{}", block("    ", entries))))
        }
        _ => None,
    }
}

/// Below a key without a value, indented further than the key.
fn after_key(text: &str, key_end: usize, entries: &[String]) -> Option<(usize, String)> {
    let start = text.get(..key_end)?.rfind('\n').map_or(0, |at| at + 1);
    let line = text.get(start..)?;
    let indent: String = line.chars().take_while(|c| *c == ' ').collect();
    let end = line_end(text, key_end);
    let newline = if text.get(..end)?.ends_with('\n') { "" } else { "\n" };
    let added = format!("{newline}{}", block(&format!("{indent}  "), entries));
    line.trim_start().starts_with("allow:").then_some((end, added))
}

/// The white space before the dash of a list's item.
fn indent_of_item(text: &str, item: usize) -> Option<&str> {
    let start = text.get(..item)?.rfind('\n').map_or(0, |at| at + 1);
    let dash = text.get(start..item)?.find('-')?;
    text.get(start..start + dash).filter(|indent| indent.trim().is_empty())
}

/// The end of the line, after its line feed if there is one.
fn line_end(text: &str, at: usize) -> usize {
    text.get(at..).and_then(|rest| rest.find('\n')).map_or(text.len(), |offset| at + offset + 1)
}

#[cfg(test)]
mod tests {
    use super::add_to_allow;

    #[test]
    fn entries_are_added_and_everything_else_stays() {
        let entries = ["new.test".to_owned(), "{host: x.test, methods: [GET]}".to_owned()];
        for (before, after) in [
            ("", "version: 1\nnetwork:\n  allow:\n    - new.test\n    - {host: x.test, methods: [GET]}\n"),
            (
                "version: 1\nnetwork:\n  allow:\n  - a.test  # why\n  # end\nenv: {A: b}\n",
                "version: 1\nnetwork:\n  allow:\n  - a.test  # why\n  - new.test\n  - {host: x.test, methods: [GET]}\n  # end\nenv: {A: b}\n",
            ),
            (
                "version: 1\nnetwork:\n  allow:\n    - host: a.test\n      paths: [/x]\n    - b.test",
                "version: 1\nnetwork:\n  allow:\n    - host: a.test\n      paths: [/x]\n    - b.test\n    - new.test\n    - {host: x.test, methods: [GET]}\n",
            ),
            (
                "version: 1\nnetwork: {allow: [a.test]}\n",
                "version: 1\nnetwork: {allow: [a.test, new.test, {host: x.test, methods: [GET]}]}\n",
            ),
            ("network: {allow: []}\n", "network: {allow: [new.test, {host: x.test, methods: [GET]}]}\n"),
            ("network: {}\n", "network: {allow: [new.test, {host: x.test, methods: [GET]}]}\n"),
            (
                "network:\n  allow:  # none\n",
                "network:\n  allow:  # none\n    - new.test\n    - {host: x.test, methods: [GET]}\n",
            ),
            ("network:\n", "network:\n  allow:\n    - new.test\n    - {host: x.test, methods: [GET]}\n"),
            ("version: 1", "version: 1\nnetwork:\n  allow:\n    - new.test\n    - {host: x.test, methods: [GET]}\n"),
        ] {
            assert_eq!(add_to_allow(before, &entries).as_deref(), Some(after), "{before}");
        }
    }

    #[test]
    fn a_text_that_cannot_be_extended_is_left_alone() {
        for text in [
            "{version: 1}",
            "a: &x [b.test]\nnetwork: {allow: *x}\n",
            "network: {allow: [a.test # why\n]}\n",
            "network: [",
        ] {
            assert_eq!(add_to_allow(text, &["new.test".to_owned()]), None, "{text}");
        }
    }
}
