//! Writing files of ours on the host: never through a link, never half.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path};

use super::RuntimeError;
use crate::emit::File;

/// Writes a tree under `dir`, which is made if missing. Each file is written beside its place and renamed, so a
/// planted link at its place is replaced, not followed. Links among the directories below `dir` are refused.
pub fn tree(dir: &Path, files: &[File]) -> Result<(), RuntimeError> {
    fs::create_dir_all(dir).map_err(RuntimeError::io(format!("making {}", dir.display())))?;
    for file in files {
        let path = dir.join(&file.path);
        let doing = || RuntimeError::io(format!("writing {}", path.display()));
        let parent = path.parent().unwrap_or(dir);
        make_parents(dir, parent)?;
        let mut temporary = tempfile::NamedTempFile::new_in(parent).map_err(doing())?;
        temporary.write_all(file.text.as_bytes()).map_err(doing())?;
        let mode = if file.executable { 0o755 } else { 0o644 };
        temporary.as_file().set_permissions(fs::Permissions::from_mode(mode)).map_err(doing())?;
        temporary.persist(&path).map_err(|error| error.error).map_err(doing())?;
    }
    Ok(())
}

fn make_parents(dir: &Path, parent: &Path) -> Result<(), RuntimeError> {
    let mut path = dir.to_owned();
    for component in parent.strip_prefix(dir).into_iter().flat_map(Path::components) {
        let Component::Normal(name) = component else { continue };
        path.push(name);
        let doing = || RuntimeError::io(format!("making {}", path.display()));
        match fs::symlink_metadata(&path) {
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => return Err(RuntimeError::Host(format!("{} is in the way: it is no directory", path.display()))),
            Err(_) => {
                fs::create_dir(&path).map_err(doing())?;
                // Mounted in containers that run as nobody of this host, whatever the umask.
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(doing())?;
            }
        }
    }
    Ok(())
}
