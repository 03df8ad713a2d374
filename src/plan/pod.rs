//! What runs: pods and their containers, with everything that each of them may do.
//!
//! Every target writes these values field by field, without `..`, so that none of them can miss a new field. `emit`
//! decides how to express them for a target or a version of podman; this module decides what a container may do.

mod held;
mod make;
mod mounts;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Names;
use crate::config::{ImageSource, ResourceLimits, Stand};
use crate::source::{Place, Sourced};

pub use make::EXECUTE;
pub(super) use make::{capabilities_of, pods};

/// Where our files are mounted in router, gate and forwarder.
pub const FILES_AT: &str = "/etc/sandboxc";

/// Where the handover is in router and forwarder; the program knows it.
pub const HANDOVER_AT: &str = "/run/handover";

/// What podman inside keeps for this session alone. It is in the container's own file system, which ends with the session.
pub const NESTED_AT: &str = "/var/tmp/sandboxc-nested";

/// Where podman inside serves docker's API.
pub const DOCKER_SOCKET: &str = "/var/tmp/sandboxc-nested/docker.sock";

/// A shell line that serves docker's API until the container ends.
pub const SERVE_DOCKER: &str = "mkdir -p /var/tmp/sandboxc-nested && \
     exec podman system service --time=0 unix:///var/tmp/sandboxc-nested/docker.sock >/dev/null 2>&1 </dev/null";

/// What the forwarder of a held agent prints once its gate has passed.
pub const GATE_PASSED: &str = "gate: passed";

/// A network namespace and the containers in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// The name in podman.
    pub name: String,
    /// The name of its infra container.
    pub infra: String,
    /// The host name inside.
    pub host_name: &'static str,
    /// The networks, in order.
    pub networks: Vec<Attachment>,
    /// The resolver; `None` means the host's.
    pub dns: Option<Dns>,
    /// The user namespace, as podman-run(1) writes it. The pod always has its own.
    pub userns: &'static str,
    /// Kernel parameters of the network namespace.
    pub sysctls: &'static [(&'static str, &'static str)],
    /// The containers that start before `main`, in order.
    pub helpers: Vec<Container>,
    /// The pod's main container.
    pub main: Container,
}

/// A network of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Which network.
    pub network: NetworkKind,
    /// The pod's fixed address in it; `None` if any will do.
    pub address: Option<Ipv4Addr>,
}

impl Attachment {
    /// The value of podman's `--network`.
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
    /// The routers' network, which leads out.
    Egress,
}

/// A pod's resolver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dns {
    /// Its address.
    pub server: Ipv4Addr,
    /// How many dots make a name absolute (resolv.conf(5)).
    pub ndots: u8,
}

/// A container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// Its role.
    pub role: Role,
    /// The image.
    pub image: Sourced<ImageSource>,
    /// Whether podman may pull the image.
    pub pull: Pull,
    /// The whole command, which replaces the image's entrypoint and command.
    pub argv: Vec<String>,
    /// The working directory; `None` means the image's.
    pub working_dir: Option<PathBuf>,
    /// uid and gid inside.
    pub user: u32,
    /// Capabilities, named as in capabilities(7) without `CAP_`; all others are dropped.
    pub caps: Vec<&'static str>,
    /// Whether the root file system is read-only, with a tmpfs on `/tmp`, `/run` and `/var/tmp`.
    pub read_only_root: bool,
    /// Whether podman's init is PID 1.
    pub init: bool,
    /// The `SELinux` label.
    pub label: Label,
    /// The seccomp profile.
    pub seccomp: Seccomp,
    /// Which parts of `/proc` are accessible.
    pub proc: Proc,
    /// The environment besides what the image sets.
    pub env: BTreeMap<String, Sourced<EnvValue>>,
    /// Mounts, in order; a later one may be inside an earlier one.
    pub mounts: Vec<Mount>,
    /// Devices of the host.
    pub devices: Vec<Device>,
    /// Configured limits. If a host cannot enforce them, the container does not start.
    pub limits: ResourceLimits,
    /// What systemd limits a container of ours to, as far as this host's controllers permit.
    pub ceiling: Option<Ceiling>,
    /// Seconds between SIGTERM and SIGKILL.
    pub stop_timeout: u32,
    /// A command that, run inside, succeeds once the container is ready; `None` if it is ready when its process runs.
    pub ready: Option<Vec<String>>,
}

/// Resource limits that are not configurable. On a host that delegates no controllers, containers with podman's own
/// limits would not start. So these are systemd's, which enforces those that it can; `doctor` reports the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Ceiling {
    /// Memory in bytes, without swap.
    pub memory: u64,
    /// CPUs.
    pub cpus: u32,
    /// Processes and threads.
    pub pids: u32,
}

/// The role of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Decides about every connection.
    Router,
    /// Checks the network of the agent's pod, and ends. Nothing else in the pod starts unless it succeeds.
    Gate,
    /// Passes connections from loopback addresses of the agent's pod to the router.
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

/// Whether podman may pull an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pull {
    /// Never; it must exist.
    Never,
    /// If it is missing.
    Missing,
}

/// The `SELinux` label of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Label {
    /// podman's default.
    Confined,
    /// None: files of the host keep their labels, and nothing in a checkout is relabeled.
    Disabled,
    /// A type of a policy module.
    Type(String),
}

/// A seccomp profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seccomp {
    /// podman's own.
    Default,
    /// A profile on the host, by absolute path.
    Profile(PathBuf),
}

/// Which parts of `/proc` are accessible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proc {
    /// podman's default masks; `/proc/sys` is read-only.
    Masked,
    /// `/proc/sys` is writable, as far as capabilities permit.
    Sysctls,
    /// Everything.
    Unmasked,
}

/// A variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvValue {
    /// A literal value.
    Text(String),
    /// A surrogate, created at the start, which gives no access by itself.
    Surrogate,
    /// The value of a secret, read at the start.
    Secret,
}

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// A short name, one for each source of the pod: `workspace`, `protect-0`.
    pub name: String,
    /// The source.
    pub source: Source,
    /// Absolute path inside.
    pub target: PathBuf,
    /// Whether it is read-only.
    pub read_only: bool,
    /// Whether it gets an `SELinux` label that containers share. Only for our own files.
    pub relabel: bool,
    /// Further restrictions.
    pub options: Vec<MountOption>,
    /// Where it was given.
    pub from: Place,
}

/// The source of a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Emitted files.
    Files {
        /// Which set.
        set: FileSet,
        /// One file of the set, by its name; `None` for the whole set as a directory.
        file: Option<&'static str>,
    },
    /// An absolute path of the host.
    Host(PathBuf),
    /// An absolute path of the host that did not exist when the plan was made. Something empty is created there first.
    StandIn {
        /// Absolute.
        path: PathBuf,
        /// What to create.
        stand: Stand,
    },
    /// A named volume of podman.
    Volume(String),
    /// A private tmpfs of this many bytes.
    Memory(u64),
    /// sandboxc's own program, alone in the image with this reference.
    Program(String),
    /// Where the forwarder hands its sockets to the router: a directory in memory that nobody else mounts, or a volume.
    Handover(Handover),
    /// Materials.
    Material {
        /// Which set.
        set: MaterialSet,
        /// One file of the set, by its name; `None` for the whole set as a directory.
        file: Option<&'static str>,
    },
}

impl Source {
    /// The path of the host, if podman looks one up.
    pub fn host(&self) -> Option<&Path> {
        match self {
            Self::Host(path) | Self::StandIn { path, stand: _ } => Some(path),
            Self::Files { .. }
            | Self::Volume(_)
            | Self::Memory(_)
            | Self::Program(_)
            | Self::Handover(_)
            | Self::Material { .. } => None,
        }
    }
}

/// Who makes the place of a handover. Units always have a directory that systemd makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handover {
    /// The runner, in its session's directory.
    Directory(PathBuf),
    /// podman, as a volume of this name.
    Volume(String),
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
    /// Its absolute path, on the host and inside.
    pub path: PathBuf,
    /// Where it was given.
    pub from: Place,
}

impl Container {
    /// The mounts of the host, with the paths that podman looks up.
    pub fn host_mounts(&self) -> impl Iterator<Item = (&Path, &Mount)> {
        self.mounts.iter().filter_map(|mount| mount.source.host().map(|path| (path, mount)))
    }

    /// Whether the container itself could change the name of a source, if the source were not mounted on itself.
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

    /// Seconds between SIGTERM and SIGKILL: those of its slowest container.
    pub fn stop_timeout(&self) -> u32 {
        self.containers().map(|container| container.stop_timeout).max().unwrap_or_default()
    }
}
