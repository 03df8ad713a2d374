//! `sandboxc logs`.

use clap::Args;

use super::context::{Context, show};
use super::{Failure, no_session};
use crate::runtime::logs::logs as follow;

#[derive(Debug, Args)]
pub(super) struct LogsArgs {
    /// Follow the output until the session ends
    #[arg(short, long)]
    follow: bool,
    /// Session id, as shown by `ps`
    #[arg(value_name = "SESSION")]
    session: String,
}

pub(super) fn logs(args: &LogsArgs) -> Result<u8, Failure> {
    let (registry, podman) = Context::sessions()?;
    let mut failed = None;
    let mut each = |service: &str, line: &str| {
        failed = failed.take().or(show(&format!("{service}: {line}\n")).err());
    };
    let found = follow(&podman, &registry, &args.session, args.follow, &mut each)?;
    if let Some(failure) = failed {
        return Err(failure);
    }
    match found {
        true => Ok(0),
        false => Err(no_session(&args.session)),
    }
}
