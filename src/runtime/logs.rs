//! What a session's router and forwarder (with the gate before it) said.

use std::thread;
use std::time::Duration;

use super::RuntimeError;
use super::ctrlog::Follower;
use super::materials::known_file;
use super::objects::{Kind, list};
use super::podman::Podman;
use super::redact::Redactor;
use super::registry::Registry;
use super::state::log_file;

/// The services that write a log of their own; the agent's output belongs to its command's caller.
const SERVICES: [&str; 2] = ["router", "forwarder"];

/// Hands out each line with who said it; false if nothing of that session is there.
pub fn logs(
    podman: &Podman,
    registry: &Registry,
    session: &str,
    follow: bool,
    each: &mut dyn FnMut(&str, &str),
) -> Result<bool, RuntimeError> {
    if !registry.session_dir(session).is_dir() {
        return of_another(podman, session, each);
    }
    let redactor = Redactor::read(&known_file(&registry.session_dir(session)))?;
    let mut followers = SERVICES.map(|service| {
        let path = log_file(&registry.session_dir(session), service);
        (service, Follower::new(path))
    });
    loop {
        // Asked first, so that what was said until the end is read after it.
        let goes_on = follow && registry.find(session)?.is_some();
        for (service, follower) in &mut followers {
            follower.lines().iter().for_each(|(_, line)| each(service, &redactor.text(line)));
        }
        if !goes_on {
            return Ok(true);
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// A session that no runner of ours has: podman knows where its logs are.
fn of_another(podman: &Podman, session: &str, each: &mut dyn FnMut(&str, &str)) -> Result<bool, RuntimeError> {
    let containers: Vec<_> = list(podman)?
        .into_iter()
        .filter(|object| object.kind == Kind::Container && object.session.as_deref() == Some(session))
        .collect();
    for service in ["router", "gate", "forwarder"] {
        let end = format!("-{service}");
        for container in containers.iter().filter(|container| container.name.ends_with(&end)) {
            let output = podman.output(&["logs", &container.name], None)?;
            for text in [&output.stdout, &output.stderr] {
                String::from_utf8_lossy(text).lines().for_each(|line| each(service, line));
            }
        }
    }
    Ok(!containers.is_empty())
}
