//! Where a connection leads, and why there is none.

use std::net::Ipv4Addr;

use crate::policy::{HostName, Reason};

/// The destination of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::router) enum Host {
    Name(HostName),
    Address(Ipv4Addr),
}

impl Host {
    pub(in crate::router) fn text(&self) -> String {
        match self {
            Self::Name(name) => name.to_string(),
            Self::Address(address) => address.to_string(),
        }
    }
}

/// What a connection may be used for. Two requests only share one if all of it is equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::router) struct Target {
    pub(in crate::router) host: Host,
    pub(in crate::router) port: u16,
    pub(in crate::router) private: bool,
    pub(in crate::router) tls: bool,
    /// The names of the credentials that were inserted.
    pub(in crate::router) credentials: Vec<String>,
}

/// Why there is no connection.
#[derive(Clone, Debug)]
pub(in crate::router) struct Unreached {
    pub(in crate::router) reason: Reason,
    /// A more specific hint than the reason's own.
    pub(in crate::router) said: String,
    /// The address that was dialed without success.
    pub(in crate::router) tried: String,
}
