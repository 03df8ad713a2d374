//! Networks of a session and the addresses in them.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::{IpNet, Ipv4Net};
use serde::Serialize;

use crate::policy::RuleId;
use crate::source::Place;

/// Everything about the sandboxed network: both networks, the router's addresses, and what it listens for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SandboxNetwork {
    /// The session's own network, a /29 without a route out.
    pub internal: Ipv4Net,
    /// The router there; DNS on 53, HTTP on 80, TLS on 443, and `TcpRoute::router_port`s.
    pub router_address: Ipv4Addr,
    /// The agent pod there.
    pub agent_address: Ipv4Addr,
    /// The network that only routers are on.
    pub egress: Ipv4Net,
    /// Resolvers that the router asks, never empty.
    pub upstream_dns: Vec<IpAddr>,
    /// Loopback address in the agent pod that every allowed name without a named port resolves to.
    pub web_loopback: Ipv4Addr,
    /// The network log keeps query strings.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub log_query: bool,
    /// One per allowed `host:port`, sorted by host and port.
    pub tcp: Vec<TcpRoute>,
}

impl SandboxNetwork {
    /// The session's own networks, which no name may lead to.
    pub fn own_networks(&self) -> [IpNet; 2] {
        [IpNet::V4(self.internal), IpNet::V4(self.egress)]
    }

    /// The loopback addresses that need listeners on 80 and 443, each once, sorted.
    pub fn loopbacks(&self) -> Vec<Ipv4Addr> {
        let mut all: Vec<Ipv4Addr> =
            self.tcp.iter().map(|route| route.loopback).chain(std::iter::once(self.web_loopback)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// A named port of one host: a listener on the host's own loopback address in the pod, leading to one router port,
/// leading to that host and port only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TcpRoute {
    /// Host to dial: a name, or an IPv4 address.
    pub host: String,
    /// Name that resolves to `loopback` inside: the host itself, or for an address a synthetic
    /// `203-0-113-7.ip.sandboxc.internal` (the agent cannot own a foreign address without `NET_ADMIN`).
    pub name: String,
    /// Port there, and on the loopback address.
    pub port: u16,
    /// The host's own loopback address.
    pub loopback: Ipv4Addr,
    /// Port on the router's internal address.
    pub router_port: u16,
    /// The name may resolve to special-purpose addresses.
    pub private: bool,
    /// The rule that allows it.
    pub rule: RuleId,
    /// Where that rule stands.
    pub from: Place,
}
