//! What the kernel and systemd say about this user, read from their files.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use super::super::RuntimeError;
use super::super::call::{Call, run};
use super::super::registry::Registry;
use super::{Check, Subject, told};

/// Certificates of the day are not valid before this (2026-01-01): a clock that is behind it is wrong.
const NOT_BEFORE: u64 = 1_767_225_600;

/// Containers of one session that live at once, each with a key in the kernel.
const KEYS_PER_SESSION: u64 = 5;

pub(super) fn checks(subject: &Subject<'_>) -> Vec<Check> {
    let uid = rustix::process::getuid().as_raw();
    let cgroup = format!("/sys/fs/cgroup/user.slice/user-{uid}.slice/user@{uid}.service");
    let user = user_name();
    let read = |path: &str| fs::read_to_string(path).ok();
    let meminfo = read("/proc/meminfo").unwrap_or_default();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    vec![
        runtime_dir(subject.runtime_dir.as_deref(), uid),
        room(subject.registry.map(Registry::check_room)),
        controllers(read(&format!("{cgroup}/cgroup.controllers")).as_deref()),
        swap(&meminfo, Path::new(&cgroup).join("memory.swap.max").exists()),
        memory(&meminfo),
        linger(&user, Path::new("/var/lib/systemd/linger").join(&user).exists()),
        keys(&read("/proc/key-users").unwrap_or_default(), uid),
        clock(now, Path::new("/run/systemd/timesync/synchronized").exists()),
    ]
}

/// Asked, since the variable may be missing or somebody else's, and the name may come from a directory service.
fn user_name() -> String {
    let mut command = Command::new("id");
    command.arg("-un");
    let call = Call { what: "id", most: Duration::from_secs(30), signals: None };
    let output = run(command, None, call, RuntimeError::io("running id"));
    let name = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    if name.is_empty() { "$USER".to_owned() } else { name }
}

fn runtime_dir(dir: Option<&Path>, uid: u32) -> Check {
    let (check, promise) = ("runtime-dir", "state and secrets stay in a directory of this user alone, in memory");
    let mend = "log in through systemd, or sudo loginctl enable-linger $USER";
    let Some(dir) = dir else { return Check::broken(check, promise, "XDG_RUNTIME_DIR is not set", mend) };
    match fs::metadata(dir) {
        Ok(meta) if meta.is_dir() && meta.uid() == uid && meta.mode() & 0o777 == 0o700 => {
            Check::kept(check, promise, dir.display().to_string())
        }
        Ok(meta) => {
            let found = format!("{}: owner {}, mode {:o}", dir.display(), meta.uid(), meta.mode() & 0o7777);
            Check::broken(check, promise, found, mend)
        }
        Err(error) => Check::broken(check, promise, format!("{}: {error}", dir.display()), mend),
    }
}

/// Files of running containers can fill it, and then nothing starts.
fn room(asked: Option<Result<(), RuntimeError>>) -> Check {
    let (check, promise) = ("runtime-room", "the runtime directory has room for another sandbox");
    match asked {
        Some(Ok(())) => Check::kept(check, promise, "it has"),
        Some(Err(error)) => Check::broken(check, promise, told(&error), "sandboxc gc"),
        None => Check::broken(check, promise, "there is no runtime directory", "log in through systemd"),
    }
}

/// Without them a limit makes the container runtime refuse the start.
fn controllers(list: Option<&str>) -> Check {
    let (check, promise) = ("controllers", "limits of cpu, memory and processes hold");
    let list = list.unwrap_or("");
    let missing: Vec<&str> = ["cpu", "memory", "pids"]
        .into_iter()
        .filter(|&name| !list.split_whitespace().any(|word| word == name))
        .collect();
    if missing.is_empty() {
        return Check::kept(check, promise, format!("delegated: {}", list.trim()));
    }
    let mend = "printf '[Service]\\nDelegate=cpu cpuset io memory pids\\n' | sudo install -D -m 644 /dev/stdin \
                /etc/systemd/system/user@.service.d/delegate.conf && sudo systemctl daemon-reload, then log in again";
    Check::broken(check, promise, format!("not delegated to this user: {}", missing.join(", ")), mend)
}

/// The size of all swap, as the kernel writes it (`2097148 kB`); `None` where there is none.
fn swap_of(meminfo: &str) -> Option<&str> {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("SwapTotal:")).unwrap_or("an unknown amount").trim();
    (!total.starts_with("0 ")).then_some(total)
}

fn swap(meminfo: &str, has_limit: bool) -> Check {
    let (check, promise) = ("swap", "a memory limit holds, no swap beside it");
    let Some(total) = swap_of(meminfo) else {
        return Check::kept(check, promise, "this machine has no swap");
    };
    match has_limit {
        true => Check::kept(check, promise, format!("{total} of swap, which the kernel can keep from a container")),
        false => Check::broken(
            check,
            promise,
            format!("{total} of swap, and no limit for it"),
            "boot with swapaccount=1, or sudo swapoff --all",
        ),
    }
}

/// A tmpfs is memory like any other. Whether swap is encrypted, or itself in memory, cannot be seen for certain.
fn memory(meminfo: &str) -> Check {
    let (check, promise) = ("secrets-in-memory", "keys and credentials of a session never reach a disk");
    match swap_of(meminfo) {
        None => Check::kept(check, promise, "this machine has no swap"),
        Some(total) => Check::kept(check, promise, format!("{total} of swap, to which they may be written"))
            .warning("sudo swapoff --all, or nothing, if the swap is encrypted or in memory (zram)"),
    }
}

fn linger(user: &str, is_on: bool) -> Check {
    let check = |found: &str| Check::kept("linger", "installed sandboxes run without a login", found);
    match is_on {
        true => check("linger is on"),
        false => check("linger is off: they end at logout; `run` does not need it")
            .warning(format!("sudo loginctl enable-linger {user}")),
    }
}

/// `1000:    17 17/17 17/200 891/20000`: the third and fourth are keys and bytes, used and at most.
fn keys(table: &str, uid: u32) -> Check {
    let (check, promise) = ("keys", "ten more sessions find keys in the kernel");
    let line = table.lines().find(|line| line.trim_start().starts_with(&format!("{uid}:")));
    let used = line.and_then(|line| line.split_whitespace().nth(3)).and_then(|word| word.split_once('/'));
    let Some((Ok(used), Ok(most))) = used.map(|(used, most)| (used.parse::<u64>(), most.parse::<u64>())) else {
        return Check::kept(check, promise, "no quota is known");
    };
    let sessions = most.saturating_sub(used) / KEYS_PER_SESSION;
    let result = Check::kept(check, promise, format!("{used} of {most} used, room for {sessions} sessions"));
    match sessions >= 10 {
        true => result,
        false => result.warning("sudo sysctl kernel.keys.maxkeys=2000"),
    }
}

fn clock(now: u64, synchronized: bool) -> Check {
    let (check, promise) = ("clock", "certificates can be judged by the clock");
    if now < NOT_BEFORE {
        return Check::broken(check, promise, "the clock is years behind", "sudo timedatectl set-ntp true");
    }
    let seen = if synchronized { "set from the network" } else { "plausible" };
    Check::kept(check, promise, seen)
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    #[test]
    fn each_promise_is_judged_by_what_was_read() {
        use Level::{Broken, Kept, Warning};
        assert_eq!(controllers(Some("cpuset cpu io memory pids\n")).level, Kept);
        assert!(controllers(Some("memory pids")).found.ends_with(": cpu"));
        assert!(controllers(None).mend.is_some_and(|mend| mend.contains("delegate.conf")));
        assert_eq!(swap("SwapTotal:             0 kB\n", false).level, Kept);
        assert_eq!(swap("SwapTotal:       2097148 kB\n", false).level, Broken);
        assert_eq!(swap("SwapTotal:       2097148 kB\n", true).level, Kept);
        assert_eq!(memory("SwapTotal:             0 kB\n").level, Kept);
        let swapped = memory("SwapTotal:       2097148 kB\nSwapFree:              0 kB\n");
        assert_eq!((swapped.level, &*swapped.found), (Warning, "2097148 kB of swap, to which they may be written"));
        assert!(swapped.mend.is_some_and(|mend| mend.contains("swapoff")));
        assert_eq!(memory("").level, Warning, "nobody knows");
        assert_eq!(linger("me", false).mend.unwrap(), "sudo loginctl enable-linger me");
        let table = "    0:    21 20/20 15/1000000 324/25000000\n 1000:    17 17/17 17/200 891/20000\n";
        assert_eq!(keys(table, 1000).found, "17 of 200 used, room for 36 sessions");
        assert_eq!(keys(&table.replace("17/200", "170/200"), 1000).level, Warning);
        assert_eq!(keys("", 1000).level, Kept);
        assert_eq!((clock(5, true).level, clock(NOT_BEFORE, false).level), (Broken, Kept));
    }

    #[test]
    fn a_runtime_directory_that_others_can_read_is_none() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let uid = rustix::process::getuid().as_raw();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(runtime_dir(Some(dir.path()), uid).level, Level::Kept);
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        assert!(runtime_dir(Some(dir.path()), uid).found.contains("mode 755"));
        assert_eq!(runtime_dir(None, uid).level, Level::Broken);
    }
}
