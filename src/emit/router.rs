//! The router's, gate's and forwarder's files: everything of ours that runs beside the agent, from `templates/`.
//!
//! Invariant: every answer in these files is [`Policy::decide`]'s, asked at each name where decisions change
//! ([`Policy::table`]); nothing here judges a host itself. May depend on: `plan`, `policy`, `source`.

mod dns;
mod hosts;
mod render;
mod tcp;

use anyhow::{Context as _, bail};
use serde_json::{Map, Value, json};

use super::{EmitError, File};
use crate::plan::SandboxNetwork;
use crate::policy::{Policy, Reason, Rule, RuleSet};

use render::render;

/// Files mounted read-only at `/etc/sandboxc` in the router container; `sh /etc/sandboxc/entry.sh` runs it, and
/// `sh /etc/sandboxc/entry.sh ready` waits until it listens. Fails where the plan and the policy disagree, and for an
/// allowed address that the address guard refuses.
pub fn router_files(net: &SandboxNetwork, policy: &Policy) -> anyhow::Result<Vec<File>> {
    let tls = policy.table(443);
    let web = policy.table(80);
    tcp::check_addresses(net, policy, tls.iter().chain(&web))?;
    let routes = tcp::routes(net, policy)?;
    let upstream = upstream(net)?;
    let guarded = dns::resolver_names(&tls, &web, &routes, false);
    let private = dns::resolver_names(&tls, &web, &routes, true);
    let resolvers = json!({ "guarded": !guarded.is_empty(), "private": !private.is_empty() });
    let listeners = tcp::listeners(net, &routes, !guarded.is_empty(), !private.is_empty());
    let (tls_map, web_map) = (hosts::map(&tls), hosts::map(&web));
    let nginx = json!({
        "router": net.router_address,
        "agent": net.agent_address,
        "hash": hosts::hash_sizes([&tls_map, &web_map]),
        "form": hosts::forms(),
        "resolvers": resolvers,
        "routes": routes,
    });

    let dns = json!({ "router": net.router_address });
    let mut files = vec![
        table("dns.conf", "dns.conf", dns, &dns::lines(net, &tls, &web))?,
        file("entry.sh", json!({ "resolvers": resolvers, "listeners": listeners }))?,
        file("nginx.conf", nginx)?,
        file("refusal.js", json!({ "reasons": reasons() }))?,
    ];
    for (port, map) in [(443, tls_map), (80, web_map)] {
        files.push(table("hosts.map", &format!("hosts-{port}.map"), json!({ "port": port }), &map.lines)?);
    }
    for (private, names) in [(false, guarded), (true, private)] {
        if !names.is_empty() {
            let blocked = policy.blocked_addresses(private, &net.own_networks());
            let servers = dns::servers(&names, &upstream);
            let context = json!({ "private": private, "blocked": blocked });
            let name = if private { "resolver-private.conf" } else { "resolver.conf" };
            files.push(table("resolver.conf", name, context, &servers)?);
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// Refuses what the files would silently leave out: nothing in them looks into a connection yet.
pub(super) fn refuse_inspected(policy: &Policy) -> Result<(), EmitError> {
    let rules = [Some(&policy.allow), policy.ceiling.as_ref()].into_iter().flatten().flat_map(RuleSet::rules);
    let rule = rules.into_iter().find(|rule: &&Rule| rule.request.is_some());
    let what = match (rule, policy.credentials.first()) {
        (Some(rule), _) => format!("request rules of `{}` ({})", rule.pattern, rule.from.short()),
        (None, Some(credential)) => format!("the credential `{}` ({})", credential.name, credential.from.short()),
        (None, None) => return Ok(()),
    };
    Err(EmitError::CannotKeep { what, why: "the router of this version does not inspect yet; remove it".to_owned() })
}

/// Files mounted read-only at `/etc/sandboxc` in the gate and the forwarder.
pub fn forwarder_files(net: &SandboxNetwork) -> anyhow::Result<Vec<File>> {
    let router = net.router_address;
    let gate = json!({
        "agent": net.agent_address,
        "internal": net.internal.trunc(),
        "net_hex": tcp::kernel_hex(net.internal.network()),
        "mask_hex": tcp::kernel_hex(net.internal.netmask()),
    });
    let forwarder = json!({ "router": router, "forwards": tcp::forwards(net) });
    Ok(vec![
        File::new("forwarder/forwarder.conf", render("forwarder/forwarder.conf", forwarder)?),
        script("forwarder/gate.sh", render("forwarder/gate.sh", gate)?),
    ])
}

fn file(name: &str, context: Value) -> anyhow::Result<File> {
    let path = format!("router/{name}");
    let text = render(&path, context).with_context(|| format!("writing {path}"))?;
    Ok(if name == "entry.sh" { script(&path, text) } else { File::new(path, text) })
}

/// A file whose last part is one line for each name: thousands, so they do not pass through the template.
fn table(template: &str, name: &str, context: Value, lines: &[String]) -> anyhow::Result<File> {
    let path = format!("router/{name}");
    let head = render(&format!("router/{template}"), context).with_context(|| format!("writing {path}"))?;
    let text = render::append(head, lines).with_context(|| format!("writing {path}"))?;
    Ok(File::new(path, text))
}

fn script(path: &str, text: String) -> File {
    File { executable: true, ..File::new(path, text) }
}

/// The IPv4 resolvers, in the order given: the pods have no IPv6.
fn upstream(net: &SandboxNetwork) -> anyhow::Result<Vec<String>> {
    let four: Vec<String> = net.upstream_dns.iter().filter(|a| a.is_ipv4()).map(ToString::to_string).collect();
    if four.is_empty() {
        bail!("network.upstream_dns names no IPv4 resolver, and the router has no IPv6");
    }
    Ok(four)
}

fn reasons() -> Map<String, Value> {
    let refusals = Reason::ALL.into_iter().filter(|reason| *reason != Reason::Allowed);
    refusals.map(|reason| (reason.code().to_owned(), json!({ "text": reason.text(), "hint": reason.hint() }))).collect()
}
