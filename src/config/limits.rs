//! `resource_limits`: the limits of one file, and the smaller of two.

use super::read::{self, Keys, fields};
use super::resolved::{ResourceLimits, Selinux};
use super::value;
use super::yaml::Node;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::source::{Located, SourceMap};

pub(super) const LIMITS: Keys = Keys {
    what: "`resource_limits`",
    known: &["timeout", "memory", "cpus", "pids_limit"],
    elsewhere: &[
        ("pids", "write `pids_limit`"),
        ("cpu", "write `cpus`"),
        ("shm_size", "write it next to `resource_limits`, not inside"),
    ],
};

/// A little more than a year. Anything longer is most likely a mistake in the unit.
const LONGEST: i64 = 40_000_000;

/// The kernel's own limit (`PID_MAX_LIMIT`).
const MOST_PIDS: i64 = 4_194_304;

/// The limits of one file, in the units of [`ResourceLimits`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wish {
    timeout: Option<Located<u64>>,
    memory: Option<Located<u64>>,
    cpus: Option<Located<u64>>,
    pids: Option<Located<u64>>,
    shm: Option<Located<u64>>,
}

impl Wish {
    /// What the fields of a file say: `resource_limits`, and `shm_size` next to it.
    pub(super) fn of(map: &read::Fields<'_>, d: &mut Diagnostics) -> Self {
        let limits = map.get("resource_limits").map(|n| Self::read(n, d)).unwrap_or_default();
        Self { shm: map.get("shm_size").and_then(|n| memory(n, "`shm_size`", d)), ..limits }
    }

    fn read(node: &Node, d: &mut Diagnostics) -> Self {
        let map = fields(node, &LIMITS, d);
        let positive = |l: Located<i64>| l.map(i64::unsigned_abs);
        Self {
            timeout: map.get("timeout").and_then(|n| seconds(n, "timeout", d)).map(positive),
            memory: map.get("memory").and_then(|n| memory(n, "`memory`", d)),
            cpus: map.get("cpus").and_then(|n| cpus(n, d)),
            pids: map.get("pids_limit").and_then(|n| read::whole(n, "`pids_limit`", 1..=MOST_PIDS, d)).map(positive),
            shm: None,
        }
    }

    /// These limits, and those of `below` where this has none.
    pub(super) fn over(self, below: Self) -> Self {
        Self {
            timeout: self.timeout.or(below.timeout),
            memory: self.memory.or(below.memory),
            cpus: self.cpus.or(below.cpus),
            pids: self.pids.or(below.pids),
            shm: self.shm.or(below.shm),
        }
    }

    /// Reports a size of `/dev/shm` together with a label. A labeled container cannot use the `/dev/shm` of its pod, which
    /// belongs to the infra container, and kube play ignores the size of one of its own (`sizeLimit`, podman 5.4 to 5.8).
    pub(super) fn check_shm(&self, server: &Self, selinux: Option<&Located<Selinux>>, d: &mut Diagnostics) {
        let Some(selinux) = selinux.filter(|selinux| matches!(selinux.value, Selinux::Type(_))) else { return };
        if let Some(shm) = self.shm.as_ref().or(server.shm.as_ref()) {
            d.push(
                Diagnostic::new(Code::NotEnforceable, "`shm_size` has no effect on a container with a type of its own")
                    .at(shm.span, "podman's kube play cannot set this size")
                    .at(selinux.span, "the type is chosen here")
                    .help("remove `shm_size`, so that `memory` alone limits `/dev/shm`, or write `selinux: disable`"),
            );
        }
    }

    /// The smaller of what the repo asks for and the server permits. Reports each limit that the server lowers.
    pub(super) fn merge(repo: Self, server: Self, sources: &SourceMap, d: &mut Diagnostics) -> ResourceLimits {
        let mut smaller = |name: &str, asked: Option<Located<u64>>, cap: Option<Located<u64>>| {
            let chosen = match (asked, cap) {
                (Some(asked), Some(cap)) if asked.value > cap.value => {
                    d.push(
                        Diagnostic::new(Code::Clamped, format!("`{name}` is limited by the server"))
                            .at(asked.span, "asked here")
                            .at(cap.span, "this limit applies"),
                    );
                    Some(cap)
                }
                (asked, cap) => asked.or(cap),
            };
            chosen.map(|limit| sources.sourced(limit))
        };
        ResourceLimits {
            timeout: smaller("timeout", repo.timeout, server.timeout),
            memory: smaller("memory", repo.memory, server.memory),
            cpus: smaller("cpus", repo.cpus, server.cpus),
            pids: smaller("pids_limit", repo.pids, server.pids),
            shm: smaller("shm_size", repo.shm, server.shm),
        }
    }
}

/// Reads seconds, or a text with a unit such as `30m`.
pub(super) fn seconds(node: &Node, key: &str, d: &mut Diagnostics) -> Option<Located<i64>> {
    let what = format!("`{key}` (seconds)");
    let super::yaml::Kind::Str(text) = &node.kind else { return read::whole(node, &what, 10..=LONGEST, d) };
    let seconds = value::duration(text).and_then(|seconds| i64::try_from(seconds).ok());
    match seconds.filter(|_| text.contains(|c: char| c.is_ascii_alphabetic())) {
        Some(seconds) if (10..=LONGEST).contains(&seconds) => Some(Located::new(seconds, node.span)),
        Some(_) => {
            let finding = Diagnostic::new(Code::BadValue, format!("{what} is out of range")).at(node.span, "");
            d.push(finding.help(format!("write 10 to {LONGEST} seconds, or e.g. `30m`")));
            None
        }
        None if node.looked_up.is_none() && text.contains(|c: char| c.is_ascii_alphabetic()) => {
            let finding = Diagnostic::new(Code::BadValue, format!("`{key}` is not a duration")).at(node.span, "");
            d.push(
                finding.help("write a number of seconds, or one with the unit s, m, h or d, such as `30m` or `0.5h`"),
            );
            None
        }
        None => read::whole(node, &what, 10..=LONGEST, d),
    }
}

fn memory(node: &Node, what: &str, d: &mut Diagnostics) -> Option<Located<u64>> {
    if matches!(node.kind, super::yaml::Kind::Int(_)) && node.looked_up.is_none() {
        let finding = read::wrong_type(node, what, "a string with a unit");
        d.push(finding.help(memory_hint(&node.raw)));
        return None;
    }
    let text = read::string(node, what, d)?;
    match value::memory(&text.value) {
        Ok(bytes) => Some(text.map(|_| bytes)),
        Err(bad) => {
            d.push(
                Diagnostic::new(Code::BadValue, format!("{what} is {}", bad.message)).at(node.span, "").help(bad.help),
            );
            None
        }
    }
}

/// What to write instead of a bare number: a number of bytes in its largest whole unit, or a small number with a
/// guessed unit.
fn memory_hint(raw: &str) -> String {
    const UNITS: [(u64, &str); 4] = [(1 << 30, "g"), (1 << 20, "m"), (1 << 10, "k"), (1, "b")];
    match raw.parse::<u64>() {
        Ok(bytes) if bytes >= value::LEAST_MEMORY => {
            let unit = UNITS.iter().find(|(size, _)| bytes.is_multiple_of(*size));
            unit.map(|(size, unit)| format!("write \"{}{unit}\"", bytes / size)).unwrap_or_default()
        }
        Ok(number @ 1..=1023) => format!("write \"{number}g\", or \"{}m\"", number.max(4)),
        _ => "write a number with a unit, as in \"512m\" or \"4g\"".to_owned(),
    }
}

fn cpus(node: &Node, d: &mut Diagnostics) -> Option<Located<u64>> {
    let number = read::number(node, "`cpus`", d)?;
    let thousandths = (number.value * 1000.0).round();
    if (10.0..=1e9).contains(&thousandths) {
        // The bounds are checked above, so nothing is truncated.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        return Some(number.map(|_| thousandths as u64));
    }
    d.push(Diagnostic::new(Code::BadValue, "`cpus` is out of range").at(node.span, "").help("write at least 0.01"));
    None
}
