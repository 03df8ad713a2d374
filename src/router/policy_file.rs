//! The file that the router enforces: data only, written from the plan, and readable for a reviewer.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use ipnet::{IpNet, Ipv4Net};
use serde::{Deserialize, Serialize};

use crate::policy::{Policy, RuleId};
use crate::source::Place;

/// The version of the format. A router refuses all other versions, so that it never guesses what a field means.
pub const FORMAT: u32 = 2;

/// Everything that router, gate and forwarder do, except for secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyFile {
    /// [`FORMAT`].
    pub format: u32,
    /// The hash of the plan that it belongs to, by which gate and router check that they belong together.
    pub plan: String,
    /// The session id.
    pub session: String,
    /// Where the router listens, and for whom.
    pub listen: Listen,
    /// The session's own networks, which no name may resolve to.
    pub own_networks: Vec<IpNet>,
    /// The resolvers that the router queries, in this order.
    pub upstream_dns: Vec<IpAddr>,
    /// Whether the log keeps query strings.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub log_query: bool,
    /// The router's limits.
    #[serde(default)]
    pub limits: RouterLimits,
    /// The names that the session's CA may sign for, each with its subdomains; `*` for every name, empty if nothing is
    /// decrypted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ca_scopes: Vec<String>,
    /// One for each allowed `host:port`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tcp: Vec<TcpRoute>,
    /// What is allowed.
    pub policy: Policy,
}

/// The addresses of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listen {
    /// The router's: DNS on 53, HTTP on 80, TLS on 443, and each [`TcpRoute::router_port`].
    pub router: Ipv4Addr,
    /// The agent pod's, the only one that is served.
    pub agent: Ipv4Addr,
    /// The network of both, without a route out.
    pub internal: Ipv4Net,
    /// The address that every allowed name without a named port resolves to inside.
    pub web_loopback: Ipv4Addr,
}

/// A named port of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcpRoute {
    /// The host to dial: a name, or an IPv4 address.
    pub host: String,
    /// The name that resolves to `loopback` inside: the host itself, or a synthetic one for an address.
    pub name: String,
    /// The port there, and on the loopback address.
    pub port: u16,
    /// The host's own loopback address inside.
    pub loopback: Ipv4Addr,
    /// The port on the router's internal address.
    pub router_port: u16,
    /// The rule that allows it.
    pub rule: RuleId,
    /// The place of that rule.
    pub from: Place,
}

/// The limits of a router. Beyond a limit, it refuses the newest and logs it; nothing else is affected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RouterLimits {
    /// Concurrent connections, on all ports together.
    pub connections: u32,
    /// The size of a request's head.
    pub request_head: u32,
    /// The size of a response's head.
    pub answer_head: u32,
    /// The total size of all incomplete request heads.
    pub waiting_heads: u32,
    /// How many bodies are read completely at the same time; each has at most 1 MiB.
    pub bodies: u32,
    /// How many seconds a connection, a body or a host may be idle.
    pub silence: u32,
    /// The timeout of the session in seconds, if it has one. Presigned URLs expire no later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<u64>,
}

impl Default for RouterLimits {
    fn default() -> Self {
        Self {
            connections: 4096,
            request_head: 128 << 10,
            answer_head: 256 << 10,
            waiting_heads: 16 << 20,
            bodies: 16,
            silence: 900,
            session: None,
        }
    }
}

impl RouterLimits {
    /// How long a connection, a body or a host may be idle.
    pub fn silence(&self) -> Duration {
        Duration::from_secs(self.silence.into())
    }
}

/// The field that every version of the format has.
#[derive(Deserialize)]
struct Version {
    format: u32,
}

impl PolicyFile {
    /// Parses a file, its format first.
    pub fn read(json: &[u8]) -> Result<Self, String> {
        let version: Version = serde_json::from_slice(json).map_err(|e| format!("policy.json: {e}"))?;
        if version.format != FORMAT {
            let format = version.format;
            return Err(format!(
                "policy.json has format {format}, and this router reads format {FORMAT}: use the router of its sandboxc"
            ));
        }
        serde_json::from_slice(json).map_err(|e| format!("policy.json: {e}"))
    }

    /// The loopback addresses inside that need listeners on 80 and 443, sorted, without duplicates.
    pub fn loopbacks(&self) -> Vec<Ipv4Addr> {
        let routes = self.tcp.iter().map(|route| route.loopback);
        let mut all: Vec<Ipv4Addr> = routes.chain(std::iter::once(self.listen.web_loopback)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

#[cfg(test)]
mod tests;
