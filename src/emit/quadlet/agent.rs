//! The agent's container.

use std::collections::BTreeMap;
use std::path::Path;

use super::container::{Bind, Container, Limits, Service, Source, env_fits};
use super::unit::{Relations, path_text};
use super::{EmitError, File, Maker, Pairs, START_TIMEOUT};
use crate::config::Identity;
use crate::emit::header;
use crate::plan::{Command, trust};

/// Inside, the invoking user of the host is always this one.
const AGENT_UID: u32 = 1000;

impl Maker<'_> {
    pub(super) fn agent(&self) -> Result<Vec<File>, EmitError> {
        let agent = &self.plan.agent;
        let Command::Run(command) = &agent.command else {
            return Err(EmitError::Internal("a unit carries its command itself".to_owned()));
        };
        let (env, env_file) = self.environment()?;
        let (image, image_files) = self.agent_image()?;
        // Without its router or forwarder it would hang on every connection, so it ends with them.
        let (gate, binds_to): (Option<&str>, &[&str]) =
            if self.plan.network.is_some() { (Some("gate"), &["router", "forwarder"]) } else { (None, &[]) };
        let requires: Vec<&str> = gate.into_iter().chain(self.keeper()).collect();
        let beside = env_file.as_ref().map(|file| Source::Path(format!("./{}", file.path)));
        let (user, capabilities) = match agent.identity.value {
            Identity::HostUser => (AGENT_UID, Vec::new()),
            // What package managers need, and nothing that changes the network or other processes.
            Identity::Root => (0, vec!["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"]),
        };
        let number = |limit: &Option<crate::source::Sourced<u64>>| limit.as_ref().map(|limit| limit.value);
        let container = Container {
            relations: Relations {
                stop_when_unneeded: false,
                part_of: Some(self.units.file("sandbox", "target")),
                ..self.relations("Agent", &requires, binds_to)
            },
            name: self.plan.names.agent_container(),
            image,
            command: match self.plan.secrets {
                Some(_) => trust::with_secrets().into_iter().chain(command.iter().cloned()).collect(),
                None => command.clone(),
            },
            user,
            capabilities,
            read_only: false,
            init: true,
            label_disable: true,
            place: self.in_pod(),
            env,
            env_files: beside.into_iter().chain(self.surrogates()?).collect(),
            volumes: vec![(self.units.file("home", "volume"), path_text(&agent.home.target)?)],
            binds: self.binds()?,
            working_dir: Some(path_text(&agent.workspace.target)?),
            labels: self.labels("agent"),
            limits: Limits {
                memory: number(&agent.limits.memory),
                cpus: number(&agent.limits.cpus),
                pids: number(&agent.limits.pids),
            },
            stop_timeout: 5,
            service: Service {
                start_timeout: START_TIMEOUT,
                before: self.renew(),
                run_timeout: number(&agent.limits.timeout),
                ..Service::default()
            },
        };
        let text = container.write(self.podman, &self.comment())?;
        let own = [File::new(self.units.file("agent", "container"), text)];
        Ok(env_file.into_iter().chain(image_files).chain(own).collect())
    }

    /// Variables for `Environment=` lines, and a file for those that only podman's own reader carries: a line each,
    /// nothing quoted (podman `pkg/env`).
    fn environment(&self) -> Result<(Pairs, Option<File>), EmitError> {
        let all: BTreeMap<&String, &String> =
            self.plan.agent.env.iter().map(|(name, value)| (name, &value.value)).collect();
        let (mut lines, mut file) = (Vec::new(), String::new());
        for (name, value) in all {
            if env_fits(value) {
                lines.push((name.clone(), value.clone()));
            } else if value.contains(['\0', '\n', '\r']) {
                return Err(EmitError::CannotKeep {
                    what: format!("the variable {name}"),
                    why: "no Quadlet unit carries both a line break and a character such as U+0080 or a noncharacter, \
                          nor a NUL"
                        .to_owned(),
                });
            } else {
                file.push_str(&format!("{name}={value}\n"));
            }
        }
        Ok((lines, (!file.is_empty()).then(|| File::new("agent/variables", file))))
    }

    fn binds(&self) -> Result<Vec<Bind>, EmitError> {
        let agent = &self.plan.agent;
        let mode = |read_only: bool| -> &'static [&'static str] { if read_only { &["ro"] } else { &["rw"] } };
        let bind = |source: &Path, target: &Path, read_only| -> Result<Bind, EmitError> {
            let source = Source::Path(path_text(source)?);
            Ok(Bind { source, target: path_text(target)?, options: mode(read_only) })
        };
        let workspace = &agent.workspace;
        let mut binds = vec![
            // Without one `localhost` does not resolve, and podman's own would copy the host's.
            Bind {
                source: Source::Path("./agent/hosts".to_owned()),
                target: "/etc/hosts".to_owned(),
                options: &["ro"],
            },
            bind(&workspace.source, &workspace.target, workspace.read_only)?,
        ];
        for (path, read_only) in workspace.overlays() {
            binds.push(bind(&workspace.source.join(path), &workspace.target.join(path), read_only)?);
        }
        for mount in &agent.mounts {
            binds.push(bind(&mount.source, &mount.target, mount.read_only)?);
        }
        binds.extend(self.agent_materials()?);
        Ok(binds)
    }

    fn comment(&self) -> String {
        let mut text = format!(
            "sandboxc plan {}, session {}, for podman {}\n\nStart this unit: the others come with it, in order, and end with it.\n  systemctl --user start {}\n",
            self.plan.names.hash,
            self.plan.session,
            self.podman,
            self.units.agent(),
        );
        if self.plan.network.is_none() {
            text.push_str("\nTHE NETWORK SANDBOX IS OFF: the agent reaches everything that this host reaches.\n");
        }
        if let Some(keeper) = self.keeper() {
            let service = self.units.service(keeper);
            text.push_str(&format!(
                "\nKeys and secrets are in no unit: {service} reads them at each start, into memory.\n"
            ));
        }
        text.push_str(&format!("\nPermissions, and where each was given:\n{}", header::permissions(self.plan)));
        text
    }
}
