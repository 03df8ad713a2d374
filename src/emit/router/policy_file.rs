//! What the router program reads, from a plan.

use std::collections::BTreeSet;
use std::net::IpAddr;

use anyhow::{Context as _, bail};

use super::tcp;
use crate::plan::{Plan, SandboxNetwork, leaves};
use crate::policy::{Policy, Verdict};
use crate::router::PolicyFile;
use crate::router::pod_file::{PodFile, PodPort};
use crate::router::policy_file::{FORMAT, Limits, Listen, TcpRoute};

/// `policy.json` of a plan. Fails where there is no network to enforce anything on, where the plan and the policy disagree,
/// and for an allowed address that the address guard refuses.
pub fn policy_file(plan: &Plan) -> anyhow::Result<PolicyFile> {
    let net = plan.network.as_ref().context("the network sandbox is off, so there is no router")?;
    let (policy, internal) = (&plan.policy, net.internal.trunc());
    let web = [443, 80].map(|port| policy.table(port));
    tcp::check_addresses(net, policy, web.iter().flatten())?;
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
        limits: Limits {
            session: plan.agent.main.limits.timeout.as_ref().map(|timeout| timeout.value),
            ..Limits::default()
        },
        ca_scopes: leaves(policy).into_iter().map(|leaf| leaf.base).collect::<BTreeSet<_>>().into_iter().collect(),
        tcp: routes(net, policy)?,
        policy: policy.clone(),
    })
}

/// `pod.json` of a plan, for gate and forwarder.
pub fn pod_file(plan: &Plan) -> anyhow::Result<PodFile> {
    let net = plan.network.as_ref().context("the network sandbox is off, so there is no gate")?;
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
        web_loopback: net.web_loopback,
        tcp: net.tcp.iter().map(port).collect(),
    })
}

/// The plan's routes, each asked of the policy once more: a route that it does not allow is a fault of the plan.
fn routes(net: &SandboxNetwork, policy: &Policy) -> anyhow::Result<Vec<TcpRoute>> {
    let route = |route: &crate::plan::TcpRoute| {
        let decision = policy.decide(&route.host, route.port);
        let (Verdict::Allow, Some(rule)) = (decision.verdict, decision.rule) else {
            bail!("{}:{} has a route but the policy denies it: {}", route.host, route.port, decision.reason.text());
        };
        if let Ok(address) = route.host.parse() {
            tcp::check_address(net, policy, address, decision.private, &route.from.short())?;
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
fn upstream(net: &SandboxNetwork) -> anyhow::Result<Vec<IpAddr>> {
    let four: Vec<IpAddr> = net.upstream_dns.iter().copied().filter(IpAddr::is_ipv4).collect();
    if four.is_empty() {
        bail!("network.upstream_dns names no IPv4 resolver, and the router has no IPv6");
    }
    Ok(four)
}
