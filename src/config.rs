//! Files to validated values that know where they were said.
//!
//! [`load`] reads the repo file, the server file, the allow file and a snapshot of the environment, collects every
//! finding of all of them, and yields [`Resolved`] if none of them is an error. Steps: bytes → located tree (`yaml`) →
//! tags looked up (`tags`, `vars`) → typed values of one file (`repo`, `server`, `entry`, `limits`) → both files as one
//! (`resolve`, `mounts`, `network`, `lint`). Invariants: only `load` touches the file system; a reader reports and goes
//! on; nothing is converted by guessing. May depend on: `policy`, `diagnostic`, `source`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::diagnostic::Diagnostics;
use crate::source::SourceMap;

mod compiled;
mod containerfile;
mod credential;
pub mod disk;
mod entry;
mod first;
pub mod git;
mod home;
mod limits;
mod lint;
mod load;
mod mounts;
mod network;
mod overrides;
mod private;
mod protect;
mod read;
mod repo;
mod request;
mod resolve;
mod resolved;
pub mod schema;
mod sealed;
mod secret;
mod server;
mod suggest;
mod tags;
mod value;
mod vars;
mod vault;
pub mod yaml;

pub use home::{SHARED_HOME, private_home};
pub use load::{DEFAULT_ALLOW_FILE, entry_path, load, read_secrets};
pub use overrides::OVERRIDES;
pub use resolved::*;
pub use secret::{AwsKeys, Secret, SecretRef, SecretRefs, SecretValues, Secrets};
pub use value::survives_podman;

/// The directory of a repo that holds its wishes.
pub const REPO_DIR: &str = ".sandboxc";

/// What the caller knows: paths, the command line, the environment.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// The workspace, canonical.
    pub repo_dir: PathBuf,
    /// `--server`; without it `sandboxc/server.yaml` under `config_home`, which may be missing.
    pub server_file: Option<PathBuf>,
    /// `--name`.
    pub name: Option<String>,
    /// `$HOME`.
    pub home: Option<PathBuf>,
    /// `$XDG_CONFIG_HOME`, or `~/.config`.
    pub config_home: PathBuf,
    /// The environment.
    pub env: BTreeMap<String, String>,
    /// True to copy the packaged allow file to its place if nobody has written one.
    pub write_defaults: bool,
}

/// All findings, and the result if none of them is an error.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The files that the findings are about.
    pub sources: SourceMap,
    /// Everything found.
    pub diagnostics: Diagnostics,
    /// The result.
    pub resolved: Option<Resolved>,
}
