//! Compares the created containers with the plan. The command only runs if they are equal.
//!
//! A container's settings come from the manifest, from podman's defaults, from files of the host, and from the image.
//! The runtime's configuration of each container (`config.json`, OCI runtime-spec) has all of them as they are in
//! force, so it is what is compared. One `podman inspect` tells where the files are.

mod compare;
mod mounts;
mod oci;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::RuntimeError;
use super::podman::Podman;
use super::report::ReportedImage;
use crate::plan::Plan;
use crate::plan::pod::{Container, NetworkKind, Pod};

/// What `podman inspect` reports for a container, or for an image, which has no configuration.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Inspected {
    id: String,
    name: String,
    /// The digest of an image.
    digest: String,
    /// The id of a container's image.
    image: String,
    #[serde(rename = "OCIConfigPath")]
    oci_config_path: Option<PathBuf>,
    conmon_pid_file: PathBuf,
    state: State,
    mounts: Vec<MountPoint>,
    network_settings: NetworkSettings,
    host_config: HostConfig,
    config: Option<ImageConfig>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct State {
    pid: u32,
}

/// A mount as it was requested.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct MountPoint {
    r#type: String,
    name: String,
    source: PathBuf,
    destination: PathBuf,
    sub_path: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct NetworkSettings {
    networks: Option<BTreeMap<String, serde_json::Value>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct HostConfig {
    shm_size: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct ImageConfig {
    env: Option<Vec<String>>,
    volumes: Option<BTreeMap<PathBuf, serde_json::Value>>,
}

/// One container of the plan and everything known about it. A pod's infra container has no entry in the plan.
struct Subject<'a> {
    plan: &'a Plan,
    pod: &'a Pod,
    planned: Option<&'a Container>,
    seen: &'a Inspected,
    infra: &'a Inspected,
    image: Option<&'a ImageConfig>,
    config: oci::Config,
}

/// A difference: what it is, and what the plan says.
struct Difference {
    what: String,
    planned: String,
}

impl Difference {
    fn new(what: impl Into<String>, planned: impl Into<String>) -> Self {
        Self { what: what.into(), planned: planned.into() }
    }
}

/// What podman calls the objects of a plan.
#[derive(Clone, Debug, Default)]
pub struct Verified {
    /// The ids of containers by name.
    pub containers: BTreeMap<String, String>,
    /// The images of containers.
    pub images: Vec<ReportedImage>,
}

/// Compares every container of the plan, all of which must have been started.
pub fn verify(podman: &Podman, plan: &Plan) -> Result<Verified, RuntimeError> {
    let containers: Vec<(&Pod, Option<&Container>, String)> = plan
        .pods()
        .flat_map(|pod| {
            let own = pod.containers().map(move |one| (pod, Some(one), pod.container_name(one.role)));
            own.chain([(pod, None, pod.infra.clone())])
        })
        .collect();
    let mut names: Vec<&str> = containers.iter().map(|(_, _, name)| name.as_str()).collect();
    let mut images: Vec<&str> =
        containers.iter().filter_map(|(_, planned, _)| Some(planned.as_ref()?.image.value.reference())).collect();
    images.sort_unstable();
    images.dedup();
    names.extend(images);
    let what = "inspecting the containers";
    let all = podman.describe(what, &names)?.into_iter().map(serde_json::from_value::<Inspected>);
    let all = all.collect::<Result<Vec<_>, _>>().map_err(std::io::Error::from).map_err(RuntimeError::io(what))?;
    let find = |name: &str| {
        let container = all.iter().find(|one| one.name == name && one.oci_config_path.is_some());
        container.ok_or_else(|| RuntimeError::Host(format!("podman has not created the container {name}")))
    };
    let mut used: BTreeMap<&str, ReportedImage> = BTreeMap::new();
    for (pod, planned, name) in &containers {
        let (seen, infra) = (find(name)?, find(&pod.infra)?);
        let image = all.iter().find(|one| one.id == seen.image && one.oci_config_path.is_none());
        let config = configuration(seen)?;
        if let (Some(planned), Some(image)) = (planned, image) {
            let reference = planned.image.value.reference();
            used.insert(
                reference,
                ReportedImage { reference: reference.to_owned(), id: image.id.clone(), digest: image.digest.clone() },
            );
        }
        let image = image.and_then(|image| image.config.as_ref());
        let subject = Subject { plan, pod, planned: *planned, seen, infra, image, config };
        if let Some(Difference { what, planned }) = subject.differences().into_iter().next() {
            return Err(RuntimeError::Unplanned { container: name.clone(), what, planned });
        }
    }
    let images = used.into_values().collect();
    Ok(Verified { containers: all.into_iter().map(|one| (one.name, one.id)).collect(), images })
}

/// Reads the configuration that the runtime got. The file belongs to the user; nothing inside can write it.
fn configuration(seen: &Inspected) -> Result<oci::Config, RuntimeError> {
    let path = seen.oci_config_path.as_deref().unwrap_or(Path::new(""));
    let doing = || RuntimeError::io(format!("reading the configuration of {}", seen.name));
    let bytes = fs::read(path).map_err(doing())?;
    serde_json::from_slice(&bytes).map_err(std::io::Error::from).map_err(doing())
}

impl Subject<'_> {
    fn differences(&self) -> Vec<Difference> {
        let mut all = self.mounts();
        all.extend(self.process());
        all.extend(self.confinement());
        all.extend(self.networks());
        all
    }

    /// Checks that a pod is on the plan's networks only.
    fn networks(&self) -> Option<Difference> {
        let name = |kind| match kind {
            NetworkKind::Internal => self.plan.names.internal_network.as_str(),
            NetworkKind::Egress => self.plan.names.egress_network.as_str(),
        };
        let mut planned: Vec<&str> = self.pod.networks.iter().map(|one| name(one.network)).collect();
        planned.sort_unstable();
        let seen: Vec<&str> =
            self.seen.network_settings.networks.iter().flatten().map(|(name, _)| name.as_str()).collect();
        (seen != planned).then(|| Difference::new(format!("the networks {}", seen.join(" ")), planned.join(" ")))
    }
}
