//! The emitted keys, with the first podman that knows each and the syntax it is parsed with. A key that the installed
//! podman does not know makes the whole unit disappear at `daemon-reload`.
//!
//! The versions were computed from `pkg/systemd/quadlet/quadlet.go` of every podman tag.

use super::syntax::Syntax;
use crate::emit::PodmanVersion;

/// A key of a group.
#[derive(Clone, Copy, Debug)]
pub struct UnitKey {
    /// `Container`, `Pod`, …
    pub group: &'static str,
    /// Its name.
    pub name: &'static str,
    /// The first podman that knows it.
    pub since: PodmanVersion,
    /// How it is parsed.
    pub syntax: Syntax,
}

const fn key(group: &'static str, name: &'static str, since: (u16, u16), syntax: Syntax) -> UnitKey {
    UnitKey { group, name, since: PodmanVersion::new(since.0, since.1), syntax }
}

use Syntax::{Exec, Native, Raw, Stripped, Strv};

/// All keys that the writer may use.
pub const KEYS: &[UnitKey] = &[
    key("Container", "AddCapability", (4, 4), Strv),
    key("Container", "AddDevice", (4, 4), Strv),
    key("Container", "ContainerName", (4, 4), Stripped),
    key("Container", "DNS", (4, 7), Raw),
    key("Container", "DNSOption", (4, 7), Raw),
    key("Container", "DropCapability", (4, 4), Strv),
    key("Container", "Entrypoint", (5, 0), Stripped),
    key("Container", "Environment", (4, 4), Exec),
    key("Container", "EnvironmentFile", (4, 4), Exec),
    key("Container", "EnvironmentHost", (4, 4), Stripped),
    key("Container", "GlobalArgs", (5, 0), Exec),
    key("Container", "Group", (4, 4), Stripped),
    key("Container", "HostName", (4, 6), Stripped),
    key("Container", "HttpProxy", (5, 7), Stripped),
    key("Container", "Image", (4, 4), Stripped),
    key("Container", "Label", (4, 4), Exec),
    key("Container", "LogDriver", (4, 5), Stripped),
    key("Container", "Memory", (5, 5), Stripped),
    key("Container", "Network", (4, 4), Raw),
    key("Container", "NoNewPrivileges", (4, 4), Stripped),
    key("Container", "PidsLimit", (4, 7), Stripped),
    key("Container", "Pod", (5, 0), Stripped),
    key("Container", "PodmanArgs", (4, 4), Exec),
    key("Container", "Pull", (4, 6), Stripped),
    key("Container", "ReadOnly", (4, 4), Stripped),
    key("Container", "RunInit", (4, 4), Stripped),
    key("Container", "SeccompProfile", (4, 4), Stripped),
    key("Container", "SecurityLabelDisable", (4, 5), Stripped),
    key("Container", "SecurityLabelType", (4, 5), Stripped),
    key("Container", "StartWithPod", (5, 3), Stripped),
    key("Container", "StopTimeout", (5, 0), Stripped),
    key("Container", "Sysctl", (4, 6), Strv),
    key("Container", "Unmask", (4, 6), Exec),
    key("Container", "User", (4, 4), Stripped),
    key("Container", "UserNS", (4, 5), Stripped),
    key("Container", "Volume", (4, 4), Raw),
    key("Container", "WorkingDir", (4, 6), Stripped),
    key("Pod", "DNS", (5, 3), Raw),
    key("Pod", "DNSOption", (5, 3), Raw),
    key("Pod", "GlobalArgs", (5, 0), Exec),
    key("Pod", "ExitPolicy", (5, 6), Stripped),
    key("Pod", "HostName", (5, 5), Stripped),
    key("Pod", "Label", (5, 6), Exec),
    key("Pod", "Network", (5, 0), Raw),
    key("Pod", "PodName", (5, 0), Stripped),
    key("Pod", "PodmanArgs", (5, 0), Exec),
    key("Pod", "ShmSize", (5, 4), Stripped),
    key("Pod", "StopTimeout", (5, 7), Stripped),
    key("Pod", "UserNS", (5, 3), Stripped),
    key("Network", "DisableDNS", (4, 4), Stripped),
    key("Network", "Internal", (4, 4), Stripped),
    key("Network", "Label", (4, 4), Exec),
    key("Network", "NetworkDeleteOnStop", (5, 5), Stripped),
    key("Network", "NetworkName", (4, 7), Stripped),
    key("Network", "Options", (4, 4), Exec),
    key("Network", "Subnet", (4, 4), Raw),
    key("Build", "GlobalArgs", (5, 2), Exec),
    key("Build", "File", (5, 2), Stripped),
    key("Build", "ImageTag", (5, 2), Stripped),
    key("Build", "SetWorkingDirectory", (5, 2), Stripped),
    key("Image", "Image", (4, 8), Stripped),
    key("Image", "Policy", (5, 6), Stripped),
    key("Volume", "VolumeName", (4, 7), Stripped),
    key("Quadlet", "DefaultDependencies", (5, 3), Stripped),
    key("Install", "WantedBy", (4, 4), Native),
];

/// The groups that systemd itself reads; Quadlet copies their keys.
pub const NATIVE: [&str; 3] = ["Unit", "Service", "Timer"];

/// Looks a key up.
pub fn find(group: &str, name: &str) -> Option<&'static UnitKey> {
    KEYS.iter().find(|key| key.group == group && key.name == name)
}
