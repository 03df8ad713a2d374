//! Listeners: named ports in router and forwarder, and what the router must be listening on when it is ready.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::bail;
use serde::Serialize;

use crate::plan::SandboxNetwork;
use crate::policy::{Policy, Row, Scope, Verdict};

/// A named port as the router serves it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Route {
    pub(super) host: String,
    pub(super) address: Option<Ipv4Addr>,
    port: u16,
    router_port: u16,
    pub(super) private: bool,
    rule: String,
    from: String,
}

/// Loopback listeners of the forwarder that lead to one router port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Forward {
    what: String,
    from: String,
    listens: Vec<String>,
    router_port: u16,
}

/// The plan's routes, each asked of the policy once more: a route that it does not allow is a fault of the plan.
pub(super) fn routes(net: &SandboxNetwork, policy: &Policy) -> anyhow::Result<Vec<Route>> {
    net.tcp
        .iter()
        .map(|route| {
            let decision = policy.decide(&route.host, route.port);
            let (Verdict::Allow, Some(rule)) = (decision.verdict, decision.rule) else {
                bail!("{}:{} has a route but the policy denies it: {}", route.host, route.port, decision.reason.text());
            };
            let address: Option<Ipv4Addr> = route.host.parse().ok();
            if let Some(address) = address {
                check_address(net, policy, address, decision.private, &route.from.short())?;
            }
            Ok(Route {
                host: route.host.clone(),
                address,
                port: route.port,
                router_port: route.router_port,
                private: decision.private,
                rule: rule.to_string(),
                from: decision.from.unwrap_or_else(|| route.from.clone()).short(),
            })
        })
        .collect()
}

/// Addresses are dialled without a resolver, so the guard looks at them here.
pub(super) fn check_addresses<'a>(
    net: &SandboxNetwork,
    policy: &Policy,
    rows: impl Iterator<Item = &'a Row>,
) -> anyhow::Result<()> {
    for row in rows {
        let (Scope::Address(address), Verdict::Allow) = (&row.scope, row.decision.verdict) else { continue };
        let from = row.decision.from.as_ref().map_or_else(String::new, crate::source::Place::short);
        check_address(net, policy, *address, row.decision.private, &from)?;
    }
    Ok(())
}

pub(super) fn check_address(
    net: &SandboxNetwork,
    policy: &Policy,
    address: Ipv4Addr,
    private: bool,
    from: &str,
) -> anyhow::Result<()> {
    let blocked = policy.blocked_addresses(private, &net.own_networks());
    match blocked.iter().find(|block| block.contains(&IpAddr::V4(address))) {
        Some(block) => bail!("{from}: {address} lies in {block}, which may not be reached{}", advice(private)),
        None => Ok(()),
    }
}

fn advice(private: bool) -> &'static str {
    if private { "" } else { "; say `private: true` on the entry, or name its range in the server's network.reachable" }
}

/// What the forwarder listens on. A named port 80 or 443 of an address takes the place of the web listener there.
pub(super) fn forwards(net: &SandboxNetwork) -> Vec<Forward> {
    let named = |address: Ipv4Addr, port: u16| net.tcp.iter().any(|r| r.loopback == address && r.port == port);
    let web = [80, 443].map(|port| Forward {
        what: if port == 80 { "HTTP, by Host header".to_owned() } else { "TLS, by SNI".to_owned() },
        from: String::new(),
        listens: net.loopbacks().into_iter().filter(|a| !named(*a, port)).map(|a| format!("{a}:{port}")).collect(),
        router_port: port,
    });
    let tcp = net.tcp.iter().map(|route| Forward {
        what: format!("{}:{}", route.host, route.port),
        from: route.from.short(),
        listens: vec![format!("{}:{}", route.loopback, route.port)],
        router_port: route.router_port,
    });
    web.into_iter().chain(tcp).collect()
}

/// `TABLE ADDRESS:PORT` for each listener of the router, as in `/proc/net/tcp` and `/proc/net/udp`.
pub(super) fn listeners(net: &SandboxNetwork, routes: &[Route], guarded: bool, private: bool) -> Vec<String> {
    let address = net.router_address;
    let line = |table: &str, address: Ipv4Addr, port: u16| format!("{table} {}:{port:04X}", kernel_hex(address));
    let mut lines = vec![line("udp", address, 53)];
    let resolvers = [(guarded, 5353), (private, 5354)].into_iter().filter(|(there, _)| *there);
    lines.extend(resolvers.map(|(_, port)| line("udp", Ipv4Addr::LOCALHOST, port)));
    let ports = [53, 80, 443].into_iter().chain(routes.iter().map(|route| route.router_port));
    lines.extend(ports.map(|port| line("tcp", address, port)));
    lines
}

/// An address as the kernel prints it on little-endian machines, which all that podman supports but s390x are.
pub(super) fn kernel_hex(address: Ipv4Addr) -> String {
    format!("{:08X}", u32::from_le_bytes(address.octets()))
}
