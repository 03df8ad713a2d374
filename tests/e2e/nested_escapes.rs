//! What nested containers must not open: tried as root of a namespace inside, with every capability there.

use std::fs;
use std::process::Command;

use crate::harness::{Sandbox, code, text};
use crate::nested::{nested, nested_command, with_tiny};

/// Prints what succeeds although it must not.
const TRY: &str = r#"try() { name=$1; shift; ("$@") >/dev/null 2>&1 && echo "ESCAPED: $name"; true; }"#;

/// How to become root of a namespace: with one id, with all of them, and in a container that may do everything. podman makes the
/// second for a user that is not root, and for root a `--privileged` container cannot mount its sysfs.
const SINGLE: &str = "unshare -Urm sh -c";
const MANY: &str = "podman unshare sh -c";
const PRIVILEGED: &str = "podman run --rm --privileged -v \"$PWD:$PWD\" -w \"$PWD\" localhost/tiny:1 sh -c";
const CAPABLE: &str = "podman run --rm --cap-add all --security-opt seccomp=unconfined --security-opt unmask=all -v \"$PWD:$PWD\" \
                       -w \"$PWD\" localhost/tiny:1 sh -c";

fn with_git(sandbox: &Sandbox) {
    assert!(Command::new("git").args(["init", "-q"]).current_dir(sandbox.repo()).status().unwrap().success());
}

/// Everything in the protected parts of the workspace.
fn protected(sandbox: &Sandbox) -> Vec<String> {
    let read = |path: &str| text(&fs::read(sandbox.repo().join(path)).unwrap());
    let mut hooks: Vec<String> = fs::read_dir(sandbox.repo().join(".git/hooks"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    hooks.sort();
    hooks.push(read(".git/config"));
    hooks.push(read(".sandboxc/sandbox.yaml"));
    hooks
}

/// Runs the attempts in each kind of namespace that the identity can have. None may succeed.
fn none_succeeds(identity: &str, ask: &str, attempts: &str) {
    let sandbox = nested(identity, ask);
    with_git(&sandbox);
    let before = protected(&sandbox);
    let ways = if identity == "root" { vec![SINGLE, CAPABLE] } else { vec![SINGLE, MANY, PRIVILEGED] };
    let quoted = format!("{TRY}\n{attempts}\necho tried").replace('\'', "'\\''");
    let script: Vec<String> = ways.iter().map(|way| format!("{way} '{quoted}'")).collect();
    let output = sandbox.run(&["sh", "-c", &with_tiny(&script.join("\n"))]);
    assert_eq!(text(&output.stdout), "tried\n".repeat(ways.len()), "{identity}: {}", text(&output.stderr));
    assert_eq!(code(&output), 0, "{identity}: {}", text(&output.stderr));
    assert_eq!(protected(&sandbox), before, "{identity}");
}

fn none_succeeds_for_both(attempts: &str) {
    for identity in ["host-user", "root"] {
        none_succeeds(identity, "true", attempts);
    }
}

#[test]
fn protected_paths_cannot_be_written_through_a_namespace() {
    none_succeeds_for_both(
        "try 'write a file' sh -c 'echo x >>.git/config'
        try 'make a file' touch .git/hooks/pre-commit
        try 'change a mode' chmod 777 .git/config
        try 'rename' mv .git/hooks .git/moved
        try 'rename what is around' mv .git .moved
        try 'remove' rm -r .sandboxc",
    );
}

#[test]
fn protecting_mounts_cannot_be_removed_or_changed_in_a_namespace() {
    none_succeeds_for_both(
        "try 'umount' umount .git/hooks
        try 'lazy umount' umount -l .git/config
        try 'remount' mount -o remount,bind,rw .git/hooks
        mkdir -p /tmp/at /tmp/up /tmp/work
        try 'move' mount --move .git/hooks /tmp/at
        mount --bind .git/hooks /tmp/at && try 'remount elsewhere' mount -o remount,bind,rw /tmp/at
        try 'write elsewhere' touch /tmp/at/pre-commit
        umount /tmp/at 2>/dev/null
        try 'bind without what is mounted below' mount --bind .git /tmp/at
        try 'bind the workspace without what is mounted below' mount --bind \"$PWD\" /tmp/at
        try 'overlay' mount -t overlay -o \"lowerdir=$PWD,upperdir=/tmp/up,workdir=/tmp/work\" none /tmp/at
        try 'overlay over it' mount -t overlay -o \"lowerdir=/tmp/up,upperdir=$PWD/.git,workdir=/tmp/work\" none /tmp/at",
    );
}

#[test]
fn the_containers_own_mounts_cannot_be_removed_in_a_namespace() {
    for identity in ["host-user", "root"] {
        let sandbox = nested(identity, "true");
        let script = format!(
            "unshare -Urm sh -c '{TRY}
            for at in /etc/hosts /etc/resolv.conf /etc/subuid /proc /sys /etc/containers/containers.conf.d/50-sandboxc.conf; do
                try \"umount $at\" umount -l $at
                # procfs is writable as far as the files of the kernel are.
                [ $at = /proc ] || try \"remount $at\" mount -o remount,bind,rw $at
            done; echo tried'"
        );
        assert_eq!(sandbox.sh(&script), "tried\n", "{identity}");
    }
}

#[test]
fn the_pods_network_cannot_be_changed_in_a_namespace() {
    let attempts = "import ctypes, fcntl, os, socket, struct
def tried(name, act):
    try: act()
    except OSError: return
    print('ESCAPED:', name)
tried('raw socket', lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
tried('packet socket', lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3))
tried('sysctl', lambda: open('/proc/sys/net/ipv4/ip_forward', 'w').write('1'))
def tun():
    file = os.open('/dev/net/tun', os.O_RDWR)
    fcntl.ioctl(file, 0x400454ca, struct.pack('16sH', b't0', 1))
tried('tun', tun)
print('tried')";
    for identity in ["host-user", "root"] {
        for ask in ["true", "{networks: true}"] {
            let raised = i32::from(ask == "true");
            let script = format!(
                "unshare -Urm sh -c '{TRY}
                try address ip address add 10.9.9.9/32 dev lo
                try loopback ip link set lo down
                try route ip route add default via 10.213.0.1
                try link ip link add d0 type dummy
                try nft nft add table inet t
                # The limit of the namespace itself may be raised, and that of the pod counts.
                echo 100 >/proc/sys/user/max_net_namespaces
                [ {raised} = 0 ] || try network unshare -n true; true'
                cat >/tmp/try.py <<'END'\n{attempts}\nEND
                python3 /tmp/try.py; unshare -Urm python3 /tmp/try.py"
            );
            let sandbox = nested(identity, ask);
            assert_eq!(sandbox.sh(&script), "tried\ntried\n", "{identity} {ask}");
        }
    }
}

/// SETUID makes the agent any user of its container, also root and that of the forwarder.
#[test]
fn other_users_inside_have_no_more_capabilities_and_write_none_of_our_files() {
    let program = "import glob, os, signal
def tried(name, act):
    try: act()
    except OSError: return
    print('ESCAPED:', name)
for uid in (0, 990):
    child = os.fork()
    if child == 0:
        os.setgroups([]); os.setgid(uid); os.setuid(uid)
        status = open('/proc/self/status').read()
        caps = {line.split()[1] for line in status.splitlines() if line.startswith(('CapPrm', 'CapBnd'))}
        if not caps <= {'00000000000400c0', '0000000000000000'}: print('ESCAPED: capabilities', caps)
        ours = ['/etc/hosts', '/etc/resolv.conf', '/etc/passwd', '/etc/subuid', '/etc/sandboxc-nested/storage.conf']
        for path in ours + glob.glob('/etc/sandboxc-ca/*') + ['.git/config', '.sandboxc/sandbox.yaml']:
            tried('write ' + path, lambda: open(path, 'a'))
        for pid in filter(str.isdigit, os.listdir('/proc')):
            words = open(f'/proc/{pid}/cmdline').read()
            if 'sandboxc-router' in words: print('ESCAPED: sees', words)
        os._exit(0)
    os.waitpid(child, 0)
print('tried')";
    let sandbox = nested("host-user", "true");
    with_git(&sandbox);
    let before = protected(&sandbox);
    assert_eq!(sandbox.python(program), "tried\n");
    assert_eq!(protected(&sandbox), before);
}

/// What nothing can prevent where there are mount namespaces: it is seen, the command is stopped, and the paths are put back.
#[test]
fn a_protected_path_that_is_moved_away_stops_the_command_and_comes_back() {
    let remove = crate::namespaces::MOVE.replace(
        "os.rename(name, name + \".moved\", src_dir_fd=at, dst_dir_fd=at)",
        "os.rename(name, name + \".moved\", src_dir_fd=at, dst_dir_fd=at); name == \"config\" and os.unlink(name + \".moved\", dir_fd=at)",
    );
    assert!(remove.contains("os.unlink"));
    for identity in ["host-user", "root"] {
        let sandbox = nested(identity, "true");
        with_git(&sandbox);
        fs::write(sandbox.repo().join(".git/hooks/own"), "mine").unwrap();
        let before = protected(&sandbox);
        let attack =
            format!("python3 -c '{remove}'; mkdir -p .git/hooks; echo theirs >.git/hooks/pre-commit; sleep 60");
        let output = sandbox.run(&["sh", "-c", &attack]);
        let said = text(&output.stderr);
        assert_eq!(code(&output), 125, "{identity}: {} {said}", text(&output.stdout));
        for part in [
            "ALARM: ",
            "`.git/hooks` was removed or renamed",
            "restored `.git/hooks`, which was at `.git/hooks.moved`",
            "restored `.git/config`, which had been removed",
            "restored `.sandboxc`, which was at `.sandboxc.moved`",
        ] {
            assert!(said.contains(part), "{identity}: {part}: {said}");
        }
        assert_eq!(protected(&sandbox), before, "{identity}");
    }
}

/// So a digest of each would add nothing to device and inode: whatever name a protected file has, or none, its content stays.
#[test]
fn what_was_moved_away_cannot_be_written_and_comes_back_as_it_was() {
    let server = format!("{}  workspace: {{on_tamper: report}}\n", crate::nested::SERVER);
    let attack = include_str!("moved.py").replace("\nMOVE\n", crate::namespaces::MOVE);
    for identity in ["host-user", "root"] {
        let sandbox = nested(identity, "true");
        with_git(&sandbox);
        fs::write(sandbox.repo().join(".git/hooks/own"), "mine").unwrap();
        fs::write(sandbox.config_home().join("sandboxc/server.yaml"), &server).unwrap();
        let before = protected(&sandbox);
        let output = sandbox.run(&["python3", "-c", &attack]);
        let (out, said) = (text(&output.stdout), text(&output.stderr));
        let twin = "ESCAPED: twin: description through /proc\nESCAPED: twin: description through its number\nESCAPED: twin: description mode\n";
        // Newer kernels also let whoever opened a file link it.
        let out = out.replace("ESCAPED: twin: description linked\n", "");
        let expected = format!("{twin}NAMESPACE\nMOVED hooks\nMOVED config\nMOVED .sandboxc\ntried\n");
        assert_eq!(out, expected, "{identity}: {said}");
        for part in ["restored `.git/hooks`, which was at", "restored `.git/config`, which had been removed"] {
            assert!(said.contains(part), "{identity}: {part}: {said}");
        }
        assert_eq!(protected(&sandbox), before, "{identity}");
        assert_eq!(fs::read_to_string(sandbox.repo().join(".git/hooks/own")).unwrap(), "mine");
    }
}

/// The owner of the machine may let a command go on.
#[test]
fn where_the_server_says_so_a_change_is_only_reported_and_comes_back_all_the_same() {
    let sandbox = nested("host-user", "true");
    with_git(&sandbox);
    let server = format!("{}  workspace: {{on_tamper: report}}\n", crate::nested::SERVER);
    fs::write(sandbox.config_home().join("sandboxc/server.yaml"), server).unwrap();
    let before = protected(&sandbox);
    let attack = format!("python3 -c '{}'; sleep 1; echo went on", crate::namespaces::MOVE);
    let output = sandbox.run(&["sh", "-c", &attack]);
    let said = text(&output.stderr);
    assert!(text(&output.stdout).ends_with("went on\n"), "{said}");
    assert!(code(&output) == 125 && said.contains("ALARM: ") && said.contains("restored `.git/hooks`"), "{said}");
    assert_eq!(protected(&sandbox), before);
}

#[test]
fn scripts_and_units_have_nested_containers_too() {
    for identity in ["host-user", "root"] {
        let command = with_tiny(
            "podman run --rm localhost/tiny:1 echo ran >out.txt; unshare -Urn true 2>/dev/null && echo NETWORK >>out.txt || true",
        );
        let sandbox = nested_command(identity, &command);
        let session = format!("nest-{identity}");
        let script = sandbox
            .command(&["compile", "--target", "script", "--session", &session, "--", "sh", "-c", &command])
            .output()
            .unwrap();
        assert_eq!(code(&script), 0, "{}", text(&script.stderr));
        fs::write(sandbox.scratch("run.sh"), &script.stdout).unwrap();
        let output =
            Command::new("sh").arg(sandbox.scratch("run.sh")).stdin(std::process::Stdio::null()).output().unwrap();
        let said = || fs::read_to_string(sandbox.repo().join("out.txt")).unwrap_or_default();
        assert_eq!(said(), "ran\n", "{identity}: {}{}", text(&output.stdout), text(&output.stderr));
        fs::remove_file(sandbox.repo().join("out.txt")).unwrap();
        drop(sandbox);
        let sandbox = nested_command(identity, &command);
        let installed = crate::quadlet_live::Installed::of(&format!("q-{session}"), sandbox);
        let output = installed.run();
        let said = fs::read_to_string(installed.sandbox.repo().join("out.txt")).unwrap_or_default();
        assert_eq!(said, "ran\n", "{identity}: {}", text(&output.stderr));
        assert!(installed.gone(), "left: {}", installed.left());
    }
}
