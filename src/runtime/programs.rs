//! Looks for programs and files in a container, from outside and without running anything there.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};

use super::conmon::Inside;

/// Those of these programs that are nowhere in the container where `PATH` or `more` looks. A name with slashes is looked up
/// itself, unless it is relative: it would begin in a directory that the command may have changed. Empty if the container is
/// not running.
pub fn missing<'a>(container: &str, programs: &[&'a str], more: &[&str]) -> Vec<&'a str> {
    let Some(inside) = Inside::of_id(container) else { return Vec::new() };
    let (Some(root), Some(path)) = (inside.root(), inside.search_path()) else { return Vec::new() };
    let exists = |path: PathBuf| open(&root, &path, OFlags::PATH).is_ok();
    let dirs = || path.split(':').chain(more.iter().copied());
    let is_missing = |program: &&&str| match program.contains('/') {
        true => Path::new(**program).is_absolute() && !exists(PathBuf::from(**program)),
        false => !dirs().any(|dir| exists(Path::new(dir).join(**program))),
    };
    programs.iter().filter(is_missing).copied().collect()
}

/// A regular file of the container with at most `most` bytes. Whoever wrote it may have been anybody inside.
pub fn read(container: &str, path: &Path, most: u64) -> Option<Vec<u8>> {
    let root = Inside::of_id(container)?.root()?;
    // Opening a named pipe would wait.
    let file = File::from(open(&root, path, OFlags::RDONLY | OFlags::NONBLOCK).ok()?);
    let meta = file.metadata().ok()?;
    let mut bytes = Vec::new();
    (meta.is_file() && meta.len() <= most).then(|| file.take(most).read_to_end(&mut bytes).ok())??;
    Some(bytes)
}

/// Opens a path of a container as it sees it.
fn open(root: impl AsFd, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let below = path.strip_prefix("/").unwrap_or(path);
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    openat2(root, below, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
}
