//! Puts protected parts back that the command moved away or removed. Only possible where the command may have a mount
//! namespace, since elsewhere mounts hold them.
//!
//! Each part is kept open from the start, so nothing else can get its inode number. Where it is now, the kernel says by
//! that descriptor; the name that it says is only believed if it leads to the same object, from the opened workspace and
//! without links. Nothing is ever replaced.
//!
//! Content is not compared: a mount stays over a part wherever it is moved, and what has no name is not opened for writing.

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, RenameFlags, mkdirat, openat, readlink, renameat_with};

use super::{shown, shown_path};
use crate::config::Workspace;
use crate::config::disk::{Kind, Seen, Tree, seen_at};

/// A protected part, or a directory around one.
#[derive(Debug)]
struct Part {
    /// Relative to the workspace.
    path: PathBuf,
    seen: Seen,
    object: OwnedFd,
}

/// The protected parts as they were, outermost first.
#[derive(Debug, Default)]
pub struct Kept(Vec<Part>);

impl Kept {
    /// Opens the protected parts of a workspace. What cannot be opened cannot be restored.
    pub fn open(tree: &Tree, workspace: &Workspace) -> Self {
        let part = |path: &Path| {
            let (seen, object) = tree.open_object(path).ok()?;
            Some(Part { path: path.to_owned(), seen, object })
        };
        Self(workspace.overlays().into_keys().filter_map(part).collect())
    }

    /// Puts back what is not in its place. Returns a line for each. Only when the command and its processes have ended.
    pub fn restore(&self, tree: &Tree) -> Vec<String> {
        let mut lines = Vec::new();
        for part in &self.0 {
            let name = shown(&shown_path(&part.path));
            match part.restore(tree) {
                Ok(None) => {}
                Ok(Some(From::Place(from))) => {
                    lines.push(format!("restored `{name}`, which was at `{}`", shown(&shown_path(&from))));
                }
                Ok(Some(From::Nothing)) => {
                    lines.push(format!("restored `{name}`, which had been removed, with its last content"));
                }
                Err(error) => lines.push(format!("ALARM: `{name}` COULD NOT BE RESTORED: {error}")),
            }
        }
        lines
    }
}

/// Where a part was restored from.
enum From {
    Place(PathBuf),
    Nothing,
}

impl Part {
    fn restore(&self, tree: &Tree) -> io::Result<Option<From>> {
        match tree.look(&self.path)? {
            Some(seen) if seen.id == self.seen.id => return Ok(None),
            Some(_) => return Err(io::Error::other("something else has its name")),
            None => {}
        }
        let parent = tree.directory(self.path.parent().unwrap_or(Path::new("")))?;
        let name = self.path.file_name().unwrap_or_default();
        if let Some(from) = self.now(tree) {
            let old = tree.directory(from.parent().unwrap_or(Path::new("")))?;
            renameat_with(&old, from.file_name().unwrap_or_default(), &parent, name, RenameFlags::NOREPLACE)?;
            let id = seen_at(&parent, name)?.id;
            let same = id == self.seen.id;
            return if same { Ok(Some(From::Place(from))) } else { Err(io::Error::other("it changed at that moment")) };
        }
        self.make(&parent, name)?;
        Ok(Some(From::Nothing))
    }

    /// Where the object is in the workspace by now.
    fn now(&self, tree: &Tree) -> Option<PathBuf> {
        let name = |fd: i32| readlink(format!("/proc/self/fd/{fd}"), Vec::new()).ok();
        let (root, own) = (name(tree.raw())?, name(self.object.as_raw_fd())?);
        let path = |text: CString| PathBuf::from(OsString::from_vec(text.into_bytes()));
        let below = path(own).strip_prefix(path(root)).ok()?.to_owned();
        let seen = tree.look(&below).ok().flatten()?;
        (seen.id == self.seen.id && below.file_name().is_some()).then_some(below)
    }

    /// Creates a removed part again: an empty directory, since only empty ones can be removed, or a file with the same
    /// content.
    fn make(&self, parent: &OwnedFd, name: &OsStr) -> io::Result<()> {
        let mode = Mode::from_raw_mode(u32::from(self.seen.mode & 0o777));
        match self.seen.kind {
            Kind::Directory => mkdirat(parent, name, mode)?,
            Kind::File => {
                let mut beside = name.to_owned();
                beside.push(format!(".restored-{}", std::process::id()));
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let mut file = File::from(openat(parent, &beside, flags, mode)?);
                let mut old = File::from(self.object.try_clone()?);
                io::Seek::rewind(&mut old)?;
                io::copy(&mut old, &mut file)?;
                renameat_with(parent, &beside, parent, name, RenameFlags::NOREPLACE)?;
            }
            _ => return Err(io::Error::other("it was neither a file nor a directory")),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;
    use crate::config::Protected;
    use crate::source::Place;

    /// A workspace with a file and two directories to protect.
    fn world() -> (tempfile::TempDir, Tree, Kept) {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        fs::create_dir_all(at(".git/hooks")).unwrap();
        fs::create_dir(at(".sandboxc")).unwrap();
        fs::write(at(".git/hooks/old"), "hook").unwrap();
        fs::write(at(".git/config"), "own").unwrap();
        fs::set_permissions(at(".git/config"), fs::Permissions::from_mode(0o640)).unwrap();
        let part = |path: &str| Protected { path: path.into(), stand_in: None, from: Place::built_in() };
        let protect = [".git/config", ".git/hooks", ".sandboxc"].map(part).into();
        let workspace = Workspace { protect, ..Workspace::new("/w".into(), "/w".into(), Place::built_in()) };
        let tree = Tree::open(dir.path()).unwrap();
        let kept = Kept::open(&tree, &workspace);
        assert_eq!(kept.0.len(), 4, "with the directory around two of them");
        (dir, tree, kept)
    }

    #[test]
    fn what_was_moved_comes_back_from_wherever_it_is_and_outermost_first() {
        let (dir, tree, kept) = world();
        let at = |path: &str| dir.path().join(path);
        assert!(kept.restore(&tree).is_empty(), "the twin: nothing was moved");
        fs::rename(at(".git/hooks"), at("elsewhere")).unwrap();
        fs::rename(at(".git"), at("away")).unwrap();
        let lines = kept.restore(&tree);
        assert_eq!(lines, ["restored `.git`, which was at `away`", "restored `.git/hooks`, which was at `elsewhere`"]);
        assert_eq!(fs::read_to_string(at(".git/hooks/old")).unwrap(), "hook");
        assert!(kept.restore(&tree).is_empty());
    }

    #[test]
    fn what_was_removed_is_made_again_as_it_was() {
        let (dir, tree, kept) = world();
        let at = |path: &str| dir.path().join(path);
        fs::remove_file(at(".git/config")).unwrap();
        fs::remove_dir(at(".sandboxc")).unwrap();
        let lines = kept.restore(&tree);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines.iter().all(|line| line.ends_with("with its last content")), "{lines:?}");
        assert_eq!(fs::read_to_string(at(".git/config")).unwrap(), "own");
        assert_eq!(fs::metadata(at(".git/config")).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(at(".sandboxc").is_dir());
        assert_eq!(fs::read_dir(at(".git")).unwrap().count(), 2, "nothing is left beside it");
    }

    #[test]
    fn nothing_is_replaced_and_no_link_is_followed() {
        let (dir, tree, kept) = world();
        let at = |path: &str| dir.path().join(path);
        let outside = tempfile::tempdir().unwrap();
        // Something has the name still.
        fs::rename(at(".sandboxc"), at("moved")).unwrap();
        fs::write(at(".sandboxc"), "theirs").unwrap();
        // Its directory is a link by now.
        fs::rename(at(".git"), outside.path().join("git")).unwrap();
        symlink(outside.path(), at(".git")).unwrap();
        let lines = kept.restore(&tree);
        assert_eq!(lines.len(), 4, "{lines:?}");
        assert!(lines.iter().all(|line| line.contains("COULD NOT BE RESTORED")), "{lines:?}");
        assert_eq!(fs::read_to_string(at(".sandboxc")).unwrap(), "theirs");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    }
}
