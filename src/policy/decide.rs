//! The one decision about a request.

use std::net::IpAddr;

use serde::Serialize;

use super::host::HostName;
use super::rule::{Policy, Rule, RuleId};
use crate::source::Place;

/// Allowed or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The router lets it pass.
    Allow,
    /// The router refuses it.
    Deny,
}

/// Which part of the router carries a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// Port 443: routed by the SNI of the `ClientHello`, not decrypted.
    Passthrough,
    /// Port 80: routed by the Host header.
    Http,
    /// A named port: a router port of its own that leads to one host and port.
    Tcp,
}

impl Tier {
    /// The tier of a port.
    pub const fn of_port(port: u16) -> Self {
        match port {
            443 => Self::Passthrough,
            80 => Self::Http,
            _ => Self::Tcp,
        }
    }

    /// Its name in logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Passthrough => "passthrough",
            Self::Http => "http",
            Self::Tcp => "tcp",
        }
    }
}

/// Why; the code is stable and the same in `explain`, the router's tables and the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// A rule permits it.
    Allowed,
    /// The name is missing, has one label, or is neither LDH nor an IPv4 address.
    BadHost,
    /// Port 443: the first bytes are no TLS `ClientHello`. Never the answer of [`Policy::decide`].
    NotTls,
    /// Port 80: not a request that is forwarded. Never the answer of [`Policy::decide`].
    BadRequest,
    /// No `allow` entry matches.
    NotAllowed,
    /// The owner of the host does not name this port.
    PortNotAllowed,
    /// A server `deny` matches.
    Denied,
    /// The server's `ceiling` does not match.
    AboveCeiling,
    /// The name did not resolve, or to an address that the guard refuses.
    AddressRefused,
    /// Allowed and resolved, but the host did not answer. Never the answer of [`Policy::decide`].
    UpstreamFailed,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Self; 10] = [
        Self::Allowed,
        Self::BadHost,
        Self::NotTls,
        Self::BadRequest,
        Self::NotAllowed,
        Self::PortNotAllowed,
        Self::Denied,
        Self::AboveCeiling,
        Self::AddressRefused,
        Self::UpstreamFailed,
    ];

    /// The stable code.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::BadHost => "bad-host",
            Self::NotTls => "not-tls",
            Self::BadRequest => "bad-request",
            Self::NotAllowed => "not-allowed",
            Self::PortNotAllowed => "port-not-allowed",
            Self::Denied => "denied",
            Self::AboveCeiling => "above-ceiling",
            Self::AddressRefused => "address-refused",
            Self::UpstreamFailed => "upstream-failed",
        }
    }

    /// For people.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Allowed => "an allow entry matches",
            Self::BadHost => "the host is missing or not a full host name",
            Self::NotTls => "the connection does not start with a TLS ClientHello",
            Self::BadRequest => "the request is malformed or of a kind that is not forwarded",
            Self::NotAllowed => "no allow entry matches this host",
            Self::PortNotAllowed => "the entry for this host does not name this port",
            Self::Denied => "the server's deny list names it",
            Self::AboveCeiling => "the server's ceiling does not include it",
            Self::AddressRefused => "the name does not resolve to an address that may be reached",
            Self::UpstreamFailed => "the host is allowed but did not answer",
        }
    }

    /// What the reader of a denial can do.
    pub const fn hint(self) -> &'static str {
        match self {
            Self::Allowed => "",
            Self::BadHost => "use the full name of the host",
            Self::NotTls => "port 443 carries TLS only; name another port as `host:port` in network.allow",
            Self::BadRequest => {
                "send a plain HTTP/1.1 request in origin form (`GET /path` with one Host header); HTTPS needs no proxy"
            }
            Self::NotAllowed => "add the host to network.allow in .sandboxc/sandbox.yaml",
            Self::PortNotAllowed => "add `host:port` to network.allow in .sandboxc/sandbox.yaml",
            Self::Denied | Self::AboveCeiling => "ask the owner of this machine: the server config forbids it",
            Self::AddressRefused => {
                "if the host is meant to be private, say `private: true` on its entry or name its range in the \
                 server's network.reachable"
            }
            Self::UpstreamFailed => "try again later",
        }
    }
}

/// The answer, and everything a reader needs to check it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// Allowed or not.
    pub verdict: Verdict,
    /// Why.
    pub reason: Reason,
    /// The rule that settled it; none if nothing matched.
    pub rule: Option<RuleId>,
    /// Where that rule stands.
    pub from: Option<Place>,
    /// Which part of the router it concerns.
    pub tier: Tier,
    /// The names may resolve to special-purpose addresses.
    pub private: bool,
}

impl Decision {
    pub(super) fn deny(reason: Reason, rule: Option<&Rule>, port: u16) -> Self {
        Self {
            verdict: Verdict::Deny,
            reason,
            rule: rule.map(|r| r.id.clone()),
            from: rule.map(|r| r.from.clone()),
            tier: Tier::of_port(port),
            private: false,
        }
    }
}

impl Policy {
    /// Decides about one TCP connection, from the host as the client named it (SNI, Host header, or the host of a
    /// named port) and the port. Needs no resolver; the address guard comes after it.
    pub fn decide(&self, host: &str, port: u16) -> Decision {
        match Target::read(host) {
            Some(target) => self.decide_target(&target, port),
            None => Decision::deny(Reason::BadHost, None, port),
        }
    }

    pub(super) fn decide_target(&self, target: &Target, port: u16) -> Decision {
        let deny = |reason, rule| Decision::deny(reason, rule, port);
        if let Some(rule) = self.denied_by(target, port) {
            return deny(Reason::Denied, Some(rule));
        }
        let owner = target.owner(&self.allow);
        let Some(first) = owner.first() else { return deny(Reason::NotAllowed, None) };
        let Some(rule) = owner.iter().find(|r| r.covers_port(port)) else {
            return deny(Reason::PortNotAllowed, Some(first));
        };
        let mut private = owner.iter().any(|r| r.private);
        if let Some(ceiling) = &self.ceiling {
            let cap = target.owner(ceiling);
            if !cap.iter().any(|r| r.covers_port(port)) {
                return deny(Reason::AboveCeiling, cap.first().copied());
            }
            private &= cap.iter().any(|r| r.private);
        }
        Decision {
            verdict: Verdict::Allow,
            reason: Reason::Allowed,
            rule: Some(rule.id.clone()),
            from: Some(rule.from.clone()),
            tier: Tier::of_port(port),
            private,
        }
    }

    /// The server `deny` entry that covers it, most specific first. One without ports forbids every port.
    fn denied_by(&self, target: &Target, port: u16) -> Option<&Rule> {
        let hit = |r: &&Rule| r.ports.is_empty() || r.ports.contains(&port);
        match target {
            Target::Name(name) => self.deny.matching(name).flatten().find(hit),
            Target::Ip(address) => self.deny.owner_of_ip(*address).into_iter().find(hit),
        }
    }
}

/// What a request is about.
pub(super) enum Target {
    Name(HostName),
    Ip(IpAddr),
}

impl Target {
    /// IPv6 literals are no host here: the router has no IPv6.
    fn read(host: &str) -> Option<Self> {
        let address = host.parse::<std::net::Ipv4Addr>().ok();
        address.map(|four| Self::Ip(four.into())).or_else(|| HostName::from_wire(host).map(Self::Name))
    }

    fn owner<'a>(&self, set: &'a super::RuleSet) -> Vec<&'a Rule> {
        match self {
            Self::Name(name) => set.owner(name),
            Self::Ip(address) => set.owner_of_ip(*address),
        }
    }
}
