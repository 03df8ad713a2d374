//! Questions that people ask about a policy, and their decisions. Parsing never decides anything; [`Policy`] does.

use std::fmt;

use thiserror::Error;

use super::decision::{Decision, Reason, Tier, Verdict};
use super::git::PushedRef;
use super::host::{HostName, HostPattern};
use super::request::HttpRequest;
use super::rule::{Policy, Rule};

/// Why a text is not a question.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum QuestionError {
    /// Not a target; the second field says why.
    #[error("`{0}` {1}; write e.g. https://api.example.com/ or db.example.com:5432")]
    Target(String, &'static str),
    /// A method that is not a token (RFC 9110 9.1), or CONNECT.
    #[error("`{0}` is not a method; write e.g. `POST https://api.example.com/v1`")]
    Method(String),
    /// More words than a question has.
    #[error("`{0}` is not a request; write `METHOD URL`, `URL`, `HOST:PORT`, a name, or `git push REPO REF HOST`")]
    Words(String),
    /// A repository that is missing or a URL.
    #[error("write the repository's path on the host, as in acme/widgets")]
    Repository,
    /// A word that is neither a host nor a ref.
    #[error("`{0}` is neither a host nor a full ref name; write e.g. refs/heads/main")]
    Ref(String),
    /// Neither the question nor the policy names a host.
    #[error("no entry has `git`; name the host, as in `git fetch acme/widgets github.com`")]
    NoGitHost,
    /// The policy has git rules for several hosts.
    #[error("entries with `git` are for several hosts; name one, as in `git fetch acme/widgets github.com`")]
    SeveralGitHosts,
}

/// The host, port and path that a person typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// In the form of a host on the wire.
    pub host: String,
    /// From the scheme, if none is given; 443 without a scheme.
    pub port: u16,
    /// The path without the query; `None` for a host without a scheme, which names no request.
    pub path: Option<String>,
}

impl Target {
    /// Parses a URL (http, https, ws or wss), `HOST:PORT`, or a host for port 443.
    pub fn read(text: &str) -> Result<Self, QuestionError> {
        let bad = |why| QuestionError::Target(text.to_owned(), why);
        let (authority, default, path) = match text.split_once("://") {
            Some((scheme, rest)) => {
                let (authority, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
                // As a client sends it: without the fragment, and never empty.
                let path = rest.split(['?', '#']).next().filter(|path| !path.is_empty()).unwrap_or("/").to_owned();
                match scheme.to_ascii_lowercase().as_str() {
                    "https" | "wss" => (authority, 443, Some(path)),
                    "http" | "ws" => (authority, 80, Some(path)),
                    _ => return Err(bad("does not have the scheme http or https")),
                }
            }
            None => (text, 443, None),
        };
        if authority.is_empty() || authority.contains(['@', '/', ' ']) {
            return Err(bad("is neither a URL nor HOST:PORT"));
        }
        let (host, port) = split_port(authority);
        let port = match port {
            None => default,
            Some(port) => port.parse().ok().filter(|&port| port > 0).ok_or(bad("has an invalid port (1 to 65535)"))?,
        };
        Ok(Self { host: HostName::typed(host), port, path })
    }
}

/// Splits `HOST:PORT`; the colons of an IPv6 address separate no port.
fn split_port(authority: &str) -> (&str, Option<&str>) {
    let after_bracket = authority.rfind(':').filter(|&at| at > authority.rfind(']').unwrap_or(0));
    let bare_v6 = authority.parse::<std::net::Ipv6Addr>().is_ok();
    match after_bracket.filter(|_| !bare_v6).and_then(|at| authority.split_at_checked(at)) {
        Some((host, port)) => (host, Some(port.trim_start_matches(':'))),
        None => (authority, None),
    }
}

/// An operation on a git repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GitOperation {
    /// git push.
    Push,
    /// git fetch, clone, pull, ls-remote.
    Fetch,
}

impl GitOperation {
    /// As in `explain --git`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Push => "push",
            Self::Fetch => "fetch",
        }
    }
}

/// A question about a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitQuestion {
    /// The operation.
    pub operation: GitOperation,
    /// The repository's path on the host, without a leading slash and without `.git`.
    pub repository: String,
    /// The full name of the ref to push.
    pub name: Option<String>,
    /// The host, if the person named one.
    target: Option<Target>,
}

impl GitQuestion {
    /// Parses `REPO [REF] [URL|HOST:PORT]`.
    pub fn read<'a>(operation: GitOperation, words: &[&'a str]) -> Result<Self, QuestionError> {
        let (repository, rest) = words.split_first().ok_or(QuestionError::Repository)?;
        let is_ref = |word: &'a str| word.starts_with("refs/");
        let (name, target) = match *rest {
            [] => (None, None),
            [name] if is_ref(name) => (Some(name), None),
            [host] if host.contains(['.', ':']) => (None, Some(host)),
            [name, host] if is_ref(name) => (Some(name), Some(host)),
            [word, ..] => return Err(QuestionError::Ref(word.to_owned())),
        };
        let repository = repository.strip_prefix('/').unwrap_or(repository);
        let repository = repository.strip_suffix(".git").unwrap_or(repository).to_owned();
        if repository.is_empty() || repository.contains("://") {
            return Err(QuestionError::Repository);
        }
        let target = target.map(Target::read).transpose()?;
        Ok(Self { operation, repository, name: name.map(str::to_owned), target })
    }

    /// The host to ask about: the one that the person named, or the only host with rules about git.
    pub fn target(&self, policy: &Policy) -> Result<Target, QuestionError> {
        let (_, path) = self.request();
        if let Some(said) = &self.target {
            return Ok(Target { path: Some(path), ..said.clone() });
        }
        let rules = policy.allow.rules().iter().filter(|rule| rule.git().is_some());
        let patterns: std::collections::BTreeSet<&HostPattern> = rules.map(|rule: &Rule| &rule.pattern).collect();
        match patterns.into_iter().collect::<Vec<_>>()[..] {
            [HostPattern::Exact(name)] => Ok(Target { host: name.to_string(), port: 443, path: Some(path) }),
            [] => Err(QuestionError::NoGitHost),
            _ => Err(QuestionError::SeveralGitHosts),
        }
    }

    /// The method and path of the request that git sends.
    pub fn request(&self) -> (&'static str, String) {
        let repository = &self.repository;
        match (self.operation, &self.name) {
            (GitOperation::Push, Some(_)) => ("POST", format!("/{repository}/git-receive-pack")),
            (GitOperation::Push, None) => ("GET", format!("/{repository}/info/refs?service=git-receive-pack")),
            (GitOperation::Fetch, _) => ("POST", format!("/{repository}/git-upload-pack")),
        }
    }

    /// The decision about this operation at a host.
    pub fn decide(&self, policy: &Policy, target: &Target) -> Decision {
        let (method, path) = self.request();
        let refs: Vec<PushedRef<'_>> = self.name.iter().map(|name| PushedRef { name, deletes: false }).collect();
        policy.decide_push(&target.host, target.port, &HttpRequest { method, target: &path }, &refs)
    }
}

impl fmt::Display for GitQuestion {
    /// As in `push acme/widgets refs/heads/main`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.operation.name(), self.repository)?;
        self.name.iter().try_for_each(|name| write!(f, " {name}"))
    }
}

/// A question in one line of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// A name alone: whether it resolves inside.
    Name(String),
    /// `HOST:PORT`: whether a connection is allowed.
    Connection(Target),
    /// `[METHOD] URL`; the method is GET by default.
    Request(String, Target),
    /// `git push|fetch REPO [REF] [HOST]`.
    Git(GitQuestion),
}

impl Question {
    /// The reasons that a decision about a question can have.
    pub const REASONS: [Reason; 12] = [
        Reason::Allowed,
        Reason::BadHost,
        Reason::BadRequest,
        Reason::NotAllowed,
        Reason::PortNotAllowed,
        Reason::Denied,
        Reason::AboveCeiling,
        Reason::BadPath,
        Reason::MethodNotAllowed,
        Reason::PathNotAllowed,
        Reason::GitNotAllowed,
        Reason::RefNotAllowed,
    ];

    /// Parses a line.
    pub fn read(text: &str) -> Result<Self, QuestionError> {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        match words[..] {
            ["git", "push", ref rest @ ..] => GitQuestion::read(GitOperation::Push, rest).map(Self::Git),
            ["git", "fetch", ref rest @ ..] => GitQuestion::read(GitOperation::Fetch, rest).map(Self::Git),
            [target] => {
                let read = Target::read(target)?;
                Ok(match read.path {
                    Some(_) => Self::Request("GET".to_owned(), read),
                    None if split_port(target).1.is_none() => Self::Name(read.host),
                    None => Self::Connection(read),
                })
            }
            [method, target] => {
                let read = Target::read(target)?;
                if read.path.is_none() {
                    return Err(QuestionError::Target(target.to_owned(), "is not a URL"));
                }
                if !super::inspect::is_method(method) {
                    return Err(QuestionError::Method(method.to_owned()));
                }
                Ok(Self::Request(method.to_owned(), read))
            }
            _ => Err(QuestionError::Words(text.to_owned())),
        }
    }

    /// The decision of a policy. Fails only if the question names no host and the policy does not tell which is meant.
    pub fn decide(&self, policy: &Policy) -> Result<Decision, QuestionError> {
        Ok(match self {
            Self::Name(name) => policy.decide_name(name),
            Self::Connection(target) => policy.decide(&target.host, target.port),
            Self::Request(method, target) => {
                let path = target.path.as_deref().unwrap_or("/");
                policy.decide_request(&target.host, target.port, &HttpRequest { method, target: path })
            }
            Self::Git(git) => git.decide(policy, &git.target(policy)?),
        })
    }
}

impl Policy {
    /// Decides whether a name resolves inside: it does if some port of it is allowed. The decision is that about port
    /// 443 if no port is.
    pub fn decide_name(&self, host: &str) -> Decision {
        let tls = self.decide(host, 443);
        let allowed = |decision: &Decision| decision.verdict == Verdict::Allow;
        if allowed(&tls) || tls.reason == Reason::BadHost {
            return tls;
        }
        let Some(name) = HostName::from_wire(host) else { return tls };
        let named = self.allow.owner(&name).into_iter().flat_map(|rule| rule.ports.iter().copied());
        let mut others = std::iter::once(80).chain(named).map(|port| self.decide(host, port));
        others.find(allowed).unwrap_or(tls)
    }
}

impl Decision {
    /// Whether the verdict also depends on the body.
    pub fn reads_body(&self) -> bool {
        self.verdict == Verdict::Allow
            && matches!(self.tier, Tier::Inspected | Tier::Http)
            && self.inspection.as_ref().is_some_and(super::decision::Inspection::reads_body)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{RuleId, RuleSet, parse_pattern};
    use super::*;
    use crate::source::Place;

    #[test]
    fn targets() {
        let parse = |text: &str| Target::read(text).ok().map(|t| (t.host, t.port, t.path.unwrap_or_default()));
        let target = |host: &str, port, path: &str| Some((host.to_owned(), port, path.to_owned()));
        assert_eq!(parse("https://a.b/x?y"), target("a.b", 443, "/x"));
        assert_eq!(parse("https://a.b?y"), target("a.b", 443, "/"));
        assert_eq!(parse("https://a.b/x/../%2e#z"), target("a.b", 443, "/x/../%2e"));
        assert_eq!(parse("http://a.b:8080"), target("a.b", 8080, "/"));
        assert_eq!(parse("a.b:22"), target("a.b", 22, ""));
        assert_eq!(parse("a.b"), target("a.b", 443, ""));
        assert_eq!(parse("https://bücher.example/"), target("xn--bcher-kva.example", 443, "/"), "as an entry is read");
        assert_eq!(parse("[::1]:5"), target("[::1]", 5, ""));
        assert!(["", "ftp://a.b", "a.b:0", "a.b:x", "https://u@a.b", "a b"].iter().all(|t| parse(t).is_none()));
    }

    #[test]
    fn the_words_after_git_are_told_apart() {
        let read = |words: &[&str]| {
            let asked = GitQuestion::read(GitOperation::Push, words).ok()?;
            Some((asked.repository, asked.name.unwrap_or_default(), asked.target.map(|t| t.host).unwrap_or_default()))
        };
        let asked = |repository: &str, name: &str, target: &str| Some((repository.into(), name.into(), target.into()));
        assert_eq!(read(&["a/b"]), asked("a/b", "", ""));
        assert_eq!(read(&["/a/b.git", "refs/heads/x"]), asked("a/b", "refs/heads/x", ""));
        assert_eq!(read(&["a/b", "github.com"]), asked("a/b", "", "github.com"));
        assert_eq!(read(&["a/b", "refs/heads/v1.2", "https://g.test"]), asked("a/b", "refs/heads/v1.2", "g.test"));
        for bad in [
            &[][..],
            &["a/b", "main"],
            &["a/b", "main", "g.test"],
            &["https://g.test/a/b"],
            &["/"],
            &["a", "refs/x", "g.test", "y"],
        ] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_line_says_what_it_asks_about() {
        let kind = |text: &str| match Question::read(text) {
            Ok(Question::Name(name)) => format!("name {name}"),
            Ok(Question::Connection(target)) => format!("connection {}:{}", target.host, target.port),
            Ok(Question::Request(method, target)) => format!("{method} {} {}", target.host, target.path.unwrap()),
            Ok(Question::Git(git)) => git.to_string(),
            Err(error) => format!("error: {error}"),
        };
        assert_eq!(kind("a.test"), "name a.test");
        assert_eq!(kind(" A.test:443 "), "connection a.test:443");
        assert_eq!(kind("https://a.test"), "GET a.test /");
        assert_eq!(kind("POST  https://a.test/x"), "POST a.test /x");
        assert_eq!(kind("git push acme/x refs/heads/main"), "push acme/x refs/heads/main");
        for bad in
            ["", "POST a.test", "P@ST https://a.test/", "CONNECT https://a.test/", "GET https://a.test/ now", "git"]
        {
            assert!(kind(bad).starts_with("error") || bad == "git", "{bad}: {}", kind(bad));
        }
    }

    #[test]
    fn a_name_resolves_if_some_port_of_it_is_allowed() {
        let rule = |pattern: &str, ports: &[u16]| Rule {
            id: RuleId::new(pattern),
            pattern: parse_pattern(pattern).unwrap().0,
            ports: ports.iter().copied().collect(),
            private: false,
            request: None,
            from: Place::built_in(),
        };
        let allow = RuleSet::new(vec![rule("a.test", &[22]), rule("b.test", &[])]);
        let deny = RuleSet::new(vec![rule("a.test", &[80, 443]), rule("b.test", &[443])]);
        let policy = Policy { allow, deny, ..Policy::default() };
        assert_eq!(policy.decide_name("a.test").verdict, Verdict::Allow, "by port 22");
        assert_eq!(policy.decide_name("b.test").verdict, Verdict::Allow, "by port 80");
        assert_eq!(policy.decide_name("c.test").reason, Reason::NotAllowed);
        assert_eq!(policy.decide_name("localhost").reason, Reason::BadHost);
    }
}
