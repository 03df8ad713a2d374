//! The command line: one file per command.
//!
//! May depend on every lower layer. Only this module prints, and only this module and `runtime` read the environment.

mod allow;
mod codes;
mod compile;
mod context;
mod conversation;
mod diff;
mod doctor;
mod documents;
mod duration;
mod exec;
mod explain;
mod find;
mod gc;
mod image;
mod import;
mod init;
mod install;
mod learn;
mod log;
mod logs;
mod ps;
mod remotes;
mod run;
mod schema;
mod secrets;
mod shell_files;
mod start;
mod status;
mod stop;
mod suggest;
mod test;
mod validate;
mod waiting;
mod watch;
mod words;

use std::path::PathBuf;

use clap::{Args, FromArgMatches as _, Parser, Subcommand, ValueEnum};
use clap_complete::engine::ArgValueCandidates;

use crate::emit::PodmanVersion;
use crate::runtime::exit;

/// Compiles sandboxes into podman manifests that you can review, and runs them
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
struct Cli {
    /// Print every warning about the config instead of their number
    #[arg(short, long, global = true)]
    verbose: bool,
    /// When to color messages
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    color: context::ColorWhen,
    #[command(subcommand)]
    command: Command,
}

impl Cli {
    fn options(&self) -> context::Output {
        let quiet = match &self.command {
            Command::Run(args) => args.is_quiet(),
            Command::Agent(args) => args.is_quiet(),
            Command::Start(args) => args.is_quiet(),
            _ => false,
        };
        let verbosity = match (self.verbose, quiet) {
            (true, _) => context::Verbosity::Verbose,
            (false, true) => context::Verbosity::Quiet,
            (false, false) => context::Verbosity::Normal,
        };
        context::Output { color: self.color, verbosity }
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write what `run` would apply: a kube play stream, a script, or a directory of files
    Compile(compile::CompileArgs),
    /// Write the podman secrets that a compiled manifest refers to, for `podman kube play -`
    Secrets(secrets::SecretsArgs),
    /// Run a command in a sandbox, with its own streams and exit code
    Run(run::RunArgs),
    /// Run the configured command on a terminal, with ARGS appended
    Agent(run::AgentArgs),
    /// Run a command that may reach every public host, if the server file permits it, and show what it needed
    Learn(learn::LearnArgs),
    /// Start a sandbox that stays for many commands of `exec`, and print its session id
    Start(start::StartArgs),
    /// Run a command in a running sandbox, beside its own, with its own streams and exit code
    Exec(exec::ExecArgs),
    /// Open a shell in a running sandbox: `exec --tty SESSION -- sh`
    Shell(exec::ShellArgs),
    /// Manage the conversations of repos by URL
    #[command(subcommand)]
    Conversation(conversation::ConversationCommand),
    /// Write a config for this repo, with a comment on every entry
    Init(init::InitArgs),
    /// Show what `init` can copy
    #[command(subcommand)]
    Preset(init::PresetCommand),
    /// Turn the config of another sandbox into a repo file, with a comment for everything that it cannot say
    Import(import::ImportArgs),
    /// Check the repo and server config and print every error with its position
    Validate(validate::ValidateArgs),
    /// Show whether a URL or HOST:PORT is allowed, by which rule, and where that rule is
    Explain(explain::ExplainArgs),
    /// Show what a change of the config permits, withdraws and changes
    Diff(diff::DiffArgs),
    /// Check expected decisions, such as those in .sandboxc/tests.yaml
    Test(test::TestArgs),
    /// Show the entries that would allow what network logs say was denied
    Suggest(suggest::SuggestArgs),
    /// Decide recorded requests under the config as it is now, and show what changes
    Replay(log::ReplayArgs),
    /// Evaluate network logs
    #[command(subcommand)]
    Log(log::LogCommand),
    /// Print the JSON Schema of a config file
    Schema(schema::SchemaArgs),
    /// Install a sandbox as Quadlet units of the user's systemd, and print the unit to start
    Install(install::InstallArgs),
    /// Stop an installed sandbox and remove its units
    Uninstall(install::UninstallArgs),
    /// Show installed sandboxes: state, next and last run, and what changed in their config since
    Status(status::StatusArgs),
    /// Manage the images of sandboxes
    #[command(subcommand)]
    Image(image::ImageCommand),
    /// Check whether this host can keep every promise, and show how to fix what fails
    Doctor(doctor::DoctorArgs),
    /// List the running sessions
    Ps(ps::PsArgs),
    /// Stop a session
    Stop(stop::StopArgs),
    /// Print the output of a session's router and forwarder
    Logs(logs::LogsArgs),
    /// Print the completions of a shell
    Completions(shell_files::CompletionsArgs),
    /// Write the manual pages
    Man(shell_files::ManArgs),
    /// Show the decisions of a session as they come; on a terminal, keys allow what was denied
    Watch(watch::WatchArgs),
    /// Allow an entry for a running session, until it ends
    Allow(allow::AllowArgs),
    /// Remove what dead sessions left behind
    Gc(gc::GcArgs),
}

/// Selects the config; shared by all commands that read it.
#[derive(Clone, Debug, Args)]
struct ConfigArgs {
    /// Directory of the repo, which holds .sandboxc/sandbox.yaml [default: the nearest one from the current directory up to
    /// git's root, or the current directory]
    #[arg(long, value_name = "DIR")]
    repo: Option<PathBuf>,
    /// Read .sandboxc/ from this commit (a ref, or a full id) instead of the working tree
    #[arg(long, value_name = "REF")]
    config_from: Option<String>,
    /// Server file [default: `$XDG_CONFIG_HOME/sandboxc/server.yaml`]
    #[arg(long, value_name = "FILE")]
    server: Option<PathBuf>,
    /// Entry of `repos` in the server file [default: the one whose path is the repo]
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(shell_files::repos))]
    name: Option<String>,
}

/// Arguments of the plan; shared by `compile`, `run` and `agent`.
#[derive(Clone, Debug, Args)]
struct PlanArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Session id, which becomes part of every name
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Target version of podman [default: 5.4 for compile, the installed version for run]
    #[arg(long, value_name = "X.Y")]
    podman: Option<PodmanVersion>,
    /// Fail if the manifest alone cannot enforce a limit or a mount
    #[arg(long)]
    strict: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Target {
    /// One `podman kube play` stream
    Kube,
    /// systemd Quadlet units
    Quadlet,
    /// A shell script that only needs podman
    Script,
}

pub use documents::schemas;

/// Returns the definition of the command line, for the reference, completions and manual pages.
pub fn command() -> clap::Command {
    codes::documented(<Cli as clap::CommandFactory>::command())
}

/// Parses the arguments, runs the command and returns the exit code.
pub fn main() -> u8 {
    shell_files::complete();
    if let Some(code) = conversation::askpass() {
        return code;
    }
    let parsed = command().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches));
    match parsed {
        Ok(cli) => {
            context::set_output(cli.options());
            dispatch(cli.command)
        }
        Err(error) => {
            // A closed pipe is not an error.
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
        Command::Start(args) => start::start(&args),
        Command::Agent(args) => run::agent(args),
        Command::Learn(args) => learn::learn(&args),
        Command::Exec(args) => exec::exec(&args),
        Command::Shell(args) => exec::shell(args),
        Command::Conversation(command) => conversation::conversation(&command),
        Command::Init(args) => init::init(&args),
        Command::Preset(command) => init::preset(&command),
        Command::Import(args) => import::import(&args),
        Command::Validate(args) => validate::validate(&args),
        Command::Explain(args) => explain::explain(&args),
        Command::Diff(args) => diff::diff(&args),
        Command::Test(args) => test::test(&args),
        Command::Suggest(args) => suggest::suggest(&args),
        Command::Replay(args) => log::replay(&args),
        Command::Log(command) => log::log(&command),
        Command::Schema(args) => schema::schema(&args),
        Command::Install(args) => install::install(&args),
        Command::Uninstall(args) => install::uninstall(&args),
        Command::Status(args) => status::status(&args),
        Command::Image(command) => image::image(&command),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Ps(args) => ps::ps(&args),
        Command::Stop(args) => stop::stop(&args),
        Command::Logs(args) => logs::logs(&args),
        Command::Completions(args) => shell_files::completions(&args),
        Command::Man(args) => shell_files::man(&args),
        Command::Watch(args) => watch::watch(&args),
        Command::Allow(args) => allow::allow(&args),
        Command::Gc(args) => gc::gc(&args),
    };
    result.unwrap_or_else(|failure| {
        context::say(&format!("sandboxc: {}", failure.message));
        failure.code
    })
}

/// An error message and the exit code.
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

/// The failure of a command that was given a session that does not exist.
fn no_session(session: &str) -> Failure {
    Failure::usage(format!("no session `{session}`; `sandboxc ps` lists the running sessions"))
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

impl From<crate::policy::QuestionError> for Failure {
    fn from(error: crate::policy::QuestionError) -> Self {
        Self::usage(error.to_string())
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
