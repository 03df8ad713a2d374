//! `sandboxc run` and `sandboxc agent`.

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;

use super::context::{Context, say, tell_limits};
use super::{Failure, PlanArgs, duration};
use crate::config::Resolved;
use crate::emit::tree;
use crate::plan::{Command, Plan, Request, plan};
use crate::runtime::exec::{Ended, Exec, Signals, exec};
use crate::runtime::netlog::{self, NetworkLog};
use crate::runtime::podman::Podman;
use crate::runtime::session::{Session, SetupError};
use crate::runtime::state::State;
use crate::runtime::{exit, host};

/// How many subnets are tried before the pool counts as taken.
const ATTEMPTS: u32 = 8;

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
    let resolved = context.resolve(&args.plan.config, true, exit::PROMISE)?;
    start(&context, args, &resolved)
}

pub(super) fn agent(args: AgentArgs) -> Result<u8, Failure> {
    let context = Context::new();
    let config = super::ConfigArgs { repo: None, server: None, name: None };
    let resolved = context.resolve(&config, true, exit::PROMISE)?;
    let mut command: Vec<String> = resolved.command.iter().map(|word| word.value.clone()).collect();
    if command.is_empty() {
        return Err(Failure::promise(
            "no agent command: set `command:` in .sandboxc/sandbox.yaml, e.g. `command: [claude]`",
        ));
    }
    command.extend(args.args);
    let plan = PlanArgs { config, session: None, podman: None, strict: false };
    let run = RunArgs { plan, timeout: None, tty: false, network_log: None, keep: false, command };
    start(&context, &run, &resolved)
}

fn start(context: &Context, args: &RunArgs, resolved: &Resolved) -> Result<u8, Failure> {
    host::check()?;
    host::check_read_only_mounts(resolved)?;
    let log = args.network_log.as_deref().map(netlog::open).transpose()?;
    let session = match &args.plan.session {
        Some(session) => session.clone(),
        None => host::random_session()?,
    };
    // Signals are taken over before anything exists that they would leave behind.
    let signals = Signals::take_over()?;
    if !crate::plan::session_is_valid(&session) {
        return Err(crate::plan::PlanError::BadSession(session).into());
    }
    let state = State::create(&context.runtime_dir()?, &session)?;
    let podman = Podman::new("podman", state.empty_dir());
    let version = match args.plan.podman {
        Some(version) => version,
        None => podman.version()?,
    };
    for attempt in 0..ATTEMPTS {
        let request = Request { resolved, session: &session, command: &Command::Hold, attempt };
        let plan = plan(request)?;
        if attempt == 0 && args.plan.strict {
            tell_limits(&plan, version, true)?;
        }
        let compiled = tree::compile(&plan, version)?;
        state.keep_manifest(&compiled.stream.text())?;
        if !resolved.sandbox_enabled.value {
            say("sandboxc: THE NETWORK SANDBOX IS OFF: the command reaches everything that this host reaches");
        }
        let running = Session::new(&podman, &state, &plan, &compiled);
        match running.set_up(&|| signals.check()) {
            Ok(()) => {
                let started = Started { podman: &podman, plan: &plan, session: &running };
                return execute(context, args, &started, &signals, log);
            }
            Err(SetupError::SubnetTaken) => {}
            Err(SetupError::Failed(error)) => return Err(error.into()),
        }
    }
    Err(Failure::promise(format!(
        "no free subnet found in {} after {ATTEMPTS} tries; remove networks of dead sessions",
        resolved.pool.value
    )))
}

struct Started<'a> {
    podman: &'a Podman,
    plan: &'a Plan,
    session: &'a Session<'a>,
}

fn execute(
    context: &Context,
    args: &RunArgs,
    started: &Started<'_>,
    signals: &Signals,
    log: Option<std::fs::File>,
) -> Result<u8, Failure> {
    let log = log.filter(|_| started.plan.network.is_some());
    let log = log.map(|file| NetworkLog::follow(&started.session.router_log(), started.plan, file));
    let logged = log.is_some();
    let configured = started.plan.agent.limits.timeout.as_ref().map(|timeout| Duration::from_secs(timeout.value));
    let timeout = args.timeout.into_iter().chain(configured).min();
    let container = started.plan.names.agent_container();
    let request = Exec {
        container: &container,
        command: &args.command,
        tty: args.tty || (io::stdin().is_terminal() && io::stdout().is_terminal()),
        term: context.var("TERM"),
        deadline: timeout.map(|timeout| Instant::now() + timeout),
    };
    let ended = exec(started.podman, &request, signals);
    if let Some(log) = log {
        started.session.stop_router();
        log.finish();
    }
    if args.keep {
        let names = &started.plan.names;
        say(&format!(
            "sandboxc: kept: pods {} {}, network {}",
            names.agent_pod, names.router_pod, names.internal_network
        ));
    } else {
        for left in started.session.take_down(!logged && matches!(ended, Ok(Ended::Code(_)))) {
            say(&format!("sandboxc: {left}"));
        }
    }
    Ok(match ended? {
        Ended::Code(code) => code,
        Ended::TimedOut => {
            say(&format!("sandboxc: time is over after {} s", timeout.unwrap_or_default().as_secs()));
            exit::TIMEOUT
        }
        Ended::Signalled(signal) => exit::SIGNAL_BASE + u8::try_from(signal).unwrap_or(0),
    })
}
