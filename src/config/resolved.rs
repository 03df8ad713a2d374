//! What leaves `config`: validated values, each with the place that gave it. No spans, no files, no environment.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use ipnet::Ipv4Net;
use serde::Serialize;

use super::secret::{SecretRefs, Secrets};
use crate::policy::Policy;
use crate::source::{Place, Sourced};

/// Who the agent is inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Identity {
    /// uid and gid 1000 inside, the invoking user outside (`keep-id:uid=1000,gid=1000`); no capabilities.
    HostUser,
    /// uid 0 inside, the invoking user outside; CHOWN, `DAC_OVERRIDE`, FOWNER, SETGID, SETUID.
    Root,
}

/// How the agent's process is labelled, and what of the workspace, where `SELinux` is enforcing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Selinux {
    /// Not confined by it (`spc_t`); no file of the host gets another label.
    #[default]
    Disable,
    /// This type, of a policy module such as the one in `packaging/selinux`; no file of the host gets another label.
    Type(String),
    /// The type that containers have. The workspace and the mounts get the label that containers share, for good.
    Relabel,
}

/// Where the agent's image comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ImageSource {
    /// A reference with a registry or `localhost/`.
    Reference(String),
    /// A Containerfile beside the repo config. `reference` is the local tag that its content hash gives,
    /// `localhost/sandboxc-repo:<hash>`; build it with `sandboxc image build`.
    Containerfile {
        /// Path of the file relative to the repo's `.sandboxc/`.
        file: String,
        /// The tag to run.
        reference: String,
        /// The file's text, which the tag is the hash of.
        #[serde(skip)]
        text: String,
    },
}

impl ImageSource {
    /// The reference to give to podman.
    pub fn reference(&self) -> &str {
        match self {
            Self::Reference(reference) | Self::Containerfile { reference, .. } => reference,
        }
    }

    /// True if a build may need files beside the Containerfile, which a compiled tree does not have. Rather too often:
    /// such an image is then made by `image build`.
    pub fn uses_context(&self) -> bool {
        match self {
            Self::Reference(_) => false,
            Self::Containerfile { text, .. } => uses_context(text),
        }
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

/// The one directory of the host that the agent sees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Workspace {
    /// Absolute, without links.
    pub source: PathBuf,
    /// Absolute path inside.
    pub target: PathBuf,
    /// True if the agent may not write.
    pub read_only: bool,
    /// Parts that the agent may not write, sorted, none inside another.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub protect: Vec<Protected>,
    /// Paths that git on the host would obey and that no mount can keep: what is not there, links. Relative, sorted.
    #[serde(skip)]
    pub watched: Vec<PathBuf>,
    /// Repositories that git on the host finds from the workspace on.
    #[serde(skip)]
    pub repositories: Vec<Repository>,
    /// Where the target was said.
    pub from: Place,
}

/// A part of the workspace that stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Protected {
    /// Path relative to the workspace, without links and `..`.
    pub path: PathBuf,
    /// What is put there first, since nothing is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stand_in: Option<Stand>,
    /// Where it was said.
    pub from: Place,
}

/// What is mounted over a place in the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlay {
    /// False for a directory around a protected part.
    pub read_only: bool,
    /// What is put there first, since nothing is.
    pub stand_in: Option<Stand>,
}

/// Something empty that takes a name, so that nobody else can.
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
    /// Its worktree, relative to the workspace; None if it has none there.
    pub worktree: Option<PathBuf>,
    /// True if its object ids are SHA-256.
    pub sha256: bool,
}

impl Workspace {
    /// A writable workspace of which nothing is known yet.
    pub fn new(source: PathBuf, target: PathBuf, from: Place) -> Self {
        let (protect, watched, repositories) = (Vec::new(), Vec::new(), Vec::new());
        Self { source, target, read_only: false, protect, watched, repositories, from }
    }

    /// What is mounted over a writable workspace, outermost first, by its path in it. The directories around a protected
    /// part are mounted on themselves, since a directory that is no mount can be renamed with everything that is
    /// mounted below it, and another put in its place.
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

/// A further directory or file of the host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Mount {
    /// Absolute path inside; the order of mounts.
    pub target: PathBuf,
    /// Absolute, without links.
    pub source: PathBuf,
    /// True if the agent may not write.
    pub read_only: bool,
    /// Where it was said.
    pub from: Place,
}

/// The effective limits: the smaller of what the repo asks and what the server permits. `None` is no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Seconds, at least 10.
    pub timeout: Option<Sourced<u64>>,
    /// Bytes.
    pub memory: Option<Sourced<u64>>,
    /// Thousandths of a CPU, at least 10.
    pub cpus: Option<Sourced<u64>>,
    /// Processes and threads, at least 1.
    pub pids: Option<Sourced<u64>>,
}

/// Everything the plan needs to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Resolved {
    /// The server's repo entry in force, if any.
    pub name: Option<String>,
    /// The agent's image.
    pub image: Sourced<ImageSource>,
    /// The router's (and gate's and forwarder's) image.
    pub router_image: Sourced<String>,
    /// The command as configured; may be empty.
    pub command: Vec<Sourced<String>>,
    /// Who the agent is.
    pub identity: Sourced<Identity>,
    /// The directory it sees.
    pub workspace: Workspace,
    /// Its environment.
    pub env: BTreeMap<String, Sourced<String>>,
    /// Further mounts, sorted by target.
    pub mounts: Vec<Mount>,
    /// Egress.
    pub policy: Policy,
    /// False is the break-glass: no router, no gate, full egress.
    pub sandbox_enabled: Sourced<bool>,
    /// Limits in force.
    pub limits: Limits,
    /// True if processes inside may make user namespaces; protected paths are then watched, not held.
    pub user_namespaces: Sourced<bool>,
    /// When it starts by itself, as an `OnCalendar=` expression; for the Quadlet target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Sourced<String>>,
    /// Named volume that is the agent's home. Sessions of one entry of `repos`, or of one workspace, share it.
    pub home_volume: Sourced<String>,
    /// How the agent stands to `SELinux`.
    pub selinux: Sourced<Selinux>,
    /// Resolvers that the router asks; empty means what the host uses.
    pub upstream_dns: Vec<Sourced<IpAddr>>,
    /// PEM text that the router trusts upstream besides the system roots.
    pub extra_ca: Option<Sourced<String>>,
    /// True if the network log keeps query strings.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub log_query: bool,
    /// Where the values of secrets are to be read, by `read_secrets`.
    #[serde(skip_serializing_if = "Secrets::is_empty")]
    pub secrets: SecretRefs,
    /// Variables of the environment that the repo file reads, and the overrides: whoever is to read the same config
    /// again needs the same ones. None of them is a secret.
    #[serde(skip)]
    pub environment: BTreeMap<String, String>,
    /// Block that the sessions' internal networks are cut from.
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
