//! The answer about a request: verdict, reason, and what else must hold.

use serde::Serialize;

use super::rule::{Rule, RuleId};
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
    /// Port 443: decrypted with the session's CA, since rules about requests or credentials concern the host.
    Inspected,
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
            Self::Inspected => "inspected",
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
    /// The name leads to an address that the guard refuses.
    AddressRefused,
    /// The name does not resolve to any address. Never the answer of [`Policy::decide`].
    NoAddress,
    /// The name has IPv6 addresses alone. Never the answer of [`Policy::decide`].
    Ipv6Only,
    /// No resolver answered, or none that would. Never the answer of [`Policy::decide`].
    ResolverFailed,
    /// Allowed and resolved, but the host did not answer. Never the answer of [`Policy::decide`].
    UpstreamFailed,
    /// The host took the connection and said nothing for too long. Never the answer of [`Policy::decide`].
    UpstreamTimeout,
    /// The host's certificate is not for it, or of nobody that the router trusts. Never the answer of [`Policy::decide`].
    UpstreamUntrusted,
    /// The host's answer is no HTTP, or has two readings. Never the answer of [`Policy::decide`].
    UpstreamMalformed,
    /// The head of the host's answer is larger than the router takes. Never the answer of [`Policy::decide`].
    UpstreamHeadTooLarge,
    /// The host's answer could not be cleared of credentials. Never the answer of [`Policy::decide`].
    UpstreamUnreadable,
    /// The router holds as much as it can. Never the answer of [`Policy::decide`].
    RouterFull,
    /// The path has no safe canonical form.
    BadPath,
    /// The path's entries do not name the method.
    MethodNotAllowed,
    /// No entry names the path.
    PathNotAllowed,
    /// The path's entries do not let a connection go on in another protocol.
    UpgradeNotAllowed,
    /// A top-level field or the operation's type is not on the list.
    GraphqlNotAllowed,
    /// A body that a rule reads is not what it can read.
    BadBody,
    /// A body that must be read whole is larger than the cap.
    BodyTooLarge,
    /// SNI and Host or `:authority` are not one name.
    Misdirected,
    /// Inspected suffix entries reach one label below their base: a certificate's wildcard covers no more.
    TooDeep,
    /// A surrogate where its credential has no business.
    Leak,
    /// A header of a scoped credential holds something else than its surrogate.
    ForeignCredential,
    /// A credential header is there twice.
    DuplicateCredential,
    /// The router has no valid token at the moment.
    CredentialUnavailable,
    /// A way of signing that cannot be redone.
    UnsupportedSignature,
    /// The target repository is not proven to be on the credential's list.
    RepositoryNotAllowed,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Self; 34] = [
        Self::Allowed,
        Self::BadHost,
        Self::NotTls,
        Self::BadRequest,
        Self::NotAllowed,
        Self::PortNotAllowed,
        Self::Denied,
        Self::AboveCeiling,
        Self::AddressRefused,
        Self::NoAddress,
        Self::Ipv6Only,
        Self::ResolverFailed,
        Self::UpstreamFailed,
        Self::UpstreamTimeout,
        Self::UpstreamUntrusted,
        Self::UpstreamMalformed,
        Self::UpstreamHeadTooLarge,
        Self::UpstreamUnreadable,
        Self::RouterFull,
        Self::BadPath,
        Self::MethodNotAllowed,
        Self::PathNotAllowed,
        Self::UpgradeNotAllowed,
        Self::GraphqlNotAllowed,
        Self::BadBody,
        Self::BodyTooLarge,
        Self::Misdirected,
        Self::TooDeep,
        Self::Leak,
        Self::ForeignCredential,
        Self::DuplicateCredential,
        Self::CredentialUnavailable,
        Self::UnsupportedSignature,
        Self::RepositoryNotAllowed,
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
            Self::NoAddress => "no-address",
            Self::Ipv6Only => "ipv6-only",
            Self::ResolverFailed => "resolver-failed",
            Self::UpstreamFailed => "upstream-failed",
            Self::UpstreamTimeout => "upstream-timeout",
            Self::UpstreamUntrusted => "upstream-untrusted",
            Self::UpstreamMalformed => "upstream-malformed",
            Self::UpstreamHeadTooLarge => "upstream-head-too-large",
            Self::UpstreamUnreadable => "upstream-unreadable",
            Self::RouterFull => "router-full",
            Self::BadPath => "bad-path",
            Self::MethodNotAllowed => "method-not-allowed",
            Self::PathNotAllowed => "path-not-allowed",
            Self::UpgradeNotAllowed => "upgrade-not-allowed",
            Self::GraphqlNotAllowed => "graphql-not-allowed",
            Self::BadBody => "bad-body",
            Self::BodyTooLarge => "body-too-large",
            Self::Misdirected => "misdirected",
            Self::TooDeep => "too-deep",
            Self::Leak => "leak",
            Self::ForeignCredential => "foreign-credential",
            Self::DuplicateCredential => "duplicate-credential",
            Self::CredentialUnavailable => "credential-unavailable",
            Self::UnsupportedSignature => "unsupported-signature",
            Self::RepositoryNotAllowed => "repository-not-allowed",
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
            Self::AddressRefused => "the name leads to an address that may not be reached",
            Self::NoAddress => "the name does not resolve",
            Self::Ipv6Only => "the host has IPv6 addresses only, and the router has no IPv6",
            Self::ResolverFailed => "the resolver did not answer, or refused",
            Self::UpstreamFailed => "the host is allowed but did not answer",
            Self::UpstreamTimeout => "the host is allowed but did not answer in time",
            Self::UpstreamUntrusted => "the host's certificate cannot be verified",
            Self::UpstreamMalformed => "the host's answer is malformed or can be read in two ways",
            Self::UpstreamHeadTooLarge => "the headers of the host's answer are larger than 256 KiB",
            Self::UpstreamUnreadable => "the host's answer is in an encoding in which credentials could hide",
            Self::RouterFull => "the router has too many connections, requests or bodies at once",
            Self::BadPath => "the path holds `..`, `//`, `\\`, an encoded control byte, or is encoded twice",
            Self::MethodNotAllowed => "no entry for this host permits this method here",
            Self::PathNotAllowed => "no entry for this host permits this path",
            Self::UpgradeNotAllowed => "no entry for this host permits a WebSocket here",
            Self::GraphqlNotAllowed => "the entry's `graphql` does not permit this operation",
            Self::BadBody => "the body is no plain JSON in UTF-8 that a rule can read",
            Self::BodyTooLarge => "the body is larger than what is read whole for a rule or a signature (1 MiB)",
            Self::Misdirected => "the request is for another host than the TLS connection",
            Self::TooDeep => "an inspected suffix covers one label only, as certificates do",
            Self::Leak => "the request carries the surrogate of a credential outside of its scope",
            Self::ForeignCredential => "the request carries a credential that is not the sandbox's own",
            Self::DuplicateCredential => "a credential header is there more than once",
            Self::CredentialUnavailable => "the router could not get a token for this credential",
            Self::UnsupportedSignature => "this way of signing cannot be done anew by the router",
            Self::RepositoryNotAllowed => "the request's repository is not on the credential's list, or cannot be told",
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
            Self::NoAddress => "check the spelling; the resolver may not know the name",
            Self::Ipv6Only => "use a host that has an IPv4 address",
            Self::ResolverFailed => {
                "try again later; `network.upstream_dns` in the server config names other resolvers"
            }
            Self::UpstreamFailed | Self::UpstreamTimeout => "try again later",
            Self::UpstreamUntrusted => {
                "if it is of an authority of your own, name that in the server's network.extra_ca"
            }
            Self::UpstreamMalformed => {
                "the server has to be repaired; the router passes on only what every client reads alike"
            }
            Self::UpstreamHeadTooLarge => "the server has to send fewer or shorter headers",
            Self::UpstreamUnreadable => "ask for the resource without Accept-Encoding",
            Self::RouterFull => "end some connections and try again",
            Self::BadPath => "request the resource by its plain path",
            Self::MethodNotAllowed => "add the method to the entry's `methods`",
            Self::PathNotAllowed => "add the path to the entry's `paths`",
            Self::UpgradeNotAllowed => "add `upgrade: [websocket]` to the entry",
            Self::GraphqlNotAllowed => "add the field to `queries`, `mutations` or `subscriptions`",
            Self::BadBody => "send one GraphQL operation as uncompressed JSON without duplicate keys",
            Self::BodyTooLarge => "send a smaller body, or for AWS let the client send x-amz-content-sha256",
            Self::Misdirected => "open a connection of its own for each host",
            Self::TooDeep => "add an entry for the longer suffix or the exact host",
            Self::Leak => "use the credential only with the hosts, headers, methods and paths of its config entry",
            Self::ForeignCredential => "use the variable of the sandbox, or ask for `allow_foreign_credentials: true`",
            Self::DuplicateCredential => "send it once",
            Self::CredentialUnavailable => "see the session's network log, and try again",
            Self::UnsupportedSignature => "see the log's line for the SDK setting that avoids it",
            Self::RepositoryNotAllowed => "name the repository in the request, or add it to `repositories`",
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
    /// What else must hold for each request; None where the connection's verdict is the last word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inspection: Option<Inspection>,
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
            inspection: None,
        }
    }
}

/// Why requests of a host are looked at, and what decides about each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Inspection {
    /// One of these must permit each request; in the order in which they are asked: without `graphql` first, by id.
    pub allow: Vec<Rule>,
    /// If there, one of these must permit it too. None where no ceiling narrows requests.
    pub ceiling: Option<Vec<Rule>>,
    /// Names of the credentials whose scope holds the host; none on port 80.
    pub credentials: Vec<String>,
}

impl Inspection {
    /// True if every request is permitted, so that the host is inspected for the sake of credentials alone.
    pub fn permits_everything(&self) -> bool {
        self.ceiling.is_none() && self.allow.iter().any(|rule| rule.request.is_none())
    }

    /// True if a header of this name, one of [`STEERING`](super::STEERING), goes up: no rule is about requests, or every
    /// list has one that says so.
    pub fn passes_header(&self, name: &str) -> bool {
        let passes = |rules: &[Rule]| {
            rules.iter().any(|rule| rule.request.as_ref().is_none_or(|request| request.pass_headers.contains(name)))
        };
        passes(&self.allow) && self.ceiling.as_deref().is_none_or(passes)
    }

    /// True if a body decides: every rule that is left reads one.
    pub fn reads_body(&self) -> bool {
        reads_body(&self.allow) || self.ceiling.as_deref().is_some_and(reads_body)
    }
}

fn reads_body(rules: &[Rule]) -> bool {
    rules.iter().all(|rule| rule.graphql().is_some())
}
