//! `sandboxc secrets`.

use std::io::{self, IsTerminal as _};

use clap::Args;

use super::compile::{DEFAULT_SESSION, words};
use super::context::{Context, print, say};
use super::{Failure, PlanArgs};
use crate::plan::{Command, Materials, Request, leaves, plan};
use crate::runtime::materials;

#[derive(Debug, Args)]
pub(super) struct SecretsArgs {
    #[command(flatten)]
    plan: PlanArgs,
    /// The command that was given to `compile`
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

pub(super) fn secrets(args: &SecretsArgs) -> Result<u8, Failure> {
    if io::stdout().is_terminal() {
        return Err(Failure::usage("this writes keys and values: `sandboxc secrets … | podman kube play -`"));
    }
    let (resolved, values) = Context::new().resolve_with_secrets(&args.plan.config)?;
    let session = args.plan.session.as_deref().unwrap_or(DEFAULT_SESSION);
    let command = Command::Run(words(&args.command, &resolved)?);
    let plan = plan(Request { resolved: &resolved, session, command: &command, attempt: 0, session_dir: None })?;
    let prefix = [&plan.materials, &plan.secrets].into_iter().flatten().find_map(|materials| match materials {
        Materials::Secret(prefix) => Some(prefix),
        Materials::Directory(_) => None,
    });
    let Some(prefix) = prefix else {
        say("sandboxc: this sandbox needs no secrets");
        return Ok(0);
    };
    let made = materials::make(materials::Request {
        session,
        leaves: &leaves(&plan.policy),
        extra_ca: resolved.extra_ca.as_ref().map(|extra| extra.value.as_str()),
        credentials: &plan.policy.credentials,
        values: &values,
    })?;
    print(&materials::secrets(&plan, prefix, &made, &values)?)?;
    Ok(0)
}
