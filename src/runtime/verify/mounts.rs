//! Compares mounts and devices: those of the plan and those that podman creates for every container are permitted, no
//! others.

use std::path::Path;

use super::{Difference, MountPoint, Subject, oci};
use crate::plan::pod::{FileSet, Handover, MaterialSet, Mount, Source};
use crate::plan::{MaterialStore, trust};

/// File systems of the kernel or in memory, wherever they are mounted.
const VIRTUAL: [(&str, &str); 9] = [
    ("/proc", "proc"),
    ("/sys", "sysfs"),
    ("/sys/fs/cgroup", "cgroup"),
    ("/dev", "tmpfs"),
    ("/dev/pts", "devpts"),
    ("/dev/mqueue", "mqueue"),
    ("/run", "tmpfs"),
    ("/tmp", "tmpfs"),
    ("/var/tmp", "tmpfs"),
];

/// What podman creates for a container in its own directories.
const OWN: [&str; 6] =
    ["/etc/hostname", "/etc/resolv.conf", "/run/.containerenv", "/dev/shm", "/etc/passwd", "/etc/group"];

/// podman's init (libpod `ContainerInitPath`).
const INIT: &str = "/run/podman-init";

/// The only program of an infra container without an image (podman 5.8; earlier ones build an image of it).
const PAUSE: &str = "/catatonit";

/// The host is in FIPS mode (containers-common `subscriptions.go`), which podman announces with files inside.
const FIPS: (&str, [&str; 2]) = ("/etc/system-fips", ["/run/secrets", "/etc/crypto-policies/back-ends"]);

impl Subject<'_> {
    pub(super) fn mounts(&self) -> Vec<Difference> {
        let planned: &[Mount] = self.planned.map_or(&[], |container| &container.mounts);
        let mut all = Vec::new();
        for mount in planned {
            let found = self.config.mounts.iter().find(|other| other.destination == mount.target);
            let good = found.is_some_and(|found| self.is_planned(mount, found));
            if !good {
                let seen = found.map_or("no mount".to_owned(), describe);
                all.push(Difference::new(format!("{seen} at {}", mount.target.display()), intent(mount)));
            }
        }
        let of_plan = |at: &Path| planned.iter().any(|mount| mount.target == at);
        for mount in self.config.mounts.iter().filter(|mount| !of_plan(&mount.destination)) {
            if !(self.is_podmans(mount) || self.is_device(&mount.destination) || self.is_of_image(mount)) {
                let what = format!("{} at {}", describe(mount), mount.destination.display());
                all.push(Difference::new(what, "nothing there"));
            }
        }
        let other = self.config.linux.devices.iter().find(|device| !self.is_device(&device.path));
        all.extend(
            other.map(|device| Difference::new(format!("the device {}", device.path.display()), "no such device")),
        );
        all
    }

    /// Whether it has the source from the plan, and is read-only and restricted as planned.
    fn is_planned(&self, mount: &Mount, found: &oci::Mount) -> bool {
        let Mount { name: _, source, target, read_only, relabel: _, options, from: _ } = mount;
        let has = |word: &str| found.options.iter().any(|option| option == word);
        if has("ro") != *read_only || !options.iter().all(|option| has(option.word())) {
            return false;
        }
        let point = self.seen.mounts.iter().find(|point| point.destination == *target);
        match source {
            Source::Memory(_) => found.r#type == "tmpfs",
            // Only units have it, and nothing verifies those.
            Source::Program(_) => false,
            Source::Host(path) | Source::StandIn { path, .. } => found.source == *path,
            Source::Handover(Handover::Directory(dir)) => found.source == *dir,
            Source::Volume(name) | Source::Handover(Handover::Volume(name)) => is_volume(point, found, name),
            Source::Files { set, file } => {
                let names = &self.plan.names;
                let name = match set {
                    FileSet::Router => &names.router_files,
                    FileSet::Forwarder | FileSet::Agent => &names.agent_files,
                };
                match file {
                    None => is_volume(point, found, name),
                    // podman opens a file of a volume and binds it in the container's directory.
                    Some(file) => {
                        let same = |point: &MountPoint| {
                            point.name == *name && point.sub_path.as_deref().is_none_or(|p| p == *file)
                        };
                        point.is_some_and(same) && self.is_own(&found.source)
                    }
                }
            }
            Source::Material { set, file } => {
                let Some(MaterialStore::Directory(dir)) = self.plan.materials.as_ref().map(|all| &all.store) else {
                    return false;
                };
                let dir = match set {
                    MaterialSet::Router => trust::router_dir(dir),
                    MaterialSet::Agent => trust::agent_dir(dir),
                    MaterialSet::Secrets => trust::secrets_dir(dir),
                };
                found.source == file.map_or(dir.clone(), |file| dir.join(file))
            }
        }
    }

    /// Whether every container has this mount.
    fn is_podmans(&self, mount: &oci::Mount) -> bool {
        let at = |path: &str| mount.destination == Path::new(path);
        let has = |word: &str| mount.options.iter().any(|option| option == word);
        let bind = mount.r#type == "bind";
        let virtual_fs = VIRTUAL.iter().any(|(path, kind)| at(path) && mount.r#type == *kind);
        // If the pod has its own user namespace, the kernel only permits the host's sysfs.
        let sysfs = bind && at("/sys") && mount.source == Path::new("/sys") && has("ro");
        let init = bind && at(INIT) && has("ro") && self.planned.is_some_and(|container| container.init);
        let infra = self.planned.is_none();
        let pause = bind && at(PAUSE) && has("ro") && infra && mount.source.file_name() == Path::new(PAUSE).file_name();
        let own = OWN.iter().any(|path| at(path)) && bind && self.is_own(&mount.source);
        let fips = FIPS.1.iter().any(|path| at(path)) && bind && Path::new(FIPS.0).exists();
        virtual_fs || sysfs || init || pause || own || fips
    }

    /// Whether the source is podman's own directory for this container or for its pod's infra container.
    fn is_own(&self, source: &Path) -> bool {
        [self.seen, self.infra].into_iter().any(|one| {
            let dirs = [one.oci_config_path.as_deref(), Some(one.conmon_pid_file.as_path())];
            let mut dirs = dirs.into_iter().flatten().filter_map(Path::parent);
            dirs.any(|dir| dir.is_absolute() && source != dir && source.starts_with(dir))
        })
    }

    fn is_device(&self, at: &Path) -> bool {
        self.planned.is_some_and(|container| container.devices.iter().any(|device| device.path == at))
    }

    /// An anonymous volume that the image declares (`VOLUME`), empty or with the image's content.
    fn is_of_image(&self, mount: &oci::Mount) -> bool {
        let point = self.seen.mounts.iter().find(|point| point.destination == mount.destination);
        let declared = self.image.and_then(|image| image.volumes.as_ref());
        let anonymous = |point: &MountPoint| {
            point.name.len() == 64
                && point.name.bytes().all(|b| b.is_ascii_hexdigit())
                && is_volume(Some(point), mount, &point.name)
        };
        declared.is_some_and(|volumes| volumes.contains_key(&mount.destination)) && point.is_some_and(anonymous)
    }
}

fn is_volume(point: Option<&MountPoint>, found: &oci::Mount, name: &str) -> bool {
    point.is_some_and(|point| point.r#type == "volume" && point.name == name && point.source == found.source)
}

fn describe(mount: &oci::Mount) -> String {
    let read_only = if mount.options.iter().any(|option| option == "ro") { "read-only" } else { "read-write" };
    format!("a {} of {}, {read_only},", mount.r#type, mount.source.display())
}

fn intent(mount: &Mount) -> String {
    let mode = if mount.read_only { "read-only" } else { "read-write" };
    format!("{}, {mode}", mount.name)
}
