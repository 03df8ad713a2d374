//! Materials of units: a service writes them into the user's runtime directory for as long as the sandbox runs.
//!
//! systemd creates the directory (`RuntimeDirectory=`) and removes it with its content when the service has ended,
//! failed or been killed. Containers get parts of it as mounts: a podman secret would be a copy in files.

use std::path::Path;

use super::container::HostFile;
use super::pin::PIN_ROLE;
use super::unit::{Relations, path_text};
use super::writer::{UnitWriter, Word};
use super::{EmitError, File, HELD_IN, Maker};
use crate::config::OVERRIDES;
use crate::plan::{MaterialStore, Origin, Part, trust};

/// Where to look for `sandboxc`; `%h` is the home directory. systemd does not search there by itself. `ExecSearchPath=`
/// is unknown before systemd 250 and to `systemd-analyze verify`, so `env` searches.
pub const PROGRAM_DIRS: [&str; 5] = ["%h/.local/bin", "%h/.cargo/bin", "/usr/local/bin", "/usr/bin", "/bin"];

/// The start timeout in seconds: the service only reads files.
const START_TIMEOUT: u32 = 60;

/// The role of the service, which ends its name.
const ROLE: &str = "materials";

impl Maker<'_> {
    /// The origin of the units, if something must be read from it at each start.
    pub(super) fn origin(&self) -> Result<Option<&Origin>, EmitError> {
        match self.plan.materials.as_ref().map(|materials| &materials.store) {
            None => Ok(None),
            Some(MaterialStore::Service(origin)) => Ok(Some(origin)),
            Some(MaterialStore::Directory(_) | MaterialStore::Secrets(_)) => {
                Err(EmitError::Internal("units hold their secrets themselves".to_owned()))
            }
        }
    }

    /// The role of the service, if there is one. Everything that uses the directory requires it.
    pub(super) fn keeper(&self) -> Option<&'static str> {
        self.plan.materials.as_ref().map(|_| ROLE)
    }

    /// The directory below the runtime directory, which is laid out like that of a session.
    pub(super) fn held(&self) -> String {
        format!("{HELD_IN}/sandboxc-{}", self.plan.names.hash)
    }

    /// The service. A restart of the agent also restarts it, so that each run has its own surrogates.
    pub(super) fn materials(&self) -> Result<Option<File>, EmitError> {
        let Some(origin) = self.origin()? else { return Ok(None) };
        let mut w = UnitWriter::new(self.podman, "");
        let relations = Relations { part_of: Some(self.units.agent()), ..self.relations("Keys and secrets", &[], &[]) };
        relations.write(&mut w)?;
        w.group("Service");
        w.set("Type", "oneshot")?;
        w.flag("RemainAfterExit", true)?;
        w.set("TimeoutStartSec", &START_TIMEOUT.to_string())?;
        w.literal("Environment", &format!("PATH={}", PROGRAM_DIRS.join(":")));
        for (name, value) in &origin.environment {
            w.variable(name, value)?;
        }
        let unset: Vec<&str> = OVERRIDES.into_iter().filter(|&name| !origin.environment.contains_key(name)).collect();
        if !unset.is_empty() {
            w.set("UnsetEnvironment", &unset.join(" "))?;
        }
        w.set("RuntimeDirectory", &self.held())?;
        w.set("RuntimeDirectoryMode", "0700")?;
        // A crash must not write values to a disk.
        w.set("LimitCORE", "0")?;
        let repo = path_text(&origin.repo)?;
        let server = origin.server.as_deref().map(path_text).transpose()?;
        let mut words = vec!["/usr/bin/env", "sandboxc", "secrets", "--repo", &repo];
        let revision = origin.revision.as_ref().map(|revision| format!("--config-from={revision}"));
        words.extend(revision.as_deref());
        words.extend(server.iter().flat_map(|server| ["--server", server]));
        words.extend(origin.name.iter().flat_map(|name| ["--name", name]));
        words.extend(["--session", &self.plan.session, "--unchanged", &origin.config, "--hold"]);
        let held = format!("%t/{}", self.held());
        let words: Vec<Word<'_>> = words.into_iter().map(Word::Text).chain([Word::Place(&held)]).collect();
        w.command("ExecStart", &words)?;
        Ok(Some(File::new(self.units.file(ROLE, "service"), w.finish())))
    }

    /// What the agent's service does before its container. A start during a stop cancels the pending stop jobs, so the
    /// new run would reuse the mounts, keys and router of the previous one. This restarts those services. It restarts
    /// only them (`ignore-dependencies`), since the agent, which requires all of them, would otherwise be stopped, too.
    pub(super) fn renew(&self) -> String {
        let router = self.plan.needs(Part::Router).then_some("router");
        let mounts = renewal(&self.pinned(), &[self.units.service(PIN_ROLE)]);
        let keys = self.keeper().map(|keeper| {
            let services: Vec<String> =
                [keeper].into_iter().chain(router).map(|role| self.units.service(role)).collect();
            renewal(&self.held(), &services)
        });
        let all: Vec<String> = [mounts].into_iter().chain(keys).collect();
        format!("/bin/sh -c \"{}\"", all.join(" && "))
    }

    /// The file with the agent's surrogates. podman stores what it reads from it, but surrogates give no access by
    /// themselves.
    pub(super) fn surrogates(&self) -> Result<Option<HostFile>, EmitError> {
        if !self.plan.needs(Part::Surrogates) {
            return Ok(None);
        }
        path_text(&trust::surrogates_file(Path::new(&self.held()))).map(HostFile::Runtime).map(Some)
    }
}

/// Restarts services if a mark shows that their directory has been used, and sets the mark.
fn renewal(dir: &str, services: &[String]) -> String {
    let used = format!("%t/{dir}/used");
    let restart = |service| format!("systemctl --user restart --job-mode=ignore-dependencies {service}");
    let restarts: Vec<String> = services.iter().map(restart).collect();
    format!("{{ [ ! -e {used} ] || {{ {}; }}; }} && : >{used}", restarts.join(" && "))
}
