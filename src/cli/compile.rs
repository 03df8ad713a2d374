//! `sandboxc compile`.

use std::path::{Path, PathBuf};

use clap::Args;

use super::context::{Context, print, say, tell_limits, tell_mounts};
use super::conversation::{remote_only, units};
use super::documents::{Compiled, VERSION, print_json};
use super::install::session_of;
use super::{ConfigArgs, Failure, PlanArgs, Target};
use crate::config::{Remote, Resolved};
use crate::emit::quadlet::{Units, stable_name};
use crate::emit::{File, PodmanVersion, tree};
use crate::plan::{Command, Keeper, Plan, PlanRequest, plan};
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
    /// Print one JSON document about the directory; needs `-o`
    #[arg(long, requires = "output")]
    json: bool,
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
    let config = config(&context, args)?;
    if let Some(remote) = remote_only(&context, &config)? {
        return conversations(&context, args, &config, &remote);
    }
    let resolved = context.resolve_for_plan(&config, false)?;
    let words = words(&args.command, &resolved)?;
    if let Some(word) = words.iter().find(|word| !quadlet && !crate::config::survives_podman(word)) {
        return Err(Failure::promise(format!(
            "podman's YAML parser would strip white space from the start of the argument {word:?}; put the text into a file"
        )));
    }
    let session = session(args)?;
    let server = context.server_file(&config)?;
    let keeper = if quadlet { Keeper::Service(server.as_deref()) } else { Keeper::Applier };
    let plan = plan(PlanRequest {
        resolved: &resolved,
        session: &session,
        command: &Command::Run(words),
        attempt: 0,
        keeper,
    })?;
    let podman = args.plan.podman.unwrap_or(PodmanVersion::FLOOR);
    if let (true, Some(dir)) = (quadlet, &args.output) {
        let files = tree::quadlet(&plan, podman)?;
        output::only_trees(dir, &Inside::of(&resolved))?;
        let below = |file: &File| {
            Some(File { path: file.path.strip_prefix(&session)?.strip_prefix('/')?.to_owned(), ..file.clone() })
        };
        let place = dir.join(&session);
        output::fresh(&place, &files.iter().filter_map(below).collect::<Vec<_>>(), &Inside::of(&resolved))?;
        let unit = Units::new(&plan).agent();
        told(args, (dir, &files), &plan, Some(&unit))?;
        say(&format!("sandboxc: install them with `sandboxc install {}`; then start the unit {unit}", place.display()));
        return Ok(0);
    }
    tell_limits(&plan, podman, args.plan.strict)?;
    if args.target == Target::Kube {
        tell_mounts(&plan, args.plan.strict)?;
    }
    let compiled = tree::compile(&plan, podman)?;
    if let Some(dir) = &args.output {
        let files = tree::tree(&plan, podman, &compiled)?;
        output::fresh(dir, &files, &Inside::of(&resolved))?;
        told(args, (dir, &files), &plan, None)?;
        return Ok(0);
    }
    match args.target {
        Target::Script => print(&tree::script(&plan, podman)?.text)?,
        _ => print(&compiled.stream.text())?,
    }
    Ok(0)
}

/// Writes the units for a repo by URL.
fn conversations(context: &Context, args: &CompileArgs, config: &ConfigArgs, remote: &Remote) -> Result<u8, Failure> {
    let Some(dir) = args.output.as_ref().filter(|_| args.target == Target::Quadlet) else {
        return Err(Failure::usage(format!(
            "{} is a repo by URL, whose config is read at each start: only `--target quadlet -o DIR` can be compiled",
            remote.name
        )));
    };
    let session = session(args)?;
    let files = units(context, config, (remote, &session), &args.command)?;
    let below = |file: &File| File { path: file.name().to_owned(), ..file.clone() };
    let place = dir.join(&session);
    output::only_trees(dir, &Inside::default())?;
    output::fresh(&place, &files.iter().map(below).collect::<Vec<_>>(), &Inside::default())?;
    say(&format!("sandboxc: wrote {} files to {}", files.len(), dir.display()));
    let unit = stable_name(&session, "service");
    say(&format!("sandboxc: install them with `sandboxc install {}`; then start the unit {unit}", place.display()));
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

/// Units of an entry are about its `path`, whatever the current directory is, as for `install`.
fn config(context: &Context, args: &CompileArgs) -> Result<ConfigArgs, Failure> {
    let mut config = args.plan.config.clone();
    if args.target == Target::Quadlet && config.repo.is_none() && config.name.is_some() {
        config.repo = context.entry_path(&config)?;
    }
    Ok(config)
}

/// The session id: of units, the entry's name, as for `install`.
fn session(args: &CompileArgs) -> Result<String, Failure> {
    let named = args.plan.config.name.as_deref().filter(|_| args.target == Target::Quadlet);
    match (&args.plan.session, named) {
        (Some(session), _) => Ok(session.clone()),
        (None, Some(name)) => session_of(name),
        (None, None) => Ok(DEFAULT_SESSION.to_owned()),
    }
}

/// Says what was written.
fn told(args: &CompileArgs, (dir, files): (&Path, &[File]), plan: &Plan, unit: Option<&str>) -> Result<(), Failure> {
    say(&format!("sandboxc: wrote {} files to {}", files.len(), dir.display()));
    if !args.json {
        return Ok(());
    }
    print_json(&Compiled {
        version: VERSION,
        session: plan.session.clone(),
        plan: plan.names.hash.clone(),
        directory: dir.to_owned(),
        files: files.iter().map(|file| file.path.clone()).collect(),
        unit: unit.map(str::to_owned),
    })
}
