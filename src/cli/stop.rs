//! `sandboxc stop`.

use clap::Args;

use super::context::{Context, say};
use super::{Failure, no_session};
use crate::runtime::exit;
use crate::runtime::stop::{Stopped, stop as stop_session};

#[derive(Debug, Args)]
pub(super) struct StopArgs {
    /// Session id, as shown by `ps`
    #[arg(value_name = "SESSION")]
    session: String,
}

pub(super) fn stop(args: &StopArgs) -> Result<u8, Failure> {
    let (registry, podman) = Context::sessions()?;
    match stop_session(&podman, &registry, &args.session)? {
        Stopped::Ended => Ok(0),
        Stopped::Unknown => Err(no_session(&args.session)),
        Stopped::Left(left) => {
            for left in left {
                say(&format!("sandboxc: {left}"));
            }
            Ok(exit::PROMISE)
        }
    }
}
