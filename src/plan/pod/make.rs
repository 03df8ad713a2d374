//! Makes the pods. No other module decides what a container may do.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use super::held;
use super::{
    Attachment, Ceiling, Container, Dns, EnvValue, FILES_AT, FileSet, HANDOVER_AT, Handover, Label, MaterialSet, Mount,
    MountOption, NetworkKind, Pod, Proc, Pull, Role, Seccomp, Source,
};
use crate::config::{Identity, ImageSource, Resolved, ResourceLimits, Selinux};
use crate::plan::agent::Agent;
use crate::plan::{Command, MaterialStore, Materials, Names, Part, SandboxNetwork, surrogates, trust};
use crate::source::{Place, Sourced};

/// uid and gid of router, gate and forwarder. They belong to no user of the host and are not the agent's.
const SERVICE_USER: u32 = 990;

/// uid and gid of an agent with the identity of the invoking user, so that a manifest is the same on every machine.
const AGENT_USER: u32 = 1000;

/// Maps the invoking user to [`AGENT_USER`]. Both pods use the same mapping, so that the router's image is mapped once
/// and memory holds one copy of it, 5 MB less in total.
const KEEP_ID: &str = "keep-id:uid=1000,gid=1000";

/// Maps the invoking user to root, like podman's default user namespace, which all containers of a user share. The
/// gate's limit on user namespaces needs a namespace of the pod's own.
const KEEP_ROOT: &str = "keep-id:uid=0,gid=0";

/// Capabilities of an agent that is root: what package managers need, and nothing that changes the network or other
/// processes.
const ROOT_CAPS: [&str; 5] = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"];

/// For ports 53, 80 and 443.
const LISTENER_CAPS: [&str; 1] = ["NET_BIND_SERVICE"];

/// For the limits of the pod's user namespace (`user_namespaces(7)`).
const GATE_CAPS: [&str; 1] = ["SYS_RESOURCE"];

/// The bridge would otherwise have a link-local address, and a host service on `[::]` would be reachable (rootful).
const WITHOUT_IPV6: [(&str, &str); 2] =
    [("net.ipv6.conf.all.disable_ipv6", "1"), ("net.ipv6.conf.default.disable_ipv6", "1")];

/// Every name is absolute: there are no search domains.
const NDOTS: u8 = 1;

/// Where the router's program is in its image.
const PROGRAM: &str = "/sandboxc-router";

/// podman's init inside a container that has it (libpod `ContainerInitPath`).
const INIT: &str = "/run/podman-init";

/// Seconds between SIGTERM and SIGKILL for containers of sandboxc.
const SERVICE_STOP_TIMEOUT: u32 = 2;

/// The same for the agent.
const AGENT_STOP_TIMEOUT: u32 = 5;

/// The router's limits: an agent can open thousands of connections to it.
const ROUTER_CEILING: Ceiling = Ceiling { memory: 512 << 20, cpus: 2, pids: 256 };

/// The limits of gate and forwarder.
const HELPER_CEILING: Ceiling = Ceiling { memory: 256 << 20, cpus: 1, pids: 64 };

/// podman's default size of `/dev/shm`.
const SHM_SIZE: u64 = 65_536_000;

/// Nothing on a mount of the host or on a volume can gain privileges or act as a device.
const PLAIN: [MountOption; 2] = [MountOption::NoSuid, MountOption::NoDev];

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

/// Modes of the program, which is all that its image contains. A gate at the head of a forwarder needs an additional
/// capability, which the forwarder drops before it reports that the gate has passed.
const ROUTER: [&str; 2] = [PROGRAM, "router"];
const ROUTER_READY: [&str; 2] = [PROGRAM, "ready"];
const GATE: [&str; 2] = [PROGRAM, "gate"];
const FORWARDER: [&str; 2] = [PROGRAM, "forward"];
const FORWARDER_READY: [&str; 2] = [PROGRAM, "listening"];
const GATED_FORWARDER: [&str; 3] = [PROGRAM, "forward", "--gate"];

/// Root's user namespaces map its own id, for which the kernel requires this capability (`user_namespaces(7)`, since
/// 5.12).
const MAPPING_CAPS: [&str; 1] = ["SETFCAP"];

/// The agent's capabilities.
pub(in crate::plan) fn capabilities_of(resolved: &Resolved) -> Vec<&'static str> {
    match (resolved.identity.value, resolved.user_namespaces.value) {
        (Identity::HostUser, _) => Vec::new(),
        (Identity::Root, false) => ROOT_CAPS.to_vec(),
        (Identity::Root, true) => [ROOT_CAPS.as_slice(), &MAPPING_CAPS].concat(),
    }
}

/// The router's pod, if there is a router, and the agent's.
pub(in crate::plan) fn pods(
    resolved: &Resolved,
    agent: &Agent,
    names: &Names,
    network: Option<&SandboxNetwork>,
    materials: Option<&Materials>,
    handover: Handover,
) -> (Option<Pod>, Pod) {
    let maker = Maker { resolved, agent, names, materials, handover };
    (network.map(|net| maker.router(net)), maker.agent(network))
}

struct Maker<'a> {
    resolved: &'a Resolved,
    agent: &'a Agent,
    names: &'a Names,
    materials: Option<&'a Materials>,
    handover: Handover,
}

impl Maker<'_> {
    fn userns(&self) -> &'static str {
        match self.agent.identity.value {
            Identity::HostUser => KEEP_ID,
            Identity::Root => KEEP_ROOT,
        }
    }

    fn has(&self, part: Part) -> bool {
        self.materials.is_some_and(|materials| materials.has(part))
    }

    fn router(&self, net: &SandboxNetwork) -> Pod {
        let mut router = self.service(Role::Router, &LISTENER_CAPS, words(&ROUTER), FileSet::Router);
        router.ready = Some(words(&ROUTER_READY));
        router.mounts.push(self.handover());
        if self.has(Part::Router) {
            // The directory is ours, so an SELinux label for containers is harmless.
            router.mounts.push(Mount { relabel: true, ..material(MaterialSet::Router, None, trust::MATERIALS_AT) });
        }
        Pod {
            name: self.names.router_pod.clone(),
            infra: self.names.router_infra.clone(),
            host_name: "router",
            networks: vec![
                Attachment { network: NetworkKind::Internal, address: Some(net.router_address) },
                Attachment { network: NetworkKind::Egress, address: None },
            ],
            dns: Some(Dns { server: Ipv4Addr::LOCALHOST, ndots: NDOTS }),
            userns: self.userns(),
            sysctls: &WITHOUT_IPV6,
            helpers: Vec::new(),
            main: router,
        }
    }

    fn agent(&self, network: Option<&SandboxNetwork>) -> Pod {
        let own = match network {
            Some(net) => Attachment { network: NetworkKind::Internal, address: Some(net.agent_address) },
            None => Attachment { network: NetworkKind::Egress, address: None },
        };
        Pod {
            name: self.names.agent_pod.clone(),
            infra: self.names.agent_infra.clone(),
            host_name: "sandbox",
            networks: vec![own],
            dns: network.map(|net| Dns { server: net.router_address, ndots: NDOTS }),
            userns: self.userns(),
            sysctls: &WITHOUT_IPV6,
            helpers: if network.is_some() { self.helpers() } else { Vec::new() },
            main: self.agent_container(network),
        }
    }

    /// Gate and forwarder.
    ///
    /// A held agent runs nothing until the runner executes the command, which it does only after it has read
    /// [`GATE_PASSED`]. So the gate can run at the start of the forwarder, which saves a container: podman polls for
    /// the end of an init container and cleans up after it, a third of the whole start.
    fn helpers(&self) -> Vec<Container> {
        let forwarder = |argv| {
            let mut forwarder = self.service(Role::Forwarder, &LISTENER_CAPS, argv, FileSet::Forwarder);
            forwarder.mounts.push(self.handover());
            forwarder
        };
        match self.agent.command {
            Command::Hold => {
                let caps = [LISTENER_CAPS, GATE_CAPS].concat();
                vec![Container { caps, proc: Proc::Sysctls, ..forwarder(words(&GATED_FORWARDER)) }]
            }
            Command::Run(_) => {
                let gate = self.service(Role::Gate, &GATE_CAPS, words(&GATE), FileSet::Forwarder);
                let forwarder = forwarder(words(&FORWARDER));
                // Containers of a pod start in no order: whoever starts them waits for this before the command.
                let forwarder = Container { ready: Some(words(&FORWARDER_READY)), ..forwarder };
                vec![Container { proc: Proc::Sysctls, ..gate }, forwarder]
            }
        }
    }

    /// Router and forwarder are one user, and each has its own root: only here do they meet.
    fn handover(&self) -> Mount {
        let source = Source::Handover(self.handover.clone());
        Mount { read_only: false, relabel: true, options: PLAIN.to_vec(), ..ours("handover", source, HANDOVER_AT) }
    }

    /// A container of sandboxc: stock image, our files read-only, read-only root, no user of the host, no privileges.
    fn service(&self, role: Role, caps: &[&'static str], argv: Vec<String>, files: FileSet) -> Container {
        let image = &self.resolved.router_image;
        Container {
            role,
            pull: self.pull(&image.value),
            image: Sourced::new(ImageSource::Reference(image.value.clone()), image.from.clone()),
            argv,
            working_dir: None,
            user: SERVICE_USER,
            caps: caps.to_vec(),
            read_only_root: true,
            init: false,
            label: Label::Confined,
            seccomp: Seccomp::Default,
            proc: Proc::Masked,
            env: BTreeMap::new(),
            // The files are ours, so an SELinux label for containers is harmless.
            mounts: vec![Mount { relabel: true, ..ours("files", Source::Files { set: files, file: None }, FILES_AT) }],
            devices: Vec::new(),
            limits: ResourceLimits::default(),
            ceiling: Some(if role == Role::Router { ROUTER_CEILING } else { HELPER_CEILING }),
            stop_timeout: SERVICE_STOP_TIMEOUT,
            ready: None,
        }
    }

    fn agent_container(&self, network: Option<&SandboxNetwork>) -> Container {
        let agent = self.agent;
        let identity = agent.identity.value;
        Container {
            role: Role::Agent,
            pull: self.pull(agent.image.value.reference()),
            image: agent.image.clone(),
            argv: self.argv(),
            working_dir: Some(agent.workspace.target.clone()),
            user: match identity {
                Identity::HostUser => AGENT_USER,
                Identity::Root => 0,
            },
            caps: capabilities_of(self.resolved),
            read_only_root: false,
            init: true,
            label: match &self.resolved.selinux.value {
                Selinux::Disable => Label::Disabled,
                Selinux::Type(name) => Label::Type(name.clone()),
                Selinux::Relabel => Label::Confined,
            },
            seccomp: Seccomp::Default,
            proc: Proc::Masked,
            env: self.env(),
            mounts: self.mounts(network),
            devices: Vec::new(),
            limits: agent.limits.clone(),
            ceiling: None,
            stop_timeout: AGENT_STOP_TIMEOUT,
            ready: None,
        }
    }

    /// A local image is never pulled, and the runner never pulls one implicitly. For a tag such as `latest`, podman's
    /// default would ask a registry.
    fn pull(&self, image: &str) -> Pull {
        let never = image.starts_with("localhost/") || self.agent.command == Command::Hold;
        if never { Pull::Never } else { Pull::Missing }
    }

    /// A shell in the image exports plain secrets that a service has written into a directory.
    fn argv(&self) -> Vec<String> {
        let stored = self.materials.map(|materials| &materials.store);
        match &self.agent.command {
            Command::Hold => words(&[INIT, "-P"]),
            Command::Run(command) if self.has(Part::Secrets) && matches!(stored, Some(MaterialStore::Service(_))) => {
                trust::with_secrets().into_iter().chain(command.iter().cloned()).collect()
            }
            Command::Run(command) => command.clone(),
        }
    }

    fn env(&self) -> BTreeMap<String, Sourced<EnvValue>> {
        let text = |value: &Sourced<String>| Sourced::new(EnvValue::Text(value.value.clone()), value.from.clone());
        let mut env: BTreeMap<_, _> = self.agent.env.iter().map(|(name, value)| (name.clone(), text(value))).collect();
        if self.has(Part::Surrogates) {
            for (name, credential) in surrogates(&self.resolved.policy) {
                env.insert(name.to_owned(), Sourced::new(EnvValue::Surrogate, credential.from.clone()));
            }
        }
        for (name, secret) in &self.resolved.secrets.plain {
            env.insert(name.clone(), Sourced::new(EnvValue::Secret, secret.from.clone()));
        }
        env
    }

    fn mounts(&self, network: Option<&SandboxNetwork>) -> Vec<Mount> {
        let (agent, workspace) = (self.agent, &self.agent.workspace);
        let selinux = &self.resolved.selinux.value;
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
        let file = |(file, at): &(&'static str, &str)| {
            ours("files", Source::Files { set: FileSet::Agent, file: Some(file) }, at)
        };
        let is_taken = |at: &str| agent.mounts.iter().any(|mount| Path::new(at).starts_with(&mount.target));
        let own = OWN_FILES.iter().filter(|own @ (file, at)| match *file {
            "resolv.conf" => network.is_some(),
            _ if ACCOUNTS.contains(own) => agent.identity.value == Identity::HostUser && !is_taken(at),
            _ => true,
        });
        let home = Mount {
            read_only: false,
            relabel: false,
            options: PLAIN.to_vec(),
            from: agent.home.volume.from.clone(),
            ..self::ours("home", Source::Volume(agent.home.volume.value.clone()), &agent.home.target)
        };
        let source = workspace.source.clone();
        let mut mounts: Vec<Mount> = own.map(file).collect();
        mounts.extend([home, host("workspace", source, &workspace.target, workspace.read_only, &workspace.from)]);
        if let Selinux::Type(_) = selinux {
            // podman's own file belongs to the infra container, which has a different label.
            mounts.push(Mount {
                read_only: false,
                ..self::ours(
                    "shm",
                    Source::Memory(agent.limits.shm.as_ref().map_or(SHM_SIZE, |shm| shm.value)),
                    "/dev/shm",
                )
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
        let has_directory = !matches!(self.materials.map(|m| &m.store), Some(MaterialStore::Secrets(_)));
        if self.has(Part::Secrets) && has_directory {
            mounts.push(labeled(material(MaterialSet::Secrets, None, trust::SECRETS_AT)));
        }
        if self.has(Part::Trust) {
            mounts.push(labeled(material(MaterialSet::Agent, None, trust::TRUST_AT)));
            let taken = agent.mounts.iter().map(|mount| &mount.target).chain([&workspace.target, &agent.home.target]);
            let taken: Vec<&Path> = taken.map(PathBuf::as_path).collect();
            let roots =
                trust::OwnRoots { session_ca: self.has(Part::Router), extra_ca: self.resolved.extra_ca.is_some() };
            let stand_ins = trust::stand_ins(agent.identity.value, roots, &taken).into_iter();
            mounts.extend(stand_ins.map(|(file, at)| labeled(material(MaterialSet::Agent, Some(file), at))));
        }
        mounts
    }
}

/// A read-only mount that every such container has.
fn ours(name: &str, source: Source, target: impl AsRef<Path>) -> Mount {
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

fn material(set: MaterialSet, file: Option<&'static str>, target: &str) -> Mount {
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

fn words(all: &[&str]) -> Vec<String> {
    all.iter().map(|&word| word.to_owned()).collect()
}
