//! `sandboxc run` and `sandboxc agent`.

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::context::{Context, say};
use super::{Failure, PlanArgs, duration};
use crate::config::{Resolved, SHARED_HOME, SecretValues};
use crate::runtime::host;
use crate::runtime::life::{self, Order};
use crate::runtime::podman::Podman;
use crate::source::Place;

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    plan: PlanArgs,
    /// Stop the command after this time, e.g. 90s, 5m, 1h; a smaller configured timeout applies instead
    #[arg(long, value_name = "D", value_parser = duration::parse)]
    timeout: Option<Duration>,
    /// Give the command a terminal even if stdin or stdout is not one
    #[arg(long)]
    tty: bool,
    /// Append one JSON line per network decision to this file
    #[arg(long, value_name = "FILE")]
    network_log: Option<PathBuf>,
    /// Keep containers, networks and files afterwards, for debugging
    #[arg(long)]
    keep: bool,
    /// Command to run
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct AgentArgs {
    /// Arguments to append to the configured command
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    args: Vec<String>,
}

pub(super) fn run(args: &RunArgs) -> Result<u8, Failure> {
    let context = Context::new();
    let (resolved, values) = context.resolve_with_secrets(&args.plan.config)?;
    live(&context, args, (&resolved, &values))
}

pub(super) fn agent(args: AgentArgs) -> Result<u8, Failure> {
    let context = Context::new();
    let config = super::ConfigArgs { repo: None, server: None, name: None, config_from: None };
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
    live(&context, &run, (&resolved, &values))
}

/// Keeps using the home volume that earlier versions shared between all repos, since it holds the agent's login, until the
/// server file chooses.
fn keep_shared_home(resolved: &mut Resolved) -> Result<(), Failure> {
    let said = resolved.home_volume.from != Place::built_in();
    if said || !Podman::apart()?.has_volume(SHARED_HOME)? {
        return Ok(());
    }
    say(&format!(
        "sandboxc: warning: the home directory is the volume {SHARED_HOME}, which other repos share: what one agent leaves there, \
         the next one may run; set `home: private` or `home: shared` in the server file"
    ));
    SHARED_HOME.clone_into(&mut resolved.home_volume.value);
    Ok(())
}

fn live(context: &Context, args: &RunArgs, config: (&Resolved, &SecretValues)) -> Result<u8, Failure> {
    host::check()?;
    let order = Order {
        config,
        session: args.plan.session.as_deref(),
        command: &args.command,
        version: args.plan.podman,
        strict: args.plan.strict,
        timeout: args.timeout,
        tty: args.tty || (io::stdin().is_terminal() && io::stdout().is_terminal()),
        term: context.var("TERM"),
        network_log: args.network_log.as_deref(),
        runtime_dir: &Context::runtime_dir()?,
        keep: args.keep,
    };
    Ok(life::live(&order, &|line| say(&format!("sandboxc: {line}")))?)
}
