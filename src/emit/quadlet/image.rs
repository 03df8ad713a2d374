//! Units that provide an image: a build of the repo's Containerfile as it was reviewed, or a pull that contacts a
//! registry only if the image is missing.

use super::container::Image;
use super::unit::{Relations, quadlet};
use super::writer::UnitWriter;
use super::{EmitError, File, Maker, global_args};
use crate::config::ImageSource;
use crate::emit::{PodmanVersion, defaults};

/// The first podman whose `.image` units can skip the pull of an existing image (`Policy=`).
const POLICY_SINCE: PodmanVersion = PodmanVersion::new(5, 6);

/// The timeout of a build or a pull, in seconds.
const START_TIMEOUT: u32 = 1800;

/// The directory that contains the build's copy of the Containerfile and nothing else, so that nothing else can be
/// copied into the image.
const CONTEXT: &str = "image";

impl Maker<'_> {
    /// The agent's image, and the files that provide it.
    pub(super) fn agent_image(&self) -> Result<(Image, Vec<File>), EmitError> {
        match &self.plan.agent.main.image.value {
            ImageSource::Reference(reference) => self.image("image", reference),
            image @ ImageSource::Containerfile { .. } if !image.is_built_by_unit() => {
                Ok((Image::Reference, Vec::new()))
            }
            ImageSource::Containerfile { file: _, reference, recipe } => self.build(reference, &recipe.text),
        }
    }

    /// The role of the service that provides the agent's image, if there is one.
    pub(super) fn image_role(&self) -> Result<Option<&'static str>, EmitError> {
        let Image::Unit(file) = self.agent_image()?.0 else { return Ok(None) };
        Ok(Some(if file.strip_suffix(".build").is_some() { "image-build" } else { "image-image" }))
    }

    /// An image by its reference. `role` is the end of its unit's name, if it has one.
    ///
    /// `image build` builds the images of sandboxc. If a unit built the router's, then whatever a mirror had at the
    /// time of a start would decide what stands between the agent and the network, for a tag that all sandboxes here
    /// share.
    pub(super) fn image(&self, role: &str, reference: &str) -> Result<(Image, Vec<File>), EmitError> {
        if reference.starts_with("localhost/") || self.podman < POLICY_SINCE {
            return Ok((Image::Reference, Vec::new()));
        }
        let mut w = UnitWriter::new(self.podman, "");
        // Checked again at each start, since the image may have been removed.
        self.relations("Image", &self.refusers(), &[]).write(&mut w)?;
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
        let conf = File::new(format!("{CONTEXT}.{}", defaults::CONF), defaults::for_builds());
        let mut w = UnitWriter::new(self.podman, "");
        let relations: Relations = self.relations("Image", &self.refusers(), &[]);
        relations.write(&mut w)?;
        w.group("Build");
        w.set("ImageTag", reference)?;
        w.set("File", &format!("./{}", copy.path))?;
        w.set("SetWorkingDirectory", &format!("./{CONTEXT}"))?;
        global_args(&mut w)?;
        w.group("Service");
        self.podman_environment(&mut w, &conf.path)?;
        // An existing image is not built again, which would need the network.
        w.set("ExecCondition", &format!("/bin/sh -c \"! podman image exists {reference}\""))?;
        w.set("TimeoutStartSec", &START_TIMEOUT.to_string())?;
        quadlet(&mut w)?;
        let name = self.units.file("image", "build");
        Ok((Image::Unit(name.clone()), vec![copy, conf, File::new(name, w.finish())]))
    }
}
