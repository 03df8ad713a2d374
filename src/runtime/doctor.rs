//! The checks of `sandboxc doctor`: whether this host can keep every promise. Where version numbers say little, a check starts a container.

mod agent;
mod defaults;
mod git;
mod host;
mod podman;
mod probe;

use std::net::IpAddr;
use std::path::PathBuf;
use std::thread;

use serde::Serialize;

use super::RuntimeError;
use super::podman::Podman;
use super::registry::Registry;
use crate::plan::Plan;

use defaults::Places;
pub use probe::session;

/// The command that gives a user the subordinate ids that containers need.
pub const FIX_IDS: &str =
    "sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $USER && podman system migrate";

/// How to delegate the controllers that limits need to the users of this host.
pub const FIX_CONTROLLERS: &str = "printf '[Service]\\nDelegate=cpu cpuset io memory pids\\n' | sudo install -D -m 644 /dev/stdin \
     /etc/systemd/system/user@.service.d/delegate.conf && sudo systemctl daemon-reload, then log in again";

/// How to confine an agent with `SELinux`.
pub const FIX_LABEL: &str = "install packaging/selinux and write `selinux: type:sandboxc_agent.process` into the server file, or `selinux: relabel` \
     (docs/selinux.md)";

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// The promise can be kept.
    Ok,
    /// The promise can be kept, with a limitation that the owner of the host should know.
    Warn,
    /// The promise cannot be kept.
    Fail,
}

/// One promise, and whether this host can keep it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The check's name, for scripts.
    pub check: &'static str,
    /// The promise, as a sentence.
    pub promise: &'static str,
    /// Whether it can be kept.
    pub level: Level,
    /// What the check found.
    pub found: String,
    /// The command, or the change to a file, that fixes it.
    pub fix: Option<String>,
}

impl Check {
    fn ok(check: &'static str, promise: &'static str, found: impl Into<String>) -> Self {
        Self { check, promise, level: Level::Ok, found: found.into(), fix: None }
    }

    fn fail(check: &'static str, promise: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { check, promise, level: Level::Fail, found: found.into(), fix: Some(fix.into()) }
    }

    fn warn(self, fix: impl Into<String>) -> Self {
        Self { level: Level::Warn, fix: Some(fix.into()), ..self }
    }
}

/// What the checks look at.
#[derive(Debug)]
pub struct Subject<'a> {
    /// podman, started in an empty directory.
    pub podman: &'a Podman,
    /// The registry of sessions; `None` without a runtime directory.
    pub registry: Option<&'a Registry>,
    /// `$XDG_RUNTIME_DIR`, unverified.
    pub runtime_dir: Option<PathBuf>,
    /// A plan made from the config in force. The checks use its images and networks.
    pub plan: &'a Plan,
    /// A name that should resolve.
    pub name: String,
    /// git's system and user config files.
    pub git_files: Vec<PathBuf>,
}

/// Runs all checks in parallel and returns their results in a fixed order.
pub fn examine(subject: &Subject<'_>) -> Vec<Check> {
    thread::scope(|scope| {
        let groups: Vec<thread::ScopedJoinHandle<'_, Vec<Check>>> = vec![
            scope.spawn(|| podman::version(subject.podman)),
            scope.spawn(|| podman::info(subject.podman)),
            scope.spawn(|| vec![defaults::check(&Places::of_this_user())]),
            scope.spawn(|| host::checks(subject)),
            scope.spawn(|| vec![git::bare_repositories(&subject.git_files)]),
            scope.spawn(|| probe::images(subject)),
            scope.spawn(|| agent::checks(subject)),
            scope.spawn(|| probe::networks(subject)),
        ];
        groups.into_iter().flat_map(|group| group.join().unwrap_or_else(|_| vec![fault()])).collect()
    })
}

fn fault() -> Check {
    Check::fail("internal", "doctor runs every check", "a check panicked", "report this as a bug in sandboxc")
}

/// The text of an error, for `Check::found`.
fn told(error: &RuntimeError) -> String {
    error.to_string()
}

/// The resolver that routers query.
fn resolver(plan: &Plan) -> IpAddr {
    let first = plan.network.as_ref().and_then(|net| net.upstream_dns.iter().find(|a| a.is_ipv4()).copied());
    first.unwrap_or(crate::plan::HOST_RESOLVER.into())
}
