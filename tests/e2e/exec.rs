//! `sandboxc exec` and `sandboxc shell`: commands beside the one of a living session.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::harness::{Sandbox, code, left_over, podman, signal, text, unique, wait_until};
use crate::quadlet_live::{Installed, systemctl};
use crate::secrets::{in_file, server};
use crate::terminal::on_a_terminal;

/// What a process is and may do, one line each.
const SELF: &str = "id; pwd; env | grep -v -e '^_=' -e '^SHLVL=' -e '^OLDPWD=' | sort; umask; ulimit -a; \
    grep -e ^Cap -e ^NoNewPrivs -e ^Seccomp -e ^Groups /proc/self/status; cat /proc/self/attr/current; \
    cat /proc/self/uid_map /proc/self/cgroup; cut -d' ' -f5,6 /proc/self/mountinfo; \
    readlink /proc/self/ns/mnt /proc/self/ns/net /proc/self/ns/pid /proc/self/ns/user /proc/self/ns/ipc";

fn exec(sandbox: &Sandbox, session: &str, command: &[&str]) -> std::process::Output {
    sandbox.command(&[&["exec", session, "--"], command].concat()).output().unwrap()
}

#[test]
fn a_second_command_has_its_own_streams_and_exit_code_and_the_first_goes_on() {
    let sandbox = Sandbox::new();
    let mut live = sandbox.start(&[]);
    live.sh("echo first >/tmp/mark");
    let script = "cat; cat /tmp/mark; echo err >&2; exit 7";
    let output = sandbox.feed(&["exec", &live.session, "--", "sh", "-c", script], b"typed\n");
    assert_eq!(
        (code(&output), text(&output.stdout), text(&output.stderr)),
        (7, "typed\nfirst\n".into(), "err\n".into())
    );
    let many: Vec<_> = (0..4)
        .map(|n| {
            let script = format!("for i in 1 2 3; do echo {n}; sleep 0.2; done; exit {n}");
            let mut command = sandbox.command(&["exec", &live.session, "--", "sh", "-c", &script]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for (n, child) in many.into_iter().enumerate() {
        let output = child.wait_with_output().unwrap();
        assert_eq!((code(&output), text(&output.stdout)), (i32::try_from(n).unwrap(), format!("{n}\n").repeat(3)));
    }
    let ten: Vec<u8> = (0..10 * 1024 * 1024_u32).map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes()[1]).collect();
    let output = sandbox.feed(&["exec", &live.session, "--", "cat"], &ten);
    assert!(output.stdout == ten, "{} of {} bytes came back", output.stdout.len(), ten.len());
    assert_eq!(live.sh("cat /tmp/mark"), "first\n", "the first one goes on");
}

#[test]
fn a_second_command_is_the_same_user_with_the_same_confinement_environment_and_secrets() {
    let lines = |plain: &str| {
        server(&format!(
            "  secrets: {{PLAIN: {plain}}}\n  masked_secrets:\n    TOKEN: {{value: !file token, scopes: [api.example.com], \
             headers: [authorization]}}\n"
        ))
    };
    for identity in ["host-user", "root"] {
        let plain = unique();
        let repo = format!(
            "version: 1\nidentity: {identity}\nenv: {{MINE: \"a b\"}}\nnetwork: {{allow: [api.example.com]}}\n"
        );
        let sandbox = Sandbox::with(&repo, &lines(&plain));
        in_file(&sandbox, "token");
        let mut live = sandbox.start(&[]);
        let first = live.sh(SELF);
        let output = exec(&sandbox, &live.session, &["sh", "-c", SELF]);
        assert_eq!(code(&output), 0, "{}", text(&output.stderr));
        assert_eq!(text(&output.stdout), first, "{identity}");
        for part in [format!("PLAIN={plain}"), "TOKEN=".to_owned(), "MINE=a b".to_owned(), "NoNewPrivs:\t1".to_owned()]
        {
            assert!(first.contains(&part), "{part} in {first}");
        }
        assert!(!first.contains("LC_"), "podman's mark stays outside: {first}");
    }
}

/// `run` in a directory below the repo starts there.
#[test]
fn a_second_command_starts_in_the_directory_of_the_first() {
    let sandbox = Sandbox::new();
    let (below, session) = (sandbox.repo().join("below"), unique());
    std::fs::create_dir(&below).unwrap();
    let mut command = sandbox.command(&["run", "--session", &session, "--", "sh", "-c", "pwd; sleep 60"]);
    let mut child = command.current_dir(&below).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, format!("{}\n", below.display()));
    assert_eq!(text(&exec(&sandbox, &session, &["pwd"]).stdout), line);
    signal(child.id(), "TERM");
    child.wait().unwrap();
}

#[test]
fn the_network_is_the_sessions_and_a_denied_host_is_denied() {
    let sandbox = Sandbox::new();
    let live = sandbox.start(&[]);
    let script =
        "curl -s -o /dev/null -w '%{http_code} ' http://api.example.com/; curl -s https://denied.example.com/; echo $?";
    assert_eq!(text(&exec(&sandbox, &live.session, &["sh", "-c", script]).stdout), "200 6\n");
}

/// Starts a command that prints `ready` and returns its reader.
fn ready(sandbox: &Sandbox, args: &[&str], script: &str) -> (std::process::Child, impl std::io::BufRead + use<>) {
    let script = format!("{script}; echo ready; while :; do sleep 0.1; done");
    let mut command = sandbox.command(&[args, &["--", "sh", "-c", &script]].concat());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    (child, reader)
}

#[test]
fn signals_and_a_timeout_end_the_second_command_and_nothing_else() {
    let sandbox = Sandbox::new();
    let session = unique();
    let trap = "trap 'echo heard' INT USR1";
    let (mut first, mut heard) = ready(&sandbox, &["run", "--session", &session], trap);
    let (mut second, mut also) = ready(&sandbox, &["exec", &session], trap);
    let mut line = String::new();
    for (pid, name) in [(second.id(), "INT"), (second.id(), "USR1")] {
        signal(pid, name);
        line.clear();
        also.read_line(&mut line).unwrap();
        assert_eq!(line, "heard\n", "{name}");
    }
    let output = sandbox
        .command(&[
            "exec",
            "--timeout",
            "1s",
            &session,
            "--",
            "sh",
            "-c",
            "trap '' TERM; (sleep 77 & sleep 78); sleep 79",
        ])
        .output()
        .unwrap();
    assert_eq!(code(&output), 124);
    assert!(text(&output.stderr).contains("timed out after 1 s") && !text(&output.stderr).contains("Error"));
    let left = exec(&sandbox, &session, &["sh", "-c", "ps -eo args | grep -E '^sleep 7[789]'"]);
    assert_eq!(text(&left.stdout), "", "its children ended, too");
    signal(second.id(), "TERM");
    assert_eq!(second.wait().unwrap().code(), Some(143));
    let left = exec(&sandbox, &session, &["sh", "-c", "ps -eo args | grep -c '[t]rap'"]);
    assert_eq!(text(&left.stdout), "1\n", "the first one's shell");
    // None of this was for the first command, and what is for the first one is not for others.
    let (mut third, mut silent) = ready(&sandbox, &["exec", &session], trap);
    for name in ["INT", "USR1"] {
        signal(first.id(), name);
        line.clear();
        heard.read_line(&mut line).unwrap();
        assert_eq!(line, "heard\n", "{name}");
    }
    signal(first.id(), "TERM");
    assert_eq!(first.wait().unwrap().code(), Some(143));
    assert_eq!(third.wait().unwrap().code(), Some(137), "it ends with the session");
    let (mut rest, mut why) = (String::new(), String::new());
    silent.read_to_string(&mut rest).unwrap();
    third.stderr.take().unwrap().read_to_string(&mut why).unwrap();
    assert_eq!(rest, "", "the third one heard a signal of the first");
    assert_eq!(why, format!("sandboxc: the session {session} has ended, and the command with it\n"));
}

#[test]
fn a_session_ends_as_usual_whatever_runs_beside_its_command() {
    let sandbox = Sandbox::alone();
    let session = unique();
    let start = Instant::now();
    let (mut first, _heard) = ready(&sandbox, &["run", "--timeout", "20s", "--session", &session], "true");
    let children: Vec<_> = (0..3).map(|_| ready(&sandbox, &["exec", &session], "trap '' TERM INT HUP")).collect();
    assert_eq!(first.wait().unwrap().code(), Some(124));
    let mut why = String::new();
    first.stderr.take().unwrap().read_to_string(&mut why).unwrap();
    assert!(!why.contains("removed"), "podman's words: {why}");
    for (mut child, _reader) in children {
        assert_eq!(child.wait().unwrap().code(), Some(137));
    }
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    assert_eq!(left_over(), [""; 0]);
    assert_eq!(code(&exec(&sandbox, &session, &["true"])), 2, "there is no such session any more");
}

/// Anyone can make a container with a label and a name like ours; only the session's own container is entered.
#[test]
fn only_the_container_of_the_sessions_runner_is_entered() {
    let sandbox = Sandbox::new();
    let victim = unique();
    let label = format!("--label=io.sandboxc.session={victim}");
    let name = format!("sandboxc-run-0123456789ab-{victim}-agent");
    let image = "localhost/sandboxc-base-agent:test";
    podman(&["run", "--detach", "--name", &name, &label, "--label=io.sandboxc.role=agent", image, "sleep", "300"]);
    let output = exec(&sandbox, &victim, &["true"]);
    let other = exec(&sandbox, &name, &["true"]);
    podman(&["rm", "--force", "--time", "0", &name]);
    assert_eq!((code(&output), code(&other)), (2, 2), "{}", text(&output.stderr));
    for odd in ["../sandboxc", ".empty", "", "-"] {
        assert_eq!(code(&exec(&sandbox, odd, &["true"])), 2, "{odd}");
    }
}

#[test]
fn a_command_that_is_missing_is_127_and_a_session_that_starts_says_so() {
    let sandbox = Sandbox::new();
    let live = sandbox.start(&[]);
    assert_eq!(code(&exec(&sandbox, &live.session, &["no-such-command"])), 127);
    assert_eq!(code(&exec(&sandbox, &live.session, &["/etc/hostname"])), 126);
    let session = unique();
    let mut starting = sandbox.command(&["run", "--session", &session, "--", "true"]).spawn().unwrap();
    let record = std::path::PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR").unwrap())
        .join("sandboxc")
        .join(&session)
        .join("session.json");
    wait_until("the session is recorded", || record.exists());
    let output = exec(&sandbox, &session, &["true"]);
    assert_eq!(code(&output), 125);
    assert!(text(&output.stderr).contains("still starting"), "{}", text(&output.stderr));
    assert!(starting.wait().unwrap().success());
}

#[test]
fn a_shell_has_a_terminal_and_a_pipe_that_ends_ends_it() {
    let sandbox = Sandbox::new();
    let live = sandbox.start(&[]);
    let (out, code) = on_a_terminal(&sandbox, &["shell", &live.session], "test -t 0 && echo $TERM; exit 5\r");
    assert_eq!(code, 5, "{out}");
    assert!(out.contains("xterm-256color"), "{out}");
    let output = sandbox.feed(&["shell", &live.session], b"test -t 0 && exit 6\n");
    assert_eq!(crate::harness::code(&output), 6, "{}", text(&output.stdout));
    for typed in [&b"cat\n"[..], b"cat\nunfinished", b""] {
        let output = sandbox.feed(&["shell", &live.session], typed);
        assert_eq!(crate::harness::code(&output), 0, "{}", text(&output.stdout));
    }
}

#[test]
fn a_command_enters_an_installed_sandbox_while_it_runs() {
    let script = "echo first >/tmp/mark; exec sleep 300";
    let installed = Installed::new("q-exec", &crate::quadlet_live::repo(script));
    let run = |command: &[&str]| installed.as_user(&[&["exec", "q-exec", "--"], command].concat()).output().unwrap();
    let output = run(&["true"]);
    assert_eq!(code(&output), 125);
    let start = format!("systemctl --user start {}", installed.agent);
    assert!(text(&output.stderr).contains(&start), "{}", text(&output.stderr));
    assert!(systemctl(&["start", &installed.agent]).status.success());
    wait_until("the command runs", || code(&run(&["test", "-e", "/tmp/mark"])) == 0);
    let output = run(&["sh", "-c", "cat /tmp/mark; exit 7"]);
    assert_eq!((code(&output), text(&output.stdout).as_str()), (7, "first\n"));
    let ours = "grep -e ^Cap -e ^NoNewPrivs -e ^Seccomp /proc/$1/status; id";
    let seen = |pid: &str| text(&run(&["sh", "-c", ours, "sh", pid]).stdout);
    assert_eq!(seen("self"), seen("1"), "confined like the command");
    let mut beside = installed.as_user(&["exec", "q-exec", "--", "sleep", "100"]).spawn().unwrap();
    wait_until("it runs", || text(&run(&["ps", "-eo", "args"]).stdout).contains("sleep 100"));
    assert!(Command::new("systemctl").args(["--user", "stop", &installed.agent]).status().unwrap().success());
    assert_eq!(beside.wait().unwrap().code(), Some(137));
    assert!(installed.gone(), "left: {}", installed.left());
}
