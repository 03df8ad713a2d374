//! The router program: everything that stands between an agent and the network, enforced by [`Policy::decide`] itself.
//!
//! It reads [`PolicyFile`], which `emit` writes, and the session's secrets; it knows nothing of configs, plans or podman.
//! May depend on: `policy`, `source`.
//!
//! [`Policy::decide`]: crate::policy::Policy::decide

mod accept;
mod answer;
mod api;
pub mod clear;
mod client;
pub mod command;
pub mod confine;
pub mod credential;
pub mod dns;
mod entry;
mod exchange;
pub mod forward;
pub mod gate;
pub mod git;
pub mod graphql;
mod h2;
pub mod handover;
pub mod hello;
mod http1;
pub mod limits;
pub mod live;
pub mod log;
mod look;
pub mod message;
pub mod mint;
mod passthrough;
pub mod pod_file;
pub mod policy_file;
pub mod process;
mod proxy;
mod push;
mod refusal;
mod relay;
pub mod run;
mod settle;
mod shared;
mod stream;
mod taken;
mod tcp;
mod tls;
mod upgrade;
mod upstream;
pub mod websocket;
mod worker;

pub use policy_file::PolicyFile;
