//! Name server tables: what the agent may resolve, and what the router's own resolvers may ask for.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use serde::Serialize;

use super::tcp::Route;
use crate::plan::SandboxNetwork;
use crate::policy::{Row, Scope, Verdict};

/// One `local=`/`address=` pair of dnsmasq: `x` is a name and everything below, `*.x` everything below alone, `#` every
/// name. The longest match holds. Without an address it is NXDOMAIN.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Line {
    domain: String,
    address: Option<Ipv4Addr>,
    from: Option<String>,
}

/// What a name resolves to, and where that was said.
type Answer = (Option<Ipv4Addr>, Option<String>);

#[derive(Default)]
struct Node {
    apex: Option<Answer>,
    below: Option<Answer>,
}

/// The agent-facing lines. A name resolves iff it may be reached on 443 or 80, or has a named port. (The two tables have
/// the same scopes.)
pub(super) fn lines(net: &SandboxNetwork, tls: &[Row], web: &[Row]) -> Vec<Line> {
    let mut nodes: BTreeMap<&str, Node> = BTreeMap::new();
    for (tls, web) in tls.iter().zip(web) {
        let decision = if tls.decision.verdict == Verdict::Allow { &tls.decision } else { &web.decision };
        let address = (decision.verdict == Verdict::Allow).then_some(net.web_loopback);
        let answer = (address, decision.from.as_ref().map(crate::source::Place::short));
        match &tls.scope {
            Scope::Below(base) => nodes.entry(base).or_default().below = Some(answer),
            Scope::Host(name) => nodes.entry(name.as_str()).or_default().apex = Some(answer),
            // An address is no name; one with a named port has a name of its own.
            Scope::Address(_) => {}
        }
    }
    for route in &net.tcp {
        nodes.entry(&route.name).or_default().apex = Some((Some(route.loopback), Some(route.from.short())));
    }
    nodes.iter().flat_map(|(name, node)| node_lines(name, node, inherited(&nodes, name))).collect()
}

fn node_lines(name: &str, node: &Node, inherited: Option<Ipv4Addr>) -> Vec<Line> {
    let line = |domain: String, (address, from): Answer| Line { domain, address, from };
    let below = node.below.clone().unwrap_or((inherited, None));
    if name.is_empty() {
        // `local=/#/` stands in the template.
        return below.0.is_some().then(|| line("#".to_owned(), below)).into_iter().collect();
    }
    let subdomains = format!("*.{name}");
    match &node.apex {
        Some(apex) if apex.0 == below.0 && below.0 == inherited => Vec::new(),
        Some(apex) if apex.0 == below.0 => vec![line(name.to_owned(), apex.clone())],
        Some(apex) => vec![line(name.to_owned(), apex.clone()), line(subdomains, below)],
        None if below.0 == inherited => Vec::new(),
        None => vec![line(subdomains, below)],
    }
}

/// What a name would resolve to if no line named it: the answer below its nearest parent.
fn inherited(nodes: &BTreeMap<&str, Node>, name: &str) -> Option<Ipv4Addr> {
    let parents = std::iter::successors(parent(name), |name| parent(name));
    parents.filter_map(|parent| nodes.get(parent)?.below.as_ref()).next().and_then(|below| below.0)
}

fn parent(name: &str) -> Option<&str> {
    if name.is_empty() { None } else { Some(name.split_once('.').map_or("", |(_, parent)| parent)) }
}

/// The domains that one of the resolvers may ask for (each with everything below, since dnsmasq knows no exact
/// `server=`; nginx asks for allowed names only). `#` is every name.
pub(super) fn resolver_names(tls: &[Row], web: &[Row], routes: &[Route], private: bool) -> Vec<String> {
    let allowed = |row: &&Row| row.decision.verdict == Verdict::Allow && row.decision.private == private;
    let scopes = tls.iter().chain(web).filter(allowed).filter_map(|row| match &row.scope {
        Scope::Below(base) if base.is_empty() => Some("#"),
        Scope::Below(base) => Some(base.as_str()),
        Scope::Host(name) => Some(name.as_str()),
        Scope::Address(_) => None,
    });
    let named = routes.iter().filter(|route| route.private == private && route.address.is_none());
    let all: BTreeSet<&str> = scopes.chain(named.map(|route| route.host.as_str())).collect();
    if all.contains("#") {
        return vec!["#".to_owned()];
    }
    let covered = |name: &str| std::iter::successors(parent(name), |name| parent(name)).any(|p| all.contains(p));
    all.iter().filter(|name| !covered(name)).map(|&name| name.to_owned()).collect()
}
