//! Entries of `allow`, `deny` and `ceiling`, and the lines of an allow file.
//!
//! Over-broad patterns are refused in `allow` only: in `deny` and `ceiling`, a wide pattern only restricts. An address
//! needs ports in `allow` and `ceiling`; in `deny`, an address without ports denies all ports.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::read::{self, Keys, fields, shorten};
use super::request;
use super::yaml::{Kind, Node};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::policy::{HostError, HostPattern, NEVER, RequestRule, WEB_PORTS, covered_ports, parse_pattern};
use crate::source::{FileId, Located, Span};

/// The list that an entry belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListKind {
    Allow,
    /// The allow file, whose lines cannot contain `broad`.
    AllowFile,
    Deny,
    Ceiling,
}

/// A checked entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) pattern: HostPattern,
    /// As in [`Rule::ports`](crate::policy::Rule): the only ports that it is about, unless it is empty.
    pub(super) ports: BTreeSet<u16>,
    /// Where `private: true` is written.
    pub(super) private: Option<Span>,
    pub(super) broad: bool,
    /// Its rules about requests, if any.
    pub(super) request: Option<RequestRule>,
    pub(super) span: Span,
}

impl Entry {
    /// The ports that an entry of `allow` or `ceiling` covers.
    pub(super) fn covered_ports(&self) -> BTreeSet<u16> {
        covered_ports(&self.pattern, &self.ports)
    }
}

pub(super) const ENTRY: Keys = Keys {
    what: "an entry",
    known: &[
        "host",
        "ports",
        "exact",
        "private",
        "broad",
        "methods",
        "paths",
        "graphql",
        "git",
        "upgrade",
        "pass_headers",
    ],
    elsewhere: &[
        ("port", "write `ports: [5432]`"),
        ("path", "write `paths: [/a/**]`"),
        ("method", "write `methods: [GET]`"),
    ],
};

/// Reads a list. Each valid entry comes with its index in the file.
pub(super) fn entries(node: &Node, what: &str, kind: ListKind, d: &mut Diagnostics) -> Vec<(usize, Entry)> {
    let items = read::list(node, what, d).iter().enumerate();
    items.filter_map(|(index, item)| Some((index, entry(item, kind, d)?))).collect()
}

pub(super) fn entry(node: &Node, kind: ListKind, d: &mut Diagnostics) -> Option<Entry> {
    let Kind::Map(_) = node.kind else {
        let text = match &node.kind {
            Kind::Null => None,
            _ => read::string(node, "an entry", d),
        };
        if node.is_null() {
            d.push(read::wrong_type(node, "an entry", "a host or a mapping").help("remove the empty `-`"));
        }
        return plain(&text?, kind, None, d);
    };
    let map = fields(node, &ENTRY, d);
    let request = match kind {
        ListKind::Deny => {
            refuse_in_deny(&map, d);
            None
        }
        _ => request::rule(&map, d),
    };
    let private = map.get("private").and_then(|n| read::boolean(n, "`private`", d)).filter(|p| p.value);
    let broad = map.get("broad").and_then(|n| read::boolean(n, "`broad`", d)).is_some_and(|b| b.value);
    let ports = map.get("ports").map(|n| ports(n, d));
    let exact = map.get("exact").and_then(|n| read::boolean(n, "`exact`", d)).filter(|e| e.value);
    let Some(host) = map.get("host") else {
        d.push(
            Diagnostic::new(Code::MissingKey, "the entry has no `host`")
                .at(node.span, "")
                .help("write `host: api.example.com`"),
        );
        return None;
    };
    let text = read::string(host, "`host`", d)?;
    let more = More {
        ports: ports.unwrap_or_default(),
        ports_span: map.key_span("ports"),
        exact: exact.and_then(|_| map.key_span("exact")),
        broad,
        entry: node.span,
    };
    let mut entry = plain(&text, kind, Some(more), d)?;
    entry.private = private.and_then(|_| map.key_span("private"));
    let first = request::KEYS.iter().filter_map(|key| map.key_span(key)).min();
    if let (Some(_), Some(span)) = (&request, first)
        && let Some(finding) = not_inspected(&entry, span, map.key_span("ports"))
    {
        d.push(finding);
        return None;
    }
    entry.request = request;
    Some(entry)
}

/// `deny` applies to whole hosts.
fn refuse_in_deny(map: &read::Fields<'_>, d: &mut Diagnostics) {
    for key in request::KEYS {
        if let Some(span) = map.key_span(key) {
            d.push(
                Diagnostic::new(
                    Code::NotEnforceable,
                    format!("`deny` applies to whole hosts, so `{key}` has no effect"),
                )
                .at(span, "")
                .help("list what is permitted instead: add the host with its rules to `ceiling` or `allow`"),
            );
        }
    }
}

/// Why requests of an entry cannot be inspected, if so. The router decrypts names on port 443 and reads HTTP on port
/// 80.
fn not_inspected(entry: &Entry, rule: Span, ports: Option<Span>) -> Option<Diagnostic> {
    let finding = |message: &str| Diagnostic::new(Code::NotEnforceable, message).at(rule, "cannot be enforced");
    let wide = "no certificate covers this many hosts, so their requests cannot be inspected";
    match &entry.pattern {
        HostPattern::Ip(_) => Some(
            finding("requests to an address cannot be inspected")
                .help("use a host name; request rules apply to names on ports 80 and 443"),
        ),
        _ if entry.ports.iter().any(|port| !WEB_PORTS.contains(port)) => Some(
            finding("requests on a named port cannot be inspected")
                .at(ports.unwrap_or(entry.span), "ports other than 80 and 443")
                .help("remove the port; request rules apply to ports 80 and 443 only, and a second entry without rules would permit every request"),
        ),
        HostPattern::Suffix(base) | HostPattern::Subdomains(base) if !base.contains('.') => {
            Some(finding(wide).help("list the hosts, or use a suffix with at least two labels"))
        }
        _ => None,
    }
}

/// What the mapping form of an entry says besides the host.
pub(super) struct More {
    ports: BTreeSet<u16>,
    ports_span: Option<Span>,
    /// Where `exact: true` is written.
    exact: Option<Span>,
    broad: bool,
    entry: Span,
}

fn ports(node: &Node, d: &mut Diagnostics) -> BTreeSet<u16> {
    let read_one = |item: &Node| {
        let Kind::Int(value) = item.kind else {
            return read::whole(item, "a port", 1..=65535, d).and_then(|p| u16::try_from(p.value).ok());
        };
        let port = u16::try_from(value).ok().filter(|&p| p != 0);
        if port.is_none() {
            let finding = Diagnostic::new(Code::BadPort, format!("`{value}` is not a port"));
            d.push(finding.at(item.span, "").help("a port is a number from 1 to 65535"));
        }
        port
    };
    let mut findings = Diagnostics::new();
    let items = read::list(node, "`ports`", &mut findings);
    if matches!(&node.kind, Kind::Seq(items) if items.is_empty()) {
        findings.push(
            Diagnostic::new(Code::BadPort, "`ports` is empty")
                .at(node.span, "")
                .help("list the ports, or remove `ports`: an entry without it is about ports 80 and 443, or in `deny` about every port"),
        );
    }
    let ports = items.iter().filter_map(read_one).collect();
    d.append(findings);
    ports
}

/// Reads `host` or `host:port`, and checks it for its list.
pub(super) fn plain(text: &Located<String>, kind: ListKind, more: Option<More>, d: &mut Diagnostics) -> Option<Entry> {
    let (pattern, port) = match parse_pattern(&text.value) {
        Ok(parsed) => parsed,
        Err(error) => {
            d.push(host_error(&error, text.span));
            return None;
        }
    };
    let mapped = more.is_some();
    let none = More { ports: BTreeSet::new(), ports_span: None, exact: None, broad: false, entry: text.span };
    let More { mut ports, ports_span, exact, broad: means_broad, entry: span } = more.unwrap_or(none);
    ports.extend(port);
    if let Some(finding) = exact.and_then(|span| exact_without_effect(span, kind, &ports)) {
        d.push(finding);
        return None;
    }
    if kind != ListKind::Deny && exact.is_none() {
        add_web_ports(&pattern, &mut ports);
    }
    let entry = Entry { pattern, ports, private: None, broad: means_broad, request: None, span };
    let gives = matches!(kind, ListKind::Allow | ListKind::AllowFile);
    let many = matches!(entry.pattern, HostPattern::Suffix(_) | HostPattern::Subdomains(_));
    if let Some(finding) = address(&entry, kind, text) {
        d.push(finding);
        return None;
    }
    if let Some(finding) = host_alias(&entry, text).filter(|_| gives) {
        d.push(finding);
        return None;
    }
    if many && gives && entry.ports.iter().any(|port| !WEB_PORTS.contains(port)) {
        let error = HostError::PortOnMany(text.value.clone());
        d.push(host_error(&error, ports_span.unwrap_or(text.span)).at(text.span, "matches many hosts"));
        return None;
    }
    let broad_here = gives && !entry.broad && !operated(&entry.pattern);
    if let Some(reason) = entry.pattern.broad_reason().filter(|_| broad_here) {
        d.push(broad(text, &reason, kind, mapped));
        return None;
    }
    Some(entry)
}

/// A named port is added to 80 and 443, unless only those are named: then the others of them stay closed.
fn add_web_ports(pattern: &HostPattern, ports: &mut BTreeSet<u16>) {
    if ports.iter().any(|port| !WEB_PORTS.contains(port)) {
        ports.extend(pattern.web_ports());
    }
}

/// The finding for an `exact: true` that changes nothing, or closes everything.
fn exact_without_effect(span: Span, kind: ListKind, ports: &BTreeSet<u16>) -> Option<Diagnostic> {
    if kind == ListKind::Deny {
        let message = "`deny` is always about the listed ports only, so `exact` has no effect";
        return Some(Diagnostic::new(Code::NotEnforceable, message).at(span, "").help("remove `exact`"));
    }
    let message = "an entry with `exact: true` needs `ports`, since it opens nothing else";
    let finding = || Diagnostic::new(Code::BadPort, message).at(span, "");
    ports.is_empty().then(|| finding().help("add the ports, e.g. `ports: [5432]`, or remove `exact`"))
}

/// Why an entry can never open a loopback, link-local or multicast address.
pub(super) const UNREACHABLE: &str =
    "remove the entry: loopback, link-local, multicast and this host's own addresses always stay closed";

/// Names that podman and Docker give the host. The router only resolves public names, and no sandbox can reach the
/// host.
const HOST_ALIASES: [&str; 2] = ["containers.internal", "docker.internal"];

/// The finding for an entry that only matches names of the host, such as `host.containers.internal`.
fn host_alias(entry: &Entry, text: &Located<String>) -> Option<Diagnostic> {
    let base = match &entry.pattern {
        HostPattern::Exact(name) => name.as_str(),
        HostPattern::Suffix(base) | HostPattern::Subdomains(base) => base,
        HostPattern::Ip(_) => return None,
    };
    let is_alias = HOST_ALIASES
        .iter()
        .any(|zone| base == *zone || base.strip_suffix(zone).is_some_and(|rest| rest.ends_with('.')));
    is_alias.then(|| {
        let message =
            format!("`{}` can never be reached: it names the host, and sandboxes cannot reach the host", entry.pattern);
        Diagnostic::new(Code::BadHost, message)
            .at(text.span, "")
            .help("remove the entry; run the service inside the sandbox, or on a machine with a name of its own")
    })
}

fn address(entry: &Entry, kind: ListKind, text: &Located<String>) -> Option<Diagnostic> {
    let HostPattern::Ip(address) = entry.pattern else { return None };
    if let IpAddr::V6(six) = address {
        let finding =
            Diagnostic::new(Code::BadHost, format!("`{six}` is an IPv6 address, and IPv6 is off in the sandbox"));
        return Some(finding.at(text.span, "").help("name the host, or give its IPv4 address with a port"));
    }
    if kind != ListKind::Deny && NEVER.iter().any(|never| never.contains(&address)) {
        let finding = Diagnostic::new(Code::BadHost, format!("`{address}` can never be reached from a sandbox"));
        return Some(finding.at(text.span, "").help(UNREACHABLE));
    }
    if entry.ports.is_empty() && kind != ListKind::Deny {
        let finding = Diagnostic::new(Code::IpNeedsPort, format!("the address `{address}` needs a named port"));
        let help = format!("write `{address}:5432`, or `{{host: {address}, ports: [5432]}}`");
        return Some(finding.at(text.span, "").help(help));
    }
    None
}

/// Names that are on the public suffix list for cookies only. One operator controls all hosts below them, so the reason
/// to refuse public suffixes does not apply.
const OPERATED: [&str; 1] = ["githubusercontent.com"];

fn operated(pattern: &HostPattern) -> bool {
    matches!(pattern, HostPattern::Suffix(base) | HostPattern::Subdomains(base) if OPERATED.contains(&base.as_str()))
}

fn broad(text: &Located<String>, reason: &str, kind: ListKind, mapped: bool) -> Diagnostic {
    let shown = shorten(&text.value);
    let finding = Diagnostic::new(Code::BroadHost, format!("`{shown}` is over-broad: {reason}")).at(text.span, "");
    let finding = finding.help("list the hosts you need");
    if mapped {
        return finding.help("or add `broad: true` to the entry if you mean every host it matches");
    }
    if kind == ListKind::AllowFile {
        return finding
            .help("or allow it in the server file's `network`, with `broad: true`, if you mean every host it matches");
    }
    finding.help(format!("or write `{{host: \"{shown}\", broad: true}}` if you mean every host it matches"))
}

pub(super) fn host_error(error: &HostError, span: Span) -> Diagnostic {
    let code = match error {
        HostError::Cidr(_) => Code::Cidr,
        HostError::Port(_) | HostError::PortOnMany(_) => Code::BadPort,
        _ => Code::BadHost,
    };
    Diagnostic::new(code, shorten_message(&error.to_string())).at(span, "").help(error.help())
}

/// Patterns in messages come from strangers and may be long.
fn shorten_message(text: &str) -> String {
    if text.chars().count() <= 200 {
        return text.to_owned();
    }
    text.chars().take(197).chain("...".chars()).collect()
}

/// Reads an allow file: one `host`, `.suffix` or `host:port` per line, with `#` comments. Each entry comes with its
/// line.
pub(super) fn allow_file(file: FileId, text: &str, d: &mut Diagnostics) -> Vec<(usize, Entry)> {
    let mut entries = Vec::new();
    let mut offset = 0;
    for (index, line) in text.split('\n').enumerate() {
        let content = line.split('#').next().unwrap_or("");
        let word = content.trim();
        let start = offset + content.len() - content.trim_start().len();
        let span = Span { file, start, end: start + word.len() };
        if word.contains(char::is_whitespace) {
            d.push(
                Diagnostic::new(Code::BadHost, "more than one word on a line")
                    .at(span, "")
                    .help("write one host per line; comments start with `#`"),
            );
        } else if !word.is_empty() {
            let located = Located::new(word.to_owned(), span);
            entries.extend(plain(&located, ListKind::AllowFile, None, d).map(|entry| (index + 1, entry)));
        }
        offset += line.len() + 1;
    }
    entries
}
