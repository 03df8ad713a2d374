//! `sandboxc secrets`.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use clap::Args;

use super::compile::{DEFAULT_SESSION, words};
use super::context::{Context, print, say};
use super::{Failure, PlanArgs};
use crate::plan::{Command, Keeper, MaterialStore, PlanRequest, ca_scopes, config_hash, config_keys, inspects, plan};
use crate::runtime::materials;
use crate::runtime::systemd::UserManager;

#[derive(Debug, Args)]
pub(super) struct SecretsArgs {
    #[command(flatten)]
    plan: PlanArgs,
    /// For units: write keys and values into this directory in memory, which the service created
    #[arg(long, value_name = "DIR", requires = "unchanged", conflicts_with = "command")]
    hold: Option<PathBuf>,
    /// Fail if the config does not have this hash
    #[arg(long, value_name = "HASH", requires = "hold")]
    unchanged: Option<String>,
    /// Command that was passed to `compile`
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

pub(super) fn secrets(args: &SecretsArgs) -> Result<u8, Failure> {
    let session = args.plan.session.as_deref().unwrap_or(DEFAULT_SESSION);
    if let (Some(dir), Some(hash)) = (&args.hold, &args.unchanged) {
        return hold(args, session, dir, hash);
    }
    if io::stdout().is_terminal() {
        return Err(Failure::usage(
            "the output contains keys and values, so it is not written to a terminal: pipe it, `sandboxc secrets … | podman kube play -`",
        ));
    }
    let (resolved, values) = Context::new().resolve_with_secrets(&args.plan.config)?;
    let command = Command::Run(words(&args.command, &resolved)?);
    let plan =
        plan(PlanRequest { resolved: &resolved, session, command: &command, attempt: 0, keeper: Keeper::Applier })?;
    let Some(needed) = &plan.materials else {
        say("sandboxc: this sandbox needs no secrets");
        return Ok(0);
    };
    let MaterialStore::Secrets(prefix) = &needed.store else {
        return Err(Failure::promise("internal: the plan is not for a manifest"));
    };
    let scopes = inspects(&resolved).then(|| ca_scopes(&plan.policy));
    let made = materials::make(materials::MaterialsRequest {
        scopes: scopes.as_ref(),
        extra_ca: resolved.extra_ca.as_ref().map(|extra| extra.value.as_str()),
        credentials: &plan.policy.credentials,
        values: &values,
    })?;
    print(&materials::secrets(session, needed, prefix, &made, &values)?)?;
    Ok(0)
}

/// What the service of compiled units runs at each start. The units were compiled from a reviewed config; a changed one
/// does not get its secrets.
fn hold(args: &SecretsArgs, session: &str, dir: &Path, hash: &str) -> Result<u8, Failure> {
    let context = Context::new();
    let config = &args.plan.config;
    let (resolved, sources) = context.resolved(config, false)?;
    if config_hash(&resolved, session) != hash {
        let installed = UserManager::new(&context.config_home()?).review(session).ok();
        let keys = installed.and_then(|installed| installed.changed_keys(&config_keys(&resolved))).unwrap_or_default();
        let named = if keys.is_empty() { String::new() } else { format!(" ({})", keys.join(", ")) };
        return Err(Failure::promise(format!(
            "the config has changed since these units were compiled{named}: compile or install them again"
        )));
    }
    let values = context.secrets(config, &resolved, &sources)?;
    materials::hold(&resolved, &values, dir)?;
    Ok(0)
}
