//! Runs a command beside the one of a living session, as the same user and confined in the same way.
//!
//! The container is never chosen by a name or a label alone: a runner records the id of the one that it compared with
//! the plan, and holds the session's lock; a unit's container belongs to the conmon that systemd holds for it.

use std::time::{Duration, Instant};

use super::exec::{Ended, Exec, Extent, exec};
use super::podman::Podman;
use super::registry::{Entrance, Registry, Stage};
use super::signals::Signals;
use super::systemd::UserManager;
use super::{RuntimeError, exit};
use crate::emit::review::Review;
use crate::plan::pod::Role;
use crate::plan::{Part, session_is_valid};

/// The exit code of `podman exec` if its container disappears, and what then happened to the command.
const GONE: u8 = 255;
const KILLED: u8 = exit::SIGNAL_BASE + 9;

/// A command, and how to run it.
#[derive(Clone, Copy, Debug)]
pub struct Visit<'a> {
    /// The session.
    pub session: &'a str,
    /// The command.
    pub command: &'a [String],
    /// Give the command a terminal.
    pub tty: bool,
    /// The caller's `$TERM`.
    pub term: Option<&'a str>,
    /// Stop the command after this time.
    pub timeout: Option<Duration>,
}

/// Runs the command. Returns its exit code, or `None` if there is no such session; `tell` prints messages for the user.
pub fn enter(
    registry: &Registry,
    manager: &UserManager,
    visit: &Visit<'_>,
    tell: &dyn Fn(&str),
) -> Result<Option<u8>, RuntimeError> {
    // Before the session is looked up, so that it does not end as unused in between.
    let _visit = session_is_valid(visit.session).then(|| registry.visit(visit.session)).flatten();
    let Some((entrance, podman)) = open(registry, manager, visit.session)? else { return Ok(None) };
    let signals = Signals::take_over()?;
    let request = Exec {
        working_dir: entrance.working_dir.as_deref(),
        container: &entrance.container,
        extent: Extent::Command,
        command: visit.command,
        tty: visit.tty,
        term: visit.term,
        env_file: entrance.env_file.as_deref(),
        secrets: entrance.secrets,
        deadline: visit.timeout.map(|timeout| Instant::now() + timeout),
        alarm: None,
    };
    let ended = exec(&podman, &request, &signals);
    // Whatever podman makes of it, the command ended with its session.
    let fails = !matches!(ended, Ok(Ended::Code(code)) if code < exit::PROMISE);
    let goes_on =
        || open(registry, manager, visit.session).is_ok_and(|now| now.is_some_and(|(now, _)| now == entrance));
    if fails && !goes_on() {
        tell(&format!("the session {} has ended, and the command with it", visit.session));
        return Ok(Some(match ended {
            Ok(Ended::Code(GONE)) => KILLED,
            Ok(Ended::Code(code)) => code,
            _ => exit::PROMISE,
        }));
    }
    Ok(Some(match ended? {
        Ended::Code(code) => code,
        Ended::TimedOut => {
            tell(&format!("timed out after {} s", visit.timeout.unwrap_or_default().as_secs()));
            exit::TIMEOUT
        }
        // No alarm was given.
        Ended::Alarmed => exit::PROMISE,
        Ended::Signalled(signal) => exit::SIGNAL_BASE + u8::try_from(signal).unwrap_or(0),
    }))
}

/// Finds the way into a session, and the podman that uses its settings.
fn open(registry: &Registry, manager: &UserManager, session: &str) -> Result<Option<(Entrance, Podman)>, RuntimeError> {
    if !session_is_valid(session) {
        return Ok(None);
    }
    let Some(record) = registry.find(session)? else {
        let entrance = unit(manager, session)?;
        return entrance.map(|entrance| Ok((entrance, Podman::new(registry.empty_dir())?))).transpose();
    };
    match (record.stage, record.entrance) {
        (Stage::Running, Some(entrance)) => Ok(Some((entrance, Podman::of_session(&registry.session_dir(session))))),
        (Stage::Ending, _) => Err(RuntimeError::Host(format!("the session {session} is ending"))),
        (Stage::Starting | Stage::Running, _) => Err(RuntimeError::Host(format!(
            "the session {session} is still starting: try again when `sandboxc ps` shows it as running"
        ))),
    }
}

/// The way into an installed sandbox that is running.
fn unit(manager: &UserManager, session: &str) -> Result<Option<Entrance>, RuntimeError> {
    let Some(units) = manager.installed(session)? else { return Ok(None) };
    let review = manager.review(session)?;
    let container = agent_container(&review).and_then(|name| super::systemd::container_of(&units.agent, &name));
    let container = container.ok_or_else(|| {
        RuntimeError::Host(format!("{session} is not running: start it with `systemctl --user start {}`", units.agent))
    })?;
    // Surrogates are variables of the container.
    Ok(Some(Entrance {
        container,
        working_dir: None,
        env_file: None,
        secrets: review.materials.contains(&Part::Secrets),
    }))
}

/// podman's name of the container that runs the command.
fn agent_container(review: &Review) -> Option<String> {
    let is_agents =
        |pod: &&crate::emit::review::PodReview| pod.containers.iter().any(|one| one.container == Role::Agent);
    review.pods.iter().find(is_agents).map(|pod| format!("{}-{}", pod.name, Role::Agent.word()))
}
