//! `sandboxc image build`.

use clap::{Args, Subcommand, ValueEnum};

use super::context::{Context, say};
use super::{ConfigArgs, Failure};
use crate::config::ImageSource;
use crate::runtime::image::{Build, build};
use crate::runtime::podman::Podman;

const ROUTER: &str = include_str!("../../packaging/images/router/Containerfile");
const AGENT: &str = include_str!("../../packaging/images/agent/Containerfile");

#[derive(Debug, Subcommand)]
pub(super) enum ImageCommand {
    /// Build the images that the config uses: the router's and the agent's
    Build(BuildArgs),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Which {
    /// The router's image
    Router,
    /// The agent's image: the default one, or the repo's own Containerfile
    Agent,
}

#[derive(Debug, Args)]
pub(super) struct BuildArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Build only this image
    which: Option<Which>,
    /// Base image to use instead of the one in the Containerfile
    #[arg(long, value_name = "IMAGE")]
    base: Option<String>,
}

pub(super) fn image(command: &ImageCommand) -> Result<u8, Failure> {
    let ImageCommand::Build(args) = command;
    let context = Context::new();
    let resolved = context.resolve(&args.config, false)?;
    let podman = Podman::apart()?;
    let base = args.base.as_deref();
    if args.which != Some(Which::Agent) {
        let tag = &resolved.router_image.value;
        build(&podman, &Build { tag, containerfile: ROUTER, base, context: None })?;
    }
    if args.which == Some(Which::Router) {
        return Ok(0);
    }
    match &resolved.image.value {
        // The tag is the hash of this text; the file may have changed since.
        ImageSource::Containerfile { reference, text, .. } => {
            let context = resolved.workspace.source.join(".sandboxc");
            build(&podman, &Build { tag: reference, containerfile: text, base, context: Some(&context) })?;
        }
        ImageSource::Reference(tag) if tag.starts_with("localhost/") => {
            build(&podman, &Build { tag, containerfile: AGENT, base, context: None })?;
        }
        ImageSource::Reference(tag) => {
            say(&format!("sandboxc: {tag} comes from a registry: fetch it with `podman pull {tag}`"));
        }
    }
    Ok(0)
}
