//! One pure function per target: [`Plan`](crate::plan::Plan) → bytes. Siblings share `File`, `Podman`, the limits and the
//! calls of the recipe (`network`), and never call each other otherwise; `tree` combines them.
//!
//! May depend on: `plan`, `config`, `policy`, `source`.

pub mod defaults;
mod file;
mod header;
pub mod kube;
mod limits;
pub mod network;
mod podman;
mod posture;
pub mod quadlet;
pub mod review;
pub mod router;
pub mod script;
pub mod tree;

use thiserror::Error;

pub use file::File;
pub use limits::{LimitGap, limit_gaps, update_args};
pub use podman::Podman;
pub use posture::posture_args;

/// Why a plan cannot be written for a target.
#[derive(Debug, Error)]
pub enum EmitError {
    /// A promise that this podman, or kube play as such, cannot keep.
    #[error("{what}: {why}")]
    CannotKeep {
        /// The promise or the value.
        what: String,
        /// What would keep it, or what to write instead.
        why: String,
    },
    /// `--podman` is below the floor.
    #[error("podman {0} is older than {floor}: user namespaces and sysctls of pods cannot be said to it", floor = Podman::FLOOR)]
    TooOld(Podman),
    /// A template or a serializer failed: a fault of ours, with its text.
    #[error("internal: {0}")]
    Internal(String),
}

impl From<anyhow::Error> for EmitError {
    fn from(error: anyhow::Error) -> Self {
        Self::Internal(format!("{error:#}"))
    }
}
