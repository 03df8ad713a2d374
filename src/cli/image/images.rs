//! `sandboxc image ls` and `sandboxc image prune`.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use clap::Args;

use crate::cli::context::{Context, print, say};
use crate::cli::documents::{ImageEntry, Images, PrunedImages, VERSION, print_json};
use crate::cli::{Failure, duration};
use crate::runtime::host;
use crate::runtime::image_store::{StoredImage, remove, stored, unused};
use crate::runtime::podman::Podman;
use crate::runtime::router_image::RouterImage;
use crate::runtime::systemd::UserManager;
use crate::visible::escaped;

/// How old an image must be unless `--older` says something else. A repo that is used more rarely builds its image again.
const OLD: Duration = Duration::from_secs(30 * 24 * 60 * 60);

#[derive(Debug, Args)]
pub(crate) struct LsArgs {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PruneArgs {
    /// Remove images that were created longer ago than this, e.g. 12h, 7d [default: 30d]
    #[arg(long, value_name = "D", value_parser = duration::parse)]
    older: Option<Duration>,
    /// Show what would be removed
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

pub(crate) fn ls(args: &LsArgs) -> Result<u8, Failure> {
    host::check()?;
    let all = stored(&Podman::apart()?)?;
    if args.json {
        print_json(&Images { version: VERSION, images: all.iter().map(entry).collect() })?;
        return Ok(0);
    }
    let now = now();
    for image in &all {
        print(&format!("{}\n", line(image, now)))?;
    }
    Ok(0)
}

pub(crate) fn prune(args: &PruneArgs) -> Result<u8, Failure> {
    host::check()?;
    let context = Context::new();
    let podman = Podman::apart()?;
    let now = now();
    let until = now.saturating_sub(args.older.unwrap_or(OLD).as_secs());
    let (mut removed, mut left) = (Vec::new(), Vec::new());
    for image in unused(stored(&podman)?, &needed(&context)?, until) {
        match args.dry_run || remove(&podman, &image)? {
            true => removed.push(image),
            false => left.push(image),
        }
    }
    if args.json {
        let entries = |images: &[StoredImage]| images.iter().map(entry).collect();
        let (removed, left) = (entries(&removed), entries(&left));
        print_json(&PrunedImages { version: VERSION, dry_run: args.dry_run, removed, left })?;
    } else {
        for image in &removed {
            print(&format!("{}\n", line(image, now)))?;
        }
        for image in &left {
            say(&format!("sandboxc: {} has come into use, and stays", image.names.join(" ")));
        }
    }
    Ok(0)
}

/// The images that the next start needs: those of this version, and those of installed units.
fn needed(context: &Context) -> Result<BTreeSet<String>, Failure> {
    let mut needed = BTreeSet::from([crate::config::built_image(), crate::config::nested_image()]);
    needed.extend(RouterImage::find().ok().map(|router| router.reference()));
    let manager = UserManager::new(&context.config_home()?);
    for session in manager.sessions()? {
        let review = manager.review(&session)?;
        needed.extend(review.pods.into_iter().flat_map(|pod| pod.containers).map(|container| container.image));
    }
    Ok(needed)
}

fn entry(image: &StoredImage) -> ImageEntry {
    let StoredImage { id, names, created, size, repo, containers } = image.clone();
    ImageEntry { id, names, created, size, repo, containers }
}

/// `localhost/sandboxc-repo:0a1b2c  3 days old  237 MB  /home/me/repo  used by 1 container`.
fn line(image: &StoredImage, now: u64) -> String {
    let age = match now.saturating_sub(image.created) {
        seconds if seconds < 2 * 60 * 60 => format!("{} minutes", seconds / 60),
        seconds if seconds < 48 * 60 * 60 => format!("{} hours", seconds / 3600),
        seconds => format!("{} days", seconds / 86400),
    };
    let mut parts = vec![image.names.join(" "), format!("{age} old"), format!("{} MB", image.size / 1_000_000)];
    parts.extend(image.repo.as_ref().map(|repo| repo.display().to_string()));
    match image.containers {
        0 => {}
        1 => parts.push("used by 1 container".to_owned()),
        many => parts.push(format!("used by {many} containers")),
    }
    escaped(&parts.join("  "))
}
