//! The router's, gate's and forwarder's files: everything of ours that runs beside the agent, from `templates/`.
//!
//! Invariant: every answer in these files is [`Policy::decide`]'s, asked at each name where decisions change
//! ([`Policy::table`]); nothing here judges a host itself. May depend on: `plan`, `policy`, `source`.

mod credentials;
mod dns;
mod github;
mod hosts;
mod inspect;
mod policy_file;
mod render;
mod tcp;

use anyhow::{Context as _, bail};
use serde_json::{Map, Value, json};

use super::{EmitError, File};
use crate::plan::SandboxNetwork;
use crate::policy::{Policy, Reason};

pub use policy_file::{pod_file, policy_file};

use credentials::Credentials;
use inspect::Asked;
use render::render;

/// What reads GraphQL, as it is.
const BODY_MODULES: [(&str, &str); 4] = [
    ("graphql.js", include_str!("../../templates/router/graphql.js")),
    ("graphql_document.js", include_str!("../../templates/router/graphql_document.js")),
    ("graphql_tokens.js", include_str!("../../templates/router/graphql_tokens.js")),
    ("json.js", include_str!("../../templates/router/json.js")),
];

/// Files mounted read-only at `/etc/sandboxc` in the router container; `sh /etc/sandboxc/entry.sh` runs it, and
/// `sh /etc/sandboxc/entry.sh ready` waits until it listens. Fails where the plan and the policy disagree, and for an
/// allowed address that the address guard refuses.
pub fn router_files(net: &SandboxNetwork, policy: &Policy) -> anyhow::Result<Vec<File>> {
    let tls = policy.table(443);
    let web = policy.table(80);
    tcp::check_addresses(net, policy, tls.iter().chain(&web))?;
    let routes = tcp::routes(net, policy)?;
    let upstream = upstream(net)?;
    let minted = github::minted(policy);
    let guarded = dns::resolver_names(&tls, &web, &routes, &minted, false);
    let private = dns::resolver_names(&tls, &web, &routes, &minted, true);
    let resolvers = json!({ "guarded": !guarded.is_empty(), "private": !private.is_empty() });
    let listeners = tcp::listeners(net, &routes, !guarded.is_empty(), !private.is_empty());
    let asked = Asked::of(tls.iter().chain(&web));
    let credentials = Credentials::of(policy, &tls)?;
    let inspected = inspect::inspected(&tls, &credentials);
    let bodies = asked.bodies() || credentials.reads();
    let (tls_map, web_map) = (hosts::map(&tls, &asked), hosts::map(&web, &asked));
    let nginx = json!({
        "router": net.router_address,
        "agent": net.agent_address,
        "hash": hosts::hash_sizes([&tls_map, &web_map]),
        "form": hosts::forms(),
        "resolvers": resolvers,
        "routes": routes,
        "asked": asked.any(),
        "bodies": bodies,
        "inspected": inspected,
        "minted": minted,
        "credentials": credentials.any(),
        "headers": credentials.headers(),
        "slots": credentials.slots(),
        "depths": inspect::depths(&tls),
        "log_query": net.log_query,
    });

    let dns = json!({ "router": net.router_address });
    let mut files = vec![
        table("dns.conf", "dns.conf", dns, &dns::lines(net, &tls, &web))?,
        file(
            "entry.sh",
            json!({ "resolvers": resolvers, "listeners": listeners, "inspected": inspected, "minted": minted }),
        )?,
        file("nginx.conf", nginx.clone())?,
        file("refusal.js", json!({ "reasons": reasons(), "credentials": credentials.any() }))?,
    ];
    if asked.any() {
        files.push(table("requests.conf", "requests.conf", json!({}), &asked.lines()?)?);
    }
    if bodies {
        let context = json!({ "asked": asked.bodies_json()?, "reads": credentials.reads() });
        files.push(file("inspect.js", context)?);
        files.extend(BODY_MODULES.map(|(name, text)| File::new(format!("router/{name}"), text)));
    }
    if credentials.any() {
        files.push(file("credentials.js", credentials.context())?);
        files.extend(credentials.modules());
    }
    if !inspected.is_empty() {
        files.push(file("inspected.conf", nginx)?);
    }
    if !minted.is_empty() {
        files.push(file("github.conf", json!({ "minted": minted }))?);
        files.extend(github::MODULES.map(|(name, text)| File::new(format!("router/{name}"), text)));
    }
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

/// Files mounted read-only at `/etc/sandboxc` in the gate and the forwarder.
pub fn forwarder_files(net: &SandboxNetwork, user_namespaces: bool) -> anyhow::Result<Vec<File>> {
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
        script("forwarder/forward.sh", include_str!("../../templates/forwarder/forward.sh").to_owned()),
        script("forwarder/gate.sh", render("forwarder/gate.sh", gate)?),
        script("forwarder/limits.sh", render("forwarder/limits.sh", json!({ "user_namespaces": user_namespaces }))?),
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

impl From<anyhow::Error> for EmitError {
    fn from(error: anyhow::Error) -> Self {
        Self::Internal(format!("{error:#}"))
    }
}
