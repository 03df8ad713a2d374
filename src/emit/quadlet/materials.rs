//! What no file of the set may hold: a service writes it into the user's runtime directory, for as long as the set runs.
//!
//! systemd makes the directory (`RuntimeDirectory=`) and removes it with whatever is in it when the service has ended,
//! failed or been killed, without our help. Containers get parts of it as mounts: a podman secret would be a copy in files.

use std::path::Path;

use super::container::HostFile;
use super::unit::{Relations, path_text};
use super::writer::Writer;
use super::{EmitError, File, Maker};
use crate::config::OVERRIDES;
use crate::plan::{MaterialStore, Origin, Part, trust};

/// The directory of all sets, below the user's runtime directory. Not the one of the runners' sessions, where `gc` would
/// take each for a dead session.
const HELD_IN: &str = "sandboxc-units";

/// Where `sandboxc` is looked for; `%h` is the home. systemd does not search there by itself, and `ExecSearchPath=`, which
/// would say it, is unknown before systemd 250 and to `systemd-analyze verify`: so `env` searches.
pub const PROGRAM_DIRS: [&str; 5] = ["%h/.local/bin", "%h/.cargo/bin", "/usr/local/bin", "/usr/bin", "/bin"];

/// Seconds until a start counts as failed: only files are read.
const START_TIMEOUT: u32 = 60;

/// Role of the service, the end of its name.
const ROLE: &str = "materials";

impl Maker<'_> {
    /// Where the set comes from, if something of it must be read at each start.
    pub(super) fn origin(&self) -> Result<Option<&Origin>, EmitError> {
        match self.plan.materials.as_ref().map(|materials| &materials.store) {
            None => Ok(None),
            Some(MaterialStore::Service(origin)) => Ok(Some(origin)),
            Some(MaterialStore::Directory(_) | MaterialStore::Secrets(_)) => {
                Err(EmitError::Internal("units keep their secrets themselves".to_owned()))
            }
        }
    }

    /// The role of the service, where there is one: what uses the directory requires it.
    pub(super) fn keeper(&self) -> Option<&'static str> {
        self.plan.materials.as_ref().map(|_| ROLE)
    }

    /// The set's directory below the runtime directory, which is handled like that of a session.
    pub(super) fn held(&self) -> String {
        format!("{HELD_IN}/sandboxc-{}", self.plan.names.hash)
    }

    /// The service. A restart of the agent is one of it too, so that each run has surrogates of its own.
    pub(super) fn materials(&self) -> Result<Option<File>, EmitError> {
        let Some(origin) = self.origin()? else { return Ok(None) };
        let mut w = Writer::new(self.podman, "");
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
        words.extend(server.iter().flat_map(|server| ["--server", server]));
        words.extend(origin.name.iter().flat_map(|name| ["--name", name]));
        words.extend(["--session", &self.plan.session, "--unchanged", &origin.config, "--hold"]);
        w.command("ExecStart", &words, &self.held())?;
        Ok(Some(File::new(self.units.file(ROLE, "service"), w.finish())))
    }

    /// What the agent's service does before its container: a start that comes while the last set is still being taken down
    /// cancels that, and would find the keys and the router of the last run. They are then made anew. Only of these two is
    /// anything made anew (`ignore-dependencies`): the agent, which requires both, would be taken down too.
    pub(super) fn renew(&self) -> Option<String> {
        let keeper = self.keeper()?;
        let used = format!("%t/{}/used", self.held());
        let router = self.plan.needs(Part::Router).then_some("router");
        let restart =
            |role| format!("systemctl --user restart --job-mode=ignore-dependencies {}", self.units.service(role));
        let restarts: Vec<String> = [keeper].into_iter().chain(router).map(restart).collect();
        Some(format!("/bin/sh -c \"[ ! -e {used} ] || {{ {}; }} && : >{used}\"", restarts.join(" && ")))
    }

    /// The file with the agent's surrogates. podman keeps what it reads of it, and they open nothing.
    pub(super) fn surrogates(&self) -> Result<Option<HostFile>, EmitError> {
        if !self.plan.needs(Part::Surrogates) {
            return Ok(None);
        }
        path_text(&trust::surrogates_file(Path::new(&self.held()))).map(HostFile::Runtime).map(Some)
    }
}
