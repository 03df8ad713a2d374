//! Points at which a test kills the runner. The feature `fault` compiles them in; tests enable it, releases do not.

/// The points, in the order in which a run passes them.
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
    "containers-ended",
    "containers-stopped",
    "pods-removed",
    "volumes-removed",
];

/// The points before them, in a start of a new conversation.
pub const CONVERSATION_POINTS: [&str; 6] = [
    "mirror-cloned",
    "mirror-in-place",
    "conversation-noted",
    "conversation-made",
    "workspace-cloned",
    "workspace-in-place",
];

/// Kills this process with SIGKILL if `SANDBOXC_FAULT` names the point.
#[cfg(feature = "fault")]
pub fn point(name: &str) {
    debug_assert!(POINTS.contains(&name) || CONVERSATION_POINTS.contains(&name), "unknown point {name}");
    if std::env::var_os("SANDBOXC_FAULT").is_some_and(|wanted| wanted == name) {
        // If the signal cannot be sent, the test finds the runner alive and fails.
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

/// Does nothing.
#[cfg(not(feature = "fault"))]
#[inline]
pub fn point(_name: &str) {}
