//! Checks of the kernel and systemd, read from their files.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use super::super::RuntimeError;
use super::super::call::{Call, run};
use super::super::nested::{FIX_NSDELEGATE, host_has_nsdelegate};
use super::super::registry::Registry;
use super::{Check, FIX_CONTROLLERS, Subject, told};

/// 2026-01-01, as seconds since 1970. A clock that shows an earlier time is wrong.
const NOT_BEFORE: u64 = 1_767_225_600;

/// The containers that one session runs at once. Each uses a key of the kernel's keyring.
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
        delegation(host_has_nsdelegate(), subject.plan.needs_nsdelegate()),
        clock(now, Path::new("/run/systemd/timesync/synchronized").exists()),
    ]
}

/// The name of this user, from `id`: `$USER` may be missing or wrong, and the name may come from a directory service.
fn user_name() -> String {
    let mut command = Command::new("id");
    command.arg("-un");
    let call = Call { what: "id", most: Duration::from_secs(30), signals: None };
    let output = run(command, None, call, RuntimeError::io("running id"));
    let name = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    if name.is_empty() { "$USER".to_owned() } else { name }
}

fn runtime_dir(dir: Option<&Path>, uid: u32) -> Check {
    let (check, promise) =
        ("runtime-dir", "state and secrets are kept in memory, in a directory that only this user can read");
    let fix = "log in through systemd, or sudo loginctl enable-linger $USER";
    let Some(dir) = dir else { return Check::fail(check, promise, "XDG_RUNTIME_DIR is not set", fix) };
    match fs::metadata(dir) {
        Ok(meta) if meta.is_dir() && meta.uid() == uid && meta.mode() & 0o777 == 0o700 => {
            Check::ok(check, promise, dir.display().to_string())
        }
        Ok(meta) => {
            let found = format!("{}: owner {}, mode {:o}", dir.display(), meta.uid(), meta.mode() & 0o7777);
            Check::fail(check, promise, found, fix)
        }
        Err(error) => Check::fail(check, promise, format!("{}: {error}", dir.display()), fix),
    }
}

/// Files of running containers can fill the runtime directory; then no container starts.
fn room(asked: Option<Result<(), RuntimeError>>) -> Check {
    let (check, promise) = ("runtime-room", "the runtime directory has room for another sandbox");
    match asked {
        Some(Ok(())) => Check::ok(check, promise, "enough space"),
        Some(Err(error)) => Check::fail(check, promise, told(&error), "sandboxc gc"),
        None => Check::fail(check, promise, "no runtime directory", "log in through systemd"),
    }
}

/// Without these controllers, the container runtime refuses to start a container with limits.
fn controllers(list: Option<&str>) -> Check {
    let (check, promise) = ("controllers", "CPU, memory and process limits are enforced");
    let list = list.unwrap_or("");
    let missing: Vec<&str> = ["cpu", "memory", "pids"]
        .into_iter()
        .filter(|&name| !list.split_whitespace().any(|word| word == name))
        .collect();
    if missing.is_empty() {
        return Check::ok(check, promise, format!("delegated: {}", list.trim()));
    }
    Check::fail(check, promise, format!("not delegated to this user: {}", missing.join(", ")), FIX_CONTROLLERS)
}

/// The total size of swap, as the kernel writes it (`2097148 kB`); `None` if the machine has no swap.
fn swap_of(meminfo: &str) -> Option<&str> {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("SwapTotal:")).unwrap_or("an unknown amount").trim();
    (!total.starts_with("0 ")).then_some(total)
}

fn swap(meminfo: &str, has_limit: bool) -> Check {
    let (check, promise) = ("swap", "memory limits cannot be evaded with swap");
    let Some(total) = swap_of(meminfo) else {
        return Check::ok(check, promise, "this machine has no swap");
    };
    match has_limit {
        true => Check::ok(check, promise, format!("{total} of swap, which the kernel can deny to a container")),
        false => Check::fail(
            check,
            promise,
            format!("{total} of swap, and the kernel cannot limit its use"),
            "boot with swapaccount=1, or sudo swapoff --all",
        ),
    }
}

/// The kernel may swap out a tmpfs. Whether swap is encrypted or in memory (zram) cannot be determined reliably.
fn memory(meminfo: &str) -> Check {
    let (check, promise) = ("secrets-in-memory", "keys and credentials are never written to a disk");
    match swap_of(meminfo) {
        None => Check::ok(check, promise, "this machine has no swap"),
        Some(total) => Check::ok(check, promise, format!("{total} of swap, to which the kernel may write them"))
            .warn("sudo swapoff --all; not needed if swap is encrypted or in memory (zram)"),
    }
}

/// Only a command in namespaces of its own can write to its control group.
fn delegation(is_set: bool, is_needed: bool) -> Check {
    let (check, promise) = ("nsdelegate", "a command that may create user namespaces cannot raise its own limits");
    match (is_set, is_needed) {
        (true, _) => Check::ok(check, promise, "control groups are mounted with nsdelegate"),
        (false, true) => Check::fail(check, promise, "control groups are mounted without nsdelegate", FIX_NSDELEGATE),
        (false, false) => Check::ok(check, promise, "no limits of such a command are configured"),
    }
}

fn linger(user: &str, is_on: bool) -> Check {
    let check = |found: &str| Check::ok("linger", "installed units run without a login", found);
    match is_on {
        true => check("lingering is enabled"),
        false => check("lingering is disabled, so installed units stop at logout (`run` does not need it)")
            .warn(format!("sudo loginctl enable-linger {user}")),
    }
}

/// Reads a line such as `1000:    17 17/17 17/200 891/20000`. Its fourth field holds the number of keys in use and the quota.
fn keys(table: &str, uid: u32) -> Check {
    let (check, promise) = ("keys", "the kernel keyring has room for ten more sessions");
    let line = table.lines().find(|line| line.trim_start().starts_with(&format!("{uid}:")));
    let used = line.and_then(|line| line.split_whitespace().nth(3)).and_then(|word| word.split_once('/'));
    let Some((Ok(used), Ok(most))) = used.map(|(used, most)| (used.parse::<u64>(), most.parse::<u64>())) else {
        return Check::ok(check, promise, "no quota found");
    };
    let sessions = most.saturating_sub(used) / KEYS_PER_SESSION;
    let result = Check::ok(check, promise, format!("{used} of {most} keys used, room for {sessions} sessions"));
    match sessions >= 10 {
        true => result,
        false => result.warn("sudo sysctl kernel.keys.maxkeys=2000"),
    }
}

fn clock(now: u64, synchronized: bool) -> Check {
    let (check, promise) = ("clock", "the clock is right enough to check certificates");
    if now < NOT_BEFORE {
        return Check::fail(check, promise, "the clock is years behind", "sudo timedatectl set-ntp true");
    }
    let seen = if synchronized { "synchronized" } else { "plausible" };
    Check::ok(check, promise, seen)
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    #[test]
    fn each_promise_is_judged_by_what_was_read() {
        use Level::{Fail, Ok, Warn};
        assert_eq!(controllers(Some("cpuset cpu io memory pids\n")).level, Ok);
        assert!(controllers(Some("memory pids")).found.ends_with(": cpu"));
        assert!(controllers(None).fix.is_some_and(|fix| fix.contains("delegate.conf")));
        assert_eq!(swap("SwapTotal:             0 kB\n", false).level, Ok);
        assert_eq!(swap("SwapTotal:       2097148 kB\n", false).level, Fail);
        assert_eq!(swap("SwapTotal:       2097148 kB\n", true).level, Ok);
        assert_eq!(memory("SwapTotal:             0 kB\n").level, Ok);
        let swapped = memory("SwapTotal:       2097148 kB\nSwapFree:              0 kB\n");
        assert_eq!((swapped.level, &*swapped.found), (Warn, "2097148 kB of swap, to which the kernel may write them"));
        assert!(swapped.fix.is_some_and(|fix| fix.contains("swapoff")));
        assert_eq!(memory("").level, Warn, "the amount of swap is unknown");
        assert_eq!(linger("me", false).fix.unwrap(), "sudo loginctl enable-linger me");
        let table = "    0:    21 20/20 15/1000000 324/25000000\n 1000:    17 17/17 17/200 891/20000\n";
        assert_eq!(keys(table, 1000).found, "17 of 200 keys used, room for 36 sessions");
        assert_eq!(keys(&table.replace("17/200", "170/200"), 1000).level, Warn);
        assert_eq!(keys("", 1000).level, Ok);
        assert_eq!((delegation(true, true).level, delegation(false, false).level), (Ok, Ok));
        let refused = delegation(false, true);
        assert!(refused.level == Fail && refused.fix.is_some_and(|fix| fix.contains("nsdelegate")));
        assert_eq!((clock(5, true).level, clock(NOT_BEFORE, false).level), (Fail, Ok));
    }

    #[test]
    fn a_runtime_directory_that_others_can_read_fails() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let uid = rustix::process::getuid().as_raw();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(runtime_dir(Some(dir.path()), uid).level, Level::Ok);
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        assert!(runtime_dir(Some(dir.path()), uid).found.contains("mode 755"));
        assert_eq!(runtime_dir(None, uid).level, Level::Fail);
    }
}
