//! The caller's terminal, and one of our own for podman.
//!
//! Job control stops the whole process group of a background process that changes a terminal's modes or reads from it.
//! podman does both, and a runner that is stopped with it cannot tear anything down. So podman gets its own process
//! group and the far end of a pseudo-terminal, and only this module touches the caller's terminal. It handles modes and
//! keys while our group is in the foreground, and nothing while it is not (`timeout` in a script, `&`).

use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, getpgrp};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::stdio::stdin;
use rustix::termios::{
    LocalModes, OptionalActions, OutputModes, Termios, tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr, tcsetwinsize,
};

use super::RuntimeError;
use super::process::{Process, stop_self};

/// How often to check whether the keyboard is ours and whether the command still reads it.
const LOOK: Duration = Duration::from_millis(100);

/// How many bytes are copied at a time.
const CHUNK: usize = 16 * 1024;

/// Whether our process group may use the terminal on stdin.
pub(super) fn in_foreground() -> bool {
    tcgetpgrp(stdin()).is_ok_and(|group| group == getpgrp())
}

/// The modes of the caller's terminal.
#[derive(Debug, Default)]
struct Modes {
    /// The modes before we changed them.
    saved: Mutex<Option<Termios>>,
}

impl Modes {
    /// Makes every key a byte for the command. Does nothing in the background.
    fn enter(&self) {
        let mut saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        if !in_foreground() {
            return;
        }
        // If the terminal is gone, its reader will notice.
        let Ok(now) = tcgetattr(stdin()) else { return };
        if now.local_modes.contains(LocalModes::ICANON) || saved.is_none() {
            *saved = Some(now.clone());
        }
        let mut raw = now;
        raw.make_raw();
        let _ = tcsetattr(stdin(), OptionalActions::Now, &raw);
    }

    /// Restores the modes. In the background, the modes are another process's by now.
    fn leave(&self) {
        let mut saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(modes) = saved.take().filter(|_| in_foreground()) {
            let _ = tcsetattr(stdin(), OptionalActions::Drain, &modes);
        }
    }
}

/// Copies what is typed on the caller's terminal to `to`, until the terminal ends or nobody reads `to`.
#[derive(Debug)]
pub struct Keyboard {
    closed: Arc<AtomicBool>,
}

impl Keyboard {
    /// Starts in a thread of its own, since nothing waits for the keyboard.
    pub fn start(to: OwnedFd) -> Self {
        Self::start_with(to, None)
    }

    fn start_with(to: OwnedFd, modes: Option<Arc<Modes>>) -> Self {
        let closed = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&closed);
        thread::spawn(move || {
            let mut was_ours = false;
            while !flag.load(Ordering::SeqCst) {
                let is_ours = in_foreground();
                if let Some(modes) = modes.as_ref().filter(|_| is_ours && !was_ours) {
                    modes.enter();
                }
                was_ours = is_ours;
                if !is_ours {
                    thread::sleep(LOOK);
                } else if readable(stdin()) && !flag.load(Ordering::SeqCst) && !copy_once(stdin(), to.as_fd()) {
                    return;
                }
            }
        });
        Self { closed }
    }
}

impl Drop for Keyboard {
    /// What is typed from here on is for the shell.
    fn drop(&mut self) {
        self.closed.store(true, Ordering::SeqCst);
    }
}

/// The key that ends the input of a terminal (`VEOF` in `termios(3)`), and how often it is pressed while the command goes
/// on: each reader of a pipe that has ended sees its end.
const END_OF_INPUT: u8 = 0x04;
const AGAIN: Duration = Duration::from_secs(1);

/// Types what arrives on stdin, which is not a terminal, for a command with a terminal. Without the end key, the command
/// would wait forever for more.
pub fn type_input(to: OwnedFd) {
    thread::spawn(move || {
        let mut last = b'\n';
        while copy(stdin(), to.as_fd(), &mut last) {}
        // In the middle of a line, the key only hands over what was typed so far.
        let unfinished = (last != b'\n').then_some(END_OF_INPUT);
        let mut keys: Vec<u8> = unfinished.into_iter().chain([END_OF_INPUT]).collect();
        while write_all(to.as_fd(), &keys) {
            keys = vec![END_OF_INPUT];
            thread::sleep(AGAIN);
        }
    });
}

/// podman's terminal.
#[derive(Debug)]
pub struct Terminal {
    modes: Arc<Modes>,
    near: OwnedFd,
    /// A thread that ends when everything has been shown.
    shown: UnixStream,
    _keyboard: Keyboard,
}

impl Terminal {
    /// Creates a terminal like the caller's. Also returns podman's end.
    pub fn open() -> Result<(Self, OwnedFd), RuntimeError> {
        let doing = || RuntimeError::io("creating a terminal for the command");
        let (near, far) = pair().map_err(|error| doing()(error.into()))?;
        let (shown, showing) = UnixStream::pair().map_err(doing())?;
        let screen = near.try_clone().map_err(doing())?;
        thread::spawn(move || {
            let _held = showing;
            show(&screen);
        });
        let modes = Arc::new(Modes::default());
        modes.enter();
        let keys = near.try_clone().map_err(doing())?;
        let keyboard = Keyboard::start_with(keys, Some(Arc::clone(&modes)));
        Ok((Self { modes, near, shown, _keyboard: keyboard }, far))
    }

    /// Stops this process as the shell expects, and returns when the shell continues it.
    pub fn suspend(&self) {
        self.modes.leave();
        stop_self();
        self.modes.enter();
    }

    /// Called after the process was continued, since the shell may have changed the modes.
    pub fn resume(&self, podman: &Process) {
        self.modes.enter();
        self.resize(podman);
    }

    /// Gives podman's end the size of the caller's terminal, and signals the change: a terminal only tells processes
    /// whose controlling terminal it is.
    pub fn resize(&self, podman: &Process) {
        if let Ok(size) = tcgetwinsize(stdin()) {
            let _ = tcsetwinsize(&self.near, size);
            podman.signal(Signal::WINCH);
        }
    }
}

impl AsFd for Terminal {
    /// Becomes readable when all of podman's output has been shown.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shown.as_fd()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.modes.leave();
    }
}

/// Opens both ends. podman sets its own terminal to raw mode and restores it; lines of podman's own need carriage
/// returns then.
fn pair() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let near = openpt(flags)?;
    grantpt(&near)?;
    unlockpt(&near)?;
    let far = ioctl_tiocgptpeer(&near, flags)?;
    let mut modes = tcgetattr(stdin()).or_else(|_| tcgetattr(&far))?;
    modes.make_raw();
    modes.output_modes |= OutputModes::OPOST | OutputModes::ONLCR;
    tcsetattr(&far, OptionalActions::Now, &modes)?;
    if let Ok(size) = tcgetwinsize(stdin()) {
        tcsetwinsize(&near, size)?;
    }
    Ok((near, far))
}

/// Copies output until podman's end is closed. If the caller is gone, output is dropped, since podman must not block.
fn show(near: &OwnedFd) {
    let mut buffer = vec![0; CHUNK];
    let mut out = io::stdout();
    let mut wanted = true;
    loop {
        match rustix::io::read(near, &mut buffer) {
            Ok(0) => return,
            Ok(count) => {
                let bytes = buffer.get(..count).unwrap_or_default();
                wanted = wanted && out.write_all(bytes).and_then(|()| out.flush()).is_ok();
            }
            Err(rustix::io::Errno::INTR) => {}
            // `EIO` means the end.
            Err(_) => return,
        }
    }
}

fn readable(fd: BorrowedFd<'_>) -> bool {
    let most = Timespec { tv_sec: 0, tv_nsec: LOOK.subsec_nanos().into() };
    matches!(poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&most)), Ok(count) if count > 0)
}

/// Returns false at the end.
fn copy_once(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> bool {
    copy(from, to, &mut 0)
}

/// Copies what can be read at once, and sets its last byte. Returns false at the end.
fn copy(from: BorrowedFd<'_>, to: BorrowedFd<'_>, last: &mut u8) -> bool {
    let mut buffer = [0; CHUNK];
    let count = match rustix::io::read(from, &mut buffer) {
        Ok(0) => return false,
        Ok(count) => count,
        // Another process came to the foreground in between.
        Err(rustix::io::Errno::INTR | rustix::io::Errno::IO) => return true,
        Err(_) => return false,
    };
    let bytes = buffer.get(..count).unwrap_or_default();
    *last = bytes.last().copied().unwrap_or(*last);
    write_all(to, bytes)
}

fn write_all(to: BorrowedFd<'_>, bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while !rest.is_empty() {
        match rustix::io::write(to, rest) {
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn podmans_end_passes_every_key_on_and_ends_lines_for_a_screen() {
        let (near, far) = pair().unwrap();
        rustix::io::write(&near, b"\x03\x04\x1a\r").unwrap();
        let mut buffer = [0; 16];
        let count = rustix::io::read(&far, &mut buffer).unwrap();
        assert_eq!(&buffer[..count], b"\x03\x04\x1a\r", "no signal, no end of file, no echo");
        rustix::io::write(&far, b"a\n").unwrap();
        let count = rustix::io::read(&near, &mut buffer).unwrap();
        assert_eq!(&buffer[..count], b"a\r\n");
    }
}
