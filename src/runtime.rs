//! The only module with side effects: it applies what `emit` wrote, waits, and tears down.
//!
//! Invariants: it never builds a podman call that the emitted files do not already imply; it removes everything it
//! created, however a session ends; the command starts only after every other step was verified.
//!
//! May depend on every lower layer.

mod call;
pub mod cgroup;
pub mod conmon;
pub mod conversation;
pub mod ctrlog;
pub mod decisions;
pub mod doctor;
pub mod enter;
pub mod exec;
pub mod fault;
pub mod gc;
pub mod git;
pub mod host;
pub mod image;
pub mod image_build;
pub mod image_store;
pub mod installed;
pub mod keeper;
pub mod keys;
pub mod life;
pub mod live;
pub mod lock;
pub mod logged;
pub mod logs;
pub mod materials;
pub mod mirror;
pub mod nested;
pub mod netlog;
pub mod objects;
pub mod orphans;
pub mod output;
pub mod pins;
pub mod podman;
pub mod process;
pub mod programs;
pub mod redact;
pub mod registry;
pub mod report;
pub mod router_image;
pub mod seccomp;
pub mod selinux;
pub mod session;
pub mod signals;
pub mod stand_in;
pub mod state;
pub mod stop;
pub mod systemd;
pub mod tally;
pub mod terminal;
pub mod verify;
pub mod watch;

use thiserror::Error;

use image::MissingImage;

/// sandboxc's own exit codes. All other exit codes are the command's.
pub mod exit {
    /// Wrong usage, or a config with errors.
    pub const USAGE: u8 = 2;
    /// The command timed out.
    pub const TIMEOUT: u8 = 124;
    /// sandboxc or podman could not keep a promise.
    pub const PROMISE: u8 = 125;
    /// 128 + n: death by signal n.
    pub const SIGNAL_BASE: u8 = 128;
}

/// Why a session could not be set up, in one line. The exit code is always 125.
#[derive(Debug, Error)]
pub enum RuntimeError {
    /// podman is missing or cannot be started.
    #[error("cannot run podman: {0} (is podman 5.4 or newer installed?)")]
    NoPodman(std::io::Error),
    /// A podman call failed.
    #[error("{what}: {said}")]
    Podman {
        /// What the call was for.
        what: String,
        /// The last line that podman wrote to stderr.
        said: String,
    },
    /// Images are missing from local storage.
    #[error("{}", image::missing(.0))]
    MissingImages(Vec<MissingImage>),
    /// A build failed.
    #[error("building {tag} failed with {status}{}", image_build::tail(.lines))]
    Build {
        /// The image.
        tag: String,
        /// How podman ended.
        status: String,
        /// The last lines of its output, unless they have been printed.
        lines: Vec<String>,
    },
    /// podman's container differs from the plan.
    #[error("the container {container} has {what}, but the plan says {planned}; the command was not started")]
    Unplanned {
        /// podman's name of the container.
        container: String,
        /// What the container has.
        what: String,
        /// What the plan says.
        planned: String,
    },
    /// An I/O error: files, locks, signals.
    #[error("{0}: {1}")]
    Io(String, std::io::Error),
    /// A promise that this host cannot keep.
    #[error("{0}")]
    Host(String),
    /// A signal arrived during setup.
    #[error("stopped by {} before the command started", signals::name(*.0))]
    Interrupted(i32),
}

impl RuntimeError {
    /// Returns the error with secrets redacted.
    #[must_use]
    pub fn redacted(self, redactor: &redact::Redactor) -> Self {
        match self {
            Self::Interrupted(_) | Self::MissingImages(_) => self,
            _ => Self::Host(redactor.text(&self.to_string())),
        }
    }

    /// Wraps an I/O error together with what was being done.
    pub fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |error| Self::Io(what, error)
    }
}
