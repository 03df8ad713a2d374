//! Terminals, and which process group is in the foreground.

use crate::harness::{Sandbox, code, left_over, text};

/// Runs a Python program with the arguments of a session on a terminal in `sys.argv[1:]`.
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

/// `sandboxc run -- agent | tee log`: Ctrl-C goes to the whole process group, and must not end podman.
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

/// In a script, `timeout` creates a background process group, and job control stops processes that use the terminal
/// there.
#[test]
fn under_timeout_in_a_script_on_a_terminal_the_command_runs_and_is_ended_in_time() {
    let sandbox = Sandbox::alone();
    let under = |seconds: u32, expected: &str| {
        format!(
            "{PTY}
pid, fd = pty.fork()
if pid == 0:
    os.execvp('sh', ['sh', '-c', 'timeout \"$0\" \"$@\"; echo code $?', '{seconds}'] + sys.argv[1:])
expect(fd, b'ready', 100)
expect(fd, b'{expected}', 100)
print(end(pid))"
        )
    };
    let own = on_a_terminal(&sandbox, &under(100, "code 3"), "test -t 1 && stty size >/dev/null && echo ready; exit 3");
    assert_eq!(own, "0\n");
    assert_eq!(on_a_terminal(&sandbox, &under(15, "code 124"), "trap '' TERM HUP; echo ready; sleep 200"), "0\n");
    assert_eq!(left_over(), [""; 0]);
}

/// A shell that starts its arguments as a background job, and then follows instructions.
const SHELL: &str = "
import os, signal, sys, termios
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
pid = os.fork()
if pid == 0:
    os.setpgid(0, 0)
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.argv[1], sys.argv[1:])
word = sys.stdin.readline().strip()
if word == 'fg':
    os.tcsetpgrp(0, pid)
    os.kill(pid, signal.SIGCONT)
else:
    os.kill(pid, getattr(signal, 'SIG' + word))
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
os.tcsetpgrp(0, os.getpgrp())
canonical = bool(termios.tcgetattr(0)[3] & termios.ICANON)
print('ended', status, canonical, flush=True)
";

#[test]
fn a_job_in_the_background_has_the_keyboard_once_it_is_in_the_foreground() {
    let sandbox = Sandbox::new();
    let program = format!(
        "{PTY}
pid, fd = pty.fork()
if pid == 0:
    os.execvp('python3', ['python3', '-c', '''{SHELL}'''] + sys.argv[1:])
expect(fd, b'ready')
os.write(fd, b'fg\\n'); time.sleep(1)
os.write(fd, b'\\x03'); expect(fd, b'interrupted')
os.write(fd, b'typed\\r'); expect(fd, b'got typed')
expect(fd, b'ended 5 True')
print(end(pid))"
    );
    let script = "trap 'echo interrupted' INT; echo ready
        while :; do read line || continue; echo got $line; exit 5; done";
    assert_eq!(on_a_terminal(&sandbox, &program, script), "0\n");
}

#[test]
fn term_and_hup_tear_down_a_job_in_the_background() {
    let sandbox = Sandbox::alone();
    for (name, expected) in [("TERM", 143), ("HUP", 129)] {
        let program = format!(
            "{PTY}
pid, fd = pty.fork()
if pid == 0:
    os.execvp('python3', ['python3', '-c', '''{SHELL}'''] + sys.argv[1:])
expect(fd, b'ready')
os.write(fd, b'{name}\\n')
expect(fd, b'ended {expected} True')
print(end(pid))"
        );
        assert_eq!(on_a_terminal(&sandbox, &program, "trap '' TERM HUP; echo ready; sleep 100"), "0\n");
        assert_eq!(left_over(), [""; 0], "after {name}");
    }
}

/// All output is shown, also on a slow terminal.
#[test]
fn a_slow_screen_loses_nothing() {
    let sandbox = Sandbox::new();
    let program = format!(
        "{PTY}
pid, fd = start()
expect(fd, b'begin')
time.sleep(5)
count = seen.count(b'x')
while True:
    try:
        data = os.read(fd, 4096)
    except OSError:
        break
    if not data:
        break
    count += data.count(b'x')
print(count, end(pid))"
    );
    let script = "echo begin; head -c 300000 /dev/zero | tr '\\0' x; exit 4";
    assert_eq!(on_a_terminal(&sandbox, &program, script), "300000 4\n");
}
