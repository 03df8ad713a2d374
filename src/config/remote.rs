//! Repos by URL: where a mirror comes from, and what its conversations get.

use std::path::{Path, PathBuf};

use super::credential::{self, SecretWish};
use super::limits;
use super::read::{self, Fields, Keys, fields, shorten};
use super::secret::{SecretRef, SecretSource};
use super::target;
use super::value::{self, Bad, absolute_problem, checked, path_finding};
use super::yaml::Node;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::source::{Located, SourceMap, Span};

pub(super) const CONVERSATIONS: Keys = Keys {
    what: "`conversations`",
    known: &["expire_after", "max_concurrent", "keep"],
    elsewhere: &[("repo_url", "write it beside `conversations`"), ("branch", "write it beside `conversations`")],
};

pub(super) const TOOL: Keys = Keys {
    what: "an entry of `tools`",
    known: &["source", "target"],
    elsewhere: &[("read_only", "tools are always read-only; remove it")],
};

/// Keys that only mean something beside `repo_url`.
const WITH_URL: [&str; 5] = ["branch", "clone_token", "conversations", "agent_state", "tools"];

/// Seconds that a conversation stays after its last end.
const EXPIRE_AFTER: u64 = 7 * 24 * 60 * 60;

/// How many conversations of a schedule stay.
const KEEP: u32 = 5;

/// What the server file says about a repo by URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RemoteWish {
    url: Located<String>,
    branch: Option<Located<String>>,
    clone_token: Option<SecretWish>,
    expire_after: u64,
    max_concurrent: Option<u32>,
    keep: u32,
    /// Where the agent's own state is mounted.
    agent_state: Option<Located<PathBuf>>,
    /// Read-only mounts, by name.
    tools: Vec<Tool>,
}

/// A program of the host, or a directory of programs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Tool {
    source: Located<PathBuf>,
    target: Located<PathBuf>,
}

/// A mount that the owner of the machine gives to each conversation.
pub(super) struct Given<'a> {
    /// Absolute path on the host.
    pub(super) source: PathBuf,
    pub(super) target: &'a Path,
    pub(super) read_only: bool,
    /// What gives it.
    pub(super) span: Span,
    /// Whether links in `source` are resolved; otherwise it is a directory of sandboxc.
    pub(super) is_tool: bool,
}

/// A repo by URL, as `run` and `conversation` need it.
#[derive(Clone, Debug)]
pub struct Remote {
    /// The name of the entry.
    pub name: String,
    /// `https://`, `ssh://`, `file://`, or `user@host:path`.
    pub url: String,
    /// The branch; `None` for the remote's HEAD.
    pub branch: Option<String>,
    /// The token for HTTPS; without it, the host user's own git answers.
    pub clone_token: Option<SecretRef>,
    /// Seconds that a conversation stays after its last end.
    pub expire_after: u64,
    /// How many conversations run at once.
    pub max_concurrent: Option<u32>,
    /// How many conversations of a schedule stay.
    pub keep: u32,
    /// When one starts, as an `OnCalendar=` expression.
    pub schedule: Option<String>,
}

/// The directories of a conversation, and where each is mounted. The state directory is mounted where the server file says.
pub const CONVERSATION_MOUNTS: [(&str, &str); 3] =
    [("inbox", "/inbox"), ("outbox", "/outbox"), ("storage", "/storage")];

/// The workspace of a conversation in its directory.
pub const CONVERSATION_WORKSPACE: &str = "workspace";

/// The directory for the agent's own state in a conversation's directory.
pub const CONVERSATION_STATE: &str = "state";

/// Where the workspace of a conversation is inside.
pub(super) const WORKSPACE_AT: &str = "/workspace";

impl RemoteWish {
    pub(super) fn remote(&self, name: &str, schedule: Option<String>, sources: &SourceMap) -> Remote {
        Remote {
            name: name.to_owned(),
            url: self.url.value.clone(),
            branch: self.branch.as_ref().map(|branch| branch.value.clone()),
            clone_token: self.clone_token.as_ref().map(|wish| wish.reference(sources)),
            expire_after: self.expire_after,
            max_concurrent: self.max_concurrent,
            keep: self.keep,
            schedule,
        }
    }

    /// Where the workspace's place is written.
    pub(super) fn span(&self) -> Span {
        self.url.span
    }

    /// What a conversation in this directory gets besides its workspace.
    pub(super) fn given(&self, dir: &Path) -> Vec<Given<'_>> {
        let own =
            |name: &str, target, span| Given { source: dir.join(name), target, read_only: false, span, is_tool: false };
        let state = self.agent_state.iter().map(|at| own(CONVERSATION_STATE, at.value.as_path(), at.span));
        let tools = self.tools.iter().map(|tool| {
            let Located { value: source, span } = tool.source.clone();
            Given { source, target: &tool.target.value, read_only: true, span, is_tool: true }
        });
        let fixed = CONVERSATION_MOUNTS.iter().map(|(name, at)| own(name, Path::new(*at), self.url.span));
        fixed.chain(state).chain(tools).collect()
    }
}

/// Reads the keys of an entry that belong to a repo by URL. With an error in one of them, nothing is fetched.
pub(super) fn read(map: &Fields<'_>, base: &Path, d: &mut Diagnostics) -> Option<RemoteWish> {
    let mut own = Diagnostics::new();
    let wish = read_keys(map, base, &mut own).filter(|_| !own.has_errors());
    d.append(own);
    wish
}

fn read_keys(map: &Fields<'_>, base: &Path, d: &mut Diagnostics) -> Option<RemoteWish> {
    let Some(node) = map.get("repo_url") else {
        for key in WITH_URL {
            if let Some(span) = map.key_span(key) {
                let message = format!("`{key}` needs `repo_url`: it is about conversations of a repo by URL");
                d.push(
                    Diagnostic::new(Code::MissingKey, message)
                        .at(span, "")
                        .help(format!("add `repo_url`, or remove `{key}`")),
                );
            }
        }
        return None;
    };
    let text = read::string(node, "`repo_url`", d);
    let url = text.and_then(|url| checked(repo_url(&url.value), Code::BadValue, url.span, d).map(|()| url));
    let branch = map.get("branch").and_then(|n| read::string(n, "`branch`", d));
    if let Some(branch) = &branch {
        checked(branch_name(&branch.value), Code::BadValue, branch.span, d);
    }
    let clone_token = map.get("clone_token").and_then(|n| token(n, url.as_ref(), base, d));
    let (mut expire_after, mut max_concurrent, mut keep) = (EXPIRE_AFTER, None, KEEP);
    if let Some(node) = map.get("conversations") {
        let map = fields(node, &CONVERSATIONS, d);
        let number = |key: &str, d: &mut Diagnostics| {
            let read = map.get(key).and_then(|n| read::whole(n, &format!("`{key}`"), 1..=1000, d))?;
            u32::try_from(read.value).ok()
        };
        max_concurrent = number("max_concurrent", d);
        keep = number("keep", d).unwrap_or(KEEP);
        expire_after = map
            .get("expire_after")
            .and_then(|n| limits::seconds(n, "expire_after", d))
            .and_then(|l| u64::try_from(l.value).ok())
            .unwrap_or(EXPIRE_AFTER);
    }
    let agent_state = map.get("agent_state").and_then(|n| {
        let text = read::string(n, "`agent_state`", d)?;
        Some(Located::new(target::target(&text, d)?, text.span))
    });
    let tools = map.get("tools").map(|n| tools(n, d)).unwrap_or_default();
    Some(RemoteWish { url: url?, branch, clone_token, expire_after, max_concurrent, keep, agent_state, tools })
}

fn token(node: &Node, url: Option<&Located<String>>, base: &Path, d: &mut Diagnostics) -> Option<SecretWish> {
    if let Some(url) = url.filter(|url| !url.value.starts_with("http")) {
        let message = "`clone_token` is for `https://` URLs; this one needs no token";
        let finding = Diagnostic::new(Code::BadValue, message).at(node.span, "").at(url.span, "the URL");
        d.push(finding.help("remove `clone_token`: your own git answers, e.g. with an SSH agent"));
        return None;
    }
    credential::token(node, "clone_token", base, d)
}

fn tools(node: &Node, d: &mut Diagnostics) -> Vec<Tool> {
    let mut tools = Vec::new();
    for (key, node) in read::entries_of(node, "`tools`", d) {
        checked(value::label(&key.text), Code::BadValue, key.span, d);
        let map = fields(node, &TOOL, d);
        let mut path = |name: &str, example: &str| -> Option<Located<String>> {
            let Some(node) = map.get(name) else {
                let message = format!("the tool `{}` has no `{name}`", shorten(&key.text));
                d.push(
                    Diagnostic::new(Code::MissingKey, message)
                        .at(key.span, "")
                        .help(format!("add `{name}: {example}`")),
                );
                return None;
            };
            read::string(node, &format!("`{name}`"), d)
        };
        let (source, at) = (path("source", "/home/me/.local/share/claude/current"), path("target", "/opt/claude"));
        let source = source.and_then(|text| {
            let path = PathBuf::from(&text.value);
            match absolute_problem(&text.value, &path) {
                None => Some(Located::new(path, text.span)),
                Some(problem) => {
                    d.push(path_finding(&problem, text.span, "write an absolute path"));
                    None
                }
            }
        });
        let at = at.and_then(|text| Some(Located::new(target::target(&text, d)?, text.span)));
        if let (Some(source), Some(target)) = (source, at) {
            tools.push(Tool { source, target });
        }
    }
    tools
}

/// Checks a URL for git. It becomes the `origin` that the agent sees, so it contains no password; and what it leads to decides
/// what a sandbox may do, so nobody on the way may change it.
fn repo_url(text: &str) -> Result<(), Bad> {
    let help = "write `https://HOST/PATH`, `ssh://HOST/PATH`, `git@HOST:PATH` or `file:///PATH`";
    let bad = |why: &str| Err(Bad::new(format!("`{}` is not a URL of a repo: {why}", shorten(text)), help));
    if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return bad("it has a space or a control character");
    }
    let Some((scheme, rest)) = text.split_once("://") else {
        let Some((host, path)) = text.split_once(':') else { return bad("it has no scheme") };
        let host = host.rsplit_once('@').map_or(host, |(user, host)| if is_word(user) { host } else { "" });
        let fits = is_host(host) && !path.is_empty() && !path.starts_with([':', '-']);
        return if fits { Ok(()) } else { bad("it has no host and path") };
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    let host = host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()).map_or(host, |(host, _)| host);
    if path.len() < 2 {
        return bad("it has no path");
    }
    match scheme {
        "file" if authority.is_empty() => Ok(()),
        "file" => bad("`file:` is followed by three slashes"),
        _ if !is_host(host) => bad("its host is not a name or an address"),
        "https" | "http" if user.is_some() => Err(Bad::new(
            "the URL contains a user or a token, which the agent would see",
            "remove what is before the `@`, and write `clone_token: !env NAME`",
        )),
        "http" if !["localhost", "127.0.0.1"].contains(&host) => Err(Bad::new(
            "`http:` is not encrypted: anybody on the way could change what a sandbox may do",
            "write `https://…`",
        )),
        "https" | "http" => Ok(()),
        "ssh" if user.is_none_or(is_word) => Ok(()),
        "ssh" => bad("its user is not a name; write no password"),
        _ => bad("this scheme is not supported"),
    }
}

fn is_word(text: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !text.is_empty() && !text.starts_with('-') && text.chars().all(word)
}

/// A name or an IPv4 address.
fn is_host(text: &str) -> bool {
    is_word(text) && !text.contains('_')
}

/// Checks the name of a branch (git-check-ref-format(1)).
fn branch_name(text: &str) -> Result<(), Bad> {
    let odd = |c: char| c.is_control() || c.is_whitespace() || "~^:?*[\\".contains(c);
    let part = |part: &str| {
        let is_lock = part.strip_suffix(".lock").is_some();
        !part.is_empty() && !part.starts_with('.') && !part.ends_with('.') && !is_lock
    };
    let fits = text.len() <= 200
        && text != "@"
        && !text.starts_with('-')
        && !text.chars().any(odd)
        && !text.contains("..")
        && !text.contains("@{")
        && text.split('/').all(part);
    match fits {
        true => Ok(()),
        false => Err(Bad::new(
            format!("`{}` cannot be a branch", shorten(text)),
            "write the name of a branch without `refs/heads/`, e.g. `main`",
        )),
    }
}

/// Whether this can be the name of a branch (git-check-ref-format(1)).
pub fn is_branch(text: &str) -> bool {
    branch_name(text).is_ok()
}

impl Remote {
    /// The scheme, host and port that git names when it asks for a password; `None` for other URLs.
    pub fn asked_as(&self) -> Option<&str> {
        let at = self.url.find("://").map(|at| at + 3)?;
        let rest = self.url.get(at..)?;
        let end = at + rest.find('/').unwrap_or(rest.len());
        self.url.get(..end).filter(|_| self.url.starts_with("http"))
    }

    /// The variable that the token is read from.
    pub fn token_variable(&self) -> Option<&str> {
        match &self.clone_token.as_ref()?.source {
            SecretSource::Env(name) => Some(name),
            SecretSource::File(..) | SecretSource::Literal(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_that_git_may_use_and_others() {
        for good in [
            "https://github.com/acme/widgets.git",
            "https://git.example.com:8443/acme/widgets",
            "http://127.0.0.1:8080/widgets.git",
            "http://localhost/widgets.git",
            "ssh://git@git.example.com:2222/acme/widgets.git",
            "ssh://git.example.com/widgets",
            "git@github.com:acme/widgets.git",
            "git.example.com:widgets",
            "file:///srv/git/widgets.git",
        ] {
            assert!(repo_url(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "widgets",
            "/srv/git/widgets.git",
            "--upload-pack=touch /tmp/x",
            "ext::sh -c touch% /tmp/x",
            "ext::sh",
            "https://",
            "https:///x",
            "https://github.com",
            "https://github.com/",
            "https://token@github.com/acme/widgets",
            "https://user:token@github.com/acme/widgets",
            "http://git.example.com/widgets.git",
            "http://127.0.0.1.evil.example/x",
            "git://git.example.com/x",
            "ssh://-oProxyCommand=x/y",
            "ssh://a:b@git.example.com/x",
            "-oProxyCommand=x:y",
            "git@-x:y",
            "a b@host:x",
            "file://host/x",
            "https://git.example.com/a b",
            "https://git.example.com/a\nb",
        ] {
            assert!(repo_url(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn branches_that_git_takes_and_others() {
        for good in ["main", "release/1.x", "a-b_c", "feature/@home"] {
            assert!(branch_name(good).is_ok(), "{good}");
        }
        for bad in [
            "", "-x", "a..b", "a b", "a~1", "a^", "a:b", "@", "a@{1}", "/a", "a/", "a//b", ".a", "a/.b", "a.lock",
            "a.", "a\\b", "a*",
        ] {
            assert!(branch_name(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn git_asks_for_a_password_by_scheme_host_and_port() {
        let remote = |url: &str| Remote {
            name: "w".into(),
            url: url.into(),
            branch: None,
            clone_token: None,
            expire_after: 1,
            max_concurrent: None,
            keep: 1,
            schedule: None,
        };
        assert_eq!(remote("https://git.example.com:8443/a/b").asked_as(), Some("https://git.example.com:8443"));
        assert_eq!(remote("git@git.example.com:a").asked_as(), None);
        assert_eq!(remote("ssh://git.example.com/a").asked_as(), None);
    }
}
