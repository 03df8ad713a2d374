//! What containers inside need of the host and of the agent's image, checked before the command starts.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::podman::Podman;
use super::signals::Signals;
use super::{RuntimeError, programs};
use crate::config::{ImageSource, Nested};
use crate::plan::Plan;
use crate::plan::pod::{DOCKER_SOCKET, SERVE_DOCKER, Source};
use crate::router::gate::{NO_NSDELEGATE, has_nsdelegate};

/// How to keep the limits of a command that may create user namespaces. systemd mounts cgroup file systems this way.
pub const FIX_NSDELEGATE: &str = "sudo mount -o remount,nsdelegate /sys/fs/cgroup";

/// Programs that podman inside needs, and those for networks of its own.
const PROGRAMS: [&str; 5] = ["podman", "crun", "newuidmap", "newgidmap", "catatonit"];
const FOR_NETWORKS: [&str; 4] = ["netavark", "aardvark-dns", "pasta", "nft"];

/// Where podman looks for its helpers besides `PATH` (containers.conf(5), `helper_binaries_dir`).
const HELPERS: [&str; 4] =
    ["/usr/local/libexec/podman", "/usr/local/lib/podman", "/usr/libexec/podman", "/usr/lib/podman"];

/// The list of containers in a home directory, and its largest size that is read.
const LIST: &str = ".local/share/containers/storage/overlay-containers/containers.json";
const LARGEST: u64 = 4 << 20;

/// How many containers are removed at one start.
const MOST: usize = 500;

/// How long podman inside may take until it serves docker's API, and how often to look.
const SERVICE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(20);

/// Whether the option is set on this host.
pub fn host_has_nsdelegate() -> bool {
    fs::read_to_string("/proc/self/mountinfo").is_ok_and(|table| has_nsdelegate(&table))
}

/// Refuses a plan whose limits this host cannot keep.
pub fn check_host(plan: &Plan) -> Result<(), RuntimeError> {
    if !plan.needs_nsdelegate() || host_has_nsdelegate() {
        return Ok(());
    }
    Err(RuntimeError::Host(format!("{NO_NSDELEGATE}: run `{FIX_NSDELEGATE}`, or remove `resource_limits`")))
}

/// Refuses an image in which podman cannot start containers. Nothing has run in the agent's container yet.
pub fn check_image(plan: &Plan, container: &str) -> Result<(), RuntimeError> {
    let Some(Nested { networks, docker_socket: _ }) = plan.nested else { return Ok(()) };
    let more: &[&str] = if networks { &FOR_NETWORKS } else { &[] };
    let all: Vec<&str> = PROGRAMS.iter().chain(more).copied().collect();
    let missing = programs::missing(container, &all, &HELPERS);
    if missing.is_empty() {
        return Ok(());
    }
    let image = &plan.agent.main.image.value;
    let fix = match image {
        ImageSource::Containerfile { .. } => {
            "install podman, crun, uidmap and catatonit in .sandboxc/Containerfile, with `{networks: true}` also passt, aardvark-dns and \
             nftables, then run `sandboxc image build agent`"
        }
        ImageSource::Reference(_) => {
            "name one that has podman, or none and build sandboxc's own with `sandboxc image build agent`"
        }
    };
    Err(RuntimeError::Host(format!(
        "`nested_containers` needs programs that the image {} does not have: {}; {fix}",
        image.reference(),
        missing.join(", ")
    )))
}

/// Removes what containers of ended sessions left in the home volume: their names would be taken. podman inside does it, and
/// a failure matters as little as one of the command's own calls.
///
/// The list is read first, and then the host's podman says who uses the volume: a container in the list whose session is not
/// running afterwards belongs to no session, whoever started it.
pub fn remove_left(podman: &Podman, plan: &Plan, container: &str) {
    let home = plan.nested.and_then(|_| plan.agent.main.mounts.iter().find(|mount| mount.name == "home"));
    let Some((home, Source::Volume(volume))) = home.map(|home| (home, &home.source)) else { return };
    let list = programs::read(container, &home.target.join(Path::new(LIST)), LARGEST).unwrap_or_default();
    let left = ids(&list);
    if left.is_empty() || !is_alone(podman, volume, container) {
        return;
    }
    let mut args = vec!["exec", "--privileged=false", container, "podman", "rm", "--force", "--time=0"];
    args.extend(left.iter().map(String::as_str));
    let _ = podman.output(&args, None);
}

/// Lets podman inside serve docker's API, and waits until it does.
pub fn serve_docker(podman: &Podman, plan: &Plan, container: &str, signals: &Signals) -> Result<(), RuntimeError> {
    if !plan.nested.is_some_and(|nested| nested.docker_socket) {
        return Ok(());
    }
    let what = "starting `podman system service` inside";
    podman.call(what, &["exec", "--detach", "--privileged=false", container, "/bin/sh", "-c", SERVE_DOCKER], None)?;
    let until = Instant::now() + SERVICE;
    while !programs::missing(container, &[DOCKER_SOCKET], &[]).is_empty() {
        signals.check()?;
        if Instant::now() >= until {
            return Err(RuntimeError::Host(format!("{what}: it did not start within {} s", SERVICE.as_secs())));
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

/// The ids in the list, which the command of an earlier session may have written.
fn ids(list: &[u8]) -> Vec<String> {
    let all: Vec<Value> = serde_json::from_slice(list).unwrap_or_default();
    let is_id = |id: &&str| id.len() == 64 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let ids = all.iter().filter_map(|one| one.get("id")?.as_str()).filter(is_id);
    ids.take(MOST).map(str::to_owned).collect()
}

/// Whether no other running container uses the volume.
fn is_alone(podman: &Podman, volume: &str, container: &str) -> bool {
    let users = podman.json("listing the users of the home volume", &["ps", "--filter", &format!("volume={volume}")]);
    users.is_ok_and(|all| all.iter().all(|one| one.get("Id").and_then(Value::as_str) == Some(container)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ids_are_taken_from_a_list_that_anybody_may_have_written() {
        let (one, two) = ("0".repeat(64), "af".repeat(32));
        let list = format!(
            r#"[{{"id":"{one}","names":["x"]}},{{"id":"--all"}},{{"id":7}},{{}},{{"id":"{two}"}},{{"id":"{}"}}]"#,
            "G".repeat(64)
        );
        assert_eq!(ids(list.as_bytes()), [one, two]);
        for bad in ["", "{}", "[", "[[]]", "null"] {
            assert_eq!(ids(bad.as_bytes()), [""; 0], "{bad}");
        }
    }
}
