//! The kube play stream: `ConfigMap`s with our files, the router pod, the agent pod.
//!
//! Only fields that podman's kube play supports are emitted. Its own copy of the types is a subset, and it silently
//! ignores unknown fields, so a test checks the list.

mod container;
mod volume;

use std::collections::BTreeMap;
use std::path::Path;

use k8s_openapi::api::core::v1::{
    ConfigMap, Pod as PodDocument, PodDNSConfig, PodDNSConfigOption, PodSecurityContext, PodSpec, Sysctl,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::config::yaml;
use crate::plan::pod::{Ceiling, Dns, Pod, Role};
use crate::plan::{MaterialStore, Plan};

use super::pin::Sources;
use super::{EmitError, File, PodmanVersion};

/// The documents of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The comment at the top: what it is, how to apply it, every permission.
    pub header: String,
    /// The router pod; `None` if the network sandbox is off.
    pub router: Option<Documents>,
    /// The agent pod.
    pub agent: Documents,
}

/// A pod and the `ConfigMap` it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Documents {
    /// The pod.
    pub pod: String,
    /// The `ConfigMap`.
    pub files: String,
}

impl Documents {
    /// The text of both, to be played on its own.
    pub fn text(&self) -> String {
        format!("{}---\n{}", self.pod, self.files)
    }
}

impl Stream {
    /// The stream in reading order: the pods right after the header, then the files that they mount. kube play creates
    /// `ConfigMap`s before pods, in whatever order they appear (podman play.go, `sortKubeKinds`).
    pub fn text(&self) -> String {
        let all = || self.router.iter().chain([&self.agent]);
        let documents: Vec<&str> = all()
            .map(|documents| documents.pod.as_str())
            .chain(all().map(|documents| documents.files.as_str()))
            .collect();
        format!("{}{}", self.header, documents.join("---\n"))
    }
}

/// Writes the stream below a header. `router_files` and `agent_files` come from the router emitter.
pub fn stream(
    plan: &Plan,
    podman: PodmanVersion,
    sources: &Sources,
    header: String,
    router_files: &[File],
    agent_files: &[File],
) -> Result<Stream, EmitError> {
    if podman < PodmanVersion::FLOOR {
        return Err(EmitError::TooOld(podman));
    }
    if let Some(MaterialStore::Service(_)) = plan.materials.as_ref().map(|materials| &materials.store) {
        return Err(EmitError::Internal("a manifest has no service that could hold its secrets".to_owned()));
    }
    let maker = Maker { plan, podman, sources };
    let names = &plan.names;
    let router = plan.router.as_ref().map(|pod| maker.documents(&names.router_files, router_files, pod, "router"));
    let agent = maker.documents(&names.agent_files, agent_files, &plan.agent, "agent")?;
    Ok(Stream { header, router: router.transpose()?, agent })
}

#[derive(Clone, Copy)]
struct Maker<'a> {
    plan: &'a Plan,
    podman: PodmanVersion,
    sources: &'a Sources,
}

impl Maker<'_> {
    fn documents(self, map: &str, files: &[File], pod: &Pod, role: &str) -> Result<Documents, EmitError> {
        let files = yaml::write(&self.config_map(map, files)).map_err(EmitError::Internal)?;
        let pod = yaml::write(&self.pod(pod, role)?).map_err(EmitError::Internal)?;
        Ok(Documents { pod, files })
    }

    fn labels(self, role: &str) -> BTreeMap<String, String> {
        self.plan.labels(role).into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }

    fn config_map(self, name: &str, files: &[File]) -> ConfigMap {
        let data = files.iter().map(|file| (file.name().to_owned(), file.text.clone())).collect();
        ConfigMap {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                labels: Some(self.labels("files")),
                ..ObjectMeta::default()
            },
            data: Some(data),
            ..ConfigMap::default()
        }
    }

    fn pod(self, pod: &Pod, role: &str) -> Result<PodDocument, EmitError> {
        // Networks have no field: `kube play` takes them as arguments.
        let Pod { name, infra, host_name, networks: _, dns, userns, sysctls, helpers, main } = pod;
        let mut annotations = BTreeMap::from([("io.podman.annotations.infra.name".to_owned(), infra.clone())]);
        annotations.insert("io.podman.annotations.userns".to_owned(), (*userns).to_owned());
        for container in pod.containers() {
            annotations.extend(container::annotations(container, self.podman)?);
        }
        annotations.extend(ceiling(pod));
        let (gates, others): (Vec<_>, Vec<_>) = helpers.iter().partition(|helper| helper.role == Role::Gate);
        let write = |container| self.container(container);
        let gates = gates.into_iter().map(write).collect::<Result<Vec<_>, _>>()?;
        let sysctl = |&(name, value): &(&str, &str)| Sysctl { name: name.to_owned(), value: value.to_owned() };
        Ok(PodDocument {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                labels: Some(self.labels(role)),
                annotations: Some(annotations),
                ..ObjectMeta::default()
            },
            spec: Some(PodSpec {
                containers: others.into_iter().chain([main]).map(write).collect::<Result<Vec<_>, _>>()?,
                dns_config: dns.map(dns_config),
                hostname: Some((*host_name).to_owned()),
                init_containers: (!gates.is_empty()).then_some(gates),
                restart_policy: Some("Never".to_owned()),
                security_context: Some(PodSecurityContext {
                    sysctls: Some(sysctls.iter().map(sysctl).collect()),
                    ..PodSecurityContext::default()
                }),
                termination_grace_period_seconds: Some(pod.stop_timeout().into()),
                volumes: Some(self.volumes(pod)?),
                ..PodSpec::default()
            }),
            ..PodDocument::default()
        })
    }
}

/// An annotation applies to every container of its pod, so it can only express what holds for all of them. podman
/// passes these to the runtime unchanged, which passes them to systemd (crun(1), runc's `systemd.md`). Without the
/// controller, they have no effect.
fn ceiling(pod: &Pod) -> Vec<(String, String)> {
    let mut all = pod.containers().map(|container| container.ceiling);
    let Some(first) = all.next().flatten().filter(|first| all.all(|other| other == Some(*first))) else {
        return Vec::new();
    };
    let Ceiling { memory, cpus, pids } = first;
    let properties = [
        ("MemoryMax", memory),
        ("MemorySwapMax", 0),
        ("TasksMax", pids.into()),
        ("CPUQuotaPerSecUSec", u64::from(cpus) * 1_000_000),
    ];
    properties.map(|(name, value)| (format!("org.systemd.property.{name}"), format!("uint64 {value}"))).into()
}

fn dns_config(dns: Dns) -> PodDNSConfig {
    let Dns { server, ndots } = dns;
    let option = PodDNSConfigOption { name: Some("ndots".to_owned()), value: Some(ndots.to_string()) };
    PodDNSConfig { nameservers: Some(vec![server.to_string()]), options: Some(vec![option]), searches: None }
}

/// kube play parses what follows a colon in a mount path as mount options.
fn path_text(path: &Path) -> Result<String, EmitError> {
    let refuse =
        |why: &str| EmitError::CannotKeep { what: format!("the path {}", path.display()), why: why.to_owned() };
    let text = path.to_str().ok_or_else(|| refuse("it is not UTF-8, which YAML requires"))?;
    if text.contains(':') {
        return Err(refuse("kube play would parse what follows the colon as mount options; rename the directory"));
    }
    Ok(text.to_owned())
}
