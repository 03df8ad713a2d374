//! `sandboxc run` and `sandboxc agent`.

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use clap::Args;

use super::context::{Context, say, tell_limits};
use super::workspace::{Watched, Watching};
use super::{Failure, PlanArgs, duration};
use crate::config::{Resolved, SHARED_HOME, SecretValues};
use crate::emit::tree;
use crate::plan::{Command, Keeper, Plan, Request, plan, subnets};
use crate::runtime::exec::{Ended, Exec, exec};
use crate::runtime::fault::point;
use crate::runtime::gc::{self, Scope};
use crate::runtime::materials;
use crate::runtime::netlog::NetworkLog;
use crate::runtime::output::{Inside, Rotating};
use crate::runtime::podman::Podman;
use crate::runtime::redact::Redactor;
use crate::runtime::registry::{FirstUses, Record, Registry, Stage};
use crate::runtime::session::{Session, SetupError};
use crate::runtime::signals::Signals;
use crate::runtime::state::State;
use crate::runtime::{RuntimeError, exit, host};
use crate::source::Place;

/// How many subnets are tried at most; a small pool is tried as a whole.
const ATTEMPTS: u32 = 64;

/// A command that SIGKILL ended, as a shell says it.
const KILLED: u8 = exit::SIGNAL_BASE + 9;

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    plan: PlanArgs,
    /// End the command after this time, e.g. 90s, 5m, 1h; the smaller of it and the configured one holds
    #[arg(long, value_name = "D", value_parser = duration::parse)]
    timeout: Option<Duration>,
    /// Give the command a terminal even if stdin or stdout is none
    #[arg(long)]
    tty: bool,
    /// Append one JSON line per network decision to this file
    #[arg(long, value_name = "FILE")]
    network_log: Option<PathBuf>,
    /// Leave everything in place afterwards, for looking into
    #[arg(long)]
    keep: bool,
    /// The command
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct AgentArgs {
    /// Arguments appended to the configured command
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    args: Vec<String>,
}

pub(super) fn run(args: &RunArgs) -> Result<u8, Failure> {
    let context = Context::new();
    let (resolved, values) = context.resolve_with_secrets(&args.plan.config)?;
    start(&context, args, (&resolved, &values))
}

pub(super) fn agent(args: AgentArgs) -> Result<u8, Failure> {
    let context = Context::new();
    let config = super::ConfigArgs { repo: None, server: None, name: None };
    let (mut resolved, values) = context.resolve_with_secrets(&config)?;
    keep_shared_home(&mut resolved)?;
    let mut command: Vec<String> = resolved.command.iter().map(|word| word.value.clone()).collect();
    if command.is_empty() {
        return Err(Failure::usage(
            "no agent command: set `command:` in .sandboxc/sandbox.yaml, e.g. `command: [claude]`",
        ));
    }
    command.extend(args.args);
    let plan = PlanArgs { config, session: None, podman: None, strict: false };
    let run = RunArgs { plan, timeout: None, tty: false, network_log: None, keep: false, command };
    start(&context, &run, (&resolved, &values))
}

/// An agent that has been at home in the volume of all repos stays there until the server file says otherwise: its login is
/// in it.
fn keep_shared_home(resolved: &mut Resolved) -> Result<(), Failure> {
    let said = resolved.home_volume.from != Place::built_in();
    if said || !Podman::apart()?.has_volume(SHARED_HOME)? {
        return Ok(());
    }
    say(&format!(
        "sandboxc: warning: the home directory inside is the volume {SHARED_HOME}, which other repos use too: what one agent \
         leaves there, the next one runs; say `home: private` or `home: shared` in the server file"
    ));
    SHARED_HOME.clone_into(&mut resolved.home_volume.value);
    Ok(())
}

fn start(context: &Context, args: &RunArgs, config: (&Resolved, &SecretValues)) -> Result<u8, Failure> {
    let resolved = config.0;
    host::check()?;
    host::check_read_only_mounts(resolved)?;
    let log = args.network_log.as_deref().map(|path| Rotating::open(path, &Inside::of(resolved))).transpose()?;
    let session = match &args.plan.session {
        Some(session) => session.clone(),
        None => host::random_session()?,
    };
    // Signals are taken over before anything exists that they would leave behind.
    let signals = Arc::new(Signals::take_over()?);
    if !crate::plan::session_is_valid(&session) {
        return Err(crate::plan::PlanError::BadSession(session).into());
    }
    let registry = Registry::open(&context.runtime_dir()?)?;
    let starting = registry.heeding(&signals);
    // After a crash, and once after each login or start of the machine; podman is asked only then.
    if registry.is_fresh() || starting.has_dead().unwrap_or(false) {
        clean_up(&registry, Scope::All);
    }
    let state = State::create(&starting, record(resolved, &session))?;
    point("state-made");
    let result = run_in(context, args, config, (&starting, &state), &signals, log);
    let is_left = state.is_left();
    drop(state);
    if is_left {
        clean_up(&registry, Scope::Session(&session));
    }
    result
}

/// Sets up, executes and takes down, in the session that `state` holds.
fn run_in(
    context: &Context,
    args: &RunArgs,
    (resolved, values): (&Resolved, &SecretValues),
    sessions: (&Registry, &State),
    signals: &Arc<Signals>,
    log: Option<Rotating>,
) -> Result<u8, Failure> {
    let (registry, state) = sessions;
    let podman = Podman::new(state.empty_dir())?;
    let version = match args.plan.podman {
        Some(version) => version,
        None => podman.heeding(signals).version()?,
    };
    let given = give(resolved, values, state)?;
    let redacted = |error: RuntimeError| {
        let failure = Failure::from(error);
        Failure { message: given.redactor.text(&failure.message), ..failure }
    };
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
        let plan = plan(request)?;
        if attempt == 0 && args.plan.strict {
            tell_limits(&plan, version, true)?;
        }
        let compiled = tree::compile(&plan, version)?;
        state.add_plan(&plan.names.hash)?;
        state.keep_manifest(&compiled.stream.text())?;
        point("manifest-kept");
        if attempt == 0 && !resolved.sandbox_enabled.value {
            say("sandboxc: THE NETWORK SANDBOX IS OFF: the command reaches everything that this host reaches");
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
                let code = execute(context, args, &started, signals, (log, watched.as_ref()));
                let alarmed = watched.is_some_and(Watched::tell);
                return code.map(|code| if alarmed { exit::PROMISE } else { code });
            }
            Err(SetupError::SubnetTaken) => signals.check()?,
            Err(SetupError::Failed(error)) => {
                take_down(&running, state, false);
                if let Some(watching) = watching.take() {
                    watching.tell();
                }
                return Err(redacted(error));
            }
        }
    }
    Err(Failure::promise(format!(
        "no free subnet in network.pool {} after {attempts} tries: `sandboxc gc` removes the networks of dead sessions, \
         a larger network.pool in the server config makes room for more",
        resolved.pool.value
    )))
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

/// Removes what dead sessions have left.
fn clean_up(registry: &Registry, scope: Scope<'_>) {
    let swept = Podman::new(registry.empty_dir()).and_then(|podman| gc::sweep(&podman, registry, scope, false));
    match swept {
        // This session does not need it to have worked.
        Err(error) => say(&format!("sandboxc: cleaning up: {error}")),
        Ok(swept) => {
            for left in swept.left {
                say(&format!("sandboxc: left for the next `sandboxc gc`: {left}"));
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
fn give(resolved: &Resolved, values: &SecretValues, state: &State) -> Result<Given, Failure> {
    let (policy, dir) = (&resolved.policy, state.dir());
    if !resolved.sandbox_enabled.value && !policy.credentials.is_empty() {
        return Err(Failure::promise(
            "credentials are kept from the command by the router, which `sandbox_enabled: false` leaves out; remove them",
        ));
    }
    let given = materials::give(resolved, state.session(), values, dir)?;
    let known = materials::known(values, &given.variables);
    materials::write_known(dir, &known)?;
    Ok(Given { env_file: given.env_file, secrets: !values.plain.is_empty(), redactor: Redactor::new(known)? })
}

fn execute(
    context: &Context,
    args: &RunArgs,
    started: &Started<'_>,
    signals: &Signals,
    (log, watched): (Option<Rotating>, Option<&Watched>),
) -> Result<u8, Failure> {
    let log = log.filter(|_| started.plan.network.is_some());
    let log = log.map(|file| {
        NetworkLog::follow(&started.session.router_log(), started.plan, started.given.redactor.clone(), file)
    });
    let logged = log.is_some();
    let configured = started.plan.agent.main.limits.timeout.as_ref().map(|timeout| Duration::from_secs(timeout.value));
    let timeout = args.timeout.into_iter().chain(configured).min();
    let container = started.plan.names.agent_container();
    let request = Exec {
        container: &container,
        command: &args.command,
        tty: args.tty || (io::stdin().is_terminal() && io::stdout().is_terminal()),
        term: context.var("TERM"),
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
    end_session(args, started, !logged && matches!(ended, Ok(Ended::Code(_))));
    Ok(match ended? {
        Ended::Code(code) => {
            if let Some(hint) = hint {
                say(&format!("sandboxc: {hint}"));
            }
            code
        }
        Ended::TimedOut => {
            say(&format!("sandboxc: time is over after {} s", timeout.unwrap_or_default().as_secs()));
            exit::TIMEOUT
        }
        Ended::Alarmed => {
            say("sandboxc: the command was ended, since what this host would obey in the workspace changed:");
            exit::PROMISE
        }
        Ended::Signalled(signal) => exit::SIGNAL_BASE + u8::try_from(signal).unwrap_or(0),
    })
}

/// Nothing stays, unless it was asked for.
fn end_session(args: &RunArgs, started: &Started<'_>, in_order: bool) {
    let names = &started.plan.names;
    if args.keep {
        say(&format!(
            "sandboxc: kept until the next `sandboxc gc`: pods {} {}, network {}",
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
