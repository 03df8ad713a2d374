//! The subnets of a session and the routes of its named ports.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use super::name::hash_number;
use super::network::{SandboxNetwork, TcpRoute};
use super::{HOST_RESOLVER, PlanError};
use crate::config::Resolved;
use crate::policy::{HostPattern, MOST_NAMED_PORTS, Policy, Rule, Verdict};

/// A session's own network has six addresses, of which two are used.
const SESSION_PREFIX: u8 = 29;

/// Router ports for named ports start here. 80 and 443 are below, and test tools of unprivileged users do not
/// interfere.
const FIRST_ROUTER_PORT: u16 = 20_000;

/// The last quarter of the pool: one definition and one hashed name, shared by all routers.
pub(super) fn egress_network(resolved: &Resolved) -> Result<Ipv4Net, PlanError> {
    let pool = resolved.pool.value;
    let small = || PlanError::PoolTooSmall(pool.to_string());
    if pool.prefix_len() > 24 {
        return Err(small());
    }
    let quarters = pool.subnets(pool.prefix_len() + 2).map_err(|_| small())?;
    quarters.last().ok_or_else(small)
}

/// How many sessions' networks the pool can hold.
pub fn subnets(resolved: &Resolved) -> Result<u32, PlanError> {
    let (pool, egress) = (resolved.pool.value, egress_network(resolved)?);
    let addresses = u32::from(egress.network()) - u32::from(pool.network());
    Ok((addresses >> (32 - SESSION_PREFIX)).max(1))
}

/// A /29 from the first three quarters of the pool, chosen by hash, and everything that the router listens on.
pub(super) fn sandbox_network(resolved: &Resolved, session: &str, attempt: u32) -> Result<SandboxNetwork, PlanError> {
    let egress = egress_network(resolved)?;
    let pool = resolved.pool.value;
    let blocks = u64::from(subnets(resolved)?);
    let workspace = &resolved.workspace.source;
    // Starts at a position of the session's own and continues in order, so that as many attempts as there are subnets
    // try all of them.
    let first = hash_number(&("subnet", session, workspace, 0)) % blocks;
    let block = (first + u64::from(attempt)) % blocks;
    // Below 2^29 because of the division above.
    let offset = u32::try_from(block << (32 - SESSION_PREFIX)).unwrap_or(0);
    let base = u32::from(pool.network()) + offset;
    let internal = Ipv4Net::new_assert(Ipv4Addr::from(base), SESSION_PREFIX);
    let mut upstream_dns: Vec<_> = resolved.upstream_dns.iter().map(|address| address.value).collect();
    if upstream_dns.is_empty() {
        upstream_dns.push(HOST_RESOLVER.into());
    }
    Ok(SandboxNetwork {
        internal,
        // podman would use .1 as the gateway, so neither pod gets it.
        router_address: Ipv4Addr::from(base + 2),
        agent_address: Ipv4Addr::from(base + 3),
        egress,
        upstream_dns,
        web_loopback: Ipv4Addr::new(127, 0, 1, 1),
        log_query: resolved.log_query,
        tcp: tcp_routes(&resolved.policy)?,
    })
}

/// One route for every named port of an exact host or address that the whole policy allows.
fn tcp_routes(policy: &Policy) -> Result<Vec<TcpRoute>, PlanError> {
    more_routes(policy, &[])
}

/// The addresses and ports of a route that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenRoute {
    /// The host.
    pub host: String,
    /// The port there.
    pub port: u16,
    /// The host's own loopback address.
    pub loopback: Ipv4Addr,
    /// The port on the router's internal address.
    pub router_port: u16,
}

/// Routes for what a policy allows and no existing route leads to. Existing routes keep their addresses, since clients have
/// resolved them.
pub fn more_routes(policy: &Policy, taken: &[TakenRoute]) -> Result<Vec<TcpRoute>, PlanError> {
    let mut wanted: BTreeMap<(String, u16), &Rule> = BTreeMap::new();
    for rule in policy.allow.rules() {
        let host = match &rule.pattern {
            HostPattern::Exact(name) => name.to_string(),
            HostPattern::Ip(address) => address.to_string(),
            HostPattern::Suffix(_) | HostPattern::Subdomains(_) => continue,
        };
        for port in &rule.ports {
            wanted.entry((host.clone(), *port)).or_insert(rule);
        }
    }
    let mut loopbacks: BTreeMap<String, Ipv4Addr> = taken.iter().map(|old| (old.host.clone(), old.loopback)).collect();
    let mut used: BTreeSet<Ipv4Addr> = loopbacks.values().copied().collect();
    let first = taken.iter().map(|old| old.router_port.saturating_add(1)).max().unwrap_or(FIRST_ROUTER_PORT);
    let mut routes = Vec::new();
    for ((host, port), rule) in wanted {
        if taken.iter().any(|old| old.host == host && old.port == port) {
            continue;
        }
        let web_name = matches!(rule.pattern, HostPattern::Exact(_)) && matches!(port, 80 | 443);
        let decision = policy.decide(&host, port);
        if web_name || decision.verdict == Verdict::Deny {
            continue;
        }
        let loopback = *loopbacks.entry(host.clone()).or_insert_with(|| {
            let free = (used.len()..=2 * used.len())
                .map(nth_loopback)
                .find(|next| !used.contains(next))
                .unwrap_or(Ipv4Addr::LOCALHOST);
            used.insert(free);
            free
        });
        if taken.len() + routes.len() >= MOST_NAMED_PORTS {
            return Err(PlanError::TooManyRoutes(MOST_NAMED_PORTS));
        }
        routes.push(TcpRoute {
            name: inside_name(&rule.pattern, &host),
            host,
            port,
            loopback,
            // Below MOST_NAMED_PORTS, so it fits.
            router_port: first.saturating_add(u16::try_from(routes.len()).unwrap_or(u16::MAX)),
            private: decision.private,
            rule: decision.rule.unwrap_or_else(|| rule.id.clone()),
            from: decision.from.unwrap_or_else(|| rule.from.clone()),
        });
    }
    Ok(routes)
}

/// 127.0.1.2, 127.0.1.3, … without .0 and .255, which tools may treat as network or broadcast addresses.
fn nth_loopback(index: usize) -> Ipv4Addr {
    let index = index + 1;
    let third = u8::try_from(1 + index / 254).unwrap_or(u8::MAX);
    let fourth = u8::try_from(1 + index % 254).unwrap_or(u8::MAX);
    Ipv4Addr::new(127, 0, third, fourth)
}

/// The name that the agent dials: the host itself, or a synthetic one for an address.
fn inside_name(pattern: &HostPattern, host: &str) -> String {
    match pattern {
        HostPattern::Ip(_) => format!("{}.ip.sandboxc.internal", host.replace(['.', ':'], "-")),
        _ => host.to_owned(),
    }
}
