//! podman's own defaults, as this host and user may have set them: none reaches into a sandbox.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{REPO, SERVER, Sandbox, code, podman, text, unique};

/// A `containers.conf` with whatever reaches into containers, and what of it can be seen from inside.
fn careless(home: &Path) -> String {
    let home = home.display();
    format!(
        r#"[containers]
volumes = ["{home}/leak:/leak-volume"]
mounts = ["type=bind,source={home}/leak,destination=/leak-mount"]
devices = ["/dev/fuse"]
env = ["LEAK=1"]
annotations = ["leak=1"]
utsns = "host"
cgroupns = "host"
dns_servers = ["192.0.2.99"]
dns_searches = ["leak.example"]
label = false
seccomp_profile = "{home}/seccomp.json"
default_capabilities = ["NET_RAW", "NET_ADMIN", "SYS_ADMIN"]
default_sysctls = ["net.ipv4.ping_group_range=0 1"]
default_ulimits = ["nofile=77:77"]
env_host = true
tz = "Asia/Tokyo"
umask = "0000"
init_path = "{home}/init"
[engine]
hooks_dir = ["{home}/hooks"]
env = ["ENGINE_LEAK=1", "http_proxy=http://user:leak@192.0.2.99:1"]
events_logger = "file"
events_logfile_path = "{home}/events.log"
"#
    )
}

/// What `append` adds, so that a later list alone would not take it away.
const DROP_IN: &str = r#"[containers]
volumes = ["HOME/leak:/leak-drop-in", {append=true}]
env = ["LEAK2=1", {append=true}]
"#;

const HOOK: &str = r#"{"version": "1.0.0", "hook": {"path": "/usr/bin/touch", "args": ["touch", "HOME/hook-ran"]},
 "when": {"always": true}, "stages": ["createRuntime"]}"#;

/// A home directory with all of it, beside the workspace.
fn careless_home(sandbox: &Sandbox) -> PathBuf {
    let home = sandbox.scratch("home");
    for dir in ["leak", "hooks", ".config/containers"] {
        fs::create_dir_all(home.join(dir)).unwrap();
    }
    let at = |text: &str| text.replace("HOME", home.to_str().unwrap());
    fs::write(home.join("leak/secret"), "a file of the host").unwrap();
    fs::write(home.join("seccomp.json"), r#"{"defaultAction": "SCMP_ACT_ALLOW"}"#).unwrap();
    fs::write(home.join("hooks/hook.json"), at(HOOK)).unwrap();
    fs::write(home.join(".config/containers/mounts.conf"), at("HOME/leak:/run/leak-subscription\n")).unwrap();
    let init = podman(&["info", "--format", "{{.Host.Conmon.Path}}"]);
    // Not an init at all: a container that started it would not live.
    fs::copy(init.trim(), home.join("init")).unwrap();
    let conf = sandbox.config_home().join("containers");
    fs::create_dir_all(conf.join("containers.conf.d")).unwrap();
    fs::write(conf.join("containers.conf"), careless(&home)).unwrap();
    fs::write(conf.join("containers.conf.d/append.conf"), at(DROP_IN)).unwrap();
    home
}

/// `sandboxc` of somebody with that home, whose storage is where it always was.
fn of(home: &Path, mut command: Command) -> Command {
    let data = PathBuf::from(std::env::var_os("HOME").unwrap()).join(".local/share");
    command.env("HOME", home).env("XDG_DATA_HOME", data);
    command
}

const LOOK: &str = "env; ls -d /leak* /run/leak* /dev/fuse 2>/dev/null; grep -E 'CapBnd|Seccomp:' /proc/self/status; \
     cat /etc/resolv.conf; hostname; ulimit -n; date +%Z; umask; cat /proc/1/cgroup; \
     curl -sS https://api.example.com/ >/dev/null && echo reached; python3 -c 'import os; os.unshare(0x10000000 | 0x20000)' || :";

#[test]
fn nothing_of_the_hosts_podman_defaults_reaches_the_command() {
    for (identity, bounding) in [("host-user", "0000000000000000"), ("root", "00000000000000cb")] {
        let sandbox = Sandbox::with(&format!("{REPO}identity: {identity}\nenv: {{PLANNED: \"1\"}}\n"), SERVER);
        let home = careless_home(&sandbox);
        let output = of(&home, sandbox.command(&["run", "--", "sh", "-c", LOOK])).output().unwrap();
        let out = text(&output.stdout);
        assert_eq!(code(&output), 0, "{identity}: {}", text(&output.stderr));
        for word in ["LEAK", "leak", "proxy", "/dev/fuse", "192.0.2.99", "JST"] {
            assert!(!out.contains(word), "{identity}: {word} got in:\n{out}");
        }
        for line in [format!("CapBnd:\t{bounding}"), "Seccomp:\t2".to_owned(), "0::/".to_owned()] {
            assert!(out.lines().any(|other| other == line), "{identity}: no {line} in\n{out}");
        }
        for line in ["sandbox", "UTC", "0022", "PLANNED=1", "reached"] {
            assert!(out.lines().any(|other| other == line), "{identity}: no {line} in\n{out}");
        }
        assert!(!out.lines().any(|line| line == "77"), "{identity}: the limit of open files is the host's:\n{out}");
        assert!(!home.join("hook-ran").exists(), "{identity}: a hook ran");
        // The twin: where podman keeps its records is the host's to say.
        assert!(
            fs::metadata(home.join("events.log")).is_ok_and(|meta| meta.len() > 0),
            "{identity}: events are elsewhere"
        );
    }
}

/// Shared namespaces make a start fail that asks for others, so they are tried one by one.
#[test]
fn no_namespace_is_shared_because_a_default_says_so() {
    let sandbox = Sandbox::new();
    let own = |kind: &str| fs::read_link(format!("/proc/self/ns/{kind}")).unwrap().display().to_string();
    let conf = sandbox.scratch("other.conf");
    for (key, kind) in [("pidns", "pid"), ("ipcns", "ipc"), ("utsns", "uts"), ("netns", "net"), ("cgroupns", "cgroup")]
    {
        fs::write(
            &conf,
            format!("[containers]\n{key} = \"host\"\nprivileged = true\nshm_size = \"1m\"\npids_limit = 0\n"),
        )
        .unwrap();
        for variable in ["CONTAINERS_CONF", "CONTAINERS_CONF_OVERRIDE"] {
            let mut command = sandbox.command(&["run", "--", "readlink", &format!("/proc/self/ns/{kind}")]);
            let output = command.env(variable, &conf).output().unwrap();
            assert_eq!(code(&output), 0, "{key} in {variable}: {}", text(&output.stderr));
            assert_ne!(text(&output.stdout).trim(), own(kind), "{key} in {variable}");
        }
    }
}

/// conmon, pasta and podman's pause process live for as long as the sandbox or longer, and keep what they were started with.
#[test]
fn no_helper_of_podmans_keeps_the_callers_environment() {
    let sandbox = Sandbox::alone_with(REPO, &format!("{SERVER}defaults: {{secrets: {{TOKEN: !env CANARY}}}}\n"));
    podman(&["system", "migrate"]); // ends the pause process, so that the next call makes one
    let canary = unique();
    let mut child = sandbox
        .command(&["run", "--", "sh", "-c", "echo started >started; read line || :"])
        .env("CANARY", &canary)
        .env("OTHER", &canary)
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    crate::harness::wait_until("the command runs", || sandbox.repo().join("started").exists());
    let mut helpers = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let read = |file: &str| text(&fs::read(entry.path().join(file)).unwrap_or_default());
        let (program, environment) = (read("comm"), read("environ"));
        if ["conmon", "pasta", "pasta.avx2", "catatonit", "podman"].contains(&program.trim()) {
            helpers.push(program.trim().to_owned());
            assert!(!environment.contains(&canary), "{program}: {environment}");
        }
    }
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    for program in ["conmon", "catatonit", "podman"] {
        assert!(helpers.iter().any(|helper| helper == program), "{program} was not looked at: {helpers:?}");
    }
    assert!(helpers.iter().any(|helper| helper.starts_with("pasta")), "{helpers:?}");
}
