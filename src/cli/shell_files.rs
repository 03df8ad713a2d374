//! `sandboxc completions` and `sandboxc man`, for packages.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

use super::context::print;
use super::{Failure, command};
use crate::emit::File;
use crate::runtime::output::{self, Inside};

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
    clap_complete::generate(args.shell, &mut command(), "sandboxc", &mut bytes);
    print(&String::from_utf8_lossy(&bytes))?;
    Ok(0)
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
