//! `sandboxc logs`.

use clap::Args;

use super::Failure;
use super::context::{Context, print};
use crate::diagnostic::is_hidden;
use crate::runtime::logs::logs as show;

#[derive(Debug, Args)]
pub(super) struct LogsArgs {
    /// Go on until the session ends
    #[arg(short, long)]
    follow: bool,
    /// Its id, as `ps` shows it
    #[arg(value_name = "SESSION")]
    session: String,
}

pub(super) fn logs(args: &LogsArgs) -> Result<u8, Failure> {
    let (registry, podman) = Context::new().sessions()?;
    let mut failed = None;
    let mut each = |service: &str, line: &str| {
        // Lines hold names that the agent chose.
        let line: String = line.chars().map(|c| if is_hidden(c) { '?' } else { c }).collect();
        failed = failed.take().or(print(&format!("{service}: {line}\n")).err());
    };
    let found = show(&podman, &registry, &args.session, args.follow, &mut each)?;
    if let Some(failure) = failed {
        return Err(failure);
    }
    match found {
        true => Ok(0),
        false => Err(Failure::usage(format!(
            "nothing of a session `{}` is there; `sandboxc ps` lists the living",
            args.session
        ))),
    }
}
