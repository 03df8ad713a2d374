//! Name server tables: what the agent may resolve, and what the router's own resolvers may ask for.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use super::github::Minted;
use super::tcp::Route;
use crate::plan::SandboxNetwork;
use crate::policy::{Row, Scope, Verdict};

/// What a name resolves to, and where that was said.
type Answer = (Option<Ipv4Addr>, Option<String>);

/// The answers that are spelt out at one name.
#[derive(Default)]
struct Node {
    apex: Option<Answer>,
    below: Option<Answer>,
}

/// The agent-facing lines of dnsmasq: `/x/` is a name and everything below, `/*.x/` everything below alone, `/#/` every
/// name; the longest match holds. `local=` alone is NXDOMAIN; with `address=` beside it, other types are NODATA. A name resolves iff it may be reached on 443 or 80, or has a named port. (The two tables have
/// the same scopes.)
pub(super) fn lines(net: &SandboxNetwork, tls: &[Row], web: &[Row]) -> Vec<String> {
    let mut nodes: BTreeMap<&str, Node> = BTreeMap::new();
    for (tls, web) in tls.iter().zip(web) {
        let decision = if tls.decision.verdict == Verdict::Allow { &tls.decision } else { &web.decision };
        let address = (decision.verdict == Verdict::Allow).then_some(net.web_loopback);
        let answer = (address, decision.from.as_ref().map(crate::source::Place::short));
        match &tls.scope {
            Scope::Below(base) => nodes.entry(base).or_default().below = Some(answer),
            Scope::Host(name) => nodes.entry(name.as_str()).or_default().apex = Some(answer),
            // An address is no name; one with a named port has a name of its own.
            Scope::Addresses | Scope::Address(_) => {}
        }
    }
    for route in &net.tcp {
        nodes.entry(&route.name).or_default().apex = Some((Some(route.loopback), Some(route.from.short())));
    }
    let mut lines = Vec::new();
    for (name, node) in &nodes {
        node_lines(name, node, inherited(&nodes, name), &mut lines);
    }
    lines
}

fn node_lines(name: &str, node: &Node, inherited: Option<Ipv4Addr>, lines: &mut Vec<String>) {
    let below = node.below.clone().unwrap_or((inherited, None));
    let subdomains = format!("*.{name}");
    match &node.apex {
        // `local=/#/` stands in the template.
        _ if name.is_empty() => push("#", &below, lines),
        Some(apex) if apex.0 == below.0 => {
            if apex.0 != inherited {
                push(name, apex, lines);
            }
        }
        Some(apex) => {
            push(name, apex, lines);
            push(&subdomains, &below, lines);
        }
        None if below.0 == inherited => {}
        None => push(&subdomains, &below, lines),
    }
}

fn push(domain: &str, (address, from): &Answer, lines: &mut Vec<String>) {
    lines.extend(from.as_ref().map(|from| format!("# {from}")));
    if domain != "#" {
        lines.push(format!("local=/{domain}/"));
    }
    lines.extend(address.map(|address| format!("address=/{domain}/{address}")));
}

/// What a name would resolve to if no line named it: the answer below its nearest parent.
fn inherited(nodes: &BTreeMap<&str, Node>, name: &str) -> Option<Ipv4Addr> {
    let mut parents = std::iter::successors(parent(name), |name| parent(name));
    parents.find_map(|parent| nodes.get(parent)?.below.as_ref()).and_then(|below| below.0)
}

fn parent(name: &str) -> Option<&str> {
    if name.is_empty() { None } else { Some(name.split_once('.').map_or("", |(_, parent)| parent)) }
}

/// The domains that one of the resolvers may ask for (each with everything below, since dnsmasq knows no exact
/// `server=`; nginx asks for allowed names only). `#` is every name.
pub(super) fn resolver_names(
    tls: &[Row],
    web: &[Row],
    routes: &[Route],
    minted: &[Minted],
    private: bool,
) -> Vec<String> {
    let allowed = |row: &&Row| row.decision.verdict == Verdict::Allow && row.decision.private == private;
    let scopes = tls.iter().chain(web).filter(allowed).filter_map(|row| match &row.scope {
        Scope::Below(base) if base.is_empty() => Some("#"),
        Scope::Below(base) => Some(base.as_str()),
        Scope::Host(name) => Some(name.as_str()),
        Scope::Addresses | Scope::Address(_) => None,
    });
    let named = routes.iter().filter(|route| route.private == private && route.address.is_none());
    // The router asks these itself, whether or not the agent may.
    let apis = minted.iter().filter(|one| one.private == private).map(|one| one.host.as_str());
    let all: BTreeSet<&str> = scopes.chain(named.map(|route| route.host.as_str())).chain(apis).collect();
    if all.contains("#") {
        return vec!["#".to_owned()];
    }
    let covered = |name: &str| std::iter::successors(parent(name), |name| parent(name)).any(|p| all.contains(p));
    all.iter().filter(|name| !covered(name)).map(|&name| name.to_owned()).collect()
}

/// The `server=` lines, for each domain all resolvers in the order given.
pub(super) fn servers(names: &[String], upstream: &[String]) -> Vec<String> {
    let lines = |name: &String| upstream.iter().map(|server| format!("server=/{name}/{server}")).collect::<Vec<_>>();
    names.iter().flat_map(lines).collect()
}
