//! A config for a session whose network a build uses.

use super::resolved::{ImageSource, Resolved};
use super::secret::Secrets;
use crate::source::Sourced;

impl Resolved {
    /// The same config for a session whose network a build uses. Nothing runs in its agent but podman's init, so it gets an
    /// image that exists, and no credentials, variables of the host or mounts. `None` if the network sandbox is off.
    pub fn for_building(mut self) -> Option<Self> {
        if !self.sandbox_enabled.value {
            return None;
        }
        let Sourced { value, from } = self.router_image.clone();
        self.image = Sourced::new(ImageSource::Reference(value), from);
        self.policy.credentials.clear();
        self.secrets = Secrets::default();
        for name in std::mem::take(&mut self.env_from).into_keys() {
            self.env.remove(&name);
        }
        self.mounts.clear();
        Some(self)
    }
}
