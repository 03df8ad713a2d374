//! The parts of the host that a sandbox mounts, held as objects.
//!
//! The source of a mount is looked up by name twice: here, where it is checked, and by podman, where it is mounted. In
//! between, whoever can write a directory on the way, such as another sandbox in the same workspace, can put a link
//! there. So each source is opened without following links and held open. Before the command runs, the object at the
//! target in its container must be the one that is held.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    CWD, Mode, OFlags, ResolveFlags, StatVfsMountFlags, StatxAttributes, StatxFlags, fstatvfs, openat2, statx,
};
use rustix::io::Errno;

use super::RuntimeError;
use super::conmon::Inside;
use crate::visible::escaped;

/// A mount of a part of the host.
#[derive(Clone, Copy, Debug)]
pub struct HostMount<'a> {
    /// Absolute path on the host, without links.
    pub source: &'a Path,
    /// Absolute path inside.
    pub target: &'a Path,
    /// Whether it is read-only.
    pub read_only: bool,
}

/// The held sources of a container's mounts.
#[derive(Debug)]
pub struct Pins(Vec<Pin>);

#[derive(Debug)]
struct Pin {
    source: PathBuf,
    target: PathBuf,
    read_only: bool,
    object: Object,
    /// The source. While it is open, no other object can get its inode number.
    _held: OwnedFd,
}

/// A file or directory, identified by device (major, minor) and inode.
type Object = (u32, u32, u64);

/// What a container has at a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    object: Object,
    mounted: bool,
    read_only: bool,
}

impl Pins {
    /// Opens every source, without following a link anywhere in its path.
    pub fn open<'a>(mounts: impl IntoIterator<Item = HostMount<'a>>) -> Result<Self, RuntimeError> {
        mounts.into_iter().map(Pin::open).collect::<Result<_, _>>().map(Self)
    }

    /// Compares the mounts of a running container with the held sources.
    pub fn verify(&self, container: &str) -> Result<(), RuntimeError> {
        let root = Inside::of(container).and_then(|inside| inside.root());
        let gone = || {
            RuntimeError::Host(format!(
                "cannot find the process of {container} to check its mounts: it has \
                 ended, it has no control group of its own (podman without systemd), or this kernel does not list the children of \
                 a process (CONFIG_PROC_CHILDREN); see `sandboxc doctor`"
            ))
        };
        self.compare(root.ok_or_else(gone)?)
    }

    /// Compares the mounts below a root directory with the held sources.
    fn compare(&self, root: impl AsFd) -> Result<(), RuntimeError> {
        self.0.iter().try_for_each(|pin| {
            let seen = look(&root, &pin.target).map_err(|error| pin.unseen(error))?;
            pin.compare(seen).map_or(Ok(()), |why| Err(pin.refuse(why)))
        })
    }
}

impl Pin {
    fn open(mount: HostMount<'_>) -> Result<Self, RuntimeError> {
        let source = escaped(&mount.source.display().to_string());
        let failed = |error: Errno| match error {
            Errno::LOOP => RuntimeError::Host(format!("{source} has changed: it is a link, or below one")),
            error => RuntimeError::Io(format!("opening {source}"), error.into()),
        };
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let held =
            openat2(CWD, mount.source, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve).map_err(failed)?;
        Ok(Self {
            object: see(&held).map_err(failed)?.object,
            source: mount.source.to_owned(),
            target: mount.target.to_owned(),
            read_only: mount.read_only,
            _held: held,
        })
    }

    /// Returns what is wrong with the mount, if anything.
    fn compare(&self, seen: Seen) -> Option<&'static str> {
        if seen.object != self.object {
            return Some("another file or directory took its name and was mounted instead");
        }
        if !seen.mounted {
            return Some("it is not a mount of its own");
        }
        (self.read_only && !seen.read_only).then_some("it is writable")
    }

    fn refuse(&self, why: &str) -> RuntimeError {
        let (source, target) = (self.source.display().to_string(), self.target.display().to_string());
        let (source, target) = (escaped(&source), escaped(&target));
        RuntimeError::Host(format!("the mount of {source} at {target} is wrong: {why}; the command was not started"))
    }

    fn unseen(&self, error: Errno) -> RuntimeError {
        match error {
            Errno::ACCESS => self.refuse("this user cannot enter a directory on the way, choose another target"),
            error => self.refuse(&std::io::Error::from(error).to_string()),
        }
    }
}

/// Resolves a path below a root, as for a process with that root.
fn look(root: impl AsFd, target: &Path) -> Result<Seen, Errno> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    see(openat2(root, target, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)?)
}

fn see(file: impl AsFd) -> Result<Seen, Errno> {
    let stat = statx(&file, "", rustix::fs::AtFlags::EMPTY_PATH, StatxFlags::INO)?;
    Ok(Seen {
        object: (stat.stx_dev_major, stat.stx_dev_minor, stat.stx_ino),
        mounted: stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT),
        read_only: fstatvfs(&file)?.f_flag.contains(StatVfsMountFlags::RDONLY),
    })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::symlink;

    use rustix::fs::openat;

    use super::*;

    fn mount<'a>(source: &'a Path, target: &'a str) -> HostMount<'a> {
        HostMount { source, target: Path::new(target), read_only: false }
    }

    /// Creates a directory with a source `ws/data`, a secret, and a container root with something at `data`.
    fn ground() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        for below in ["ws/data", "secret", "root/etc"] {
            fs::create_dir_all(path.join(below)).unwrap();
        }
        (dir, path)
    }

    fn root(path: &Path) -> OwnedFd {
        openat(CWD, path.join("root"), OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap()
    }

    #[test]
    fn a_source_that_became_a_link_or_lies_below_one_is_not_opened() {
        let (_dir, path) = ground();
        Pins::open([mount(&path.join("ws/data"), "/data")]).unwrap();
        symlink(path.join("secret"), path.join("ws/link")).unwrap();
        symlink(path.join("ws"), path.join("inner")).unwrap();
        for below in ["ws/link", "inner/data", "ws/missing"] {
            assert!(Pins::open([mount(&path.join(below), "/data")]).is_err(), "{below}");
        }
        let said = Pins::open([mount(&path.join("ws/link"), "/data")]).unwrap_err().to_string();
        assert!(said.contains("is a link"), "{said}");
    }

    #[test]
    fn only_the_object_that_is_held_is_the_right_one_whatever_its_name_is_now() {
        let (_dir, path) = ground();
        let pins = Pins::open([mount(&path.join("ws/data"), "/data")]).unwrap();
        let object = |of: &str| see(File::open(path.join(of)).unwrap()).unwrap();
        let mounted = |of: &str| Seen { mounted: true, ..object(of) };
        assert_eq!(pins.0[0].compare(mounted("ws/data")), None);
        fs::rename(path.join("ws/data"), path.join("ws/moved")).unwrap();
        symlink(path.join("secret"), path.join("ws/data")).unwrap();
        assert_eq!(pins.0[0].compare(mounted("ws/moved")), None);
        assert!(pins.0[0].compare(mounted("ws/data")).unwrap().contains("another file or directory"));
        assert!(pins.0[0].compare(object("ws/moved")).unwrap().contains("not a mount"));
        let keep = Pin { read_only: true, ..Pin::open(mount(&path.join("ws/moved"), "/data")).unwrap() };
        assert!(keep.compare(mounted("ws/moved")).unwrap().contains("writable"));
        assert_eq!(keep.compare(Seen { read_only: true, ..mounted("ws/moved") }), None);
    }

    #[test]
    fn a_target_is_looked_up_as_the_container_sees_it() {
        let (_dir, path) = ground();
        fs::create_dir(path.join("root/there")).unwrap();
        // A link in the image that leads, from outside, to the source itself.
        symlink(path.join("ws/data"), path.join("root/absolute")).unwrap();
        symlink("../../../../there", path.join("root/etc/up")).unwrap();
        let root = root(&path);
        let there = see(File::open(path.join("root/there")).unwrap()).unwrap();
        assert_eq!(look(&root, Path::new("/etc/up")), Ok(there));
        assert_eq!(look(&root, Path::new("/absolute")), Err(Errno::NOENT));
        let pins = Pins::open([mount(&path.join("ws/data"), "/absolute")]).unwrap();
        let said = pins.compare(&root).unwrap_err().to_string();
        assert!(said.contains("the command was not started"), "{said}");
    }
}
