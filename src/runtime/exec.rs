//! Running the command in the held-open agent container, with a deadline and the caller's streams.

use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::RuntimeError;
use super::podman::Podman;
use crate::plan::trust;

/// A second Ctrl-C within this time ends the sandbox, not just the command.
const TWICE: Duration = Duration::from_secs(2);

/// How long the streams may drain after the container was killed.
const DRAIN: Duration = Duration::from_secs(5);

/// What to run, and how.
#[derive(Clone, Debug)]
pub struct Exec<'a> {
    /// The container.
    pub container: &'a str,
    /// The command and its arguments.
    pub command: &'a [String],
    /// Give it a terminal.
    pub tty: bool,
    /// The caller's `TERM`, passed on with a terminal only.
    pub term: Option<&'a str>,
    /// Variables of the command's, a line each, in a file: an argument could be read by every user of the host.
    pub env_file: Option<&'a Path>,
    /// The command's shell takes plain secrets from their file first.
    pub secrets: bool,
    /// When time is over.
    pub deadline: Option<Instant>,
    /// Readable once the command must not go on.
    pub alarm: Option<&'a UnixStream>,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The command's own code, or what podman says (126, 127, 128 + n).
    Code(u8),
    /// Time was over; the container was killed.
    TimedOut,
    /// The alarm was raised; the container was killed.
    Alarmed,
    /// This signal asked for the end.
    Signalled(i32),
}

/// SIGINT, SIGTERM and SIGHUP as readable descriptors, so that one `poll` waits for everything.
#[derive(Debug)]
pub struct Signals {
    readers: Vec<(i32, UnixStream)>,
}

impl Signals {
    /// Takes the signals over; from here on none of them ends the process by itself.
    pub fn take_over() -> Result<Self, RuntimeError> {
        let mut readers = Vec::new();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let doing = || RuntimeError::io("taking over signals");
            let (reader, writer) = UnixStream::pair().map_err(doing())?;
            reader.set_nonblocking(true).map_err(doing())?;
            signal_hook::low_level::pipe::register(signal, writer).map_err(doing())?;
            readers.push((signal, reader));
        }
        Ok(Self { readers })
    }

    /// A signal that has arrived since the last question.
    pub fn pending(&self) -> Option<i32> {
        let arrived = |(signal, reader): &(i32, UnixStream)| {
            let mut buffer = [0; 16];
            let mut reader: &UnixStream = reader;
            matches!(reader.read(&mut buffer), Ok(n) if n > 0).then_some(*signal)
        };
        self.readers.iter().filter_map(arrived).max_by_key(|&signal| signal == SIGTERM)
    }

    /// An error if the end was asked for during the set-up.
    pub fn check(&self) -> Result<(), RuntimeError> {
        self.pending().map_or(Ok(()), |signal| Err(RuntimeError::Interrupted(signal)))
    }
}

/// Runs it and waits. The container is gone or dying after `TimedOut`; otherwise it is still there.
pub fn exec(podman: &Podman, exec: &Exec<'_>, signals: &Signals) -> Result<Ended, RuntimeError> {
    let mut child = spawn(podman, exec)?;
    super::fault::point("command-started");
    let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())
        .map_err(|error| RuntimeError::Io("watching podman".to_owned(), error.into()))?;
    let mut last_interrupt: Option<Instant> = None;
    loop {
        let alarmed = wait_for(pidfd.as_fd(), signals, exec)?;
        if let Some(status) = child.try_wait().map_err(RuntimeError::io("waiting for podman"))? {
            return Ok(Ended::Code(code(status)));
        }
        if alarmed {
            end(podman, exec.container, &mut child);
            return Ok(Ended::Alarmed);
        }
        match signals.pending() {
            Some(SIGINT) if last_interrupt.is_none_or(|last| last.elapsed() > TWICE) => {
                last_interrupt = Some(Instant::now());
                interrupt(podman, exec.container);
            }
            Some(signal) => {
                end(podman, exec.container, &mut child);
                return Ok(Ended::Signalled(signal));
            }
            None => {}
        }
        if exec.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            end(podman, exec.container, &mut child);
            return Ok(Ended::TimedOut);
        }
    }
}

fn spawn(podman: &Podman, exec: &Exec<'_>) -> Result<Child, RuntimeError> {
    // No detach keys: every byte is the command's. Not privileged: a containers.conf with `privileged = true` reaches no
    // container of kube play, but every `podman exec`.
    let mut args = vec![
        "exec".to_owned(),
        "--interactive".to_owned(),
        "--detach-keys=".to_owned(),
        "--privileged=false".to_owned(),
    ];
    if exec.tty {
        args.push("--tty".to_owned());
        args.extend(exec.term.map(|term| format!("--env=TERM={term}")));
    }
    args.extend(exec.env_file.map(|path| format!("--env-file={}", path.display())));
    args.push(exec.container.to_owned());
    if exec.secrets {
        args.extend(trust::with_secrets());
    }
    args.extend_from_slice(exec.command);
    let mut command = podman.command(&args);
    let keyboard = rustix::termios::isatty(io::stdin());
    if keyboard && exec.tty {
        // podman makes the terminal raw, so Ctrl-C is a byte like any other, and a resize reaches it here.
        return command.spawn().map_err(RuntimeError::NoPodman);
    }
    // Elsewhere the terminal's Ctrl-C must not reach podman, which would end by it: it is the command's, which
    // `interrupt` tells. So podman gets a group of its own; and since such a group could not read a keyboard, we do.
    command.process_group(0);
    if keyboard {
        command.stdin(Stdio::piped());
    }
    let mut child = command.spawn().map_err(RuntimeError::NoPodman)?;
    if let Some(mut pipe) = child.stdin.take() {
        // Ends with its input, or with this process: nobody waits for a keyboard.
        std::thread::spawn(move || io::copy(&mut io::stdin(), &mut pipe));
    }
    Ok(child)
}

/// Until podman ends, a signal arrives, the deadline is there, or the alarm is raised, which is true then.
fn wait_for(pidfd: std::os::fd::BorrowedFd<'_>, signals: &Signals, exec: &Exec<'_>) -> Result<bool, RuntimeError> {
    let mut fds = vec![PollFd::new(&pidfd, PollFlags::IN)];
    fds.extend(signals.readers.iter().map(|(_, reader)| PollFd::new(reader, PollFlags::IN)));
    fds.extend(exec.alarm.map(|alarm| PollFd::new(alarm, PollFlags::IN)));
    let timeout = exec.deadline.map(|deadline| {
        let rest = deadline.saturating_duration_since(Instant::now());
        Timespec { tv_sec: i64::try_from(rest.as_secs()).unwrap_or(i64::MAX), tv_nsec: rest.subsec_nanos().into() }
    });
    match poll(&mut fds, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(RuntimeError::Io("waiting for podman".to_owned(), error.into())),
    }
    Ok(exec.alarm.is_some() && fds.last().is_some_and(|fd| !fd.revents().is_empty()))
}

/// Ends the whole container, so that no process of it lives on, and lets what was printed drain.
///
/// Removed, not killed: the clean-up that podman starts after a kill takes the pod's lock, and a `pod rm` that has it
/// meanwhile waits for that clean-up until systemd gives up after 90 s (seen on 5.4.2).
fn end(podman: &Podman, container: &str, child: &mut Child) {
    // Failing here is no reason to stop: the teardown that follows removes the pod by force.
    let _ = podman.output(&["rm", "--force", "--time", "0", container], None);
    let until = Instant::now() + DRAIN;
    while Instant::now() < until {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// SIGINT for every process of the container but its init, as a terminal would send it to the foreground group.
fn interrupt(podman: &Podman, container: &str) {
    let Ok(text) = podman.call("asking for processes", &["top", container, "hpid", "comm"], None) else { return };
    for line in text.lines().skip(1) {
        let mut words = line.split_whitespace();
        let pid = words.next().and_then(|word| word.parse().ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid.filter(|_| words.next() != Some("podman-init")) {
            // It may have ended meanwhile, or belong to another id of the user namespace.
            let _ = kill_process(pid, Signal::INT);
        }
    }
}

fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(super::exit::PROMISE)
}
