//! `sandboxc completions` and `sandboxc man`, for packages.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;
use clap_complete::engine::CompletionCandidate;
use clap_complete::env::Shells;
use clap_complete::{CompleteEnv, Shell};

use super::context::{Context, print};
use super::{Failure, command};
use crate::config::Preset;
use crate::emit::File;
use crate::runtime::output::{self, Inside};
use crate::runtime::registry::Registry;
use crate::runtime::systemd::UserManager;

#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

#[derive(Debug, Args)]
pub(super) struct ManArgs {
    /// Write one page per command into this directory
    dir: PathBuf,
}

pub(super) fn completions(args: &CompletionsArgs) -> Result<u8, Failure> {
    let mut bytes = Vec::new();
    let shells = Shells::builtins();
    let failed = || Failure::promise(format!("internal: no completions for {}", args.shell));
    let shell = shells.completer(&args.shell.to_string()).ok_or_else(failed)?;
    shell.write_registration(VARIABLE, "sandboxc", "sandboxc", "sandboxc", &mut bytes).map_err(|_| failed())?;
    print(&String::from_utf8_lossy(&bytes))?;
    Ok(0)
}

/// The variable by which a shell asks for completions; its value is the shell's name.
const VARIABLE: &str = "SANDBOXC_COMPLETE";

/// Answers a shell that asks for completions, and ends the process then.
pub(super) fn complete() {
    CompleteEnv::with_factory(command).var(VARIABLE).bin("sandboxc").complete();
}

/// The sessions of runners, and installed sandboxes.
pub(super) fn sessions() -> Vec<CompletionCandidate> {
    let running = Context::runtime_dir().ok().and_then(|dir| Registry::open(&dir).ok()?.held().ok());
    let installed = Context::new().config_home().ok().and_then(|home| UserManager::new(&home).sessions().ok());
    let running = running.into_iter().flatten().map(|record| record.session);
    let all: BTreeSet<String> = running.chain(installed.into_iter().flatten()).collect();
    all.into_iter().map(CompletionCandidate::new).collect()
}

/// The entries of the default server file.
pub(super) fn repos() -> Vec<CompletionCandidate> {
    let names = Context::new().entry_names().unwrap_or_default();
    names.into_iter().map(CompletionCandidate::new).collect()
}

/// The presets.
pub(super) fn presets() -> Vec<CompletionCandidate> {
    let candidate = |preset: Preset| CompletionCandidate::new(preset.name).help(Some(preset.description.into()));
    Preset::all().into_iter().map(candidate).collect()
}

pub(super) fn man(args: &ManArgs) -> Result<u8, Failure> {
    let mut pages = Vec::new();
    add_pages(command(), "sandboxc", &mut pages)?;
    output::tree(&args.dir, &pages, &Inside::default())?;
    Ok(0)
}

/// The page of a command and those of its own commands: `sandboxc-image-build.1`.
fn add_pages(command: clap::Command, name: &str, pages: &mut Vec<File>) -> Result<(), Failure> {
    let commands: Vec<clap::Command> = command.get_subcommands().filter(|c| !c.is_hide_set()).cloned().collect();
    let mut bytes = Vec::new();
    let page = clap_mangen::Man::new(command.name(name.to_owned()).disable_help_subcommand(true));
    page.render(&mut bytes).map_err(|error| Failure::promise(format!("writing a manual page: {error}")))?;
    pages.push(File::new(format!("{name}.1"), String::from_utf8_lossy(&bytes).into_owned()));
    for command in commands {
        let name = format!("{name}-{}", command.get_name());
        add_pages(command, &name, pages)?;
    }
    Ok(())
}
