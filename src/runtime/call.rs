//! Runs programs of this host. Every call ends: by itself, at its time limit, or after a signal.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::Signal;

use super::RuntimeError;
use super::conmon::family;
use super::process::Process;
use super::signals::Signals;

/// How long a program may continue after a signal asked sandboxc to stop. Killing a program leaves more to clean up.
const GRACE: Duration = Duration::from_secs(10);

/// The time between SIGTERM and SIGKILL.
const INSIST: Duration = Duration::from_secs(5);

/// How often to check for signals. The end of the program is noticed immediately.
const LOOK: Duration = Duration::from_millis(100);

/// What a call is for, and its limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call<'a> {
    /// A description for error messages.
    pub what: &'a str,
    /// The time limit.
    pub most: Duration,
    /// Signals that cut the call short.
    pub signals: Option<&'a Signals>,
}

/// Runs the program with `stdin` and returns its output. Fails only if the program cannot be started or is cut short;
/// `missing` makes the error for a program that cannot be started.
pub(super) fn run(
    mut command: Command,
    stdin: Option<&[u8]>,
    call: Call<'_>,
    missing: impl FnOnce(io::Error) -> RuntimeError,
) -> Result<Output, RuntimeError> {
    // Files in memory instead of pipes. A container whose log driver is `passthrough` keeps podman's stdout open as
    // long as it lives, a program that does not read its stdin could block us, and a full disk must not prevent a
    // teardown.
    let doing = || RuntimeError::io("creating a file in memory");
    let (mut stdout, mut stderr) = (memory().map_err(doing())?, memory().map_err(doing())?);
    command.stdin(match stdin {
        Some(bytes) => Stdio::from(holding(bytes).map_err(doing())?),
        None => Stdio::null(),
    });
    command.stdout(stdout.try_clone().map_err(doing())?).stderr(stderr.try_clone().map_err(doing())?);
    // Ctrl-C in the terminal is for sandboxc to handle. If it reached podman, a setup or teardown would stop half-way.
    command.process_group(0);
    let mut child = command.spawn().map_err(missing)?;
    let status = wait(&mut child, call)?;
    Ok(Output { status, stdout: read_back(&mut stdout)?, stderr: read_back(&mut stderr)? })
}

/// Runs the program and passes on the lines of its output, stdout and stderr together, as they come. A signal ends it at
/// once. The command has its stdin.
pub(super) fn follow(
    mut command: Command,
    call: Call<'_>,
    missing: impl FnOnce(io::Error) -> RuntimeError,
    mut line: impl FnMut(String),
) -> Result<ExitStatus, RuntimeError> {
    let doing = || RuntimeError::io(format!("{}: reading its output", call.what));
    let (reader, writer) = io::pipe().map_err(doing())?;
    command.stdout(writer.try_clone().map_err(doing())?).stderr(writer).process_group(0);
    let mut child = command.spawn().map_err(missing)?;
    // The pipe ends with the last process that holds it, which may outlive the program.
    drop(command);
    let process = Process::of_child(&child).map_err(doing())?;
    rustix::io::ioctl_fionbio(&reader, true).map_err(|error| doing()(error.into()))?;
    let until = Instant::now() + call.most;
    let (mut text, mut open) = (Vec::new(), true);
    let status = loop {
        let ended = child.try_wait().map_err(doing())?;
        open = open && read_lines(&reader, &mut text, &mut line);
        if let Some(status) = ended {
            break status;
        }
        let asked = call.signals.map_or(Ok(()), Signals::check);
        if asked.is_err() || Instant::now() >= until {
            // Together with what it has started: the program may be a shell, and a step of a build is in a PID namespace, whose
            // first process ignores SIGTERM. What ends the step ends later than podman itself, and holds the pipe.
            let all = Process::of_child(&child).map(|process| family(vec![process])).unwrap_or_default();
            process.signal_group(Signal::TERM);
            let insist = Instant::now() + INSIST;
            while open && Instant::now() < insist {
                let _ = poll(&mut [PollFd::new(&reader, PollFlags::IN)], Some(&MOMENT));
                open = read_lines(&reader, &mut text, &mut |_| ());
            }
            process.signal_group(Signal::KILL);
            for process in &all {
                process.signal(Signal::KILL);
            }
            child.wait().map_err(doing())?;
            asked?;
            let said = format!("timed out after {} s", call.most.as_secs());
            return Err(RuntimeError::Podman { what: call.what.to_owned(), said });
        }
        let (ends, says) = (PollFd::new(&process, PollFlags::IN), PollFd::new(&reader, PollFlags::IN));
        // A signal interrupts the wait, and signals are checked anyway.
        let _ = if open { poll(&mut [ends, says], Some(&MOMENT)) } else { poll(&mut [ends], Some(&MOMENT)) };
    };
    if !text.is_empty() {
        line(String::from_utf8_lossy(&text).into_owned());
    }
    Ok(status)
}

/// [`LOOK`] for the kernel.
const MOMENT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// How long a line may be. The rest counts as another one.
const MOST_LINE: usize = 4096;

/// Passes on what can be read now. Returns whether there may be more.
fn read_lines(mut reader: &io::PipeReader, text: &mut Vec<u8>, line: &mut impl FnMut(String)) -> bool {
    let mut bytes = [0; 4096];
    loop {
        let read = match reader.read(&mut bytes) {
            Ok(0) => return false,
            Ok(read) => bytes.get(..read).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
        };
        for &byte in read {
            let mut end = |text: &mut Vec<u8>| line(String::from_utf8_lossy(&std::mem::take(text)).into_owned());
            // A carriage return also ends a line, as in a progress that writes over itself, unless a line feed follows.
            let is_over = text.last() == Some(&b'\r');
            if is_over {
                text.pop();
            }
            if byte == b'\n' {
                end(text);
                continue;
            }
            if is_over || text.len() >= MOST_LINE {
                end(text);
            }
            text.push(byte);
        }
    }
}

/// Waits for the program to end, or ends it.
pub(super) fn wait(child: &mut Child, call: Call<'_>) -> Result<ExitStatus, RuntimeError> {
    let doing = || RuntimeError::io(format!("{}: waiting", call.what));
    let process = Process::of_child(child).map_err(doing())?;
    let until = Instant::now() + call.most;
    let mut asked: Option<(Instant, i32)> = None;
    loop {
        pause(&process, LOOK.min(until.saturating_duration_since(Instant::now())));
        if let Some(status) = child.try_wait().map_err(doing())? {
            return Ok(status);
        }
        if let Some(Err(RuntimeError::Interrupted(signal))) = call.signals.map(Signals::check) {
            asked = asked.or(Some((Instant::now() + GRACE, signal)));
        }
        let error = match asked {
            Some((grace, signal)) if Instant::now() >= grace => RuntimeError::Interrupted(signal),
            _ if Instant::now() >= until => RuntimeError::Podman {
                what: call.what.to_owned(),
                said: format!("timed out after {} s", call.most.as_secs()),
            },
            _ => continue,
        };
        process.signal(Signal::TERM);
        pause(&process, INSIST);
        process.signal(Signal::KILL);
        child.wait().map_err(doing())?;
        return Err(error);
    }
}

/// Waits until the process ends, at most this long.
fn pause(process: &Process, most: Duration) {
    let most = Timespec { tv_sec: i64::try_from(most.as_secs()).unwrap_or(1), tv_nsec: most.subsec_nanos().into() };
    // A signal interrupts the wait, and the caller checks for signals anyway.
    let _ = poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&most));
}

fn memory() -> io::Result<File> {
    Ok(File::from(memfd_create("output", MemfdFlags::CLOEXEC)?))
}

fn holding(bytes: &[u8]) -> io::Result<File> {
    let mut file = memory()?;
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}

fn read_back(file: &mut File) -> Result<Vec<u8>, RuntimeError> {
    let mut bytes = Vec::new();
    file.rewind()
        .and_then(|()| file.read_to_end(&mut bytes))
        .map_err(RuntimeError::io("reading a program's output"))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, stdin: Option<&[u8]>, most: Duration) -> Result<Output, RuntimeError> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        run(command, stdin, Call { what: "the test", most, signals: None }, RuntimeError::NoPodman)
    }

    fn followed(script: &str, most: Duration) -> (Result<ExitStatus, RuntimeError>, Vec<String>) {
        let (mut command, mut lines) = (Command::new("/bin/sh"), Vec::new());
        command.args(["-c", script]).stdin(Stdio::null());
        let call = Call { what: "the test", most, signals: None };
        let result = follow(command, call, RuntimeError::NoPodman, |line| lines.push(line));
        (result, lines)
    }

    #[test]
    fn the_lines_of_a_program_come_in_order_until_it_ends_even_if_its_children_do_not() {
        let script = "echo one; echo two >&2; sleep 60 & printf '%s' three; exit 3";
        let begin = Instant::now();
        let (result, lines) = followed(script, Duration::from_secs(50));
        assert_eq!((result.unwrap().code(), lines.join(" ").as_str()), (Some(3), "one two three"));
        assert!(begin.elapsed() < Duration::from_secs(30));
        // The time counts from before the shell is executed, which takes long on a busy machine.
        let (result, lines) = followed("echo begun; exec sleep 60", Duration::from_secs(5));
        assert!(result.unwrap_err().to_string().contains("timed out"));
        assert_eq!(lines, ["begun"]);
        let (_, lines) = followed("printf '1%%\\r2%%\\rdone\\r\\nend\\n'", Duration::from_secs(50));
        assert_eq!(lines, ["1%", "2%", "done", "end"]);
        let (_, lines) = followed("head -c 10000 /dev/zero", Duration::from_secs(50));
        assert_eq!(lines.iter().map(String::len).collect::<Vec<_>>(), [4096, 4096, 1808]);
    }

    #[test]
    fn a_call_that_does_not_end_is_ended_and_one_that_does_is_not() {
        let begin = Instant::now();
        for stubborn in ["exec sleep 60", "trap '' TERM; while :; do sleep 1; done"] {
            let slow = shell(stubborn, None, Duration::from_millis(200));
            assert!(
                matches!(&slow, Err(RuntimeError::Podman { what, said })
                if what == "the test" && said.contains("timed out after")),
                "{slow:?}"
            );
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
        let long = "x".repeat(1 << 20);
        let script = "wc -c; read -r _ _ _ _ group _ </proc/self/stat; echo $group; echo $$ >&2; exit 3";
        let output = shell(script, Some(long.as_bytes()), Duration::from_secs(60)).unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        assert_eq!(output.status.code(), Some(3));
        assert_eq!(text(&output.stdout), format!("1048576\n{}", text(&output.stderr)), "a process group of its own");
    }
}
