//! `sandboxc logs`.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use super::context::{Context, show};
use super::documents::{LogLine, VERSION, print_json};
use super::{Failure, no_session, shell_files};
use crate::runtime::logs::logs as follow;

#[derive(Debug, Args)]
pub(super) struct LogsArgs {
    /// Follow the output until the session ends
    #[arg(short, long)]
    follow: bool,
    /// Print one JSON document for each line
    #[arg(long)]
    json: bool,
    /// Session id, as shown by `ps`
    #[arg(value_name = "SESSION", add = ArgValueCandidates::new(shell_files::sessions))]
    session: String,
}

pub(super) fn logs(args: &LogsArgs) -> Result<u8, Failure> {
    let (registry, podman) = Context::sessions()?;
    let mut failed = None;
    let mut each = |service: &str, line: &str| {
        let shown = match args.json {
            true => print_json(&LogLine { version: VERSION, service, line }),
            false => show(&format!("{service}: {line}\n")),
        };
        failed = failed.take().or(shown.err());
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
