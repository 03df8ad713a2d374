//! Hosts that are not as one would wish: a right result, or one clear line.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Output;

use crate::harness::{REPO, SERVER, Sandbox, code, left_over, text};

/// The one line that a failure is told in.
fn only_line(output: &Output) -> String {
    assert_eq!(code(output), 125, "{}", text(&output.stderr));
    let said = text(&output.stderr);
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

#[test]
fn without_a_runtime_directory_it_says_how_to_get_one() {
    let sandbox = Sandbox::new();
    for value in [None, Some("/nowhere/at/all"), Some("relative")] {
        let mut command = sandbox.command(&["run", "--", "true"]);
        command.env_remove("XDG_RUNTIME_DIR");
        command.envs(value.map(|value| ("XDG_RUNTIME_DIR", value)));
        let said = only_line(&command.output().unwrap());
        assert!(said.contains("XDG_RUNTIME_DIR") && said.contains("enable-linger"), "{said}");
    }
}

#[test]
fn a_workspace_below_private_directories_works() {
    let sandbox = Sandbox::new();
    let parent = sandbox.scratch("private");
    let dir = parent.join("deep/work");
    fs::create_dir_all(&dir).unwrap();
    for closed in [&parent, &parent.join("deep")] {
        fs::set_permissions(closed, Permissions::from_mode(0o700)).unwrap();
    }
    let output = sandbox.command(&["run", "--", "sh", "-c", "echo x >made; pwd"]).current_dir(&dir).output().unwrap();
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout).trim(), dir.to_str().unwrap());
    assert_eq!(fs::read_to_string(dir.join("made")).unwrap(), "x\n");
}

#[test]
fn a_home_that_cannot_be_written_is_named_with_what_mends_it() {
    let sandbox = Sandbox::new();
    let config = sandbox.config_home().join("sandboxc");
    let run_read_only = || {
        fs::set_permissions(&config, Permissions::from_mode(0o555)).unwrap();
        let output = sandbox.run(&["true"]);
        fs::set_permissions(&config, Permissions::from_mode(0o755)).unwrap();
        output
    };
    let refused = run_read_only();
    assert_eq!(code(&refused), 125);
    let said = text(&refused.stderr);
    assert!(said.contains("allowed-hosts") && said.contains("create the file"), "{said}");
    fs::write(config.join("allowed-hosts"), "").unwrap();
    let output = run_read_only();
    assert_eq!(code(&output), 0, "as it said: {}", text(&output.stderr));
}

/// `default_capabilities = []`, no logs, no image pulls, hooks that do not exist: nothing of it is relied on.
#[test]
fn a_hardened_containers_conf_changes_nothing() {
    let sandbox = Sandbox::new();
    let conf = sandbox.scratch("containers.conf");
    fs::write(&conf, "[containers]\ndefault_capabilities = []\nlog_driver = \"none\"\n").unwrap();
    let log = sandbox.scratch("network.jsonl");
    let script = "curl -sS https://api.example.com/ >/dev/null && id -u && grep CapEff /proc/self/status";
    for _ in 0..2 {
        let output = sandbox
            .command(&["run", "--network-log", log.to_str().unwrap(), "--", "sh", "-c", script])
            .env("CONTAINERS_CONF_OVERRIDE", &conf)
            .output()
            .unwrap();
        assert_eq!(code(&output), 0, "{}", text(&output.stderr));
        assert!(text(&output.stdout).contains("1000\nCapEff:\t0000000000000000"), "{}", text(&output.stdout));
    }
    let lines = fs::read_to_string(&log).unwrap();
    assert!(lines.matches("\"allow\"").count() >= 2, "the log does not depend on the default driver: {lines}");
}

#[test]
fn a_full_runtime_directory_and_a_podman_that_is_missing_are_one_line() {
    let sandbox = Sandbox::alone();
    let said = only_line(&sandbox.command(&["run", "--", "true"]).env("PATH", "/nowhere").output().unwrap());
    assert!(said.contains("podman 5.4 or newer"), "{said}");
    // An ordinary user cannot fill a tmpfs of the system's; one that takes no files is as near as it gets.
    let dir = sandbox.scratch("runtime");
    fs::create_dir(&dir).unwrap();
    fs::set_permissions(&dir, Permissions::from_mode(0o500)).unwrap();
    let said = only_line(&sandbox.command(&["run", "--", "true"]).env("XDG_RUNTIME_DIR", &dir).output().unwrap());
    assert!(said.contains(dir.to_str().unwrap()), "{said}");
    assert_eq!(left_over(), [""; 0]);
}

#[test]
fn a_privileged_default_in_containers_conf_gives_the_command_nothing() {
    for (identity, effective, bounding) in [("root", "cb", "cb"), ("host-user", "00", "00")] {
        let sandbox = Sandbox::with(&format!("{REPO}identity: {identity}\n"), SERVER);
        let conf = sandbox.scratch("containers.conf");
        fs::write(&conf, "[containers]\nprivileged = true\n").unwrap();
        let mut command =
            sandbox.command(&["run", "--", "grep", "-E", "CapEff|CapBnd|NoNewPrivs", "/proc/self/status"]);
        let output = command.env("CONTAINERS_CONF_OVERRIDE", &conf).output().unwrap();
        assert_eq!(code(&output), 0, "{}", text(&output.stderr));
        let expected =
            format!("CapEff:\t00000000000000{effective}\nCapBnd:\t00000000000000{bounding}\nNoNewPrivs:\t1\n");
        assert_eq!(text(&output.stdout), expected, "{identity}");
    }
}
