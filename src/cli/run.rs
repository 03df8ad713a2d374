//! `sandboxc run` and `sandboxc agent`.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use super::context::{Context, say};
use super::conversation::{Opened, Starting, within};
use super::image::provide::{Known, provide};
use super::waiting::Waiting;
use super::{ConfigArgs, Failure, PlanArgs, duration, image, init};
use crate::config::{Resolved, SHARED_HOME, SecretValues};
use crate::runtime::image::{ImageOrigin, MissingImage, pull};
use crate::runtime::life::{self, LifeError, Order, Progress, Purpose};
use crate::runtime::output::{Inside, WholeFile};
use crate::runtime::podman::Podman;
use crate::runtime::report::Report;
use crate::runtime::{RuntimeError, host};
use crate::source::Place;

/// The flags of `run` and `agent`.
#[derive(Debug, Args)]
pub(super) struct RunFlags {
    #[command(flatten)]
    plan: PlanArgs,
    /// Use this image instead of the configured one
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// Stop the command after this time, e.g. 90s, 5m, 1h; a smaller configured timeout applies instead
    #[arg(long, value_name = "D", value_parser = duration::parse)]
    timeout: Option<Duration>,
    /// Give the command a terminal even if stdin or stdout is not one
    #[arg(long)]
    tty: bool,
    /// Append one JSON line per network decision to this file
    #[arg(long, value_name = "FILE")]
    network_log: Option<PathBuf>,
    /// Write one JSON document about the run to this file
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    #[command(flatten)]
    conversation: Starting,
    /// Keep containers, networks and files afterwards, for debugging
    #[arg(long)]
    keep: bool,
    /// Print neither the progress of the start, nor the number of warnings, nor the refusals at the end
    #[arg(short, long)]
    quiet: bool,
}

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    flags: RunFlags,
    /// Command to run
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct AgentArgs {
    #[command(flatten)]
    flags: RunFlags,
    /// Arguments to append to the configured command; after `--`, those that look like flags of this command, too
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    args: Vec<String>,
}

impl RunArgs {
    pub(super) fn is_quiet(&self) -> bool {
        self.flags.quiet
    }
}

impl AgentArgs {
    pub(super) fn is_quiet(&self) -> bool {
        self.flags.quiet
    }
}

impl RunFlags {
    /// The session id that was chosen.
    pub(super) fn session(&self) -> Option<&str> {
        self.plan.session.as_deref()
    }

    /// Which conversation it is part of, if any.
    pub(super) fn conversation(&self) -> &Starting {
        &self.conversation
    }

    /// Selects the config.
    pub(super) fn config(&self) -> &ConfigArgs {
        &self.plan.config
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.quiet
    }

    pub(super) fn network_log(&self) -> Option<&Path> {
        self.network_log.as_deref()
    }

    /// Flags that only make sense for a session with a command of its own.
    pub(super) fn of_a_command(&self) -> Option<&'static str> {
        let tty = self.tty.then_some("--tty: use it with `exec`, for each command");
        tty.or(self.timeout.and(Some("--timeout: use `--max-age` for the session, or `exec --timeout` for a command")))
    }
}

/// A run with its config.
pub(super) struct Asked<'a> {
    pub(super) context: &'a Context,
    pub(super) flags: &'a RunFlags,
    pub(super) purpose: Purpose<'a>,
    pub(super) config: (&'a Resolved, &'a SecretValues),
    /// The conversation that it is part of.
    pub(super) conversation: Option<&'a Opened>,
    /// What else happens when the session is ready.
    pub(super) ready: &'a dyn Fn(&str),
    pub(super) network_log: Option<&'a Path>,
}

pub(super) fn run(args: &RunArgs) -> Result<u8, Failure> {
    within(context(&args.flags)?, &args.flags, |context, conversation| {
        let (resolved, values) = context.resolve_with_secrets(&args.flags.plan.config)?;
        live(&Asked {
            context,
            flags: &args.flags,
            purpose: Purpose::Command(&args.command),
            config: (&resolved, &values),
            conversation,
            ready: &|_| (),
            network_log: args.flags.network_log(),
        })
    })
}

pub(super) fn agent(args: AgentArgs) -> Result<u8, Failure> {
    let AgentArgs { flags, args } = args;
    within(context(&flags)?, &flags, |context, conversation| agent_in(context, conversation, &flags, args))
}

fn agent_in(
    context: &Context,
    conversation: Option<&Opened>,
    flags: &RunFlags,
    args: Vec<String>,
) -> Result<u8, Failure> {
    if conversation.is_none() {
        offer_config(context, &flags.plan.config)?;
    }
    let (mut resolved, values) = context.resolve_with_secrets(&flags.plan.config)?;
    keep_shared_home(&mut resolved)?;
    let mut command: Vec<String> = resolved.command.iter().map(|word| word.value.clone()).collect();
    if command.is_empty() {
        return Err(Failure::usage(
            "no agent command: set `command:` in .sandboxc/sandbox.yaml, e.g. `command: [claude]`",
        ));
    }
    command.extend(args);
    live(&Asked {
        context,
        flags,
        purpose: Purpose::Command(&command),
        config: (&resolved, &values),
        conversation,
        ready: &|_| (),
        network_log: flags.network_log(),
    })
}

/// Runs a command with this config, and writes its decisions to this file.
pub(super) fn live_with_log(
    context: &Context,
    flags: &RunFlags,
    command: &[String],
    config: (&Resolved, &SecretValues),
    log: &Path,
) -> Result<u8, Failure> {
    live(&Asked {
        context,
        flags,
        purpose: Purpose::Command(command),
        config,
        conversation: None,
        ready: &|_| (),
        network_log: Some(log),
    })
}

/// Where there is no repo file and the server file names no command, offers to write one on a terminal. Anything else
/// says how to.
fn offer_config(context: &Context, config: &ConfigArgs) -> Result<(), Failure> {
    let (found, loaded) = context.find_and_load(config, false)?;
    let has_command = loaded.resolved.as_ref().is_some_and(|resolved| !resolved.command.is_empty());
    if loaded.in_force.repo.is_some() || has_command || loaded.diagnostics.has_errors() {
        return Ok(());
    }
    let (all, used) = init::agents(context.home().as_deref());
    let preset = match used.as_slice() {
        [one] => one,
        _ => "NAME",
    };
    let dir = found.dir.display();
    let missing = format!(
        "there is no config in {dir} that says which agent to run: write one with `sandboxc init --preset {preset}`"
    );
    let names = all.join(", ");
    if config.config_from.is_some() || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure::usage(format!("{missing}; the agents are {names}")));
    }
    let chosen = if preset == "NAME" {
        super::context::answer(&format!("sandboxc: {missing}\nsandboxc: run this now? Which agent: {names}? [none] "))?
    } else {
        let yes = super::context::confirmed(&format!("sandboxc: {missing}\nsandboxc: run this now? [Y/n] "))?;
        if yes { preset.to_owned() } else { String::new() }
    };
    if chosen.is_empty() {
        return Err(Failure::usage("no agent was chosen; nothing was written"));
    }
    init::init_with(&chosen, &found.dir).map(drop)
}

/// The environment, with the image that the flags choose. Refuses files that would mix with the command's output.
pub(super) fn context(flags: &RunFlags) -> Result<Context, Failure> {
    for (flag, path) in [("--network-log", &flags.network_log), ("--report", &flags.report)] {
        if path.as_deref() == Some(Path::new("-")) {
            return Err(Failure::usage(format!(
                "{flag} -: stdout belongs to the command; write to a file, to /dev/stderr, or to another descriptor, e.g. \
                 `{flag} /dev/fd/3 3>FILE`"
            )));
        }
    }
    let context = Context::new();
    Ok(match &flags.image {
        Some(image) => context.with("SANDBOXC_IMAGE", image),
        None => context,
    })
}

/// Keeps using the home volume that earlier versions shared between all repos, since it holds the agent's login, until the
/// server file chooses.
fn keep_shared_home(resolved: &mut Resolved) -> Result<(), Failure> {
    let said = resolved.fresh_home || resolved.home_volume.from != Place::built_in();
    if said || !Podman::apart()?.has_volume(SHARED_HOME)? {
        return Ok(());
    }
    say(&format!(
        "sandboxc: warning: the home directory is the volume {SHARED_HOME}, which other repos share: what one agent leaves there, \
         the next one may run; set `home: private` or `home: shared` in the server file"
    ));
    SHARED_HOME.clone_into(&mut resolved.home_volume.value);
    Ok(())
}

pub(super) fn live(asked: &Asked<'_>) -> Result<u8, Failure> {
    host::check()?;
    let (flags, resolved) = (asked.flags, asked.config.0);
    // Refused before anything runs, since the report could not be written at the end.
    let place = flags.report.as_deref().map(|path| WholeFile::open(path, &Inside::of(resolved))).transpose()?;
    asked.conversation.inspect(|conversation| conversation.announce());
    let mut report = Report::begin();
    let result = with_image(asked, &mut report);
    if let Some(conversation) = asked.conversation {
        conversation.planned(report.plan.clone());
    }
    if let Some(place) = place {
        report.end(result.as_ref().copied().map_err(|failure| (failure.code, failure.message.clone())));
        place.write(&report.text()?)?;
    }
    result
}

/// Builds the image first, if that is needed and decided.
fn with_image(asked: &Asked<'_>, report: &mut Report) -> Result<u8, Failure> {
    let tell = |line: &str| say(line);
    let tell = (io::stderr().is_terminal() && !asked.flags.quiet).then_some(&tell as &dyn Fn(&str));
    provide(asked.config.0, Known::Nothing, tell)?;
    match live_once(asked, report) {
        // Somebody has removed it since its last use, or nobody has said how to build it.
        Err(LifeError::Runtime(RuntimeError::MissingImages(missing)))
            if offer(asked, &missing)? || is_provided(asked, &missing, tell)? =>
        {
            *report = Report::begin();
            Ok(live_once(asked, report)?)
        }
        lived => Ok(lived?),
    }
}

/// Builds the image if nothing else is missing.
fn is_provided(asked: &Asked<'_>, missing: &[MissingImage], tell: Option<&dyn Fn(&str)>) -> Result<bool, Failure> {
    let own = asked.config.0.image.value.reference();
    Ok(missing.iter().all(|one| one.image == own) && provide(asked.config.0, Known::Missing, tell)?)
}

fn live_once(asked: &Asked<'_>, report: &mut Report) -> Result<u8, LifeError> {
    let flags = asked.flags;
    let waiting = Waiting::new(io::stderr().is_terminal() && !flags.quiet);
    let runtime_dir = host::required_runtime_dir()?;
    let order = Order {
        config: asked.config,
        session: flags.plan.session.as_deref(),
        purpose: asked.purpose,
        version: flags.plan.podman,
        strict: flags.plan.strict,
        timeout: flags.timeout,
        tty: flags.tty || (io::stdin().is_terminal() && io::stdout().is_terminal()),
        term: asked.context.var("TERM"),
        network_log: asked.network_log,
        runtime_dir: &runtime_dir,
        keep: flags.keep,
        quiet: flags.quiet,
        wants_report: flags.report.is_some(),
        signals: asked.conversation.map(Opened::signals),
        progress: &|progress| {
            waiting.show(progress);
            if let Progress::Ready(session) = progress {
                (asked.ready)(session);
            }
        },
    };
    life::live(&order, &|line| waiting.say(line), report)
}

/// On a terminal, offers to get the missing images. Returns whether all are there now.
fn offer(asked: &Asked<'_>, missing: &[MissingImage]) -> Result<bool, Failure> {
    let decided = asked.config.0.image.value.recipe().is_some_and(|recipe| recipe.network.is_some());
    let gets =
        missing.iter().all(|one| one.origin != ImageOrigin::Save && !(decided && one.origin == ImageOrigin::Build));
    if !gets || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(false);
    }
    let what = crate::runtime::image::missing(missing);
    if !super::context::confirmed(&format!("sandboxc: {what}\nsandboxc: run this now? [Y/n] "))? {
        return Ok(false);
    }
    let podman = Podman::apart()?;
    for one in missing {
        match one.origin {
            ImageOrigin::Build => image::build_agent_of(&podman, asked.config.0, None)?,
            ImageOrigin::Pull | ImageOrigin::Save => pull(&podman, &one.image)?,
        }
    }
    Ok(true)
}
