//! Makes the pods. No other module decides what a container may do.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use super::mounts::{PLAIN, agent_mounts, material, ours};
use super::{
    Attachment, Ceiling, Container, Device, Dns, EnvValue, FILES_AT, FileSet, HANDOVER_AT, Handover, Label,
    MaterialSet, Mount, NetworkKind, Pod, Proc, Pull, Role, SERVE_DOCKER, Seccomp, Source,
};
use crate::config::{Identity, ImageSource, Resolved, ResourceLimits, Selinux};
use crate::plan::agent::Agent;
use crate::plan::{Command, Materials, Names, Part, SandboxNetwork, surrogates, trust};
use crate::source::Sourced;

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

/// Where the agent of a unit has the router's image. podman's init says nothing about a command that it cannot execute, and
/// ends with 1. A unit has no runner that could find out, so it starts its command with a program of ours, which ends with
/// 127 or 126 as `run` does, and otherwise becomes the command.
const PROGRAM_AT: &str = "/run/sandboxc-program";

/// How a unit's command begins.
pub const EXECUTE: [&str; 2] = ["/run/sandboxc-program/sandboxc-router", "exec"];

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

/// A shell line that waits until podman inside serves docker's API.
const AWAIT_DOCKER: &str = "i=0; while [ ! -S /var/tmp/sandboxc-nested/docker.sock ]; do i=$((i+1)); \
                            [ $i -lt 300 ] || { echo 'podman system service did not start' >&2; exit 125; }; sleep 0.1; done;";

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

/// podman inside maps a range of ids with the first two, which newuidmap keeps as ambient capabilities: its set-user-ID bit is
/// without effect. The third one opens a system call in podman's seccomp profile, which builds need.
const NESTED_CAPS: [&str; 3] = ["SETGID", "SETUID", "SYS_CHROOT"];

/// The agent's capabilities.
pub(in crate::plan) fn capabilities_of(resolved: &Resolved) -> Vec<&'static str> {
    let own: &[&str] = if resolved.identity.value == Identity::Root { &ROOT_CAPS } else { &[] };
    let mapping: &[&str] = match resolved.identity.value {
        Identity::Root if resolved.user_namespaces.value => &MAPPING_CAPS,
        Identity::HostUser | Identity::Root => &[],
    };
    let nested: &[&str] = if resolved.nested.is_some() { &NESTED_CAPS } else { &[] };
    let more = mapping.iter().chain(nested).filter(|name| !own.contains(name));
    own.iter().chain(more).copied().collect()
}

/// The router's pod, if there is a router, and the agent's.
pub(in crate::plan) fn pods(
    resolved: &Resolved,
    agent: &Agent,
    names: &Names,
    network: Option<&SandboxNetwork>,
    materials: Option<&Materials>,
    (handover, by_systemd): (Handover, bool),
) -> (Option<Pod>, Pod) {
    let maker = Maker { resolved, agent, names, materials, handover, by_systemd };
    (network.map(|net| maker.router(net)), maker.agent(network))
}

struct Maker<'a> {
    resolved: &'a Resolved,
    agent: &'a Agent,
    names: &'a Names,
    materials: Option<&'a Materials>,
    handover: Handover,
    by_systemd: bool,
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
            main: self.agent_container(),
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

    fn agent_container(&self) -> Container {
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
            // In a namespace of its own, procfs can only be mounted where nothing covers a part of it.
            proc: if self.resolved.nested.is_some() { Proc::Unmasked } else { Proc::Masked },
            env: self.env(),
            mounts: agent_mounts(self.resolved, agent, self.materials, (self.home(), self.program())),
            devices: self.tun().into_iter().collect(),
            limits: agent.limits.clone(),
            ceiling: None,
            stop_timeout: AGENT_STOP_TIMEOUT,
            ready: None,
        }
    }

    /// For networks of containers inside. In the pod's own network namespace, the agent may not use it.
    fn tun(&self) -> Option<Device> {
        let nested = self.resolved.nested.as_ref().filter(|nested| nested.value.networks)?;
        Some(Device { path: PathBuf::from("/dev/net/tun"), from: nested.from.clone() })
    }

    /// A local image is never pulled, and the runner never pulls one implicitly. For a tag such as `latest`, podman's
    /// default would ask a registry.
    fn pull(&self, image: &str) -> Pull {
        let never = image.starts_with("localhost/") || self.agent.command == Command::Hold;
        if never { Pull::Never } else { Pull::Missing }
    }

    /// The volume for the agent's home.
    fn home(&self) -> String {
        match self.agent.home.fresh {
            true => self.names.agent_home(),
            false => self.agent.home.volume.value.clone(),
        }
    }

    /// What executes a unit's command.
    fn program(&self) -> Option<Mount> {
        let image = Source::Program(self.resolved.router_image.value.clone());
        self.by_systemd.then(|| ours("program", image, PROGRAM_AT))
    }

    /// A shell in the image exports plain secrets that a service has written into a directory.
    fn argv(&self) -> Vec<String> {
        let Command::Run(command) = &self.agent.command else { return words(&[INIT, "-P"]) };
        let mut argv = Vec::new();
        if self.by_systemd {
            argv.extend(words(&EXECUTE));
            if self.has(Part::Secrets) {
                argv.extend(trust::with_secrets());
            }
        }
        if self.resolved.nested.as_ref().is_some_and(|nested| nested.value.docker_socket) {
            argv.extend(words(&["/bin/sh", "-c"]));
            argv.push(format!("( {SERVE_DOCKER} ) & {AWAIT_DOCKER} exec \"$@\""));
            argv.push("sh".to_owned());
        }
        argv.extend_from_slice(command);
        argv
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
}

fn words(all: &[&str]) -> Vec<String> {
    all.iter().map(|&word| word.to_owned()).collect()
}
