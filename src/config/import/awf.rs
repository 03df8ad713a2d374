//! gh-aw-firewall: its config, a rule set, or a list of domains.

use super::draft::{Conditions, ImportNote, Item, quoted};
use super::host::apex_and_below;
use super::{ImportFile, Reader, at, get, is_true, items, scalar, text};
use crate::config::yaml::{Kind, Node};

const KNOWN: [&str; 6] = ["network", "container", "rules", "version", "$schema", "security"];

pub(super) fn read(reader: &mut Reader, file: &ImportFile) {
    let looks_like_list = |line: &str| {
        let word = line.split('#').next().unwrap_or("").trim();
        word.is_empty()
            || word.contains(',')
            || !(word.contains(": ") || word.ends_with(':') || word.starts_with(['{', '}', '-', '"', '[']))
    };
    if file.text.lines().all(looks_like_list) {
        return list(reader, file);
    }
    let Some(root) = reader.tree(file) else { return };
    reader.unknown(&root, "", &KNOWN);
    if let Some(network) = get(&root, "network") {
        self::network(reader, network);
    }
    for node in get(&root, "rules").map(items).unwrap_or_default() {
        rule(reader, node);
    }
    container(reader, &root);
    if let Some(node) = get(&root, "security") {
        let place = reader.place(node.span);
        reader.draft.note(ImportNote::Cannot, &place, "security", "these switches have no counterpart");
    }
}

/// Lines with one or several domains each.
fn list(reader: &mut Reader, file: &ImportFile) {
    for (line, number) in file.text.lines().zip(1_u32..) {
        let place = format!("{}:{number}", file.name);
        let words = line.split('#').next().unwrap_or("").split(',');
        for word in words.map(str::trim).filter(|word| !word.is_empty()) {
            allowed(reader, word, &place);
        }
    }
}

fn allowed(reader: &mut Reader, word: &str, place: &str) {
    match apex_and_below(word) {
        Ok((host, port)) => reader.draft.allow(host, port, word, place),
        Err((kind, why)) => reader.draft.note(kind, place, word, &why),
    }
}

fn network(reader: &mut Reader, node: &Node) {
    let known =
        ["allowDomains", "blockDomains", "allowUrls", "dnsServers", "upstreamProxy", "isolation", "topologyAttach"];
    reader.unknown(node, "network", &known);
    for (word, place) in get(node, "allowDomains").map(|list| reader.strings(list, "allowDomains")).unwrap_or_default()
    {
        allowed(reader, &word, &place);
    }
    for (word, place) in get(node, "blockDomains").map(|list| reader.strings(list, "blockDomains")).unwrap_or_default()
    {
        match apex_and_below(&word) {
            Ok((host, port)) => {
                let line = match port {
                    Some(port) => format!("- {{host: {}, ports: [{port}]}}", quoted(&host)),
                    None => format!("- {}", quoted(&host)),
                };
                let why = "a repo file cannot deny; until the server file does, an entry for more hosts permits this one, too";
                reader.draft.server("network.deny", &line, &word, &place, why);
                reader.draft.note(ImportNote::Wider, &place, &word, why);
            }
            Err((kind, why)) => reader.draft.note(kind, &place, &word, &why),
        }
    }
    for (word, place) in get(node, "allowUrls").map(|list| reader.strings(list, "allowUrls")).unwrap_or_default() {
        url(reader, &word, &place);
    }
    for key in ["dnsServers", "upstreamProxy", "isolation", "topologyAttach"] {
        let Some(value) = get(node, key).filter(|value| !value.is_empty()) else { continue };
        let place = reader.place(value.span);
        let (kind, why) = match key {
            "dnsServers" => (ImportNote::Server, "write `upstream_dns` in `network` of the server file"),
            _ => (ImportNote::Cannot, "there is no counterpart"),
        };
        reader.draft.note(kind, &place, key, why);
    }
}

/// `https://host/path/*`: the star crosses `/` and reaches into the query.
fn url(reader: &mut Reader, word: &str, place: &str) {
    let port = if word.starts_with("http://") { 80 } else { 443 };
    let rest = word.trim_start_matches("https://").trim_start_matches("http://");
    let Some((name, path)) = rest.split_once('/') else {
        return reader.draft.note(ImportNote::Cannot, place, word, "a URL needs a path");
    };
    let (host, _) = match apex_and_below(name) {
        Ok(found) => found,
        Err((kind, why)) => return reader.draft.note(kind, place, word, &why),
    };
    // A URL names one host there.
    let host = if name.starts_with("*.") { host } else { host.trim_start_matches('.').to_owned() };
    let path = format!("/{}", path.replace(".*", "*"));
    if path.contains(['?', '[', '(', '\\', '#', '|']) {
        return reader.draft.note(ImportNote::Cannot, place, word, "a path is matched by `*` and `**` alone");
    }
    let mut glob = String::new();
    for c in path.chars() {
        match c {
            '*' if glob.ends_with("**") => {}
            '*' => glob.push_str("**"),
            c => glob.push(c),
        }
    }
    let conditions = Conditions { paths: vec![glob], ..Conditions::default() };
    let note = Some((ImportNote::Wider, "paths do not include queries here".to_owned()));
    let (place, theirs) = (place.to_owned(), word.to_owned());
    reader.draft.items.push(Item { host, port: Some(port), web: false, conditions, place, theirs, note });
}

fn rule(reader: &mut Reader, node: &Node) {
    let place = reader.place(node.span);
    reader.unknown(node, "rules", &["domain", "subdomains"]);
    let Some(domain) = get(node, "domain").and_then(text) else {
        return reader.draft.note(ImportNote::Cannot, &place, "rules", "the rule has no domain");
    };
    let exact = get(node, "subdomains").is_some_and(|node| node.kind == Kind::Bool(false));
    match apex_and_below(domain) {
        Ok((host, port)) => {
            let host = if exact { host.trim_start_matches('.').to_owned() } else { host };
            reader.draft.allow(host, port, domain, &place);
        }
        Err((kind, why)) => reader.draft.note(kind, &place, domain, &why),
    }
}

fn container(reader: &mut Reader, root: &Node) {
    let Some(node) = get(root, "container") else { return };
    let known = ["memoryLimit", "pidsLimit", "agentTimeout", "mounts", "agentImage", "containerWorkDir", "enableDind"];
    reader.unknown(node, "container", &known);
    for key in known {
        let Some(value) = get(node, key) else { continue };
        let place = reader.place(value.span);
        let written = scalar(value);
        match (key, written) {
            ("memoryLimit", Some(limit)) => {
                let line = format!("memory: {}", quoted(&limit.to_ascii_lowercase()));
                reader.draft.set("resource_limits", &line, &format!("{key}: {limit}"), &place);
            }
            ("pidsLimit", Some(limit)) => {
                reader.draft.set(
                    "resource_limits",
                    &format!("pids_limit: {limit}"),
                    &format!("{key}: {limit}"),
                    &place,
                );
            }
            ("agentTimeout", Some(minutes)) => match minutes.parse::<u64>() {
                Ok(number) => {
                    let line = format!("timeout: {}", number.saturating_mul(60));
                    reader.draft.set("resource_limits", &line, &format!("{key}: {minutes}"), &place);
                }
                Err(_) => reader.draft.note(ImportNote::Cannot, &place, key, "it is not a number of minutes"),
            },
            ("containerWorkDir", Some(dir)) => {
                reader.draft.set("workspace", &format!("target: {}", quoted(&dir)), &format!("{key}: {dir}"), &place);
            }
            ("agentImage", Some(image)) => {
                let why = "an image must name its registry and a tag; write `image:`";
                reader.draft.note(ImportNote::Ask, &place, &format!("{key}: {image}"), why);
            }
            ("mounts", _) => {
                let why = "write them in `mounts`, and permit them with `allow_mounts` in the server file";
                reader.draft.note(ImportNote::Server, &place, key, why);
            }
            ("enableDind", _) if !is_true(value) => {}
            _ => reader.draft.note(ImportNote::Cannot, &place, key, "there is no counterpart"),
        }
    }
    if let Some(node) = at(root, &["container", "environment"]) {
        let place = reader.place(node.span);
        reader.draft.note(ImportNote::Ask, &place, "environment", "write `env`, and `pass_env` in the server file");
    }
}
