//! Exit codes, streams, timeouts, and cleanup.

use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::harness::{Sandbox, code, everything, signal, text};
use crate::quadlet_live::{Installed, journal, property};

#[test]
fn exit_codes_are_the_commands_own_and_nothing_is_left() {
    let sandbox = Sandbox::alone();
    sandbox.sh("true"); // the shared egress network and home volume may stay; this makes them
    let before = everything();
    let cases: [(&[&str], &[&str], i32); 7] = [
        (&[], &["true"], 0),
        (&[], &["sh", "-c", "exit 3"], 3),
        (&["--timeout", "2s"], &["sh", "-c", "echo kept; sleep 60"], 124),
        (&["--podman", "5.3"], &["true"], 125),
        (&[], &["/etc/hostname"], 126),
        (&[], &["no-such-command"], 127),
        (&[], &["sh", "-c", "kill -TERM $$"], 143),
    ];
    for (flags, command, expected) in cases {
        let output = sandbox.run_with(flags, command);
        assert_eq!(code(&output), expected, "{flags:?} {command:?}: {}", text(&output.stderr));
        assert_eq!(everything(), before, "left by {flags:?} {command:?}");
    }
}

#[test]
fn a_config_with_errors_is_2_as_for_every_other_command() {
    let sandbox = Sandbox::with("version: 1\nnetwork: {allow: [1]}\n", "version: 1\n");
    for args in [&["run", "--", "true"][..], &["agent"], &["validate"], &["compile", "--", "true"]] {
        let output = sandbox.command(args).output().unwrap();
        assert_eq!(code(&output), 2, "{args:?}: {}", text(&output.stderr));
    }
    let without = Sandbox::new();
    let output = without.command(&["agent"]).output().unwrap();
    assert_eq!(code(&output), 2, "no command to run: {}", text(&output.stderr));
}

#[test]
fn a_timeout_ends_the_container_and_keeps_what_was_printed() {
    let sandbox = Sandbox::new();
    let start = Instant::now();
    let output =
        sandbox.run_with(&["--timeout", "2s"], &["sh", "-c", "trap '' TERM; echo out; echo err >&2; sleep 60"]);
    assert_eq!(code(&output), 124);
    assert_eq!(text(&output.stdout), "out\n");
    assert!(text(&output.stderr).contains("err\n") && text(&output.stderr).contains("timed out after 2 s"));
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn ten_megabytes_go_through_unchanged() {
    let sandbox = Sandbox::new();
    // All byte values, with a period that does not divide any buffer size.
    let input: Vec<u8> = (0..10 * 1024 * 1024_u32).map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes()[1]).collect();
    let output = sandbox.feed(&["run", "--", "cat"], &input);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    assert!(output.stdout == input, "{} of {} bytes came back", output.stdout.len(), input.len());
}

#[test]
fn output_is_not_buffered_until_the_end() {
    let sandbox = Sandbox::new();
    let mut child = sandbox
        .command(&["run", "--", "sh", "-c", "echo first; sleep 30; echo last"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut first = [0; 6];
    let start = Instant::now();
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(&first, b"first\n");
    assert!(start.elapsed() < Duration::from_secs(20));
    signal(child.id(), "TERM");
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(143), "SIGTERM tears down: {status:?} {:?}", status.signal());
}

#[test]
fn a_missing_image_is_named_with_the_command_that_makes_it() {
    let sandbox = Sandbox::new();
    let output =
        sandbox.command(&["run", "--", "true"]).env("SANDBOXC_IMAGE", "localhost/not-there:1").output().unwrap();
    assert_eq!(code(&output), 125);
    let stderr = text(&output.stderr);
    assert!(stderr.contains("localhost/not-there:1") && stderr.contains("sandboxc image build agent"), "{stderr}");
}

/// podman's init would end with 1: the program in the router's image executes the command of a unit.
#[test]
fn a_units_command_that_is_missing_or_not_executable_ends_as_under_run() {
    for (session, command, status, why) in [
        ("q-no-command", "no-such-command", "127", "cannot execute \"no-such-command\": No such file or directory"),
        ("q-noexec", "/etc/passwd", "126", "cannot execute \"/etc/passwd\": Permission denied"),
        ("q-directory", "/usr", "126", "cannot execute \"/usr\": Permission denied"),
    ] {
        let installed = Installed::new(
            session,
            &format!("version: 1\ncommand: [{command}]\nnetwork: {{allow: [api.example.com]}}\n"),
        );
        installed.run();
        assert_eq!(property(&installed.agent, "ExecMainStatus"), status, "{}", journal(&installed.agent));
        assert!(journal(&installed.agent).contains(why), "{}", journal(&installed.agent));
        assert!(installed.gone(), "left: {}", installed.left());
    }
}

/// What executes the command leaves no trace in it: signals, descriptors, parent and PID are those of podman's init alone.
#[test]
fn a_units_command_starts_as_podmans_init_would_start_it() {
    let script = "{ tr '\\0' ' ' </proc/1/cmdline; echo; echo $$ $PPID; grep -E '^Sig(Ign|Blk|Cgt)' /proc/self/status; \
         ls /proc/$$/fd | tr '\\n' ' '; id -u; pwd; } >out.txt 2>&1";
    let installed = Installed::new("q-execute", &crate::quadlet_live::repo(script));
    assert!(installed.run().status.success(), "{}", journal(&installed.agent));
    let out = std::fs::read_to_string(installed.sandbox.repo().join("out.txt")).unwrap();
    assert!(out.contains("podman-init") && out.contains("\n2 1\n"), "{out}");
    assert!(out.contains("SigBlk:\t0000000000000000"), "{out}");
    // Nothing can reset 32 and 33, glibc's own, so they are as whoever started the test host left them.
    let ignored = out.lines().find_map(|line| line.strip_prefix("SigIgn:\t")).unwrap();
    assert_eq!(u64::from_str_radix(ignored, 16).unwrap() & !(0b11 << 31), 0, "{out}");
    assert!(!installed.sandbox.repo().join("sandboxc-router").exists());
}
