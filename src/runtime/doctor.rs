//! Can this host keep every promise? Each check looks for itself; where a version says little, a container is tried.

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

/// What gives a user the ids that containers need.
pub const MEND_IDS: &str =
    "sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $USER && podman system migrate";

/// What confines an agent by `SELinux`.
pub const MEND_LABEL: &str = "install packaging/selinux and write `selinux: type:sandboxc_agent.process` into the server file, or `selinux: relabel` \
     (docs/selinux.md)";

/// How a promise stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// It can be kept.
    Kept,
    /// It can, but somebody should know something.
    Warning,
    /// It cannot.
    Broken,
}

/// One promise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// A word for scripts.
    pub check: &'static str,
    /// What is promised.
    pub promise: &'static str,
    /// How it stands.
    pub level: Level,
    /// What was seen.
    pub found: String,
    /// The command (or the file) that mends it.
    pub mend: Option<String>,
}

impl Check {
    fn kept(check: &'static str, promise: &'static str, found: impl Into<String>) -> Self {
        Self { check, promise, level: Level::Kept, found: found.into(), mend: None }
    }

    fn broken(check: &'static str, promise: &'static str, found: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { check, promise, level: Level::Broken, found: found.into(), mend: Some(mend.into()) }
    }

    fn warning(self, mend: impl Into<String>) -> Self {
        Self { level: Level::Warning, mend: Some(mend.into()), ..self }
    }
}

/// What is to be asked about.
#[derive(Debug)]
pub struct Subject<'a> {
    /// podman, in an empty directory.
    pub podman: &'a Podman,
    /// Where sessions live; `None` without a runtime directory.
    pub registry: Option<&'a Registry>,
    /// `$XDG_RUNTIME_DIR`, as it is set.
    pub runtime_dir: Option<PathBuf>,
    /// A plan of the config in force: its images and networks are the ones that are tried.
    pub plan: &'a Plan,
    /// A name that should resolve.
    pub name: String,
    /// git's config files outside of repositories.
    pub git_files: Vec<PathBuf>,
}

/// Every check, side by side, in a fixed order.
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
    Check::broken("internal", "doctor itself works", "a check ended early", "report it as a fault of sandboxc")
}

/// What podman said, for `found`.
fn told(error: &RuntimeError) -> String {
    error.to_string()
}

/// The resolver that the routers ask.
fn resolver(plan: &Plan) -> IpAddr {
    let first = plan.network.as_ref().and_then(|net| net.upstream_dns.iter().find(|a| a.is_ipv4()).copied());
    first.unwrap_or(crate::plan::HOST_RESOLVER.into())
}
