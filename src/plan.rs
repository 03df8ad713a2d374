//! The only description of what will exist for a session, in plain values.
//!
//! Invariant: pure and hashable; same input, same bytes, on every machine. Emitters read a [`Plan`] and nothing else.
//!
//! May depend on: `config` (resolved values), `policy`, `source`.

mod agent;
mod diff;
mod fact;
pub mod git;
mod grant;
mod inspected;
mod name;
mod network;
pub mod pod;
mod route;
pub mod trust;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::config::{Nested, Resolved, ResourceLimits};
use crate::policy::{Effective, Policy};
use crate::source::Sourced;

pub use agent::Command;
pub use diff::{Difference, Direction, Side, diff, policies};
pub use fact::{Fact, LEARNING};
pub use grant::{Grant, GrantKind, nested_containers};
pub use inspected::{Keeper, MaterialStore, Materials, Origin, Part, ca_scopes, surrogates};
pub use name::{Names, SESSION_LABEL, config_hash, config_keys, hash_of, plan_hash, runner_hash, session_is_valid};
pub use network::{SandboxNetwork, TcpRoute};
pub use pod::{Container, Pod, Role};
pub use route::{TakenRoute, more_routes, subnets};

/// Part of every hash: raised when the same plan would be emitted in another way.
pub const FORMAT_VERSION: u32 = 7;

/// The address on which podman's rootless network answers DNS queries (`--dns-forward`, podman `pasta_linux.go`, since
/// 5.0). It asks the host's resolver, even one on the host's own loopback address.
pub const HOST_RESOLVER: Ipv4Addr = Ipv4Addr::new(169, 254, 1, 1);

/// The input of a plan.
#[derive(Clone, Copy, Debug)]
pub struct PlanRequest<'a> {
    /// The validated config.
    pub resolved: &'a Resolved,
    /// The session id, `[a-z0-9-]`, at most 32 characters.
    pub session: &'a str,
    /// What the agent container runs.
    pub command: &'a Command,
    /// How many subnets of this session turned out to be taken. Each attempt gives another subnet and other names.
    pub attempt: u32,
    /// Who gives router and agent their materials.
    pub keeper: Keeper<'a>,
}

/// Why no plan can be made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlanError {
    /// More named ports than there are loopback addresses or router ports.
    #[error("more than {0} named host:port entries; a router cannot listen on more ports")]
    TooManyRoutes(usize),
    /// A session id that cannot be part of a name.
    #[error(
        "invalid session id `{0}`: use 1 to 32 characters of a-z, 0-9 and hyphens, but no hyphen at the start or end"
    )]
    BadSession(String),
    /// A pool that is too small for a /29 and the egress network.
    #[error("network.pool {0} is too small: it must be at least a /24")]
    PoolTooSmall(String),
}

/// Everything that will exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// [`FORMAT_VERSION`].
    pub format_version: u32,
    /// The session id.
    pub session: String,
    /// Content-hashed names of all objects.
    pub names: Names,
    /// The sandboxed network; `None` if the network sandbox is off and the agent can reach everything.
    pub network: Option<SandboxNetwork>,
    /// The router's pod; `None` without a sandboxed network.
    pub router: Option<Pod>,
    /// The agent's pod.
    pub agent: Pod,
    /// What the router enforces.
    pub policy: Policy,
    /// The materials; `None` if none are needed.
    pub materials: Option<Materials>,
    /// Variables of the host's environment that secrets are read from. Other programs do not get them.
    pub secret_variables: Vec<String>,
    /// The schedule, if there is one.
    pub schedule: Option<Sourced<String>>,
    /// Every permission with its place, sorted, except for those of `egress`.
    pub grants: Vec<Grant>,
    /// What the policy permits for each host; empty if the network sandbox is off.
    pub egress: Vec<Effective>,
    /// What else a reviewer wants to know, sorted.
    pub facts: Vec<Fact>,
    /// The label of each file that decides, and its SHA-256. There is none for a file with literal secrets.
    pub inputs: BTreeMap<String, Option<String>>,
    /// For units, a hash of each key of the config, by which to name those that changed.
    pub keys: BTreeMap<String, String>,
    /// Whether processes in the agent's pod may create user namespaces.
    pub user_namespaces: bool,
    /// Containers inside, if there may be any.
    pub nested: Option<Nested>,
    /// OpenSSL's hashes of the subjects in `extra_ca`, by which containers inside find them.
    pub nested_roots: Vec<String>,
}

impl Plan {
    /// Whether the agent mounts this volume.
    pub fn has_volume(&self, name: &str) -> bool {
        let mut mounts = self.agent.main.mounts.iter();
        mounts.any(|mount| matches!(&mount.source, pod::Source::Volume(volume) if volume == name))
    }

    /// Whether limits of the agent rest on the host's `nsdelegate` (cgroups(7)): in user and cgroup namespaces of its own, it
    /// can mount its control group with write access, and the files belong to its user.
    pub fn needs_nsdelegate(&self) -> bool {
        let ResourceLimits { timeout: _, memory, cpus, pids, shm: _ } = &self.agent.main.limits;
        self.user_namespaces && (memory.is_some() || cpus.is_some() || pids.is_some())
    }

    /// The pods, in the order in which they start.
    pub fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.router.iter().chain([&self.agent])
    }

    /// The same plan with a seccomp profile of this host for the agent. Names do not change: the profile is derived
    /// from what the host has anyway.
    #[must_use]
    pub fn with_seccomp(mut self, profile: Option<PathBuf>) -> Self {
        if let Some(profile) = profile {
            self.agent.main.seccomp = pod::Seccomp::Profile(profile);
        }
        self
    }

    /// Whether the plan needs this part of the materials.
    pub fn needs(&self, part: Part) -> bool {
        self.materials.as_ref().is_some_and(|materials| materials.has(part))
    }

    /// The names of the podman secrets that must exist before the plan is applied.
    pub fn secret_names(&self) -> Vec<String> {
        self.materials.as_ref().map(Materials::secret_names).unwrap_or_default()
    }

    /// The labels of every object of a role.
    pub fn labels(&self, role: &str) -> [(&'static str, String); 3] {
        [
            (SESSION_LABEL, self.session.clone()),
            ("io.sandboxc.role", role.to_owned()),
            ("io.sandboxc.plan", self.names.hash.clone()),
        ]
    }
}

/// Whether the router decrypts connections, or has credentials that it must recognize.
pub fn inspects(resolved: &Resolved) -> bool {
    let policy = &resolved.policy;
    resolved.sandbox_enabled.value && (!policy.credentials.is_empty() || !ca_scopes(policy).is_empty())
}

/// True if the agent gets its own bundle of roots, because the session's CA or `extra_ca` is missing from the image's.
pub fn has_own_roots(resolved: &Resolved) -> bool {
    inspects(resolved) || resolved.extra_ca.is_some()
}

/// Makes the plan. Fails only if the input cannot be planned at all.
pub fn plan(request: PlanRequest<'_>) -> Result<Plan, PlanError> {
    let PlanRequest { resolved, session, command, attempt, keeper } = request;
    if !session_is_valid(session) {
        return Err(PlanError::BadSession(session.to_owned()));
    }
    let network = match resolved.sandbox_enabled.value {
        true => Some(route::sandbox_network(resolved, session, attempt)?),
        false => None,
    };
    let inspects = inspects(resolved);
    let agent = agent::agent(resolved, command, has_own_roots(resolved));
    let egress = route::egress_network(resolved)?;
    let by_runner = *command == Command::Hold;
    let names = name::names(session, egress, by_runner, &(FORMAT_VERSION, resolved, session, &network, &agent));
    let store = match keeper {
        Keeper::Runner(dir) => MaterialStore::Directory(dir.to_owned()),
        Keeper::Applier => MaterialStore::Secrets(format!("sandboxc-{}", names.hash)),
        Keeper::Service(server) => MaterialStore::Service(Origin {
            repo: resolved.workspace.source.clone(),
            revision: resolved.config_from.clone(),
            server: server.map(Path::to_owned),
            name: resolved.name.clone(),
            environment: resolved.environment.clone(),
            config: name::config_hash(resolved, session),
        }),
    };
    let keys = match keeper {
        Keeper::Service(_) => name::config_keys(resolved),
        Keeper::Runner(_) | Keeper::Applier => BTreeMap::new(),
    };
    let materials = Materials::of(resolved, inspects, store);
    let handover = match keeper {
        Keeper::Runner(dir) => pod::Handover::Directory(trust::handover_dir(dir)),
        Keeper::Applier | Keeper::Service(_) => pod::Handover::Volume(names.handover.clone()),
    };
    let starter = (handover, matches!(keeper, Keeper::Service(_)));
    let (router, agent_pod) = pod::pods(resolved, &agent, &names, network.as_ref(), materials.as_ref(), starter);
    Ok(Plan {
        format_version: FORMAT_VERSION,
        session: session.to_owned(),
        names,
        network,
        router,
        grants: grant::grants(resolved, &agent),
        egress: if resolved.sandbox_enabled.value { resolved.policy.effective() } else { Vec::new() },
        facts: fact::facts(resolved, &agent, command),
        inputs: resolved.inputs.clone(),
        keys,
        agent: agent_pod,
        policy: resolved.policy.clone(),
        materials,
        secret_variables: resolved.secrets.variables(),
        schedule: resolved.schedule.clone(),
        user_namespaces: resolved.user_namespaces.value,
        nested: resolved.nested.as_ref().map(|nested| nested.value),
        nested_roots: agent.nested_roots,
    })
}
