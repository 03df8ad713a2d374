//! `sandboxc stop`.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use super::context::{Context, say};
use super::documents::{StoppedSession, VERSION, print_json};
use super::{Failure, no_session, shell_files};
use crate::runtime::exit;
use crate::runtime::stop::{Stopped, stop as stop_session};

#[derive(Debug, Args)]
pub(super) struct StopArgs {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Session id, as shown by `ps`
    #[arg(value_name = "SESSION", add = ArgValueCandidates::new(shell_files::sessions))]
    session: String,
}

pub(super) fn stop(args: &StopArgs) -> Result<u8, Failure> {
    let (registry, podman) = Context::sessions()?;
    let left = match stop_session(&podman, &registry, &args.session)? {
        Stopped::Ended => Vec::new(),
        Stopped::Unknown => return Err(no_session(&args.session)),
        Stopped::Left(left) => left,
    };
    for left in &left {
        say(&format!("sandboxc: {left}"));
    }
    let code = if left.is_empty() { 0 } else { exit::PROMISE };
    if args.json {
        print_json(&StoppedSession { version: VERSION, session: args.session.clone(), left })?;
    }
    Ok(code)
}
