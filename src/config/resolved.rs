//! The output of `config`: validated values, each with its place. No spans, no files, no environment.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use ipnet::Ipv4Net;
use serde::Serialize;

use super::recipe::{BuildNetwork, Recipe};
use super::secret::{SecretRefs, Secrets};
use crate::policy::{HostPattern, Policy};
use crate::source::{Place, Sourced};

/// The agent's user inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Identity {
    /// uid and gid 1000 inside, the invoking user outside (`keep-id:uid=1000,gid=1000`); no capabilities.
    HostUser,
    /// uid 0 inside, the invoking user outside; CHOWN, `DAC_OVERRIDE`, FOWNER, SETGID, SETUID.
    Root,
}

/// How the agent and the workspace are labeled if `SELinux` is enforcing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Selinux {
    /// Not confined by `SELinux` (`spc_t`). Files of the host keep their labels.
    #[default]
    Disable,
    /// This type of a policy module, such as the one in `packaging/selinux`. Files of the host keep their labels.
    Type(String),
    /// podman's default type. The workspace and the mounts permanently get the label that containers share.
    Relabel,
}

/// Where the agent's image comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ImageSource {
    /// A reference with a registry or `localhost/`.
    Reference(String),
    /// A Containerfile beside the repo config. `reference` is the local tag that its content hash gives,
    /// `localhost/sandboxc-repo:<hash>`.
    Containerfile {
        /// The path of the file relative to the repo's `.sandboxc/`.
        file: String,
        /// The tag to run.
        reference: String,
        /// How it is built. The tag contains the hash of its files; nothing else of it is part of a plan.
        #[serde(skip)]
        recipe: Box<Recipe>,
    },
}

impl ImageSource {
    /// The reference for podman.
    pub fn reference(&self) -> &str {
        match self {
            Self::Reference(reference) | Self::Containerfile { reference, .. } => reference,
        }
    }

    /// Whether a build may need files next to the Containerfile, which a compiled tree does not contain. In doubt, this
    /// is true, and `image build` has to build the image.
    pub fn uses_context(&self) -> bool {
        match self {
            Self::Reference(_) => false,
            Self::Containerfile { recipe, .. } => uses_context(&recipe.text),
        }
    }
}

impl ImageSource {
    /// How the image of a Containerfile is built.
    pub fn recipe(&self) -> Option<&Recipe> {
        match self {
            Self::Reference(_) => None,
            Self::Containerfile { recipe, .. } => Some(recipe),
        }
    }

    /// Whether a unit can build the image from the Containerfile alone, over the host's network. Installing the unit is what
    /// permits a build on which nobody has decided.
    pub fn is_built_by_unit(&self) -> bool {
        let on_host = |recipe: &Recipe| recipe.network.as_ref().is_none_or(|n| n.value == BuildNetwork::Host);
        self.recipe().is_some_and(on_host) && !self.uses_context()
    }
}

fn uses_context(text: &str) -> bool {
    text.lines().any(|line| {
        let line = line.to_ascii_lowercase();
        let copies = line.split_whitespace().take(2).any(|word| word == "copy" || word == "add");
        let mounts = line.split_whitespace().filter_map(|word| word.strip_prefix("--mount="));
        let elsewhere = |mount: &str| {
            let mut parts = mount.split(',');
            parts.any(|part| part.starts_with("from=") || ["type=cache", "type=tmpfs", "type=secret"].contains(&part))
        };
        (copies && !line.contains("--from=")) || mounts.into_iter().any(|mount| !elsewhere(mount))
    })
}

/// What happens when a watched name changes while the command runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnTamper {
    /// The command is stopped.
    #[default]
    Stop,
    /// It is reported at the end.
    Report,
}

/// The workspace: the only directory of the host that the agent sees by default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Workspace {
    /// Absolute, without links.
    pub source: PathBuf,
    /// Absolute path inside.
    pub target: PathBuf,
    /// Whether the agent may only read.
    pub read_only: bool,
    /// Read-only parts, sorted, none inside another.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub protect: Vec<Protected>,
    /// Paths that git on the host would use and that no mount can protect: missing files, links. Relative, sorted.
    #[serde(skip)]
    pub watched: Vec<PathBuf>,
    /// Repositories that git on the host finds from the workspace on.
    #[serde(skip)]
    pub repositories: Vec<Repository>,
    /// What happens when the command changes what it must not.
    #[serde(skip)]
    pub on_tamper: OnTamper,
    /// Where in the workspace a command of `run` and `agent` starts, relative.
    #[serde(skip)]
    pub start: PathBuf,
    /// The target's place.
    pub from: Place,
}

/// A protected part of the workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Protected {
    /// The path relative to the workspace, without links and `..`.
    pub path: PathBuf,
    /// What is created first, if it is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stand_in: Option<Stand>,
    /// Its place.
    pub from: Place,
}

/// A mount over a path in the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlay {
    /// Whether it is a protected part, and not a directory around one.
    pub read_only: bool,
    /// What is created first, if it is missing.
    pub stand_in: Option<Stand>,
}

/// An empty file or directory that reserves a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stand {
    /// An empty directory.
    Directory,
    /// An empty file.
    File,
}

/// A git repository in the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    /// What git calls `$GIT_DIR`, relative to the workspace.
    pub git_dir: PathBuf,
    /// Its worktree, relative to the workspace; `None` if it has none there.
    pub worktree: Option<PathBuf>,
    /// Whether its object ids are SHA-256.
    pub sha256: bool,
}

impl Workspace {
    /// A writable workspace that has not been examined yet.
    pub fn new(source: PathBuf, target: PathBuf, from: Place) -> Self {
        let (protect, watched, repositories) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            source,
            target,
            read_only: false,
            protect,
            watched,
            repositories,
            start: PathBuf::new(),
            on_tamper: OnTamper::Stop,
            from,
        }
    }

    /// The mounts over a writable workspace, outermost first, by path. The directories around a protected part are
    /// mounted on themselves: a directory that is not a mount can be renamed together with the mounts below it, and
    /// replaced.
    pub fn overlays(&self) -> BTreeMap<&Path, Overlay> {
        let mut all = BTreeMap::new();
        for part in self.protect.iter().filter(|_| !self.read_only) {
            let around = part.path.ancestors().skip(1).filter(|path| !path.as_os_str().is_empty());
            all.extend(around.map(|path| (path, Overlay { read_only: false, stand_in: None })));
            all.insert(part.path.as_path(), Overlay { read_only: true, stand_in: part.stand_in });
        }
        all
    }
}

/// An additional directory or file of the host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ExtraMount {
    /// Absolute path inside, by which mounts are ordered.
    pub target: PathBuf,
    /// Absolute, without links.
    pub source: PathBuf,
    /// Whether the agent may only read.
    pub read_only: bool,
    /// Its place.
    pub from: Place,
}

/// The effective limits: the smaller of what the repo asks for and the server permits. `None` means unlimited.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ResourceLimits {
    /// Seconds, at least 10.
    pub timeout: Option<Sourced<u64>>,
    /// Bytes.
    pub memory: Option<Sourced<u64>>,
    /// Thousandths of a CPU, at least 10.
    pub cpus: Option<Sourced<u64>>,
    /// Processes and threads, at least 1.
    pub pids: Option<Sourced<u64>>,
    /// Bytes of `/dev/shm`; `None` is podman's default of 64 MB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shm: Option<Sourced<u64>>,
}

/// Containers inside the sandbox, by a podman inside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Nested {
    /// Whether they may have network namespaces of their own, with `/dev/net/tun`.
    pub networks: bool,
    /// Whether docker's tools reach podman inside through a socket.
    pub docker_socket: bool,
}

/// The input of the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Resolved {
    /// The server's repo entry in force, if any.
    pub name: Option<String>,
    /// The commit that the repo file comes from, as the user named it; `None` for the one in the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_from: Option<String>,
    /// The agent's image.
    pub image: Sourced<ImageSource>,
    /// The router's (and gate's and forwarder's) image. Where nobody has named one, whoever makes a plan puts in the one of the program
    /// that it has.
    pub router_image: Sourced<String>,
    /// The configured command; may be empty.
    pub command: Vec<Sourced<String>>,
    /// The agent's identity.
    pub identity: Sourced<Identity>,
    /// The workspace.
    pub workspace: Workspace,
    /// The environment.
    pub env: BTreeMap<String, Sourced<String>>,
    /// The tag of each variable that has one, as it is written.
    #[serde(skip)]
    pub env_from: BTreeMap<String, String>,
    /// The files that decide, with the SHA-256 of each. There is none for a file with literal secrets.
    #[serde(skip)]
    pub inputs: BTreeMap<String, Option<String>>,
    /// Additional mounts, sorted by target.
    pub mounts: Vec<ExtraMount>,
    /// Egress.
    pub policy: Policy,
    /// Hosts that the server file lets the repo open to private addresses.
    #[serde(skip)]
    pub allow_private: Vec<HostPattern>,
    /// Whether `learn` may run.
    #[serde(skip)]
    pub allow_learning: bool,
    /// Set if every public name is allowed, to learn what a command needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learning: Option<Place>,
    /// False switches the network sandbox off: no router, no gate, full egress.
    pub sandbox_enabled: Sourced<bool>,
    /// The effective limits.
    pub limits: ResourceLimits,
    /// Whether processes inside may create user namespaces. Protected paths are then watched instead of mounted over.
    pub user_namespaces: Sourced<bool>,
    /// Set if there may be containers inside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nested: Option<Sourced<Nested>>,
    /// The schedule, as an `OnCalendar=` expression; for the Quadlet target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Sourced<String>>,
    /// The volume for the agent's home. Sessions of one entry of `repos`, or of one workspace, share it.
    pub home_volume: Sourced<String>,
    /// Whether each session has a home of its own instead, which ends with it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fresh_home: bool,
    /// The agent's `SELinux` setting.
    pub selinux: Sourced<Selinux>,
    /// The resolvers that the router queries; empty means the host's.
    pub upstream_dns: Vec<Sourced<IpAddr>>,
    /// PEM text that the router trusts upstream besides the system's roots.
    pub extra_ca: Option<Sourced<String>>,
    /// Whether the network log keeps query strings.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub log_query: bool,
    /// Where `read_secrets` reads the values of secrets.
    #[serde(skip_serializing_if = "Secrets::is_empty")]
    pub secrets: SecretRefs,
    /// The variables that the repo file reads, and the overrides. Reading the same config again needs the same ones.
    /// None of them is a secret.
    #[serde(skip)]
    pub environment: BTreeMap<String, String>,
    /// The block that sessions' internal networks are taken from.
    pub pool: Sourced<Ipv4Net>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_files_beside_it_is_told_from_what_does_not() {
        for text in [
            "FROM a\nCOPY x /x",
            "FROM a\n  add --chown=1:1 x /x\n",
            "ONBUILD COPY x /",
            "RUN --mount=type=bind,target=/x true",
            "RUN --mount=target=/x true",
            "COPY \\\n  --from=a /x /x",
        ] {
            assert!(uses_context(text), "{text}");
        }
        for text in [
            "FROM a\nRUN apt-get install -y copy-tool add\n",
            "FROM a AS b\nFROM c\nCOPY --from=b /x /x\n",
            "RUN --mount=type=cache,target=/var/cache true",
            "RUN --mount=type=bind,from=b,target=/x true",
            "# COPYRIGHT\nRUN echo copied\n",
        ] {
            assert!(!uses_context(text), "{text}");
        }
    }
}
