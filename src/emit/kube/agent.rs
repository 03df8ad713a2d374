//! The agent pod: gate, forwarder, agent.

use std::path::Path;

use k8s_openapi::api::core::v1::{
    Container, EnvVar, Pod, PodSpec, ResourceRequirements, SecurityContext, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::config::Identity;
use crate::plan::{Agent, Command, Plan};

use super::{
    EmitError, Podman, capabilities, config_volume, dns, host_path, metadata, named_volume, pull_policy, service,
    without_ipv6,
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
    if plan.agent.identity.value == Identity::HostUser {
        annotations.push(("io.podman.annotations.userns", "keep-id:uid=1000,gid=1000"));
    }
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
    containers.push(agent_container(&plan.agent)?);
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

fn agent_container(agent: &Agent) -> Result<Container, EmitError> {
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
        volume_mounts: Some(mounts(agent)?),
        working_dir: Some(path_text(&agent.workspace.target)?),
        ..Container::default()
    })
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
    for (index, mount) in agent.mounts.iter().enumerate() {
        volumes.push(host_path(&format!("mount-{index}"), &path_text(&mount.source)?));
    }
    Ok(volumes)
}

fn mounts(agent: &Agent) -> Result<Vec<VolumeMount>, EmitError> {
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
    for (index, extra) in agent.mounts.iter().enumerate() {
        mounts.push(mount(format!("mount-{index}"), &extra.target, extra.read_only)?);
    }
    Ok(mounts)
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
