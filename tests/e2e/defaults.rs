//! The podman configuration of host and user does not affect a sandbox.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{REPO, SERVER, Sandbox, code, podman, text, unique};

/// A `containers.conf` with everything that can affect containers, and how to see each key from inside.
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

/// Keys with `append`, so that a later list alone would not override them.
const DROP_IN: &str = r#"[containers]
volumes = ["HOME/leak:/leak-drop-in", {append=true}]
env = ["LEAK2=1", {append=true}]
"#;

const HOOK: &str = r#"{"version": "1.0.0", "hook": {"path": "/usr/bin/touch", "args": ["touch", "HOME/hook-ran"]},
 "when": {"always": true}, "stages": ["createRuntime"]}"#;

/// A home directory with this configuration, next to the workspace.
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
    // This is not an init: a container that started it would fail.
    fs::copy(init.trim(), home.join("init")).unwrap();
    let conf = sandbox.config_home().join("containers");
    fs::create_dir_all(conf.join("containers.conf.d")).unwrap();
    fs::write(conf.join("containers.conf"), careless(&home)).unwrap();
    fs::write(conf.join("containers.conf.d/append.conf"), at(DROP_IN)).unwrap();
    home
}

/// `sandboxc` as a user with that home directory, with the usual storage.
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
        // The host still configures where podman stores its data.
        assert!(
            fs::metadata(home.join("events.log")).is_ok_and(|meta| meta.len() > 0),
            "{identity}: events are elsewhere"
        );
    }
}

/// A start with shared namespaces fails for requests that need private ones, so they are tried one by one.
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

/// conmon, pasta and podman's pause process live as long as the sandbox or longer, and keep their environment.
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

/// A podman that ignores our file of defaults, as another version might.
const DEAF: &str = r#"#!/bin/sh
unset CONTAINERS_CONF_OVERRIDE
for word; do
    shift
    case $word in --default-mounts-file=*) ;; *) set -- "$@" "$word" ;; esac
done
exec /usr/bin/podman "$@"
"#;

fn deaf(sandbox: &Sandbox) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let bin = sandbox.scratch("bin");
    fs::create_dir_all(&bin).unwrap();
    fs::write(bin.join("podman"), DEAF).unwrap();
    fs::set_permissions(bin.join("podman"), fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{}", bin.display(), std::env::var("PATH").unwrap())
}

#[test]
fn a_container_that_is_not_what_the_plan_says_never_runs_the_command() {
    let cases = [
        ("volumes = [\"HOME/leak:/leak\"]", "bind of"),
        ("mounts = [\"type=bind,source=HOME/leak,destination=/leak\"]", "bind of"),
        ("devices = [\"/dev/fuse\"]", "/dev/fuse"),
        ("env = [\"LEAK=1\"]", "the variable LEAK"),
        ("cgroupns = \"host\"", "cgroup namespace"),
        ("default_capabilities = [\"NET_RAW\"]", "CAP_NET_RAW"),
        ("seccomp_profile = \"HOME/seccomp.json\"", "seccomp filter"),
        ("default_sysctls = [\"net.ipv4.ping_group_range=0 1\"]", "kernel parameter"),
        ("tz = \"Asia/Tokyo\"", "/etc/localtime"),
        ("[engine]\nhooks_dir = [\"HOME/hooks\"]", "a hook"),
        ("mounts.conf", "/run/leak-subscription"),
    ];
    for identity in ["host-user", "root"] {
        let sandbox = Sandbox::with(&format!("{REPO}identity: {identity}\n"), SERVER);
        let home = careless_home(&sandbox);
        let (path, conf) = (deaf(&sandbox), sandbox.config_home().join("containers/containers.conf"));
        fs::remove_dir_all(sandbox.config_home().join("containers/containers.conf.d")).unwrap();
        let subscriptions = fs::read_to_string(home.join(".config/containers/mounts.conf")).unwrap();
        let run = |keys: &str| {
            let mounts = if keys == "mounts.conf" { subscriptions.as_str() } else { "" };
            fs::write(home.join(".config/containers/mounts.conf"), mounts).unwrap();
            let keys = if keys == "mounts.conf" { "" } else { keys }.replace("HOME", home.to_str().unwrap());
            // Defaults of podman that differ from the plan; each case adds some.
            let own = ["default_capabilities = []\n", "default_sysctls = []\n"];
            let own = own.into_iter().filter(|line| line.split(' ').next().is_some_and(|key| !keys.contains(key)));
            fs::write(&conf, format!("[containers]\n{}{keys}\n", own.collect::<String>())).unwrap();
            of(&home, sandbox.command(&["run", "--", "touch", "ran"])).env("PATH", &path).output().unwrap()
        };
        // The identity does not change what is compared, so only a few cases use root.
        let most = if identity == "root" { 3 } else { cases.len() };
        for (keys, named) in cases.into_iter().take(most) {
            let output = run(keys);
            let said = text(&output.stderr);
            assert_eq!(code(&output), 125, "{identity}: {keys}: {said}");
            assert!(said.contains(named) && said.contains("the command was not started"), "{identity}: {keys}: {said}");
            assert!(!sandbox.repo().join("ran").exists(), "{identity}: {keys}: it ran");
        }
        // The same podman, with nothing that differs.
        let output = run("# nothing");
        assert_eq!(code(&output), 0, "{identity}: {}", text(&output.stderr));
        assert!(sandbox.repo().join("ran").exists());
    }
}

/// podman's own files of a container are in the host's memory, and root inside could fill it with them.
#[test]
fn no_file_of_the_hosts_runtime_directory_can_be_written_from_inside() {
    for identity in ["host-user", "root"] {
        let sandbox = Sandbox::with(&format!("{REPO}identity: {identity}\n"), SERVER);
        let out = sandbox.sh(
            "for file in /etc/hosts /etc/hostname /etc/resolv.conf /run/.containerenv; do
                 test -e $file || echo $file is missing; { echo more >>$file; } 2>/dev/null && echo $file was written; done
             grep -E ' /(etc|run)/.* ext4 ' /proc/self/mounts | grep -v ' ro,' | grep -v /run/podman-init
             grep ' tmpfs ' /proc/self/mountinfo | grep -E 'user/[0-9]+|/containers/' || :
             cat /etc/hostname; getent hosts localhost >/dev/null && echo resolves; curl -sS https://api.example.com/ >/dev/null && echo reached",
        );
        assert_eq!(out, "sandbox\nresolves\nreached\n", "{identity}");
    }
}

/// What an agent leaves in the workspace or at home does not give privileges to whoever mounts it next.
#[test]
fn the_workspace_and_the_home_are_mounted_without_devices_and_set_user_id() {
    for (identity, home) in [("host-user", "/home/agent"), ("root", "/root")] {
        let repo =
            format!("{REPO}identity: {identity}\nmounts:\n  - {{source: ../data, target: /data, read_only: false}}\n");
        let sandbox = Sandbox::with(&repo, SERVER);
        fs::create_dir(sandbox.repo().join("data")).unwrap();
        let places = format!("{} {home} /data", sandbox.repo().display());
        let out = sandbox.sh(&format!(
            "for place in {places}; do findmnt -n -o OPTIONS --target $place | grep nodev | grep -q nosuid && echo $place; \
             touch $place/x && rm $place/x; done"
        ));
        assert_eq!(out.split_whitespace().collect::<Vec<_>>(), places.split(' ').collect::<Vec<_>>(), "{identity}");
    }
}

/// The limits of router and forwarder, which an agent can keep busy. Without delegated controllers they have no effect,
/// so this checks what systemd was told.
#[test]
fn router_and_forwarder_have_limits_of_their_own() {
    for identity in ["host-user", "root"] {
        let sandbox = Sandbox::with(&format!("{REPO}identity: {identity}\n"), SERVER);
        let live = sandbox.start(&[]);
        for (pod, name, memory, tasks) in [("router", "router", 512 << 20, 256), ("agent", "forwarder", 256 << 20, 64)]
        {
            let id = podman(&["inspect", "--format", "{{.Id}}", &live.container(pod, name)]);
            let scope = format!("libpod-{}.scope", id.trim());
            let properties = ["MemoryMax", "MemorySwapMax", "TasksMax", "CPUQuotaPerSecUSec"]
                .map(|name| format!("--property={name}"));
            let output = Command::new("systemctl").args(["--user", "show", &scope]).args(properties).output().unwrap();
            let out = text(&output.stdout);
            let mut lines: Vec<&str> = out.lines().collect();
            lines.sort_unstable();
            assert_eq!(
                lines[1..],
                [format!("MemoryMax={memory}"), "MemorySwapMax=0".to_owned(), format!("TasksMax={tasks}")],
                "{name}"
            );
            assert!(lines[0].starts_with("CPUQuotaPerSecUSec=") && !lines[0].ends_with("infinity"), "{name}: {out}");
        }
        let id = podman(&["inspect", "--format", "{{.Id}}", &live.container("agent", "agent")]);
        let scope = format!("libpod-{}.scope", id.trim());
        let output =
            Command::new("systemctl").args(["--user", "show", &scope, "--property=MemoryMax", "--value"]).output();
        assert_eq!(
            text(&output.unwrap().stdout).trim(),
            "infinity",
            "the twin: nobody limits the agent but its config"
        );
    }
}

/// A vsock connects to the hypervisor, whatever the sandbox's network. The kernel only reads the lower half of the
/// family.
#[test]
fn no_socket_to_the_hypervisor_can_be_made() {
    let program = r#"
import ctypes, errno
socket = ctypes.CDLL(None, use_errno=True).syscall
def made(family, kind=1):
    fd = socket(ctypes.c_long(41), ctypes.c_long(family), ctypes.c_long(kind), ctypes.c_long(0))
    return "made" if fd >= 0 else errno.errorcode[ctypes.get_errno()]
show([made(40), made(40 + (1 << 32)), made(40 | (7 << 40)), made(1), made(2), made(10), made(16, 3), made(1 + (1 << 32))])"#;
    for identity in ["host-user", "root"] {
        let sandbox = Sandbox::with(&format!("{REPO}identity: {identity}\n"), SERVER);
        let seen = sandbox.probe(program);
        assert_eq!(
            seen,
            serde_json::json!(["ENOSYS", "ENOSYS", "ENOSYS", "made", "made", "made", "made", "made"]),
            "{identity}"
        );
    }
}
