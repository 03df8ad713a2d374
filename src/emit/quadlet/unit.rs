//! Typed units other than containers. Nothing else is emitted.

use std::path::Path;

use super::writer::UnitWriter;
use super::{Maker, global_args};
use crate::emit::{EmitError, PodmanVersion, defaults};
use crate::plan::pod::{Dns, Pod};

/// The `[Unit]` section. Every unit except the agent's stops when no active unit requires it.
#[derive(Clone, Debug, Default)]
pub struct Relations {
    /// A description.
    pub description: String,
    /// Services that must have started successfully before this one, which does not start if one of them fails.
    pub requires: Vec<String>,
    /// Like `requires`, and this unit also stops when they stop.
    pub binds_to: Vec<String>,
    /// Whether it stops when no active unit requires it.
    pub stop_when_unneeded: bool,
    /// The target that it stops with.
    pub part_of: Option<String>,
}

impl Relations {
    pub(super) fn write(&self, w: &mut UnitWriter) -> Result<(), EmitError> {
        w.group("Unit");
        w.set("Description", &self.description)?;
        for service in &self.requires {
            w.set("Requires", service)?;
        }
        for service in &self.binds_to {
            w.set("BindsTo", service)?;
        }
        for service in self.requires.iter().chain(&self.binds_to) {
            w.set("After", service)?;
        }
        if let Some(target) = &self.part_of {
            w.set("PartOf", target)?;
        }
        if self.stop_when_unneeded {
            w.flag("StopWhenUnneeded", true)?;
            no_start_limit(w)?;
        }
        Ok(())
    }
}

/// A part starts and stops with the agent's unit, so only that unit's start limit counts. Otherwise six starts within
/// ten seconds would fail at a part, as a failed dependency.
fn no_start_limit(w: &mut UnitWriter) -> Result<(), EmitError> {
    w.set("StartLimitIntervalSec", "0")
}

/// Does not wait for the host's network to be online, which rootless podman gives up on after 90 s (podman #22197). The
/// router only needs it when the agent does.
pub(super) fn quadlet(w: &mut UnitWriter) -> Result<(), EmitError> {
    w.group("Quadlet");
    w.flag("DefaultDependencies", false)
}

/// A `.pod` unit.
#[derive(Clone, Debug)]
pub struct PodUnit<'a> {
    /// `[Unit]`.
    pub relations: Relations,
    /// `x.network`, with options.
    pub networks: Vec<String>,
    /// Labels.
    pub labels: Vec<(String, String)>,
    /// Everything else.
    pub pod: &'a Pod,
}

impl PodUnit<'_> {
    /// The file's text.
    pub(super) fn write(&self, maker: &Maker<'_>) -> Result<String, EmitError> {
        let Self { relations, networks, labels, pod } = self;
        let podman = maker.podman;
        // Containers have units of their own; Quadlet names the infra container.
        let Pod { name, infra: _, host_name, networks: _, dns, userns, sysctls, helpers: _, main } = pod;
        let mut w = UnitWriter::new(podman, "");
        relations.write(&mut w)?;
        w.group("Pod");
        w.set("PodName", name)?;
        global_args(&mut w)?;
        for network in networks {
            w.set("Network", network)?;
        }
        if let Some(Dns { server, ndots }) = dns {
            w.set("DNS", &server.to_string())?;
            w.set("DNSOption", &format!("ndots:{ndots}"))?;
        }
        w.set_or_arg("HostName", host_name, "--hostname")?;
        w.set("UserNS", userns)?;
        if let Some(shm) = &main.limits.shm {
            w.set("ShmSize", &shm.value.to_string())?;
        }
        // The gate ends before the others start. With Quadlet's default, `stop`, the pod would stop with it.
        w.set_or_arg("ExitPolicy", "continue", "--exit-policy")?;
        for (name, value) in labels {
            w.set_or_arg("Label", &format!("{name}={value}"), "--label")?;
        }
        w.arg("--no-hosts")?;
        for (name, value) in *sysctls {
            w.arg(&format!("--sysctl={name}={value}"))?;
        }
        if w.knows("StopTimeout") {
            w.set("StopTimeout", &pod.stop_timeout().to_string())?;
        }
        // Older versions overwrite it with on-failure (podman #28081), but nothing requires a pod that comes back.
        w.group("Service");
        if podman >= PodmanVersion::new(6, 0) {
            w.set("Restart", "no")?;
        }
        maker.podman_environment(&mut w, defaults::CONF)?;
        quadlet(&mut w)?;
        Ok(w.finish())
    }
}

/// A `.network` unit.
#[derive(Clone, Debug)]
pub struct Network {
    /// `[Unit]`.
    pub relations: Relations,
    /// The name in podman.
    pub name: String,
    /// The subnet.
    pub subnet: String,
    /// Whether it is the session's own network, which has no route out and is removed at the end. Otherwise it is the
    /// routers' network, which is kept.
    pub internal: bool,
    /// Its label.
    pub label: (String, String),
}

impl Network {
    /// The file's text.
    pub fn write(&self, podman: PodmanVersion) -> Result<String, EmitError> {
        let mut w = UnitWriter::new(podman, "");
        self.relations.write(&mut w)?;
        w.group("Network");
        w.set("NetworkName", &self.name)?;
        w.set("Subnet", &self.subnet)?;
        w.flag("DisableDNS", true)?;
        w.set("Label", &format!("{}={}", self.label.0, self.label.1))?;
        if self.internal {
            w.flag("Internal", true)?;
            if w.knows("NetworkDeleteOnStop") {
                w.flag("NetworkDeleteOnStop", true)?;
            } else {
                w.group("Service");
                w.set("ExecStopPost", &format!("podman network rm --force {}", self.name))?;
            }
        } else {
            w.set("Options", "isolate=strict")?;
        }
        quadlet(&mut w)?;
        Ok(w.finish())
    }
}

/// A `.volume` unit that outlives sessions.
#[derive(Clone, Debug)]
pub struct Volume {
    /// `[Unit]`.
    pub relations: Relations,
    /// The name in podman.
    pub name: String,
}

impl Volume {
    /// The file's text.
    pub fn write(&self, podman: PodmanVersion) -> Result<String, EmitError> {
        let mut w = UnitWriter::new(podman, "");
        self.relations.write(&mut w)?;
        w.group("Volume");
        w.set("VolumeName", &self.name)?;
        quadlet(&mut w)?;
        Ok(w.finish())
    }
}

/// A `.timer`, which systemd reads without Quadlet.
pub fn timer(podman: PodmanVersion, description: &str, calendar: &str, service: &str) -> Result<String, EmitError> {
    let mut w = UnitWriter::new(podman, "");
    w.group("Unit");
    w.set("Description", description)?;
    w.group("Timer");
    w.set("OnCalendar", calendar)?;
    // By default, systemd may start it a minute late.
    w.set("AccuracySec", "1s")?;
    w.set("Unit", service)?;
    // Enabled timers start with the user's systemd.
    w.group("Install");
    w.set("WantedBy", "timers.target")?;
    Ok(w.finish())
}

/// A `.target`, which systemd reads without Quadlet. It starts, stops and is active together with a service.
pub fn target(podman: PodmanVersion, description: &str, service: &str) -> Result<String, EmitError> {
    let mut w = UnitWriter::new(podman, "");
    w.group("Unit");
    w.set("Description", description)?;
    w.set("BindsTo", service)?;
    w.set("After", service)?;
    no_start_limit(&mut w)?;
    Ok(w.finish())
}

/// The text of a path, or an error if it contains what no mount can express.
pub fn path_text(path: &Path) -> Result<String, EmitError> {
    let refuse =
        |why: &str| EmitError::CannotKeep { what: format!("the path {}", path.display()), why: why.to_owned() };
    let text = path.to_str().ok_or_else(|| refuse("it is not UTF-8, which a unit requires"))?;
    match text.chars().any(char::is_control) {
        true => Err(refuse("it has a control character; rename the directory")),
        false => Ok(text.to_owned()),
    }
}
