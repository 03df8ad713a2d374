//! One pure function per target: [`Plan`](crate::plan::Plan) → bytes. Targets never call each other. What several of
//! them share is in modules of its own, and `tree` combines their texts.
//!
//! May depend on: `plan`, `config`, `policy`, `source`.

mod accounts;
pub mod defaults;
mod file;
mod git;
mod header;
pub mod kube;
mod layout;
mod limits;
pub mod live;
mod nested;
pub mod network;
mod permissions;
mod pin;
mod podman;
mod posture;
pub mod quadlet;
pub mod review;
pub mod router;
pub mod script;
mod template;
pub mod tree;

use thiserror::Error;

pub use file::File;
pub use limits::{LimitGap, ceiling_args, limit_gaps, update_args};
use permissions::permissions;
pub use pin::{MOUNT_GAP, mount_gaps};
pub use podman::PodmanVersion;
pub use posture::posture_args;

/// Why a plan cannot be written for a target.
#[derive(Debug, Error)]
pub enum EmitError {
    /// A promise that this podman, or kube play in general, cannot keep.
    #[error("{what}: {why}")]
    CannotKeep {
        /// The promise or the value.
        what: String,
        /// What would keep it, or what to write instead.
        why: String,
    },
    /// `--podman` is older than the minimum.
    #[error("podman {0} is older than {floor}, which is the first version that supports user namespaces and sysctls of pods", floor = PodmanVersion::FLOOR)]
    TooOld(PodmanVersion),
    /// A session id that cannot name units.
    #[error(
        "the session id {0} begins like the name of another sandbox's unit (12 hexadecimal digits and a hyphen): choose another one"
    )]
    UnitName(String),
    /// A template or a serializer failed, which is a bug.
    #[error("internal: {0}")]
    Internal(String),
}
