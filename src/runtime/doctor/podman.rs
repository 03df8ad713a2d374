//! Checks of podman: its version and what `podman info` reports.

use serde_json::Value;

use super::super::podman::Podman;
use super::{Check, FIX_IDS, told};
use crate::emit::PodmanVersion as Version;

type Full = (u32, u32, u32);

/// Known vulnerabilities and the first fixed version of each. Distributions also patch older versions, which the version
/// number does not show, so these only warn.
const VULNERABILITIES: [(&str, &str, Full); 3] = [
    ("CVE-2025-9566", "a link in a ConfigMap volume overwrites a file of the host", (5, 6, 1)),
    ("CVE-2026-57231", "an image can import the host's environment", (5, 8, 4)),
    ("CVE-2026-17106", "see podman's release notes", (6, 1, 1)),
];

pub(super) fn version(podman: &Podman) -> Vec<Check> {
    let promise = "podman is 5.4 or newer";
    let fix = "install podman 5.4 or newer (Debian 13, Ubuntu 25.04, Fedora 41 and later have it)";
    let text = match podman.call("podman --version", &["--version"], None) {
        Ok(text) => text,
        Err(error) => return vec![Check::fail("podman", promise, told(&error), fix)],
    };
    match text.parse::<Version>() {
        Ok(version) if version >= Version::FLOOR => {
            vec![Check::ok("podman", promise, text.trim()), vulnerabilities(full(&text))]
        }
        _ => vec![Check::fail("podman", promise, text.trim(), fix)],
    }
}

/// Parses `podman version 5.4.2`. A part that is not a number counts as 0.
fn full(text: &str) -> Full {
    let word = text.split_whitespace().last().unwrap_or("");
    let mut numbers = word.split(['.', '-', '+', '~']).map(|part| part.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    (next(), next(), next())
}

fn vulnerabilities(version: Full) -> Check {
    let open: Vec<String> = VULNERABILITIES
        .iter()
        .filter(|(_, _, fixed)| version < *fixed)
        .map(|(id, what, (a, b, c))| format!("{id} ({what}; fixed in {a}.{b}.{c})"))
        .collect();
    let check = |found: String| Check::ok("podman-vulnerabilities", "podman has no known vulnerabilities", found);
    match open.is_empty() {
        true => check("none known for this version".to_owned()),
        false => check(format!("this version has {}, unless the distribution patched it", open.join(", ")))
            .warn("update podman, or check your distribution's security tracker"),
    }
}

/// Checks `podman info`, which also shows whether podman works at all.
pub(super) fn info(podman: &Podman) -> Vec<Check> {
    let promise = "podman works for this user";
    match podman.json("podman info", &["info"]) {
        Ok(values) => judge(values.first().unwrap_or(&Value::Null)),
        Err(error) => vec![Check::fail("podman-info", promise, told(&error), "podman system migrate")],
    }
}

fn judge(info: &Value) -> Vec<Check> {
    let text = |path: &str| info.pointer(path).and_then(Value::as_str).unwrap_or("").to_owned();
    let is = |path: &str| info.pointer(path).and_then(Value::as_bool).unwrap_or(false);
    let or = |good: bool, check, promise, found: String, fix: &str| match good {
        true => Check::ok(check, promise, found),
        false => Check::fail(check, promise, found, fix),
    };
    let (cgroup, manager, backend) =
        (text("/host/cgroupVersion"), text("/host/cgroupManager"), text("/host/networkBackend"));
    let dns = text("/host/networkBackendInfo/version");
    let sub = |which: &str| -> u64 {
        let list = info.pointer(which).and_then(Value::as_array);
        let sizes = list.into_iter().flatten().filter_map(|map| map.get("size").and_then(Value::as_u64));
        sizes.max().unwrap_or(0)
    };
    let subids = sub("/host/idMappings/uidmap").min(sub("/host/idMappings/gidmap"));
    vec![
        or(
            is("/host/security/rootless") && !is("/host/serviceIsRemote"),
            "rootless",
            "podman is rootless and local",
            format!("rootless {}, remote {}", is("/host/security/rootless"), is("/host/serviceIsRemote")),
            "run sandboxc as an unprivileged user, on the machine that podman runs on",
        ),
        or(
            cgroup == "v2" && manager == "systemd",
            "cgroup",
            "podman uses cgroup v2 and systemd",
            format!("cgroup {cgroup}, manager {manager}"),
            "boot with systemd.unified_cgroup_hierarchy=1, and log in through systemd (ssh, a console, machinectl shell)",
        ),
        or(
            subids >= 65_536,
            "subids",
            "this user has 65536 subordinate ids",
            format!("{subids} in one range"),
            FIX_IDS,
        ),
        or(
            backend == "netavark",
            "network-backend",
            "podman uses netavark",
            if dns.is_empty() { backend } else { dns },
            "set network_backend = \"netavark\" under [network] in containers.conf, then podman system reset",
        ),
        or(
            is("/host/security/seccompEnabled"),
            "seccomp",
            "podman filters system calls (seccomp)",
            format!("seccomp {}", is("/host/security/seccompEnabled")),
            "use a kernel with CONFIG_SECCOMP_FILTER and a container runtime built with seccomp",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;
    use serde_json::json;

    #[test]
    fn each_version_reports_its_vulnerabilities() {
        assert_eq!(full("podman version 5.4.2\n"), (5, 4, 2));
        assert_eq!(full("podman version 6.0.0-rc1"), (6, 0, 0));
        let open = |v| vulnerabilities(v).found;
        assert!(open((5, 4, 2)).contains("9566") && open((5, 4, 2)).contains("57231"));
        assert!(!open((5, 8, 4)).contains("57231") && open((5, 8, 4)).contains("17106"));
        assert_eq!(vulnerabilities((6, 1, 1)).level, Level::Ok);
        assert_eq!(vulnerabilities((5, 8, 5)).level, Level::Warn);
    }

    #[test]
    fn every_check_of_an_empty_answer_fails_with_a_fix() {
        let checks = judge(&json!({}));
        assert!(checks.iter().all(|check| check.level == Level::Fail && check.fix.is_some()), "{checks:?}");
    }
}
