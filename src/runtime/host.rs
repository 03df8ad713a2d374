//! Requirements on the host.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

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

/// Returns the user's runtime directory: `$XDG_RUNTIME_DIR`, or without it the directory that systemd keeps for the user. `su`
/// and cron do not set the variable, even if the directory exists because lingering is enabled. podman does the same.
pub fn runtime_dir() -> Option<PathBuf> {
    match std::env::var_os(RUNTIME_DIR).filter(|dir| !dir.is_empty()) {
        Some(dir) => Some(PathBuf::from(dir)).filter(|dir| dir.is_absolute() && dir.is_dir()),
        None => own_dir(Path::new("/run/user"), rustix::process::geteuid().as_raw()),
    }
}

/// Like [`runtime_dir`], for what cannot go on without it.
pub fn required_runtime_dir() -> Result<PathBuf, RuntimeError> {
    let missing =
        "XDG_RUNTIME_DIR is not set or not a directory: log in through systemd, or run `loginctl enable-linger`";
    runtime_dir().ok_or_else(|| RuntimeError::Host(missing.to_owned()))
}

/// The variable with the runtime directory.
pub const RUNTIME_DIR: &str = "XDG_RUNTIME_DIR";

/// The directory that is named after the user, if only this user can enter it.
fn own_dir(base: &Path, uid: u32) -> Option<PathBuf> {
    let dir = base.join(uid.to_string());
    let meta = fs::symlink_metadata(&dir).ok()?;
    (meta.is_dir() && meta.uid() == uid && meta.mode() & 0o7777 == 0o700).then_some(dir)
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_runtime_directory_is_one_that_only_its_user_enters() {
        let base = tempfile::tempdir().unwrap();
        let (uid, dir) = (rustix::process::geteuid().as_raw(), base.path().join("own"));
        let named = base.path().join(uid.to_string());
        assert_eq!(own_dir(base.path(), uid), None);
        fs::create_dir(&dir).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
        symlink(&dir, &named).unwrap();
        assert_eq!(own_dir(base.path(), uid), None, "a link");
        fs::remove_file(&named).unwrap();
        fs::rename(&dir, &named).unwrap();
        assert_eq!(own_dir(base.path(), uid), Some(named.clone()));
        fs::rename(&named, base.path().join("77")).unwrap();
        assert_eq!(own_dir(base.path(), 77), None, "another user's");
        fs::rename(base.path().join("77"), &named).unwrap();
        fs::set_permissions(&named, fs::Permissions::from_mode(0o750)).unwrap();
        assert_eq!(own_dir(base.path(), uid), None, "open to a group");
    }
}
