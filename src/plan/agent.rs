//! What the config gives the agent: what its container is made of, and part of the hash in every name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::Serialize;

use crate::config::{Identity, ImageSource, Limits, Mount, Resolved, Workspace};
use crate::source::{Place, Sourced};

use super::trust;

/// What the agent container runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// This command is the container's own: for manifests that others apply.
    Run(Vec<String>),
    /// Nothing: PID 1 is podman's init, pausing, and the runner executes the command in it with the caller's streams
    /// (kube play ignores `stdin`). Needs no tool in the image.
    Hold,
}

/// The agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Agent {
    /// Its image.
    pub image: Sourced<ImageSource>,
    /// What it runs.
    pub command: Command,
    /// Who it is.
    pub identity: Sourced<Identity>,
    /// The directory of the host that it sees.
    pub workspace: Workspace,
    /// Further mounts.
    pub mounts: Vec<Mount>,
    /// Its whole environment besides what the image sets.
    pub env: BTreeMap<String, Sourced<String>>,
    /// Names of the variables that are plain secrets.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub secrets: BTreeSet<String>,
    /// Its home.
    pub home: Home,
    /// Its limits.
    pub limits: Limits,
}

/// The named volume that outlives sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Home {
    /// Name of the volume.
    pub volume: Sourced<String>,
    /// Where it is mounted, and `$HOME`.
    pub target: PathBuf,
}

pub(super) fn agent(resolved: &Resolved, command: &Command, inspects: bool) -> Agent {
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
    if inspects {
        for (name, value) in trust::variables(resolved.identity.value) {
            default(name, &value, Place::built_in());
        }
    }
    Agent {
        image: resolved.image.clone(),
        command: command.clone(),
        identity: resolved.identity.clone(),
        workspace: resolved.workspace.clone(),
        mounts: resolved.mounts.clone(),
        env,
        secrets: resolved.secrets.plain.keys().cloned().collect(),
        home: Home { volume: resolved.home_volume.clone(), target: PathBuf::from(home) },
        limits: resolved.limits.clone(),
    }
}
