//! No user namespaces inside: what they would permit, what still works, and who is not affected.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::harness::{REPO, SERVER, Sandbox, code, podman, text};
use crate::quadlet_live::{Installed, repo as unit_repo};

const IDENTITIES: [&str; 2] = ["host-user", "root"];

/// Creates a mount namespace without the protecting mounts, and renames protected paths by descriptors of their
/// directories: a mount point cannot be renamed only in a namespace where it is one. Prints what succeeded.
pub const MOVE: &str = r#"
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
top, git = os.open(".", os.O_PATH), os.open(".git", os.O_PATH)
if libc.unshare(0x10000000 | 0x20000) == 0:
    print("NAMESPACE")
    libc.mount(b"none", b"/", None, (1 << 18) | 16384, None)
    libc.mount(b"tmpfs", b"/mnt", b"tmpfs", 0, None)
    os.chdir("/mnt")
    libc.syscall(155, b".", b".")
    libc.umount2(b".", 2)
for at, name in [(git, "hooks"), (git, "config"), (top, ".sandboxc")]:
    try:
        os.rename(name, name + ".moved", src_dir_fd=at, dst_dir_fd=at)
        print("MOVED", name)
    except OSError as error:
        print(error.errno)
"#;

/// The same attack, and other things that must be impossible.
fn attack() -> String {
    format!(
        "python3 -c '{MOVE}' | sort -u; unshare -U true 2>/dev/null && echo MADE; \
         {{ echo 5 >/proc/sys/user/max_user_namespaces; }} 2>/dev/null && echo RAISED; true"
    )
}

fn repo(identity: &str, more: &str) -> String {
    format!("{REPO}identity: {identity}\n{more}")
}

fn with_git(sandbox: &Sandbox) {
    let status = Command::new("git").args(["init", "-q"]).current_dir(sandbox.repo()).status().unwrap();
    assert!(status.success());
}

#[test]
fn protected_paths_do_not_move() {
    for identity in IDENTITIES {
        let sandbox = Sandbox::with(&repo(identity, ""), SERVER);
        with_git(&sandbox);
        let output = sandbox.run(&["sh", "-c", &attack()]);
        assert_eq!(
            (code(&output), text(&output.stdout).as_str()),
            (0, "16\n"),
            "EBUSY alone: {}",
            text(&output.stderr)
        );
        assert_eq!(text(&output.stderr), "", "{identity}");
        // Also for processes that podman starts later, and for those that existed before.
        let mut live = sandbox.start(&[]);
        let name = live.container("agent", "agent");
        assert!(podman(&["exec", &name, "sh", "-c", "unshare -U echo MADE 2>&1"]).contains("No space left"));
        assert!(live.sh(&attack()).ends_with("16\n"));
    }
}

#[test]
fn scripts_and_units_have_no_user_namespaces_either() {
    let command = format!("{{ {} ; }} >out.txt 2>&1", attack());
    for identity in IDENTITIES {
        let sandbox = Sandbox::with(&repo(identity, ""), SERVER);
        with_git(&sandbox);
        let session = format!("ns-{identity}");
        let script = sandbox
            .command(&["compile", "--target", "script", "--session", &session, "--", "sh", "-c", &command])
            .output()
            .unwrap();
        assert_eq!(code(&script), 0, "{}", text(&script.stderr));
        fs::write(sandbox.scratch("run.sh"), &script.stdout).unwrap();
        let output = Command::new("sh").arg(sandbox.scratch("run.sh")).stdin(Stdio::null()).output().unwrap();
        let said = |dir: &Path| fs::read_to_string(dir.join("out.txt")).unwrap_or_default();
        assert_eq!(said(&sandbox.repo()), "16\n", "{identity}: {}", text(&output.stderr));
        let unit = format!("{}identity: {identity}\n", unit_repo(&command));
        let installed = Installed::prepared(&format!("q-{session}"), &unit, with_git);
        let output = installed.run();
        assert_eq!(said(&installed.sandbox.repo()), "16\n", "{identity}: {}", text(&output.stderr));
        assert!(installed.gone(), "left: {}", installed.left());
    }
}

/// The limit belongs to the pod, and not to podman's usual namespace, which identity root once shared.
#[test]
fn other_containers_of_the_user_and_the_user_keep_theirs() {
    let image = "localhost/sandboxc-base-agent:test";
    for identity in IDENTITIES {
        let sandbox = Sandbox::with(&repo(identity, ""), SERVER);
        let mut live = sandbox.start(&[]);
        assert_eq!(live.sh("cat /proc/sys/user/max_user_namespaces"), "0\n");
        let run = |more: &[&str]| {
            let tail = ["--network", "none", image, "unshare", "-U", "echo", "made"];
            podman(&[&["run", "--rm"], more, &tail].concat())
        };
        assert_eq!(run(&[]), "made\n", "{identity}");
        assert_eq!(run(&["--userns", "keep-id"]), "made\n", "{identity}");
        assert_eq!(podman(&["unshare", "unshare", "-U", "echo", "made"]), "made\n");
        let own = Command::new("unshare").args(["-Ur", "echo", "made"]).output().unwrap();
        assert_eq!(text(&own.stdout), "made\n", "{}", text(&own.stderr));
    }
}

/// 109 of them inside once left none for the user on the host.
#[test]
fn the_user_keeps_instances_of_inotify() {
    let take = "
import ctypes
libc = ctypes.CDLL(None)
print(sum(libc.inotify_init() >= 0 for _ in range(300)))";
    for identity in IDENTITIES {
        let sandbox = Sandbox::with(&repo(identity, ""), SERVER);
        let all: u32 = fs::read_to_string("/proc/sys/fs/inotify/max_user_instances").unwrap().trim().parse().unwrap();
        let got: u32 = sandbox.python(take).trim().parse().unwrap();
        assert!(got > 0 && got <= all / 4, "{got} of {all}");
    }
}

#[test]
fn the_forwarder_keeps_nothing_of_the_gate() {
    for identity in IDENTITIES {
        let sandbox = Sandbox::with(&repo(identity, ""), SERVER);
        let live = sandbox.start(&[]);
        let name = live.container("agent", "forwarder");
        let pids = podman(&["top", &name, "hpid"]);
        let pids: Vec<&str> = pids.lines().skip(1).map(str::trim).collect();
        assert!(!pids.is_empty());
        for pid in pids {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
            let bits = |set: &str| {
                let mask = status.lines().find_map(|line| line.strip_prefix(&format!("{set}:"))).unwrap();
                u64::from_str_radix(mask.trim(), 16).unwrap()
            };
            // CAP_SYS_RESOURCE is 24. The bounding set does not help a process that cannot gain privileges.
            for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
                assert_eq!(bits(set) & (1 << 24), 0, "{set}: {status}");
            }
            assert!(status.contains("NoNewPrivs:\t1"), "{status}");
        }
        // Nothing inside can raise the limits again.
        let write = "echo 5 >/proc/sys/user/max_user_namespaces && echo RAISED";
        assert!(
            !podman(&["exec", "--user", "1000", &live.container("agent", "agent"), "sh", "-c", write])
                .contains("RAISED")
        );
    }
}

#[test]
fn who_needs_user_namespaces_gets_them_from_the_server_and_protected_paths_are_watched() {
    let ask = "user_namespaces: true\n";
    let server = format!("{SERVER}defaults: {{allow_user_namespaces: true}}\n");
    for identity in IDENTITIES {
        let sandbox = Sandbox::with(&repo(identity, ask), SERVER);
        let refused = sandbox.run(&["true"]);
        assert_eq!(code(&refused), 2);
        assert!(text(&refused.stderr).contains("allow_user_namespaces: true"), "{}", text(&refused.stderr));

        let sandbox = Sandbox::with(&repo(identity, ask), &server);
        with_git(&sandbox);
        let output = sandbox.run(&["unshare", "-Ur", "id", "-u"]);
        assert_eq!((code(&output), text(&output.stdout)), (0, "0\n".to_owned()), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("1 warning"), "{}", text(&output.stderr));
        let output = sandbox.command(&["--verbose", "run", "--", "true"]).output().unwrap();
        assert!(text(&output.stderr).contains("watched, but not mounted over"), "{}", text(&output.stderr));

        let attack = format!("python3 -c '{MOVE}'; sleep 60");
        let output = sandbox.run(&["sh", "-c", &attack]);
        let said = text(&output.stderr);
        assert_eq!(code(&output), 125, "{identity}: {} {said}", text(&output.stdout));
        assert!(said.contains("ALARM: ") && said.contains("`.git/hooks` was removed or renamed"), "{said}");
    }
}
