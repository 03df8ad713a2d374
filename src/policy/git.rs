//! Rules about git over smart HTTP (gitprotocol-http): which repositories may be fetched, and which refs of which
//! repositories may be pushed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::part::Part;
use super::path::{PathError, PathGlob, canonical};

/// An entry's rules about git. Everything that is not smart HTTP of a listed repository is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GitRule {
    /// Repositories that may be fetched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fetch: Vec<RepositoryGlob>,
    /// Repositories that may be pushed to, each with the refs that may be created and updated there. No ref may be
    /// deleted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub push: BTreeMap<RepositoryGlob, Vec<RefGlob>>,
}

/// A glob for repositories by their path on the host, without a leading slash and without `.git`: `acme/*`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RepositoryGlob(PathGlob);

impl RepositoryGlob {
    /// Parses a glob and converts it to canonical form.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let text = text.strip_suffix(".git").unwrap_or(text);
        if text.is_empty() || text.starts_with('/') {
            return Err(PathError::EmptySegment);
        }
        PathGlob::parse(&format!("/{text}")).map(Self)
    }

    /// As written in the config, in canonical form.
    pub fn as_str(&self) -> &str {
        self.0.as_str().strip_prefix('/').unwrap_or_default()
    }

    /// The parts of the path, for comparing policies.
    pub(super) fn parts(&self) -> Vec<Part> {
        self.0.parts()
    }

    fn matches(&self, repository: &str) -> bool {
        self.0.matches(&format!("/{repository}"))
    }
}

impl TryFrom<String> for RepositoryGlob {
    type Error = String;

    /// Parses a glob in canonical form.
    fn try_from(text: String) -> Result<Self, String> {
        let glob = Self::parse(&text).map_err(|e| format!("`{text}` is not a repository: {e}"))?;
        if glob.as_str() == text {
            Ok(glob)
        } else {
            Err(format!("`{text}` is not in canonical form: `{}`", glob.as_str()))
        }
    }
}

impl From<RepositoryGlob> for String {
    fn from(glob: RepositoryGlob) -> Self {
        glob.as_str().to_owned()
    }
}

/// A glob for complete ref names: `refs/heads/agent/**`. `*` stays inside a segment, `**` crosses segments, everything
/// else is literal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RefGlob(String);

const MOST_WILDCARDS: usize = 16;

impl RefGlob {
    /// Parses a glob; the error says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let odd = |c: char| c.is_control() || " ~^:?[\\".contains(c);
        let part = |part: &str| !part.is_empty() && !part.starts_with('.') && part.strip_suffix(".lock").is_none();
        if !text.starts_with("refs/") {
            return Err("it does not start with `refs/`".to_owned());
        }
        if text.contains(odd)
            || !text.split('/').all(part)
            || text.contains("..")
            || text.contains("@{")
            || text.ends_with('.')
        {
            return Err("no ref has such a name".to_owned());
        }
        if text.contains("***") || text.matches('*').count() > MOST_WILDCARDS {
            return Err(PathError::Wildcard.to_string());
        }
        Ok(Self(text.to_owned()))
    }

    /// As written in the config.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The parts, for comparing policies.
    pub(super) fn parts(&self) -> Vec<Part> {
        let mut parts = Vec::new();
        for c in self.0.chars() {
            match (c, parts.last()) {
                ('*', Some(Part::Segment)) => {
                    parts.pop();
                    parts.push(Part::Any);
                }
                ('*', _) => parts.push(Part::Segment),
                (c, _) => parts.push(Part::Literal(c.to_string())),
            }
        }
        parts
    }

    /// Whether a ref matches.
    pub fn matches(&self, name: &str) -> bool {
        let (glob, name): (Vec<char>, Vec<char>) = (self.0.chars().collect(), name.chars().collect());
        // `reached[i]`: the part of the glob that has been read matches the first `i` characters of the name.
        let mut reached: Vec<bool> = std::iter::once(true).chain(name.iter().map(|_| false)).collect();
        let mut rest = glob.as_slice();
        while let [first, after @ ..] = rest {
            let crosses = *first == '*' && after.first() == Some(&'*');
            rest = if crosses { after.get(1..).unwrap_or_default() } else { after };
            let mut next = vec![false; reached.len()];
            for at in 0..reached.len() {
                let before = at.checked_sub(1);
                let last = before.and_then(|before| name.get(before));
                let from = |list: &[bool]| before.and_then(|before| list.get(before)).copied() == Some(true);
                let here = match (first, last) {
                    ('*', last) => {
                        let stays = last.is_some_and(|c| crosses || *c != '/') && from(&next);
                        stays || reached.get(at) == Some(&true)
                    }
                    (c, Some(last)) => c == last && from(&reached),
                    (_, None) => false,
                };
                if let Some(slot) = next.get_mut(at) {
                    *slot = here;
                }
            }
            reached = next;
        }
        reached.last() == Some(&true)
    }
}

impl TryFrom<String> for RefGlob {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).map_err(|e| format!("`{text}` is not a ref: {e}"))
    }
}

impl From<RefGlob> for String {
    fn from(glob: RefGlob) -> Self {
        glob.0
    }
}

/// What a git client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum GitService {
    /// `git-upload-pack`: fetch, clone, ls-remote.
    Fetch,
    /// `git-receive-pack`.
    Push,
}

impl GitService {
    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fetch => "git-upload-pack",
            Self::Push => "git-receive-pack",
        }
    }
}

/// A request of smart HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitRequest {
    /// The repository's path on the host, canonical, without a leading slash and without `.git`.
    pub repository: String,
    /// What the client does.
    pub service: GitService,
    /// Whether it only asks for the refs (`info/refs`). Otherwise, the body contains the operation.
    pub lists_refs: bool,
}

/// A ref that a push would change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushedRef<'a> {
    /// Its full name, as in `refs/heads/main`.
    pub name: &'a str,
    /// Whether the push would delete it.
    pub deletes: bool,
}

impl GitRequest {
    /// Whether its body says which refs change.
    pub fn changes_refs(&self) -> bool {
        self.service == GitService::Push && !self.lists_refs
    }

    /// Parses a request; `None` if it is not smart HTTP, which has no other paths, methods and queries.
    pub fn read(method: &str, target: &str) -> Option<Self> {
        let path = canonical(target).ok()?;
        let query = target.split_once('?').map(|(_, query)| query);
        let (repository, service, lists_refs) = match method {
            "GET" => {
                let service = match query? {
                    "service=git-upload-pack" => GitService::Fetch,
                    "service=git-receive-pack" => GitService::Push,
                    _ => return None,
                };
                (path.strip_suffix("/info/refs")?, service, true)
            }
            "POST" if query.is_none() => {
                let fetch = path.strip_suffix("/git-upload-pack").map(|repository| (repository, GitService::Fetch));
                let push = || path.strip_suffix("/git-receive-pack").map(|repository| (repository, GitService::Push));
                let (repository, service) = fetch.or_else(push)?;
                (repository, service, false)
            }
            _ => return None,
        };
        let repository = repository.strip_prefix('/')?;
        let repository = repository.strip_suffix(".git").unwrap_or(repository);
        (!repository.is_empty()).then(|| Self { repository: repository.to_owned(), service, lists_refs })
    }
}

impl GitRule {
    /// Whether a request may be sent and, if it is a push, any refs may be pushed.
    pub fn permits(&self, request: &GitRequest) -> bool {
        match request.service {
            GitService::Fetch => self.fetch.iter().any(|glob| glob.matches(&request.repository)),
            GitService::Push => self.push.keys().any(|glob| glob.matches(&request.repository)),
        }
    }

    /// Whether a push may create or update a ref of a repository. No ref may be deleted.
    pub fn permits_ref(&self, repository: &str, pushed: PushedRef<'_>) -> bool {
        let mut lists = self.push.iter().filter(|(glob, _)| glob.matches(repository));
        !pushed.deletes && lists.any(|(_, refs)| refs.iter().any(|glob| glob.matches(pushed.name)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(method: &str, target: &str) -> Option<(String, GitService, bool)> {
        let request = GitRequest::read(method, target)?;
        Some((request.repository, request.service, request.lists_refs))
    }

    #[test]
    fn smart_http_has_these_requests_and_no_others() {
        let is = |service, lists| Some(("acme/widgets".to_owned(), service, lists));
        for name in ["acme/widgets", "acme/widgets.git", "acm%65/widgets"] {
            assert_eq!(read("GET", &format!("/{name}/info/refs?service=git-upload-pack")), is(GitService::Fetch, true));
            assert_eq!(read("GET", &format!("/{name}/info/refs?service=git-receive-pack")), is(GitService::Push, true));
            assert_eq!(read("POST", &format!("/{name}/git-upload-pack")), is(GitService::Fetch, false));
            assert_eq!(read("POST", &format!("/{name}/git-receive-pack")), is(GitService::Push, false));
        }
        assert_eq!(read("POST", "/a/b/c.git.git/git-upload-pack").unwrap().0, "a/b/c.git");
        for (method, target) in [
            ("GET", "/acme/widgets/info/refs"),
            ("GET", "/acme/widgets/info/refs?service=git-upload-archive"),
            ("GET", "/acme/widgets/info/refs?service=git-upload-pack&x=1"),
            ("GET", "/acme/widgets/info/refs?x=1&service=git-upload-pack"),
            ("GET", "/acme/widgets/info/refs?service=git%2Dupload-pack"),
            ("HEAD", "/acme/widgets/info/refs?service=git-upload-pack"),
            ("POST", "/acme/widgets/info/refs?service=git-upload-pack"),
            ("GET", "/acme/widgets/git-upload-pack"),
            ("POST", "/acme/widgets/git-upload-pack?x"),
            ("POST", "/acme/widgets/git-upload-pack/"),
            ("PUT", "/acme/widgets/git-receive-pack"),
            ("POST", "/git-receive-pack"),
            ("POST", "/.git/git-receive-pack"),
            ("GET", "/acme/widgets/HEAD"),
            ("POST", "/acme/widgets/info/lfs/objects/batch"),
            ("POST", "/acme/../widgets/git-receive-pack"),
            ("POST", "/acme//widgets/git-receive-pack"),
        ] {
            assert_eq!(read(method, target), None, "{method} {target}");
        }
    }

    #[test]
    fn refs_are_matched_by_parts() {
        let glob = |text: &str| RefGlob::parse(text).unwrap();
        let agent = glob("refs/heads/agent/**");
        assert!(agent.matches("refs/heads/agent/x") && agent.matches("refs/heads/agent/x/y"));
        assert!(
            !agent.matches("refs/heads/agent")
                && !agent.matches("refs/heads/agentx")
                && !agent.matches("refs/heads/main")
        );
        let one = glob("refs/heads/*-wip");
        assert!(one.matches("refs/heads/a-wip") && one.matches("refs/heads/-wip"));
        assert!(!one.matches("refs/heads/a/b-wip") && !one.matches("refs/heads/a-wipx"));
        assert!(glob("refs/heads/main").matches("refs/heads/main"));
        assert!(!glob("refs/heads/main").matches("refs/heads/MAIN"));
        assert!(glob("refs/**").matches("refs/heads/ü"));
        for text in [
            "main",
            "heads/main",
            "",
            "refs/",
            "refs//x",
            "refs/a b",
            "refs/a..b",
            "refs/a.lock",
            "refs/.a",
            "refs/a?",
            "refs/***",
        ] {
            assert!(RefGlob::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn repositories_are_matched_by_their_path() {
        let rule = GitRule {
            fetch: vec![RepositoryGlob::parse("acme/*").unwrap()],
            push: [(
                RepositoryGlob::parse("acme/widgets.git").unwrap(),
                vec![RefGlob::parse("refs/heads/agent/**").unwrap()],
            )]
            .into(),
        };
        let asks =
            |method: &str, target: &str| GitRequest::read(method, target).is_some_and(|request| rule.permits(&request));
        assert!(asks("POST", "/acme/gadgets.git/git-upload-pack"));
        assert!(asks("POST", "/acme/widgets/git-receive-pack"));
        assert!(!asks("POST", "/acme/gadgets/git-receive-pack"));
        assert!(!asks("POST", "/acme/a/b/git-upload-pack"));
        assert!(!asks("POST", "/other/widgets/git-upload-pack"));
        assert!(!asks("POST", "/acme/widgets/x/git-receive-pack"));
        let moves = |repository, name| rule.permits_ref(repository, PushedRef { name, deletes: false });
        assert!(moves("acme/widgets", "refs/heads/agent/x"));
        assert!(!moves("acme/widgets", "refs/heads/main"));
        assert!(!moves("acme/gadgets", "refs/heads/agent/x"));
        assert!(!rule.permits_ref("acme/widgets", PushedRef { name: "refs/heads/agent/x", deletes: true }));
        for text in ["", "/acme/x", "acme//x", "acme/../x", "acme/x?y"] {
            assert!(RepositoryGlob::parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        /// Compares with a regular expression for the same glob.
        #[test]
        fn refs_are_matched_as_by_a_regular_expression(glob in "refs/[ab*/]{0,8}", name in "refs/[ab/]{0,8}") {
            let Ok(glob) = RefGlob::parse(&glob) else { return Ok(()) };
            let pattern = glob.as_str().replace("**", "@").replace('*', "[^/]*").replace('@', ".*");
            let regex = regex::Regex::new(&format!("^{pattern}$")).unwrap();
            prop_assert_eq!(glob.matches(&name), regex.is_match(&name), "{} {}", glob.as_str(), name);
        }
    }
}
