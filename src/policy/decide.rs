//! The decision about a request.

use std::net::IpAddr;

use super::decision::{Decision, Reason, Tier, Verdict};
use super::host::HostName;
use super::rule::{Policy, Rule};

impl Policy {
    /// Decides about a TCP connection, given the host as the client named it (SNI, Host header, or the host of a named
    /// port) and the port. Needs no resolver; the address guard checks the resolved address later.
    pub fn decide(&self, host: &str, port: u16) -> Decision {
        match Subject::read(host) {
            Some(target) => self.decide_target(&target, port),
            None => Decision::deny(Reason::BadHost, None, port),
        }
    }

    pub(super) fn decide_target(&self, target: &Subject, port: u16) -> Decision {
        let deny = |reason, rule| Decision::deny(reason, rule, port);
        if let Some(rule) = self.denied_by(target, port) {
            return deny(Reason::Denied, Some(rule));
        }
        let owner = target.owner(&self.allow);
        let Some(first) = owner.first() else { return deny(Reason::NotAllowed, None) };
        // A rule that cannot be enforced must not permit anything: rules about requests apply to names on ports 80 and
        // 443.
        let name = target.name().filter(|_| matches!(port, 80 | 443));
        let covers = |rule: &&Rule| rule.covers_port(port) && (rule.request.is_none() || name.is_some());
        let owner_here: Vec<&Rule> = owner.iter().copied().filter(covers).collect();
        let plain = owner_here.iter().find(|rule| rule.request.is_none());
        let Some(rule) = plain.or(owner_here.first()) else {
            return deny(Reason::PortNotAllowed, Some(first));
        };
        let mut private = owner.iter().any(|r| r.private);
        let mut cap_here = None;
        if let Some(ceiling) = &self.ceiling {
            let cap = target.owner(ceiling);
            let here: Vec<&Rule> = cap.iter().copied().filter(covers).collect();
            if here.is_empty() {
                return deny(Reason::AboveCeiling, cap.first().copied());
            }
            private &= cap.iter().any(|r| r.private);
            cap_here = Some(here);
        }
        let inspection = name.and_then(|name| self.inspection(name, port, &owner_here, cap_here.as_deref()));
        let inspected = inspection.is_some() && port == 443;
        Decision {
            verdict: Verdict::Allow,
            reason: Reason::Allowed,
            rule: Some(rule.id.clone()),
            from: Some(rule.from.clone()),
            tier: if inspected { Tier::Inspected } else { Tier::of_port(port) },
            private,
            inspection,
        }
    }

    /// The server's most specific `deny` entry for it. An entry without ports denies all ports.
    fn denied_by(&self, target: &Subject, port: u16) -> Option<&Rule> {
        let hit = |r: &&Rule| r.ports.is_empty() || r.ports.contains(&port);
        match target {
            Subject::Name(name) => self.deny.matching(name).flatten().find(hit),
            Subject::Ip(address) => self.deny.owner_of_ip(*address).into_iter().find(hit),
        }
    }
}

/// What a request is about.
pub(super) enum Subject {
    Name(HostName),
    Ip(IpAddr),
}

impl Subject {
    /// The router has no IPv6, so IPv6 literals are not valid hosts.
    fn read(host: &str) -> Option<Self> {
        let address = host.parse::<std::net::Ipv4Addr>().ok();
        address.map(|four| Self::Ip(four.into())).or_else(|| HostName::from_wire(host).map(Self::Name))
    }

    fn name(&self) -> Option<&HostName> {
        match self {
            Self::Name(name) => Some(name),
            Self::Ip(_) => None,
        }
    }

    pub(super) fn owner<'a>(&self, set: &'a super::RuleSet) -> Vec<&'a Rule> {
        match self {
            Self::Name(name) => set.owner(name),
            Self::Ip(address) => set.owner_of_ip(*address),
        }
    }
}
