//! The agent's container.

use super::container::{ContainerUnit, HostFile, Service, Standing, variables_file};
use super::unit::Relations;
use super::{EmitError, File, Maker, START_TIMEOUT};
use crate::emit::permissions;

impl Maker<'_> {
    pub(super) fn agent(&self) -> Result<Vec<File>, EmitError> {
        let container = &self.plan.agent.main;
        let env_file = variables_file(&container.env)?;
        let (image, image_files) = self.agent_image()?;
        // Without its router or forwarder, the agent would hang on every connection, so it stops with them.
        let (gate, binds_to): (Option<&str>, &[&str]) =
            if self.plan.network.is_some() { (Some("gate"), &["router", "forwarder"]) } else { (None, &[]) };
        let requires: Vec<&str> = gate.into_iter().chain(self.refusers()).collect();
        let beside = env_file.as_ref().map(|file| HostFile::Path(format!("./{}", file.path)));
        let unit = ContainerUnit {
            relations: Relations {
                stop_when_unneeded: false,
                part_of: Some(self.units.stable("target")),
                ..self.relations("Agent", &requires, binds_to)
            },
            name: self.plan.names.agent_container(),
            image,
            standing: Standing::Pod(self.units.file("agent", "pod")),
            labels: self.labels("agent"),
            service: Service {
                oneshot: false,
                start_timeout: START_TIMEOUT,
                directory: None,
                before: Some(self.renew()),
                env_files: beside.into_iter().chain(self.surrogates()?).collect(),
            },
            container,
        };
        let text = self.write_container(&unit, &self.comment())?;
        let own = [File::new(self.units.stable("container"), text)];
        Ok(env_file.into_iter().chain(image_files).chain(own).collect())
    }

    fn comment(&self) -> String {
        let mut text = format!(
            "sandboxc plan {}, session {}, for podman {}\n\nStart this unit: it starts all others in order, and they stop with it.\n  systemctl --user start {}\n",
            self.plan.names.hash,
            self.plan.session,
            self.podman,
            self.units.agent(),
        );
        if self.plan.network.is_none() {
            text.push_str("\nTHE NETWORK SANDBOX IS OFF: the agent can reach everything that this host can reach.\n");
        }
        if let Some(keeper) = self.keeper() {
            let service = self.units.service(keeper);
            text.push_str(&format!(
                "\nUnit files contain no keys or secrets: {service} reads them into memory at each start.\n"
            ));
        }
        text.push_str(&format!("\nPermissions, with the file and line of each:\n{}", permissions(self.plan)));
        text
    }
}
