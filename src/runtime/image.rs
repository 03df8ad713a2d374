//! The images of sandboxes: which are missing, and where they come from.

use std::collections::BTreeMap;
use std::process::Stdio;

use serde_json::Value;

use super::RuntimeError;
use super::podman::Podman;

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
