//! The compiled tree: every file that will run, for reading, diffing and committing.

use std::path::Path;

use crate::plan::pod::Dns;
use crate::plan::{Plan, hash_of};

use super::kube::{self, Stream};
use super::pin::{self, Sources};
use super::quadlet::ConversationUnits;
use super::{
    EmitError, File, PodmanVersion, accounts, defaults, git, header, nested, network, quadlet, review, router, script,
};

/// The name of the stream's file.
const KUBE: &str = "kube.yaml";

/// Everything that a plan compiles to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// The kube play stream.
    pub stream: Stream,
    /// The router's files, as mounted.
    pub router_files: Vec<File>,
    /// The agent pod's files, as mounted.
    pub agent_files: Vec<File>,
}

/// Compiles a plan for a podman version.
pub fn compile(plan: &Plan, podman: PodmanVersion) -> Result<Compiled, EmitError> {
    let (router_files, agent_files) = mounted(plan)?;
    let stream = stream(plan, podman, &Sources::Named, &router_files, &agent_files)?;
    Ok(Compiled { stream, router_files, agent_files })
}

/// The script of a plan.
pub fn script(plan: &Plan, podman: PodmanVersion) -> Result<File, EmitError> {
    let (router_files, agent_files) = mounted(plan)?;
    let sources = Sources::Held(pin::placeholder(plan));
    script::script(plan, &stream(plan, podman, &sources, &router_files, &agent_files)?.text())
}

fn stream(
    plan: &Plan,
    podman: PodmanVersion,
    sources: &Sources,
    router_files: &[File],
    agent_files: &[File],
) -> Result<Stream, EmitError> {
    kube::stream(plan, podman, sources, header::header(plan, podman, sources), router_files, agent_files)
}

/// The Quadlet tree of a plan: one directory with the session's name, sorted by path.
pub fn quadlet(plan: &Plan, podman: PodmanVersion) -> Result<Vec<File>, EmitError> {
    let (mut files, agent_files) = mounted(plan)?;
    files.extend(agent_files);
    files.extend([review::file(plan)?, File::new(pin::FILE, pin::SCRIPT), defaults::file(plan)]);
    quadlet::units(plan, podman, &files)
}

/// The files of the router and of the agent pod.
fn mounted(plan: &Plan) -> Result<(Vec<File>, Vec<File>), EmitError> {
    let (router_files, mut agent_files) = match &plan.network {
        Some(_) => (router::router_files(plan)?, router::forwarder_files(plan)?),
        None => (Vec::new(), Vec::new()),
    };
    let host_name = plan.agent.host_name;
    agent_files.push(File::new("agent/hosts", format!("127.0.0.1\tlocalhost {host_name}\n")));
    agent_files.push(File::new("agent/hostname", format!("{host_name}\n")));
    agent_files.extend(accounts::files(&plan.agent.main));
    agent_files.extend(nested::files(plan));
    agent_files.extend(git::file(plan));
    // Programs check whether it exists, not its content.
    agent_files.push(File::new("agent/containerenv", ""));
    if let Some(Dns { server, ndots }) = plan.agent.dns {
        agent_files.push(File::new("agent/resolv.conf", format!("nameserver {server}\noptions ndots:{ndots}\n")));
    }
    Ok((router_files, agent_files))
}

/// All files of the tree, sorted by path.
pub fn tree(plan: &Plan, podman: PodmanVersion, compiled: &Compiled) -> Result<Vec<File>, EmitError> {
    let mut files = vec![
        File::new(KUBE, compiled.stream.text()),
        script(plan, podman)?,
        network::networks_file(plan),
        review::file(plan)?,
        defaults::file(plan),
    ];
    files.extend(compiled.router_files.iter().chain(&compiled.agent_files).cloned());
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// Extensions of unit files.
const UNITS: [&str; 9] = ["build", "container", "image", "network", "pod", "service", "target", "timer", "volume"];

/// Whether sandboxc writes files with this path in a compiled tree.
pub fn is_of_a_tree(path: &Path) -> bool {
    let mut parts = path.iter().map(|part| part.to_str().unwrap_or_default());
    let is_unit = |name: &str| {
        let extension = name.strip_prefix("sandboxc-").and_then(|rest| rest.rsplit_once('.'));
        extension.is_some_and(|(_, extension)| UNITS.contains(&extension))
    };
    match (parts.next(), parts.next(), parts.next()) {
        (Some("image"), Some(name), None) => name.strip_suffix(".containerfile").is_some(),
        (Some(dir), Some(name), None) => matches!(
            (dir, name),
            ("router", "policy.json")
                | ("forwarder", "pod.json")
                | (
                    "agent",
                    "containerenv"
                        | "containers.conf"
                        | "git-credential"
                        | "group"
                        | "hostname"
                        | "hosts"
                        | "passwd"
                        | "resolv.conf"
                        | "storage.conf"
                        | "subid"
                        | "variables"
                )
        ),
        (Some(name), None, None) => {
            let all = [
                KUBE,
                "run.sh",
                "networks.sh",
                "image.containers.conf",
                "seccomp.json",
                review::FILE,
                defaults::CONF,
                pin::FILE,
            ];
            all.contains(&name) || is_unit(name)
        }
        _ => false,
    }
}

/// The units for a repo by URL, with the document for reviewers.
pub fn conversations(units: &ConversationUnits<'_>) -> Result<Vec<File>, EmitError> {
    let mut files = units.files()?;
    let texts: Vec<&str> = files.iter().map(|file| file.text.as_str()).collect();
    let review = review::remote_review(units.session, units.remote, units.command, hash_of(&texts));
    let text = serde_json::to_string_pretty(&review).map_err(|error| EmitError::Internal(error.to_string()))?;
    files.push(File::new(format!("{}/{}", units.session, review::FILE), text + "\n"));
    Ok(files)
}
