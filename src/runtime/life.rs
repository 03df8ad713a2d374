//! The life of a session: remove what dead sessions left, set up this one, run its command, tear everything down.

mod command;
mod hold;
mod workspace;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use thiserror::Error;

use super::fault::point;
use super::gc::{self, Leftovers};
use super::image_build::Surroundings;
use super::installed;
use super::materials;
use super::nested;
use super::output::{Inside, Rotating};
use super::podman::Podman;
use super::redact::Redactor;
use super::registry::{FirstUses, Record, Registry, Stage};
use super::report::Report;
use super::router_image::RouterImage;
use super::seccomp;
use super::session::{Session, SetupError};
use super::signals::Signals;
use super::state::State;
use super::{RuntimeError, exit, host};
use crate::config::{Identity, Resolved, SecretValues};
use crate::emit::{EmitError, PodmanVersion as Version, limit_gaps, tree};
use crate::plan::{Command, Keeper, Plan, PlanError, PlanRequest, nested_containers, plan, session_is_valid, subnets};
use crate::source::Place;
use command::{Started, execute};
use workspace::Watching;

/// How many subnets to try at most. A smaller pool is tried completely.
const ATTEMPTS: u32 = 64;

/// Prints a line for the user.
pub type Tell<'a> = &'a dyn Fn(&str);

/// What somebody who waits for a start sees of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// The session takes this step.
    Step(&'a str, &'static str),
    /// The command of the session starts.
    Ready(&'a str),
}

/// What a session is for.
#[derive(Clone, Copy)]
pub enum Purpose<'a> {
    /// It runs this command, and ends with it.
    Command(&'a [String]),
    /// It waits for commands of `exec`.
    Visits(Stay),
    /// It ends with a build that uses its network.
    Build(&'a dyn Fn(&Surroundings<'_>) -> Result<(), RuntimeError>),
}

/// How long a session waits for commands.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stay {
    /// It ends after this time without a command.
    pub idle: Option<Duration>,
    /// It ends after this time in any case; a smaller configured timeout applies instead.
    pub most: Option<Duration>,
}

/// The arguments of a run.
#[allow(clippy::struct_excessive_bools, reason = "they are the flags of the command line")]
pub struct Order<'a> {
    /// The config, and the values of its secrets.
    pub config: (&'a Resolved, &'a SecretValues),
    /// The session id; `None` for a random one.
    pub session: Option<&'a str>,
    /// What the session is for.
    pub purpose: Purpose<'a>,
    /// The podman version to write for; `None` for the installed one.
    pub version: Option<Version>,
    /// Fail if the manifest alone cannot enforce a limit.
    pub strict: bool,
    /// Stop the command after this time. A smaller configured timeout applies instead.
    pub timeout: Option<Duration>,
    /// Give the command a terminal.
    pub tty: bool,
    /// The caller's `$TERM`.
    pub term: Option<&'a str>,
    /// The network log's file.
    pub network_log: Option<&'a Path>,
    /// The user's runtime directory.
    pub runtime_dir: &'a Path,
    /// Keep everything afterwards.
    pub keep: bool,
    /// Do not print what was refused.
    pub quiet: bool,
    /// Whether to find out everything for a report.
    pub wants_report: bool,
    /// The signals, if they have been taken over.
    pub signals: Option<Arc<Signals>>,
    /// Shows the progress of the start.
    pub progress: &'a dyn Fn(Progress<'_>),
}

/// Why a session could not run its command to its end.
#[derive(Debug, Error)]
pub enum LifeError {
    /// A problem with the host, podman, a file, or a signal.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// No plan can be made.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The plan cannot be written for this podman version.
    #[error(transparent)]
    Emit(#[from] EmitError),
    /// `strict` is set, and the manifest alone cannot enforce a limit.
    #[error("--strict: the manifest alone cannot enforce a limit")]
    Limits,
}

/// Runs a command in a new session. Returns the exit code for the caller, and completes the report except for its end;
/// `tell` prints messages for the user.
pub fn live(order: &Order<'_>, tell: Tell<'_>, report: &mut Report) -> Result<u8, LifeError> {
    let resolved = order.config.0;
    host::check_read_only_mounts(resolved)?;
    let log = order.network_log.map(|path| Rotating::open(path, &Inside::of(resolved))).transpose()?;
    let session = match order.session {
        Some(session) => session.to_owned(),
        None => host::random_session()?,
    };
    // Take signals over before creating anything that they would leave behind.
    let signals = match &order.signals {
        Some(signals) => Arc::clone(signals),
        None => Arc::new(Signals::take_over()?),
    };
    if !session_is_valid(&session) {
        return Err(PlanError::BadSession(session).into());
    }
    report.session.clone_from(&session);
    (order.progress)(Progress::Step(&session, "preparing"));
    let registry = Registry::open(order.runtime_dir)?;
    let starting = registry.heeding(&signals);
    // After a crash, and once after each login or reboot. Otherwise podman is not asked.
    if registry.is_fresh() || starting.has_dead().unwrap_or(false) {
        clean_up(&registry, Leftovers::All, tell);
    }
    let state = State::create(&starting, record(resolved, &session))?;
    point("state-made");
    let result = run_in(order, tell, (&starting, &state), &signals, log, report);
    let is_left = state.is_left();
    drop(state);
    if is_left {
        clean_up(&registry, Leftovers::Session(&session), tell);
    }
    result
}

/// Sets the session up, runs the command, and tears the session down. `state` holds the session's directory.
fn run_in(
    order: &Order<'_>,
    tell: Tell<'_>,
    sessions: (&Registry, &State),
    signals: &Arc<Signals>,
    log: Option<Rotating>,
    report: &mut Report,
) -> Result<u8, LifeError> {
    let step = |what| (order.progress)(Progress::Step(sessions.1.session(), what));
    let (registry, state) = sessions;
    let (resolved, values) = order.config;
    let podman = Podman::new(state.empty_dir())?;
    let version = match order.version {
        Some(version) => version,
        None => installed::version(&podman.heeding(signals), registry)?,
    };
    let given = give(resolved, values, state)?;
    state.make_handover()?;
    let profile = seccomp::derived().map(|text| state.keep_profile(&text)).transpose()?;
    let mut watching = Some(Watching::start(resolved)?);
    let firsts = first_uses(registry, resolved)?;
    if !firsts.0.is_empty() {
        step("preparing the images and volumes for their first use");
        load_router(&podman, resolved)?;
    }
    let turn = registry.turn()?;
    step("starting");
    let attempts = subnets(resolved)?.min(ATTEMPTS);
    for attempt in 0..attempts {
        let request = PlanRequest {
            resolved,
            session: state.session(),
            command: &Command::Hold,
            attempt,
            keeper: Keeper::Runner(state.dir()),
        };
        let plan = plan(request)?.with_seccomp(profile.clone());
        podman.keep_defaults(&plan)?;
        if attempt == 0 && order.strict {
            refuse_gaps(&plan, version, tell)?;
        }
        let compiled = tree::compile(&plan, version)?;
        state.add_plan(&plan.names.hash)?;
        state.keep_manifest(&compiled.stream.text())?;
        if let Some(policy) = compiled.router_files.first() {
            state.keep_policy(&policy.text)?;
        }
        point("manifest-kept");
        if attempt == 0 && !resolved.sandbox_enabled.value {
            tell("THE NETWORK SANDBOX IS OFF: the command can reach everything that this host can reach");
        }
        let running = Session::new(&podman, signals, state, &plan, &compiled);
        if let Some(nested) = plan.nested.filter(|_| attempt == 0) {
            tell(&nested_containers(nested));
        }
        match running.set_up() {
            Ok(ready) => {
                drop(turn);
                firsts.made();
                (report.plan, report.images) = (Some(plan.names.hash.clone()), ready.images);
                let (session, agent) = (&running, ready.agent);
                let started = Started { podman: &podman, state, plan: &plan, session, given: &given, agent };
                let watched = watching.take().map(Watching::ready).transpose();
                let watched = watched.inspect_err(|_| take_down(&running, state))?;
                nested::remove_left(&podman.heeding(signals), &plan, &started.agent);
                nested::serve_docker(&podman.heeding(signals), &plan, &started.agent, signals)
                    .inspect_err(|_| take_down(&running, state))?;
                let code = execute(order, tell, &started, signals, (log, watched.as_ref()), report);
                let told = watched.map(|watched| watched.tell(tell)).unwrap_or_default();
                let alarmed = !told.alarms.is_empty();
                (report.changes, report.alarms) = (told.changes, told.alarms);
                return code.map(|code| if alarmed { exit::PROMISE } else { code });
            }
            Err(SetupError::SubnetTaken) => signals.check()?,
            // Somebody has removed it since its first use.
            Err(SetupError::Failed(RuntimeError::MissingImages(missing)))
                if missing.iter().all(|one| one.image == resolved.router_image.value)
                    && load_router(&podman, resolved)? =>
            {
                take_down(&running, state);
            }
            Err(SetupError::Failed(error)) => {
                take_down(&running, state);
                if let Some(watching) = watching.take() {
                    watching.tell(tell);
                }
                return Err(error.redacted(&given.redactor).into());
            }
        }
    }
    Err(RuntimeError::Host(format!(
        "found no free subnet in network.pool {} after {attempts} tries: remove the networks of dead sessions with `sandboxc gc`, \
         or set a larger network.pool in the server file",
        resolved.pool.value
    ))
    .into())
}

/// The use of an image by containers of an identity, for [`Registry::first_uses`].
pub fn image_use(reference: &str, identity: Identity) -> String {
    format!("image {reference} {identity:?}")
}

/// What podman creates when the first session needs it: image layers copied for other ids, and the home volume.
fn first_uses(registry: &Registry, resolved: &Resolved) -> Result<FirstUses, RuntimeError> {
    let identity = resolved.identity.value;
    let things = [
        image_use(resolved.image.value.reference(), identity),
        image_use(&resolved.router_image.value, identity),
        format!("volume {}", resolved.home_volume.value),
    ];
    registry.first_uses(things.iter().map(String::as_str))
}

/// Gives podman the router's image, if it is ours and not there; true if it is ours.
fn load_router(podman: &Podman, resolved: &Resolved) -> Result<bool, RuntimeError> {
    if !resolved.sandbox_enabled.value || resolved.router_image.from != Place::built_in() {
        return Ok(false);
    }
    RouterImage::find()?.load(podman)?;
    Ok(true)
}

/// Prints the limits that the manifest alone cannot enforce.
fn refuse_gaps(plan: &Plan, version: Version, tell: Tell<'_>) -> Result<(), LifeError> {
    let gaps = limit_gaps(plan, version);
    for gap in &gaps {
        tell(&format!("{} is not kept by the manifest alone: {}", gap.limit, gap.why));
    }
    if gaps.is_empty() { Ok(()) } else { Err(LifeError::Limits) }
}

/// Removes what dead sessions left.
fn clean_up(registry: &Registry, scope: Leftovers<'_>, tell: Tell<'_>) {
    let swept = Podman::new(registry.empty_dir()).and_then(|podman| gc::sweep(&podman, registry, scope, false));
    match swept {
        // The session will report the same problem.
        Err(RuntimeError::NoPodman(_)) => {}
        // This session does not depend on the cleanup.
        Err(error) => tell(&format!("cleaning up: {error}")),
        Ok(swept) => {
            for left in swept.left {
                tell(&format!("could not remove {left}; try `sandboxc gc` later"));
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
        entrance: None,
        live: None,
    }
}

/// What the session gets besides its plan.
#[derive(Default)]
struct Given {
    /// A file with variables for the command.
    env_file: Option<PathBuf>,
    /// Whether the session has plain secrets.
    secrets: bool,
    /// Redacts secrets in everything that is printed.
    redactor: Redactor,
}

/// Creates keys and surrogates, and writes them and the secrets to where router and agent find them.
fn give(resolved: &Resolved, values: &SecretValues, state: &State) -> Result<Given, RuntimeError> {
    let (policy, dir) = (&resolved.policy, state.dir());
    if !resolved.sandbox_enabled.value && !policy.credentials.is_empty() {
        return Err(RuntimeError::Host(
            "with `sandbox_enabled: false` there is no router that could keep credentials from the command: remove the credentials"
                .to_owned(),
        ));
    }
    let given = materials::give(resolved, values, dir)?;
    let known = materials::known(values, &given.variables);
    materials::write_known(dir, &known)?;
    Ok(Given { env_file: given.env_file, secrets: !values.plain.is_empty(), redactor: Redactor::new(known)? })
}

/// Takes an incomplete session down.
fn take_down(running: &Session<'_>, state: &State) {
    leave_rest(state, &running.take_down());
}

/// Leaves what could not be removed to the full cleanup, once the session's lock is free.
fn leave_rest(state: &State, left: &[String]) {
    if !left.is_empty() {
        state.leave();
    }
}
