//! `plan.json`, the document for reviewers: one page per container, with every grant and the line that gave it.
//!
//! `install` reads it from a compiled tree, so that it does not need to parse units.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{EmitError, File};
use crate::config::{ImageSource, ResourceLimits, Stand};
use crate::plan::pod::{
    Attachment, Ceiling, Container, Device, Dns, EnvValue, Handover, Label, MaterialSet, Mount, NetworkKind, Pod, Proc,
    Pull, Role, Seccomp, Source,
};
use crate::plan::{Grant, GrantKind, Part, Plan};
use crate::policy::Effective;
use crate::source::{Place, Sourced};
use crate::visible::is_hidden;

mod drift;
mod remote;

pub use drift::{drift, without_place};
pub use remote::remote_review;

/// The name of the file.
pub const FILE: &str = "plan.json";

/// The document.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Review {
    /// [`FORMAT_VERSION`](crate::plan::FORMAT_VERSION).
    pub format_version: u32,
    /// The session id.
    pub session: String,
    /// The hash of the plan, part of every name.
    pub hash: String,
    /// What must be read or created at each start, since no file may contain it.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub materials: BTreeSet<Part>,
    /// The schedule, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// The version of sandboxc that wrote it.
    #[serde(default)]
    pub sandboxc: String,
    /// The files that decide, and the SHA-256 of each; null for a file with literal secrets.
    #[serde(default)]
    pub inputs: BTreeMap<String, Option<String>>,
    /// For units, a hash of each key of the config.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub keys: BTreeMap<String, String>,
    /// What else a reviewer wants to know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<String>,
    /// What the policy permits for each host, and which rule decides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub egress: Vec<Effective>,
    /// The pods.
    pub pods: Vec<PodReview>,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodReview {
    /// The name in podman.
    pub name: String,
    /// The host name inside.
    pub host_name: String,
    /// The networks, with the pod's address in each.
    pub networks: Vec<String>,
    /// The resolver.
    pub dns: String,
    /// The user namespace.
    pub userns: String,
    /// Kernel parameters.
    pub sysctls: Vec<String>,
    /// The containers, in the order in which they start.
    pub containers: Vec<ContainerReview>,
}

/// A container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerReview {
    /// The container's role.
    pub container: Role,
    /// The image's reference.
    pub image: String,
    /// Where the image was configured.
    pub image_from: String,
    /// How the image is built, if it comes from the repo's Containerfile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<BuildKind>,
    /// Whether podman may pull the image.
    pub pull: String,
    /// The command.
    pub command: Vec<String>,
    /// The working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    /// uid and gid.
    pub user: u32,
    /// Capabilities; all others are dropped.
    pub capabilities: Vec<String>,
    /// Whether the root file system is read-only.
    pub read_only_root: bool,
    /// Whether podman's init is PID 1.
    pub init: bool,
    /// What confines it: `SELinux` label, seccomp profile, masks of `/proc`.
    pub confinement: Vec<String>,
    /// Limits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<String>,
    /// Seconds between SIGTERM and SIGKILL.
    pub stop_timeout: u32,
    /// Mounts.
    pub mounts: Vec<String>,
    /// Devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    /// Variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Everything else that was granted.
    pub grants: Vec<String>,
}

/// How an image from the repo is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BuildKind {
    /// From the Containerfile alone, which a unit can do.
    Alone,
    /// With files next to the Containerfile, which only `sandboxc image build` can do.
    WithContext,
}

/// The file of a plan.
pub fn file(plan: &Plan) -> Result<File, EmitError> {
    let text = serde_json::to_string_pretty(&review(plan)).map_err(|error| EmitError::Internal(error.to_string()))?;
    Ok(File::new(FILE, visible(&text) + "\n"))
}

/// JSON with hidden characters as escapes, which parse to the same text. All of them are in the basic plane, and only
/// line feeds occur outside of strings.
fn visible(json: &str) -> String {
    json.chars().fold(String::with_capacity(json.len()), |mut out, c| {
        if c != '\n' && is_hidden(c) {
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            out.push(c);
        }
        out
    })
}

impl Review {
    /// The keys of the config that are different in another document; `None` if one of them does not list them.
    pub fn changed_keys(&self, other: &BTreeMap<String, String>) -> Option<Vec<String>> {
        if self.keys.is_empty() || other.is_empty() {
            return None;
        }
        let all: BTreeSet<&String> = self.keys.keys().chain(other.keys()).collect();
        Some(all.into_iter().filter(|key| self.keys.get(*key) != other.get(*key)).cloned().collect())
    }
}

/// The document of a plan.
pub fn review(plan: &Plan) -> Review {
    let Plan {
        format_version,
        session,
        names,
        network: _,
        router: _,
        agent: _,
        policy: _,
        materials,
        secret_variables: _,
        schedule,
        grants: _,
        egress,
        facts,
        inputs,
        keys,
        user_namespaces: _,
        nested: _,
        nested_roots: _,
    } = plan;
    Review {
        format_version: *format_version,
        session: session.clone(),
        hash: names.hash.clone(),
        materials: materials.iter().flat_map(|materials| materials.parts.iter().copied()).collect(),
        schedule: schedule.as_ref().map(|schedule| with_place(&schedule.value, &schedule.from)),
        sandboxc: env!("CARGO_PKG_VERSION").to_owned(),
        inputs: inputs.clone(),
        keys: keys.clone(),
        facts: facts.iter().map(|fact| with_place(&format!("{}: {}", fact.about, fact.what), &fact.from)).collect(),
        egress: egress.clone(),
        pods: plan.pods().map(|pod| self::pod(plan, pod)).collect(),
    }
}

fn pod(plan: &Plan, pod: &Pod) -> PodReview {
    let Pod { name, infra: _, host_name, networks, dns, userns, sysctls, helpers: _, main: _ } = pod;
    let network = |&Attachment { network, address }: &Attachment| {
        let name = match network {
            NetworkKind::Internal => &plan.names.internal_network,
            NetworkKind::Egress => &plan.names.egress_network,
        };
        address.map_or_else(|| name.clone(), |address| format!("{name} as {address}"))
    };
    PodReview {
        name: name.clone(),
        host_name: (*host_name).to_owned(),
        networks: networks.iter().map(network).collect(),
        dns: match dns {
            Some(Dns { server, ndots }) => format!("{server}, ndots {ndots}"),
            None => "the host's".to_owned(),
        },
        userns: (*userns).to_owned(),
        sysctls: sysctls.iter().map(|(name, value)| format!("{name}={value}")).collect(),
        containers: pod.containers().map(|container| self::container(plan, container)).collect(),
    }
}

fn container(plan: &Plan, container: &Container) -> ContainerReview {
    let Container {
        role,
        image,
        pull,
        argv,
        working_dir,
        user,
        caps,
        read_only_root,
        init,
        label,
        seccomp,
        proc,
        env,
        mounts,
        devices,
        limits,
        ceiling,
        stop_timeout,
        ready: _,
    } = container;
    let build = match &image.value {
        ImageSource::Reference(_) => None,
        image @ ImageSource::Containerfile { .. } => {
            Some(if image.is_built_by_unit() { BuildKind::Alone } else { BuildKind::WithContext })
        }
    };
    let pull = match pull {
        Pull::Never => "never",
        Pull::Missing => "if missing",
    };
    ContainerReview {
        container: *role,
        image: image.value.reference().to_owned(),
        image_from: image.from.short(),
        build,
        pull: pull.to_owned(),
        command: argv.clone(),
        working_dir: working_dir.as_ref().map(|dir| dir.display().to_string()),
        user: *user,
        capabilities: caps.iter().map(|&capability| capability.to_owned()).collect(),
        read_only_root: *read_only_root,
        init: *init,
        confinement: confinement(label, seccomp, *proc),
        limits: self::limits(limits).into_iter().chain(ceiling.map(self::ceiling)).collect(),
        stop_timeout: *stop_timeout,
        mounts: mounts.iter().map(mount).collect(),
        devices: devices.iter().map(|Device { path, from }| with_place(&path.display().to_string(), from)).collect(),
        env: variables(env),
        grants: plan.grants.iter().filter(|grant| is_of(plan, grant, *role)).map(grant_line).collect(),
    }
}

/// Whether the grant belongs to the container and has no line of its own.
fn is_of(plan: &Plan, grant: &Grant, role: Role) -> bool {
    let decides = if plan.router.is_some() { Role::Router } else { Role::Agent };
    match grant.kind {
        GrantKind::Credential | GrantKind::Decrypted | GrantKind::Egress => role == decides,
        GrantKind::Identity => role == Role::Agent,
        GrantKind::Env
        | GrantKind::Home
        | GrantKind::Image
        | GrantKind::Limit
        | GrantKind::Mount
        | GrantKind::Secret => false,
    }
}

fn grant_line(grant: &Grant) -> String {
    let Grant { kind, what, from } = grant;
    with_place(&format!("{kind}: {what}"), from)
}

fn with_place(what: &str, from: &Place) -> String {
    format!("{what}  ({})", from.short())
}

fn confinement(label: &Label, seccomp: &Seccomp, proc: Proc) -> Vec<String> {
    let label = match label {
        Label::Confined => "label: podman's default".to_owned(),
        Label::Disabled => "label: none".to_owned(),
        Label::Type(label) => format!("label: type {label}"),
    };
    let seccomp = match seccomp {
        Seccomp::Default => "seccomp: podman's default".to_owned(),
        Seccomp::Profile(path) => format!("seccomp: {}", path.display()),
    };
    let proc = match proc {
        Proc::Masked => "/proc: masked",
        Proc::Sysctls => "/proc: /proc/sys writable",
        Proc::Unmasked => "/proc: unmasked",
    };
    vec!["no new privileges".to_owned(), label, seccomp, proc.to_owned()]
}

fn limits(limits: &ResourceLimits) -> Vec<String> {
    let ResourceLimits { timeout, memory, cpus, pids, shm } = limits;
    let all = [
        ("timeout", timeout, " s"),
        ("memory", memory, " bytes, no swap"),
        ("cpus", cpus, "/1000"),
        ("pids", pids, ""),
        ("shm_size", shm, " bytes"),
    ];
    let line = |(name, limit, unit): (&str, &Option<Sourced<u64>>, &str)| {
        limit.as_ref().map(|limit| with_place(&format!("{name} {}{unit}", limit.value), &limit.from))
    };
    all.into_iter().filter_map(line).collect()
}

fn ceiling(ceiling: Ceiling) -> String {
    let Ceiling { memory, cpus, pids } = ceiling;
    format!("memory {memory} bytes, no swap; cpus {cpus}; pids {pids}; as far as this host delegates them")
}

fn mount(mount: &Mount) -> String {
    let Mount { name: _, source, target, read_only, relabel, options, from } = mount;
    let source = match source {
        Source::Files { set, file: Some(file) } => format!("{}/{file} of these files", set.dir()),
        Source::Files { set, file: None } => format!("{}/ of these files", set.dir()),
        Source::Host(path) | Source::StandIn { path, stand: _ } => path.display().to_string(),
        Source::Volume(volume) => format!("volume {volume}"),
        Source::Program(image) => format!("the program in {image}"),
        Source::Handover(Handover::Directory(dir)) => dir.display().to_string(),
        Source::Handover(Handover::Volume(_)) => "a place where router and forwarder meet".to_owned(),
        Source::Memory(bytes) => format!("{bytes} bytes of memory"),
        Source::Material { set, file } => {
            let set = match set {
                MaterialSet::Router => "keys and credentials",
                MaterialSet::Agent => "certificates",
                MaterialSet::Secrets => "secrets",
            };
            file.map_or_else(|| set.to_owned(), |file| format!("{file} of the {set}"))
        }
    };
    let mode = if *read_only { "read-only" } else { "read-write" };
    let mut words = vec![mode];
    words.extend(options.iter().map(|option| option.word()));
    words.extend(relabel.then_some("relabeled"));
    words.extend(match mount.source {
        Source::StandIn { stand: Stand::Directory, .. } => Some("an empty directory, created if missing"),
        Source::StandIn { stand: Stand::File, .. } => Some("an empty file, created if missing"),
        _ => None,
    });
    with_place(&format!("{source} at {}, {}", target.display(), words.join(", ")), from)
}

fn variables(env: &BTreeMap<String, Sourced<EnvValue>>) -> Vec<String> {
    let line = |(name, value): (&String, &Sourced<EnvValue>)| {
        let text = match &value.value {
            EnvValue::Text(text) => format!("{name}={text}"),
            EnvValue::Surrogate => format!("{name}: a surrogate"),
            EnvValue::Secret => format!("{name}: the value of a secret"),
        };
        with_place(&text, &value.from)
    };
    env.iter().map(line).collect()
}
