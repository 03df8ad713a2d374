//! The caller's terminal, and one of our own for podman.
//!
//! Job control stops every process of a background group that changes a terminal's modes or reads from it, with its
//! group. podman does both, and a runner that is stopped with it tears nothing down. So podman gets the far end of a
//! pseudo-terminal and a process group of its own, and only this module touches the caller's terminal: modes and keys
//! while our group is in its foreground, nothing else while it is not (`timeout` in a script, `&`).

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

/// How often it is looked whether the keyboard is ours, and whether anybody still wants it.
const LOOK: Duration = Duration::from_millis(100);

/// Bytes at a time.
const CHUNK: usize = 16 * 1024;

/// True if the terminal on stdin is there for our process group.
fn in_foreground() -> bool {
    tcgetpgrp(stdin()).is_ok_and(|group| group == getpgrp())
}

/// The modes of the caller's terminal.
#[derive(Debug, Default)]
struct Modes {
    /// As they were before we changed them.
    saved: Mutex<Option<Termios>>,
}

impl Modes {
    /// Every key becomes a byte for the command. Nothing happens in the background.
    fn enter(&self) {
        let mut saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        if !in_foreground() {
            return;
        }
        // A terminal that is gone is noticed by whoever reads from it.
        let Ok(now) = tcgetattr(stdin()) else { return };
        if now.local_modes.contains(LocalModes::ICANON) || saved.is_none() {
            *saved = Some(now.clone());
        }
        let mut raw = now;
        raw.make_raw();
        let _ = tcsetattr(stdin(), OptionalActions::Now, &raw);
    }

    /// As it was. In the background the modes are somebody else's by now.
    fn leave(&self) {
        let mut saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(modes) = saved.take().filter(|_| in_foreground()) {
            let _ = tcsetattr(stdin(), OptionalActions::Drain, &modes);
        }
    }
}

/// Hands what is typed on the caller's terminal to `to`, until it ends or nobody reads there.
#[derive(Debug)]
pub struct Keyboard {
    closed: Arc<AtomicBool>,
}

impl Keyboard {
    /// Begins, in a thread of its own: nobody waits for a keyboard.
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
    /// What is typed from here on is for whoever comes after us.
    fn drop(&mut self) {
        self.closed.store(true, Ordering::SeqCst);
    }
}

/// podman's terminal.
#[derive(Debug)]
pub struct Terminal {
    modes: Arc<Modes>,
    near: OwnedFd,
    /// Ends when everything has been shown.
    shown: UnixStream,
    _keyboard: Keyboard,
}

impl Terminal {
    /// Makes one like the caller's. The second value is podman's end.
    pub fn open() -> Result<(Self, OwnedFd), RuntimeError> {
        let doing = || RuntimeError::io("making a terminal for the command");
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

    /// Stops this process as a shell asks for it, and goes on when the shell does.
    pub fn suspend(&self) {
        self.modes.leave();
        stop_self();
        self.modes.enter();
    }

    /// After it went on: the shell may have changed the modes.
    pub fn resume(&self, podman: &Process) {
        self.modes.enter();
        self.resize(podman);
    }

    /// Gives podman's end the size of the caller's, and says so: a terminal tells only those whose controlling one it is.
    pub fn resize(&self, podman: &Process) {
        if let Ok(size) = tcgetwinsize(stdin()) {
            let _ = tcsetwinsize(&self.near, size);
            podman.signal(Signal::WINCH);
        }
    }
}

impl AsFd for Terminal {
    /// Readable once everything that podman wrote has been shown.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shown.as_fd()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.modes.leave();
    }
}

/// Both ends. podman makes its own raw and restores it; lines of podman's own need the carriage returns then.
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

/// Until podman's end is closed. A caller who is gone gets nothing, but podman must not block on it.
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
            // `EIO` is its end.
            Err(_) => return,
        }
    }
}

fn readable(fd: BorrowedFd<'_>) -> bool {
    let most = Timespec { tv_sec: 0, tv_nsec: LOOK.subsec_nanos().into() };
    matches!(poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&most)), Ok(count) if count > 0)
}

/// False at the end.
fn copy_once(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> bool {
    let mut buffer = [0; CHUNK];
    let count = match rustix::io::read(from, &mut buffer) {
        Ok(0) => return false,
        Ok(count) => count,
        // Somebody else came to the foreground meanwhile.
        Err(rustix::io::Errno::INTR | rustix::io::Errno::IO) => return true,
        Err(_) => return false,
    };
    let mut rest = buffer.get(..count).unwrap_or_default();
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
