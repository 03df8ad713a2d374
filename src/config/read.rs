//! Typed readers. Each takes a node, reports what is wrong with it and returns what could be read.
//!
//! Invariants: no truthiness and no conversion (`"10"` is not a number, `1` is not a string); null is the same as a
//! missing key; a value that a tag looked up is never shown.

use std::collections::BTreeMap;

use super::suggest::nearest;
use super::yaml::{Key, Kind, Node, Tag, plain_number};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::shell;
use crate::source::{Located, Span};

/// A mapping whose keys have all been checked.
pub(super) struct Fields<'n> {
    entries: BTreeMap<&'n str, (&'n Key, &'n Node)>,
}

impl<'n> Fields<'n> {
    /// The value of a key, unless it is missing or null.
    pub(super) fn get(&self, key: &str) -> Option<&'n Node> {
        self.entries.get(key).map(|(_, node)| *node).filter(|node| !node.is_null())
    }

    /// Where the key is written, if it has a value.
    pub(super) fn key_span(&self, key: &str) -> Option<Span> {
        self.get(key).and_then(|_| self.entries.get(key)).map(|(key, _)| key.span)
    }
}

/// The keys of a mapping, and keys that belong elsewhere, with a hint.
pub(super) struct Keys {
    /// What the mapping is, e.g. "the repo file".
    pub(super) what: &'static str,
    /// The keys.
    pub(super) known: &'static [&'static str],
    /// Keys that people write here although they belong elsewhere.
    pub(super) elsewhere: &'static [(&'static str, &'static str)],
}

/// Reads a mapping with known keys. Reports anything but a mapping, and treats it as an empty one.
pub(super) fn fields<'n>(node: &'n Node, keys: &Keys, d: &mut Diagnostics) -> Fields<'n> {
    let mut entries = BTreeMap::new();
    for (key, value) in entries_of(node, keys.what, d) {
        if keys.known.contains(&key.text.as_str()) {
            entries.insert(key.text.as_str(), (key, value));
        } else {
            d.push(unknown_key(key, keys));
        }
    }
    Fields { entries }
}

fn unknown_key(key: &Key, keys: &Keys) -> Diagnostic {
    let finding = Diagnostic::new(Code::UnknownKey, format!("{} has no key `{}`", keys.what, shorten(&key.text)));
    let elsewhere = |word: &str| keys.elsewhere.iter().find(|(name, _)| *name == word).map(|(_, place)| *place);
    if let Some(place) = elsewhere(&key.text) {
        return finding.at(key.span, "").help(place);
    }
    match nearest(&key.text, keys.known.iter().copied().chain(keys.elsewhere.iter().map(|(name, _)| *name))) {
        Some(near) => {
            let help = elsewhere(near).map_or_else(|| format!("write `{near}`"), |place| format!("`{near}`: {place}"));
            finding.at(key.span, format!("did you mean `{near}`?")).help(help)
        }
        None => finding.at(key.span, "").help(format!("its keys are {}", listed(keys.known))),
    }
}

/// Whether to read the rest of the file. An empty file needs no version.
pub(super) fn version(root: &Node, map: &Fields<'_>, d: &mut Diagnostics) -> bool {
    let Some(node) = map.get("version") else {
        if let Kind::Map(entries) = &root.kind {
            let span = entries.first().map_or(root.span, |(key, _)| key.span);
            d.push(
                Diagnostic::new(Code::MissingKey, "the file has no `version`")
                    .at(span, "")
                    .help("write `version: 1` first"),
            );
        }
        return true;
    };
    match node.kind {
        Kind::Int(1) => true,
        Kind::Int(_) => {
            d.push(
                Diagnostic::new(
                    Code::UnsupportedVersion,
                    format!("version {} is not supported by this sandboxc", node.raw),
                )
                .at(node.span, "")
                .help("write `version: 1`, or use a newer sandboxc"),
            );
            false
        }
        _ if node.looked_up.is_some() => {
            d.push(
                Diagnostic::new(Code::BadTag, "a tag is not allowed here").at(node.span, "").help("write `version: 1`"),
            );
            true
        }
        _ => {
            whole(node, "`version`", 1..=1, d);
            true
        }
    }
}

/// Reads a mapping whose keys the user chooses.
pub(super) fn entries_of<'n>(node: &'n Node, what: &str, d: &mut Diagnostics) -> &'n [(Key, Node)] {
    match &node.kind {
        Kind::Map(entries) => entries,
        Kind::Null | Kind::Broken => &[],
        _ => {
            let finding = wrong_type(node, what, "a mapping of keys and values");
            d.push(finding.help("write `key: value` lines below it, or `{key: value}`"));
            &[]
        }
    }
}

/// Reads a list.
pub(super) fn list<'n>(node: &'n Node, what: &str, d: &mut Diagnostics) -> &'n [Node] {
    match &node.kind {
        Kind::Seq(items) => items,
        Kind::Null | Kind::Broken => &[],
        // Some people write `allow: {}` for an empty list.
        Kind::Map(entries) if entries.is_empty() => &[],
        Kind::Str(text) if node.looked_up.is_none() => {
            let words: Vec<String> = shell::words(text).iter().map(|word| quoted(word)).collect();
            let help = format!("write `[{}]`", words.join(", "));
            let fits = help.chars().count() <= 200;
            let help =
                if fits { help } else { "write the items in `[…]`, or each on its own line after `- `".to_owned() };
            d.push(wrong_type(node, what, "a list").help(help));
            &[]
        }
        _ => {
            d.push(
                wrong_type(node, what, "a list").help("write the items in `[…]`, or each on its own line after `- `"),
            );
            &[]
        }
    }
}

/// Reads a list of strings.
pub(super) fn strings(node: &Node, what: &str, item: &str, d: &mut Diagnostics) -> Vec<Located<String>> {
    list(node, what, d).iter().filter_map(|node| string(node, item, d)).collect()
}

/// Reads a string.
pub(super) fn string(node: &Node, what: &str, d: &mut Diagnostics) -> Option<Located<String>> {
    match &node.kind {
        Kind::Str(text) => Some(Located::new(text.clone(), node.span)),
        Kind::Broken => None,
        _ => {
            let finding = wrong_type(node, what, "a string");
            d.push(match (&node.kind, node.looked_up) {
                (Kind::Null, _) => finding.help("write \"\" for an empty string"),
                (Kind::Seq(_) | Kind::Map(_), _) => finding.help("write one string here"),
                (_, Some(_)) => finding.help("give the variable a value in quotes"),
                _ => finding.help(format!("write it in quotes: \"{}\"", shorten(&node.raw))),
            });
            None
        }
    }
}

/// Reads one of a few words.
pub(super) fn choice<T: Copy, const N: usize>(
    node: &Node,
    what: &str,
    choices: [(&str, T); N],
    d: &mut Diagnostics,
) -> Option<Located<T>> {
    let text = string(node, what, d)?;
    let named = choices.iter().find(|(word, _)| *word == text.value);
    if named.is_none() {
        let words = choices.map(|(word, _)| word);
        let label = nearest(&text.value, words).map(|near| format!("did you mean `{near}`?"));
        let message = format!("`{}` is not a choice for {what}", shorten(&text.value));
        let help = words.map(|word| format!("`{word}`")).join(" or ");
        let finding = Diagnostic::new(Code::BadValue, message).at(text.span, label.unwrap_or_default());
        d.push(finding.help(format!("write {help}")));
    }
    named.map(|(_, value)| Located::new(*value, text.span))
}

/// Reads `true` or `false`.
pub(super) fn boolean(node: &Node, what: &str, d: &mut Diagnostics) -> Option<Located<bool>> {
    match &node.kind {
        Kind::Bool(value) if node.looked_up.is_none() => return Some(Located::new(*value, node.span)),
        Kind::Broken => return None,
        _ => {}
    }
    if let Some(tag) = node.looked_up {
        d.push(misplaced_tag(node, tag));
        return None;
    }
    let finding = wrong_type(node, what, "true or false");
    let word = match &node.kind {
        Kind::Str(text) => text.to_ascii_lowercase(),
        _ => String::new(),
    };
    d.push(match word.as_str() {
        "yes" | "on" | "y" | "true" => finding.help("write `true`, without quotes"),
        "no" | "off" | "n" | "false" => finding.help("write `false`, without quotes"),
        _ => finding.help("write `true` or `false`"),
    });
    None
}

/// Reads a whole number in a range.
pub(super) fn whole(
    node: &Node,
    what: &str,
    range: std::ops::RangeInclusive<i64>,
    d: &mut Diagnostics,
) -> Option<Located<i64>> {
    match number_kind(node) {
        Kind::Int(value) if range.contains(&value) => Some(Located::new(value, node.span)),
        Kind::Int(_) => {
            let (low, high) = range.into_inner();
            d.push(
                Diagnostic::new(Code::BadValue, format!("{what} is out of range"))
                    .at(node.span, "")
                    .help(format!("write a whole number from {low} to {high}")),
            );
            None
        }
        Kind::Broken => None,
        _ => {
            d.push(unquote(node, wrong_type(node, what, "a whole number")));
            None
        }
    }
}

/// Reads a number.
pub(super) fn number(node: &Node, what: &str, d: &mut Diagnostics) -> Option<Located<f64>> {
    match number_kind(node) {
        // Larger numbers are out of every range here, and an i32 converts exactly.
        Kind::Int(value) => {
            let value = i32::try_from(value).map_or(f64::INFINITY, f64::from);
            Some(Located::new(value, node.span))
        }
        Kind::Float(value) => Some(Located::new(value, node.span)),
        Kind::Broken => None,
        _ => {
            d.push(unquote(node, wrong_type(node, what, "a number")));
            None
        }
    }
}

/// Reinterprets a node where a number is expected: YAML's rules apply to text that a tag looked up.
fn number_kind(node: &Node) -> Kind {
    match &node.kind {
        Kind::Str(text) if node.looked_up.is_some() => plain_number(text.trim()),
        other => other.clone(),
    }
}

fn unquote(node: &Node, finding: Diagnostic) -> Diagnostic {
    match &node.kind {
        Kind::Str(text) if matches!(plain_number(text), Kind::Int(_) | Kind::Float(_)) && node.looked_up.is_none() => {
            finding.help(format!("write {text} without quotes"))
        }
        Kind::OddNumber => finding.help("write it in plain decimal digits"),
        _ => finding.help("write it in plain decimal digits, without quotes or a unit"),
    }
}

/// "X must be Y, not Z".
pub(super) fn wrong_type(node: &Node, what: &str, want: &str) -> Diagnostic {
    let structure = want == "a list" || want.starts_with("a mapping");
    if let Some(tag) = node.looked_up.filter(|_| structure) {
        return misplaced_tag(node, tag);
    }
    let found = match (&node.kind, node.raw.as_str()) {
        (Kind::Null, _) | (_, "") => node.describe().to_owned(),
        (_, raw) => format!("`{}`", shorten(raw)),
    };
    Diagnostic::new(Code::WrongType, format!("{what} must be {want}, not {found}"))
        .at(node.span, format!("this is {}", node.describe()))
}

fn misplaced_tag(node: &Node, tag: Tag) -> Diagnostic {
    Diagnostic::new(Code::BadTag, format!("`{}` is not allowed here", tag.name()))
        .at(node.span, "")
        .help("tags stand for strings and numbers only; write the value itself")
}

/// "`a`, `b` and `c`".
pub(super) fn listed(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|w| format!("`{w}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => "none".to_owned(),
    }
}

/// A string as an item of a YAML list: in quotes unless it is a plain word.
pub(super) fn quoted(text: &str) -> String {
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/');
    let first = |c: char| c.is_ascii_alphabetic() || c == '/';
    let option = text.trim_start_matches('-').starts_with(|c: char| c.is_ascii_alphabetic());
    let plain = (text.starts_with(first) || option) && text.chars().all(word);
    let reserved = ["true", "false", "null", "yes", "no", "on", "off"].contains(&text.to_ascii_lowercase().as_str());
    if plain && !reserved {
        return text.to_owned();
    }
    // JSON strings are YAML strings.
    serde_json::to_string(text).unwrap_or_else(|_| format!("{text:?}"))
}

/// A stranger's text, cut to 60 characters.
pub(super) fn shorten(text: &str) -> String {
    if text.chars().count() <= 60 {
        return text.to_owned();
    }
    text.chars().take(57).chain("...".chars()).collect()
}
