//! Addresses and rules: the server's network values, and the policy that both files form.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use ipnet::{IpNet, Ipv4Net};

use super::entry::{Entry, UNREACHABLE};
use super::read::{self, shorten};
use super::yaml::Node;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::policy::{HostPattern, MOST_NAMED_PORTS, NEVER, Policy, Rule, RuleId, RuleSet, SPECIAL};
use crate::source::{Located, SourceMap, Span};

/// The default pool of sessions' networks.
pub(super) const POOL: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(10, 213, 0, 0), 16);

/// An entry and its name.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) id: RuleId,
    pub(super) entry: Entry,
}

/// Names entries after their list: `repo.allow[2]`.
pub(super) fn named<'a>(list: &'a str, entries: &'a [(usize, Entry)]) -> impl Iterator<Item = Named> + 'a {
    entries
        .iter()
        .map(move |(index, entry)| Named { id: RuleId::new(&format!("{list}[{index}]")), entry: entry.clone() })
}

/// Everything that decides about egress, as entries.
#[derive(Clone, Debug, Default)]
pub(super) struct Lists {
    pub(super) allow: Vec<Named>,
    pub(super) deny: Vec<Named>,
    pub(super) ceiling: Option<Located<Vec<Named>>>,
}

impl Lists {
    /// The policy.
    pub(super) fn policy(&self, reachable: &[Located<IpNet>], sources: &SourceMap) -> Policy {
        Policy {
            allow: rules(&self.allow, sources),
            deny: rules(&self.deny, sources),
            ceiling: self.ceiling.as_ref().map(|c| rules(&c.value, sources)),
            reachable: IpNet::aggregate(&reachable.iter().map(|l| l.value).collect::<Vec<_>>()),
            credentials: Vec::new(),
        }
    }
}

fn rules(entries: &[Named], sources: &SourceMap) -> RuleSet {
    let rule = |named: &Named| Rule {
        id: named.id.clone(),
        pattern: named.entry.pattern.clone(),
        ports: named.entry.ports.clone(),
        private: named.entry.private.is_some(),
        request: named.entry.request.clone(),
        from: sources.place(named.entry.span),
    };
    RuleSet::new(entries.iter().map(rule).collect())
}

fn bad(message: impl Into<String>, span: Span, help: impl Into<String>) -> Diagnostic {
    Diagnostic::new(Code::BadValue, message).at(span, "").help(help)
}

fn overlap(a: IpNet, b: IpNet) -> bool {
    a.contains(&b.network()) || b.contains(&a.network())
}

/// Reads `pool`: a block of private IPv4 addresses, at least a /24.
pub(super) fn pool(node: &Node, d: &mut Diagnostics) -> Option<Located<Ipv4Net>> {
    let text = read::string(node, "`pool`", d)?;
    let help = "write a private IPv4 block from /8 to /24, e.g. `10.213.0.0/16`";
    let Ok(net) = text.value.parse::<Ipv4Net>() else {
        d.push(bad(format!("`{}` is not an IPv4 block", shorten(&text.value)), text.span, help));
        return None;
    };
    let block = IpNet::V4(net);
    let private = SPECIAL.iter().any(|s| s.contains(&block)) && !NEVER.iter().any(|n| overlap(*n, block));
    let problem = match net {
        _ if net.addr() != net.network() => Some("has bits set outside its prefix"),
        _ if !(8..=24).contains(&net.prefix_len()) => Some("is too small or too large"),
        _ if !private => Some("is not private"),
        _ => None,
    };
    if let Some(problem) = problem {
        d.push(bad(format!("the pool `{net}` {problem}"), text.span, help));
        return None;
    }
    Some(Located::new(net, text.span))
}

/// Reads `upstream_dns`.
pub(super) fn resolvers(node: &Node, d: &mut Diagnostics) -> Vec<Located<IpAddr>> {
    let mut all = Vec::new();
    for item in read::list(node, "`upstream_dns`", d) {
        let Some(text) = read::string(item, "a resolver", d) else { continue };
        let shown = shorten(&text.value);
        let help = "write the IPv4 address of a resolver that the router can reach, e.g. `9.9.9.9`";
        match text.value.parse::<IpAddr>() {
            Err(_) => d.push(bad(format!("`{shown}` is not an address"), text.span, help)),
            Ok(IpAddr::V6(_)) => {
                d.push(bad(format!("`{shown}` is an IPv6 address, and the router has no IPv6"), text.span, help));
            }
            Ok(IpAddr::V4(v4)) if v4.is_loopback() || v4.is_unspecified() || v4.is_multicast() || v4.is_broadcast() => {
                d.push(bad(format!("`{shown}` means something else inside the router"), text.span, help));
            }
            Ok(address) => all.push(Located::new(address, text.span)),
        }
    }
    all
}

/// Reads `reachable`.
pub(super) fn reachable(node: &Node, d: &mut Diagnostics) -> Vec<Located<IpNet>> {
    let mut all = Vec::new();
    for item in read::list(node, "`reachable`", d) {
        let Some(text) = read::string(item, "a block", d) else { continue };
        match block(&text.value) {
            Ok(net) => all.push(Located::new(net, text.span)),
            Err((problem, help)) => d.push(bad(format!("`{}` {problem}", shorten(&text.value)), text.span, help)),
        }
    }
    all
}

/// Reads an IPv4 block for `reachable`, or returns what is wrong with it and what to write instead.
fn block(text: &str) -> Result<IpNet, (String, String)> {
    let wrong = |problem: &str, help: String| Err((problem.to_owned(), help));
    let net = match (text.parse::<IpNet>(), text.parse::<IpAddr>()) {
        (Ok(IpNet::V6(_)), _) | (_, Ok(IpAddr::V6(_))) => {
            return wrong("is IPv6, and the router has no IPv6", "write an IPv4 block".to_owned());
        }
        (Err(_), Ok(address)) => return wrong("has no prefix", format!("write `{address}/32`")),
        (Err(_), Err(_)) => return wrong("is not an address block", "write e.g. `10.20.0.0/16`".to_owned()),
        (Ok(net), _) => net,
    };
    if net.addr() != net.network() {
        return wrong("has bits set outside its prefix", format!("write `{}`", net.trunc()));
    }
    if let Some(never) = NEVER.iter().find(|never| overlap(**never, net)) {
        let help = "exclude loopback, link-local, multicast and reserved addresses".to_owned();
        return wrong(&format!("overlaps {never}, which is never reachable"), help);
    }
    Ok(net)
}

/// Reports the entry that exceeds the number of ports that a router can listen on.
fn too_many_ports(lists: &Lists, d: &mut Diagnostics) {
    let mut pairs = BTreeSet::new();
    for Named { entry, .. } in &lists.allow {
        if matches!(entry.pattern, HostPattern::Exact(_) | HostPattern::Ip(_)) {
            // Ports 80 and 443 of a name use the web listeners.
            let web = |port: u16| matches!(port, 80 | 443) && matches!(entry.pattern, HostPattern::Exact(_));
            pairs.extend(entry.ports.iter().filter(|port| !web(**port)).map(|port| (&entry.pattern, *port)));
        }
        if pairs.len() > MOST_NAMED_PORTS {
            let message = format!("more than {MOST_NAMED_PORTS} named ports, which one router cannot listen for");
            let help = "remove ports that are not needed; ports 80 and 443 need no number";
            d.push(
                Diagnostic::new(Code::NotEnforceable, message)
                    .at(entry.span, "this entry exceeds the limit")
                    .help(help),
            );
            return;
        }
    }
}

/// Checks that need several values: `reachable` against the pool, and addresses in `allow` against the guard, so that
/// no entry is accepted that the router would refuse. Returns the entries that nothing can open.
pub(super) fn check(lists: &Lists, reachable: &[Located<IpNet>], pool: Ipv4Net, d: &mut Diagnostics) -> Vec<Span> {
    too_many_ports(lists, d);
    let own = IpNet::V4(pool);
    for net in reachable.iter().filter(|net| overlap(net.value, own)) {
        let message = format!("`{}` overlaps {own}, which sessions' own networks are cut from", net.value);
        d.push(bad(message, net.span, "remove it, or set `network.pool` to another private block"));
    }
    let reachable: Vec<IpNet> = reachable.iter().map(|l| l.value).collect();
    check_guard(lists, &reachable, &[own], d)
}

/// Checks addresses in `allow` against the guard. `own` are the networks that sessions use. Returns the entries that
/// nothing can open.
pub(super) fn check_guard(lists: &Lists, reachable: &[IpNet], own: &[IpNet], d: &mut Diagnostics) -> Vec<Span> {
    let guard = Policy { reachable: reachable.to_vec(), ..Policy::default() };
    let (blocked, never) = (guard.blocked_addresses(false, own), guard.blocked_addresses(true, own));
    let holds = |nets: &[IpNet], address: IpAddr| nets.iter().any(|net| net.contains(&address));
    let mut closed = Vec::new();
    for Named { id, entry } in &lists.allow {
        let HostPattern::Ip(address) = entry.pattern else { continue };
        if holds(&never, address) {
            closed.push(entry.span);
            let finding = Diagnostic::new(Code::BadHost, format!("`{address}` can never be reached from a sandbox"));
            d.push(finding.at(entry.span, "").help(UNREACHABLE));
        } else if entry.private.is_none() && holds(&blocked, address) {
            let ports: BTreeSet<String> = entry.ports.iter().map(u16::to_string).collect();
            let ports = ports.into_iter().collect::<Vec<_>>().join(", ");
            let finding = Diagnostic::new(
                Code::BadHost,
                format!("`{address}` is not a public address, so the router would refuse it"),
            );
            let word =
                if id.as_str().starts_with("repo.") { " and name it in the server's `allow_private`" } else { "" };
            d.push(finding.at(entry.span, "").help(format!(
                "write `{{host: {address}, ports: [{ports}], private: true}}`{word}, or add its block to the server's `reachable`"
            )));
        }
    }
    closed
}
