//! The router program: everything that stands between an agent and the network, enforced by [`Policy::decide`] itself.
//!
//! It reads [`PolicyFile`], which `emit` writes, and the session's secrets; it knows nothing of configs, plans or podman.
//! May depend on: `policy`, `source`.
//!
//! [`Policy::decide`]: crate::policy::Policy::decide

pub mod clear;
pub mod confine;
pub mod credential;
pub mod dns;
pub mod gate;
pub mod git;
pub mod graphql;
pub mod handover;
pub mod pod_file;
pub mod policy_file;
pub mod websocket;

pub use policy_file::PolicyFile;
