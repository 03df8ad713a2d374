//! `sandboxc stop`.

use clap::Args;

use super::Failure;
use super::context::{Context, say};
use crate::runtime::exit;
use crate::runtime::stop::{Stopped, stop as stop_session};

#[derive(Debug, Args)]
pub(super) struct StopArgs {
    /// Its id, as `ps` shows it
    #[arg(value_name = "SESSION")]
    session: String,
}

pub(super) fn stop(args: &StopArgs) -> Result<u8, Failure> {
    let (registry, podman) = Context::new().sessions()?;
    match stop_session(&podman, &registry, &args.session)? {
        Stopped::Ended => Ok(0),
        Stopped::Unknown => {
            Err(Failure::usage(format!("there is no session `{}`; `sandboxc ps` lists the living", args.session)))
        }
        Stopped::Left(left) => {
            for left in left {
                say(&format!("sandboxc: {left}"));
            }
            Ok(exit::PROMISE)
        }
    }
}
