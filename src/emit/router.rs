//! What the router program reads: data alone, from a plan. What it enforces is decided where [`Policy::decide`] is.
//!
//! May depend on: `plan`, `policy`, `router` (the types of these files), `source`.

use std::net::{IpAddr, Ipv4Addr};

use serde::Serialize;

use super::layout::layout;
use super::{EmitError, File};
use crate::plan::{Plan, SandboxNetwork, ca_scopes};
use crate::policy::{Policy, Scope, Verdict};
use crate::router::PolicyFile;
use crate::router::pod_file::{PodFile, PodPort};
use crate::router::policy_file::{FORMAT, Listen, RouterLimits, TcpRoute};

/// Files mounted read-only at `/etc/sandboxc` in the router.
pub fn router_files(plan: &Plan) -> Result<Vec<File>, EmitError> {
    Ok(vec![json("router/policy.json", &policy_file(plan)?)?])
}

/// Files mounted read-only at `/etc/sandboxc` in the gate and the forwarder.
pub fn forwarder_files(plan: &Plan) -> Result<Vec<File>, EmitError> {
    Ok(vec![json("forwarder/pod.json", &pod_file(plan)?)?])
}

fn json(path: &str, value: &impl Serialize) -> Result<File, EmitError> {
    let text = layout(value).map_err(|error| EmitError::Internal(format!("writing {path}: {error}")))?;
    Ok(File::new(path, text))
}

/// `policy.json` of a plan. Fails where there is no network to enforce anything on, where the plan and the policy disagree,
/// and for an allowed address that the address guard refuses.
pub fn policy_file(plan: &Plan) -> Result<PolicyFile, EmitError> {
    let net = plan.network.as_ref().ok_or_else(off)?;
    let (policy, internal) = (&plan.policy, net.internal.trunc());
    check_addresses(net, policy)?;
    Ok(PolicyFile {
        format: FORMAT,
        plan: plan.names.hash.clone(),
        session: plan.session.clone(),
        listen: Listen {
            router: net.router_address,
            agent: net.agent_address,
            internal,
            web_loopback: net.web_loopback,
        },
        own_networks: net.own_networks().to_vec(),
        upstream_dns: upstream(net)?,
        log_query: net.log_query,
        limits: RouterLimits {
            session: plan.agent.main.limits.timeout.as_ref().map(|timeout| timeout.value),
            ..RouterLimits::default()
        },
        ca_scopes: ca_scopes(policy).into_iter().collect(),
        tcp: routes(net, policy)?,
        policy: policy.clone(),
    })
}

/// `pod.json` of a plan, for gate and forwarder.
pub fn pod_file(plan: &Plan) -> Result<PodFile, EmitError> {
    let net = plan.network.as_ref().ok_or_else(off)?;
    let port = |route: &crate::plan::TcpRoute| PodPort {
        loopback: route.loopback,
        port: route.port,
        router_port: route.router_port,
    };
    Ok(PodFile {
        format: FORMAT,
        plan: plan.names.hash.clone(),
        internal: net.internal.trunc(),
        agent: net.agent_address,
        router: net.router_address,
        user_namespaces: plan.user_namespaces,
        net_namespaces: plan.user_namespaces && plan.nested.is_none_or(|nested| nested.networks),
        needs_nsdelegate: plan.needs_nsdelegate(),
        web_loopback: net.web_loopback,
        tcp: net.tcp.iter().map(port).collect(),
    })
}

/// The plan's routes, each asked of the policy once more: a route that it does not allow is a fault of the plan.
fn routes(net: &SandboxNetwork, policy: &Policy) -> Result<Vec<TcpRoute>, EmitError> {
    let route = |route: &crate::plan::TcpRoute| {
        let decision = policy.decide(&route.host, route.port);
        let (Verdict::Allow, Some(rule)) = (decision.verdict, decision.rule) else {
            let (host, port, why) = (&route.host, route.port, decision.reason.text());
            return Err(EmitError::Internal(format!("{host}:{port} has a route but the policy denies it: {why}")));
        };
        if let Ok(address) = route.host.parse() {
            check_address(net, policy, address, decision.private, &route.from.short())?;
        }
        Ok(TcpRoute {
            host: route.host.clone(),
            name: route.name.clone(),
            port: route.port,
            loopback: route.loopback,
            router_port: route.router_port,
            rule,
            from: decision.from.unwrap_or_else(|| route.from.clone()),
        })
    };
    net.tcp.iter().map(route).collect()
}

/// The IPv4 resolvers, in the order given: the pods have no IPv6.
fn upstream(net: &SandboxNetwork) -> Result<Vec<IpAddr>, EmitError> {
    let four: Vec<IpAddr> = net.upstream_dns.iter().copied().filter(IpAddr::is_ipv4).collect();
    if four.is_empty() {
        return Err(EmitError::CannotKeep {
            what: "network.upstream_dns".to_owned(),
            why: "it names no IPv4 resolver, and the router has no IPv6".to_owned(),
        });
    }
    Ok(four)
}

/// Addresses are dialed as they are written, so what the guard refuses is told here, with its line.
fn check_addresses(net: &SandboxNetwork, policy: &Policy) -> Result<(), EmitError> {
    for row in [443, 80].into_iter().flat_map(|port| policy.table(port)) {
        let (Scope::Address(address), Verdict::Allow) = (&row.scope, row.decision.verdict) else { continue };
        let from = row.decision.from.as_ref().map_or_else(String::new, crate::source::Place::short);
        check_address(net, policy, *address, row.decision.private, &from)?;
    }
    Ok(())
}

fn check_address(
    net: &SandboxNetwork,
    policy: &Policy,
    address: Ipv4Addr,
    private: bool,
    from: &str,
) -> Result<(), EmitError> {
    let blocked = policy.blocked_addresses(private, &net.own_networks());
    let advice = if private {
        ""
    } else {
        "; say `private: true` on the entry, or name its range in the server's network.reachable"
    };
    match blocked.iter().find(|block| block.contains(&IpAddr::V4(address))) {
        Some(block) => Err(EmitError::CannotKeep {
            what: from.to_owned(),
            why: format!("{address} lies in {block}, which may not be reached{advice}"),
        }),
        None => Ok(()),
    }
}

fn off() -> EmitError {
    EmitError::Internal("the network sandbox is off, so there is nothing to enforce".to_owned())
}
