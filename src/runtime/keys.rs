//! Single keys from the user's terminal.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::stdio::stdin;
use rustix::termios::{LocalModes, OptionalActions, Termios, isatty, tcgetattr, tcsetattr};

use super::terminal::in_foreground;

/// A terminal on which each key counts by itself and is not shown. Its modes return when this is dropped.
#[derive(Debug)]
pub struct Keys {
    before: Termios,
}

/// ETX: what Ctrl-C sends while keys are read one by one.
pub const INTERRUPT: u8 = 3;

impl Keys {
    /// `None` if stdin is not a terminal that we may use.
    pub fn open() -> Option<Self> {
        if !isatty(stdin()) || !in_foreground() {
            return None;
        }
        let before = tcgetattr(stdin()).ok()?;
        let mut single = before.clone();
        // Keys that send signals arrive as bytes, so that the modes always return.
        single.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        tcsetattr(stdin(), OptionalActions::Now, &single).ok()?;
        Some(Self { before })
    }

    /// Waits for keys, and returns those that were pressed; `None` if the terminal is gone.
    #[allow(clippy::unused_self, reason = "only while the modes hold")]
    pub fn pressed(&self, within: Duration) -> Option<Vec<u8>> {
        let wait = Timespec { tv_sec: 0, tv_nsec: i64::from(within.subsec_nanos()) };
        let mut ready = [PollFd::from_borrowed_fd(stdin(), PollFlags::IN)];
        match poll(&mut ready, Some(&wait)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => Some(Vec::new()),
            Err(_) => None,
            Ok(_) => {
                let mut keys = [0; 64];
                let count = rustix::io::read(stdin(), &mut keys).ok().filter(|&count| count > 0)?;
                Some(keys.get(..count).unwrap_or_default().to_vec())
            }
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // If the terminal is gone, it has no modes.
        let _ = tcsetattr(stdin(), OptionalActions::Drain, &self.before);
    }
}
