//! Mounts and devices: volumes of the pod, and where each container mounts them.

use std::path::Path;

use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, EmptyDirVolumeSource, HostPathVolumeSource, PersistentVolumeClaimVolumeSource,
    SecretVolumeSource, Volume, VolumeMount,
};

use crate::config::Stand;
use crate::plan::pod::{Container, Device, FileSet, Handover, MaterialSet, Mount, MountOption, Pod, Source};
use crate::plan::{MaterialStore, Part, trust};

use super::{EmitError, Maker, Sources, path_text};

impl Maker<'_> {
    /// Each volume once, in the order in which containers first mount it.
    pub(super) fn volumes(self, pod: &Pod) -> Result<Vec<Volume>, EmitError> {
        let mut volumes: Vec<Volume> = Vec::new();
        for container in pod.containers() {
            for (volume, _) in self.mounted(container)? {
                match volumes.iter().find(|other| other.name == volume.name) {
                    Some(same) if *same == volume => {}
                    Some(_) => return Err(EmitError::Internal(format!("two volumes have the name {}", volume.name))),
                    None => volumes.push(volume),
                }
            }
        }
        Ok(volumes)
    }

    pub(super) fn mounts(self, container: &Container) -> Result<Vec<VolumeMount>, EmitError> {
        Ok(self.mounted(container)?.into_iter().map(|(_, mount)| mount).collect())
    }

    fn mounted(self, container: &Container) -> Result<Vec<(Volume, VolumeMount)>, EmitError> {
        let mut all = Vec::new();
        for mount in &container.mounts {
            all.extend(self.mount(mount)?);
        }
        for device in &container.devices {
            all.push(self::device(device)?);
        }
        Ok(all)
    }

    fn mount(self, mount: &Mount) -> Result<Vec<(Volume, VolumeMount)>, EmitError> {
        let Mount { name, source, target, read_only, relabel, options, from: _ } = mount;
        let at = |path: &Path, volume: &str, file: Option<&str>, suffix: &str| -> Result<VolumeMount, EmitError> {
            Ok(VolumeMount {
                name: volume.to_owned(),
                mount_path: format!("{}{suffix}", path_text(path)?),
                read_only: read_only.then_some(true),
                sub_path: file.map(str::to_owned),
                ..VolumeMount::default()
            })
        };
        // podman labels the volumes that it creates itself: of files, secrets and names.
        let (plain, labeled) = (suffix(options, false), suffix(options, *relabel));
        Ok(match source {
            Source::Files { set, file } => {
                let map = match set {
                    FileSet::Router => &self.plan.names.router_files,
                    FileSet::Forwarder | FileSet::Agent => &self.plan.names.agent_files,
                };
                vec![(config_volume(name, map), at(target, name, *file, &plain)?)]
            }
            Source::Host(path) => vec![(self.host(name, path, None)?, at(target, name, None, &labeled)?)],
            Source::StandIn { path, stand } => {
                vec![(self.host(name, path, Some(*stand))?, at(target, name, None, &labeled)?)]
            }
            // The size is podman's default: kube play ignores `sizeLimit` of a memory volume.
            Source::Memory(_) => vec![(memory(name), at(target, name, None, &plain)?)],
            Source::Program(_) => {
                return Err(EmitError::Internal("only units start a command with the program".to_owned()));
            }
            Source::Handover(Handover::Directory(dir)) => {
                vec![(host_path(name, dir)?, at(target, name, None, &labeled)?)]
            }
            Source::Handover(Handover::Volume(volume)) => {
                vec![(named_volume(name, volume), at(target, name, None, &plain)?)]
            }
            Source::Volume(volume) => vec![(named_volume(name, volume), at(target, name, None, &plain)?)],
            Source::Material { set, file } => match self.plan.materials.as_ref().map(|materials| &materials.store) {
                Some(MaterialStore::Directory(dir)) => {
                    let dir = match set {
                        MaterialSet::Router => trust::router_dir(dir),
                        MaterialSet::Agent => trust::agent_dir(dir),
                        MaterialSet::Secrets => trust::secrets_dir(dir),
                    };
                    let (name, path) = match file {
                        Some(file) => (volume_of(name, file), dir.join(file)),
                        None => (name.clone(), dir),
                    };
                    vec![(host_path(&name, &path)?, at(target, &name, None, &labeled)?)]
                }
                Some(MaterialStore::Secrets(prefix)) => {
                    let mounted = |part: Part, volume: &str, target: &Path| -> Result<_, EmitError> {
                        Ok((secret(volume, &part.name(prefix)), at(target, volume, *file, &plain)?))
                    };
                    match set {
                        MaterialSet::Router => vec![mounted(Part::Router, name, target)?],
                        MaterialSet::Agent if *file == Some(trust::JAVA) => vec![mounted(Part::Java, "java", target)?],
                        MaterialSet::Agent => vec![mounted(Part::Trust, name, target)?],
                        MaterialSet::Secrets => {
                            return Err(EmitError::Internal("plain secrets of a manifest are variables".to_owned()));
                        }
                    }
                }
                Some(MaterialStore::Service(_)) | None => {
                    return Err(EmitError::Internal("nothing holds the materials that are mounted".to_owned()));
                }
            },
        })
    }
}

impl Maker<'_> {
    /// A mount of the host. If a stand-in is missing, podman creates it.
    fn host(self, name: &str, path: &Path, stand: Option<Stand>) -> Result<Volume, EmitError> {
        let (path, type_) = match self.sources {
            Sources::Named => (path.to_owned(), stand.map(|stand| stand_type(stand).to_owned())),
            Sources::Held(dir) => (Path::new(dir).join(name), None),
        };
        let source = HostPathVolumeSource { path: path_text(&path)?, type_ };
        Ok(Volume { name: name.to_owned(), host_path: Some(source), ..Volume::default() })
    }
}

/// Mount options as kube play parses them, after the path (podman `play.go`).
fn suffix(options: &[MountOption], relabel: bool) -> String {
    let words = options.iter().map(|option| option.word()).chain(relabel.then_some("z"));
    let words: Vec<&str> = words.collect();
    if words.is_empty() { String::new() } else { format!(":{}", words.join(",")) }
}

/// A device is a volume to kube play.
fn device(device: &Device) -> Result<(Volume, VolumeMount), EmitError> {
    let Device { path, from: _ } = device;
    let path = path_text(path)?;
    let name = format!("device{}", path.replace(['/', '.', '_'], "-"));
    let source = HostPathVolumeSource { path: path.clone(), type_: Some("CharDevice".to_owned()) };
    let volume = Volume { name: name.clone(), host_path: Some(source), ..Volume::default() };
    Ok((volume, VolumeMount { name, mount_path: path, ..VolumeMount::default() }))
}

/// The name of a volume; it must not contain dots.
fn volume_of(name: &str, file: &str) -> String {
    format!("{name}-{}", file.replace('.', "-"))
}

fn memory(name: &str) -> Volume {
    let source = EmptyDirVolumeSource { medium: Some("Memory".to_owned()), ..EmptyDirVolumeSource::default() };
    Volume { name: name.to_owned(), empty_dir: Some(source), ..Volume::default() }
}

fn config_volume(name: &str, map: &str) -> Volume {
    let source = ConfigMapVolumeSource { name: map.to_owned(), ..ConfigMapVolumeSource::default() };
    Volume { name: name.to_owned(), config_map: Some(source), ..Volume::default() }
}

/// A podman secret as files. If it is missing, nothing starts.
fn secret(name: &str, secret: &str) -> Volume {
    let source = SecretVolumeSource {
        secret_name: Some(secret.to_owned()),
        optional: Some(false),
        ..SecretVolumeSource::default()
    };
    Volume { name: name.to_owned(), secret: Some(source), ..Volume::default() }
}

fn host_path(name: &str, path: &Path) -> Result<Volume, EmitError> {
    let source = HostPathVolumeSource { path: path_text(path)?, type_: None };
    Ok(Volume { name: name.to_owned(), host_path: Some(source), ..Volume::default() })
}

/// podman creates it if it is missing (kube play, `hostPath`).
fn stand_type(stand: Stand) -> &'static str {
    match stand {
        Stand::Directory => "DirectoryOrCreate",
        Stand::File => "FileOrCreate",
    }
}

fn named_volume(name: &str, volume: &str) -> Volume {
    let source = PersistentVolumeClaimVolumeSource { claim_name: volume.to_owned(), read_only: None };
    Volume { name: name.to_owned(), persistent_volume_claim: Some(source), ..Volume::default() }
}
