//! A session without a command of its own: it waits for those of `exec`.

use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::runtime::RuntimeError;
use crate::runtime::conmon::Inside;
use crate::runtime::exec::{Ended, wait_for};
use crate::runtime::orphans::end_visits;
use crate::runtime::podman::Podman;
use crate::runtime::registry::Stage;
use crate::runtime::signals::{Asked, Signals};
use crate::runtime::state::State;

/// How often to check whether somebody visits the session.
const LOOK: Duration = Duration::from_millis(500);

/// Waits in the session whose agent has this container, until a signal asks to stop, the alarm is raised, the deadline passes,
/// or nobody has visited the session for the time `idle`.
pub(super) fn hold(
    (podman, state, agent): (&Podman, &State, &str),
    (idle, deadline): (Option<Duration>, Option<Instant>),
    signals: &Signals,
    alarm: Option<&UnixStream>,
) -> Result<Ended, RuntimeError> {
    let gone = || RuntimeError::Host("the sandbox's container has ended".to_owned());
    let inside = Inside::of_id(agent).ok_or_else(gone)?;
    let mut used = Instant::now();
    let ended = loop {
        match signals.next() {
            Some(Asked::End(signal)) => break Ended::Signalled(signal),
            Some(Asked::Interrupt(signal) | Asked::Message(signal)) => break Ended::Signalled(signal.as_raw()),
            Some(Asked::Suspend | Asked::Continue | Asked::Resize) => continue,
            None => {}
        }
        let now = Instant::now();
        if deadline.is_some_and(|deadline| now >= deadline) {
            break Ended::TimedOut;
        }
        // The lock is held until the session is recorded as ending, so that no visitor comes in between.
        let unvisited = state.unvisited();
        if unvisited.is_none() {
            used = now;
        } else if idle.is_some_and(|idle| now >= used + idle) {
            state.enter(Stage::Ending);
            break Ended::Code(0);
        }
        drop(unvisited);
        if wait_for(inside.ended(), signals, Some(now + LOOK), alarm)? {
            break Ended::Alarmed;
        }
        if inside.has_ended() {
            return Err(gone());
        }
    };
    state.enter(Stage::Ending);
    // Otherwise each visitor's podman would say in its own words that the container has disappeared.
    end_visits(podman.empty_dir(), &inside);
    Ok(ended)
}
