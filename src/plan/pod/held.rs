//! Sources that the container itself could replace.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{Mount, Source};

/// Mounts that protect each source that lies in a writable mount, and its parent directories: each is mounted on
/// itself. A mount point can be neither renamed nor removed, so the command cannot put a link where the next start
/// looks for the source. What is already mounted on itself, or cannot be reached, is left out.
pub(super) fn held(mounts: &[Mount]) -> Vec<Mount> {
    let mut all: BTreeMap<PathBuf, Mount> = BTreeMap::new();
    for around in mounts.iter().filter(|mount| !mount.read_only) {
        for inner in mounts {
            let (Some(base), Some(source)) = (host(around), host(inner)) else { continue };
            let below = source.strip_prefix(base).unwrap_or(Path::new(""));
            for path in below.ancestors().filter(|path| !path.as_os_str().is_empty()) {
                let (source, target) = (base.join(path), around.target.join(path));
                if is_open(mounts, &source, &target) {
                    let (source, from) = (Source::Host(source), inner.from.clone());
                    all.insert(target.clone(), Mount { source, target, from, ..around.clone() });
                }
            }
        }
    }
    let number = |(index, mount)| Mount { name: format!("held-{index}"), ..mount };
    all.into_values().enumerate().map(number).collect()
}

/// The host path of a mount.
fn host(mount: &Mount) -> Option<&Path> {
    mount.source.host()
}

/// Whether the container sees the source at the target, in a writable mount, with nothing mounted over it.
fn is_open(mounts: &[Mount], source: &Path, target: &Path) -> bool {
    let around = mounts.iter().filter(|mount| target.starts_with(&mount.target));
    around.max_by_key(|mount| mount.target.components().count()).is_some_and(|mount| {
        let rest = target.strip_prefix(&mount.target).unwrap_or(Path::new(""));
        !mount.read_only && !rest.as_os_str().is_empty() && host(mount).is_some_and(|host| host.join(rest) == source)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Place;

    fn mount(source: &str, target: &str, read_only: bool) -> Mount {
        Mount {
            name: "m".to_owned(),
            source: Source::Host(source.into()),
            target: target.into(),
            read_only,
            relabel: false,
            options: Vec::new(),
            from: Place::built_in(),
        }
    }

    fn targets(mounts: &[Mount]) -> Vec<String> {
        let held = held(mounts);
        for mount in &held {
            assert!(is_open(mounts, host(mount).unwrap(), &mount.target) && !mount.read_only);
        }
        held.iter().map(|mount| format!("{} {}", host(mount).unwrap().display(), mount.target.display())).collect()
    }

    #[test]
    fn a_source_in_a_writable_mount_is_held_with_the_directories_around_it() {
        let workspace = mount("/ws", "/w", false);
        let mounts = [workspace.clone(), mount("/ws/a/data", "/data", true), mount("/other", "/other", false)];
        assert_eq!(targets(&mounts), ["/ws/a /w/a", "/ws/a/data /w/a/data"]);
        let twice = [workspace.clone(), mount("/ws/a/b", "/b", false), mount("/ws/a/c", "/c", false)];
        assert_eq!(targets(&twice), ["/ws/a /w/a", "/ws/a/b /w/a/b", "/ws/a/c /w/a/c"]);
        let in_another = [workspace, mount("/share", "/s", false), mount("/share/x", "/x", false)];
        assert_eq!(targets(&in_another), ["/share/x /s/x"]);
    }

    #[test]
    fn what_is_read_only_hidden_or_held_already_is_left() {
        let data = mount("/ws/a/data", "/data", true);
        assert!(targets(&[mount("/ws", "/w", true), data.clone()]).is_empty());
        let workspace = mount("/ws", "/w", false);
        assert!(targets(&[workspace.clone(), mount("/ws", "/again", true)]).is_empty(), "the same source");
        let kept = mount("/ws/a", "/w/a", true);
        assert!(targets(&[workspace.clone(), kept, data.clone()]).is_empty());
        let hidden = mount("/elsewhere", "/w/a", false);
        assert!(targets(&[workspace.clone(), hidden, data.clone()]).is_empty());
        let on_itself = mount("/ws/a", "/w/a", false);
        assert_eq!(targets(&[workspace, on_itself, data]), ["/ws/a/data /w/a/data"]);
    }
}
