//! podman itself: its version, and what it says about itself.

use serde_json::Value;

use super::super::podman::Podman;
use super::{Check, MEND_IDS, told};
use crate::emit::Podman as Version;

type Full = (u32, u32, u32);

/// Known holes, and the first version without each. Distributions mend older versions too, which the number does not
/// show: hence a warning, no failure.
const HOLES: [(&str, &str, Full); 3] = [
    ("CVE-2025-9566", "a link in a volume of files overwrites a file of the host", (5, 6, 1)),
    ("CVE-2026-57231", "an image can import the host's environment", (5, 8, 4)),
    ("CVE-2026-17106", "see podman's release notes", (6, 1, 1)),
];

pub(super) fn version(podman: &Podman) -> Vec<Check> {
    let promise = "podman is 5.4 or newer";
    let mend = "install podman 5.4 or newer (Debian 13, Ubuntu 25.04, Fedora 41 and later have it)";
    let text = match podman.call("podman --version", &["--version"], None) {
        Ok(text) => text,
        Err(error) => return vec![Check::broken("podman", promise, told(&error), mend)],
    };
    match text.parse::<Version>() {
        Ok(version) if version >= Version::FLOOR => {
            vec![Check::kept("podman", promise, text.trim()), holes(full(&text))]
        }
        _ => vec![Check::broken("podman", promise, text.trim(), mend)],
    }
}

/// `podman version 5.4.2` as numbers; what is no number counts as 0.
fn full(text: &str) -> Full {
    let word = text.split_whitespace().last().unwrap_or("");
    let mut numbers = word.split(['.', '-', '+', '~']).map(|part| part.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    (next(), next(), next())
}

fn holes(version: Full) -> Check {
    let open: Vec<String> = HOLES
        .iter()
        .filter(|(_, _, fixed)| version < *fixed)
        .map(|(id, what, (a, b, c))| format!("{id} ({what}; mended in {a}.{b}.{c})"))
        .collect();
    let check = |found: String| Check::kept("podman-holes", "no known hole of podman is open", found);
    match open.is_empty() {
        true => check("none known".to_owned()),
        false => check(format!("open unless the distribution has mended it: {}", open.join(", ")))
            .warning("update podman, or look the numbers up in your distribution's security tracker"),
    }
}

/// What `podman info` says. One call, which also shows that podman works at all.
pub(super) fn info(podman: &Podman) -> Vec<Check> {
    let promise = "podman works for this user";
    match podman.json("podman info", &["info"]) {
        Ok(values) => judge(values.first().unwrap_or(&Value::Null)),
        Err(error) => vec![Check::broken("podman-info", promise, told(&error), "podman system migrate")],
    }
}

fn judge(info: &Value) -> Vec<Check> {
    let text = |path: &str| info.pointer(path).and_then(Value::as_str).unwrap_or("").to_owned();
    let is = |path: &str| info.pointer(path).and_then(Value::as_bool).unwrap_or(false);
    let or = |good: bool, check, promise, found: String, mend: &str| match good {
        true => Check::kept(check, promise, found),
        false => Check::broken(check, promise, found, mend),
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
            "containers are rootless, and on this machine",
            format!("rootless {}, remote {}", is("/host/security/rootless"), is("/host/serviceIsRemote")),
            "run sandboxc as an unprivileged user of the machine that podman runs on",
        ),
        or(
            cgroup == "v2" && manager == "systemd",
            "cgroup",
            "cgroup v2 with systemd",
            format!("cgroup {cgroup}, manager {manager}"),
            "boot with systemd.unified_cgroup_hierarchy=1, and log in through systemd (ssh, a console, machinectl shell)",
        ),
        or(
            subids >= 65_536,
            "subids",
            "this user has 65536 subordinate ids",
            format!("{subids} in one range"),
            MEND_IDS,
        ),
        or(
            backend == "netavark",
            "network-backend",
            "networks are netavark's",
            if dns.is_empty() { backend } else { dns },
            "set network_backend = \"netavark\" under [network] in containers.conf, then podman system reset",
        ),
        or(
            is("/host/security/seccompEnabled"),
            "seccomp",
            "system calls are filtered",
            format!("seccomp {}", is("/host/security/seccompEnabled")),
            "a kernel with CONFIG_SECCOMP_FILTER, and a container runtime built with it",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;
    use serde_json::json;

    #[test]
    fn versions_and_their_holes() {
        assert_eq!(full("podman version 5.4.2\n"), (5, 4, 2));
        assert_eq!(full("podman version 6.0.0-rc1"), (6, 0, 0));
        let open = |v| holes(v).found;
        assert!(open((5, 4, 2)).contains("9566") && open((5, 4, 2)).contains("57231"));
        assert!(!open((5, 8, 4)).contains("57231") && open((5, 8, 4)).contains("17106"));
        assert_eq!(holes((6, 1, 1)).level, Level::Kept);
        assert_eq!(holes((5, 8, 5)).level, Level::Warning);
    }

    #[test]
    fn every_line_of_an_empty_answer_is_broken_and_says_what_to_do() {
        let checks = judge(&json!({}));
        assert!(checks.iter().all(|check| check.level == Level::Broken && check.mend.is_some()), "{checks:?}");
    }
}
