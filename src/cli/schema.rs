//! `sandboxc schema`.

use clap::{Args, ValueEnum};

use super::Failure;
use super::context::print;

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Which {
    /// .sandboxc/sandbox.yaml
    Repo,
    /// server.yaml
    Server,
}

#[derive(Debug, Args)]
pub(super) struct SchemaArgs {
    which: Which,
}

pub(super) fn schema(args: &SchemaArgs) -> Result<u8, Failure> {
    print(&match args.which {
        Which::Repo => crate::config::schema::repo(),
        Which::Server => crate::config::schema::server(),
    })?;
    Ok(0)
}
