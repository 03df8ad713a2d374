//! Materials of compiled units: a directory that systemd creates for one of its services, and removes with it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::{give, in_memory};
use crate::config::{Resolved, SecretValues};
use crate::plan::trust;
use crate::runtime::RuntimeError;

/// Writes all materials of router and agent into the directory. Replaces what a killed start left there.
pub fn hold(resolved: &Resolved, values: &SecretValues, dir: &Path) -> Result<(), RuntimeError> {
    check(dir)?;
    in_memory(dir)?;
    clear(dir)?;
    give(resolved, values, dir).map(drop)
}

/// Checks that only this user can enter the directory, since the files below are readable for the containers' users.
fn check(dir: &Path) -> Result<(), RuntimeError> {
    let meta = fs::symlink_metadata(dir).map_err(RuntimeError::io(format!("reading {}", dir.display())))?;
    let ours = meta.uid() == rustix::process::geteuid().as_raw() && meta.mode() & 0o777 == 0o700;
    match dir.is_absolute() && meta.is_dir() && ours {
        true => Ok(()),
        false => Err(RuntimeError::Host(format!(
            "{} is not a directory that only this user can enter; create it in a unit with RuntimeDirectory= and RuntimeDirectoryMode=0700",
            dir.display()
        ))),
    }
}

/// Removes files that may be ours and nothing else, since the caller may name any directory. Follows no links.
fn clear(dir: &Path) -> Result<(), RuntimeError> {
    for path in [trust::router_dir(dir), trust::agent_dir(dir), trust::secrets_dir(dir), trust::surrogates_file(dir)] {
        let removed = match fs::symlink_metadata(&path) {
            Ok(meta) if meta.is_dir() => fs::remove_dir_all(&path),
            Ok(_) => fs::remove_file(&path),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        };
        removed.map_err(RuntimeError::io(format!("removing {}", path.display())))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    /// Creates a directory as systemd does.
    fn made() -> tempfile::TempDir {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        dir
    }

    #[test]
    fn what_a_killed_start_left_is_replaced_and_links_are_not_followed() {
        let (dir, other) = (made(), tempfile::tempdir().unwrap());
        fs::write(other.path().join("theirs"), "").unwrap();
        fs::create_dir_all(trust::router_dir(dir.path()).join("sub")).unwrap();
        symlink(other.path(), trust::router_dir(dir.path()).join("link")).unwrap();
        symlink(other.path(), trust::agent_dir(dir.path())).unwrap();
        symlink(other.path().join("theirs"), trust::surrogates_file(dir.path())).unwrap();
        fs::write(dir.path().join("not of ours"), "").unwrap();
        check(dir.path()).unwrap();
        clear(dir.path()).unwrap();
        let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["not of ours"]);
        assert!(other.path().join("theirs").exists());
    }

    #[test]
    fn only_a_directory_of_this_user_alone_is_written_to() {
        let dir = made();
        let link = dir.path().join("link");
        symlink(dir.path(), &link).unwrap();
        assert!(check(dir.path()).is_ok() && check(&link).is_err() && check(Path::new("/nowhere/x")).is_err());
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o750)).unwrap();
        let said = check(dir.path()).unwrap_err().to_string();
        assert!(said.contains("RuntimeDirectory="), "{said}");
    }
}
