//! What runs: pods and their containers, with everything that each of them may do.
//!
//! Every target writes these values field by field, without `..`, so that a new field cannot be lost in one of them. What
//! a target or a version of podman needs said differently is decided in `emit`; what a container may do is decided here.

mod held;
mod make;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Names;
use crate::config::{ImageSource, Limits, Stand};
use crate::source::{Place, Sourced};

pub(super) use make::{capabilities_of, pods};

/// Where our files are mounted in router, gate and forwarder.
pub const FILES_AT: &str = "/etc/sandboxc";

/// What the forwarder of a held agent prints once its gate has passed.
pub const GATE_PASSED: &str = "gate: passed";

/// A network namespace and the containers in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Name in podman.
    pub name: String,
    /// Name of its infra container.
    pub infra: String,
    /// Host name inside.
    pub host_name: &'static str,
    /// Its networks, in order.
    pub networks: Vec<Attachment>,
    /// Its resolver; `None` is the host's.
    pub dns: Option<Dns>,
    /// User namespace, as podman-run(1) writes it; always one of the pod's own.
    pub userns: &'static str,
    /// Kernel parameters of its network namespace.
    pub sysctls: &'static [(&'static str, &'static str)],
    /// What starts before `main`, in order.
    pub helpers: Vec<Container>,
    /// What the pod is for.
    pub main: Container,
}

/// A network of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Which.
    pub network: NetworkKind,
    /// The pod's fixed address there; `None` if any will do.
    pub address: Option<Ipv4Addr>,
}

impl Attachment {
    /// Value of podman's `--network`.
    pub fn argument(&self, names: &Names) -> String {
        let name = match self.network {
            NetworkKind::Internal => &names.internal_network,
            NetworkKind::Egress => &names.egress_network,
        };
        self.address.map_or_else(|| name.clone(), |address| format!("{name}:ip={address}"))
    }
}

/// The two networks of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkKind {
    /// The session's own, without a route out.
    Internal,
    /// The routers', which leads out.
    Egress,
}

/// A pod's resolver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dns {
    /// Its address.
    pub server: Ipv4Addr,
    /// Dots that a name needs to be asked for as it is (resolv.conf(5)).
    pub ndots: u8,
}

/// One container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// What it is for.
    pub role: Role,
    /// Its image.
    pub image: Sourced<ImageSource>,
    /// Whether podman may fetch the image.
    pub pull: Pull,
    /// The whole command; the image's entrypoint and command do not count.
    pub argv: Vec<String>,
    /// Directory that it starts in; `None` is the image's.
    pub working_dir: Option<PathBuf>,
    /// uid and gid inside.
    pub user: u32,
    /// Capabilities, as capabilities(7) names them without `CAP_`; all others are dropped.
    pub caps: Vec<&'static str>,
    /// Read-only root file system, with a tmpfs on `/tmp`, `/run` and `/var/tmp`.
    pub read_only_root: bool,
    /// podman's init is PID 1.
    pub init: bool,
    /// `SELinux` label.
    pub label: Label,
    /// Filter of system calls.
    pub seccomp: Seccomp,
    /// What of `/proc` is reachable.
    pub proc: Proc,
    /// Environment besides what the image sets.
    pub env: BTreeMap<String, Sourced<EnvValue>>,
    /// Mounts, in order; a later one may lie inside an earlier one.
    pub mounts: Vec<Mount>,
    /// Devices of the host.
    pub devices: Vec<Device>,
    /// Limits that somebody asked for: a host that cannot keep them does not start it.
    pub limits: Limits,
    /// What systemd holds a container of ours to, as far as this host's controllers reach.
    pub ceiling: Option<Ceiling>,
    /// Seconds between SIGTERM and SIGKILL.
    pub stop_timeout: u32,
    /// Command that succeeds, run inside, once the container does its work; `None` if its process is enough.
    pub ready: Option<Vec<String>>,
}

/// Resources of a container that nobody configures. A host that delegates no controllers would start nothing with limits of
/// podman's own, so these are systemd's, which keeps those that it can; `doctor` says where it cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Ceiling {
    /// Bytes, and no swap beside them.
    pub memory: u64,
    /// CPUs.
    pub cpus: u32,
    /// Processes and threads.
    pub pids: u32,
}

/// What a container is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Decides about every connection.
    Router,
    /// Checks the network of the agent's pod, and ends; nothing else of the pod starts unless it ends well.
    Gate,
    /// Brings connections from loopback addresses of the agent's pod to the router.
    Forwarder,
    /// Runs the command.
    Agent,
}

impl Role {
    /// The word in names and labels.
    pub fn word(self) -> &'static str {
        match self {
            Self::Router => "router",
            Self::Gate => "gate",
            Self::Forwarder => "forwarder",
            Self::Agent => "agent",
        }
    }
}

/// Whether podman may fetch an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pull {
    /// It must be here.
    Never,
    /// Where it is missing.
    Missing,
}

/// `SELinux` label of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Label {
    /// podman's usual one.
    Confined,
    /// None: files of the host keep their labels, and nothing of a checkout is relabelled.
    Disabled,
    /// A type of a policy module.
    Type(String),
}

/// Filter of system calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seccomp {
    /// podman's own.
    Default,
    /// A profile on the host, an absolute path.
    Profile(PathBuf),
}

/// What of `/proc` is reachable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proc {
    /// podman's usual masks; `/proc/sys` is read-only.
    Masked,
    /// `/proc/sys` can be written, as far as capabilities reach.
    Sysctls,
    /// All of it.
    Unmasked,
}

/// A variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvValue {
    /// As it is.
    Text(String),
    /// A surrogate, made at the start; it opens nothing elsewhere.
    Surrogate,
    /// A secret's value, read at the start.
    Secret,
}

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// A short name, one for each source of the pod: `workspace`, `protect-0`.
    pub name: String,
    /// What is mounted.
    pub source: Source,
    /// Absolute path inside.
    pub target: PathBuf,
    /// Nothing can be written there.
    pub read_only: bool,
    /// Gets an `SELinux` label that containers share. Only for what is ours.
    pub relabel: bool,
    /// Further restrictions.
    pub options: Vec<MountOption>,
    /// Where it was given.
    pub from: Place,
}

/// What is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Emitted files.
    Files {
        /// Which.
        set: FileSet,
        /// One file of the set, by its name; `None` is the set as a directory.
        file: Option<&'static str>,
    },
    /// A path of the host, absolute.
    Host(PathBuf),
    /// The same, where nothing was when the plan was made: something empty is put there first.
    StandIn {
        /// Absolute.
        path: PathBuf,
        /// What.
        stand: Stand,
    },
    /// A named volume of podman.
    Volume(String),
    /// A tmpfs of the container's own, of so many bytes.
    Memory(u64),
    /// What no file of the plan may hold.
    Material {
        /// Which.
        set: MaterialSet,
        /// One file of the set, by its name; `None` is the set as a directory.
        file: Option<&'static str>,
    },
}

impl Source {
    /// A path of the host that podman looks up again.
    pub fn host(&self) -> Option<&Path> {
        match self {
            Self::Host(path) | Self::StandIn { path, stand: _ } => Some(path),
            Self::Files { .. } | Self::Volume(_) | Self::Memory(_) | Self::Material { .. } => None,
        }
    }
}

/// Emitted files that are mounted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSet {
    /// The router's.
    Router,
    /// The gate's and the forwarder's.
    Forwarder,
    /// The agent's.
    Agent,
}

impl FileSet {
    /// Their directory in the compiled tree.
    pub fn dir(self) -> &'static str {
        match self {
            Self::Router => "router",
            Self::Forwarder => "forwarder",
            Self::Agent => "agent",
        }
    }
}

/// Materials that are mounted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaterialSet {
    /// The router's keys and credentials.
    Router,
    /// The agent's certificates, which are public.
    Agent,
    /// The agent's plain secrets.
    Secrets,
}

/// A restriction of a mount (mount(8)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountOption {
    /// Set-user-ID bits and file capabilities have no effect.
    NoSuid,
    /// Device files cannot be opened.
    NoDev,
    /// Nothing can be executed.
    NoExec,
}

impl MountOption {
    /// The word that mount(8) and podman use.
    pub fn word(self) -> &'static str {
        match self {
            Self::NoSuid => "nosuid",
            Self::NoDev => "nodev",
            Self::NoExec => "noexec",
        }
    }
}

/// A device of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its absolute path on the host and inside.
    pub path: PathBuf,
    /// Where it was given.
    pub from: Place,
}

impl Container {
    /// What of the host it is given, by paths that podman looks up again.
    pub fn host_mounts(&self) -> impl Iterator<Item = (&Path, &Mount)> {
        self.mounts.iter().filter_map(|mount| mount.source.host().map(|path| (path, mount)))
    }

    /// True if the name of a source is one that the container itself can change, were it not mounted on itself.
    pub fn writes_name_of(&self, source: &Path) -> bool {
        self.host_mounts().any(|(around, mount)| !mount.read_only && source != around && source.starts_with(around))
    }
}

impl Pod {
    /// All containers, in the order in which they start.
    pub fn containers(&self) -> impl Iterator<Item = &Container> {
        self.helpers.iter().chain([&self.main])
    }

    /// podman's name of one of its containers.
    pub fn container_name(&self, role: Role) -> String {
        Names::container(&self.name, role.word())
    }

    /// Seconds between SIGTERM and SIGKILL: as long as the slowest of its containers may take.
    pub fn stop_timeout(&self) -> u32 {
        self.containers().map(|container| container.stop_timeout).max().unwrap_or_default()
    }
}
