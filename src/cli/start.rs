//! `sandboxc start`: a session for many commands of `exec`.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;

use super::context::{Context, print, put};
use super::conversation::within;
use super::run::{Asked, RunFlags, context, live};
use super::{Failure, duration};
use crate::plan::{PlanError, session_is_valid};
use crate::runtime::host;
use crate::runtime::keeper::{self, Start};
use crate::runtime::life::{LifeError, Purpose, Stay};
use crate::runtime::registry::Registry;

#[derive(Debug, Args)]
pub(super) struct StartArgs {
    #[command(flatten)]
    flags: RunFlags,
    /// Stop the session after this time without a command, e.g. 30m
    #[arg(long, value_name = "D", value_parser = duration::parse)]
    idle: Option<Duration>,
    /// Stop the session after this time in any case, e.g. 12h; a smaller configured timeout applies instead
    #[arg(long, value_name = "D", value_parser = duration::parse)]
    max_age: Option<Duration>,
    /// Be the process that keeps the session
    #[arg(long, hide = true)]
    keeper: bool,
}

impl StartArgs {
    pub(super) fn is_quiet(&self) -> bool {
        self.flags.is_quiet()
    }
}

pub(super) fn start(args: &StartArgs) -> Result<u8, Failure> {
    if let Some(why) = args.flags.of_a_command() {
        return Err(Failure::usage(format!("`start` runs no command; {why}")));
    }
    if args.keeper {
        return keep(args);
    }
    host::check()?;
    let mut words: Vec<OsString> = std::env::args_os().skip(1).collect();
    words.push("--keeper".into());
    let session = if let Some(session) = args.flags.session() {
        if !session_is_valid(session) {
            return Err(LifeError::from(PlanError::BadSession(session.to_owned())).into());
        }
        if Registry::open(&Context::runtime_dir()?)?.find(session)?.is_some() {
            return Err(Failure::promise(format!(
                "a session {session} is running: stop it with `sandboxc stop {session}`, or use another `--session`"
            )));
        }
        session.to_owned()
    } else {
        let session = host::random_session()?;
        words.push(format!("--session={session}").into());
        session
    };
    match keeper::start(&session, &words)? {
        Start::Ready => {
            print(&format!("{session}\n"))?;
            Ok(0)
        }
        // The keeper has said why.
        Start::Failed(code) => Ok(code),
    }
}

/// Keeps the session until it is stopped, idle for too long, or too old.
fn keep(args: &StartArgs) -> Result<u8, Failure> {
    keeper::leave_terminal();
    within(context(&args.flags)?, &args.flags, |context, conversation| {
        let (resolved, values) = context.resolve_with_secrets(args.flags.config())?;
        live(&Asked {
            context,
            flags: &args.flags,
            purpose: Purpose::Visits(Stay { idle: args.idle, most: args.max_age }),
            config: (&resolved, &values),
            conversation,
            ready: &|session| keeper::let_go(put(&format!("{session}\n")).is_ok()),
            network_log: args.flags.network_log(),
        })
    })
}
