//! The signals that a runner handles, so that none of them ends it and leaves a sandbox behind.
//!
//! | signal | during the setup | while the command runs |
//! |---|---|---|
//! | INT, QUIT | stops the session | goes to every process of the command; a second one within two seconds stops the sandbox |
//! | USR1, USR2 | stops the session | goes to the command, as with `podman run` |
//! | HUP, TERM, and every other signal whose default is to end a process | stops the session | stops the sandbox |
//! | TSTP, CONT, WINCH | not handled | the terminal's, see `terminal` |
//!
//! KILL and the program's own faults (SEGV, BUS, ILL, FPE) cannot be handled; `gc` removes what they leave. HUP stays
//! ignored if it was ignored at the start, as with `nohup`.

use std::collections::VecDeque;
use std::fmt;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::process::Signal;
use signal_hook::consts::{
    SIGABRT, SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGQUIT, SIGSYS, SIGTERM, SIGTRAP, SIGTSTP, SIGUSR1,
    SIGUSR2, SIGVTALRM, SIGWINCH, SIGXCPU, SIGXFSZ,
};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;
use signal_hook::low_level::signal_name;

use super::RuntimeError;

/// Signals with a name that end a process by default, whoever sends them.
const ENDING: [i32; 14] = [
    SIGHUP, SIGINT, SIGQUIT, SIGTRAP, SIGABRT, SIGUSR1, SIGUSR2, SIGALRM, SIGTERM, SIGXCPU, SIGXFSZ, SIGVTALRM,
    SIGPROF, SIGSYS,
];

/// The numbers of the others on Linux (`signal(7)`): STKFLT on most architectures, IO, PWR, and the real-time signals
/// that the C library does not reserve.
const UNNAMED: [i32; 2] = [16, 30];
const REAL_TIME: std::ops::RangeInclusive<i32> = 35..=64;

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Stop the sandbox.
    End(i32),
    /// Stop the command, if the command wants to.
    Interrupt(Signal),
    /// Unknown to us; a message for the command.
    Message(Signal),
    /// Stop (suspend), and leave the terminal to the shell.
    Suspend,
    /// Continue.
    Continue,
    /// Tell the command the terminal's new size.
    Resize,
}

impl Asked {
    fn of(signal: i32) -> Self {
        match signal {
            SIGINT => Self::Interrupt(Signal::INT),
            SIGQUIT => Self::Interrupt(Signal::QUIT),
            SIGUSR1 => Self::Message(Signal::USR1),
            SIGUSR2 => Self::Message(Signal::USR2),
            SIGTSTP => Self::Suspend,
            SIGCONT => Self::Continue,
            SIGWINCH => Self::Resize,
            other => Self::End(other),
        }
    }

    /// The signal, if its default would have ended the process.
    fn ending(self) -> Option<i32> {
        match self {
            Self::End(signal) => Some(signal),
            Self::Interrupt(signal) | Self::Message(signal) => Some(signal.as_raw()),
            Self::Suspend | Self::Continue | Self::Resize => None,
        }
    }
}

/// The signals of this process.
pub struct Signals {
    arrived: Mutex<Arrived>,
    /// Becomes readable when a signal has arrived.
    wake: UnixStream,
    /// The first signal during the setup that asked to stop, for all later callers.
    ended: AtomicI32,
}

struct Arrived {
    source: SignalDelivery<UnixStream, SignalOnly>,
    waiting: VecDeque<Asked>,
}

impl fmt::Debug for Signals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signals").field("ended", &self.ended).finish_non_exhaustive()
    }
}

impl Signals {
    /// Starts to handle the signals. From here on, none of them ends the process.
    pub fn take_over() -> Result<Self, RuntimeError> {
        let doing = || RuntimeError::io("installing signal handlers");
        let (wake, writer) = UnixStream::pair().map_err(doing())?;
        let reader = wake.try_clone().map_err(doing())?;
        let ignored = ignored(&fs::read_to_string("/proc/self/status").unwrap_or_default());
        let named = ENDING.into_iter().filter(|&signal| signal != SIGHUP || !ignored.contains(&SIGHUP));
        let source = SignalDelivery::with_pipe(reader, writer, SignalOnly, named.chain([SIGIO])).map_err(doing())?;
        for signal in UNNAMED.into_iter().chain(REAL_TIME) {
            // Not every architecture and C library has each of them.
            let _ = source.handle().add_signal(signal);
        }
        let arrived = Mutex::new(Arrived { source, waiting: VecDeque::new() });
        Ok(Self { arrived, wake, ended: AtomicI32::new(0) })
    }

    /// Starts to handle the signals of shells and terminals, too.
    pub fn with_terminal(&self) -> Result<(), RuntimeError> {
        let arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        for signal in [SIGTSTP, SIGCONT, SIGWINCH] {
            arrived.source.handle().add_signal(signal).map_err(RuntimeError::io("installing signal handlers"))?;
        }
        Ok(())
    }

    /// Returns the next signal that has arrived. One that stops the sandbox comes before all others.
    pub fn next(&self) -> Option<Asked> {
        let mut arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        let new: Vec<Asked> = arrived.source.pending().map(Asked::of).collect();
        for asked in new {
            match asked {
                Asked::End(_) => arrived.waiting.push_front(asked),
                _ => arrived.waiting.push_back(asked),
            }
        }
        arrived.waiting.pop_front()
    }

    /// During the setup: fails for all callers once a signal has arrived that would have ended the process.
    pub fn check(&self) -> Result<(), RuntimeError> {
        if self.ended.load(Ordering::SeqCst) == 0
            && let Some(signal) = std::iter::from_fn(|| self.next()).find_map(Asked::ending)
        {
            // If two threads ask at once, the first one counts.
            let _ = self.ended.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst);
        }
        match self.ended.load(Ordering::SeqCst) {
            0 => Ok(()),
            signal => Err(RuntimeError::Interrupted(signal)),
        }
    }
}

impl AsFd for Signals {
    /// Becomes readable when a signal has arrived.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

/// A signal's name.
pub fn name(signal: i32) -> String {
    signal_name(signal).map_or_else(|| format!("signal {signal}"), str::to_owned)
}

/// The signals that were ignored when this process started (`SigIgn`, one bit each, in `proc_pid_status(5)`).
fn ignored(status: &str) -> Vec<i32> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    (1..=64).filter(|signal| mask >> (signal - 1) & 1 == 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_ignored_is_read_from_the_mask() {
        assert_eq!(ignored("Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\tff\n"), [1, 13]);
        assert_eq!(ignored(""), [0_i32; 0]);
    }

    /// `signal(7)`: a signal ends a process unless its default is to be ignored, to stop or to continue.
    #[test]
    fn every_signal_that_would_end_the_runner_is_taken_over() {
        let harmless =
            [Signal::CHILD, Signal::CONT, Signal::TSTP, Signal::TTIN, Signal::TTOU, Signal::URG, Signal::WINCH];
        let faults = [Signal::ILL, Signal::FPE, Signal::SEGV, Signal::BUS];
        // Rust's runtime ignores PIPE; the C library reserves 32 to 34.
        let others = [Signal::KILL, Signal::STOP, Signal::PIPE].map(Signal::as_raw).into_iter().chain(32..=34);
        let not_ours: Vec<i32> = harmless.into_iter().chain(faults).map(Signal::as_raw).chain(others).collect();
        let ours: Vec<i32> = ENDING.into_iter().chain([SIGIO]).chain(UNNAMED).chain(REAL_TIME).collect();
        for signal in 1..=64 {
            assert_ne!(ours.contains(&signal), not_ours.contains(&signal), "{}", name(signal));
            let ends = matches!(Asked::of(signal), Asked::End(_));
            let asks = [SIGINT, SIGQUIT, SIGUSR1, SIGUSR2].contains(&signal);
            assert!(!ours.contains(&signal) || ends != asks, "{}", name(signal));
            assert_eq!(Asked::of(signal).ending().is_some(), !matches!(signal, SIGTSTP | SIGCONT | SIGWINCH));
        }
    }
}
