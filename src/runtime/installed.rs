//! The version of the installed podman, which is asked once for each program file: starting podman takes as long as a tenth of
//! a session's start.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::RuntimeError;
use super::podman::Podman;
use super::registry::Registry;
use crate::emit::PodmanVersion as Version;

/// How a program file begins (elf(5)). A script may start any podman.
const ELF: [u8; 4] = *b"\x7fELF";

/// The version, from the registry or from podman itself.
pub fn version(podman: &Podman, registry: &Registry) -> Result<Version, RuntimeError> {
    let Some(file) = std::env::var_os("PATH").and_then(|path| program(&path)) else { return podman.version() };
    if let Some(known) = registry.noted(&file).and_then(|text| text.parse().ok()) {
        return Ok(known);
    }
    let version = podman.version()?;
    registry.note(&file, &version.to_string());
    Ok(version)
}

/// Identifies podman's program file: an update is another file, or has another time.
fn program(path: &OsStr) -> Option<String> {
    let file = std::env::split_paths(path).map(|dir| dir.join("podman")).find(|file| is_executable(file))?;
    let file: PathBuf = file.canonicalize().ok()?;
    let mut first = [0; 4];
    let mut opened = File::open(&file).ok()?;
    opened.read_exact(&mut first).ok().filter(|()| first == ELF)?;
    let meta = opened.metadata().ok()?;
    let times = (meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec());
    Some(format!("podman {} {} {} {} {times:?}", file.display(), meta.dev(), meta.ino(), meta.size()))
}

fn is_executable(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_program_file_is_identified_and_a_script_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("podman");
        let path = std::env::join_paths([Path::new("/nowhere"), dir.path()]).unwrap();
        assert_eq!(program(&path), None);
        fs::write(&file, "#!/bin/sh\nexec other-podman \"$@\"\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(program(&path), None);
        fs::write(&file, b"\x7fELF one").unwrap();
        let one = program(&path).unwrap();
        assert_eq!(program(&path).as_ref(), Some(&one));
        fs::write(&file, b"\x7fELF other").unwrap();
        assert_ne!(program(&path), Some(one));
    }
}
