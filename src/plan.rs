//! The only description of what will exist for a session, in plain values.
//!
//! Invariant: pure and hashable; same input, same bytes, on every machine. Emitters read a [`Plan`] and nothing else.
//! May depend on: `config` (resolved values), `policy`, `source`.

mod agent;
mod grant;
mod inspected;
mod name;
mod network;
mod route;
pub mod trust;

use std::net::Ipv4Addr;
use std::path::Path;

use serde::Serialize;
use thiserror::Error;

use crate::config::{Identity, Resolved};
use crate::policy::Policy;
use crate::source::Sourced;

pub use agent::{Agent, Command, Home};
pub use grant::Grant;
pub use inspected::{Keeper, Leaf, Materials, Origin, Part, leaves, surrogates};
pub use name::{Names, SESSION_LABEL, config_hash, runner_hash, session_is_valid};
pub use network::{SandboxNetwork, TcpRoute};
pub use route::subnets;

/// Part of every hash: raised when the same plan would be emitted in another way.
pub const FORMAT_VERSION: u32 = 3;

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
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// [`FORMAT_VERSION`].
    pub format_version: u32,
    /// Id of the session.
    pub session: String,
    /// Content-hashed names of all objects.
    pub names: Names,
    /// The sandboxed network; `None` is the break-glass, where nothing stands between the agent and the internet.
    pub network: Option<SandboxNetwork>,
    /// Image of router, gate and forwarder.
    pub router_image: Sourced<String>,
    /// The agent.
    pub agent: Agent,
    /// What the router enforces.
    pub policy: Policy,
    /// Where keys and credentials come from; None if nothing is decrypted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub materials: Option<Materials>,
    /// Where the agent's plain secrets come from; None if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secrets: Option<Materials>,
    /// When it starts by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Sourced<String>>,
    /// Every permission, with the place that gave it, sorted.
    pub grants: Vec<Grant>,
}

impl Plan {
    /// The user namespace of router and agent pod, if not podman's usual one (podman-run(1), `--userns`). It is one for
    /// both: the router's image is mapped once then, and memory holds one copy of it, 5 MB less in all.
    pub fn userns(&self) -> Option<&'static str> {
        (self.agent.identity.value == Identity::HostUser).then_some("keep-id:uid=1000,gid=1000")
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
    let materials = match keeper {
        Keeper::Runner(dir) => Materials::Directory(dir.to_owned()),
        Keeper::Applier => Materials::Secret(format!("sandboxc-{}", names.hash)),
        Keeper::Service(server) => Materials::Service(Origin {
            server: server.map(Path::to_owned),
            name: resolved.name.clone(),
            environment: resolved.environment.clone(),
            config: name::config_hash(resolved, session),
        }),
    };
    Ok(Plan {
        format_version: FORMAT_VERSION,
        session: session.to_owned(),
        names,
        network,
        router_image: resolved.router_image.clone(),
        grants: grant::grants(resolved, &agent),
        agent,
        policy: resolved.policy.clone(),
        secrets: (!resolved.secrets.plain.is_empty()).then(|| materials.clone()),
        materials: inspects.then_some(materials),
        schedule: resolved.schedule.clone(),
    })
}
