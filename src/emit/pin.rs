//! Pinned sources of mounts: podman gets names that no sandbox can change, instead of the sources' own names.
//!
//! Scripts and units use `pin.sh`, which podman runs in its own namespaces before anything else; `sandboxc run`
//! compares afterwards instead. A manifest that is played by hand uses the sources' own names, see [`mount_gaps`].

use crate::config::Stand;
use crate::plan::Plan;
use crate::plan::pod::{Container, Pod, Role, Source};

use super::EmitError;

/// The name of the script in a compiled tree.
pub const FILE: &str = "pin.sh";

/// The script.
pub const SCRIPT: &str = include_str!("../../templates/pin.sh");

/// Where podman finds the sources of mounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sources {
    /// Under their own names.
    Named,
    /// In this directory, under the mount's name.
    Held(String),
}

/// The directory's name in the script's manifest, which the script replaces. No value of the config can be equal to it,
/// since it contains a hash of the whole config.
pub fn placeholder(plan: &Plan) -> String {
    format!("/sandboxc-{}-mounts", plan.names.hash)
}

/// Arguments of `pin.sh`, three for each source: the mount's name, its kind, and the source's path. The kind is
/// `directory` or `file` for a stand-in that is created if it is missing. Otherwise, it is `inside` if the agent can
/// write a directory on the way to the source, else `outside`.
pub fn pin_args(plan: &Plan) -> Result<Vec<[&str; 3]>, EmitError> {
    let agent = &plan.agent.main;
    let mut services = plan.pods().flat_map(Pod::containers).filter(|container| container.role != Role::Agent);
    if services.any(|container| container.host_mounts().next().is_some()) {
        return Err(EmitError::Internal("only the agent may have mounts of the host".to_owned()));
    }
    let args = agent.host_mounts().map(|(source, mount)| {
        let kind = match &mount.source {
            Source::StandIn { stand: Stand::Directory, path: _ } => "directory",
            Source::StandIn { stand: Stand::File, path: _ } => "file",
            _ if agent.writes_name_of(source) => "inside",
            _ => "outside",
        };
        let unfit = || EmitError::CannotKeep {
            what: format!("the path {}", source.display()),
            why: "it is not UTF-8, which compiled files require".to_owned(),
        };
        Ok([mount.name.as_str(), kind, source.to_str().ok_or_else(unfit)?])
    });
    args.collect()
}

/// Mounts that a manifest alone cannot protect, one line each: the source is where the agent can write, and podman
/// looks it up by name at each start. Mounts of a path on itself, such as protected parts, are not included, since they
/// only remove access.
pub fn mount_gaps(plan: &Plan) -> Vec<String> {
    let agent = &plan.agent.main;
    let loose = agent.host_mounts().filter(|(source, _)| agent.writes_name_of(source));
    let loose = loose.filter(|(source, mount)| !is_in_place(agent, source, &mount.target));
    loose.map(|(source, mount)| format!("{} at {}", source.display(), mount.target.display())).collect()
}

/// Why a manifest cannot protect them, and what can.
pub const MOUNT_GAP: &str = "podman looks these up by name at each start; the command cannot replace them, but another sandbox that \
                             can write there could replace them with links; `sandboxc run`, the script target and units prevent that";

fn is_in_place(container: &Container, source: &std::path::Path, target: &std::path::Path) -> bool {
    container.host_mounts().any(|(around, mount)| {
        let below = source.strip_prefix(around).ok().filter(|below| !below.as_os_str().is_empty());
        below.is_some_and(|below| mount.target.join(below) == target)
    })
}
