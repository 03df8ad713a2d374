//! Points at which a test kills the runner. Compiled only with the feature `fault`, which tests enable and releases do
//! not: without it a point is nothing at all.

/// Where a test may let the runner die, in the order in which a run passes them.
pub const POINTS: [&str; 14] = [
    "state-made",
    "manifest-kept",
    "networks-made",
    "router-played",
    "router-ready",
    "agent-created",
    "agent-played",
    "pods-up",
    "command-started",
    "command-ended",
    "containers-removed",
    "pods-removed",
    "network-removed",
    "volumes-removed",
];

/// Kills this process with SIGKILL if `SANDBOXC_FAULT` names the point.
#[cfg(feature = "fault")]
pub fn point(name: &str) {
    debug_assert!(POINTS.contains(&name), "{name} is no known point");
    if std::env::var_os("SANDBOXC_FAULT").is_some_and(|wanted| wanted == name) {
        // A signal that cannot be sent to oneself shows as a test that finds the runner alive.
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

/// Nothing.
#[cfg(not(feature = "fault"))]
#[inline]
pub fn point(_name: &str) {}
