//! The agent: its image, its home, and what it would start with.

use std::fs;
use std::time::SystemTime;

use super::super::{seccomp, selinux};
use super::{Check, MEND_LABEL, Subject, told};
use crate::config::SHARED_HOME;
use crate::emit::posture_args;
use crate::plan::pod::{Label, Source};

/// Days after which an image lacks security updates.
const OLD: u64 = 30;

/// podman's init inside, which every image gets.
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
    let promise = "the agent's image has the security updates of this month";
    let made = match subject.podman.describe("asking for the image's age", &[reference]) {
        Ok(all) => all.first().and_then(|image| day(image.get("Created")?.as_str()?)).unwrap_or(0),
        Err(error) => return Check::kept("image-age", promise, told(&error)).warning("sandboxc image build agent"),
    };
    let today = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs() / (24 * 3600);
    let age = today.saturating_sub(made);
    let check = Check::kept("image-age", promise, format!("{reference} is {age} days old"));
    match age < OLD {
        true => check,
        false if reference.starts_with("localhost/") => check.warning("sandboxc image build agent"),
        false => check.warning(format!("podman pull {reference}")),
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

/// Tried with everything that confines the agent, its label included.
fn start(subject: &Subject<'_>, reference: &str) -> Check {
    let (check, promise) = ("agent-start", "a container with the agent's rights starts");
    let (pod, container) = (&subject.plan.agent, &subject.plan.agent.main);
    let name = format!("{}-start", pod.name);
    let mut args = vec!["run".to_owned(), "--rm".to_owned(), "--network=none".to_owned(), format!("--name={name}")];
    args.extend(posture_args(container));
    args.push(format!("--userns={}", pod.userns));
    args.extend([format!("--entrypoint={INIT}"), reference.to_owned()]);
    match subject.podman.call("a container with the agent's rights", &args, None) {
        Ok(_) => Check::kept(check, promise, "tried"),
        Err(error) if selinux::is_enforcing() => {
            Check::broken(check, promise, format!("{}; SELinux is enforcing", told(&error)), MEND_LABEL)
        }
        Err(error) => Check::broken(check, promise, told(&error), "the lines above first"),
    }
}

/// The volume that all repos shared in earlier versions.
fn home(subject: &Subject<'_>) -> Option<Check> {
    let own = subject.plan.agent.main.mounts.iter().find_map(|mount| match &mount.source {
        Source::Volume(volume) if mount.name == "home" => Some(volume.as_str()),
        _ => None,
    })?;
    let shared = own != SHARED_HOME && subject.podman.has_volume(SHARED_HOME).unwrap_or(false);
    shared.then(|| {
        Check::kept("home", "what one repo leaves at home, no other runs", format!("a home of its own, {own}; the volume {SHARED_HOME} is still here"))
            .warning(format!(
                "`home: shared` in the server file goes on using it; `podman volume export {SHARED_HOME} | podman volume import {own} -` \
                 copies it; `podman volume rm {SHARED_HOME}` removes it"
            ))
    })
}

fn label(label: &Label, enforcing: bool) -> Option<Check> {
    let (check, promise) = ("selinux", "SELinux confines what runs inside");
    let role = selinux::role_without_unconfined();
    enforcing.then(|| match (label, role) {
        (Label::Disabled, Some(role)) => {
            let found = format!(
                "the role {role} of this login may run no container without a label, and `selinux` is `disable`"
            );
            Check::broken(check, promise, found, MEND_LABEL)
        }
        (Label::Disabled, None) => {
            Check::kept(check, promise, "router and forwarder are confined, the agent is not (spc_t)")
                .warning(MEND_LABEL)
        }
        (Label::Type(name), _) => Check::kept(check, promise, format!("the agent has the type {name}")),
        (Label::Confined, _) => Check::kept(check, promise, "the agent has the label of containers"),
    })
}

/// The kernel says so itself, on x86; elsewhere the firmware does.
fn is_virtual() -> bool {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flagged =
        cpu.lines().any(|line| line.starts_with("flags") && line.split_whitespace().any(|flag| flag == "hypervisor"));
    flagged
        || std::path::Path::new("/sys/hypervisor/type").exists()
        || std::path::Path::new("/proc/device-tree/hypervisor").exists()
}

/// A vsock leads to the hypervisor, past every network namespace.
fn vsock(is_virtual: bool, permitted: bool) -> Option<Check> {
    let (check, promise) = ("vsock", "no socket leads from a sandbox to the hypervisor");
    is_virtual.then(|| match permitted {
        false => Check::kept(check, promise, "this machine is virtual, and podman's filter of system calls refuses AF_VSOCK"),
        true => Check::kept(
            check,
            promise,
            "this machine is virtual; `run` and `install` close AF_VSOCK, which podman's own filter of system calls leaves open",
        )
        .warning("podman 5.8 or newer, for manifests, scripts and units that were compiled elsewhere"),
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
    fn a_virtual_machine_and_an_unconfined_agent_are_said() {
        assert_eq!(vsock(false, true), None);
        assert_eq!(vsock(true, false).unwrap().level, Level::Kept);
        assert!(vsock(true, true).unwrap().mend.unwrap().contains("5.8"));
        assert_eq!(label(&Label::Disabled, false), None);
        let open = label(&Label::Disabled, true).unwrap();
        assert_eq!(open.level, Level::Warning);
        assert!(open.found.contains("spc_t") && open.mend.unwrap().contains("packaging/selinux"));
        assert_eq!(label(&Label::Type("a.process".to_owned()), true).unwrap().level, Level::Kept);
        assert_eq!(label(&Label::Confined, true).unwrap().level, Level::Kept);
    }
}
