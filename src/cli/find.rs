//! Finds the repo's config from a directory below it.
//!
//! A directory above decides what is mounted and what is allowed, so only directories count that nobody else can write.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::getxattr;
use rustix::io::Errno;

use crate::config::{MISNAMED, REPO_DIR, REPO_FILE};

/// The result of a search.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// The directory of the repo.
    pub(super) dir: PathBuf,
    /// Where the search started, relative to `dir`.
    pub(super) below: PathBuf,
    /// The directory that the search did not enter because others can write it.
    pub(super) refused: Option<PathBuf>,
}

/// The nearest directory with a repo file, from `start` up to git's root; `start` if there is none. `start` and `home`
/// have no links.
pub(super) fn find(start: &Path, home: Option<&Path>) -> Found {
    search(start, home, &Me::new())
}

fn search(start: &Path, home: Option<&Path>, me: &Me) -> Found {
    let none = |refused: Option<&Path>| Found {
        dir: start.to_path_buf(),
        below: PathBuf::new(),
        refused: refused.map(Path::to_path_buf),
    };
    if has_config(start) {
        return none(None);
    }
    let mut nearest = None;
    for dir in start.ancestors() {
        // Neither the home directory nor what holds it can be a workspace.
        if home.is_some_and(|home| home.starts_with(dir)) {
            return none(None);
        }
        if !me.alone_writes(dir) {
            return none(Some(dir));
        }
        if nearest.is_none() && has_config(dir) {
            nearest = Some(dir);
        }
        // Before, it is not known whether a directory is part of a repo.
        if exists(&dir.join(".git")) {
            let Some(dir) = nearest else { return none(None) };
            let below = start.strip_prefix(dir).unwrap_or(Path::new("")).to_path_buf();
            return Found { dir: dir.to_path_buf(), below, refused: None };
        }
    }
    none(None)
}

/// Whether it has a repo file, or one that loading refuses because of its name.
fn has_config(dir: &Path) -> bool {
    exists(&dir.join(REPO_DIR).join(REPO_FILE)) || MISNAMED.iter().any(|name| exists(&dir.join(name)))
}

/// Whether something has this name, even a broken link.
fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Who runs sandboxc.
struct Me {
    uid: u32,
    /// The user's own group, if nobody else is in it.
    group: Option<u32>,
}

impl Me {
    fn new() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let uid = rustix::process::geteuid().as_raw();
        Self { uid, group: own_group(uid, &read("/etc/passwd"), &read("/etc/group")) }
    }

    /// Whether nobody but this user and root can create, rename and remove names in a directory.
    fn alone_writes(&self, dir: &Path) -> bool {
        let Ok(meta) = fs::symlink_metadata(dir) else { return false };
        let by_group = meta.mode() & 0o020 == 0 || (self.group == Some(meta.gid()) && !has_acl(dir));
        meta.is_dir() && [self.uid, 0].contains(&meta.uid()) && meta.mode() & 0o002 == 0 && by_group
    }
}

/// Whether a directory has an access list. The bits of the group then stand for everyone in that list.
fn has_acl(dir: &Path) -> bool {
    let found = getxattr(dir, c"system.posix_acl_access", &mut [0_u8; 0]);
    !matches!(found, Err(Errno::NODATA | Errno::OPNOTSUPP))
}

/// The group that has the user's name and no other members, as most distributions create it.
fn own_group(uid: u32, passwd: &str, group: &str) -> Option<u32> {
    let fields = |line: &'_ str| line.split(':').map(str::to_owned).collect::<Vec<_>>();
    let users: Vec<Vec<String>> = passwd.lines().map(fields).collect();
    let number = |line: &[String], at: usize| line.get(at).and_then(|text| text.parse::<u32>().ok());
    let me = users.iter().find(|line| number(line, 2) == Some(uid))?;
    let (name, gid) = (me.first()?, number(me, 3)?);
    let shared = users.iter().any(|line| number(line, 3) == Some(gid) && line.first() != Some(name));
    let mut same = group.lines().map(fields).filter(|line| number(line, 2) == Some(gid));
    let (line, none) = (same.next()?, same.next());
    let members = line.get(3)?.split(',').filter(|member| !member.is_empty());
    let alone = line.first() == Some(name) && members.into_iter().all(|member| member == name);
    (alone && !shared && none.is_none()).then_some(gid)
}

#[cfg(test)]
mod tests;
