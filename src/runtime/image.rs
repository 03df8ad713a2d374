//! Builds the images of sandboxes.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use super::RuntimeError;
use super::image_store::REPO_LABEL;
use super::podman::Podman;
use crate::config::Frozen;

/// An image that a session needs and podman does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingImage {
    /// Its reference.
    pub image: String,
    /// Where it comes from.
    pub origin: ImageOrigin,
}

/// Where an image comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageOrigin {
    /// sandboxc builds it.
    Build,
    /// Another host's sandboxc writes it.
    Save,
    /// A registry.
    Pull,
}

impl MissingImage {
    /// The command that gets it.
    pub fn command(&self) -> String {
        match self.origin {
            ImageOrigin::Build => "sandboxc image build agent".to_owned(),
            ImageOrigin::Save => "sandboxc image save router | podman load".to_owned(),
            ImageOrigin::Pull => format!("podman pull {}", self.image),
        }
    }
}

/// Says which images are missing, and the command that gets all of them.
pub fn missing(images: &[MissingImage]) -> String {
    let names: Vec<&str> = images.iter().map(|one| one.image.as_str()).collect();
    let commands: Vec<String> = images.iter().map(MissingImage::command).collect();
    let (what, them) =
        if images.len() == 1 { ("image", "is missing: get it") } else { ("images", "are missing: get them") };
    format!("the {what} {} {them} with `{}`", names.join(" and "), commands.join(" && "))
}

/// Pulls an image from its registry, with podman's output on stderr.
pub fn pull(podman: &Podman, image: &str) -> Result<(), RuntimeError> {
    let mut command = podman.build_command(&["pull", image])?;
    let status = command.stdin(Stdio::null()).stdout(std::io::stderr()).status().map_err(RuntimeError::NoPodman)?;
    match status.success() {
        true => Ok(()),
        false => Err(RuntimeError::Podman {
            what: format!("pulling {image}"),
            said: format!("podman pull failed with {status}"),
        }),
    }
}

/// What to build.
#[derive(Clone, Debug)]
pub struct Build<'a> {
    /// The tag of the image.
    pub tag: &'a str,
    /// The text of the Containerfile.
    pub containerfile: &'a str,
    /// The value of its `BASE` argument.
    pub base: Option<&'a str>,
    /// The build context; `None` for our own Containerfiles, which copy nothing.
    pub context: Option<&'a Path>,
    /// The repo that it is for, which becomes a label.
    pub repo: Option<&'a Path>,
}

/// podman's id of an image; `None` if it does not exist.
pub fn image_id(podman: &Podman, reference: &str) -> Option<String> {
    let described = podman.describe("checking whether the image exists", &[reference]).ok()?;
    described.first()?.get("Id")?.as_str().map(str::to_owned)
}

/// When each image in the storage was created, in seconds since the epoch, by its names.
pub fn created(podman: &Podman) -> Result<BTreeMap<String, u64>, RuntimeError> {
    let mut all = BTreeMap::new();
    for image in podman.json("listing the images", &["images"])? {
        let created = image.get("Created").and_then(Value::as_u64);
        let names = image.get("Names").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        all.extend(names.filter_map(|name| Some((name.to_owned(), created?))));
    }
    Ok(all)
}

/// Builds the image, with podman's output on stderr. Rebuilds every step on the newest base image: a cached step holds
/// packages from the day of the first build, without later security updates.
pub fn build(podman: &Podman, build: &Build<'_>) -> Result<(), RuntimeError> {
    let empty_dir = podman.empty_dir();
    let file = empty_dir.with_extension("containerfile");
    std::fs::write(&file, build.containerfile).map_err(RuntimeError::io("writing the Containerfile"))?;
    let mut args: Vec<String> = ["build", "--pull=newer", "--no-cache", "--tag", build.tag].map(str::to_owned).to_vec();
    args.extend(build.base.map(|base| format!("--build-arg=BASE={base}")));
    args.extend(build.repo.map(|repo| format!("--label={REPO_LABEL}={}", repo.display())));
    args.push(format!("--file={}", file.display()));
    args.push(build.context.unwrap_or(empty_dir).display().to_string());
    let id = || image_id(podman, build.tag);
    let before = id();
    let mut command = podman.build_command(&args)?;
    let status = command.stdin(Stdio::null()).stdout(std::io::stderr()).status().map_err(RuntimeError::NoPodman);
    // Errors do not matter: the scratch directory is removed anyway.
    let _ = std::fs::remove_file(&file);
    match status? {
        status if status.success() => {
            // Each build would leave the previous image behind. A container that uses it keeps it.
            if let Some(before) = before.filter(|before| id().as_ref() != Some(before)) {
                let _ = podman.output(&["image", "rm", &before], None);
            }
            Ok(())
        }
        status => Err(RuntimeError::Podman {
            what: format!("building {}", build.tag),
            said: format!("podman build failed with {status}"),
        }),
    }
}

/// Writes the files of a commit into a new directory, as a build context with their modes. The directory is removed
/// when the value is dropped.
pub fn write_frozen(frozen: &Frozen) -> Result<tempfile::TempDir, RuntimeError> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let failed = |error| RuntimeError::io("writing the build context")(error);
    let dir = tempfile::tempdir().map_err(failed)?;
    for (path, file) in frozen.files() {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap_or(dir.path())).map_err(failed)?;
        let mode = if file.executable { 0o755 } else { 0o644 };
        let mut options = std::fs::OpenOptions::new();
        let mut out = options.write(true).create_new(true).mode(mode).open(&path).map_err(failed)?;
        std::io::Write::write_all(&mut out, &file.bytes).map_err(failed)?;
    }
    Ok(dir)
}
