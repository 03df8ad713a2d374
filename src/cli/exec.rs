//! `sandboxc exec` and `sandboxc shell`.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use super::context::{Context, say};
use super::{Failure, duration, no_session, shell_files};
use crate::runtime::enter::{Visit, enter};
use crate::runtime::host;
use crate::runtime::registry::Registry;
use crate::runtime::systemd::UserManager;

#[derive(Debug, Args)]
pub(super) struct ExecArgs {
    /// Give the command a terminal even if stdin or stdout is not one
    #[arg(long)]
    tty: bool,
    /// Stop the command after this time, e.g. 90s, 5m, 1h
    #[arg(long, value_name = "D", value_parser = duration::parse)]
    timeout: Option<Duration>,
    /// Session id, as shown by `ps`, or the name of an installed sandbox
    #[arg(value_name = "SESSION", add = ArgValueCandidates::new(shell_files::sessions))]
    session: String,
    /// Command to run
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct ShellArgs {
    /// Session id, as shown by `ps`, or the name of an installed sandbox
    #[arg(value_name = "SESSION", add = ArgValueCandidates::new(shell_files::sessions))]
    session: String,
}

pub(super) fn exec(args: &ExecArgs) -> Result<u8, Failure> {
    let context = Context::new();
    let visit = Visit {
        session: &args.session,
        command: &args.command,
        tty: args.tty || (io::stdin().is_terminal() && io::stdout().is_terminal()),
        term: context.var("TERM"),
        timeout: args.timeout,
    };
    host::check()?;
    let registry = Registry::open(&Context::runtime_dir()?)?;
    let manager = UserManager::new(&context.config_home()?);
    let ended = enter(&registry, &manager, &visit, &|line| say(&format!("sandboxc: {line}")))?;
    ended.ok_or_else(|| no_session(&args.session))
}

pub(super) fn shell(args: ShellArgs) -> Result<u8, Failure> {
    exec(&ExecArgs { tty: true, timeout: None, session: args.session, command: vec!["sh".to_owned()] })
}
