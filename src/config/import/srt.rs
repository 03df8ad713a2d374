//! Anthropic's sandbox-runtime and the settings of Claude Code, which has the same objects under `sandbox`.

use super::draft::{ImportNote, quoted};
use super::host::with_port;
use super::{ImportFile, Reader, at, entries, get, is_true, items, scalar, text};
use crate::config::yaml::Node;

/// Keys of Claude Code that say nothing about a sandbox.
const OTHER: [&str; 4] = ["sandbox", "permissions", "env", "$schema"];

pub(super) fn read(reader: &mut Reader, file: &ImportFile) {
    let Some(root) = reader.tree(file) else { return };
    let settings = get(&root, "sandbox").or(get(&root, "permissions")).or(get(&root, "env")).is_some();
    let sandbox = if settings { get(&root, "sandbox") } else { Some(&root) };
    if settings {
        reader.unknown(&root, "", &OTHER);
        for (key, value) in get(&root, "env").map(entries).unwrap_or_default() {
            variable(reader, &key.text, value);
        }
        permissions(reader, &root);
    }
    let Some(sandbox) = sandbox else { return };
    let known = [
        "enabled",
        "network",
        "filesystem",
        "credentials",
        "excludedCommands",
        "allowUnsandboxedCommands",
        "failIfUnavailable",
        "autoAllowBashIfSandboxed",
        "ignoreViolations",
        "$schema",
    ];
    reader.unknown(sandbox, "sandbox", &known);
    if let Some(network) = get(sandbox, "network") {
        self::network(reader, network);
    }
    if let Some(filesystem) = get(sandbox, "filesystem") {
        self::filesystem(reader, filesystem);
    }
    credentials(reader, sandbox);
    for key in ["excludedCommands", "allowUnsandboxedCommands"] {
        if let Some(node) = get(sandbox, key).filter(|node| !node.is_empty()) {
            let place = reader.place(node.span);
            reader.draft.note(ImportNote::Narrower, &place, key, "every command is inside here, these too");
        }
    }
}

fn network(reader: &mut Reader, node: &Node) {
    let known = ["allowedDomains", "deniedDomains", "strictAllowlist"];
    let cannot = [
        ("allowUnixSockets", "sockets of the host are not reachable from a sandbox"),
        ("allowAllUnixSockets", "sockets of the host are not reachable from a sandbox"),
        ("allowLocalBinding", "the sandbox has a loopback of its own, where every port can be used"),
        ("allowMachLookup", "there is no such service here"),
        ("httpProxyPort", "what that proxy permits is not in this file, so the list may be incomplete"),
        ("socksProxyPort", "what that proxy permits is not in this file, so the list may be incomplete"),
        ("mitmProxy", "what that proxy permits is not in this file, so the list may be incomplete"),
        ("parentProxy", "there is no proxy behind the router"),
        (
            "tlsTerminate",
            "not needed: a host with rules or credentials is decrypted; extra roots are the server's `extra_ca`",
        ),
        ("deniedDomainReasons", "reasons have no place in an entry"),
        ("allowManagedDomainsOnly", "only the owner's lists count there; the owner has `ceiling` here"),
    ];
    for (key, why) in cannot {
        if let Some(value) = get(node, key).filter(|value| !value.is_empty()) {
            let place = reader.place(value.span);
            reader.draft.note(ImportNote::Cannot, &place, key, why);
        }
    }
    if let Some(value) = get(node, "allowAllDomains").filter(|value| is_true(value)) {
        let place = reader.place(value.span);
        reader.draft.note(ImportNote::Cannot, &place, "allowAllDomains", "name the hosts; nothing opens all of them");
    }
    let all: Vec<&str> = known.into_iter().chain(cannot.map(|(key, _)| key)).chain(["allowAllDomains"]).collect();
    reader.unknown(node, "network", &all);
    for (host, place) in
        get(node, "allowedDomains").map(|list| reader.strings(list, "allowedDomains")).unwrap_or_default()
    {
        allowed(reader, &host, &place);
    }
    for (host, place) in
        get(node, "deniedDomains").map(|list| reader.strings(list, "deniedDomains")).unwrap_or_default()
    {
        denied(reader, &host, &place);
    }
}

fn allowed(reader: &mut Reader, host: &str, place: &str) {
    match with_port(host) {
        Ok((name, port)) => {
            reader.draft.allow(name, port, host, place);
            if let Some(item) = reader.draft.items.last_mut().filter(|_| port.is_none()) {
                let why = "every port was open there; name the others: `host:22`".to_owned();
                item.note = Some((ImportNote::Narrower, why));
            }
        }
        Err((note, why)) => reader.draft.note(note, place, host, &why),
    }
}

/// Denials belong to the owner. Without them, an entry for more hosts would be wider, which its reader is told.
fn denied(reader: &mut Reader, host: &str, place: &str) {
    let everything = host.strip_prefix('*').filter(|rest| rest.is_empty() || rest.starts_with(':'));
    let line = match (everything, with_port(host)) {
        (Some(""), _) => "- \"*\"".to_owned(),
        (Some(port), _) => format!("- {{host: \"*\", ports: [{}]}}", port.trim_start_matches(':')),
        (None, Ok((name, None))) => format!("- {}", quoted(&name)),
        (None, Ok((name, Some(port)))) => format!("- {{host: {}, ports: [{port}]}}", quoted(&name)),
        (None, Err((_, why))) => return reader.draft.note(ImportNote::Cannot, place, host, &why),
    };
    let why = "a repo file cannot deny; until the server file does, an entry for more hosts permits this one, too";
    reader.draft.server("network.deny", &line, host, place, why);
    reader.draft.note(ImportNote::Wider, place, host, why);
}

fn filesystem(reader: &mut Reader, node: &Node) {
    reader.unknown(node, "filesystem", &["allowWrite", "denyWrite", "denyRead", "allowRead"]);
    for (path, place) in get(node, "allowWrite").map(|list| reader.strings(list, "allowWrite")).unwrap_or_default() {
        match path.trim_end_matches('/') {
            "" | "." => {}
            path if path.starts_with(['/', '~']) && !path.contains('*') => {
                let line = format!("- {{source: {0}, target: {0}, read_only: false}}", quoted(path));
                if path.starts_with('~') {
                    reader.draft.note(
                        ImportNote::Ask,
                        &place,
                        path,
                        "write the absolute path in `mounts`, and permit it with `allow_mounts`",
                    );
                    continue;
                }
                reader.draft.note(
                    ImportNote::Server,
                    &place,
                    path,
                    &format!("write `mounts: [{}]`; the server file must permit it", line.trim_start_matches("- ")),
                );
                reader.draft.server(
                    "allow_mounts",
                    &format!("- {}", quoted(path)),
                    path,
                    &place,
                    "mounts outside of the workspace",
                );
            }
            path => reader.draft.note(
                ImportNote::Cannot,
                &place,
                path,
                "the whole workspace is writable; protect parts with `workspace.protect`",
            ),
        }
    }
    for (path, place) in get(node, "denyWrite").map(|list| reader.strings(list, "denyWrite")).unwrap_or_default() {
        let why = "if it exists in the workspace, list it in `workspace.protect`; outside, nothing is visible";
        reader.draft.note(ImportNote::Ask, &place, &path, why);
    }
    for (path, place) in get(node, "denyRead").map(|list| reader.strings(list, "denyRead")).unwrap_or_default() {
        let why = "outside of the workspace nothing is visible; inside, everything is";
        reader.draft.note(ImportNote::Wider, &place, &path, why);
    }
}

fn credentials(reader: &mut Reader, sandbox: &Node) {
    for node in at(sandbox, &["credentials", "envVars"]).map(items).unwrap_or_default() {
        let place = reader.place(node.span);
        let Some(name) = get(node, "name").and_then(text) else { continue };
        if get(node, "mode").and_then(text) != Some("mask") {
            continue;
        }
        let hosts: Vec<String> =
            get(node, "injectHosts").map(items).unwrap_or_default().iter().filter_map(text).map(quoted).collect();
        let line = format!("{name}: {{value: !env {name}, scopes: [{}], headers: [authorization]}}", hosts.join(", "));
        let why = "theirs works in any header: name the ones that the client uses";
        reader.draft.server("masked_secrets", &line, name, &place, why);
    }
    for key in ["files", "awsPairs"] {
        if let Some(node) = at(sandbox, &["credentials", key]) {
            let place = reader.place(node.span);
            let why = "write `masked_secrets` or `signing_credentials` in the server file";
            reader.draft.note(ImportNote::Ask, &place, &format!("credentials.{key}"), why);
        }
    }
}

fn permissions(reader: &mut Reader, root: &Node) {
    for kind in ["allow", "deny", "ask"] {
        let Some(list) = at(root, &["permissions", kind]) else { continue };
        for (rule, place) in reader.strings(list, kind) {
            let Some(rest) = rule.strip_prefix("WebFetch") else { continue };
            let host = rest.strip_prefix("(domain:").and_then(|rest| rest.strip_suffix(')')).map(str::trim);
            match (kind, host) {
                ("allow", Some(host)) if !host.is_empty() && host != "*" => allowed(reader, host, &place),
                ("deny", Some(host)) if !host.is_empty() => denied(reader, host, &place),
                ("allow", _) => {
                    reader.draft.note(ImportNote::Cannot, &place, &rule, "name the hosts; nothing opens all of them");
                }
                _ => reader.draft.note(
                    ImportNote::Ask,
                    &place,
                    &rule,
                    "nothing asks while a command runs; add the host or leave it out",
                ),
            }
        }
    }
}

/// A value in the file may be a secret, which the plan would show.
fn variable(reader: &mut Reader, name: &str, value: &Node) {
    let place = reader.place(value.span);
    let secret =
        ["KEY", "TOKEN", "SECRET", "PASSWORD", "AUTH"].iter().any(|word| name.to_ascii_uppercase().contains(word));
    match scalar(value) {
        _ if secret => {
            let why = "it may be a secret and is not copied; write `masked_secrets` in the server file";
            reader.draft.note(ImportNote::Ask, &place, &format!("env.{name}"), why);
        }
        Some(text) => reader.draft.set("env", &format!("{name}: {}", quoted(&text)), &format!("env.{name}"), &place),
        None => reader.draft.note(ImportNote::Cannot, &place, &format!("env.{name}"), "a variable must be a text"),
    }
}
