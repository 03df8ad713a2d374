//! Drops what the program no longer needs once it is set up: capabilities, access to files, other system calls.
//!
//! podman confines the container in addition. This is based on what the program really does: a bug in it cannot open
//! other files, start programs, create executable code, or gain capabilities.

use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, NetPort, PathBeneath, PathFd, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope, make_bitflags,
};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set, set_capabilities};

mod calls;

pub use calls::Threads;

/// A static program cannot look up libc's `getrandom`, so the crate of that name reads these instead.
const RANDOM: [&str; 2] = ["/dev/random", "/dev/urandom"];

/// What remains permitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permitted {
    /// Directories and files below which files may be read.
    pub read: Vec<PathBuf>,
    /// TCP ports to which it may connect; `None` means all ports.
    pub connect: Option<Vec<u16>>,
    /// Whether it may listen on further TCP ports.
    pub listen: bool,
}

/// Drops every capability except those in `keep`, for this thread and those that it starts.
pub fn keep_capabilities(keep: CapabilitySet) -> io::Result<()> {
    clear_ambient_capability_set()?;
    let keep = capabilities(None)?.permitted & keep;
    let sets = CapabilitySets { effective: keep, permitted: keep, inheritable: CapabilitySet::empty() };
    Ok(set_capabilities(None, sets)?)
}

/// Confines this thread and those that it starts with Landlock, and the threads in `threads` with a seccomp filter.
/// Call it when everything is bound and before starting threads. Returns a line that says what the kernel enforces:
/// Landlock exists since Linux 5.13, and features that an older kernel does not have are left out.
///
/// # Errors
/// If the kernel supports it but refuses it. Nothing should start then.
pub fn confine(permitted: &Permitted, threads: Threads) -> Result<String, String> {
    let files = landlock(permitted).map_err(|error| format!("Landlock: {error}"))?;
    let calls = calls::filter(threads, permitted.listen).map_err(|error| format!("seccomp: {error}"))?;
    Ok(format!(
        "confined: Landlock {files}, seccomp {}",
        if calls { "on" } else { "not supported on this architecture" }
    ))
}

fn landlock(permitted: &Permitted) -> Result<&'static str, RulesetError> {
    let read: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | ReadDir});
    let mut handled: BitFlags<AccessNet> = BitFlags::empty();
    if !permitted.listen {
        handled |= AccessNet::BindTcp;
    }
    if permitted.connect.is_some() {
        handled |= AccessNet::ConnectTcp;
    }
    let mut ruleset = Ruleset::default().handle_access(AccessFs::from_all(ABI::V5))?;
    // The crate does not accept an empty set.
    if !handled.is_empty() {
        ruleset = ruleset.handle_access(handled)?;
    }
    let mut ruleset = ruleset.scope(Scope::from_all(ABI::V6))?.create()?;
    for path in permitted.read.iter().map(PathBuf::as_path).chain(RANDOM.map(Path::new)) {
        ruleset = match PathFd::new(path) {
            Ok(fd) => {
                let whole = if path.is_dir() { read } else { AccessFs::ReadFile.into() };
                ruleset.add_rule(PathBeneath::new(fd, whole))?
            }
            // What cannot be opened cannot be read anyway.
            Err(_) => ruleset,
        };
    }
    for port in permitted.connect.iter().flatten() {
        ruleset = ruleset.add_rule(NetPort::new(*port, AccessNet::ConnectTcp))?;
    }
    Ok(match ruleset.restrict_self()?.ruleset {
        RulesetStatus::FullyEnforced => "on",
        RulesetStatus::PartiallyEnforced => "partly supported by this kernel",
        RulesetStatus::NotEnforced => "not supported by this kernel",
    })
}

#[cfg(test)]
mod tests;
