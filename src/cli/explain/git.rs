//! `explain --git`: a question about a repository.

use std::collections::BTreeSet;

use clap::ValueEnum;

use super::target::{Target, parse_target};
use crate::cli::Failure;
use crate::policy::{Decision, HostPattern, HttpRequest, Policy, PushedRef, Rule};

/// An operation on a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Service {
    /// git push
    Push,
    /// git fetch, clone, pull, ls-remote
    Fetch,
}

/// The words after `--git`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) service: Service,
    pub(super) repository: String,
    pub(super) name: Option<String>,
    target: Option<String>,
}

impl Asked {
    /// Parses `REPO [REF] [URL|HOST:PORT]`.
    pub(super) fn read(service: Service, words: &[String]) -> Result<Self, Failure> {
        let no_ref = |word: &str| {
            Failure::usage(format!("`{word}` is neither a host nor a full ref name; write e.g. refs/heads/main"))
        };
        let (repository, rest) = words.split_first().ok_or_else(|| Failure::usage("--git needs a repository"))?;
        let (name, target) = match rest {
            [] => (None, None),
            [name] if name.starts_with("refs/") => (Some(name), None),
            [host] if host.contains(['.', ':']) => (None, Some(host)),
            [name, host] if name.starts_with("refs/") => (Some(name), Some(host)),
            [word, ..] => return Err(no_ref(word)),
        };
        let repository = repository.strip_prefix('/').unwrap_or(repository);
        let repository = repository.strip_suffix(".git").unwrap_or(repository).to_owned();
        if repository.is_empty() || repository.contains("://") {
            return Err(Failure::usage("write the repository's path on the host, as in acme/widgets"));
        }
        Ok(Self { service, repository, name: name.cloned(), target: target.cloned() })
    }

    /// The host to ask about: the given one, or the only host with rules about git.
    pub(super) fn target(&self, policy: &Policy) -> Result<Target, Failure> {
        let (_, path) = self.request();
        if let Some(said) = &self.target {
            let path = Some(path);
            return Ok(Target { path, ..parse_target(said)? });
        }
        let rules = policy.allow.rules().iter().filter(|rule| rule.git().is_some());
        let patterns: BTreeSet<&HostPattern> = rules.map(|rule: &Rule| &rule.pattern).collect();
        match patterns.into_iter().collect::<Vec<_>>()[..] {
            [HostPattern::Exact(name)] => Ok(Target { host: name.to_string(), port: 443, path: Some(path) }),
            [] => Err(Failure::usage(
                "no entry has `git`; name the host, as in `explain --git fetch acme/widgets github.com`",
            )),
            _ => Err(Failure::usage(
                "entries with `git` are for several hosts; name one, as in `explain --git fetch acme/widgets github.com`",
            )),
        }
    }

    /// The method and path of the request that git sends.
    pub(super) fn request(&self) -> (&'static str, String) {
        let repository = &self.repository;
        match (self.service, &self.name) {
            (Service::Push, Some(_)) => ("POST", format!("/{repository}/git-receive-pack")),
            (Service::Push, None) => ("GET", format!("/{repository}/info/refs?service=git-receive-pack")),
            (Service::Fetch, _) => ("POST", format!("/{repository}/git-upload-pack")),
        }
    }

    pub(super) fn decide(&self, policy: &Policy, target: &Target) -> Decision {
        let (method, path) = self.request();
        let refs: Vec<PushedRef<'_>> = self.name.iter().map(|name| PushedRef { name, deletes: false }).collect();
        policy.decide_push(&target.host, target.port, &HttpRequest { method, target: &path }, &refs)
    }

    /// As in `push acme/widgets refs/heads/main`.
    pub(super) fn text(&self) -> String {
        let name = self.name.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
        format!("{} {}{name}", self.service.name(), self.repository)
    }
}

impl Service {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Push => "push",
            Self::Fetch => "fetch",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Asked, Service};

    #[test]
    fn words_are_told_apart() {
        let read = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let asked = Asked::read(Service::Push, &words).ok()?;
            Some((asked.repository, asked.name.unwrap_or_default(), asked.target.unwrap_or_default()))
        };
        let asked = |repository: &str, name: &str, target: &str| Some((repository.into(), name.into(), target.into()));
        assert_eq!(read(&["a/b"]), asked("a/b", "", ""));
        assert_eq!(read(&["/a/b.git", "refs/heads/x"]), asked("a/b", "refs/heads/x", ""));
        assert_eq!(read(&["a/b", "github.com"]), asked("a/b", "", "github.com"));
        assert_eq!(
            read(&["a/b", "refs/heads/v1.2", "https://g.test"]),
            asked("a/b", "refs/heads/v1.2", "https://g.test")
        );
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
}
