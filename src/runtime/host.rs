//! Requirements on the host.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::rand::{GetRandomFlags, getrandom};

use super::RuntimeError;
use crate::config::{Protected, Resolved};

/// As root, `root` inside would be root on the host: only rootless podman keeps the promises.
pub fn check() -> Result<(), RuntimeError> {
    if rustix::process::geteuid().is_root() {
        return Err(RuntimeError::Host(
            "sandboxc runs rootless podman: start it as an unprivileged user, not as root".to_owned(),
        ));
    }
    Ok(())
}

/// Whether a file is an executable program.
pub fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// podman's read-only bind mounts are not recursive, so a mount below one would stay writable.
pub fn check_read_only_mounts(resolved: &Resolved) -> Result<(), RuntimeError> {
    let workspace = resolved.workspace.read_only.then_some(&resolved.workspace.source);
    let mounts = resolved.mounts.iter().filter(|mount| mount.read_only).map(|mount| &mount.source);
    let writable = |_: &&Protected| !resolved.workspace.read_only;
    let protected =
        resolved.workspace.protect.iter().filter(writable).map(|part| resolved.workspace.source.join(&part.path));
    let sources: Vec<_> = workspace.into_iter().chain(mounts).cloned().chain(protected).collect();
    if sources.is_empty() {
        return Ok(());
    }
    let table = fs::read_to_string("/proc/self/mountinfo").map_err(RuntimeError::io("reading the mount table"))?;
    let points: Vec<String> = table.lines().filter_map(|line| line.split(' ').nth(4)).map(unescape).collect();
    for source in sources {
        if let Some(point) =
            points.iter().find(|point| Path::new(point) != source && Path::new(point).starts_with(&source))
        {
            return Err(RuntimeError::Host(format!(
                "{} should be read-only, but {point} is mounted below it and would stay writable",
                source.display()
            )));
        }
    }
    Ok(())
}

/// Decodes `\040` and similar escapes (`proc_pid_mountinfo(5)`).
fn unescape(field: &str) -> String {
    ["\\040", "\\011", "\\012", "\\134"]
        .iter()
        .zip([" ", "\t", "\n", "\\"])
        .fold(field.to_owned(), |text, (code, plain)| text.replace(code, plain))
}

/// Returns eight random hexadecimal digits.
pub fn random_session() -> Result<String, RuntimeError> {
    let mut bytes = [0_u8; 4];
    getrandom(&mut bytes, GetRandomFlags::empty())
        .map_err(|error| RuntimeError::Io("reading random bytes".to_owned(), error.into()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
