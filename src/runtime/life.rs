//! The life of a session: what is left of dead ones goes, this one is set up, its command runs, and nothing stays.

mod workspace;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use thiserror::Error;

use super::exec::{Ended, Exec, exec};
use super::fault::point;
use super::gc::{self, Scope};
use super::materials;
use super::netlog::NetworkLog;
use super::output::{Inside, Rotating};
use super::podman::Podman;
use super::redact::Redactor;
use super::registry::{FirstUses, Record, Registry, Stage};
use super::seccomp;
use super::session::{Session, SetupError};
use super::signals::Signals;
use super::state::State;
use super::{RuntimeError, exit, host};
use crate::config::{Resolved, SecretValues};
use crate::emit::{EmitError, Podman as Version, limit_gaps, tree};
use crate::plan::{Command, Keeper, Plan, PlanError, Request, plan, session_is_valid, subnets};
use workspace::{Watched, Watching};

/// How many subnets are tried at most; a small pool is tried as a whole.
const ATTEMPTS: u32 = 64;

/// A command that SIGKILL ended, as a shell says it.
const KILLED: u8 = exit::SIGNAL_BASE + 9;

/// Shows a line to a person.
pub type Tell<'a> = &'a dyn Fn(&str);

/// What is asked for.
pub struct Order<'a> {
    /// The config, and the values of its secrets.
    pub config: (&'a Resolved, &'a SecretValues),
    /// Id of the session; `None` is a random one.
    pub session: Option<&'a str>,
    /// The command.
    pub command: &'a [String],
    /// The podman to write for; `None` is the installed one.
    pub version: Option<Version>,
    /// Refuse a limit that the manifest alone does not keep.
    pub strict: bool,
    /// End the command after this time; the smaller of it and the configured one holds.
    pub timeout: Option<Duration>,
    /// Give the command a terminal, of this type.
    pub tty: bool,
    /// `$TERM` of the caller.
    pub term: Option<&'a str>,
    /// File for the network log.
    pub network_log: Option<&'a Path>,
    /// The user's runtime directory.
    pub runtime_dir: &'a Path,
    /// Leave everything in place afterwards.
    pub keep: bool,
}

/// Why a session did not run its command to the end.
#[derive(Debug, Error)]
pub enum LifeError {
    /// This host, podman, a file or a signal.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// No plan can be made.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The plan cannot be written for this podman.
    #[error(transparent)]
    Emit(#[from] EmitError),
    /// `strict`, and a limit that the manifest alone does not keep.
    #[error("--strict: a limit cannot be kept by the manifest alone")]
    Limits,
}

/// Runs a command in a session of its own. Returns the exit code that the caller should end with; `tell` gets what a person
/// should know.
pub fn live(order: &Order<'_>, tell: Tell<'_>) -> Result<u8, LifeError> {
    let resolved = order.config.0;
    host::check_read_only_mounts(resolved)?;
    let log = order.network_log.map(|path| Rotating::open(path, &Inside::of(resolved))).transpose()?;
    let session = match order.session {
        Some(session) => session.to_owned(),
        None => host::random_session()?,
    };
    // Signals are taken over before anything exists that they would leave behind.
    let signals = Arc::new(Signals::take_over()?);
    if !session_is_valid(&session) {
        return Err(PlanError::BadSession(session).into());
    }
    let registry = Registry::open(order.runtime_dir)?;
    let starting = registry.heeding(&signals);
    // After a crash, and once after each login or start of the machine; podman is asked only then.
    if registry.is_fresh() || starting.has_dead().unwrap_or(false) {
        clean_up(&registry, Scope::All, tell);
    }
    let state = State::create(&starting, record(resolved, &session))?;
    point("state-made");
    let result = run_in(order, tell, (&starting, &state), &signals, log);
    let is_left = state.is_left();
    drop(state);
    if is_left {
        clean_up(&registry, Scope::Session(&session), tell);
    }
    result
}

/// Sets up, executes and takes down, in the session that `state` holds.
fn run_in(
    order: &Order<'_>,
    tell: Tell<'_>,
    sessions: (&Registry, &State),
    signals: &Arc<Signals>,
    log: Option<Rotating>,
) -> Result<u8, LifeError> {
    let (registry, state) = sessions;
    let (resolved, values) = order.config;
    let podman = Podman::new(state.empty_dir())?;
    let version = match order.version {
        Some(version) => version,
        None => podman.heeding(signals).version()?,
    };
    let given = give(resolved, values, state)?;
    let profile = seccomp::derived().map(|text| state.keep_profile(&text)).transpose()?;
    let mut watching = Some(Watching::start(resolved)?);
    let firsts = first_uses(registry, resolved)?;
    let turn = registry.turn()?;
    let attempts = subnets(resolved)?.min(ATTEMPTS);
    for attempt in 0..attempts {
        let request = Request {
            resolved,
            session: state.session(),
            command: &Command::Hold,
            attempt,
            keeper: Keeper::Runner(state.dir()),
        };
        let plan = plan(request)?.with_seccomp(profile.clone());
        if attempt == 0 && order.strict {
            refuse_gaps(&plan, version, tell)?;
        }
        let compiled = tree::compile(&plan, version)?;
        state.add_plan(&plan.names.hash)?;
        state.keep_manifest(&compiled.stream.text())?;
        point("manifest-kept");
        if attempt == 0 && !resolved.sandbox_enabled.value {
            tell("THE NETWORK SANDBOX IS OFF: the command reaches everything that this host reaches");
        }
        let running = Session::new(&podman, signals, state, &plan, &compiled);
        match running.set_up() {
            Ok(()) => {
                drop(turn);
                firsts.made();
                let started = Started { podman: &podman, state, plan: &plan, session: &running, given: &given };
                // There is one, since this arm returns.
                let watched = watching.take().map(Watching::ready).transpose();
                let watched = watched.inspect_err(|_| take_down(&running, state, false))?;
                let code = execute(order, tell, &started, signals, (log, watched.as_ref()));
                let alarmed = watched.is_some_and(|watched| watched.tell(tell));
                return code.map(|code| if alarmed { exit::PROMISE } else { code });
            }
            Err(SetupError::SubnetTaken) => signals.check()?,
            Err(SetupError::Failed(error)) => {
                take_down(&running, state, false);
                if let Some(watching) = watching.take() {
                    watching.tell(tell);
                }
                return Err(error.redacted(&given.redactor).into());
            }
        }
    }
    Err(RuntimeError::Host(format!(
        "no free subnet in network.pool {} after {attempts} tries: `sandboxc gc` removes the networks of dead sessions, \
         a larger network.pool in the server config makes room for more",
        resolved.pool.value
    ))
    .into())
}

/// What podman makes when the first session needs it: images with their layers copied for other ids, and the home.
fn first_uses(registry: &Registry, resolved: &Resolved) -> Result<FirstUses, RuntimeError> {
    let identity = resolved.identity.value;
    let image = |reference: &str| format!("image {reference} {identity:?}");
    let things = [
        image(resolved.image.value.reference()),
        image(&resolved.router_image.value),
        format!("volume {}", resolved.home_volume.value),
    ];
    registry.first_uses(things.iter().map(String::as_str))
}

/// Names the limits that the manifest alone does not keep, if there are any.
fn refuse_gaps(plan: &Plan, version: Version, tell: Tell<'_>) -> Result<(), LifeError> {
    let gaps = limit_gaps(plan, version);
    for gap in &gaps {
        tell(&format!("{} is not kept by the manifest alone: {}", gap.limit, gap.why));
    }
    if gaps.is_empty() { Ok(()) } else { Err(LifeError::Limits) }
}

/// Removes what dead sessions have left.
fn clean_up(registry: &Registry, scope: Scope<'_>, tell: Tell<'_>) {
    let swept = Podman::new(registry.empty_dir()).and_then(|podman| gc::sweep(&podman, registry, scope, false));
    match swept {
        // The session itself will say so.
        Err(RuntimeError::NoPodman(_)) => {}
        // This session does not need it to have worked.
        Err(error) => tell(&format!("cleaning up: {error}")),
        Ok(swept) => {
            for left in swept.left {
                tell(&format!("left for the next `sandboxc gc`: {left}"));
            }
        }
    }
}

fn record(resolved: &Resolved, session: &str) -> Record {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    Record {
        session: session.to_owned(),
        workspace: resolved.workspace.source.clone(),
        image: resolved.image.value.reference().to_owned(),
        since,
        pid: i32::try_from(std::process::id()).unwrap_or(0),
        stage: Stage::Starting,
        plans: Vec::new(),
    }
}

struct Started<'a> {
    podman: &'a Podman,
    state: &'a State,
    plan: &'a Plan,
    session: &'a Session<'a>,
    given: &'a Given,
}

/// What is given to the session besides its plan.
#[derive(Default)]
struct Given {
    /// Variables of the command.
    env_file: Option<PathBuf>,
    /// It has plain secrets too.
    secrets: bool,
    /// For everything that is said about it.
    redactor: Redactor,
}

/// Makes keys and surrogates, and writes them and the secrets where router and agent find them.
fn give(resolved: &Resolved, values: &SecretValues, state: &State) -> Result<Given, RuntimeError> {
    let (policy, dir) = (&resolved.policy, state.dir());
    if !resolved.sandbox_enabled.value && !policy.credentials.is_empty() {
        return Err(RuntimeError::Host(
            "credentials are kept from the command by the router, which `sandbox_enabled: false` leaves out; remove them"
                .to_owned(),
        ));
    }
    let given = materials::give(resolved, state.session(), values, dir)?;
    let known = materials::known(values, &given.variables);
    materials::write_known(dir, &known)?;
    Ok(Given { env_file: given.env_file, secrets: !values.plain.is_empty(), redactor: Redactor::new(known)? })
}

fn execute(
    order: &Order<'_>,
    tell: Tell<'_>,
    started: &Started<'_>,
    signals: &Signals,
    (log, watched): (Option<Rotating>, Option<&Watched>),
) -> Result<u8, LifeError> {
    let log = log.filter(|_| started.plan.network.is_some());
    let log = log.map(|file| {
        NetworkLog::follow(&started.session.router_log(), started.plan, started.given.redactor.clone(), file)
    });
    let logged = log.is_some();
    let configured = started.plan.agent.main.limits.timeout.as_ref().map(|timeout| Duration::from_secs(timeout.value));
    let timeout = order.timeout.into_iter().chain(configured).min();
    let container = started.plan.names.agent_container();
    let request = Exec {
        container: &container,
        command: order.command,
        tty: order.tty,
        term: order.term,
        env_file: started.given.env_file.as_deref(),
        secrets: started.given.secrets,
        deadline: timeout.map(|timeout| Instant::now() + timeout),
        alarm: watched.map(|watched| watched.watch.raised()),
    };
    started.state.enter(Stage::Running);
    let ended = exec(started.podman, &request, signals);
    // Asked before the container goes, and with it the kernel's count.
    let hint = matches!(ended, Ok(Ended::Code(KILLED))).then(|| started.session.out_of_memory()).flatten();
    if let Some(log) = log {
        started.session.stop_router();
        log.finish();
    }
    point("command-ended");
    started.state.enter(Stage::Ending);
    end_session(order, tell, started, !logged && matches!(ended, Ok(Ended::Code(_))));
    Ok(match ended? {
        Ended::Code(code) => {
            if let Some(hint) = hint {
                tell(&hint);
            }
            code
        }
        Ended::TimedOut => {
            tell(&format!("time is over after {} s", timeout.unwrap_or_default().as_secs()));
            exit::TIMEOUT
        }
        Ended::Alarmed => {
            tell("the command was ended, since what this host would obey in the workspace changed:");
            exit::PROMISE
        }
        Ended::Signalled(signal) => exit::SIGNAL_BASE + u8::try_from(signal).unwrap_or(0),
    })
}

/// Nothing stays, unless it was asked for.
fn end_session(order: &Order<'_>, tell: Tell<'_>, started: &Started<'_>, in_order: bool) {
    let names = &started.plan.names;
    if order.keep {
        tell(&format!(
            "kept until the next `sandboxc gc`: pods {} {}, network {}",
            names.agent_pod, names.router_pod, names.internal_network
        ));
        return;
    }
    take_down(started.session, started.state, in_order);
}

/// The straight way; where something of it fails, the thorough one follows when the session's lock is free.
fn take_down(running: &Session<'_>, state: &State, in_order: bool) {
    if !running.take_down(in_order).is_empty() {
        state.leave();
    }
}
