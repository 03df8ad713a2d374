//! What the config gives the agent: the input of its container, and part of the hash in every name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::Serialize;

use crate::config::{ExtraMount, Identity, ImageSource, Resolved, ResourceLimits, Workspace};
use crate::pem;
use crate::source::{Place, Sourced};

use super::git;
use super::pod::DOCKER_SOCKET;
use super::trust;

/// Where podman inside finds its `storage.conf`, for which it has no directory of additional files.
pub(super) const NESTED_STORAGE: &str = "/etc/sandboxc-nested/storage.conf";

/// What the agent container runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// The command, for manifests that others apply.
    Run(Vec<String>),
    /// Only podman's init, pausing. The runner executes the command in the container with the caller's streams (kube
    /// play ignores `stdin`). Needs no tool in the image.
    Hold,
}

/// The agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Agent {
    /// The image.
    pub image: Sourced<ImageSource>,
    /// What it runs.
    pub command: Command,
    /// The identity.
    pub identity: Sourced<Identity>,
    /// The workspace.
    pub workspace: Workspace,
    /// Further mounts.
    pub mounts: Vec<ExtraMount>,
    /// The environment besides what the image sets.
    pub env: BTreeMap<String, Sourced<String>>,
    /// The names of the variables that are plain secrets.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub secrets: BTreeSet<String>,
    /// The home volume.
    pub home: Home,
    /// The limits.
    pub limits: ResourceLimits,
    /// OpenSSL's hashes of the subjects in `extra_ca`, by which containers inside find them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nested_roots: Vec<String>,
}

/// A named volume that outlives sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Home {
    /// The name of the volume.
    pub volume: Sourced<String>,
    /// Whether it is a volume of the session, with a name of its own.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fresh: bool,
    /// Where it is mounted, which is also `$HOME`.
    pub target: PathBuf,
}

pub(super) fn agent(resolved: &Resolved, command: &Command, own_roots: bool) -> Agent {
    let home = match resolved.identity.value {
        Identity::HostUser => "/home/agent",
        Identity::Root => "/root",
    };
    let mut env = resolved.env.clone();
    let mut default = |name: &str, value: &str, from: Place| {
        env.entry(name.to_owned()).or_insert_with(|| Sourced::new(value.to_owned(), from));
    };
    default("HOME", home, Place::built_in());
    if resolved.identity.value == Identity::Root {
        default("IS_SANDBOX", "1", resolved.identity.from.clone());
    }
    if let Some(nested) = &resolved.nested {
        default("CONTAINERS_STORAGE_CONF", NESTED_STORAGE, nested.from.clone());
        if nested.value.docker_socket {
            default("DOCKER_HOST", &format!("unix://{DOCKER_SOCKET}"), nested.from.clone());
        }
    }
    if own_roots {
        for (name, value) in trust::variables(resolved.identity.value) {
            default(name, &value, Place::built_in());
        }
    }
    if resolved.sandbox_enabled.value {
        let helper = git::variables(&resolved.policy, &env);
        env.extend(helper.into_iter().map(|(name, value)| (name, Sourced::built_in(value))));
    }
    Agent {
        image: resolved.image.clone(),
        command: command.clone(),
        identity: resolved.identity.clone(),
        workspace: resolved.workspace.clone(),
        mounts: resolved.mounts.clone(),
        env,
        secrets: resolved.secrets.plain.keys().cloned().collect(),
        home: Home { volume: resolved.home_volume.clone(), fresh: resolved.fresh_home, target: PathBuf::from(home) },
        limits: resolved.limits.clone(),
        nested_roots: match (&resolved.nested, &resolved.extra_ca) {
            (Some(_), Some(added)) => pem::subject_hashes(&added.value),
            _ => Vec::new(),
        },
    }
}
