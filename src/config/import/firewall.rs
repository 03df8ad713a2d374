//! Scripts named `init-firewall.sh`: names that a loop resolves and adds to a set of addresses. The script is read, never run.

use std::collections::BTreeMap;

use super::draft::ImportNote;
use super::host::below_only;
use super::{ImportFile, Reader};

/// A word of the script, and its line.
type Word = (String, u32);

pub(super) fn read(reader: &mut Reader, file: &ImportFile) {
    let lines = joined(&file.text);
    let arrays = arrays(&lines);
    for (index, (line, number)) in lines.iter().enumerate() {
        let code = line.trim();
        if let Some(words) = loop_words(code) {
            let body = body(&lines, index);
            if resolves(&body) {
                names(reader, file, &words, *number, &arrays);
            }
        }
        rule(reader, file, code, *number);
    }
}

/// Lines without comments, those with a backslash at the end joined, and words of several lines kept apart by blanks.
fn joined(text: &str) -> Vec<(String, u32)> {
    let mut all: Vec<(String, u32)> = Vec::new();
    let mut open = false;
    for (line, number) in text.lines().zip(1_u32..) {
        let code = without_comment(line);
        let goes_on = code.trim_end().ends_with('\\');
        let code = code.trim_end().trim_end_matches('\\').to_owned();
        match all.last_mut().filter(|_| open) {
            // Each word keeps its line, behind a byte that no script contains.
            Some((before, _)) => before.push_str(&format!(" \u{1}{number}\u{1} {code}")),
            None => all.push((code, number)),
        }
        open = goes_on || all.last().is_some_and(|(text, _)| in_array(text));
    }
    all
}

/// Whether a line begins an array that does not end there.
fn in_array(text: &str) -> bool {
    let Some((name, rest)) = text.split_once("=(") else { return false };
    let last = name.split_whitespace().last().unwrap_or("");
    !last.is_empty() && last.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !rest.contains(')')
}

fn without_comment(line: &str) -> &str {
    let mut quote = None;
    let mut before = ' ';
    for (at, c) in line.char_indices() {
        match (quote, c) {
            (None, '#') if before.is_whitespace() => return line.get(..at).unwrap_or(line),
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            _ => {}
        }
        before = c;
    }
    line
}

/// The words of a text, with the line of each.
fn words(text: &str, mut number: u32) -> Vec<Word> {
    let mut all = Vec::new();
    for word in text.split_whitespace() {
        if let Some(line) = word.strip_prefix('\u{1}').and_then(|rest| rest.strip_suffix('\u{1}')) {
            number = line.parse().unwrap_or(number);
        } else {
            all.push((word.to_owned(), number));
        }
    }
    all
}

/// The words between `in` and `do` of a loop.
fn loop_words(code: &str) -> Option<String> {
    let rest = code.strip_prefix("for ")?;
    let (_, list) = rest.split_once(" in ")?;
    let end = list.find("; do").or_else(|| list.find(";do")).unwrap_or(list.len());
    list.get(..end).map(str::to_owned)
}

/// The commands of a loop, up to its `done`.
fn body(lines: &[(String, u32)], start: usize) -> String {
    let mut text = String::new();
    for (line, _) in lines.iter().skip(start).take(60) {
        text.push_str(line);
        text.push('\n');
        if line.split([';', ' ']).any(|word| word.trim() == "done") {
            break;
        }
    }
    text
}

/// Whether a loop looks names up or fills a set of addresses.
fn resolves(body: &str) -> bool {
    ["dig ", "getent ", "nslookup ", "host ", "ipset add"].iter().any(|program| body.contains(program))
}

fn arrays(lines: &[(String, u32)]) -> BTreeMap<String, Vec<Word>> {
    let array = |(line, number): &(String, u32)| {
        let (name, rest) = line.split_once("=(")?;
        let name = name.split_whitespace().last()?;
        let inner = rest.split(')').next()?;
        Some((name.to_owned(), words(inner, *number)))
    };
    lines.iter().filter_map(array).collect()
}

fn names(reader: &mut Reader, file: &ImportFile, list: &str, number: u32, arrays: &BTreeMap<String, Vec<Word>>) {
    for (word, line) in words(list, number) {
        let bare = word.trim_matches(['"', '\'']);
        let array = bare.strip_prefix("${").and_then(|rest| rest.strip_suffix("[@]}"));
        match array.and_then(|name| arrays.get(name)) {
            Some(items) => {
                for (item, line) in items {
                    host(reader, file, item, *line);
                }
            }
            None => host(reader, file, &word, line),
        }
    }
}

fn host(reader: &mut Reader, file: &ImportFile, word: &str, line: u32) {
    let place = format!("{}:{line}", file.name);
    let bare = word.trim_matches(['"', '\'']);
    if bare.is_empty() {
        return;
    }
    if bare.contains(['$', '`', '*', '?', '[', '{']) {
        return reader.draft.note(ImportNote::Cannot, &place, bare, "the script computes it; name the hosts");
    }
    match below_only(bare) {
        Ok(name) => {
            reader.draft.allow(name, None, bare, &place);
            if let Some(item) = reader.draft.items.last_mut() {
                item.note = Some((ImportNote::Narrower, "every port of its addresses was open there".to_owned()));
            }
        }
        Err((note, why)) => reader.draft.note(note, &place, bare, &why),
    }
}

/// Rules besides the list.
fn rule(reader: &mut Reader, file: &ImportFile, code: &str, number: u32) {
    let place = format!("{}:{number}", file.name);
    if code.contains("/meta") {
        let why = "it adds the published networks of a code host; `sandboxc preset ls` shows presets with its names";
        return reader.draft.note(ImportNote::Ask, &place, code, why);
    }
    if !code.starts_with("iptables") || !code.contains("ACCEPT") || !code.contains("OUTPUT") {
        return;
    }
    let (note, why) = match code {
        _ if code.contains("-o lo") || code.contains("ESTABLISHED") => return,
        _ if code.contains("--match-set") || code.contains("--dport 53") => return,
        _ if code.contains("--dport 22") => (ImportNote::Ask, "it opens ssh to every host; name the hosts: `host:22`"),
        _ if code.contains("-P OUTPUT") => (ImportNote::Cannot, "what is not listed is denied here"),
        _ => (ImportNote::Cannot, "a rule about addresses has no counterpart; name the hosts"),
    };
    reader.draft.note(note, &place, code, why);
}
