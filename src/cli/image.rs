//! `sandboxc image`: builds and writes images; `images` lists and removes them, `provide` builds what a start needs.

mod images;
pub(super) mod provide;

use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::context::{Context, say};
use super::documents::{ImageBuilt, VERSION, print_json};
use super::{ConfigArgs, Failure};
use crate::config::{ImageSource, Resolved, nested_image};
use crate::runtime::image::image_id;
use crate::runtime::image_build::{Build, Watcher, build};
use crate::runtime::output;
use crate::runtime::podman::Podman;
use crate::runtime::router_image::RouterImage;
use crate::source::Sourced;

const AGENT: &str = include_str!("../../packaging/images/agent/Containerfile");
const NESTED: &str = include_str!("../../packaging/images/agent-nested/Containerfile");

#[derive(Debug, Subcommand)]
pub(super) enum ImageCommand {
    /// Build the agent's image: the default one, or the one that the repo's Containerfile describes
    Build(BuildArgs),
    /// List the images of sandboxc, and the repos that they belong to
    Ls(images::LsArgs),
    /// Remove images of sandboxc that nothing uses
    Prune(images::PruneArgs),
    /// Write the router's image as an archive for `podman load`, for hosts without sandboxc
    Save(SaveArgs),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Built {
    /// The agent's image: the default one, or the repo's own Containerfile
    Agent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Saved {
    /// The router's image
    Router,
}

#[derive(Debug, Args)]
pub(super) struct BuildArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Build only this image
    which: Option<Built>,
    /// Base image to use instead of the one in the Containerfile
    #[arg(long, value_name = "IMAGE")]
    base: Option<String>,
    /// Build sandboxc's own image for `nested_containers`, even if this config does not ask for it
    #[arg(long)]
    nested: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct SaveArgs {
    /// The image to write
    which: Saved,
    /// Write to this file instead of stdout
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn image(command: &ImageCommand) -> Result<u8, Failure> {
    match command {
        ImageCommand::Build(args) => build_agent(args),
        ImageCommand::Save(args) => save(args),
        ImageCommand::Ls(args) => images::ls(args),
        ImageCommand::Prune(args) => images::prune(args),
    }
}

fn save(args: &SaveArgs) -> Result<u8, Failure> {
    let SaveArgs { which: Saved::Router, output } = args;
    let image = RouterImage::find()?;
    let failed = |error: io::Error| Failure::promise(format!("writing the archive: {error}"));
    match output {
        Some(path) => output::whole(path, &image.archive())?,
        None if io::stdout().is_terminal() => {
            return Err(Failure::usage(
                "this writes an archive: `sandboxc image save router | podman load`, or `-o FILE`",
            ));
        }
        None => io::stdout().lock().write_all(&image.archive()).map_err(failed)?,
    }
    say(&format!("sandboxc: {}", image.reference()));
    Ok(0)
}

fn build_agent(args: &BuildArgs) -> Result<u8, Failure> {
    let context = Context::of(&args.config)?;
    let mut resolved = context.resolve(&args.config, false)?;
    if args.nested {
        resolved.image = Sourced::built_in(ImageSource::Reference(nested_image()));
    }
    let podman = Podman::apart()?;
    build_agent_of(&podman, &resolved, args.base.as_deref())?;
    if args.json {
        let image = resolved.image.value.reference().to_owned();
        let built = !matches!(&resolved.image.value, ImageSource::Reference(tag) if !tag.starts_with("localhost/"));
        print_json(&ImageBuilt { version: VERSION, id: image_id(&podman, &image), image, built })?;
    }
    Ok(0)
}

/// Builds the agent's image of a config, unless it comes from a registry. Somebody asked for it, so this permits a build
/// on which no file has decided.
pub(super) fn build_agent_of(podman: &Podman, resolved: &Resolved, base: Option<&str>) -> Result<(), Failure> {
    if resolved.image.from.file == "environment" {
        return Err(Failure::usage(format!(
            "SANDBOXC_IMAGE or --image names {}, which `image build` would build over: unset it to build the configured image, or \
             get that one with podman",
            resolved.image.value.reference()
        )));
    }
    if resolved.image.value.reference() == resolved.router_image.value {
        return Err(Failure::usage(format!(
            "{} is the router's image, which `image build` would build over: name another one for the agent",
            resolved.router_image.value
        )));
    }
    let tell = |line: &str| say(line);
    match &resolved.image.value {
        ImageSource::Containerfile { .. } => {
            provide::build_repos(podman, resolved, base, Some(&tell), provide::When::Always)?;
        }
        ImageSource::Reference(tag) if tag.starts_with("localhost/") => {
            let nested = resolved.nested.is_some() || *tag == nested_image();
            let containerfile = if nested { NESTED } else { AGENT };
            let ours = Build { tag, containerfile, base, context: None, repo: None };
            build(podman, &ours, &Watcher { tell: Some(&tell), signals: None })?;
        }
        ImageSource::Reference(tag) => {
            say(&format!("sandboxc: {tag} comes from a registry: fetch it with `podman pull {tag}`"));
        }
    }
    Ok(())
}
