//! Signals and terminals.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::harness::{Sandbox, code, left_over, signal, text};

/// A command that says `ready` first, then stays; what it prints later can be read from the result.
fn ready(sandbox: &Sandbox, script: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = sandbox
        .command(&["run", "--", "sh", "-c", &format!("{script}; echo ready; while :; do sleep 0.1; done")])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    (child, reader)
}

#[test]
fn the_first_interrupt_is_the_commands_and_the_second_ends_the_sandbox() {
    let sandbox = Sandbox::alone();
    let (mut child, mut reader) = ready(&sandbox, "trap 'echo interrupted' INT");
    signal(child.id(), "INT");
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    assert_eq!(line, "interrupted\n");
    std::thread::sleep(Duration::from_millis(2500));
    assert!(child.try_wait().unwrap().is_none(), "the command chose to go on");
    signal(child.id(), "INT");
    std::thread::sleep(Duration::from_millis(300));
    let start = Instant::now();
    signal(child.id(), "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    assert_eq!(left_over(), [""; 0]);
}

#[test]
fn an_interrupt_that_the_command_does_not_catch_ends_it() {
    let sandbox = Sandbox::new();
    let (mut child, _reader) = ready(&sandbox, "true");
    signal(child.id(), "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn term_and_hup_tear_down_at_any_time() {
    let sandbox = Sandbox::alone();
    for (name, expected) in [("TERM", 143), ("HUP", 129)] {
        let (mut child, _reader) = ready(&sandbox, "trap '' TERM HUP INT");
        signal(child.id(), name);
        assert_eq!(child.wait().unwrap().code(), Some(expected));
        assert_eq!(left_over(), [""; 0], "after {name}");
        // During the set-up too.
        for delay in [50, 400, 900] {
            let mut child = sandbox
                .command(&["run", "--", "sleep", "60"])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(Duration::from_millis(delay));
            signal(child.id(), name);
            assert_eq!(child.wait().unwrap().code(), Some(expected), "{name} after {delay} ms");
            assert_eq!(left_over(), [""; 0], "{name} after {delay} ms");
        }
    }
}

/// Runs a Python program that has `argv` of a session on a terminal in `sys.argv[1:]`.
fn on_a_terminal(sandbox: &Sandbox, program: &str, script: &str) -> String {
    let run = sandbox.command(&[]);
    let mut command = std::process::Command::new("python3");
    command.args(["-c", program]).arg(run.get_program()).args(["run", "--", "sh", "-c", script]);
    command.current_dir(sandbox.repo()).env("XDG_CONFIG_HOME", sandbox.config_home()).env("TERM", "xterm");
    let output = command.output().unwrap();
    assert_eq!(code(&output), 0, "{}\n{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

const PTY: &str = "
import fcntl, os, pty, select, signal, struct, sys, termios, time
def size(fd, rows, columns):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))
def start():
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(sys.argv[1], sys.argv[1:])
    return pid, fd
seen = b''
def expect(fd, text, seconds=60):
    global seen
    until = time.time() + seconds
    while text not in seen:
        left = until - time.time()
        assert left > 0, (text, seen)
        if select.select([fd], [], [], left)[0]:
            try:
                seen += os.read(fd, 65536)
            except OSError:
                assert text in seen, (text, seen)
    seen = seen.split(text, 1)[1]
def end(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
";

#[test]
fn a_terminal_has_its_size_its_resizes_and_its_interrupts() {
    let sandbox = Sandbox::new();
    let program = format!(
        "{PTY}
pid, fd = start()
size(fd, 33, 77)
expect(fd, b'ready')
os.write(fd, b'size\\n'); expect(fd, b'33 77')
size(fd, 44, 101); time.sleep(1)
os.write(fd, b'size\\n'); expect(fd, b'44 101')
os.write(fd, b'\\x03'); expect(fd, b'interrupted')
os.write(fd, b'quit\\n'); expect(fd, b'bye')
print(end(pid))"
    );
    let script = "trap 'echo interrupted' INT; tty >/dev/null && echo ready
        while :; do read line || continue; case $line in size) stty size;; quit) echo bye; exit 5;; esac; done";
    assert_eq!(on_a_terminal(&sandbox, &program, script), "5\n");
}

/// `sandboxc run -- agent | tee log`: the keyboard's Ctrl-C goes to the whole group, and podman must not end by it.
#[test]
fn an_interrupt_reaches_the_command_when_only_stdin_is_a_terminal() {
    let sandbox = Sandbox::new();
    let program = format!(
        "{PTY}
master, slave = pty.openpty()
r, w = os.pipe()
pid = os.fork()
if pid == 0:
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    os.dup2(slave, 0)
    os.dup2(w, 1)
    os.execv(sys.argv[1], sys.argv[1:])
os.close(w)
expect(r, b'ready')
os.write(master, b'typed\\n'); expect(r, b'read typed')
os.write(master, b'\\x03'); expect(r, b'interrupted')
print(end(pid))"
    );
    let script =
        "trap 'echo interrupted; exit 4' INT; echo ready; read line; echo read $line; while :; do sleep 0.1; done";
    assert_eq!(on_a_terminal(&sandbox, &program, script), "4\n");
}

#[test]
fn a_closed_terminal_leaves_no_orphan() {
    let sandbox = Sandbox::alone();
    let program = format!(
        "{PTY}
pid, fd = start()
expect(fd, b'ready')
os.close(fd)
print(end(pid))"
    );
    assert_eq!(on_a_terminal(&sandbox, &program, "trap '' HUP; echo ready; sleep 100"), "129\n");
    assert_eq!(left_over(), [""; 0]);
}

#[test]
fn a_session_is_suspended_and_goes_on() {
    let sandbox = Sandbox::new();
    let program = format!(
        "{PTY}
pid, fd = start()
expect(fd, b'ready')
os.kill(pid, signal.SIGTSTP); time.sleep(1); os.kill(pid, signal.SIGCONT)
os.write(fd, b'on\\n'); expect(fd, b'went on')
print(end(pid))"
    );
    assert_eq!(on_a_terminal(&sandbox, &program, "echo ready; read line; echo went $line; exit 6"), "6\n");
}
