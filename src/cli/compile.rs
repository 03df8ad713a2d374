//! `sandboxc compile`.

use std::path::{Path, PathBuf};

use clap::Args;

use super::context::{Context, print, say, tell_limits, tell_mounts};
use super::{Failure, PlanArgs, Target};
use crate::config::Resolved;
use crate::emit::quadlet::Units;
use crate::emit::{File, PodmanVersion, tree};
use crate::plan::{Command, Keeper, PlanRequest, plan};
use crate::runtime::output::{self, Inside};

/// The session id of a manifest without `--session`: constant, so that the output is deterministic.
pub(super) const DEFAULT_SESSION: &str = "default";

#[derive(Debug, Args)]
pub(super) struct CompileArgs {
    #[command(flatten)]
    plan: PlanArgs,
    /// Format of the output
    #[arg(long, value_enum, default_value = "kube")]
    target: Target,
    /// Write a directory of files instead of one text on stdout
    #[arg(short = 'o', long = "output", value_name = "DIR")]
    output: Option<PathBuf>,
    /// Command to run instead of the configured one
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

pub(super) fn compile(args: &CompileArgs) -> Result<u8, Failure> {
    let quadlet = args.target == Target::Quadlet;
    if quadlet && args.output.is_none() {
        return Err(Failure::usage("the quadlet target writes several files: add `-o DIR`"));
    }
    let context = Context::new();
    let resolved = context.resolve_for_plan(&args.plan.config, false)?;
    let words = words(&args.command, &resolved)?;
    if let Some(word) = words.iter().find(|word| !quadlet && !crate::config::survives_podman(word)) {
        return Err(Failure::promise(format!(
            "podman's YAML parser would strip white space from the start of the argument {word:?}; put the text into a file"
        )));
    }
    let session = args.plan.session.as_deref().unwrap_or(DEFAULT_SESSION);
    let server = context.server_file(&args.plan.config)?;
    let keeper = if quadlet { Keeper::Service(server.as_deref()) } else { Keeper::Applier };
    let plan = plan(PlanRequest { resolved: &resolved, session, command: &Command::Run(words), attempt: 0, keeper })?;
    let podman = args.plan.podman.unwrap_or(PodmanVersion::FLOOR);
    if let (true, Some(dir)) = (quadlet, &args.output) {
        let code = write_tree(dir, &tree::quadlet(&plan, podman)?, &resolved)?;
        say(&format!(
            "sandboxc: install them with `sandboxc install {}`; then start the unit {}",
            dir.join(session).display(),
            Units::new(&plan).agent()
        ));
        return Ok(code);
    }
    tell_limits(&plan, podman, args.plan.strict)?;
    if args.target == Target::Kube {
        tell_mounts(&plan, args.plan.strict)?;
    }
    let compiled = tree::compile(&plan, podman)?;
    if let Some(dir) = &args.output {
        return write_tree(dir, &tree::tree(&plan, podman, &compiled)?, &resolved);
    }
    match args.target {
        Target::Script => print(&tree::script(&plan, podman)?.text)?,
        _ => print(&compiled.stream.text())?,
    }
    Ok(0)
}

/// Returns the given command, or else the configured one.
pub(super) fn words(given: &[String], resolved: &Resolved) -> Result<Vec<String>, Failure> {
    let words = match given.is_empty() {
        true => resolved.command.iter().map(|word| word.value.clone()).collect(),
        false => given.to_vec(),
    };
    if words.is_empty() {
        return Err(Failure::usage(
            "no command: add one after `--`, set `command:` in .sandboxc/sandbox.yaml, or write a config with `sandboxc init --preset NAME`",
        ));
    }
    Ok(words)
}

fn write_tree(dir: &Path, files: &[File], resolved: &Resolved) -> Result<u8, Failure> {
    output::tree(dir, files, &Inside::of(resolved))?;
    say(&format!("sandboxc: wrote {} files to {}", files.len(), dir.display()));
    Ok(0)
}
