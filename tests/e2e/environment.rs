//! Hosts with problems: the result is right, or there is one clear line.

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::harness::{REPO, SERVER, Sandbox, code, left_over, podman, text};

/// The single line of an error.
fn only_line(output: &Output) -> String {
    assert_eq!(code(output), 125, "{}", text(&output.stderr));
    let said = text(&output.stderr);
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

#[test]
fn without_a_runtime_directory_it_says_how_to_get_one() {
    let sandbox = Sandbox::new();
    for value in ["/nowhere/at/all", "relative"] {
        let mut command = sandbox.command(&["run", "--", "true"]);
        command.env("XDG_RUNTIME_DIR", value);
        let said = only_line(&command.output().unwrap());
        assert!(said.contains("XDG_RUNTIME_DIR") && said.contains("enable-linger"), "{said}");
    }
}

/// As after `su` or in cron, with lingering enabled.
#[test]
fn without_the_variables_of_a_login_the_users_own_runtime_directory_is_found() {
    let sandbox = Sandbox::new();
    for value in [None, Some("")] {
        let mut command = sandbox.command(&["run", "--", "sh", "-c", "exit 7"]);
        command.env_remove("XDG_RUNTIME_DIR").env_remove("DBUS_SESSION_BUS_ADDRESS");
        command.envs(value.map(|value| ("XDG_RUNTIME_DIR", value)));
        let output = command.output().unwrap();
        assert_eq!(code(&output), 7, "{}", text(&output.stderr));
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
    assert_eq!(code(&refused), 2);
    let said = text(&refused.stderr);
    assert!(said.contains("allowed-hosts") && said.contains("create the file"), "{said}");
    fs::write(config.join("allowed-hosts"), "").unwrap();
    let output = run_read_only();
    assert_eq!(code(&output), 0, "as it said: {}", text(&output.stderr));
}

/// `default_capabilities = []`, no logs, no image pulls, hooks that do not exist: sandboxc does not depend on any of
/// it.
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
    // An ordinary user cannot fill the system's tmpfs, so this uses a directory that accepts no files.
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

/// podman's storage on a separate 64 MB disk, with the images of the usual one.
struct Small {
    sandbox: Sandbox,
    conf: PathBuf,
}

const SMALL: &str = "/run/small";

impl Small {
    fn new() -> Self {
        // Root inside, since mapped ids would copy the image.
        let sandbox = Sandbox::alone_with(&format!("{REPO}identity: root\n"), SERVER);
        assert!(
            Path::new(SMALL).is_dir(),
            "the test host was booted by an older boot.sh: `tests/host/host down` first"
        );
        let conf = sandbox.scratch("storage.conf");
        let images = PathBuf::from(std::env::var_os("HOME").unwrap()).join(".local/share/containers/storage");
        let text_of = format!(
            "[storage]\ndriver = \"overlay\"\nrootless_storage_path = \"{SMALL}/storage\"\n\
             [storage.options]\nadditionalimagestores = [\"{}\"]\n",
            images.display()
        );
        fs::write(&conf, text_of).unwrap();
        // Created before anything with a cleanup, since this removes everything in this storage.
        let mut info = Command::new("podman");
        info.args(["info", "--format", "{{.Store.GraphRoot}}"]).env("CONTAINERS_STORAGE_CONF", &conf);
        assert_eq!(text(&info.output().unwrap().stdout).trim(), format!("{SMALL}/storage"));
        Self { sandbox, conf }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.sandbox.command(args);
        command.env("CONTAINERS_STORAGE_CONF", &self.conf);
        command
    }

    fn podman(&self, args: &[&str]) -> String {
        let output = Command::new("podman").args(args).env("CONTAINERS_STORAGE_CONF", &self.conf).output().unwrap();
        text(&output.stdout)
    }

    /// Fills the disk except for some bytes.
    fn fill(but: usize) {
        let path = Path::new(SMALL).join("fill");
        let mut file = fs::File::create(&path).unwrap();
        let block = vec![1; 65536];
        while file.write_all(&block).is_ok() {}
        let len = file.metadata().unwrap().len();
        file.set_len(len.saturating_sub(but as u64)).unwrap();
    }

    fn empty() {
        let _ = fs::remove_file(Path::new(SMALL).join("fill"));
    }

    fn left(&self) -> String {
        let mut all = self.podman(&["ps", "-aq"]) + &self.podman(&["pod", "ls", "-q"]);
        all += &self.podman(&["volume", "ls", "-q", "--filter", "name=sandboxc-run-"]);
        all + &self.podman(&["network", "ls", "-q", "--filter", "name=sandboxc-run-"])
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        Self::empty();
        self.podman(&["pod", "rm", "--force", "--all"]);
        self.podman(&["rm", "--force", "--all"]);
        let clean = format!("rm -rf {SMALL}/*");
        let _ = Command::new("podman").args(["unshare", "sh", "-c", &clean]).status();
    }
}

//
#[test]
fn a_full_storage_is_one_line_and_nothing_is_left_once_there_is_room() {
    let small = Small::new();
    let run = || small.command(&["run", "--", "echo", "here"]).output().unwrap();
    let twin = run();
    assert_eq!((code(&twin), text(&twin.stdout)), (0, "here\n".to_owned()), "{}", text(&twin.stderr));
    assert_eq!(small.left(), "");
    for but in [0, 100_000, 600_000] {
        Small::fill(but);
        let output = run();
        println!("{but} bytes free: {:?} {}", output.status.code(), text(&output.stderr));
        if but == 0 {
            assert_ne!(code(&output), 0);
        }
        if code(&output) != 0 {
            let said = text(&output.stderr);
            let of_space = said.lines().filter(|line| line.contains("no space left") || line.contains("disk is full"));
            assert!(of_space.count() >= 1, "{said}");
            assert_eq!(text(&output.stdout), "", "the command did not start");
        }
        Small::empty();
        let gc = small.command(&["gc"]).output().unwrap();
        assert_eq!((code(&gc), small.left()), (0, String::new()), "{but}: {}", text(&gc.stderr));
    }
    let again = run();
    assert_eq!((code(&again), text(&again.stdout)), (0, "here\n".to_owned()), "{}", text(&again.stderr));
}

/// A clock that jumped since the start of a session, in both directions; in the virtual machine, it really jumps.
#[test]
fn a_session_from_the_future_or_from_long_ago_is_listed_and_not_taken_for_dead() {
    let sandbox = Sandbox::alone();
    let live = sandbox.start(&[]);
    let path = PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR").unwrap())
        .join("sandboxc")
        .join(&live.session)
        .join("session.json");
    let mut record: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    for since in [0_u64, 1, 4_102_444_800, u64::MAX / 2] {
        record["since"] = since.into();
        fs::write(&path, record.to_string()).unwrap();
        let ps = sandbox.command(&["ps"]).output().unwrap();
        assert!(
            code(&ps) == 0 && text(&ps.stdout).contains(&live.session),
            "{since}: {} {}",
            text(&ps.stdout),
            text(&ps.stderr)
        );
        let gc = sandbox.command(&["gc"]).output().unwrap();
        assert_eq!((code(&gc), text(&gc.stdout).as_str()), (0, "nothing to remove\n"), "{since}: {}", text(&gc.stderr));
        assert_eq!(code(&sandbox.run(&["true"])), 0, "{since}: another one beside it");
    }
    assert_eq!(live.end(), "");
}

/// Containers, pods, networks and volumes of other tools that look like ours, or have conflicting names.
#[test]
fn what_other_tools_left_behind_is_neither_removed_nor_in_the_way() {
    let sandbox = Sandbox::alone();
    let image = "localhost/sandboxc-base-agent:test";
    podman(&["volume", "create", "sandboxc"]);
    podman(&["volume", "create", "sandboxc-run-notahash"]);
    podman(&["network", "create", "sandboxc-runner"]);
    podman(&["pod", "create", "--name", "claude-sandbox"]);
    podman(&["create", "--name", "sandboxc-0123456789ab-other", "--pull=never", image, "true"]);
    podman(&["run", "--name", "devcontainer", "--pull=never", "--network=none", image, "false"]);
    let names = [
        "sandboxc",
        "sandboxc-run-notahash",
        "sandboxc-runner",
        "claude-sandbox",
        "sandboxc-0123456789ab-other",
        "devcontainer",
    ];
    let there = || -> Vec<&str> {
        let all = crate::harness::everything();
        names.into_iter().filter(|name| all.lines().any(|line| line == *name)).collect()
    };
    let before = there();
    let run = sandbox.run(&["echo", "here"]);
    let gc = sandbox.command(&["gc"]).output().unwrap();
    let after = there();
    podman(&["rm", "--force", "sandboxc-0123456789ab-other", "devcontainer"]);
    podman(&["pod", "rm", "--force", "claude-sandbox"]);
    podman(&["network", "rm", "--force", "sandboxc-runner"]);
    podman(&["volume", "rm", "--force", "sandboxc", "sandboxc-run-notahash"]);
    assert_eq!(before, names);
    assert_eq!(after, names, "{}", text(&gc.stdout));
    assert_eq!((code(&run), text(&run.stdout)), (0, "here\n".to_owned()), "{}", text(&run.stderr));
}
