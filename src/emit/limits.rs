//! Limits that kube play cannot enforce, and the `podman update` calls that set them on created containers.

use crate::config::ResourceLimits;
use crate::plan::Plan;
use crate::plan::pod::{Ceiling, Container, Pod, Role};

use super::PodmanVersion;

/// A limit that the manifest alone does not enforce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitGap {
    /// `pids_limit`, `no swap`, `timeout`.
    pub limit: &'static str,
    /// Why, and what enforces it.
    pub why: String,
}

/// The requested limits that kube play of this version does not enforce (podman #13102 for swap, #24418 for pids; every
/// version ignores `activeDeadlineSeconds`).
pub fn limit_gaps(plan: &Plan, podman: PodmanVersion) -> Vec<LimitGap> {
    let limits = &plan.agent.main.limits;
    let mut gaps = Vec::new();
    let mut add = |limit, why: &str| gaps.push(LimitGap { limit, why: why.to_owned() });
    if limits.memory.is_some() {
        add(
            "no swap",
            "kube play does not limit swap; `sandboxc run` and the script target do, with `podman update` before the start",
        );
    }
    if limits.pids.is_some() && !podman.has_pids_annotation() {
        add(
            "pids_limit",
            "kube play supports it since podman 5.5; `sandboxc run` and the script target set it with `podman update` before the start",
        );
    }
    if limits.shm.is_some() {
        add(
            "shm_size",
            "kube play reads it from containers.conf; `sandboxc run` and the script target bring their own, and `compile -o DIR` writes it",
        );
    }
    if limits.timeout.is_some() {
        add("timeout", "kube play does not support it; `sandboxc run` and the script target do");
    }
    gaps
}

/// Arguments of `systemctl --user set-property` for the scope of a running container, after the scope's name. They set
/// what an annotation of the pod cannot set for a single container. A property without its controller has no effect.
pub fn ceiling_args(pod: &Pod) -> Vec<(String, [String; 4])> {
    let in_annotations = pod.containers().all(|container| container.ceiling == pod.main.ceiling);
    let own = pod.containers().filter(|container| !in_annotations && container.role != Role::Gate);
    let args = |container: &Container| {
        let Ceiling { memory, cpus, pids } = container.ceiling?;
        let properties = [
            format!("MemoryMax={memory}"),
            "MemorySwapMax=0".to_owned(),
            format!("TasksMax={pids}"),
            format!("CPUQuota={}%", cpus * 100),
        ];
        Some((pod.container_name(container.role), properties))
    };
    own.filter_map(args).collect()
}

/// Arguments of the `podman update` calls that are needed between creation and start of a pod: one for each container
/// with limits to set.
pub fn update_args(pod: &Pod) -> Vec<Vec<String>> {
    let call = |container: &Container| {
        // The size of `/dev/shm` is the pod's, and set when it is created.
        let ResourceLimits { timeout: _, memory, cpus: _, pids, shm: _ } = &container.limits;
        let mut args = vec!["update".to_owned()];
        if let Some(pids) = pids {
            args.push(format!("--pids-limit={}", pids.value));
        }
        if let Some(memory) = memory {
            args.push(format!("--memory={}", memory.value));
            // A limit equal to the memory limit means no swap (podman-update(1)).
            args.push(format!("--memory-swap={}", memory.value));
        }
        (args.len() > 1).then(|| {
            args.push(pod.container_name(container.role));
            args
        })
    };
    pod.containers().filter_map(call).collect()
}
