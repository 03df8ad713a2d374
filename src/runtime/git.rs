//! Calls the host's git, for mirrors of repos by URL and for clones of them. Nothing here runs git in a directory that an
//! agent can write.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::RuntimeError;
use super::call::{Call, follow, run};
use super::redact::{Known, Redactor};
use super::signals::Signals;
use crate::visible::escaped;

/// How long a transfer may take.
const TRANSFER: Duration = Duration::from_secs(2 * 60 * 60);

/// How long a question about a repository of ours may take.
const LOCAL: Duration = Duration::from_secs(60);

/// How many of git's messages are kept for an error.
const KEPT: usize = 200;

/// The environment variable that makes this program answer git's question for a password (gitcredentials(7)). Its value is
/// what git calls the server: `https://host:port`.
pub const ASKED_FOR: &str = "SANDBOXC_ASKPASS_FOR";

/// The variable with the answer.
pub const ANSWER: &str = "SANDBOXC_ASKPASS_TOKEN";

/// The user that GitHub, GitLab and others expect beside a token. They ignore the name.
const TOKEN_USER: &str = "x-access-token";

/// Variables that would point git at another repository (git(1)), as in a hook.
const ELSEWHERE: [&str; 10] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_CONFIG_PARAMETERS",
    "GIT_CONFIG_COUNT",
];

/// Settings of every call: nothing in a repository is executed, nothing continues in the background.
const SETTINGS: [&str; 6] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "protocol.ext.allow=never",
    "fetch.recurseSubmodules=false",
    "gc.autoDetach=false",
    "maintenance.autoDetach=false",
];

/// A token, and the server that may have it.
#[derive(Clone, Copy)]
pub struct Token<'a> {
    /// The value.
    pub value: &'a str,
    /// `https://host:port`, as git names it.
    pub server: &'a str,
    /// The variable that it comes from, which git's helpers need not see.
    pub variable: Option<&'a str>,
}

/// How calls are made.
#[derive(Clone, Copy)]
pub struct Git<'a> {
    /// The token of the remote.
    pub token: Option<Token<'a>>,
    /// Signals that end a call.
    pub signals: Option<&'a Signals>,
    /// Shows a line of git's progress, if anybody wants to see it.
    pub progress: Option<fn(&str)>,
}

impl Git<'_> {
    /// A call to a remote, with the user's own settings, SSH agent and credential helpers. They never ask on the terminal,
    /// since nobody may be there.
    fn remote(&self) -> Result<Command, RuntimeError> {
        let mut command = plain();
        command.env("GIT_TERMINAL_PROMPT", "0").env("SSH_ASKPASS", "/bin/false").env("SSH_ASKPASS_REQUIRE", "force");
        if let Some(token) = self.token {
            let own = std::env::current_exe().map_err(RuntimeError::io("finding sandboxc's own program"))?;
            // A helper would see the token, and might keep it.
            command.args(["-c", "credential.helper="]);
            command.env("GIT_ASKPASS", own).env(ASKED_FOR, token.server).env(ANSWER, token.value);
            token.variable.map(|name| command.env_remove(name));
        }
        Ok(command)
    }

    /// A call within repositories of ours, without settings of the user or the system, which could name filters.
    fn local() -> Command {
        let mut command = plain();
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_ATTR_NOSYSTEM", "1");
        command.env_remove("GIT_TEMPLATE_DIR");
        command
    }

    /// Runs a transfer from a remote.
    pub fn transfer<S: AsRef<OsStr>>(&self, what: &str, args: &[S]) -> Result<(), RuntimeError> {
        self.show(self.remote()?, what, args)
    }

    /// Runs a transfer between directories of ours.
    pub fn copy<S: AsRef<OsStr>>(&self, what: &str, args: &[S]) -> Result<(), RuntimeError> {
        self.show(Self::local(), what, args)
    }

    /// Asks a remote.
    pub fn ask(&self, what: &str, args: &[&str]) -> Result<String, RuntimeError> {
        self.answer(self.remote()?, what, args, TRANSFER)
    }

    /// Asks a repository of ours.
    pub fn read(&self, what: &str, repository: &Path, args: &[&str]) -> Result<String, RuntimeError> {
        let mut command = Self::local();
        command.arg("-C").arg(repository);
        self.answer(command, what, args, LOCAL)
    }

    fn answer(&self, mut command: Command, what: &str, args: &[&str], most: Duration) -> Result<String, RuntimeError> {
        command.args(args);
        let output = run(command, None, Call { what, most, signals: self.signals }, no_git)?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(self.failed(what, &String::from_utf8_lossy(&output.stderr))),
        }
    }

    fn show<S: AsRef<OsStr>>(&self, mut command: Command, what: &str, args: &[S]) -> Result<(), RuntimeError> {
        command.args(args).stdin(Stdio::null());
        let mut last = VecDeque::new();
        let status = follow(command, Call { what, most: TRANSFER, signals: self.signals }, no_git, |line| {
            // A remote's messages may contain anything.
            self.progress.inspect(|show| show(&escaped(line.trim_end())));
            last.push_back(line);
            last.drain(..last.len().saturating_sub(KEPT));
        })?;
        match status.success() {
            true => Ok(()),
            false => Err(self.failed(what, &Vec::from(last).join("\n"))),
        }
    }

    /// git's last messages, without the token.
    fn failed(&self, what: &str, said: &str) -> RuntimeError {
        let values = self.token.map(|token| token.value.to_owned()).into_iter().collect();
        let redactor = Redactor::new(Known { values, surrogates: Vec::new() }).unwrap_or_default();
        let lines = said.split('\n').map(str::trim).filter(|line| !line.is_empty());
        let mut last: VecDeque<&str> = VecDeque::new();
        for line in lines.filter(|line| !line.ends_with('%') && !line.contains("% (")) {
            last.push_back(line);
            if last.len() > 4 {
                last.pop_front();
            }
        }
        let text = Vec::from(last).join("; ");
        RuntimeError::Host(format!("{what}: {}", escaped(&redactor.text(&text))))
    }
}

fn plain() -> Command {
    let mut command = Command::new("git");
    for name in ELSEWHERE {
        command.env_remove(name);
    }
    command.env("LC_ALL", "C").current_dir("/");
    for setting in SETTINGS {
        command.args(["-c", setting]);
    }
    command
}

fn no_git(error: std::io::Error) -> RuntimeError {
    RuntimeError::Io("cannot run git, which repos by URL need".to_owned(), error)
}

/// Answers git's question as `GIT_ASKPASS`: `Username for 'https://host': ` or `Password for 'https://user@host': `. Any other
/// server, to which the first one may have redirected, gets no answer.
pub fn askpass(question: &str, server: &str, token: &str) -> Option<String> {
    let (what, rest) = question.split_once(" for '")?;
    let (named, _) = rest.split_once('\'')?;
    let (scheme, authority) = named.split_once("://")?;
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    if format!("{scheme}://{host}") != server {
        return None;
    }
    match what {
        "Username" => Some(TOKEN_USER.to_owned()),
        "Password" => Some(token.to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_goes_to_the_server_of_the_url_alone() {
        let ask = |question: &str| askpass(question, "https://git.example.com:8443", "t0ken");
        assert_eq!(ask("Username for 'https://git.example.com:8443': ").as_deref(), Some("x-access-token"));
        assert_eq!(ask("Password for 'https://x-access-token@git.example.com:8443': ").as_deref(), Some("t0ken"));
        for other in [
            "Password for 'https://x@git.example.com': ",
            "Password for 'http://x@git.example.com:8443': ",
            "Password for 'https://git.example.com:8443@evil.example': ",
            "Password for 'https://x@git.example.com:8443.evil.example': ",
            "Password for 'https://git.example.com:8443/x': ",
            "Passphrase for 'https://git.example.com:8443': ",
            "Password: ",
            "",
        ] {
            assert_eq!(ask(other), None, "{other}");
        }
    }

    #[test]
    fn an_error_has_gits_last_lines_without_progress_and_without_the_token() {
        let token = Token { value: "s3cret-token", server: "https://x", variable: None };
        let git = Git { token: Some(token), signals: None, progress: None };
        let said = "Receiving objects:  50% (1/2)\nremote: bad s3cret-token\u{1b}[2J\nfatal: no\n\n";
        let error = git.failed("fetching", said).to_string();
        assert_eq!(error, "fetching: remote: bad [redacted]\\u{1b}[2J; fatal: no");
    }
}
