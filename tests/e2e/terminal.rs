//! A terminal if the caller has one, none otherwise.

use std::process::{Command, Stdio};

use crate::harness::{Sandbox, text};

/// Runs sandboxc on a new pseudo-terminal with Python, and returns what appeared there, and the exit code.
pub fn on_a_terminal(sandbox: &Sandbox, args: &[&str], typed: &str) -> (String, i32) {
    let ready = if typed.is_empty() { vec![] } else { vec![("ready|$ |[Y/n]", typed)] };
    on_a_terminal_typing(sandbox, args, &ready)
}

/// Like `on_a_terminal`, and types each text once one of the words before it (with `|` between them) has appeared since the
/// previous one was typed.
pub fn on_a_terminal_typing(sandbox: &Sandbox, args: &[&str], typed: &[(&str, &str)]) -> (String, i32) {
    let program = "import json, os, pty, sys, select, fcntl, termios, struct
typed = [(on.encode().split(b'|'), what.encode()) for on, what in json.loads(sys.argv[1])]
since = 0
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[2], sys.argv[2:])
fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack('HHHH', 33, 77, 0, 0))
out = b''
while True:
    ready, _, _ = select.select([fd], [], [], 60)
    if not ready:
        os.kill(pid, 9)
        break
    try:
        data = os.read(fd, 65536)
    except OSError:
        break
    if not data:
        break
    out += data
    if typed and any(word in out[since:] for word in typed[0][0]):
        os.write(fd, typed.pop(0)[1])
        since = len(out)
sys.stdout.buffer.write(out)
sys.stdout.flush()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
";
    let prepared = sandbox.command(args);
    let mut command = Command::new("python3");
    let typed = serde_json::to_string(typed).unwrap();
    command.args(["-c", program, &typed]).arg(prepared.get_program()).args(prepared.get_args());
    command.current_dir(sandbox.repo()).env_clear().env("TERM", "xterm-256color").stdin(Stdio::null());
    command.envs(prepared.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = command.output().unwrap();
    (text(&output.stdout), output.status.code().unwrap())
}

#[test]
fn a_command_gets_the_terminal_its_size_and_its_kind() {
    let sandbox = Sandbox::new();
    // `podman exec` sets the size a moment after the command has started.
    let script = "test -t 0 && test -t 1 && test -t 2 && echo $TERM; \
                  for i in $(seq 50); do stty size | grep -v '^0 0' && exit 5; sleep 0.1; done";
    let (out, code) = on_a_terminal(&sandbox, &["run", "--", "sh", "-c", script], "");
    assert_eq!(code, 5, "{out}");
    assert!(out.contains("33 77") && out.contains("xterm-256color"), "{out}");
}

#[test]
fn ctrl_c_goes_to_the_command_and_not_to_the_sandbox() {
    let sandbox = Sandbox::new();
    let script = "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.1; done";
    let (out, code) = on_a_terminal(&sandbox, &["run", "--", "sh", "-c", script], "\u{3}");
    assert_eq!(code, 9, "{out}");
    assert!(out.contains("caught"), "{out}");
}

#[test]
fn agent_appends_its_arguments_on_a_terminal() {
    let sandbox = Sandbox::with("version: 1\ncommand: [sh, -c, 'test -t 0 && echo \"$@\"', sh]\n", "version: 1\n");
    let (out, code) = on_a_terminal(&sandbox, &["agent", "--continue", "a b"], "");
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("--continue a b"), "{out}");
}

#[test]
fn without_a_terminal_there_is_none_and_the_streams_stay_apart() {
    let sandbox = Sandbox::new();
    let output = sandbox.run(&["sh", "-c", "test ! -t 0 && test ! -t 1 && echo out; echo err >&2"]);
    assert_eq!((text(&output.stdout).as_str(), text(&output.stderr).as_str()), ("out\n", "err\n"));
}
