//! The mounts of containers.

use std::path::{Path, PathBuf};

use super::{FileSet, MaterialSet, Mount, MountOption, Source, held};
use crate::config::{Identity, Resolved, Selinux};
use crate::plan::agent::{Agent, NESTED_STORAGE};
use crate::plan::{MaterialStore, Materials, Part, git, trust};
use crate::source::Place;

/// podman's default size of `/dev/shm`.
const SHM_SIZE: u64 = 65_536_000;

/// Nothing on a mount of the host or on a volume can gain privileges or act as a device.
pub(super) const PLAIN: [MountOption; 2] = [MountOption::NoSuid, MountOption::NoDev];

/// Files of the agent that podman would otherwise create in the host's runtime directory. There, root inside could
/// write them and fill the directory. Also `/etc/hosts`, without which `localhost` does not resolve (`--no-hosts`).
const OWN_FILES: [(&str, &str); 6] = [
    ("hosts", "/etc/hosts"),
    ("hostname", "/etc/hostname"),
    ("resolv.conf", "/etc/resolv.conf"),
    ("containerenv", "/run/.containerenv"),
    ACCOUNTS[0],
    ACCOUNTS[1],
];

/// The users and groups of an agent that is [`AGENT_USER`]. podman would add the invoking user to those of the image, with
/// the user's own name and the workspace as home. Root keeps the image's files: it installs packages, which add users, and
/// podman adds nobody.
const ACCOUNTS: [(&str, &str); 2] = [("passwd", "/etc/passwd"), ("group", "/etc/group")];

/// Files for podman inside. The image's own `/etc/subuid` has ranges that do not exist in the container.
const NESTED_FILES: [(&str, &str); 4] = [
    ("containers.conf", "/etc/containers/containers.conf.d/50-sandboxc.conf"),
    ("storage.conf", NESTED_STORAGE),
    ("subid", "/etc/subgid"),
    ("subid", "/etc/subuid"),
];

/// The agent's mounts, in order: with this home volume, and `program`, an additional mount of ours.
pub(super) fn agent_mounts(
    resolved: &Resolved,
    agent: &Agent,
    materials: Option<&Materials>,
    (home, program): (String, Option<Mount>),
) -> Vec<Mount> {
    let has = |part| materials.is_some_and(|materials| materials.has(part));
    let workspace = &agent.workspace;
    let selinux = &resolved.selinux.value;
    // Files that are not ours are never relabeled unless the owner of the machine chose that.
    let host = |name: &str, source, target: &Path, read_only, from: &Place| Mount {
        relabel: *selinux == Selinux::Relabel,
        ..host(name, source, target, read_only, from)
    };
    // A labeled process can read files with the containers' label.
    let ours = |name: &str, source, target: &str| Mount {
        relabel: *selinux != Selinux::Disable,
        ..ours(name, source, target)
    };
    let file =
        |(file, at): &(&'static str, &str)| ours("files", Source::Files { set: FileSet::Agent, file: Some(file) }, at);
    let is_taken = |at: &str| agent.mounts.iter().any(|mount| Path::new(at).starts_with(&mount.target));
    let own = OWN_FILES.iter().filter(|own @ (file, at)| match *file {
        "resolv.conf" => resolved.sandbox_enabled.value,
        _ if ACCOUNTS.contains(own) => agent.identity.value == Identity::HostUser && !is_taken(at),
        _ => true,
    });
    let home = Mount {
        read_only: false,
        relabel: false,
        options: PLAIN.to_vec(),
        from: agent.home.volume.from.clone(),
        ..self::ours("home", Source::Volume(home), &agent.home.target)
    };
    let source = workspace.source.clone();
    let nested = resolved.nested.iter().flat_map(|_| &NESTED_FILES);
    let mut mounts: Vec<Mount> = own.chain(nested).map(file).collect();
    let has_helper = !git::answers(&resolved.policy).is_empty() && has(Part::Surrogates);
    mounts.extend(has_helper.then(|| file(&(git::HELPER, git::HELPER_AT))));
    mounts.extend(program);
    mounts.extend([home, host("workspace", source, &workspace.target, workspace.read_only, &workspace.from)]);
    if let Selinux::Type(_) = selinux {
        // podman's own file belongs to the infra container, which has a different label.
        mounts.push(Mount {
            read_only: false,
            ..self::ours("shm", Source::Memory(agent.limits.shm.as_ref().map_or(SHM_SIZE, |shm| shm.value)), "/dev/shm")
        });
    }
    for (index, (path, overlay)) in workspace.overlays().into_iter().enumerate() {
        let part = workspace.protect.iter().find(|part| part.path.starts_with(path));
        let from = part.map_or(&workspace.from, |part| &part.from);
        let name = format!("protect-{index}");
        let (source, target) = (workspace.source.join(path), workspace.target.join(path));
        mounts.push(match overlay.stand_in {
            None => host(&name, source, &target, overlay.read_only, from),
            Some(stand) => Mount {
                source: Source::StandIn { path: source.clone(), stand },
                ..host(&name, source, &target, true, from)
            },
        });
    }
    for (index, extra) in agent.mounts.iter().enumerate() {
        let name = format!("mount-{index}");
        mounts.push(host(&name, extra.source.clone(), &extra.target, extra.read_only, &extra.from));
    }
    let held = held::held(&mounts);
    mounts.extend(held);
    let labeled = |mount: Mount| Mount { relabel: *selinux != Selinux::Disable, ..mount };
    let has_directory = !matches!(materials.map(|m| &m.store), Some(MaterialStore::Secrets(_)));
    if has(Part::Secrets) && has_directory {
        mounts.push(labeled(material(MaterialSet::Secrets, None, trust::SECRETS_AT)));
    }
    if has(Part::Trust) {
        mounts.push(labeled(material(MaterialSet::Agent, None, trust::TRUST_AT)));
        let taken = agent.mounts.iter().map(|mount| &mount.target).chain([&workspace.target, &agent.home.target]);
        let taken: Vec<&Path> = taken.map(PathBuf::as_path).collect();
        let roots = trust::OwnRoots { session_ca: has(Part::Router), extra_ca: resolved.extra_ca.is_some() };
        let stand_ins = trust::stand_ins(agent.identity.value, roots, &taken).into_iter();
        mounts.extend(stand_ins.map(|(file, at)| labeled(material(MaterialSet::Agent, Some(file), at))));
    }
    mounts
}

/// A read-only mount that every such container has.
pub(super) fn ours(name: &str, source: Source, target: impl AsRef<Path>) -> Mount {
    Mount {
        name: name.to_owned(),
        source,
        target: target.as_ref().to_owned(),
        read_only: true,
        relabel: false,
        options: Vec::new(),
        from: Place::built_in(),
    }
}

pub(super) fn material(set: MaterialSet, file: Option<&'static str>, target: &str) -> Mount {
    let name = match set {
        MaterialSet::Router => "materials",
        MaterialSet::Agent => "trust",
        MaterialSet::Secrets => "secrets",
    };
    ours(name, Source::Material { set, file }, target)
}

fn host(name: &str, source: PathBuf, target: &Path, read_only: bool, from: &Place) -> Mount {
    let options = PLAIN.to_vec();
    Mount { read_only, options, from: from.clone(), ..ours(name, Source::Host(source), target) }
}
