//! The output of a session's router and forwarder, including the gate.

use std::thread;
use std::time::Duration;

use super::RuntimeError;
use super::ctrlog::Follower;
use super::materials::known_file;
use super::objects::{ObjectKind, list};
use super::podman::Podman;
use super::redact::Redactor;
use super::registry::Registry;
use super::state::log_file;

/// The services with a log of their own. The agent's output goes to the caller of `run`.
const SERVICES: [&str; 2] = ["router", "forwarder"];

/// Passes each line to `each` with the name of its service. Returns false if there is no such session.
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
        // Checked before reading, so that everything written until then is read.
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

/// For a session without a runner, podman knows where the logs are.
fn of_another(podman: &Podman, session: &str, each: &mut dyn FnMut(&str, &str)) -> Result<bool, RuntimeError> {
    let containers: Vec<_> = list(podman)?
        .into_iter()
        .filter(|object| object.kind == ObjectKind::Container && object.session.as_deref() == Some(session))
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
