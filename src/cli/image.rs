//! `sandboxc image`: builds and writes images; `images` lists and removes them.

mod images;

use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};

use super::context::{Context, say};
use super::documents::{ImageBuilt, VERSION, print_json};
use super::{ConfigArgs, Failure};
use crate::config::{Frozen, ImageSource, Resolved};
use crate::runtime::image::{Build, build, image_id, write_frozen};
use crate::runtime::output;
use crate::runtime::podman::Podman;
use crate::runtime::router_image::RouterImage;

const AGENT: &str = include_str!("../../packaging/images/agent/Containerfile");

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

/// The build context of a commit, in a directory of its own.
fn frozen_files(repo_dir: &Path, name: &str) -> Result<tempfile::TempDir, Failure> {
    let frozen = Frozen::of_commit(repo_dir, name).map_err(|error| Failure::usage(error.to_string()))?;
    Ok(write_frozen(&frozen)?)
}

fn build_agent(args: &BuildArgs) -> Result<u8, Failure> {
    let context = Context::new();
    let resolved = context.resolve(&args.config, false)?;
    let podman = Podman::apart()?;
    build_agent_of(&podman, &resolved, &args.config, args.base.as_deref())?;
    if args.json {
        let image = resolved.image.value.reference().to_owned();
        let built = !matches!(&resolved.image.value, ImageSource::Reference(tag) if !tag.starts_with("localhost/"));
        print_json(&ImageBuilt { version: VERSION, id: image_id(&podman, &image), image, built })?;
    }
    Ok(0)
}

/// Builds the agent's image of a config, unless it comes from a registry.
pub(super) fn build_agent_of(
    podman: &Podman,
    resolved: &Resolved,
    config: &ConfigArgs,
    base: Option<&str>,
) -> Result<(), Failure> {
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
    match &resolved.image.value {
        // The tag is the hash of this text; the file may have changed since.
        ImageSource::Containerfile { reference, text, .. } => {
            let frozen = config.config_from.as_ref();
            let frozen = frozen.map(|name| frozen_files(&resolved.workspace.source, name)).transpose()?;
            let here = resolved.workspace.source.join(".sandboxc");
            let context = frozen.as_ref().map_or(here, |dir| dir.path().join(".sandboxc"));
            build(
                podman,
                &Build {
                    tag: reference,
                    containerfile: text,
                    base,
                    context: Some(&context),
                    repo: Some(&resolved.workspace.source),
                },
            )?;
        }
        ImageSource::Reference(tag) if tag.starts_with("localhost/") => {
            build(podman, &Build { tag, containerfile: AGENT, base, context: None, repo: None })?;
        }
        ImageSource::Reference(tag) => {
            say(&format!("sandboxc: {tag} comes from a registry: fetch it with `podman pull {tag}`"));
        }
    }
    Ok(())
}
