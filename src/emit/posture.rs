//! What a container may do, as options of `podman run`.

use crate::config::ResourceLimits;
use crate::plan::pod::{Container, Device, Label, Proc, Pull, Seccomp};

/// Options to try a container's permissions out, without its environment, mounts and command.
pub fn posture_args(container: &Container) -> Vec<String> {
    let Container {
        role: _,
        image: _,
        pull,
        argv: _,
        working_dir: _,
        user,
        caps,
        read_only_root,
        init,
        label,
        seccomp,
        proc,
        env: _,
        mounts: _,
        devices,
        limits,
        ceiling: _,
        stop_timeout,
        ready: _,
    } = container;
    let mut args = vec![
        match pull {
            Pull::Never => "--pull=never".to_owned(),
            Pull::Missing => "--pull=missing".to_owned(),
        },
        "--privileged=false".to_owned(),
        format!("--user={user}:{user}"),
        "--cap-drop=all".to_owned(),
        "--security-opt=no-new-privileges".to_owned(),
        format!("--read-only={read_only_root}"),
        format!("--init={init}"),
        format!("--stop-timeout={stop_timeout}"),
    ];
    args.extend(caps.iter().map(|capability| format!("--cap-add={capability}")));
    args.extend(match label {
        Label::Confined => None,
        Label::Disabled => Some("--security-opt=label=disable".to_owned()),
        Label::Type(label) => Some(format!("--security-opt=label=type:{label}")),
    });
    args.extend(match seccomp {
        Seccomp::Default => None,
        Seccomp::Profile(path) => Some(format!("--security-opt=seccomp={}", path.display())),
    });
    args.extend(match proc {
        Proc::Masked => None,
        Proc::Sysctls => Some("--security-opt=unmask=/proc/sys".to_owned()),
        Proc::Unmasked => Some("--security-opt=unmask=/proc/*".to_owned()),
    });
    args.extend(devices.iter().map(|Device { path, from: _ }| format!("--device={}", path.display())));
    let ResourceLimits { timeout: _, memory, cpus, pids, shm } = limits;
    if let Some(memory) = memory.as_ref().map(|memory| memory.value) {
        args.extend([format!("--memory={memory}"), format!("--memory-swap={memory}")]);
    }
    args.extend(cpus.as_ref().map(|cpus| format!("--cpus={}.{:03}", cpus.value / 1000, cpus.value % 1000)));
    args.extend(shm.as_ref().map(|shm| format!("--shm-size={}", shm.value)));
    args.extend(pids.as_ref().map(|pids| format!("--pids-limit={}", pids.value)));
    args
}
