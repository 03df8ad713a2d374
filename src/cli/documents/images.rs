//! The documents of `image`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;

/// `image ls --json`
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::cli) struct Images {
    /// The version of this document.
    pub version: u32,
    /// The images, the newest first.
    pub images: Vec<ImageEntry>,
}

/// `image prune --json`
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::cli) struct PrunedImages {
    /// The version of this document.
    pub version: u32,
    /// Whether nothing was removed in fact.
    pub dry_run: bool,
    /// The images that were removed, or would be.
    pub removed: Vec<ImageEntry>,
    /// Images that came into use meanwhile.
    pub left: Vec<ImageEntry>,
}

/// An image of sandboxc.
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::cli) struct ImageEntry {
    /// podman's id.
    pub id: String,
    /// All its names.
    pub names: Vec<String>,
    /// When it was created, in seconds since the epoch.
    pub created: u64,
    /// Its size in bytes, including layers that other images share.
    pub size: u64,
    /// The repo that it was built for; null for images that repos share.
    pub repo: Option<PathBuf>,
    /// How many containers use it.
    pub containers: u64,
}

/// `image build --json`
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::cli) struct ImageBuilt {
    /// The version of this document.
    pub version: u32,
    /// The image's reference.
    pub image: String,
    /// podman's id of it; null if it is not there.
    pub id: Option<String>,
    /// Whether it was built. An image from a registry is not.
    pub built: bool,
}
