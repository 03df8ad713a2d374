//! What of the host a sandbox is given, held as objects.
//!
//! A mount's source is looked up by name twice: here, where it is checked, and by podman, where it is mounted. Whoever can write a
//! directory on the way, such as a sandbox that runs in the same workspace, can put a link there in between. So each
//! source is opened without following a link and held, and before the command runs the object that its container has at
//! the target must be the one that is held.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    CWD, Mode, OFlags, ResolveFlags, StatVfsMountFlags, StatxAttributes, StatxFlags, fstatvfs, openat, openat2, statx,
};
use rustix::io::Errno;
use serde::Deserialize;

use super::RuntimeError;
use super::podman::Podman;
use crate::visible::escaped;

/// Bytes of a process's `cgroup` file that are read; a path has at most 4096.
const CGROUP_BYTES: u64 = 8192;

/// A mount of something of the host.
#[derive(Clone, Copy, Debug)]
pub struct HostMount<'a> {
    /// Absolute path on the host, without links.
    pub source: &'a Path,
    /// Absolute path inside.
    pub target: &'a Path,
    /// Nothing can be written there.
    pub read_only: bool,
}

/// The sources of a container's mounts.
#[derive(Debug)]
pub struct Pins(Vec<Pin>);

#[derive(Debug)]
struct Pin {
    source: PathBuf,
    target: PathBuf,
    read_only: bool,
    object: Object,
    /// As long as it is open, no other object can have its number.
    _held: OwnedFd,
}

/// A file or directory: its device (major, minor) and inode.
type Object = (u32, u32, u64);

/// What is at a target.
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

    /// Compares what a container has, by its root directory, with what is held.
    pub fn verify(&self, root: impl AsFd) -> Result<(), RuntimeError> {
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
            Errno::LOOP => RuntimeError::Host(format!("{source} is no longer what it was: it is a link, or below one")),
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

    /// What is wrong with what is there, if anything is.
    fn compare(&self, seen: Seen) -> Option<&'static str> {
        if seen.object != self.object {
            return Some("something else was mounted: its name was given to another file or directory meanwhile");
        }
        if !seen.mounted {
            return Some("it is not mounted by itself");
        }
        (self.read_only && !seen.read_only).then_some("it can be written")
    }

    fn refuse(&self, why: &str) -> RuntimeError {
        let (source, target) = (self.source.display().to_string(), self.target.display().to_string());
        let (source, target) = (escaped(&source), escaped(&target));
        RuntimeError::Host(format!(
            "{source} is not what the sandbox has at {target}; {why}; the command was not started"
        ))
    }

    fn unseen(&self, error: Errno) -> RuntimeError {
        match error {
            Errno::ACCESS => self.refuse("a directory on the way is closed to this user, choose another target"),
            error => self.refuse(&std::io::Error::from(error).to_string()),
        }
    }
}

/// What a path leads to below a root, as for a process that has it as its own.
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

/// What `podman inspect` says of a running container.
#[derive(Debug, Deserialize)]
struct State {
    #[serde(rename = "Pid")]
    pid: u32,
    #[serde(rename = "CgroupPath")]
    cgroup: String,
}

/// The root directory of a running container, as its first process has it.
///
/// The number of that process is podman's word, which comes from conmon. Its directory in `/proc` is opened before
/// anything else is asked, so that a process that gets the number later is not taken for it, and the kernel must say that
/// it is in the container's control group.
pub fn root_of(podman: &Podman, container: &str) -> Result<OwnedFd, RuntimeError> {
    let what = "looking for the container's process";
    let mut described = podman.inspect(what, container)?;
    let state: State = serde_json::from_value(described["State"].take())
        .map_err(std::io::Error::from)
        .map_err(RuntimeError::io(what))?;
    let failed = |error: Errno| RuntimeError::Io(what.to_owned(), error.into());
    let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let process = openat(CWD, format!("/proc/{}", state.pid), directory, Mode::empty()).map_err(failed)?;
    let cgroup = openat(&process, "cgroup", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
    let mut text = String::new();
    File::from(cgroup).take(CGROUP_BYTES).read_to_string(&mut text).map_err(RuntimeError::io(what))?;
    if state.pid < 2 || !is_in(&text, &state.cgroup) {
        return Err(RuntimeError::Host(format!("{what}: number {} is not in its control group", state.pid)));
    }
    openat(&process, "root", directory, Mode::empty()).map_err(failed)
}

/// True if a process with this `cgroup` file (cgroups(7)) is in the group or below it.
fn is_in(text: &str, group: &str) -> bool {
    let own = text.lines().find_map(|line| line.strip_prefix("0::"));
    let below = own.and_then(|own| own.strip_prefix(group));
    group.len() > 1 && group.starts_with('/') && below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn mount<'a>(source: &'a Path, target: &'a str) -> HostMount<'a> {
        HostMount { source, target: Path::new(target), read_only: false }
    }

    /// A directory with a source `ws/data`, a secret, and a container's root that has things at `data`.
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
        assert!(pins.0[0].compare(mounted("ws/data")).unwrap().contains("something else"));
        assert!(pins.0[0].compare(object("ws/moved")).unwrap().contains("not mounted"));
        let keep = Pin { read_only: true, ..Pin::open(mount(&path.join("ws/moved"), "/data")).unwrap() };
        assert!(keep.compare(mounted("ws/moved")).unwrap().contains("written"));
        assert_eq!(keep.compare(Seen { read_only: true, ..mounted("ws/moved") }), None);
    }

    #[test]
    fn a_target_is_looked_up_as_the_container_sees_it() {
        let (_dir, path) = ground();
        fs::create_dir(path.join("root/there")).unwrap();
        // A link of the image that leads, from outside, to the source itself.
        symlink(path.join("ws/data"), path.join("root/absolute")).unwrap();
        symlink("../../../../there", path.join("root/etc/up")).unwrap();
        let root = root(&path);
        let there = see(File::open(path.join("root/there")).unwrap()).unwrap();
        assert_eq!(look(&root, Path::new("/etc/up")), Ok(there));
        assert_eq!(look(&root, Path::new("/absolute")), Err(Errno::NOENT));
        let pins = Pins::open([mount(&path.join("ws/data"), "/absolute")]).unwrap();
        let said = pins.verify(&root).unwrap_err().to_string();
        assert!(said.contains("the command was not started"), "{said}");
    }

    #[test]
    fn membership_of_a_control_group_is_the_groups_whole_name() {
        let group = "/user.slice/libpod-1.scope";
        for (text, expected) in [
            ("0::/user.slice/libpod-1.scope\n", true),
            ("1:name=x:/a\n0::/user.slice/libpod-1.scope/container\n", true),
            ("0::/user.slice/libpod-1.scope.d/x\n", false),
            ("0::/user.slice/libpod-2.scope/user.slice/libpod-1.scope\n", false),
            ("1:name=/user.slice/libpod-1.scope:/\n", false),
            ("", false),
        ] {
            assert_eq!(is_in(text, group), expected, "{text}");
        }
        assert!(!is_in("0::/x\n", "/") && !is_in("0::/x\n", "") && !is_in("0::x/y", "x"));
    }
}
