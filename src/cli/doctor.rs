//! `sandboxc doctor`.

use clap::Args;

use super::context::{Context, say, show, with_router};
use super::documents::{Doctor, DoctorCheck, VERSION, print_json};
use super::{ConfigArgs, Failure};
use crate::config::Resolved;
use crate::plan::{Command, Keeper, PlanRequest, plan};
use crate::policy::HostPattern;
use crate::runtime::doctor::{Check, Level, Subject, examine, session};
use crate::runtime::podman::Podman;
use crate::runtime::registry::Registry;

/// The name to resolve if the config allows no exact host.
const ANY_NAME: &str = "example.com";

#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn doctor(args: &DoctorArgs) -> Result<u8, Failure> {
    let context = Context::new();
    let podman = Podman::apart()?;
    let mut resolved = resolved(&context, &args.config, podman.empty_dir())?;
    // The host is checked even if the config switches the sandbox off.
    resolved.sandbox_enabled.value = true;
    let resolved = with_router(resolved)?;
    let session = session()?;
    let plan = plan(PlanRequest {
        resolved: &resolved,
        session: &session,
        command: &Command::Hold,
        attempt: 0,
        keeper: Keeper::Applier,
    })?;
    let runtime_dir = Context::runtime_dir().ok();
    let registry = runtime_dir.as_deref().map(Registry::open).transpose();
    let subject = Subject {
        podman: &podman,
        registry: registry.as_ref().ok().and_then(Option::as_ref),
        runtime_dir,
        name: name_to_resolve(&resolved),
        plan: &plan,
        git_files: context.git_files()?,
    };
    let checks = examine(&subject);
    let ok = checks.iter().all(|check| check.level != Level::Fail);
    if args.json {
        print_json(&document(ok, &checks))?;
    } else {
        show(&text(&checks))?;
    }
    Ok(u8::from(!ok))
}

/// The config in force here. Without one (in a home directory, for example) or with errors in it: the config of an empty repo.
fn resolved(context: &Context, args: &ConfigArgs, empty: &std::path::Path) -> Result<Resolved, Failure> {
    let here = context.load(args, false)?;
    if let Some(resolved) = here.resolved.filter(|_| !here.diagnostics.has_errors()) {
        return Ok(resolved);
    }
    say("sandboxc: ignoring the config in this directory (`sandboxc validate` shows why) and checking the host only");
    let bare = ConfigArgs { repo: Some(empty.to_owned()), ..args.clone() };
    context.resolve(&bare, false)
}

fn name_to_resolve(resolved: &Resolved) -> String {
    let exact = resolved.policy.allow.rules().iter().find_map(|rule| match &rule.pattern {
        HostPattern::Exact(name) => Some(name.to_string()),
        _ => None,
    });
    exact.unwrap_or_else(|| ANY_NAME.to_owned())
}

fn document(ok: bool, checks: &[Check]) -> Doctor<'_> {
    Doctor { version: VERSION, ok, checks: checks.iter().map(document_of).collect() }
}

fn document_of(check: &Check) -> DoctorCheck<'_> {
    let Check { check, promise, level, found, fix } = check;
    let level = match level {
        Level::Ok => "ok",
        Level::Warn => "warn",
        Level::Fail => "fail",
    };
    DoctorCheck { check, promise, level, found, fix: fix.as_deref() }
}

fn text(checks: &[Check]) -> String {
    let line = |check: &Check| {
        let mark = match check.level {
            Level::Ok => "ok  ",
            Level::Warn => "warn",
            Level::Fail => "FAIL",
        };
        let fix = check.fix.as_ref().map_or_else(String::new, |fix| format!("      fix: {fix}\n"));
        format!("{mark}  {}: {}\n{fix}", check.promise, check.found)
    };
    let failed = checks.iter().filter(|check| check.level == Level::Fail).count();
    let end = match failed {
        0 => "this host can keep every promise\n".to_owned(),
        1 => "this host cannot keep 1 promise\n".to_owned(),
        n => format!("this host cannot keep {n} promises\n"),
    };
    checks.iter().map(line).chain([end]).collect()
}
