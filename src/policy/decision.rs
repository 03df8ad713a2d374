//! The answer about a request: verdict, reason, and what else must hold.

use serde::{Deserialize, Serialize};

use super::rule::{Rule, RuleId};
use crate::source::Place;

/// Allowed or denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The router lets it pass.
    Allow,
    /// The router refuses it.
    Deny,
}

/// Which part of the router handles a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// Port 443: routed by the SNI of the `ClientHello`, not decrypted.
    Passthrough,
    /// Port 443: decrypted with the session's CA, because of rules about requests or credentials.
    Inspected,
    /// Port 80: routed by the Host header.
    Http,
    /// A named port: a port of the router that leads to one host and port.
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

    /// The name in logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Passthrough => "passthrough",
            Self::Inspected => "inspected",
            Self::Http => "http",
            Self::Tcp => "tcp",
        }
    }
}

/// The reason. Its code is stable, and the same in `explain`, the router's policy and the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// A rule permits it.
    Allowed,
    /// The name is missing, has one label, or is neither LDH nor an IPv4 address.
    BadHost,
    /// Port 443: the first bytes are not a TLS `ClientHello`. Never the answer of `Policy::decide`.
    NotTls,
    /// Port 80: the router does not forward requests of this kind. Never the answer of `Policy::decide`.
    BadRequest,
    /// No `allow` entry matches.
    NotAllowed,
    /// The entry that matches the host does not name this port.
    PortNotAllowed,
    /// A `deny` entry of the server matches.
    Denied,
    /// The server's `ceiling` does not match.
    AboveCeiling,
    /// The guard refuses the address that the name resolves to.
    AddressRefused,
    /// The name does not resolve. Never the answer of `Policy::decide`.
    NoAddress,
    /// The name only has IPv6 addresses. Never the answer of `Policy::decide`.
    Ipv6Only,
    /// No resolver answered, or they refused to. Never the answer of `Policy::decide`.
    ResolverFailed,
    /// The name is allowed and resolved, but the host did not answer. Never the answer of `Policy::decide`.
    UpstreamFailed,
    /// The host accepted the connection, but did not respond in time. Never the answer of `Policy::decide`.
    UpstreamTimeout,
    /// The host's certificate is for another name, or the router does not trust its issuer. Never the answer of
    /// `Policy::decide`.
    UpstreamUntrusted,
    /// The host's response is not valid HTTP, or is ambiguous. Never the answer of `Policy::decide`.
    UpstreamMalformed,
    /// The header section of the host's response is too large. Never the answer of `Policy::decide`.
    UpstreamHeadTooLarge,
    /// The host's response could not be cleared of credentials. Never the answer of `Policy::decide`.
    UpstreamUnreadable,
    /// The router has reached one of its limits. Never the answer of `Policy::decide`.
    RouterFull,
    /// The path has no safe canonical form.
    BadPath,
    /// The entries for the path do not include the method.
    MethodNotAllowed,
    /// No entry includes the path.
    PathNotAllowed,
    /// The entries for the path do not permit an upgrade to another protocol.
    UpgradeNotAllowed,
    /// A top-level field or the operation's type is not listed.
    GraphqlNotAllowed,
    /// No entry permits this operation on the repository.
    GitNotAllowed,
    /// A push would delete a ref, or change one that no entry permits.
    RefNotAllowed,
    /// The body is not in a format that the rule can check.
    BadBody,
    /// The body must be read completely, but exceeds the limit.
    BodyTooLarge,
    /// SNI and Host or `:authority` differ.
    Misdirected,
    /// A surrogate was sent outside of its credential's scope.
    Leak,
    /// A header of a scoped credential contains something else than its surrogate.
    ForeignCredential,
    /// A credential header appears twice.
    DuplicateCredential,
    /// The router has no valid token at the moment.
    CredentialUnavailable,
    /// A signature that the router cannot create again.
    UnsupportedSignature,
    /// The target repository is not on the credential's list, or cannot be determined.
    RepositoryNotAllowed,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 35] = [
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
        Self::GitNotAllowed,
        Self::RefNotAllowed,
        Self::BadBody,
        Self::BodyTooLarge,
        Self::Misdirected,
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
            Self::GitNotAllowed => "git-not-allowed",
            Self::RefNotAllowed => "ref-not-allowed",
            Self::BadBody => "bad-body",
            Self::BodyTooLarge => "body-too-large",
            Self::Misdirected => "misdirected",
            Self::Leak => "leak",
            Self::ForeignCredential => "foreign-credential",
            Self::DuplicateCredential => "duplicate-credential",
            Self::CredentialUnavailable => "credential-unavailable",
            Self::UnsupportedSignature => "unsupported-signature",
            Self::RepositoryNotAllowed => "repository-not-allowed",
        }
    }

    /// The reason with this code.
    pub fn of_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.code() == code)
    }

    /// Whether somebody decided so, rather than that the host, the resolver or the router failed.
    pub const fn is_policy(self) -> bool {
        !matches!(
            self,
            Self::NoAddress
                | Self::Ipv6Only
                | Self::ResolverFailed
                | Self::UpstreamFailed
                | Self::UpstreamTimeout
                | Self::UpstreamUntrusted
                | Self::UpstreamMalformed
                | Self::UpstreamHeadTooLarge
                | Self::UpstreamUnreadable
                | Self::RouterFull
                | Self::CredentialUnavailable
        )
    }

    /// A description for people.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Allowed => "an allow entry matches",
            Self::BadHost => "the host is missing or not a fully qualified name",
            Self::NotTls => "the connection does not start with a TLS ClientHello",
            Self::BadRequest => "the request is malformed or of a kind that is not forwarded",
            Self::NotAllowed => "no allow entry matches this host",
            Self::PortNotAllowed => "the entry for this host does not name this port",
            Self::Denied => "the server's deny list names it",
            Self::AboveCeiling => "the server's ceiling does not include it",
            Self::AddressRefused => "the name resolves to an address that must not be reached",
            Self::NoAddress => "the name does not resolve",
            Self::Ipv6Only => "the host only has IPv6 addresses, which the router does not support",
            Self::ResolverFailed => "the resolver did not answer, or refused",
            Self::UpstreamFailed => "the host is allowed but did not answer",
            Self::UpstreamTimeout => "the host is allowed but did not answer in time",
            Self::UpstreamUntrusted => "the host's certificate cannot be verified",
            Self::UpstreamMalformed => "the host's response is malformed or ambiguous",
            Self::UpstreamHeadTooLarge => "the headers of the host's response are larger than 256 KiB",
            Self::UpstreamUnreadable => "the host's response has an encoding that cannot be searched for credentials",
            Self::RouterFull => "the router has reached its limit of connections, requests or bodies",
            Self::BadPath => "the path contains `..`, `//`, `\\`, an encoded control byte, or double encoding",
            Self::MethodNotAllowed => "no entry for this host permits this method on this path",
            Self::PathNotAllowed => "no entry for this host permits this path",
            Self::UpgradeNotAllowed => "no entry for this host permits a WebSocket on this path",
            Self::GraphqlNotAllowed => "the entry's `graphql` does not permit this operation",
            Self::GitNotAllowed => "no entry for this host permits this operation on the repository",
            Self::RefNotAllowed => "the push deletes a ref, or changes one that no entry permits",
            Self::BadBody => "the body is not one that a rule can check (plain UTF-8 JSON, or a push)",
            Self::BodyTooLarge => "the body is larger than 1 MiB, the limit for rules and signatures that cover it",
            Self::Misdirected => "the request is for another host than the TLS connection",
            Self::Leak => "the request contains the surrogate of a credential outside of the credential's scope",
            Self::ForeignCredential => "the request contains a credential that is not the sandbox's",
            Self::DuplicateCredential => "a credential header appears more than once",
            Self::CredentialUnavailable => "the router could not get a token for this credential",
            Self::UnsupportedSignature => "the router cannot create a signature of this kind",
            Self::RepositoryNotAllowed => {
                "the request's repository is not on the credential's list, or cannot be determined"
            }
        }
    }

    /// What the reader of a denial can do.
    pub const fn hint(self) -> &'static str {
        match self {
            Self::Allowed => "",
            Self::BadHost => "use the fully qualified name of the host",
            Self::NotTls => {
                "port 443 only accepts TLS; allow other protocols on another port, as `host:port` in network.allow"
            }
            Self::BadRequest => {
                "send a plain HTTP/1.1 request in origin form (`GET /path` with one Host header); HTTPS needs no proxy"
            }
            Self::NotAllowed => "add the host to network.allow in .sandboxc/sandbox.yaml",
            Self::PortNotAllowed => "add `host:port` to network.allow in .sandboxc/sandbox.yaml",
            Self::Denied | Self::AboveCeiling => "ask the owner of this machine: the server file forbids it",
            Self::AddressRefused => {
                "if the host should be private, write `private: true` on its entry, or add its address block to \
                 network.reachable in the server file"
            }
            Self::NoAddress => "check the spelling; the resolver may not know the name",
            Self::Ipv6Only => "use a host that has an IPv4 address",
            Self::ResolverFailed => {
                "try again later, or set other resolvers with `network.upstream_dns` in the server file"
            }
            Self::UpstreamFailed | Self::UpstreamTimeout => "try again later",
            Self::UpstreamUntrusted => {
                "if your own CA issued it, add the CA's certificate with network.extra_ca in the server file"
            }
            Self::UpstreamMalformed => {
                "the server must be fixed; the router only forwards responses that all clients parse the same way"
            }
            Self::UpstreamHeadTooLarge => "the server must send fewer or shorter headers",
            Self::UpstreamUnreadable => "send the request without Accept-Encoding",
            Self::RouterFull => "close some connections and try again",
            Self::BadPath => "use the canonical form of the path",
            Self::MethodNotAllowed => "add the method to the entry's `methods`",
            Self::PathNotAllowed => "add the path to the entry's `paths`",
            Self::UpgradeNotAllowed => "add `upgrade: [websocket]` to the entry",
            Self::GraphqlNotAllowed => "add the field to `queries`, `mutations` or `subscriptions`",
            Self::GitNotAllowed => "add the repository to `fetch` or `push` of the entry's `git`",
            Self::RefNotAllowed => "push to a ref that the entry's `git` lists for the repository",
            Self::BadBody => "send one GraphQL operation as uncompressed JSON without duplicate keys",
            Self::BodyTooLarge => "send a smaller body; for AWS, configure the client to send x-amz-content-sha256",
            Self::Misdirected => "open a separate connection for each host",
            Self::Leak => "use the credential only with the hosts, headers, methods and paths of its config entry",
            Self::ForeignCredential => {
                "use the sandbox's variable, or set `allow_foreign_credentials: true` in the server file"
            }
            Self::DuplicateCredential => "send it once",
            Self::CredentialUnavailable => "check the session's network log, and try again",
            Self::UnsupportedSignature => "the network log names the SDK setting that avoids it",
            Self::RepositoryNotAllowed => "name the repository in the request, or add it to `repositories`",
        }
    }
}

/// A decision, with everything needed to verify it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// Allowed or denied.
    pub verdict: Verdict,
    /// Why.
    pub reason: Reason,
    /// The rule that decided; `None` if nothing matched.
    pub rule: Option<RuleId>,
    /// The place of that rule.
    pub from: Option<Place>,
    /// The part of the router that handles the connection.
    pub tier: Tier,
    /// Whether the names may resolve to special-purpose addresses.
    pub private: bool,
    /// What each request must also satisfy; `None` if the verdict on the connection is final.
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

/// Why requests of a host are inspected, and what decides about each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Inspection {
    /// One of these rules must permit each request. Those without `graphql` come first, ordered by id.
    pub allow: Vec<Rule>,
    /// If present, one of these must permit it, too. `None` if no ceiling restricts requests.
    pub ceiling: Option<Vec<Rule>>,
    /// The names of credentials whose scope includes the host; none on port 80.
    pub credentials: Vec<String>,
    /// The request is a push, and the refs that it changes decide.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub pushes: bool,
}

impl Inspection {
    /// Whether every request is permitted, so that the host is only inspected because of credentials.
    pub fn permits_everything(&self) -> bool {
        self.ceiling.is_none() && self.allow.iter().any(|rule| rule.request.is_none())
    }

    /// Whether a header with this name, one of [`STEERING`](super::STEERING), is forwarded: no rule is about requests,
    /// or every list has a rule that permits the header.
    pub fn passes_header(&self, name: &str) -> bool {
        let passes = |rules: &[Rule]| {
            rules.iter().any(|rule| rule.request.as_ref().is_none_or(|request| request.pass_headers.contains(name)))
        };
        passes(&self.allow) && self.ceiling.as_deref().is_none_or(passes)
    }

    /// Whether some rule is about git.
    pub fn is_about_git(&self) -> bool {
        self.allow.iter().chain(self.ceiling.iter().flatten()).any(|rule| rule.git().is_some())
    }

    /// Whether the body decides: every remaining rule reads one.
    pub fn reads_body(&self) -> bool {
        self.pushes || reads_graphql(&self.allow) || self.ceiling.as_deref().is_some_and(reads_graphql)
    }
}

fn reads_graphql(rules: &[Rule]) -> bool {
    rules.iter().all(|rule| rule.graphql().is_some())
}
