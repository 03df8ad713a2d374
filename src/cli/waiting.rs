//! The line that a terminal shows while a session starts.

use std::cell::Cell;
use std::io::{self, Write as _};

use super::words::{ERASE, say};
use crate::runtime::life::Progress;
use crate::visible::escaped;

/// What a terminal shows during a start, if there is one.
pub(super) struct Waiting {
    on: bool,
    /// Whether a line without an end is on the screen.
    open: Cell<bool>,
}

impl Waiting {
    pub(super) fn new(on: bool) -> Self {
        Self { on, open: Cell::new(false) }
    }

    /// Replaces the line.
    pub(super) fn show(&self, progress: Progress<'_>) {
        if !self.on {
            return;
        }
        let (text, open) = match progress {
            Progress::Step(session, step) => (format!("session {session}: {step} …"), true),
            Progress::Ready(session) => (format!("session {session}\n"), false),
        };
        let ended = text.ends_with('\n');
        Self::put(&format!("{ERASE}sandboxc: {}{}", escaped(text.trim_end()), if ended { "\n" } else { "" }));
        self.open.set(open);
    }

    /// Prints a message on a line of its own.
    pub(super) fn say(&self, line: &str) {
        self.erase();
        say(&format!("sandboxc: {line}"));
    }

    fn erase(&self) {
        if self.open.replace(false) {
            Self::put(ERASE);
        }
    }

    /// A closed stderr is not an error.
    fn put(text: &str) {
        let mut stderr = io::stderr().lock();
        let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
    }
}

impl Drop for Waiting {
    /// The message of an error follows.
    fn drop(&mut self) {
        self.erase();
    }
}
