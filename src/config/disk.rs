//! What the room needs of a file system, so that everything but the loader stays free of it.

use std::io;
use std::path::{Path, PathBuf};

/// Reading only. Every read is bounded and takes regular files alone.
pub(super) trait Disk {
    /// The path without links, `.` and `..`; it must exist.
    fn canonical(&self, path: &Path) -> io::Result<PathBuf>;

    /// The content of a file of the machine's owner; links are followed.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// The content of a file of a stranger: no link is followed from `base` on, and nothing above it is reached.
    fn read_beneath(&self, base: &Path, relative: &Path) -> io::Result<Vec<u8>>;

    /// True if the path itself, whatever it leads to, is a link.
    fn is_link(&self, path: &Path) -> bool;

    /// The path without links as far as it exists, with the rest as written.
    fn canonical_or_parent(&self, path: &Path) -> PathBuf {
        if let Ok(real) = self.canonical(path) {
            return real;
        }
        match (path.parent(), path.file_name()) {
            // A bare name stands in the current directory.
            (Some(parent), Some(name)) if parent.as_os_str().is_empty() => {
                self.canonical(Path::new(".")).map_or_else(|_| path.to_path_buf(), |here| here.join(name))
            }
            (Some(parent), Some(name)) => self.canonical_or_parent(parent).join(name),
            _ => path.to_path_buf(),
        }
    }
}
