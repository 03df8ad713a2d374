//! Turns files into validated values that know their origin.
//!
//! [`load`] reads the repo file, the server file, the allow file and a snapshot of the environment. It collects the
//! findings of all of them, and returns [`Resolved`] if none of them is an error. Steps: bytes → tree with positions
//! (`yaml`) → tags looked up (`lookup`, `vars`, `tags`) → typed values of one file (`repo`, `server`, `entry`, `limits`) → both
//! files merged (`resolve`, `mounts`, `network`, `lint`). Invariants: only `load` accesses the file system; a reader
//! reports an error and continues; nothing is converted by guessing. May depend on: `policy`, `diagnostic`, `source`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::diagnostic::Diagnostics;
use crate::source::{Located, SourceMap};

mod authorship;
mod building;
mod calendar;
mod chosen;
mod compiled;
mod containerfile;
mod credential;
pub mod disk;
mod edit;
mod entry;
mod expectation;
mod files;
mod first;
mod frozen;
pub mod git;
mod home;
mod ignore;
mod import;
mod learn;
mod limits;
mod lint;
mod literal;
mod live;
mod load;
mod lockfile;
mod lookup;
mod mounts;
mod nested;
mod network;
mod overrides;
mod preset;
mod private;
mod protect;
mod read;
mod recipe;
mod remote;
mod repo;
mod repo_files;
mod request;
mod resolve;
mod resolved;
pub mod schema;
mod sealed;
mod secret;
mod server;
mod suggest;
mod tags;
mod tamper;
mod target;
mod value;
mod vars;
mod vault;
pub mod yaml;

pub use calendar::refused_schedule;
pub use compiled::is_compiled;
pub use edit::add_to_allow;
pub use expectation::{Expectation, Expectations};
pub use frozen::{Frozen, FrozenError, FrozenFile};
pub use home::{SHARED_HOME, private_home};
pub use import::{ImportFile, ImportFormat, ImportNote, ImportRow, Imported, import};
pub use learn::NoLearning;
pub use live::{SessionBounds, session_rule};
pub use load::{DEFAULT_ALLOW_FILE, check_secret_files, entries, entry_path, load, read_secrets, read_token, remotes};
pub use lockfile::{Mentions, decided_by_tool, hosts_of_lock_file, hosts_of_tool, lock_files};
pub use overrides::OVERRIDES;
pub use preset::{Preset, PresetCredential, PresetEntry};
pub use recipe::{BuildNetwork, Recipe};
pub use remote::{CONVERSATION_MOUNTS, CONVERSATION_STATE, CONVERSATION_WORKSPACE, Remote, is_branch};
pub use resolve::{built_image, nested_image};
pub use resolved::*;
pub use secret::{AwsKeys, Secret, SecretRef, SecretRefs, SecretValues, Secrets};
pub use suggest::nearest;
pub use value::{duration, survives_podman};

/// The directory in a repo for its config.
pub const REPO_DIR: &str = ".sandboxc";

/// The repo file in [`REPO_DIR`].
pub const REPO_FILE: &str = "sandbox.yaml";

/// The server file in `sandboxc/` of `config_home`.
pub const SERVER_FILE: &str = "server.yaml";

/// Names in a repo that people give the repo file by mistake. Loading refuses a repo with one of them.
pub const MISNAMED: [&str; 6] = [
    ".sandboxc.yaml",
    ".sandboxc.yml",
    ".sandboxc/config.yaml",
    ".sandboxc/sandbox.yml",
    ".sandboxc/sandboxc.yaml",
    ".sandboxc/sandboxc.yml",
];

/// What the caller knows: paths, the command line, the environment.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// The workspace, canonical.
    pub repo_dir: PathBuf,
    /// `--server`. The default is `sandboxc/server.yaml` in `config_home`, which may be missing.
    pub server_file: Option<PathBuf>,
    /// `--name`.
    pub name: Option<String>,
    /// `$HOME`.
    pub home: Option<PathBuf>,
    /// `$XDG_CONFIG_HOME`, or `~/.config`.
    pub config_home: PathBuf,
    /// The environment.
    pub env: BTreeMap<String, String>,
    /// Where `.sandboxc/` is read from, if not from the workspace.
    pub frozen: Option<Frozen>,
    /// The directory of the conversation whose workspace `repo_dir` is.
    pub conversation: Option<PathBuf>,
    /// The text to read instead of the repo file, before it is written.
    pub repo_text: Option<String>,
    /// Whether to create the allow file from the packaged default if it is missing.
    pub write_defaults: bool,
}

/// The files that decide.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InForce {
    /// The repo file, if there is one.
    pub repo: Option<PathBuf>,
    /// The server file, if there is one.
    pub server: Option<PathBuf>,
    /// The allow file; `None` stands for the built-in list.
    pub allow_file: Option<PathBuf>,
    /// The variables that override the config.
    pub overrides: Vec<&'static str>,
}

/// All findings, and the result if none of them is an error.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The files that decide.
    pub in_force: InForce,
    /// The schedule in force.
    pub schedule: Option<Located<String>>,
    /// The files that the findings refer to.
    pub sources: SourceMap,
    /// The findings.
    pub diagnostics: Diagnostics,
    /// The result.
    pub resolved: Option<Resolved>,
}
