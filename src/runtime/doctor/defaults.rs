//! Finds the keys by which this host's podman configuration would change every container.

use std::fs;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::Check;
use crate::emit::defaults;

/// Settings in distributions' files that equal podman's built-in default.
const HARMLESS: [(&str, &str); 1] = [("default_sysctls", "net.ipv4.ping_group_range=0 0")];

/// Where this user's podman reads its configuration (containers.conf(5), containers-mounts.conf(5)).
#[derive(Debug)]
pub(super) struct Places {
    /// `$HOME`.
    pub(super) home: Option<PathBuf>,
    /// `$XDG_CONFIG_HOME`, or its default.
    pub(super) config: Option<PathBuf>,
    /// `$CONTAINERS_CONF`, which replaces all others, and `$CONTAINERS_CONF_OVERRIDE`, which is read after them.
    pub(super) named: [Option<PathBuf>; 2],
    /// `/`, except in tests.
    pub(super) root: PathBuf,
}

impl Places {
    pub(super) fn of_this_user() -> Self {
        let path = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = path("HOME");
        Self {
            config: path("XDG_CONFIG_HOME").or_else(|| Some(home.as_ref()?.join(".config"))),
            named: [path("CONTAINERS_CONF"), path(defaults::CONF_VARIABLE)],
            home,
            root: PathBuf::from("/"),
        }
    }

    /// Every `containers.conf`, in the order in which podman reads them.
    fn confs(&self) -> Vec<PathBuf> {
        let [instead, after] = &self.named;
        let mut all = Vec::new();
        if let Some(path) = instead {
            all.push(path.clone());
        } else {
            let system = ["usr/share/containers", "etc/containers"].map(|dir| self.root.join(dir));
            let user = self.config.iter().map(|config| config.join("containers"));
            for dir in system.into_iter().chain(user) {
                for name in ["containers.conf", "containers.rootless.conf"] {
                    all.push(dir.join(name));
                    all.extend(drop_ins(&dir.join(format!("{name}.d"))));
                }
            }
        }
        all.extend(after.clone());
        all
    }

    /// The `mounts.conf` in force: the first that exists.
    fn mounts(&self) -> Option<PathBuf> {
        let user = self.home.iter().map(|home| home.join(".config/containers/mounts.conf"));
        let system =
            ["etc/containers/mounts.conf", "usr/share/containers/mounts.conf"].map(|path| self.root.join(path));
        user.chain(system).find(|path| path.exists())
    }
}

fn drop_ins(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut all: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|e| e == "conf")).collect();
    all.sort();
    all
}

pub(super) fn check(places: &Places) -> Check {
    let found = keys(places);
    let check =
        |found: String| Check::ok("defaults", "this host's podman configuration does not change sandboxes", found);
    match found.is_empty() {
        true => check("containers.conf and mounts.conf change no containers".to_owned()),
        false => check(format!("sandboxc overrides {}", found.join(", "))).warn(
            "not needed for `run`, scripts and units; remove these keys before you play a manifest with `podman kube play`",
        ),
    }
}

/// The keys that would change a container, each with its file.
fn keys(places: &Places) -> Vec<String> {
    let ours: Table = defaults::text().parse().unwrap_or_default();
    let mut all = Vec::new();
    for path in places.confs() {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let Ok(table) = text.parse::<Table>() else {
            all.push(format!("{} (cannot be read as TOML)", path.display()));
            continue;
        };
        for (section, keys) in &ours {
            let (Some(keys), Some(theirs)) = (keys.as_table(), table.get(section).and_then(Value::as_table)) else {
                continue;
            };
            let differs =
                |(key, value): &(&String, &Value)| theirs.get(*key).is_some_and(|other| matters(key, other, value));
            all.extend(keys.iter().filter(differs).map(|(key, _)| format!("{section}.{key} ({})", path.display())));
        }
    }
    let subscriptions = places.mounts().filter(|path| {
        fs::read_to_string(path).is_ok_and(|text| text.lines().any(|line| line.trim_start().starts_with('/')))
    });
    all.extend(subscriptions.map(|path| path.display().to_string()));
    all
}

fn matters(key: &str, theirs: &Value, ours: &Value) -> bool {
    let strings = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    match theirs {
        Value::Array(_) => {
            let added = strings(theirs);
            !added.is_empty() && !HARMLESS.iter().any(|(name, value)| *name == key && added == [*value])
        }
        _ => theirs != ours,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_is_named_with_its_file_and_what_changes_nothing_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let write = |path: &str, text: &str| {
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), text).unwrap();
        };
        let places = |named| Places {
            home: Some(root.join("home")),
            config: Some(root.join("config")),
            named,
            root: root.to_owned(),
        };
        let plain = places([None, None]);
        write(
            "usr/share/containers/containers.conf",
            "[containers]\ndefault_sysctls = [\"net.ipv4.ping_group_range=0 0\"]\n",
        );
        write(
            "etc/containers/containers.conf",
            "[containers]\npids_limit = 0\nvolumes = []\nutsns = \"private\"\n[engine]\nruntime = \"crun\"\n",
        );
        assert_eq!(keys(&plain), [""; 0]);
        assert_eq!(check(&plain).level, super::super::Level::Ok);
        write(
            "config/containers/containers.conf.d/a.conf",
            "[containers]\nenv = [\"A=1\", {append = true}]\nlabel = false\n",
        );
        write("config/containers/containers.conf.d/a.txt", "[containers]\nprivileged = true\n");
        write("home/.config/containers/mounts.conf", "# none\n/secrets:/run/secrets\n");
        write("etc/containers/mounts.conf", "");
        let named: Vec<String> = keys(&plain).iter().map(|key| key.replace(root.to_str().unwrap(), "")).collect();
        let file = "config/containers/containers.conf.d/a.conf";
        assert_eq!(
            named,
            [
                format!("containers.env (/{file})"),
                format!("containers.label (/{file})"),
                "/home/.config/containers/mounts.conf".to_owned()
            ]
        );
        write("one.conf", "[engine]\nhooks_dir = [\"/x\"]\n");
        write("broken.conf", "[");
        let only = keys(&places([Some(root.join("one.conf")), Some(root.join("broken.conf"))]));
        assert!(only.len() == 3 && only[0].starts_with("engine.hooks_dir") && only[1].contains("TOML"), "{only:?}");
    }

    #[test]
    fn our_file_is_toml_with_both_sections() {
        let ours: Table = defaults::text().parse().unwrap();
        assert!(ours["containers"].as_table().unwrap().len() > 25 && ours["engine"].as_table().unwrap().len() > 2);
        assert!(defaults::for_builds().parse::<Table>().is_ok());
    }
}
