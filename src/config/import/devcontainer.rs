//! `devcontainer.json`. It has no key for what may be reached; scripts beside it do that (`firewall`).

use std::path::Path;

use super::draft::{ImportNote, quoted};
use super::host::below_only;
use super::{ImportFile, Reader, entries, get, items, scalar, text};
use crate::config::value;
use crate::config::yaml::Node;

const KNOWN: [&str; 34] = [
    "$schema",
    "name",
    "image",
    "build",
    "dockerFile",
    "context",
    "dockerComposeFile",
    "service",
    "runServices",
    "features",
    "overrideFeatureInstallOrder",
    "containerEnv",
    "remoteEnv",
    "secrets",
    "remoteUser",
    "containerUser",
    "updateRemoteUserUID",
    "workspaceFolder",
    "workspaceMount",
    "mounts",
    "runArgs",
    "hostRequirements",
    "onCreateCommand",
    "updateContentCommand",
    "postCreateCommand",
    "postStartCommand",
    "postAttachCommand",
    "initializeCommand",
    "waitFor",
    "forwardPorts",
    "appPort",
    "portsAttributes",
    "customizations",
    "shutdownAction",
];

/// Keys with a fixed answer.
const ANSWERS: [(&str, ImportNote, &str); 16] = [
    (
        "dockerComposeFile",
        ImportNote::Cannot,
        "a sandbox has one container; other services need an address and `private: true`",
    ),
    (
        "overrideFeatureInstallOrder",
        ImportNote::Cannot,
        "features are not installed; put what they install into the Containerfile",
    ),
    ("privileged", ImportNote::Cannot, "it would end the sandbox"),
    ("capAdd", ImportNote::Cannot, "capabilities follow from `identity`"),
    ("securityOpt", ImportNote::Cannot, "the sandbox's confinement is not optional"),
    ("init", ImportNote::Cannot, "an init process runs anyway"),
    ("overrideCommand", ImportNote::Cannot, "the command is `command:`"),
    (
        "onCreateCommand",
        ImportNote::Ask,
        "it is not run; put what it installs into the image, and the hosts it needs into `allow`",
    ),
    (
        "updateContentCommand",
        ImportNote::Ask,
        "it is not run; put what it installs into the image, and the hosts it needs into `allow`",
    ),
    (
        "postCreateCommand",
        ImportNote::Ask,
        "it is not run; put what it installs into the image, and the hosts it needs into `allow`",
    ),
    ("postStartCommand", ImportNote::Ask, "it is not run; a firewall script can be imported by its name"),
    (
        "postAttachCommand",
        ImportNote::Ask,
        "it is not run; put what it installs into the image, and the hosts it needs into `allow`",
    ),
    ("initializeCommand", ImportNote::Cannot, "it would run on the host"),
    ("forwardPorts", ImportNote::Cannot, "nothing outside can connect to a sandbox"),
    ("appPort", ImportNote::Cannot, "nothing outside can connect to a sandbox"),
    ("hostRequirements", ImportNote::Cannot, "it is a minimum, and `resource_limits` are limits"),
];

pub(super) fn read(reader: &mut Reader, file: &ImportFile) {
    let Some(root) = reader.tree(file) else { return };
    let known: Vec<&str> = KNOWN.into_iter().chain(ANSWERS.map(|(key, ..)| key)).collect();
    reader.unknown(&root, "", &known);
    for (key, kind, why) in ANSWERS {
        if let Some(node) = get(&root, key) {
            let place = reader.place(node.span);
            reader.draft.note(kind, &place, key, why);
        }
    }
    image(reader, &root);
    features(reader, &root);
    for kind in ["containerEnv", "remoteEnv"] {
        for (key, value) in get(&root, kind).map(entries).unwrap_or_default() {
            variable(reader, kind, &key.text, value);
        }
    }
    for (key, _) in get(&root, "secrets").map(entries).unwrap_or_default() {
        let place = reader.place(key.span);
        let line = format!("{0}: {{value: !env {0}, scopes: [], headers: [authorization]}}", key.text);
        let why = "name the hosts and headers that it belongs to";
        reader.draft.note(
            ImportNote::Ask,
            &place,
            &key.text,
            &format!("{why}, in the server file: `masked_secrets: {{{line}}}`"),
        );
    }
    let user = get(&root, "remoteUser").or(get(&root, "containerUser"));
    if let Some(node) = user.filter(|node| text(node) == Some("root")) {
        let place = reader.place(node.span);
        reader.draft.set("identity", "= root", "remoteUser: root", &place);
    }
    if let Some((node, folder)) = get(&root, "workspaceFolder").and_then(|node| Some((node, text(node)?))) {
        let place = reader.place(node.span);
        match folder.contains("${") {
            true => reader.draft.note(ImportNote::Cannot, &place, folder, "the path contains a variable of the editor"),
            false => reader.draft.set("workspace", &format!("target: {}", quoted(folder)), folder, &place),
        }
    }
    mounts(reader, &root);
    run_args(reader, &root);
}

fn image(reader: &mut Reader, root: &Node) {
    if let Some((node, image)) = get(root, "image").and_then(|node| Some((node, text(node)?))) {
        let place = reader.place(node.span);
        if value::image_reference(image).is_ok() {
            reader.draft.set("image", &format!("= {}", quoted(image)), image, &place);
        } else {
            let why = "an image must name its registry and a tag; complete it";
            reader.draft.note(ImportNote::Ask, &place, image, why);
        }
    }
    let build = get(root, "build");
    for (key, node) in [
        ("dockerfile", build.and_then(|build| get(build, "dockerfile")).or(get(root, "dockerFile"))),
        ("context", build.and_then(|build| get(build, "context"))),
        ("args", build.and_then(|build| get(build, "args"))),
        ("target", build.and_then(|build| get(build, "target"))),
    ] {
        let Some(node) = node else { continue };
        let place = reader.place(node.span);
        let (kind, why) = match key {
            "dockerfile" => (
                ImportNote::Ask,
                "copy it to .sandboxc/Containerfile and write `image: {containerfile: Containerfile}`; its context is .sandboxc",
            ),
            _ => (ImportNote::Cannot, "`image build` has no arguments, targets or other contexts"),
        };
        reader.draft.note(kind, &place, &format!("build.{key}"), why);
    }
}

fn features(reader: &mut Reader, root: &Node) {
    for (key, value) in get(root, "features").map(entries).unwrap_or_default() {
        let place = reader.place(key.span);
        if key.text.contains("/firewall") {
            firewall(reader, value, &place);
            continue;
        }
        let why = "features are not installed, and what they add to a container is not either; put what it installs into the Containerfile";
        reader.draft.note(ImportNote::Cannot, &place, &key.text, why);
    }
}

/// A feature with a list of hosts.
fn firewall(reader: &mut Reader, node: &Node, place: &str) {
    for (key, value) in entries(node) {
        let at = reader.place(key.span);
        match (key.text.as_str(), text(value)) {
            ("hosts", Some(hosts)) => {
                for host in hosts.split(',').map(str::trim).filter(|host| !host.is_empty()) {
                    match below_only(host) {
                        Ok(name) => reader.draft.allow(name, None, host, &at),
                        Err((kind, why)) => reader.draft.note(kind, &at, host, &why),
                    }
                }
            }
            (option, _) => {
                let why = "it stands for a list of hosts that this file does not contain; see `sandboxc preset ls`";
                reader.draft.note(ImportNote::Ask, place, option, why);
            }
        }
    }
}

fn variable(reader: &mut Reader, kind: &str, name: &str, node: &Node) {
    let place = reader.place(node.span);
    let theirs = format!("{kind}.{name}");
    let Some(value) = scalar(node) else {
        return reader.draft.note(ImportNote::Cannot, &place, &theirs, "a variable must be a text");
    };
    let host = value.strip_prefix("${localEnv:").and_then(|rest| rest.strip_suffix('}'));
    match host {
        Some(variable) if variable.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') => {
            reader.passed(name, variable, &theirs, &place);
        }
        _ if value.contains("${") => {
            let why = "a text with a variable of the editor in it has no counterpart";
            reader.draft.note(ImportNote::Cannot, &place, &theirs, why);
        }
        _ => reader.draft.set("env", &format!("{name}: {}", quoted(&value)), &theirs, &place),
    }
}

fn mounts(reader: &mut Reader, root: &Node) {
    for node in get(root, "mounts").map(items).unwrap_or_default() {
        let place = reader.place(node.span);
        let option = |name: &str| match text(node) {
            Some(text) => {
                text.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('=').map(str::to_owned))
            }
            None => get(node, name).and_then(scalar),
        };
        let source = option("source").or_else(|| option("src")).unwrap_or_default();
        let theirs = format!("mounts: {source}");
        if option("type").as_deref() == Some("volume") {
            let why = "the home directory is kept; other volumes do not exist here";
            reader.draft.note(ImportNote::Cannot, &place, &theirs, why);
        } else if Path::new(&source).extension().is_some_and(|end| end == "sock") {
            reader.draft.note(ImportNote::Cannot, &place, &theirs, "a socket of the host would end the sandbox");
        } else {
            let why = "write it in `mounts`, and permit it with `allow_mounts` in the server file";
            reader.draft.note(ImportNote::Server, &place, &theirs, why);
        }
    }
}

fn run_args(reader: &mut Reader, root: &Node) {
    let Some(list) = get(root, "runArgs") else { return };
    let all = reader.strings(list, "runArgs");
    let mut words = all.into_iter().peekable();
    while let Some((word, place)) = words.next() {
        let (flag, value) = if let Some((flag, value)) = word.split_once('=') {
            (flag.to_owned(), value.to_owned())
        } else {
            let next = words.next_if(|(next, _)| !next.starts_with('-'));
            (word.clone(), next.map(|(next, _)| next).unwrap_or_default())
        };
        let theirs = format!("{flag} {value}").trim().to_owned();
        match flag.as_str() {
            "--memory" | "-m" => {
                let value = quoted(&value.to_ascii_lowercase());
                reader.draft.set("resource_limits", &format!("memory: {value}"), &theirs, &place);
            }
            "--cpus" => reader.draft.set("resource_limits", &format!("cpus: {value}"), &theirs, &place),
            "--pids-limit" => reader.draft.set("resource_limits", &format!("pids_limit: {value}"), &theirs, &place),
            "--cap-add" if value.starts_with("NET_") => {
                let why = "the router decides about the network; nothing inside needs this capability";
                reader.draft.note(ImportNote::Cannot, &place, &theirs, why);
            }
            _ => reader.draft.note(ImportNote::Cannot, &place, &theirs, "the sandbox decides this itself"),
        }
    }
}
