//! Tests `config` from outside: files in a temporary directory, [`load`], findings as text.

#![allow(clippy::unwrap_used, clippy::panic, clippy::format_collect, clippy::format_push_string)]

mod chosen;
mod compiles;
mod disk;
mod explain;
pub mod fixtures;
mod git;
mod git_identity;
mod import;
mod init;
mod logs;
mod mistakes;
mod noise;
mod places;
mod ports;
mod property;
mod protect;
mod remotes;
mod replays;
mod review;
mod schedule;
mod schema;
mod secrets;
mod server;
mod shell_files;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use sandboxc::config::Resolved;
use sandboxc::diagnostic::Code;

pub use crate::machine::{World, text};

/// Runs sandboxc in the workspace, without anything of this machine's environment. Returns exit code, stdout and stderr.
fn run(world: &World, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = assert_cmd::Command::cargo_bin("sandboxc").unwrap();
    command.env_clear().env("HOME", world.root().join("h")).env("XDG_CONFIG_HOME", world.root().join("c"));
    let output = command.current_dir(world.root().join("w")).args(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Only a repo file, on a machine without a server file.
pub fn repo(text: &str) -> World {
    let world = World::new();
    world.repo(text);
    world
}
