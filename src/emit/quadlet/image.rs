//! Units that bring an image: a build of the repo's Containerfile as it was reviewed, and a pull that asks a registry only
//! where the image is missing.

use super::container::Image;
use super::unit::{Relations, quadlet};
use super::writer::Writer;
use super::{EmitError, File, Maker};
use crate::config::ImageSource;
use crate::emit::Podman;

/// The first podman whose `.image` units can say that an image which is here is not asked for (`Policy=`).
const POLICY_SINCE: Podman = Podman::new(5, 6);

/// Seconds that a build or a pull may take.
const START_TIMEOUT: u32 = 1800;

/// Directory of the build's copy, which is alone in it: all that the build can copy from.
const CONTEXT: &str = "image";

impl Maker<'_> {
    /// The agent's image, and the files that bring it.
    pub(super) fn agent_image(&self) -> Result<(Image, Vec<File>), EmitError> {
        match &self.plan.agent.image.value {
            ImageSource::Reference(reference) => self.image("image", reference),
            ImageSource::Containerfile { reference, text, .. } if uses_context(text) => {
                Ok((Image::Reference(reference.clone()), Vec::new()))
            }
            ImageSource::Containerfile { reference, text, .. } => self.build(reference, text),
        }
    }

    /// An image by its reference; `role` is the end of its unit's name, if it has one.
    ///
    /// Images of ours are made by `image build`. A unit that built the router's would decide by what a mirror has at the
    /// time of a start what stands between the agent and the network, for a tag that every set here shares.
    pub(super) fn image(&self, role: &str, reference: &str) -> Result<(Image, Vec<File>), EmitError> {
        if reference.starts_with("localhost/") || self.podman < POLICY_SINCE {
            return Ok((Image::Reference(reference.to_owned()), Vec::new()));
        }
        let mut w = Writer::new(self.podman, "");
        // Asked again at each start: it may have been removed meanwhile.
        self.relations("Image", &[], &[]).write(&mut w)?;
        w.group("Image");
        w.set("Image", reference)?;
        w.set("Policy", "missing")?;
        w.group("Service");
        w.set("TimeoutStartSec", &START_TIMEOUT.to_string())?;
        quadlet(&mut w)?;
        let name = self.units.file(role, "image");
        Ok((Image::Unit(name.clone()), vec![File::new(name, w.finish())]))
    }

    fn build(&self, reference: &str, text: &str) -> Result<(Image, Vec<File>), EmitError> {
        let tag = reference.rsplit(['/', ':']).next().unwrap_or_default();
        let copy = File::new(format!("{CONTEXT}/{tag}.containerfile"), text);
        let mut w = Writer::new(self.podman, "");
        let relations: Relations = self.relations("Image", &[], &[]);
        relations.write(&mut w)?;
        w.group("Build");
        w.set("ImageTag", reference)?;
        w.set("File", &format!("./{}", copy.path))?;
        w.set("SetWorkingDirectory", &format!("./{CONTEXT}"))?;
        w.group("Service");
        // An image that is here is not built again, which needs no network.
        w.set("ExecCondition", &format!("/bin/sh -c \"! podman image exists {reference}\""))?;
        w.set("TimeoutStartSec", &START_TIMEOUT.to_string())?;
        quadlet(&mut w)?;
        let name = self.units.file("image", "build");
        Ok((Image::Unit(name.clone()), vec![copy, File::new(name, w.finish())]))
    }
}

/// True if a build of it may need files beside it, which the compiled tree does not have. Rather too often: such an image
/// is then made by `image build`.
fn uses_context(text: &str) -> bool {
    text.lines().any(|line| {
        let line = line.to_ascii_lowercase();
        let copies = line.split_whitespace().take(2).any(|word| word == "copy" || word == "add");
        let mounts = line.split_whitespace().filter_map(|word| word.strip_prefix("--mount="));
        let elsewhere = |mount: &str| {
            let mut parts = mount.split(',');
            parts.any(|part| part.starts_with("from=") || ["type=cache", "type=tmpfs", "type=secret"].contains(&part))
        };
        (copies && !line.contains("--from=")) || mounts.into_iter().any(|mount| !elsewhere(mount))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_files_beside_it_is_told_from_what_does_not() {
        for text in [
            "FROM a\nCOPY x /x",
            "FROM a\n  add --chown=1:1 x /x\n",
            "ONBUILD COPY x /",
            "RUN --mount=type=bind,target=/x true",
            "RUN --mount=target=/x true",
            "COPY \\\n  --from=a /x /x",
        ] {
            assert!(uses_context(text), "{text}");
        }
        for text in [
            "FROM a\nRUN apt-get install -y copy-tool add\n",
            "FROM a AS b\nFROM c\nCOPY --from=b /x /x\n",
            "RUN --mount=type=cache,target=/var/cache true",
            "RUN --mount=type=bind,from=b,target=/x true",
            "# COPYRIGHT\nRUN echo copied\n",
        ] {
            assert!(!uses_context(text), "{text}");
        }
    }
}
