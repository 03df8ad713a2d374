//! What people write by mistake, what the finding says, and that its hint works when it is pasted.

use sandboxc::config::check_secret_files;
use sandboxc::diagnostic::{Diagnostic, Severity};

use super::*;

/// How to follow a hint.
#[derive(Clone, Copy)]
enum Fix {
    /// Put the hint's text in place of what the finding marks.
    Paste,
    /// Remove the line that the finding marks.
    Remove,
    /// Write this file; it contains what the hint says to write.
    Write(&'static str),
}

mod in_repo;
mod in_server;

use Fix::{Paste, Remove, Write};

/// The file, without its version; the finding's message; its hints; how to follow them.
type Mistake = (&'static str, &'static str, &'static str, Fix);

/// A machine where this is one of the files, and everything else is empty.
fn machine(server: bool, text: &str) -> World {
    let mut world = World::new();
    let text = format!("version: 1\n{text}\n");
    if server {
        world.server(&text);
    } else {
        world.repo(&text).server("version: 1\ndefaults: {pass_env: [LANG]}\n");
    }
    world.inputs.env.insert("LANG".to_owned(), "C.UTF-8".to_owned());
    world.write("w/data/file", "");
    world.write("w/.sandboxc/Containerfile", "FROM docker.io/library/debian:trixie-slim\n");
    world
}

/// What `validate` says of it.
fn findings(world: &World) -> (sandboxc::config::Loaded, Vec<Diagnostic>) {
    let mut loaded = world.load();
    loaded.diagnostics.append(loaded.resolved.as_ref().map(check_secret_files).unwrap_or_default());
    let all = loaded.diagnostics.sorted().into_iter().cloned().collect();
    (loaded, all)
}

/// The text in a hint that is meant to be pasted: after "write", in backticks or quotes.
fn pasted(hint: &str) -> Option<&str> {
    let after = hint.split_once("write ")?.1;
    let after = after.strip_prefix("e.g. ").unwrap_or(after);
    match after.strip_prefix('`') {
        Some(text) => text.split('`').next(),
        None if after.starts_with('"') => after.get(..after[1..].find('"')? + 2),
        None => after.split([' ', ',', ';']).next(),
    }
}

/// The first word of each part of a hint in backticks.
fn snippets(hint: &str) -> impl Iterator<Item = &str> {
    let word = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    let parts = hint.split('`').skip(1).step_by(2);
    parts.filter_map(move |part| part.split(|c| !word(c)).find(|word| !word.is_empty()))
}

/// The file after following the hint.
fn followed(server: bool, text: &str, fix: Fix, world: &World) -> String {
    let (loaded, found) = findings(world);
    let label = &found[0].labels[0].span;
    let source = loaded.sources.file(label.file).unwrap().text();
    let body = |text: &str| text.strip_prefix("version: 1\n").unwrap().trim_end().to_owned();
    match fix {
        Paste => {
            let new = found[0].help.iter().find_map(|hint| pasted(hint));
            let new = new.unwrap_or_else(|| panic!("{server} {text}: nothing to paste in {:?}", found[0].help));
            body(&format!("{}{new}{}", &source[..label.start], &source[label.end..]))
        }
        Remove => {
            let start = source[..label.start].rfind('\n').map_or(0, |at| at + 1);
            let end = source[start..].find('\n').map_or(source.len(), |at| start + at + 1);
            body(&format!("{}{}", &source[..start], &source[end..]))
        }
        Write(text) => text.to_owned(),
    }
}

fn all() -> impl Iterator<Item = (bool, &'static Mistake)> {
    in_repo::ALL.iter().map(|mistake| (false, mistake)).chain(in_server::ALL.iter().map(|mistake| (true, mistake)))
}

#[test]
fn each_mistake_has_its_message_and_its_hint() {
    assert!(all().count() >= 60);
    let mut wrong = String::new();
    for (server, (text, message, hint, _)) in all() {
        let (_, found) = findings(&machine(server, text));
        let said = (found[0].message.as_str(), found[0].help.join(" / "));
        if said != (*message, (*hint).to_owned()) {
            wrong += &format!("@@{text:?}\n{:?}\n{:?}\n", said.0, said.1);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn following_a_hint_removes_the_finding() {
    let mut wrong = String::new();
    for (server, (text, _, hint, fix)) in all() {
        let world = machine(server, text);
        let (_, before) = findings(&world);
        let text = followed(server, text, *fix, &world);
        if let Write(written) = fix
            && hint.contains("write `")
            && !snippets(hint).any(|word| written.contains(word))
        {
            wrong += &format!("## the hint {hint:?} is not what is written: {written:?}\n");
        }
        let (_, after) = findings(&machine(server, &text));
        let left = after.iter().filter(|finding| {
            finding.severity == Severity::Error
                || (finding.code == before[0].code && finding.message == before[0].message)
        });
        for finding in left {
            wrong += &format!("## {text}\n{}\n{:?}\n", finding.message, finding.help);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
