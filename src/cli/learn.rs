//! `sandboxc learn`.

use clap::Args;

use super::Failure;
use super::context::{say, with_router};
use super::run::{self, RunFlags};
use super::suggest::{Destination, propose};
use crate::config::SecretValues;
use crate::plan::LEARNING;
use crate::runtime::host;
use crate::runtime::logged::Logged;
use crate::runtime::podman::Podman;

#[derive(Debug, Args)]
pub(super) struct LearnArgs {
    #[command(flatten)]
    flags: RunFlags,
    /// Write what the command needed to the repo file
    #[arg(long)]
    write: bool,
    /// Command to run
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

pub(super) fn learn(args: &LearnArgs) -> Result<u8, Failure> {
    host::check()?;
    let context = run::context(&args.flags)?;
    let config = args.flags.config();
    let (resolved, _) = context.resolved(config, true)?;
    let policy = resolved.policy.clone();
    let hidden: Vec<&str> = resolved.env_from.keys().map(String::as_str).collect();
    if !hidden.is_empty() {
        say(&format!("sandboxc: these variables of this host are not passed on while learning: {}", hidden.join(", ")));
    }
    let learning = with_router(resolved.for_learning().map_err(|error| Failure::usage(error.to_string()))?)?;
    let home = learning.home_volume.value.clone();
    say(&format!("sandboxc: {LEARNING}; private addresses stay refused"));
    let own =
        tempfile::tempdir().map_err(|error| Failure::promise(format!("creating a temporary directory: {error}")))?;
    let log = args.flags.network_log().map_or_else(|| own.path().join("network.log"), ToOwned::to_owned);
    let result = run::live_with_log(&context, &args.flags, &args.command, (&learning, &SecretValues::default()), &log);
    // Nothing that the command left in its home is used again.
    let _ = Podman::apart()?.output(&["volume", "rm", "--force", &home], None);
    let code = result?;
    let recorded = super::log::read(&[log])?;
    let lines: Vec<&Logged> = recorded.lines.iter().collect();
    let destination = if args.write { Destination::File } else { Destination::Stderr };
    propose(&context, config, &policy, &lines, false, destination)?;
    Ok(code)
}
