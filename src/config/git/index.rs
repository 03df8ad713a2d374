//! Reads git's index (gitformat-index(5)): the directories with tracked files, and the gitlinks, whose repositories
//! `git status` enters.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::config::disk::{Tree, words};

/// The content of an index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// Directories with tracked files, relative to the worktree, without the worktree itself.
    pub directories: BTreeSet<PathBuf>,
    /// Paths of gitlinks.
    pub gitlinks: BTreeSet<PathBuf>,
    /// The other entries are in a `sharedindex.*` next to this file.
    pub is_split: bool,
}

impl Index {
    /// Adds the content of another file.
    pub fn extend(&mut self, other: Self) {
        self.directories.extend(other.directories);
        self.gitlinks.extend(other.gitlinks);
    }
}

/// The size of an entry's fields before its object id: two times, device, inode, mode, owner, group, size.
const STAT: usize = 40;

/// The maximum size of an index file. One with a million entries has about 100 MB.
const MOST_BYTES: u64 = 256 << 20;

/// The maximum number of names next to an index.
const NAMES: usize = 4096;

const GITLINK: u32 = 0o160_000;

/// Parses an index; `hash` is the length of object ids, 20 or 32. `None` if git would not read it.
fn index(bytes: &[u8], hash: usize) -> Option<Index> {
    let mut reader = Reader { bytes, at: 0 };
    let signature = reader.take(4)?;
    let (version, count) = (reader.number()?, reader.number()?);
    if signature != b"DIRC" || !(2..=4).contains(&version) {
        return None;
    }
    let (mut found, mut name) = (Index::default(), Vec::new());
    for _ in 0..count {
        let start = reader.at;
        let mode = u32::from_be_bytes(reader.take(STAT)?.get(24..28)?.try_into().ok()?);
        reader.take(hash)?;
        let flags = u16::from_be_bytes(reader.take(2)?.try_into().ok()?);
        if version >= 3 && flags & 0x4000 != 0 {
            reader.take(2)?;
        }
        if version == 4 {
            let cut = reader.varint()?;
            name.truncate(name.len().checked_sub(cut)?);
            name.extend_from_slice(reader.until_nul()?);
        } else {
            name.clear();
            name.extend_from_slice(reader.until_nul()?);
            // One to eight NULs pad the entry to a multiple of eight bytes; one has been read.
            let read = reader.at - start - 1;
            reader.take((read / 8 + 1) * 8 - read - 1)?;
        }
        found.add(Path::new(OsStr::from_bytes(&name)), mode);
    }
    found.is_split = reader.extensions(hash).any(|signature| signature == b"link");
    Some(found)
}

impl Index {
    fn add(&mut self, path: &Path, mode: u32) {
        if mode == GITLINK {
            self.gitlinks.insert(path.to_owned());
        }
        for directory in path.ancestors().skip(1).filter(|directory| !directory.as_os_str().is_empty()) {
            if !self.directories.insert(directory.to_owned()) {
                break;
            }
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(count)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    fn number(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    /// git's offset encoding (gitformat-pack(5)): seven bits per byte, the most significant first, plus one each.
    fn varint(&mut self) -> Option<usize> {
        let mut byte = *self.take(1)?.first()?;
        let mut value = usize::from(byte & 0x7f);
        while byte & 0x80 != 0 {
            byte = *self.take(1)?.first()?;
            value = value.checked_add(1)?.checked_mul(128)?.checked_add(usize::from(byte & 0x7f))?;
        }
        Some(value)
    }

    fn until_nul(&mut self) -> Option<&'a [u8]> {
        let rest = self.bytes.get(self.at..)?;
        let length = rest.iter().position(|&byte| byte == 0)?;
        let taken = self.take(length)?;
        self.take(1)?;
        Some(taken)
    }

    /// Signatures of the extensions that follow, up to the checksum.
    fn extensions(mut self, hash: usize) -> impl Iterator<Item = &'a [u8]> {
        std::iter::from_fn(move || {
            if self.bytes.len().saturating_sub(self.at) < hash + 8 {
                return None;
            }
            let signature = self.take(4)?;
            let length = self.number()?;
            self.take(usize::try_from(length).ok()?)?;
            Some(signature)
        })
    }
}

/// Reads the index of a repository, including the shared part of a split one. The error says why its content is
/// unknown.
pub fn read_index(tree: &Tree, git_dir: &Path, sha256: bool) -> Result<Index, String> {
    let hash = if sha256 { 32 } else { 20 };
    let read = |path: &Path| {
        let bytes = tree.read(path, MOST_BYTES).map_err(|error| words(&error))?;
        index(&bytes, hash).ok_or_else(|| "not an index that git would read".to_owned())
    };
    let path = git_dir.join("index");
    if tree.look(&path).map_err(|error| words(&error))?.is_none() {
        return Ok(Index::default());
    }
    let mut found = read(&path)?;
    if found.is_split {
        let listing = tree.names(git_dir, NAMES).map_err(|error| words(&error))?;
        if !listing.complete {
            return Err(format!("more than {NAMES} names beside it"));
        }
        let shared = listing.names.keys().filter(|name| name.as_encoded_bytes().starts_with(b"sharedindex."));
        for name in shared {
            found.extend(read(&git_dir.join(name))?);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, mode: u32, version: u32, cut: Option<u8>) -> Vec<u8> {
        let mut bytes = vec![0; 24];
        bytes.extend(mode.to_be_bytes());
        bytes.extend([0; 12]);
        bytes.extend([7; 20]);
        bytes.extend(u16::to_be_bytes(if version >= 3 { 0x4000 } else { 0 }));
        if version >= 3 {
            bytes.extend([0, 0]);
        }
        bytes.extend(cut);
        bytes.extend(name.as_bytes());
        bytes.push(0);
        while version < 4 && !bytes.len().is_multiple_of(8) {
            bytes.push(0);
        }
        bytes
    }

    fn file(version: u32, entries: &[Vec<u8>], rest: &[u8]) -> Vec<u8> {
        let mut bytes = b"DIRC".to_vec();
        bytes.extend(version.to_be_bytes());
        bytes.extend(u32::try_from(entries.len()).unwrap().to_be_bytes());
        bytes.extend(entries.concat());
        bytes.extend(rest);
        bytes.extend([9; 20]);
        bytes
    }

    fn names(set: &BTreeSet<PathBuf>) -> Vec<&str> {
        set.iter().map(|path| path.to_str().unwrap()).collect()
    }

    #[test]
    fn each_version_is_read() {
        for version in [2, 3] {
            let entries = [
                entry("a/b/c.rs", 0o100_644, version, None),
                entry("sub", 0o160_000, version, None),
                entry("x/deep", 0o160_000, version, None),
            ];
            let read = index(&file(version, &entries, b""), 20).unwrap();
            assert_eq!(
                (names(&read.gitlinks), names(&read.directories)),
                (vec!["sub", "x/deep"], vec!["a", "a/b", "x"])
            );
            assert!(!read.is_split);
        }
        let entries = [entry("a/b.rs", 0o100_644, 4, Some(0)), entry("sub", 0o160_000, 4, Some(4))];
        let read = index(&file(4, &entries, b"link\0\0\0\x02xx"), 20).unwrap();
        assert_eq!((names(&read.gitlinks), names(&read.directories)), (vec!["a/sub"], vec!["a"]));
        assert!(read.is_split);
    }

    #[test]
    fn what_is_cut_or_made_up_is_refused() {
        let whole = file(2, &[entry("sub", 0o160_000, 2, None)], b"");
        for length in 0..whole.len() - 20 {
            assert!(index(&whole[..length], 20).is_none(), "{length}");
        }
        assert!(index(&file(5, &[], b""), 20).is_none());
        let mut endless = b"DIRC\0\0\0\x02\xff\xff\xff\xff".to_vec();
        endless.extend([0; 100]);
        assert!(index(&endless, 20).is_none());
        let far = [entry("x", 0o160_000, 4, Some(200))];
        assert!(index(&file(4, &far, b""), 20).is_none());
    }
}
