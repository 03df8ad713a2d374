//! Arguments and words for people; one file a command.
//!
//! May depend on every lower floor; the only room besides `runtime` that sees the environment, and the only one that
//! prints.

mod compile;
mod context;
mod doctor;
mod duration;
mod explain;
mod gc;
mod image;
mod install;
mod logs;
mod ps;
mod run;
mod schema;
mod secrets;
mod stop;
mod validate;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::emit::Podman;
use crate::runtime::exit;

/// Compiles sandboxes into podman manifests that can be read first, and runs them.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write everything that would run: a kube play stream, a script, or a tree with every file
    Compile(compile::CompileArgs),
    /// Write the podman secrets that a compiled manifest names, for `podman kube play -`
    Secrets(secrets::SecretsArgs),
    /// Run a command in a sandbox, with its own streams and exit code
    Run(run::RunArgs),
    /// Run the configured agent command with ARGS appended, on a terminal
    Agent(run::AgentArgs),
    /// Print every error in the repo and server config, with positions
    Validate(validate::ValidateArgs),
    /// Say whether a URL or HOST:PORT is allowed, by which rule, and where that rule stands
    Explain(explain::ExplainArgs),
    /// Print the JSON Schema of a config file
    Schema(schema::SchemaArgs),
    /// Place a sandbox's Quadlet units for the user's systemd; prints the unit to start
    Install(install::InstallArgs),
    /// Stop an installed sandbox and remove its units
    Uninstall(install::UninstallArgs),
    /// The images a sandbox runs from
    #[command(subcommand)]
    Image(image::ImageCommand),
    /// Say whether this host can keep every promise, and what mends what it cannot
    Doctor(doctor::DoctorArgs),
    /// List the living sessions
    Ps(ps::PsArgs),
    /// End a session
    Stop(stop::StopArgs),
    /// Print what a session's router and forwarder said
    Logs(logs::LogsArgs),
    /// Remove what dead sessions have left
    Gc(gc::GcArgs),
}

/// Which config is in force; shared by all commands that read it.
#[derive(Clone, Debug, Args)]
struct ConfigArgs {
    /// Directory of the repo; its .sandboxc/sandbox.yaml is read [default: the current directory]
    #[arg(long, value_name = "DIR")]
    repo: Option<PathBuf>,
    /// Server config [default: `$XDG_CONFIG_HOME/sandboxc/server.yaml`]
    #[arg(long, value_name = "FILE")]
    server: Option<PathBuf>,
    /// Repo entry of the server config [default: the one whose path is the repo]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

/// What the plan is made for; shared by `compile`, `run` and `agent`.
#[derive(Clone, Debug, Args)]
struct PlanArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Id of the session, part of every name
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Version of podman to write for [default: 5.4 for compile, the installed one for run]
    #[arg(long, value_name = "X.Y")]
    podman: Option<Podman>,
    /// Make a limit that the manifest alone cannot keep an error
    #[arg(long)]
    strict: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Target {
    /// One `podman kube play` stream
    Kube,
    /// systemd Quadlet units
    Quadlet,
    /// A shell script that needs podman only
    Script,
}

/// The definition of the command line, for references, completions and manual pages.
pub fn command() -> clap::Command {
    <Cli as clap::CommandFactory>::command()
}

/// Parses the arguments and runs the command. The value is the exit code (DESIGN: 2 usage, 124, 125, the command's).
pub fn main() -> u8 {
    match Cli::try_parse() {
        Ok(cli) => dispatch(cli.command),
        Err(error) => {
            // Printing help to a closed pipe is no error.
            let _ = error.print();
            u8::try_from(error.exit_code()).unwrap_or(exit::USAGE)
        }
    }
}

fn dispatch(command: Command) -> u8 {
    let result = match command {
        Command::Compile(args) => compile::compile(&args),
        Command::Secrets(args) => secrets::secrets(&args),
        Command::Run(args) => run::run(&args),
        Command::Agent(args) => run::agent(args),
        Command::Validate(args) => validate::validate(&args),
        Command::Explain(args) => explain::explain(&args),
        Command::Schema(args) => schema::schema(&args),
        Command::Install(args) => install::install(&args),
        Command::Uninstall(args) => install::uninstall(&args),
        Command::Image(command) => image::image(&command),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Ps(args) => ps::ps(&args),
        Command::Stop(args) => stop::stop(&args),
        Command::Logs(args) => logs::logs(&args),
        Command::Gc(args) => gc::gc(&args),
    };
    result.unwrap_or_else(|failure| {
        context::say(&format!("sandboxc: {}", failure.message));
        failure.code
    })
}

/// One line why, and the exit code.
#[derive(Debug)]
struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: exit::USAGE }
    }

    fn promise(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: exit::PROMISE }
    }
}

impl From<crate::runtime::RuntimeError> for Failure {
    fn from(error: crate::runtime::RuntimeError) -> Self {
        match error {
            crate::runtime::RuntimeError::Interrupted(signal) => {
                Self { message: error.to_string(), code: exit::SIGNAL_BASE + u8::try_from(signal).unwrap_or(0) }
            }
            _ => Self::promise(error.to_string()),
        }
    }
}

impl From<crate::runtime::life::LifeError> for Failure {
    fn from(error: crate::runtime::life::LifeError) -> Self {
        use crate::runtime::life::LifeError;
        match error {
            LifeError::Runtime(error) => error.into(),
            LifeError::Plan(error) => error.into(),
            LifeError::Emit(error) => error.into(),
            LifeError::Limits => Self::promise(error.to_string()),
        }
    }
}

impl From<crate::emit::EmitError> for Failure {
    fn from(error: crate::emit::EmitError) -> Self {
        Self::promise(error.to_string())
    }
}

impl From<crate::plan::PlanError> for Failure {
    fn from(error: crate::plan::PlanError) -> Self {
        Self::usage(error.to_string())
    }
}
