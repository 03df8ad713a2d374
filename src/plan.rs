//! The only description of what will exist for a session, in plain values.
//!
//! Invariant: pure and hashable; same input, same bytes, on every machine. Emitters read a [`Plan`] and nothing else.
//! May depend on: `config` (resolved values), `policy`, `source`.

mod agent;
mod grant;
mod inspected;
mod name;
mod network;
pub mod pod;
mod route;
pub mod trust;

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::config::Resolved;
use crate::policy::Policy;
use crate::source::Sourced;

pub use agent::Command;
pub use grant::{Grant, GrantKind};
pub use inspected::{Keeper, Leaf, MaterialStore, Materials, Origin, Part, leaves, surrogates};
pub use name::{Names, SESSION_LABEL, config_hash, runner_hash, session_is_valid};
pub use network::{SandboxNetwork, TcpRoute};
pub use pod::{Container, Pod, Role};
pub use route::subnets;

/// Part of every hash: raised when the same plan would be emitted in another way.
pub const FORMAT_VERSION: u32 = 4;

/// Resolver that podman's rootless network answers on (`--dns-forward`, podman `pasta_linux.go`, since 5.0): it asks
/// whatever the host asks, even a resolver on the host's own loopback.
pub const HOST_RESOLVER: Ipv4Addr = Ipv4Addr::new(169, 254, 1, 1);

/// What a plan is made from.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The validated config.
    pub resolved: &'a Resolved,
    /// Id of the session, `[a-z0-9-]`, at most 32 characters.
    pub session: &'a str,
    /// What the agent container runs.
    pub command: &'a Command,
    /// How often a subnet of this session turned out to be taken: each attempt gives another subnet, and other names.
    pub attempt: u32,
    /// Who gives router and agent what no file of the plan may hold.
    pub keeper: Keeper<'a>,
}

/// Why no plan can be made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlanError {
    /// More named ports than there are loopback addresses or router ports.
    #[error("more than {0} named host:port entries, which one router cannot listen for")]
    TooManyRoutes(usize),
    /// A session id that cannot be part of a name.
    #[error("`{0}` is no session id: 1 to 32 characters of a-z, 0-9 and inner hyphens")]
    BadSession(String),
    /// A pool too small to cut a /29 and the egress network from.
    #[error("network.pool {0} is too small: a /24 is the smallest")]
    PoolTooSmall(String),
}

/// Everything that will exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// [`FORMAT_VERSION`].
    pub format_version: u32,
    /// Id of the session.
    pub session: String,
    /// Content-hashed names of all objects.
    pub names: Names,
    /// The sandboxed network; `None` is the break-glass, where nothing stands between the agent and the internet.
    pub network: Option<SandboxNetwork>,
    /// The router's pod; `None` where there is no sandboxed network.
    pub router: Option<Pod>,
    /// The agent's pod.
    pub agent: Pod,
    /// What the router enforces.
    pub policy: Policy,
    /// What no file of the plan may hold; `None` if nothing is needed.
    pub materials: Option<Materials>,
    /// Variables of the host's environment that secrets are read from: whatever else is started there need not see them.
    pub secret_variables: Vec<String>,
    /// When it starts by itself.
    pub schedule: Option<Sourced<String>>,
    /// Every permission, with the place that gave it, sorted.
    pub grants: Vec<Grant>,
    /// True if processes of the agent's pod may make user namespaces.
    pub user_namespaces: bool,
}

impl Plan {
    /// The pods, in the order in which they start.
    pub fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.router.iter().chain([&self.agent])
    }

    /// The same with a filter of system calls of this host's for the agent. Names stay: it is derived from what is here anyway.
    #[must_use]
    pub fn with_seccomp(mut self, profile: Option<PathBuf>) -> Self {
        if let Some(profile) = profile {
            self.agent.main.seccomp = pod::Seccomp::Profile(profile);
        }
        self
    }

    /// True if the plan needs this part of the materials.
    pub fn needs(&self, part: Part) -> bool {
        self.materials.as_ref().is_some_and(|materials| materials.has(part))
    }

    /// Names of the podman secrets that whoever applies the plan must have made.
    pub fn secret_names(&self) -> Vec<String> {
        self.materials.as_ref().map(Materials::secret_names).unwrap_or_default()
    }

    /// Labels of every object of a role.
    pub fn labels(&self, role: &str) -> [(&'static str, String); 3] {
        [
            (SESSION_LABEL, self.session.clone()),
            ("io.sandboxc.role", role.to_owned()),
            ("io.sandboxc.plan", self.names.hash.clone()),
        ]
    }
}

/// True if the router decrypts, or has credentials that it must know when it sees them.
pub fn inspects(resolved: &Resolved) -> bool {
    let policy = &resolved.policy;
    resolved.sandbox_enabled.value && (!policy.credentials.is_empty() || !leaves(policy).is_empty())
}

/// Makes the plan. Errors only where the input cannot be planned at all.
pub fn plan(request: Request<'_>) -> Result<Plan, PlanError> {
    let Request { resolved, session, command, attempt, keeper } = request;
    if !session_is_valid(session) {
        return Err(PlanError::BadSession(session.to_owned()));
    }
    let network = match resolved.sandbox_enabled.value {
        true => Some(route::sandbox_network(resolved, session, attempt)?),
        false => None,
    };
    let inspects = inspects(resolved);
    let agent = agent::agent(resolved, command, inspects);
    let egress = route::egress_network(resolved)?;
    let by_runner = *command == Command::Hold;
    let names = name::names(session, egress, by_runner, &(FORMAT_VERSION, resolved, session, &network, &agent));
    let store = match keeper {
        Keeper::Runner(dir) => MaterialStore::Directory(dir.to_owned()),
        Keeper::Applier => MaterialStore::Secrets(format!("sandboxc-{}", names.hash)),
        Keeper::Service(server) => MaterialStore::Service(Origin {
            repo: resolved.workspace.source.clone(),
            server: server.map(Path::to_owned),
            name: resolved.name.clone(),
            environment: resolved.environment.clone(),
            config: name::config_hash(resolved, session),
        }),
    };
    let materials = Materials::of(resolved, inspects, store);
    let (router, agent_pod) = pod::pods(resolved, &agent, &names, network.as_ref(), materials.as_ref());
    Ok(Plan {
        format_version: FORMAT_VERSION,
        session: session.to_owned(),
        names,
        network,
        router,
        grants: grant::grants(resolved, &agent),
        agent: agent_pod,
        policy: resolved.policy.clone(),
        materials,
        secret_variables: resolved.secrets.variables(),
        schedule: resolved.schedule.clone(),
        user_namespaces: resolved.user_namespaces.value,
    })
}
