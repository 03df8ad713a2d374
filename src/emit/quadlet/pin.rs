//! The service that pins the sources of the agent's mounts, so that podman never looks up a name that a sandbox can
//! change.
//!
//! It mounts each source in podman's own namespaces, at a name in its runtime directory. When the sandbox stops,
//! systemd removes that directory from outside of these namespaces, and the kernel removes each mount with its mount
//! point.

use super::unit::Relations;
use super::writer::{UnitWriter, Word};
use super::{EmitError, File, HELD_IN, Maker};
use crate::emit::{defaults, pin};

/// The role of the service, which ends its name.
pub(super) const PIN_ROLE: &str = "mounts";

/// The start timeout in seconds.
const START_TIMEOUT: u32 = 60;

impl Maker<'_> {
    /// The directory with the names, below the runtime directory.
    pub(super) fn pinned(&self) -> String {
        format!("{HELD_IN}/sandboxc-{}-mounts", self.plan.names.hash)
    }

    /// The service.
    pub(super) fn pins(&self) -> Result<File, EmitError> {
        let mut w = UnitWriter::new(self.podman, "");
        let relations = Relations { part_of: Some(self.units.agent()), ..self.relations("Mounts", &[], &[]) };
        relations.write(&mut w)?;
        w.group("Service");
        w.set("Type", "oneshot")?;
        w.flag("RemainAfterExit", true)?;
        w.set("TimeoutStartSec", &START_TIMEOUT.to_string())?;
        w.set("RuntimeDirectory", &self.pinned())?;
        w.set("RuntimeDirectoryMode", "0700")?;
        // This may be the first podman of this login, whose pause process lives on.
        self.podman_environment(&mut w, defaults::CONF)?;
        let (script, dir) =
            (format!("%E/containers/systemd/{}/{}", self.plan.session, pin::FILE), format!("%t/{}", self.pinned()));
        let start = ["podman", "unshare", "/bin/sh"]
            .map(Word::Text)
            .into_iter()
            .chain([&script, &dir].map(|place| Word::Place(place)));
        let args = pin::pin_args(self.plan)?.into_iter().flatten().map(Word::Text);
        w.command("ExecStart", &start.chain(args).collect::<Vec<_>>())?;
        Ok(File::new(self.units.file(PIN_ROLE, "service"), w.finish()))
    }
}
