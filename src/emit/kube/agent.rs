//! The agent pod: gate, forwarder, agent.

use std::collections::BTreeSet;
use std::path::Path;

use k8s_openapi::api::core::v1::{
    Container, EnvVar, EnvVarSource, Pod, PodSpec, ResourceRequirements, SecretKeySelector, SecurityContext, Volume,
    VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::config::Identity;
use crate::plan::{Agent, Command, Materials, Part, Plan, surrogates, trust};

use super::{
    EmitError, Podman, capabilities, config_volume, dns, host_path, metadata, named_volume, path_text, pull_policy,
    secret, service, without_ipv6,
};

/// podman's init inside a container that has the `init` annotation (libpod `ContainerInitPath`).
const INIT: &str = "/run/podman-init";

/// Inside, the invoking user of the host is always this one, so that the manifest is the same on every machine.
const AGENT_UID: i64 = 1000;

/// A held agent runs nothing until the runner executes the command, and the runner does so only after it has read
/// [`GATE_PASSED`]. So the gate can stand at the head of the forwarder, which saves a container: podman polls for the end
/// of an init container and cleans up after it, a third of the whole start.
const GATED_FORWARDER: &str = "/bin/sh /etc/sandboxc/gate.sh && echo 'gate: passed' && \
     exec nginx -e stderr -c /etc/sandboxc/forwarder.conf";

/// What package managers need, and nothing that changes the network or other processes.
const ROOT_CAPS: [&str; 5] = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"];

pub(super) fn agent_pod(plan: &Plan, podman: Podman) -> Result<Pod, EmitError> {
    let mut annotations = vec![
        ("io.podman.annotations.infra.name", plan.names.agent_infra.as_str()),
        ("io.podman.annotations.init/agent", "true"),
        // Files of the host keep their labels (`label=disable`); no relabelling of somebody's checkout.
        ("io.podman.annotations.label/agent", "disable"),
    ];
    annotations.extend(plan.userns().map(|userns| ("io.podman.annotations.userns", userns)));
    let pids = plan.agent.limits.pids.as_ref().map(|pids| pids.value.to_string());
    if let Some(pids) = pids.as_ref().filter(|_| podman.has_pids_annotation()) {
        annotations.push(("io.podman.annotations.pids-limit/agent", pids));
    }
    let (mut containers, mut gates) = (Vec::new(), None);
    if plan.network.is_some() {
        let run = plan.agent.command != Command::Hold;
        gates = run.then(|| vec![service("gate", plan, &["/bin/sh", "/etc/sandboxc/gate.sh"], &[])]);
        let bare = ["nginx", "-e", "stderr", "-c", "/etc/sandboxc/forwarder.conf"];
        let command = if run { bare.as_slice() } else { &["/bin/sh", "-c", GATED_FORWARDER] };
        containers.push(service("forwarder", plan, command, &["NET_BIND_SERVICE"]));
    }
    containers.push(agent_container(plan)?);
    Ok(Pod {
        metadata: metadata(&plan.names.agent_pod, plan, "agent", &annotations),
        spec: Some(PodSpec {
            containers,
            dns_config: plan.network.as_ref().map(|net| dns(&net.router_address.to_string())),
            hostname: Some("sandbox".to_owned()),
            init_containers: gates,
            restart_policy: Some("Never".to_owned()),
            security_context: Some(without_ipv6()),
            termination_grace_period_seconds: Some(5),
            volumes: Some(volumes(plan)?),
            ..PodSpec::default()
        }),
        ..Pod::default()
    })
}

fn agent_container(plan: &Plan) -> Result<Container, EmitError> {
    let agent = &plan.agent;
    let image = agent.image.value.reference();
    let (caps, uid): (&[&str], i64) = match agent.identity.value {
        Identity::HostUser => (&[], AGENT_UID),
        Identity::Root => (&ROOT_CAPS, 0),
    };
    let env = agent.env.iter().map(|(name, value)| EnvVar {
        name: name.clone(),
        value: Some(value.value.clone()),
        value_from: None,
    });
    let env = env.chain(references(plan));
    Ok(Container {
        name: "agent".to_owned(),
        image: Some(image.to_owned()),
        image_pull_policy: Some(pull_policy(image, &agent.command)),
        command: Some(match &agent.command {
            Command::Hold => vec![INIT.to_owned(), "-P".to_owned()],
            Command::Run(words) => words.iter().map(|word| literal(word)).collect(),
        }),
        env: Some(env.collect()),
        resources: resources(agent),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            capabilities: Some(capabilities(caps)),
            run_as_user: Some(uid),
            run_as_group: Some(uid),
            ..SecurityContext::default()
        }),
        volume_mounts: Some(mounts(plan)?),
        working_dir: Some(path_text(&agent.workspace.target)?),
        ..Container::default()
    })
}

/// Variables whose values no manifest may hold; the runner gives them to the command itself.
fn references(plan: &Plan) -> Vec<EnvVar> {
    let refer = |part: Part, prefix: &str, name: &str| EnvVar {
        name: name.to_owned(),
        value: None,
        value_from: Some(EnvVarSource {
            secret_key_ref: Some(SecretKeySelector {
                name: part.name(prefix),
                key: name.to_owned(),
                optional: Some(false),
            }),
            ..EnvVarSource::default()
        }),
    };
    let mut all = Vec::new();
    if let Some(Materials::Secret(prefix)) = &plan.materials {
        all.extend(surrogates(&plan.policy).into_iter().map(|name| refer(Part::Surrogates, prefix, name)));
    }
    if let Some(Materials::Secret(prefix)) = &plan.secrets {
        all.extend(plan.agent.secrets.iter().map(|name| refer(Part::Secrets, prefix, name)));
    }
    all
}

/// kube play expands `$(NAME)` and turns `$$` into `$` in commands (podman play.go, since 4.7), so a dollar is doubled.
fn literal(word: &str) -> String {
    word.replace('$', "$$")
}

fn resources(agent: &Agent) -> Option<ResourceRequirements> {
    let memory = agent.limits.memory.as_ref().map(|memory| ("memory", memory.value.to_string()));
    let cpus = agent.limits.cpus.as_ref().map(|cpus| ("cpu", format!("{}m", cpus.value)));
    let limits: std::collections::BTreeMap<String, Quantity> =
        memory.into_iter().chain(cpus).map(|(name, value)| (name.to_owned(), Quantity(value))).collect();
    (!limits.is_empty()).then(|| ResourceRequirements { limits: Some(limits), ..ResourceRequirements::default() })
}

/// Volume names in the pod are positions; the mounts below use the same numbering.
fn volumes(plan: &Plan) -> Result<Vec<Volume>, EmitError> {
    let agent = &plan.agent;
    let mut volumes = vec![
        config_volume(&plan.names.agent_files),
        named_volume("home", &agent.home.volume.value),
        host_path("workspace", &path_text(&agent.workspace.source)?),
    ];
    for (index, path) in agent.workspace.overlays().into_keys().enumerate() {
        volumes.push(host_path(&format!("protect-{index}"), &path_text(&agent.workspace.source.join(path))?));
    }
    for (index, mount) in agent.mounts.iter().enumerate() {
        volumes.push(host_path(&format!("mount-{index}"), &path_text(&mount.source)?));
    }
    match &plan.materials {
        None | Some(Materials::Service(_)) => {}
        Some(Materials::Directory(dir)) => {
            volumes.push(host_path("trust", &path_text(&trust::agent_dir(dir))?));
            for file in stand_in_files(agent) {
                volumes.push(host_path(&volume_of(file), &path_text(&trust::agent_dir(dir).join(file))?));
            }
        }
        Some(Materials::Secret(prefix)) => {
            volumes.push(secret("trust", &Part::Trust.name(prefix)));
            volumes.push(secret("java", &Part::Java.name(prefix)));
        }
    }
    if let Some(Materials::Directory(dir)) = &plan.secrets {
        volumes.push(host_path("secrets", &path_text(&trust::secrets_dir(dir))?));
    }
    Ok(volumes)
}

/// Each file once that stands in for others, whose volume is named after it.
fn stand_in_files(agent: &Agent) -> BTreeSet<&'static str> {
    trust::stand_ins(agent).into_iter().map(|(file, _)| file).collect()
}

/// A volume's name has no dots.
fn volume_of(file: &str) -> String {
    format!("trust-{}", file.replace('.', "-"))
}

fn mounts(plan: &Plan) -> Result<Vec<VolumeMount>, EmitError> {
    let agent = &plan.agent;
    let mount = |name: String, path: &Path, read_only: bool| -> Result<VolumeMount, EmitError> {
        Ok(VolumeMount {
            name,
            mount_path: path_text(path)?,
            read_only: read_only.then_some(true),
            ..VolumeMount::default()
        })
    };
    let mut mounts = vec![
        // Without one `localhost` does not resolve (`--no-hosts`), and podman's own would copy the host's.
        VolumeMount { sub_path: Some("hosts".to_owned()), ..mount("files".to_owned(), Path::new("/etc/hosts"), true)? },
        mount("home".to_owned(), &agent.home.target, false)?,
        mount("workspace".to_owned(), &agent.workspace.target, agent.workspace.read_only)?,
    ];
    for (index, (path, read_only)) in agent.workspace.overlays().into_iter().enumerate() {
        mounts.push(mount(format!("protect-{index}"), &agent.workspace.target.join(path), read_only)?);
    }
    for (index, extra) in agent.mounts.iter().enumerate() {
        mounts.push(mount(format!("mount-{index}"), &extra.target, extra.read_only)?);
    }
    if let Some(Materials::Directory(_)) = &plan.secrets {
        mounts.push(mount("secrets".to_owned(), Path::new(trust::SECRETS_AT), true)?);
    }
    if let Some(materials) = &plan.materials {
        mounts.push(mount("trust".to_owned(), Path::new(trust::TRUST_AT), true)?);
        for (file, at) in trust::stand_ins(agent) {
            mounts.push(match materials {
                Materials::Directory(_) | Materials::Service(_) => mount(volume_of(file), Path::new(at), true)?,
                Materials::Secret(_) => {
                    let volume = if file == trust::JAVA { "java" } else { "trust" };
                    VolumeMount { sub_path: Some(file.to_owned()), ..mount(volume.to_owned(), Path::new(at), true)? }
                }
            });
        }
    }
    Ok(mounts)
}
