//! What a script has in common with `run`: exit codes, signals, and cleanup.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::harness::{REPO, SERVER, Sandbox, code, everything, podman, signal, text, wait_until};

fn compile(sandbox: &Sandbox, command: &[&str]) -> PathBuf {
    let output = sandbox.command(&[&["compile", "--target", "script", "--"], command].concat()).output().unwrap();
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let path = sandbox.scratch("run.sh");
    fs::write(&path, &output.stdout).unwrap();
    path
}

fn run(sandbox: &Sandbox, command: &[&str]) -> Output {
    Command::new("sh").arg(compile(sandbox, command)).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn a_scripts_exit_code_says_whether_its_command_was_found() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.repo().join("data"), "no program").unwrap();
    for (command, expected) in [
        (&["no-such-command"][..], 127),
        (&["./no-such-file"], 127),
        (&["/etc/hostname"], 126),
        (&["./data"], 126),
        (&["sh", "-c", "exit 1"], 1),
        (&["sh", "-c", "echo 'a line of its own'; exit 1"], 1),
        (&["sh", "-c", "exit 127"], 127),
    ] {
        let output = run(&sandbox, command);
        assert_eq!(code(&output), expected, "{command:?}: {}", text(&output.stderr));
    }
}

/// `VOLUME` in an image makes podman create an anonymous volume for each container.
#[test]
fn volumes_that_an_image_asks_for_end_with_the_sandbox() {
    let image = "localhost/e2e-with-volume:1";
    let sandbox = Sandbox::alone_with(&format!("{REPO}image: {image}\n"), SERVER);
    // Other tests may have left some.
    let anonymous = || everything().lines().filter(|line| line.len() == 64).count();
    let others = anonymous();
    let file = sandbox.scratch("Containerfile");
    fs::write(&file, "FROM localhost/sandboxc-base-agent:test\nVOLUME /data /more\n").unwrap();
    podman(&["build", "--quiet", "--tag", image, "--file", file.to_str().unwrap(), "."]);
    let script = ["sh", "-c", "mountpoint -q /data && mountpoint -q /more && touch /data/x"];
    let first = run(&sandbox, &script);
    assert_eq!(code(&first), 0, "{}", text(&first.stderr));
    let before = everything();
    assert_eq!(anonymous(), others, "left by the script: {before}");
    assert!(podman(&["volume", "ls", "--format", "{{.Name}}"]).contains("home"), "the twin: the home stays");
    let ended = sandbox.run(&script);
    assert_eq!(code(&ended), 0, "{}", text(&ended.stderr));
    assert_eq!(everything(), before, "left by run");
    // A runner that dies leaves it to `gc`.
    let mut child = sandbox.command(&["run", "--", "sh", "-c", "touch /data/x started; sleep 60"]).spawn().unwrap();
    wait_until("the command runs", || sandbox.repo().join("started").exists());
    signal(child.id(), "KILL");
    child.wait().unwrap();
    assert_ne!(anonymous(), others, "the volumes are still there");
    let swept = sandbox.command(&["gc"]).output().unwrap();
    assert_eq!(code(&swept), 0, "{}", text(&swept.stderr));
    assert_eq!(everything(), before, "left by gc");
    let late = sandbox.run_with(&["--timeout", "2s"], &["sh", "-c", "touch /data/x; sleep 60"]);
    assert_eq!(code(&late), 124);
    assert_eq!(everything(), before, "left by a run that timed out");
    podman(&["image", "rm", "--force", image]);
}

#[test]
fn every_signal_ends_a_script_at_once_and_leaves_nothing() {
    let sandbox = Sandbox::alone();
    let script = compile(&sandbox, &["sh", "-c", "trap '' TERM HUP USR1; touch started; sleep 100"]);
    let mut before = String::new();
    for (name, expected) in [("TERM", 143), ("HUP", 129), ("QUIT", 131), ("USR1", 138), ("ALRM", 142)] {
        let mut child = Command::new("sh")
            .arg(&script)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_until("the command runs", || sandbox.repo().join("started").exists());
        let begin = Instant::now();
        signal(child.id(), name);
        assert_eq!(child.wait().unwrap().code(), Some(expected), "{name}");
        assert!(begin.elapsed() < Duration::from_secs(40), "{name}: {:?}", begin.elapsed());
        fs::remove_file(sandbox.repo().join("started")).unwrap();
        if before.is_empty() {
            before = everything();
            assert!(!before.contains("-agent"), "{before}");
        }
        assert_eq!(everything(), before, "left after {name}");
    }
}
