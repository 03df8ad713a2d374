//! The file that the router enforces: data alone, written from the plan, for a reviewer to read.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use ipnet::{IpNet, Ipv4Net};
use serde::{Deserialize, Serialize};

use crate::policy::{Policy, RuleId};
use crate::source::Place;

/// Version of the format. A router refuses a file of any other, so that it never guesses what a field meant.
pub const FORMAT: u32 = 1;

/// Everything that the router, its gate and its forwarder do, but for secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyFile {
    /// [`FORMAT`].
    pub format: u32,
    /// Hash of the plan that it belongs to: gate and router tell each other that they belong together.
    pub plan: String,
    /// Id of the session.
    pub session: String,
    /// Where it listens, and for whom.
    pub listen: Listen,
    /// The session's own networks, which no name may lead to.
    pub own_networks: Vec<IpNet>,
    /// Resolvers that the router asks, in this order.
    pub upstream_dns: Vec<IpAddr>,
    /// Log lines keep query strings.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub log_query: bool,
    /// What it takes on at most.
    #[serde(default)]
    pub limits: Limits,
    /// Names that the session's CA may speak for, each with everything below; empty if nothing is decrypted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ca_scopes: Vec<String>,
    /// One for each allowed `host:port`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tcp: Vec<TcpRoute>,
    /// What is allowed.
    pub policy: Policy,
}

/// Addresses of one session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listen {
    /// The router: DNS on 53, HTTP on 80, TLS on 443, and each [`TcpRoute::router_port`].
    pub router: Ipv4Addr,
    /// The agent pod, the only one that is served.
    pub agent: Ipv4Addr,
    /// The network of these two, without a route out.
    pub internal: Ipv4Net,
    /// What every allowed name without a named port resolves to inside.
    pub web_loopback: Ipv4Addr,
}

/// A named port of one host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcpRoute {
    /// Host to dial: a name, or an IPv4 address.
    pub host: String,
    /// Name that resolves to `loopback` inside: the host itself, or a made-up one for an address.
    pub name: String,
    /// Port there, and on the loopback address.
    pub port: u16,
    /// The host's own loopback address inside.
    pub loopback: Ipv4Addr,
    /// Port on the router's internal address.
    pub router_port: u16,
    /// The rule that allows it.
    pub rule: RuleId,
    /// Where that rule stands.
    pub from: Place,
}

/// What one router takes on. Beyond a limit it refuses the newest and says so; nobody else is harmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Connections at once, on all ports together.
    pub connections: u32,
    /// Bytes of a request's head.
    pub request_head: u32,
    /// Bytes of an answer's head.
    pub answer_head: u32,
    /// Bytes that the heads of all requests that are not complete yet may take together.
    pub waiting_heads: u32,
    /// Bodies that are read whole at once; each is at most 1 MiB.
    pub bodies: u32,
    /// Seconds that a connection, a body or a host may be silent.
    pub silence: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            request_head: 128 << 10,
            answer_head: 256 << 10,
            waiting_heads: 16 << 20,
            bodies: 16,
            silence: 900,
        }
    }
}

impl Limits {
    /// How long a connection, a body or a host may be silent.
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
    /// Reads a file, its format first.
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

    /// Loopback addresses inside that need listeners on 80 and 443, each once, sorted.
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
