//! The kube play stream: `ConfigMap`s with our files, the router pod, the agent pod.
//!
//! Only fields that podman's kube play honours are emitted (its own copy of the types is a subset; unknown fields are
//! ignored without a word, so a test keeps the list).

use std::collections::BTreeMap;
use std::path::Path;

use k8s_openapi::api::core::v1::{
    Capabilities, ConfigMap, ConfigMapVolumeSource, Container, HostPathVolumeSource, PersistentVolumeClaimVolumeSource,
    Pod, PodDNSConfig, PodDNSConfigOption, PodSecurityContext, PodSpec, SecretVolumeSource, SecurityContext, Sysctl,
    Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::config::yaml;
use crate::plan::{Command, Materials, Part, Plan, SESSION_LABEL, trust};

use super::{EmitError, File, Podman, header};

mod agent;

/// Where our files are mounted in router, gate and forwarder.
pub const FILES_AT: &str = "/etc/sandboxc";

/// What the forwarder of a held agent says once its gate has passed.
pub const GATE_PASSED: &str = "gate: passed";

/// uid and gid of router, gate and forwarder: no user of the host, no user of the agent.
const SERVICE_UID: i64 = 990;

/// The documents of a plan, each pod with the `ConfigMap` it needs, in the order they must be played.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The comment at the top: what it is, how to apply it, every permission.
    pub header: String,
    /// Documents of the router pod; `None` in the break-glass.
    pub router: Option<String>,
    /// Documents of the agent pod.
    pub agent: String,
}

impl Stream {
    /// The one stream.
    pub fn text(&self) -> String {
        let router = self.router.as_ref().map_or_else(String::new, |router| format!("{router}---\n"));
        format!("{}{router}{}", self.header, self.agent)
    }
}

/// Writes the stream. `router_files` and `agent_files` are what the router emitter made.
pub fn stream(plan: &Plan, podman: Podman, router_files: &[File], agent_files: &[File]) -> Result<Stream, EmitError> {
    if podman < Podman::FLOOR {
        return Err(EmitError::TooOld(podman));
    }
    if let Some(Materials::Service(_)) = plan.materials.as_ref().or(plan.secrets.as_ref()) {
        return Err(EmitError::Internal("a manifest has no service that could keep its secrets".to_owned()));
    }
    let router = match &plan.network {
        Some(_) => Some(documents(&[config_map(&plan.names.router_files, plan, router_files)], &router_pod(plan)?)?),
        None => None,
    };
    let agent = documents(&[config_map(&plan.names.agent_files, plan, agent_files)], &agent::agent_pod(plan, podman)?)?;
    Ok(Stream { header: header::header(plan, podman), router, agent })
}

fn documents(maps: &[ConfigMap], pod: &Pod) -> Result<String, EmitError> {
    let mut texts = maps.iter().map(yaml::write).collect::<Result<Vec<_>, _>>().map_err(EmitError::Internal)?;
    texts.push(yaml::write(pod).map_err(EmitError::Internal)?);
    Ok(texts.join("---\n"))
}

fn labels(plan: &Plan, role: &str) -> BTreeMap<String, String> {
    let pairs =
        [(SESSION_LABEL, plan.session.as_str()), ("io.sandboxc.role", role), ("io.sandboxc.plan", &plan.names.hash)];
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn config_map(name: &str, plan: &Plan, files: &[File]) -> ConfigMap {
    let data = files.iter().map(|file| (file.name().to_owned(), file.text.clone())).collect();
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(labels(plan, "files")),
            ..ObjectMeta::default()
        },
        data: Some(data),
        ..ConfigMap::default()
    }
}

/// The bridge would have a link-local address otherwise, and a host service on `[::]` would be reachable (rootful).
fn without_ipv6() -> PodSecurityContext {
    let sysctl = |name: &str| Sysctl { name: name.to_owned(), value: "1".to_owned() };
    PodSecurityContext {
        sysctls: Some(vec![sysctl("net.ipv6.conf.all.disable_ipv6"), sysctl("net.ipv6.conf.default.disable_ipv6")]),
        ..PodSecurityContext::default()
    }
}

fn dns(server: &str) -> PodDNSConfig {
    let option = PodDNSConfigOption { name: Some("ndots".to_owned()), value: Some("1".to_owned()) };
    PodDNSConfig { nameservers: Some(vec![server.to_owned()]), options: Some(vec![option]), searches: None }
}

fn config_volume(name: &str) -> Volume {
    let source = ConfigMapVolumeSource { name: name.to_owned(), ..ConfigMapVolumeSource::default() };
    Volume { name: "files".to_owned(), config_map: Some(source), ..Volume::default() }
}

fn files_mount() -> VolumeMount {
    VolumeMount {
        name: "files".to_owned(),
        mount_path: FILES_AT.to_owned(),
        read_only: Some(true),
        ..VolumeMount::default()
    }
}

/// A container of ours: stock image, our files read-only, read-only root, no user of the host, no privileges.
fn service(name: &str, plan: &Plan, command: &[&str], caps: &[&str]) -> Container {
    let image = &plan.router_image.value;
    Container {
        name: name.to_owned(),
        image: Some(image.clone()),
        image_pull_policy: Some(pull_policy(image, &plan.agent.command)),
        command: Some(command.iter().map(|&word| word.to_owned()).collect()),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            capabilities: Some(capabilities(caps)),
            read_only_root_filesystem: Some(true),
            run_as_user: Some(SERVICE_UID),
            run_as_group: Some(SERVICE_UID),
            ..SecurityContext::default()
        }),
        volume_mounts: Some(vec![files_mount()]),
        ..Container::default()
    }
}

fn capabilities(add: &[&str]) -> Capabilities {
    let list = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    Capabilities { add: (!add.is_empty()).then(|| list(add)), drop: Some(list(&["ALL"])) }
}

/// A local image is never looked for elsewhere, and the runner never fetches one on the way; the default for a tag such
/// as `latest` would ask a registry.
fn pull_policy(image: &str, command: &Command) -> String {
    let never = image.starts_with("localhost/") || *command == Command::Hold;
    if never { "Never".to_owned() } else { "IfNotPresent".to_owned() }
}

fn router_pod(plan: &Plan) -> Result<Pod, EmitError> {
    let command = ["/bin/sh", "/etc/sandboxc/entry.sh"];
    let mut annotations = vec![("io.podman.annotations.infra.name", plan.names.router_infra.as_str())];
    annotations.extend(plan.userns().map(|userns| ("io.podman.annotations.userns", userns)));
    let mut router = service("router", plan, &command, &["NET_BIND_SERVICE"]);
    let mut volumes = vec![config_volume(&plan.names.router_files)];
    for (volume, mount) in materials(plan)? {
        volumes.push(volume);
        router.volume_mounts.get_or_insert_default().push(mount);
    }
    Ok(Pod {
        metadata: metadata(&plan.names.router_pod, plan, "router", &annotations),
        spec: Some(PodSpec {
            containers: vec![router],
            dns_config: Some(dns("127.0.0.1")),
            hostname: Some("router".to_owned()),
            restart_policy: Some("Never".to_owned()),
            security_context: Some(without_ipv6()),
            termination_grace_period_seconds: Some(2),
            volumes: Some(volumes),
            ..PodSpec::default()
        }),
        ..Pod::default()
    })
}

/// What the router needs and no manifest may hold.
fn materials(plan: &Plan) -> Result<Vec<(Volume, VolumeMount)>, EmitError> {
    let mount = |name: &str, at: &str| VolumeMount {
        name: name.to_owned(),
        mount_path: at.to_owned(),
        read_only: Some(true),
        ..VolumeMount::default()
    };
    Ok(match &plan.materials {
        None | Some(Materials::Service(_)) => Vec::new(),
        Some(Materials::Directory(dir)) => {
            // The directory is ours, so an SELinux label for containers does no harm to anybody's.
            let at = format!("{}:z", trust::MATERIALS_AT);
            vec![(host_path("materials", &path_text(&trust::router_dir(dir))?), mount("materials", &at))]
        }
        Some(Materials::Secret(prefix)) => {
            let tls = format!("{}/tls", trust::MATERIALS_AT);
            vec![
                (secret("materials", &Part::Router.name(prefix)), mount("materials", trust::MATERIALS_AT)),
                (secret("tls", &Part::Tls.name(prefix)), mount("tls", &tls)),
            ]
        }
    })
}

/// A podman secret as files; without it nothing starts.
fn secret(name: &str, secret: &str) -> Volume {
    let source = SecretVolumeSource {
        secret_name: Some(secret.to_owned()),
        optional: Some(false),
        ..SecretVolumeSource::default()
    };
    Volume { name: name.to_owned(), secret: Some(source), ..Volume::default() }
}

fn metadata(name: &str, plan: &Plan, role: &str, annotations: &[(&str, &str)]) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some(labels(plan, role)),
        annotations: Some(annotations.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect()),
        ..ObjectMeta::default()
    }
}

fn host_path(name: &str, path: &str) -> Volume {
    let source = HostPathVolumeSource { path: path.to_owned(), type_: None };
    Volume { name: name.to_owned(), host_path: Some(source), ..Volume::default() }
}

fn named_volume(name: &str, volume: &str) -> Volume {
    let source = PersistentVolumeClaimVolumeSource { claim_name: volume.to_owned(), read_only: None };
    Volume { name: name.to_owned(), persistent_volume_claim: Some(source), ..Volume::default() }
}

/// kube play reads what follows a colon in a mount path as mount options.
fn path_text(path: &Path) -> Result<String, EmitError> {
    let refuse =
        |why: &str| EmitError::CannotKeep { what: format!("the path {}", path.display()), why: why.to_owned() };
    let text = path.to_str().ok_or_else(|| refuse("it is not UTF-8, which YAML cannot carry"))?;
    if text.contains(':') {
        return Err(refuse("it contains a colon, which kube play takes for mount options; rename the directory"));
    }
    Ok(text.to_owned())
}
