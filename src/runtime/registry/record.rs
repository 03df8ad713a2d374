//! What a runner writes about its session, for the commands that look at it from outside.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::policy::HostPattern;

/// The stage of a session's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Being set up.
    Starting,
    /// The command is running.
    Running,
    /// Being torn down.
    Ending,
}

impl Stage {
    /// The stage as a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Ending => "ending",
        }
    }
}

/// A runner's record of its session, for `ps`, `stop` and cleanup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The session id.
    pub session: String,
    /// The workspace on the host.
    pub workspace: PathBuf,
    /// The agent's image.
    pub image: String,
    /// The start, in seconds since the epoch.
    pub since: u64,
    /// The runner's process id.
    pub pid: i32,
    /// The stage.
    pub stage: Stage,
    /// The hashes of the plans that the runner tried, which are part of every name. The last one is in use.
    pub plans: Vec<String>,
    /// The way in, once the command may start.
    #[serde(default)]
    pub entrance: Option<Entrance>,
    /// What a change of the policy needs; `None` without a router.
    #[serde(default)]
    pub live: Option<Changeable>,
}

/// A policy that can change while the session runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changeable {
    /// podman's name of the volume with the router's file.
    pub volume: String,
    /// Hosts that the server file lets the repo open to private addresses.
    pub allow_private: Vec<HostPattern>,
}

/// What a command needs to run beside the session's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entrance {
    /// podman's id of the agent's container, which was compared with the plan.
    pub container: String,
    /// The command's working directory, if it is not the container's.
    #[serde(default)]
    pub working_dir: Option<PathBuf>,
    /// A file with the command's variables.
    pub env_file: Option<PathBuf>,
    /// Whether the container's shell loads plain secrets first.
    pub secrets: bool,
}
