//! Checks of the agent: its image, its home volume and its confinement.

use std::fs;
use std::time::SystemTime;

use super::super::{seccomp, selinux};
use super::{Check, FIX_LABEL, Subject, told};
use crate::config::SHARED_HOME;
use crate::emit::posture_args;
use crate::plan::pod::{Label, Source};

/// The age in days from which an image counts as lacking security updates.
const OLD: u64 = 30;

/// podman's init, which is in every container, whatever its image holds.
const INIT: &str = "[\"/run/podman-init\",\"--version\"]";

pub(super) fn checks(subject: &Subject<'_>) -> Vec<Check> {
    let reference = subject.plan.agent.main.image.value.reference();
    let here = subject.podman.output(&["image", "exists", reference], None).is_ok_and(|output| output.status.success());
    let mut all = Vec::new();
    if here {
        all.extend([age(subject, reference), start(subject, reference)]);
    }
    all.extend(home(subject));
    all.extend(label(&subject.plan.agent.main.label, selinux::is_enforcing()));
    all.extend(vsock(is_virtual(), seccomp::derived().is_some()));
    all
}

fn age(subject: &Subject<'_>, reference: &str) -> Check {
    let promise = "the agent's image is recent enough to have security updates";
    let made = match subject.podman.describe("reading the image's age", &[reference]) {
        Ok(all) => all.first().and_then(|image| day(image.get("Created")?.as_str()?)).unwrap_or(0),
        Err(error) => return Check::ok("image-age", promise, told(&error)).warn("sandboxc image build agent"),
    };
    let today = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs() / (24 * 3600);
    let age = today.saturating_sub(made);
    let check = Check::ok("image-age", promise, format!("{reference} is {age} days old"));
    match age < OLD {
        true => check,
        false if reference.starts_with("localhost/") => check.warn("sandboxc image build agent"),
        false => check.warn(format!("podman pull {reference}")),
    }
}

/// The day of a date such as `2026-11-30T09:32:00Z` (RFC 3339), counted from 1970, in the proleptic Gregorian calendar.
fn day(date: &str) -> Option<u64> {
    let number = |range: std::ops::Range<usize>| date.get(range)?.parse::<u64>().ok();
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    if year < 1970 || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // A year begins in March, so that the day of a leap year is its last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
    days.checked_sub(719_468)
}

/// Starts a container with everything that confines the agent, its label included.
fn start(subject: &Subject<'_>, reference: &str) -> Check {
    let (check, promise) = ("agent-start", "a container confined like the agent starts");
    let (pod, container) = (&subject.plan.agent, &subject.plan.agent.main);
    let name = format!("{}-start", pod.name);
    let mut args = vec!["run".to_owned(), "--rm".to_owned(), "--network=none".to_owned(), format!("--name={name}")];
    args.extend(posture_args(container));
    args.push(format!("--userns={}", pod.userns));
    args.extend([format!("--entrypoint={INIT}"), reference.to_owned()]);
    match subject.podman.call("starting a container confined like the agent", &args, None) {
        Ok(_) => Check::ok(check, promise, "started one"),
        Err(error) if selinux::is_enforcing() => {
            Check::fail(check, promise, format!("{}; SELinux is enforcing", told(&error)), FIX_LABEL)
        }
        Err(error) => Check::fail(check, promise, told(&error), "fix the failures above first"),
    }
}

/// Finds the volume that all repos shared in earlier versions.
fn home(subject: &Subject<'_>) -> Option<Check> {
    let own = subject.plan.agent.main.mounts.iter().find_map(|mount| match &mount.source {
        Source::Volume(volume) if mount.name == "home" => Some(volume.as_str()),
        _ => None,
    })?;
    let shared = own != SHARED_HOME && subject.podman.has_volume(SHARED_HOME).unwrap_or(false);
    shared.then(|| {
        Check::ok("home", "repos do not share a home volume", format!("this repo uses {own}; the volume {SHARED_HOME} of an earlier version still exists"))
            .warn(format!(
                "to use it, write `home: shared` in the server file; to copy it, run `podman volume export {SHARED_HOME} | podman volume import {own} -`; \
                 to remove it, run `podman volume rm {SHARED_HOME}`"
            ))
    })
}

fn label(label: &Label, enforcing: bool) -> Option<Check> {
    let (check, promise) = ("selinux", "SELinux confines the containers");
    let role = selinux::role_without_unconfined();
    enforcing.then(|| match (label, role) {
        (Label::Disabled, Some(role)) => {
            let found = format!(
                "the SELinux role {role} of this login cannot run containers without a label, and `selinux` is `disable`"
            );
            Check::fail(check, promise, found, FIX_LABEL)
        }
        (Label::Disabled, None) => {
            Check::ok(check, promise, "router and forwarder are confined; the agent is not (spc_t)")
                .warn(FIX_LABEL)
        }
        (Label::Type(name), _) => Check::ok(check, promise, format!("the agent has the type {name}")),
        (Label::Confined, _) => Check::ok(check, promise, "the agent has podman's default label"),
    })
}

/// Whether this machine is virtual, according to the CPU flags on x86 and to the firmware elsewhere.
fn is_virtual() -> bool {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flagged =
        cpu.lines().any(|line| line.starts_with("flags") && line.split_whitespace().any(|flag| flag == "hypervisor"));
    flagged
        || std::path::Path::new("/sys/hypervisor/type").exists()
        || std::path::Path::new("/proc/device-tree/hypervisor").exists()
}

/// Vsocks connect to the hypervisor, whatever the network namespace.
fn vsock(is_virtual: bool, derived: bool) -> Option<Check> {
    let (check, promise) = ("vsock", "sandboxes cannot open sockets to the hypervisor");
    is_virtual.then(|| match derived {
        false => Check::ok(
            check,
            promise,
            "this is a virtual machine, and podman has no seccomp profile in a file, so `run` and `install` cannot deny AF_VSOCK",
        )
        .warn("install podman's profile as /usr/share/containers/seccomp.json (package containers-common)"),
        true => Check::ok(
            check,
            promise,
            "this is a virtual machine, and podman's seccomp profile permits AF_VSOCK, or only denies it by its plain number; \
             `run` and `install` deny it",
        )
        .warn("start sandboxes with `sandboxc run` or from units that `sandboxc install` installed here"),
    })
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    #[test]
    fn days_are_counted_from_1970() {
        let days =
            ["1970-01-01T00:00:00Z", "1970-03-01", "2000-02-29T23:59:59.5+02:00", "2026-11-30T09:32:00Z"].map(day);
        assert_eq!(days, [Some(0), Some(59), Some(11_016), Some(20_787)]);
        assert_eq!(["", "2026", "2026-13-01", "1969-12-31", "yyyy-mm-dd"].map(day), [None; 5]);
    }

    #[test]
    fn a_virtual_machine_and_an_unconfined_agent_are_reported() {
        assert_eq!(vsock(false, true), None);
        let none = vsock(true, false).unwrap();
        assert_eq!((none.level, none.fix.unwrap().contains("seccomp.json")), (Level::Warn, true));
        assert!(vsock(true, true).unwrap().fix.unwrap().contains("install"));
        assert_eq!(label(&Label::Disabled, false), None);
        let open = label(&Label::Disabled, true).unwrap();
        assert_eq!(open.level, Level::Warn);
        assert!(open.found.contains("spc_t") && open.fix.unwrap().contains("packaging/selinux"));
        assert_eq!(label(&Label::Type("a.process".to_owned()), true).unwrap().level, Level::Ok);
        assert_eq!(label(&Label::Confined, true).unwrap().level, Level::Ok);
    }
}
