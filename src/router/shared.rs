//! What all threads share.

use std::sync::Arc;
use std::time::SystemTime;

use rustls::ServerConfig;

use super::credential::{Minter, Table};
use super::limits::Budget;
use super::live::Current;
use super::log::{Log, Seldom};

/// What all threads share.
pub struct Shared {
    /// The policy in force.
    pub(super) current: Current,
    /// The log.
    pub(super) log: Log,
    /// The limit of connections.
    pub(super) connections: Budget,
    /// The limit of bytes in incomplete heads.
    pub(super) heads: Budget,
    /// The limit of bodies that are read completely.
    pub(super) bodies: Budget,
    /// The maximum size of a request's head.
    pub(super) request_head: usize,
    /// The session's credentials, if any.
    pub(super) table: Option<Table>,
    /// Tokens of GitHub Apps.
    pub(super) minter: Minter,
    /// When the session ends at the latest.
    pub(super) ends: Option<SystemTime>,
    /// The TLS configuration for clients; `None` if nothing is decrypted.
    pub(super) server: Option<[Arc<ServerConfig>; 2]>,
    /// How many connections were refused because of the limit.
    pub(super) full: Seldom,
    /// How often no connection could be accepted.
    pub(super) starved: Seldom,
}
