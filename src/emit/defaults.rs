//! Overrides podman's own defaults, which would otherwise apply to every container.
//!
//! `containers.conf` and its drop-ins can add volumes, devices, variables, capabilities or hooks to every container, or
//! remove its seccomp profile; `mounts.conf` adds files of the host. Our file is read last (`CONTAINERS_CONF_OVERRIDE`,
//! containers.conf(5)) and resets each of those keys. What the host needs (storage, runtime, registries, networks,
//! cgroups, helpers) stays as it is.

use super::File;
use crate::plan::Plan;

/// The name of the file.
pub const CONF: &str = "containers.conf";

/// The variable that makes podman read a file after all others (containers-common 0.52, podman 4.5).
pub const CONF_VARIABLE: &str = "CONTAINERS_CONF_OVERRIDE";

/// Options that come before the verb of every call: podman reads the list of files to copy into containers from here
/// instead of `mounts.conf` (containers-mounts.conf(5)).
pub const GLOBAL_ARGS: [&str; 1] = ["--default-mounts-file=/dev/null"];

/// The only variables that podman gets: where its programs, its storage and the user's systemd are. podman reads
/// `CONTAINERS_CONF` in place of the host's own files, and our file after it.
pub const KEPT_VARIABLES: [&str; 15] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_CACHE_HOME",
    "DBUS_SESSION_BUS_ADDRESS",
    "CONTAINERS_CONF",
    "CONTAINERS_STORAGE_CONF",
    "CONTAINERS_REGISTRIES_CONF",
    "CONTAINERS_HELPER_BINARY_DIR",
];

/// The capabilities that the steps of a Containerfile have: podman's own default (containers.conf(5)).
const BUILD_CAPABILITIES: &str = "[\"CHOWN\", \"DAC_OVERRIDE\", \"FOWNER\", \"FSETID\", \"KILL\", \"NET_BIND_SERVICE\", \"SETFCAP\", \
                                  \"SETGID\", \"SETPCAP\", \"SETUID\", \"SYS_CHROOT\", {append=false}]";

const NO_CAPABILITIES: &str = "default_capabilities = [{append=false}]";

/// The text for sandboxes.
pub const fn text() -> &'static str {
    include_str!("../../templates/containers.conf")
}

/// The text for builds, whose steps install packages and may need the host's proxy.
pub fn for_builds() -> String {
    text()
        .replace(NO_CAPABILITIES, &format!("default_capabilities = {BUILD_CAPABILITIES}"))
        .replace("http_proxy = false", "http_proxy = true")
}

/// The size of `/dev/shm` in [`text`]. Nothing else tells kube play.
const SHM_SIZE: &str = "shm_size = \"65536k\"";

/// The text for a plan's containers.
pub fn of(plan: &Plan) -> String {
    match &plan.agent.main.limits.shm {
        Some(shm) => text().replace(SHM_SIZE, &format!("shm_size = \"{}\"", shm.value)),
        None => text().to_owned(),
    }
}

/// The file of the compiled tree.
pub fn file(plan: &Plan) -> File {
    File::new(CONF, of(plan))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_have_capabilities_and_the_hosts_proxy_and_sandboxes_neither() {
        let builds = for_builds();
        assert!(text().contains(SHM_SIZE));
        assert!(text().contains(NO_CAPABILITIES) && !builds.contains(NO_CAPABILITIES));
        assert!(builds.contains("\"SETUID\"") && builds.contains("http_proxy = true"));
        let same =
            |text: &str| text.lines().filter(|line| !line.contains("capabilities") && !line.contains("proxy")).count();
        assert_eq!(same(text()), same(&builds), "nothing else differs");
    }
}
