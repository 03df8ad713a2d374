//! The networks of a session and their addresses.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::{IpNet, Ipv4Net};
use serde::Serialize;

use crate::policy::RuleId;
use crate::source::Place;

/// Everything about the sandboxed network: both networks, the router's addresses, and its listeners.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SandboxNetwork {
    /// The session's own network, a /29 without a route out.
    pub internal: Ipv4Net,
    /// The router's address there: DNS on 53, HTTP on 80, TLS on 443, and `TcpRoute::router_port`s.
    pub router_address: Ipv4Addr,
    /// The agent pod's address there.
    pub agent_address: Ipv4Addr,
    /// The network that only routers are on.
    pub egress: Ipv4Net,
    /// The resolvers that the router queries; never empty.
    pub upstream_dns: Vec<IpAddr>,
    /// The loopback address in the agent pod for every allowed name without a named port.
    pub web_loopback: Ipv4Addr,
    /// Whether the network log keeps query strings.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub log_query: bool,
    /// One per allowed `host:port`, sorted by host and port.
    pub tcp: Vec<TcpRoute>,
}

impl SandboxNetwork {
    /// The session's own networks, which no name may resolve to.
    pub fn own_networks(&self) -> [IpNet; 2] {
        [IpNet::V4(self.internal), IpNet::V4(self.egress)]
    }

    /// The loopback addresses that need listeners on 80 and 443, sorted, without duplicates.
    pub fn loopbacks(&self) -> Vec<Ipv4Addr> {
        let mut all: Vec<Ipv4Addr> =
            self.tcp.iter().map(|route| route.loopback).chain(std::iter::once(self.web_loopback)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// A named port of a host: a listener on the host's own loopback address in the pod, which leads to a router port,
/// which leads to that host and port only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TcpRoute {
    /// The host to dial: a name, or an IPv4 address.
    pub host: String,
    /// The name that resolves to `loopback` inside: the host itself, or for an address a synthetic
    /// `203-0-113-7.ip.sandboxc.internal` (the agent cannot own a foreign address without `NET_ADMIN`).
    pub name: String,
    /// The port there, and on the loopback address.
    pub port: u16,
    /// The host's own loopback address.
    pub loopback: Ipv4Addr,
    /// The port on the router's internal address.
    pub router_port: u16,
    /// Whether the name may resolve to special-purpose addresses.
    pub private: bool,
    /// The rule that allows it.
    pub rule: RuleId,
    /// The place of that rule.
    pub from: Place,
}
