//! The comment at the top of a manifest: what it is, how to apply it, and what it permits, with the place of each
//! permission.

use std::fmt::Write as _;

use crate::plan::{LEARNING, Plan};
use crate::visible::escaped;

use super::pin::{MOUNT_GAP, Sources, mount_gaps};
use super::{PodmanVersion, defaults, limit_gaps, permissions};
use crate::shell::line;

pub(super) fn header(plan: &Plan, podman: PodmanVersion, sources: &Sources) -> String {
    let mut text = format!("# sandboxc plan {}, session {}, for podman {podman}\n#\n", plan.names.hash, plan.session);
    if plan.facts.iter().any(|fact| fact.what == LEARNING) {
        let _ = writeln!(text, "# {LEARNING}.\n#");
    }
    // Writing to a String cannot fail.
    match &plan.network {
        Some(net) => {
            text.push_str(
                "# Apply (without --network, the gate stops the agent pod, which only starts without a default route):\n",
            );
            for call in super::network::create_args(plan) {
                let _ = writeln!(text, "#   podman {}", call.join(" "));
            }
            let names = &plan.names;
            let _ = writeln!(
                text,
                "#   podman kube play --start=false --network {} --ip {} --ip {} --no-hosts -\n#   podman network connect {} {}",
                names.internal_network, net.router_address, net.agent_address, names.egress_network, names.router_infra,
            );
            // The command must not start before the router is ready. The containers of a pod start in no particular
            // order.
            let _ = writeln!(text, "#   podman pod start {}", names.router_pod);
            if let Some(ready) = plan.router.as_ref().and_then(|pod| pod.main.ready.as_deref()) {
                let (router, ready) = (names.router_container(), line(ready));
                let _ = writeln!(text, "#   podman exec --privileged=false {router} {ready}");
            }
            let forwarder = names.forwarder_container();
            let _ = writeln!(text, "#   podman start {forwarder}");
            if let Some(ready) = plan.agent.helpers.iter().find_map(|helper| helper.ready.as_deref()) {
                let _ = writeln!(text, "#   podman exec --privileged=false {forwarder} {}", line(ready));
            }
            let _ = writeln!(text, "#   podman pod start {}", names.agent_pod);
            text.push_str(&router_image(plan));
        }
        None => {
            text.push_str("# THE NETWORK SANDBOX IS OFF: the agent can reach everything that this host can reach.\n");
        }
    }
    let parts = plan.secret_names();
    if !parts.is_empty() {
        text.push_str(
            "#\n# Before that, once, create the secrets that this manifest refers to: `sandboxc secrets … | podman kube play -`, with the\n\
             # arguments of `compile`. Keys are valid for one year. podman stores secrets in files; `sandboxc run` keeps them in memory.\n",
        );
    }
    for name in &parts {
        let _ = writeln!(text, "#   {name}");
    }
    text.push_str(&removal(plan, &parts));
    let gaps = limit_gaps(plan, podman);
    if !gaps.is_empty() {
        text.push_str("#\n# Limits that this manifest alone does not enforce:\n");
    }
    for gap in gaps {
        let _ = writeln!(text, "#   {}: {}", gap.limit, gap.why);
    }
    let gaps = if *sources == Sources::Named { mount_gaps(plan) } else { Vec::new() };
    if !gaps.is_empty() {
        let _ = writeln!(text, "#\n# Mounts that this manifest alone cannot protect: {MOUNT_GAP}:");
    }
    for gap in gaps {
        let _ = writeln!(text, "#   {}", escaped(&gap));
    }
    text.push_str(
        "#\n# containers.conf and mounts.conf can add volumes, devices, variables, hooks and more to every container. `sandboxc run`, the\n\
         # script target and units override that. A bare `kube play` does so only with the containers.conf that `compile -o DIR`\n\
         # writes, and it does not compare the containers with this plan afterwards:\n",
    );
    let options = defaults::GLOBAL_ARGS.join(" ");
    let _ = writeln!(text, "#   {}=DIR/{} podman {options} kube play …", defaults::CONF_VARIABLE, defaults::CONF);
    if plan.network.is_some() {
        text.push_str("# With a bare `kube play`, the forwarder has no limits of its own.\n");
    }
    let _ = writeln!(text, "#\n# Written by sandboxc {} from:", env!("CARGO_PKG_VERSION"));
    for (label, digest) in &plan.inputs {
        let digest = digest.as_deref().unwrap_or("no hash, since it contains secrets");
        let _ = writeln!(text, "#   {}  {digest}", escaped(label));
    }
    text.push_str("#\n# Permissions, with the file and line of each:\n");
    for line in permissions(plan).lines() {
        let _ = writeln!(text, "# {line}");
    }
    text
}

/// How the router's image gets to a host without a registry; its tag is the hash of the one program in it.
fn router_image(plan: &Plan) -> String {
    let image = plan.router.as_ref().map_or("", |pod| pod.main.image.value.reference());
    match image.starts_with("localhost/") {
        true => format!("# Where the image {image} is missing: sandboxc image save router | podman load\n"),
        false => String::new(),
    }
}

/// How to remove everything. podman creates a volume for each secret and `ConfigMap`, which `kube down` keeps. With
/// `--force`, it would also remove the home volume, which does not belong to this plan alone.
fn removal(plan: &Plan, secrets: &[String]) -> String {
    let names = &plan.names;
    let mut volumes = secrets.to_vec();
    let mut text =
        "#\n# Remove (not with --force, which also removes the home volume):\n#   podman kube down -\n".to_owned();
    if plan.network.is_some() {
        let _ = writeln!(text, "#   podman network rm {}", names.internal_network);
        volumes.extend([names.router_files.clone(), names.agent_files.clone(), names.handover.clone()]);
    }
    if !volumes.is_empty() {
        let _ = writeln!(text, "#   podman volume rm --force {}", volumes.join(" "));
    }
    if !secrets.is_empty() {
        let _ = writeln!(text, "#   podman secret rm {}", secrets.join(" "));
    }
    text
}
