//! Runs a command in the agent container, which is held open, with a deadline and the caller's streams.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use super::RuntimeError;
use super::conmon::{Inside, MARK};
use super::host;
use super::orphans::end_visits;
use super::podman::Podman;
use super::process::Process;
use super::registry::Stage;
use super::signals::{Asked, Signals};
use super::state::State;
use super::terminal::{Keyboard, Terminal, type_input};
use crate::plan::trust;

/// A second Ctrl-C within this time stops the sandbox, not just the command.
const TWICE: Duration = Duration::from_secs(2);

/// How long podman may take to end after the command's processes were killed.
const KILLING: Duration = Duration::from_secs(2);

/// How long output may drain after the container was removed.
const DRAIN: Duration = Duration::from_secs(5);

/// What ends when the command must stop, and what gets the signals that are for the command.
#[derive(Clone, Copy, Debug)]
pub enum Extent<'a> {
    /// The container of this session, whose command this is.
    Session(&'a State),
    /// Only this command and its descendants: others run in the same container.
    Command,
}

/// What to run, and how.
#[derive(Clone, Debug)]
pub struct Exec<'a> {
    /// podman's id of the container. A name might belong to another container by now.
    pub container: &'a str,
    /// What ends with the command.
    pub extent: Extent<'a>,
    /// The command and its arguments.
    pub command: &'a [String],
    /// Where the command starts; `None` for the container's working directory.
    pub working_dir: Option<&'a Path>,
    /// Whether the command gets a terminal.
    pub tty: bool,
    /// The caller's `TERM`, which is passed on only with a terminal.
    pub term: Option<&'a str>,
    /// A file with the command's variables, one per line. As arguments, every user of the host could read them.
    pub env_file: Option<&'a Path>,
    /// Whether the container's shell loads plain secrets from their file first.
    pub secrets: bool,
    /// When the command times out.
    pub deadline: Option<Instant>,
    /// A descriptor that becomes readable when the command must be stopped.
    pub alarm: Option<&'a UnixStream>,
}

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The command's exit code, or podman's (126, 127, 128 + n).
    Code(u8),
    /// The command timed out, and the container was killed.
    TimedOut,
    /// The alarm was raised, and the container was killed.
    Alarmed,
    /// This signal asked sandboxc to stop.
    Signalled(i32),
}

/// The podman process that runs the command.
struct Running<'a> {
    exec: &'a Exec<'a>,
    /// Distinguishes this call from others in the same container.
    mark: String,
    child: Child,
    process: Process,
    terminal: Option<Terminal>,
    _keyboard: Option<Keyboard>,
}

/// Runs the command and waits for it. After `TimedOut`, `Alarmed` and `Signalled`, what the extent says is gone or dying;
/// otherwise the container still exists.
pub fn exec(podman: &Podman, exec: &Exec<'_>, signals: &Signals) -> Result<Ended, RuntimeError> {
    let mut running = spawn(podman, exec, signals)?;
    super::fault::point("command-started");
    let mut last_interrupt: Option<Instant> = None;
    loop {
        if let Some(status) = running.child.try_wait().map_err(RuntimeError::io("waiting for podman"))? {
            return Ok(running.shown(code(status), exec.deadline, signals));
        }
        let ended = match signals.next() {
            Some(Asked::End(signal)) => Some(Ended::Signalled(signal)),
            Some(Asked::Interrupt(signal)) if last_interrupt.is_some_and(|last| last.elapsed() <= TWICE) => {
                Some(Ended::Signalled(signal.as_raw()))
            }
            Some(Asked::Interrupt(signal)) => {
                last_interrupt = Some(Instant::now());
                // If nothing seems to happen, people press Ctrl-C again.
                running.interrupt(signal);
                None
            }
            Some(Asked::Message(signal)) => {
                let told = Inside::of_id(exec.container).is_some_and(|inside| inside.tell(signal, &running.mark));
                (!told).then(|| Ended::Signalled(signal.as_raw()))
            }
            Some(asked) => {
                running.job_control(asked);
                None
            }
            None => {
                let alarmed = wait_for(running.process.as_fd(), signals, exec.deadline, exec.alarm)?;
                // If the command ended at the same moment, the next iteration notices it.
                let runs = matches!(running.child.try_wait(), Ok(None));
                (alarmed && runs).then_some(Ended::Alarmed)
            }
        };
        let is_late = exec.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if let Some(ended) = ended.or(is_late.then_some(Ended::TimedOut)) {
            running.end(podman, ended == Ended::Alarmed);
            return Ok(ended);
        }
    }
}

fn spawn<'a>(podman: &Podman, exec: &'a Exec<'a>, signals: &Signals) -> Result<Running<'a>, RuntimeError> {
    let mut command = podman.command(&arguments(exec));
    let mark = format!("{}-{}", std::process::id(), host::random_session()?);
    // podman never gets the caller's terminal (see `terminal`) or the signals of our process group.
    command.process_group(0).env(MARK, &mark);
    let has_keyboard = rustix::termios::isatty(io::stdin());
    let terminal = if has_keyboard && exec.tty {
        signals.with_terminal()?;
        Some(on_a_terminal(&mut command)?)
    } else {
        None
    };
    // A terminal does not end by itself when a pipe does.
    let is_typed = exec.tty && !has_keyboard;
    if is_typed || (has_keyboard && terminal.is_none()) {
        command.stdin(Stdio::piped());
    }
    let mut child = command.spawn().map_err(RuntimeError::NoPodman)?;
    let keyboard = match child.stdin.take() {
        Some(pipe) if is_typed => {
            type_input(pipe.into());
            None
        }
        pipe => pipe.map(|pipe| Keyboard::start(pipe.into())),
    };
    let process = Process::of_child(&child).map_err(RuntimeError::io("watching podman"))?;
    Ok(Running { exec, mark, child, process, terminal, _keyboard: keyboard })
}

/// Gives podman a terminal of ours for each stream that is a terminal.
fn on_a_terminal(command: &mut Command) -> Result<Terminal, RuntimeError> {
    let doing = || RuntimeError::io("creating a terminal for the command");
    let (terminal, far) = Terminal::open()?;
    command.stdin(far.try_clone().map_err(doing())?).stdout(far.try_clone().map_err(doing())?);
    if rustix::termios::isatty(io::stderr()) {
        command.stderr(File::from(far));
    }
    Ok(terminal)
}

fn arguments(exec: &Exec<'_>) -> Vec<String> {
    // No detach keys, since every byte is for the command. Not privileged: `privileged = true` in containers.conf does
    // not affect containers of kube play, but does affect `podman exec`.
    let mut args: Vec<String> =
        ["exec", "--interactive", "--detach-keys=", "--privileged=false"].map(str::to_owned).to_vec();
    if exec.tty {
        args.push("--tty".to_owned());
        args.extend(exec.term.map(|term| format!("--env=TERM={term}")));
    }
    args.extend(exec.working_dir.map(|dir| format!("--workdir={}", dir.display())));
    args.extend(exec.env_file.map(|path| format!("--env-file={}", path.display())));
    args.push(exec.container.to_owned());
    if exec.secrets {
        args.extend(trust::with_secrets());
    }
    args.extend_from_slice(exec.command);
    args
}

impl Running<'_> {
    fn job_control(&self, asked: Asked) {
        let Some(terminal) = &self.terminal else { return };
        match asked {
            Asked::Suspend => terminal.suspend(),
            Asked::Continue => terminal.resume(&self.process),
            _ => terminal.resize(&self.process),
        }
    }

    /// podman has ended. Its output on our terminal remains to be shown, however slowly the reader reads.
    fn shown(&self, code: u8, deadline: Option<Instant>, signals: &Signals) -> Ended {
        let Some(terminal) = &self.terminal else { return Ended::Code(code) };
        loop {
            let none = Timespec { tv_sec: 0, tv_nsec: 0 };
            let is_shown = poll(&mut [PollFd::new(terminal, PollFlags::IN)], Some(&none));
            let is_late = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if is_late || !matches!(is_shown, Ok(0) | Err(rustix::io::Errno::INTR)) {
                return Ended::Code(code);
            }
            match signals.next() {
                Some(Asked::End(signal)) => return Ended::Signalled(signal),
                Some(Asked::Interrupt(signal)) => return Ended::Signalled(signal.as_raw()),
                Some(asked) => self.job_control(asked),
                None => {
                    let _ = wait_for(terminal.as_fd(), signals, deadline, None);
                }
            }
        }
    }

    /// Passes a signal on, as a terminal does for its foreground group.
    fn interrupt(&self, signal: Signal) {
        let Some(inside) = Inside::of_id(self.exec.container) else { return };
        match self.exec.extent {
            Extent::Session(_) => inside.interrupt(signal, &self.mark),
            Extent::Command => drop(inside.tell_family(signal, &self.mark)),
        }
    }

    /// Stops the whole container or the command with its descendants, so that none of these processes survives, and
    /// drains the output.
    ///
    /// The processes are killed first: then podman ends in order, and has nothing to say about a container that was
    /// removed under it. An alarm does not wait for that.
    ///
    /// A container is removed, not killed: after a kill, podman's cleanup takes the pod's lock, and a `pod rm` that
    /// already holds it waits for that cleanup until systemd gives up after 90 s (seen with podman 5.4.2).
    fn end(&mut self, podman: &Podman, at_once: bool) {
        if let Extent::Session(state) = self.exec.extent {
            state.enter(Stage::Ending);
        }
        let shown = !at_once && self.ends_within(KILLING, |running| running.interrupt(Signal::KILL));
        if matches!(self.exec.extent, Extent::Session(_)) {
            if let Some(inside) = Inside::of_id(self.exec.container).filter(|_| !at_once) {
                end_visits(podman.empty_dir(), &inside);
            }
            // Continue even if this fails: the teardown that follows removes the pod by force.
            let remove = ["rm", "--force", "--volumes", "--time", "0", self.exec.container];
            let _ = podman.output(&remove, None);
        }
        if !shown && !self.ends_within(DRAIN, |_| ()) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    /// Waits for podman to end, and calls `insist` before each look.
    fn ends_within(&mut self, most: Duration, insist: impl Fn(&Self)) -> bool {
        let until = Instant::now() + most;
        while Instant::now() < until {
            insist(self);
            if !matches!(self.child.try_wait(), Ok(None)) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }
}

/// Waits until `fd` is readable, a signal arrives, the deadline passes, or the alarm is raised. Returns true for the
/// alarm.
pub(super) fn wait_for(
    fd: BorrowedFd<'_>,
    signals: &Signals,
    deadline: Option<Instant>,
    alarm: Option<&UnixStream>,
) -> Result<bool, RuntimeError> {
    let mut fds = vec![PollFd::new(&fd, PollFlags::IN), PollFd::new(signals, PollFlags::IN)];
    fds.extend(alarm.map(|alarm| PollFd::new(alarm, PollFlags::IN)));
    let timeout = deadline.map(|deadline| {
        let rest = deadline.saturating_duration_since(Instant::now());
        Timespec { tv_sec: i64::try_from(rest.as_secs()).unwrap_or(i64::MAX), tv_nsec: rest.subsec_nanos().into() }
    });
    match poll(&mut fds, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(RuntimeError::Io("waiting for podman".to_owned(), error.into())),
    }
    Ok(alarm.is_some() && fds.last().is_some_and(|fd| !fd.revents().is_empty()))
}

fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(super::exit::PROMISE)
}
