//! Airut: `.airut/network-allowlist.yaml` and `.airut/sandbox.yaml`.

use super::draft::{Conditions, ImportNote, Item, quoted};
use super::host::below_only;
use super::{ImportFile, Reader, at, entries, get, is_true, items, scalar, text};
use crate::config::yaml::{Kind, Node, Tag};

const ALLOWLIST: [&str; 2] = ["domains", "url_prefixes"];
const SANDBOX: [&str; 8] = [
    "env",
    "pass_env",
    "masked_secrets",
    "signing_credentials",
    "github_app_credentials",
    "network_sandbox",
    "resource_limits",
    "container_path",
];

pub(super) fn read(reader: &mut Reader, file: &ImportFile) {
    let Some(root) = reader.tree(file) else { return };
    if ALLOWLIST.iter().any(|key| get(&root, key).is_some()) {
        reader.unknown(&root, "", &ALLOWLIST);
        allowlist(reader, &root);
    } else {
        reader.unknown(&root, "", &SANDBOX);
        sandbox(reader, &root);
    }
}

fn allowlist(reader: &mut Reader, root: &Node) {
    if let Some(domains) = get(root, "domains") {
        for (host, place) in reader.strings(domains, "domains") {
            match below_only(&host) {
                Ok(name) => {
                    reader.draft.allow(name, None, &host, &place);
                    let why = "every port was open there; name the others: `host:22`".to_owned();
                    noted(reader, ImportNote::Narrower, why);
                }
                Err((kind, why)) => reader.draft.note(kind, &place, &host, &why),
            }
        }
    }
    for node in get(root, "url_prefixes").map(items).unwrap_or_default() {
        prefix(reader, node);
    }
}

fn noted(reader: &mut Reader, note: ImportNote, why: String) {
    if let Some(item) = reader.draft.items.last_mut() {
        item.note = Some((note, why));
    }
}

fn prefix(reader: &mut Reader, node: &Node) {
    let place = reader.place(node.span);
    let Some(host) = get(node, "host").and_then(text) else {
        return reader.draft.note(ImportNote::Cannot, &place, "url_prefixes", "the entry has no host");
    };
    reader.unknown(node, "url_prefixes", &["host", "path", "methods", "graphql"]);
    let path = get(node, "path").and_then(text);
    let theirs = format!("{host}{}", path.unwrap_or(""));
    let name = match below_only(host) {
        Ok(name) => name,
        Err((kind, why)) => return reader.draft.note(kind, &place, &theirs, &why),
    };
    let methods: Vec<String> = get(node, "methods")
        .map(items)
        .unwrap_or_default()
        .iter()
        .filter_map(|method| text(method).map(str::to_ascii_uppercase))
        .collect();
    let mut wider = Vec::new();
    if methods.iter().any(|method| method == "GET") && !methods.iter().any(|method| method == "HEAD") {
        wider.push("GET includes HEAD here");
    }
    let mut paths = Vec::new();
    match path.map(glob) {
        None => {}
        Some(Some(path)) if path == "/**" => {}
        Some(Some(path)) => {
            paths.push(path);
            wider.push("paths do not include queries here");
        }
        Some(None) => {
            let why = "`?`, `[…]` and queries are no part of our paths; write one with `*` and `**` instead";
            return reader.draft.note(ImportNote::Cannot, &place, &theirs, why);
        }
    }
    let graphql = match get(node, "graphql").map(|node| fields(node, reader)) {
        None => None,
        Some(Some(text)) => Some(text),
        Some(None) => {
            let why = "only names and \"*\" can be listed in `graphql`, not patterns";
            return reader.draft.note(ImportNote::Cannot, &place, &theirs, why);
        }
    };
    let conditions = Conditions { methods, paths, graphql };
    if hidden(reader, &name, &conditions) {
        let why =
            "the first entry that matches decides there, and an earlier one restricts GraphQL; here both would add up";
        return reader.draft.note(ImportNote::Cannot, &place, &theirs, why);
    }
    let differs = (!wider.is_empty()).then(|| (ImportNote::Wider, wider.join("; ")));
    reader.draft.items.push(Item { host: name, port: None, web: false, conditions, place, theirs, note: differs });
}

/// Whether an earlier entry for the host checks GraphQL, and this one would not.
fn hidden(reader: &Reader, host: &str, conditions: &Conditions) -> bool {
    let posts = conditions.methods.is_empty() || conditions.methods.iter().any(|method| method == "POST");
    let earlier = reader.draft.items.iter().filter(|item| item.host == host && item.conditions.graphql.is_some());
    let overlaps = |item: &Item| {
        let literal = |path: &String| !path.contains('*');
        let both = (&item.conditions.paths, &conditions.paths);
        match both {
            (one, other) if one.is_empty() || other.is_empty() => true,
            (one, other) if one.iter().chain(other).all(literal) => one.iter().any(|path| other.contains(path)),
            _ => true,
        }
    };
    conditions.graphql.is_none() && posts && earlier.into_iter().any(overlaps)
}

/// Their `*` crosses `/`. `None` for what ours cannot say.
fn glob(path: &str) -> Option<String> {
    if path.contains(['?', '[', ']', '#']) || !path.starts_with(['/', '*']) {
        return None;
    }
    let mut out = String::new();
    for c in path.chars() {
        match c {
            '*' if out.ends_with("**") => {}
            '*' => out.push_str("**"),
            other => out.push(other),
        }
    }
    Some(if out.starts_with('/') { out } else { format!("/{out}") })
}

fn fields(node: &Node, reader: &mut Reader) -> Option<String> {
    let mut parts = Vec::new();
    reader.unknown(node, "graphql", &["queries", "mutations", "subscriptions"]);
    for kind in ["queries", "mutations", "subscriptions"] {
        let Some(list) = get(node, kind) else { continue };
        let names: Vec<&str> = items(list).iter().filter_map(text).collect();
        let plain = |name: &&str| *name == "*" || name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if names.len() != items(list).len() || !names.iter().all(plain) {
            return None;
        }
        let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
        parts.push(format!("{kind}: [{}]", names.join(", ")));
    }
    Some(format!("{{{}}}", parts.join(", ")))
}

fn sandbox(reader: &mut Reader, root: &Node) {
    for (key, value) in get(root, "env").map(entries).unwrap_or_default() {
        env(reader, &key.text, value, "env");
    }
    for (name, place) in get(root, "pass_env").map(|node| reader.strings(node, "pass_env")).unwrap_or_default() {
        reader.passed(&name, &name, "pass_env", &place);
    }
    for key in ["timeout", "memory", "cpus", "pids_limit"] {
        let Some(node) = at(root, &["resource_limits", key]) else { continue };
        let place = reader.place(node.span);
        match scalar(node) {
            Some(value) => {
                let value = if key == "memory" { value.to_ascii_lowercase() } else { value };
                let ours = if key == "memory" { quoted(&value) } else { value.clone() };
                reader.draft.set("resource_limits", &format!("{key}: {ours}"), &format!("{key}: {value}"), &place);
            }
            None => reader.draft.note(ImportNote::Cannot, &place, key, "it is not a number or a text"),
        }
    }
    for kind in ["masked_secrets", "signing_credentials", "github_app_credentials"] {
        for (key, value) in get(root, kind).map(entries).unwrap_or_default() {
            let place = reader.place(key.span);
            credential(reader, kind, &key.text, value, &place);
        }
    }
    if get(root, "network_sandbox").is_some_and(|node| !is_true(node)) {
        let place = get(root, "network_sandbox").map(|node| reader.place(node.span)).unwrap_or_default();
        let why = "only the owner of the machine can switch the network sandbox off";
        reader.draft.note(ImportNote::Server, &place, "network_sandbox: false", why);
    }
    if let Some(node) = get(root, "container_path") {
        let place = reader.place(node.span);
        let why = "copy its Dockerfile to .sandboxc/Containerfile and write `image: {containerfile: Containerfile}`";
        reader.draft.note(ImportNote::Ask, &place, "container_path", why);
    }
}

/// A variable. A value from the host becomes a reference to it, and is never copied.
fn env(reader: &mut Reader, name: &str, value: &Node, theirs: &str) {
    let place = reader.place(value.span);
    let theirs = format!("{theirs}.{name}");
    match (&value.kind, scalar(value)) {
        (Kind::Tagged(Tag::Env, variable), _) => {
            reader.passed(name, variable, &theirs, &place);
        }
        (Kind::Tagged(..), _) => {
            reader.draft.note(ImportNote::Cannot, &place, &theirs, "this tag is not looked up in a repo file");
        }
        // YAML 1.1's words arrive as Python prints them.
        (Kind::Bool(flag), _) => {
            let word = if *flag { "True" } else { "False" };
            reader.draft.set("env", &format!("{name}: \"{word}\""), &theirs, &place);
        }
        (_, Some(text)) => reader.draft.set("env", &format!("{name}: {}", quoted(&text)), &theirs, &place),
        _ => reader.draft.note(ImportNote::Cannot, &place, &theirs, "a variable must be a text"),
    }
}

/// A credential keeps its name, scopes and headers. Only a reference to a value is kept.
fn credential(reader: &mut Reader, kind: &'static str, name: &str, node: &Node, place: &str) {
    let theirs = format!("{kind}.{name}");
    if kind != "masked_secrets" {
        let why = "its keys are the same in the server file; write them there, with `!env` for each value";
        return reader.draft.note(ImportNote::Ask, place, &theirs, why);
    }
    let list = |key: &str| -> Vec<String> {
        get(node, key).map(items).unwrap_or_default().iter().filter_map(text).map(quoted).collect()
    };
    let value = if let Some(Kind::Tagged(Tag::Env, variable)) = get(node, "value").map(|value| &value.kind) {
        format!("!env {variable}")
    } else {
        let why = "its value stands in the file and is not copied; name a variable that holds it";
        reader.draft.note(ImportNote::Ask, place, &theirs, why);
        format!("!env {name}")
    };
    let line = format!(
        "{name}: {{value: {value}, scopes: [{}], headers: [{}]}}",
        list("scopes").join(", "),
        list("headers").join(", ")
    );
    reader.draft.server(kind, &line, &theirs, place, "credentials belong to the server file, for TLS only");
}
