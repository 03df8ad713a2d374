//! The router program: everything that stands between an agent and the network, enforced by [`Policy::decide`] itself.
//!
//! It reads [`PolicyFile`], which `emit` writes, and the session's secrets; it knows nothing of configs, plans or podman.
//! May depend on: `policy`, `source`.
//!
//! [`Policy::decide`]: crate::policy::Policy::decide

pub mod dns;
pub mod policy_file;

pub use policy_file::PolicyFile;
