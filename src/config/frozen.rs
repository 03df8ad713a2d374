//! The files of `.sandboxc/` as they are in a commit or in another directory, instead of those in the workspace.
//!
//! They are read once, completely and with limits. Nothing of git's settings applies: the only code that reads the
//! repository finds a ref and reads its objects (the `gix-ref` and `gix-odb` crates), so no hook, filter, `fsmonitor`,
//! replacement or included setting can have an effect.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;
use std::sync::mpsc::channel;
use std::time::Duration;

use gix_object::FindExt as _;
use gix_object::tree::EntryKind;
use gix_ref::file::ReferenceExt as _;
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use super::REPO_DIR;
use super::disk::{Disk, Kind, Real, Tree, missing, words};
use super::ignore::Ignore;

const MOST_FILES: usize = 2_000;
const MOST_DEPTH: usize = 16;
const MOST_BYTES: u64 = 64 << 20;
/// A named pipe in a repository must not block forever.
const MOST_TIME: Duration = Duration::from_secs(30);

/// Why the files cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FrozenError {
    /// There is no repository.
    #[error("`{0}` is not in a git repository: there is no `.git` in it or above")]
    NoRepository(String),
    /// The repository shares objects with another one.
    #[error("the repository borrows objects from another one (`{0}`); run `git repack -a -d` and remove the file")]
    Alternates(String),
    /// No such ref or commit.
    #[error("`{0}` is not a ref or a commit id of this repository; write e.g. `origin/main` (fetch it first)")]
    NoSuchRef(String),
    /// A short name of several refs. git would choose one, and whoever can add a tag could make it theirs.
    #[error("`{0}` could be {1}; write one of them in full")]
    Ambiguous(String, String),
    /// An object that cannot be read.
    #[error("`{name}` cannot be read: {why}")]
    Unreadable {
        /// The ref.
        name: String,
        /// The reason.
        why: String,
    },
    /// A link, a submodule or a special file.
    #[error("`{path}` is {what}; only regular files and directories can be used from there")]
    NoFile {
        /// The path, with the ref or directory.
        path: String,
        /// What it is.
        what: &'static str,
    },
    /// More than the limits.
    #[error("`{0}` has more than {MOST_FILES} files, {MOST_DEPTH} levels or 64 MiB in `.sandboxc`")]
    TooLarge(String),
    /// The time limit.
    #[error("reading the repository took longer than {} s", MOST_TIME.as_secs())]
    TooSlow,
}

/// A file of a [`Frozen`] directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrozenFile {
    /// Its content.
    pub bytes: Vec<u8>,
    /// Whether its owner may execute it.
    pub executable: bool,
}

/// The files below `.sandboxc/` of one commit or directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frozen {
    /// What findings show before a path: the ref and a colon, or the directory and a slash.
    prefix: String,
    /// The ref, if it is a commit's.
    revision: Option<String>,
    /// Each file by its path relative to the repo, which starts with `.sandboxc`.
    files: BTreeMap<PathBuf, FrozenFile>,
    bytes: u64,
}

impl Frozen {
    /// Reads the files of a commit: a ref as in `git rev-parse` without suffixes, or a complete commit id.
    pub fn of_commit(repo_dir: &Path, name: &str) -> Result<Self, FrozenError> {
        let (sender, receiver) = channel();
        let (dir, owned) = (repo_dir.to_path_buf(), name.to_owned());
        std::thread::spawn(move || sender.send(Repository::around(&dir).and_then(|found| found.read(&owned, &owned))));
        receiver.recv_timeout(MOST_TIME).unwrap_or(Err(FrozenError::TooSlow))
    }

    /// Reads the files of a commit in a bare repository of sandboxc's own. Findings show `revision` before a path.
    pub fn of_mirror(mirror: &Path, commit: &str, revision: &str) -> Result<Self, FrozenError> {
        let (sender, receiver) = channel();
        let (mirror, id, revision) = (mirror.to_path_buf(), commit.to_owned(), revision.to_owned());
        std::thread::spawn(move || sender.send(Repository::bare(&mirror).and_then(|found| found.read(&id, &revision))));
        receiver.recv_timeout(MOST_TIME).unwrap_or(Err(FrozenError::TooSlow))
    }

    /// Reads the files of a directory that holds a `.sandboxc`, following no link.
    pub fn of_directory(dir: &Path) -> Result<Self, FrozenError> {
        let prefix = format!("{}/", dir.display());
        let unreadable = |error: &io::Error| FrozenError::Unreadable { name: prefix.clone(), why: words(error) };
        let tree = Tree::open(dir).map_err(|error| unreadable(&error))?;
        Self::of_tree(&tree, prefix, &Ignore::default())
    }

    /// Reads the files of an opened directory that an ignore file does not leave out.
    pub(super) fn of_tree(tree: &Tree, prefix: String, ignore: &Ignore) -> Result<Self, FrozenError> {
        let unreadable = |error: &io::Error| FrozenError::Unreadable { name: prefix.clone(), why: words(error) };
        let mut frozen = Self { prefix: prefix.clone(), ..Self::default() };
        let mut open = vec![(PathBuf::from(REPO_DIR), 1)];
        while let Some((path, depth)) = open.pop() {
            let listing = match tree.names(&path, MOST_FILES) {
                Err(error) if depth == 1 && missing(&error) => return Ok(frozen),
                listing => listing.map_err(|error| unreadable(&error))?,
            };
            if !listing.complete || depth > MOST_DEPTH {
                return Err(FrozenError::TooLarge(prefix));
            }
            for (name, kind) in listing.names {
                let path = path.join(name);
                let shown = || frozen.shown(&path);
                let within = path.strip_prefix(REPO_DIR).unwrap_or(&path);
                match kind {
                    Kind::Directory if ignore.leaves_out_all(within) => {}
                    Kind::File | Kind::Link | Kind::Other if ignore.leaves_out(within) => {}
                    Kind::Directory => open.push((path, depth + 1)),
                    Kind::Link => return Err(FrozenError::NoFile { path: shown(), what: "a symbolic link" }),
                    Kind::Other => return Err(FrozenError::NoFile { path: shown(), what: "a special file" }),
                    Kind::File => {
                        let seen = tree.look(&path).map_err(|error| unreadable(&error))?;
                        let executable = seen.is_some_and(|seen| seen.mode & 0o100 != 0);
                        let bytes = tree.read(&path, MOST_BYTES).map_err(|error| unreadable(&error))?;
                        frozen.add(path, FrozenFile { bytes, executable })?;
                    }
                }
            }
        }
        Ok(frozen)
    }

    /// The ref or commit id; `None` for a directory.
    pub fn revision(&self) -> Option<&str> {
        self.revision.as_deref()
    }

    /// The paths at which two sets of files differ, sorted.
    pub fn differences(&self, other: &Self) -> Vec<PathBuf> {
        let paths: std::collections::BTreeSet<&PathBuf> = self.files.keys().chain(other.files.keys()).collect();
        paths.into_iter().filter(|path| self.files.get(*path) != other.files.get(*path)).cloned().collect()
    }

    /// The hash of all files with their paths and modes: each part after its length, so that none runs into the next.
    pub fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        let mut add = |part: &[u8]| {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        };
        for (path, file) in &self.files {
            add(path.as_os_str().as_bytes());
            add(&[u8::from(file.executable)]);
            add(&file.bytes);
        }
        hash.finalize().into()
    }

    /// The files that an ignore file does not leave out.
    pub(super) fn without(&self, ignore: &Ignore) -> Self {
        let kept = |path: &Path| !ignore.leaves_out(path.strip_prefix(REPO_DIR).unwrap_or(path));
        let files = self.files.iter().filter(|(path, _)| kept(path));
        Self { files: files.map(|(path, file)| (path.clone(), file.clone())).collect(), ..Self::default() }
    }

    /// The files, by their paths relative to the repo.
    pub fn files(&self) -> &BTreeMap<PathBuf, FrozenFile> {
        &self.files
    }

    /// A path as findings show it.
    pub fn shown(&self, path: &Path) -> String {
        format!("{}{}", self.prefix, path.display())
    }

    fn add(&mut self, path: PathBuf, file: FrozenFile) -> Result<(), FrozenError> {
        self.bytes += file.bytes.len() as u64;
        self.files.insert(path, file);
        let fits = self.bytes <= MOST_BYTES && self.files.len() <= MOST_FILES;
        fits.then_some(()).ok_or_else(|| FrozenError::TooLarge(self.prefix.clone()))
    }
}

/// A repository whose objects are read.
struct Repository {
    objects: gix_odb::Handle,
    refs: gix_ref::file::Store,
    /// The repo's directory, relative to the root of the work tree.
    within: PathBuf,
}

impl Repository {
    /// The repository around a directory of a work tree.
    fn around(repo_dir: &Path) -> Result<Self, FrozenError> {
        let no_repository = || FrozenError::NoRepository(repo_dir.display().to_string());
        let root = repo_dir.ancestors().find(|dir| dir.join(".git").exists()).ok_or_else(no_repository)?;
        let git_dir = git_dir(root).ok_or_else(no_repository)?;
        let common = match small_file(&git_dir.join("commondir")) {
            Some(path) => git_dir.join(path.trim_end()),
            None => git_dir.clone(),
        };
        Self::open(git_dir, common, relative_dir(root, repo_dir))
    }

    fn bare(git_dir: &Path) -> Result<Self, FrozenError> {
        Self::open(git_dir.to_path_buf(), git_dir.to_path_buf(), PathBuf::new())
    }

    fn open(git_dir: PathBuf, common: PathBuf, within: PathBuf) -> Result<Self, FrozenError> {
        let alternates = common.join("objects/info/alternates");
        if std::fs::symlink_metadata(&alternates).is_ok() {
            return Err(FrozenError::Alternates(alternates.display().to_string()));
        }
        let unreadable = |error| FrozenError::Unreadable { name: common.display().to_string(), why: words(&error) };
        let hash = object_hash(&common);
        let objects = gix_odb::at(common.join("objects"), hash).map_err(unreadable)?;
        Ok(Self { objects, refs: gix_ref::file::Store::for_linked_worktree(git_dir, common, hash), within })
    }

    /// The files of a commit: a ref, or a complete id. Findings show `revision` before a path.
    fn read(&self, name: &str, revision: &str) -> Result<Frozen, FrozenError> {
        let Self { objects, refs, within } = self;
        let id = if let Ok(id) = gix_hash::ObjectId::from_hex(name.as_bytes()) {
            id
        } else {
            let unreadable = |why: String| FrozenError::Unreadable { name: name.to_owned(), why };
            only_ref(refs, name)?.peel_to_id(refs, objects).map_err(|error| unreadable(error.to_string()))?
        };
        let mut buffer = Vec::new();
        fits(objects, &id, name)?;
        let no_such_ref = |_| FrozenError::NoSuchRef(name.to_owned());
        let tree = objects.find_commit(&id, &mut buffer).map_err(no_such_ref)?.tree();
        let (prefix, revision) = (format!("{revision}:"), Some(revision.to_owned()));
        let mut frozen = Frozen { prefix, revision, ..Frozen::default() };
        let Some(tree) = directory(objects, tree, &within.join(REPO_DIR), &frozen)? else { return Ok(frozen) };
        read_tree(objects, tree, &mut frozen)?;
        Ok(frozen)
    }
}

/// A regular file of at most 1 MiB; whatever else has the name is not there.
fn small_file(path: &Path) -> Option<String> {
    Real::default().read(path).ok().and_then(|bytes| String::from_utf8(bytes).ok())
}

/// The ref that a name stands for (gitrevisions(7)), if it can only be one.
fn only_ref(refs: &gix_ref::file::Store, name: &str) -> Result<gix_ref::Reference, FrozenError> {
    let find = |name: &str| refs.try_find(name).ok().flatten();
    let places = ["refs/", "refs/tags/", "refs/heads/", "refs/remotes/"];
    let full = places.map(|place| format!("{place}{name}"));
    let found: Vec<&str> = full.iter().map(String::as_str).filter(|full| find(full).is_some()).collect();
    if found.len() > 1 {
        return Err(FrozenError::Ambiguous(name.to_owned(), found.join(" or ")));
    }
    find(name).ok_or_else(|| FrozenError::NoSuchRef(name.to_owned()))
}

/// Checks the size of an object before it is unpacked.
fn fits(objects: &gix_odb::Handle, id: &gix_hash::oid, shown: &str) -> Result<(), FrozenError> {
    use gix_object::FindHeader as _;
    match objects.try_header(id) {
        Ok(Some(header)) if header.size > MOST_BYTES => Err(FrozenError::TooLarge(shown.to_owned())),
        // Reading it says what is wrong with it.
        _ => Ok(()),
    }
}

/// Where the repo's directory is below the root of the work tree.
fn relative_dir(root: &Path, repo_dir: &Path) -> PathBuf {
    repo_dir.strip_prefix(root).unwrap_or(Path::new("")).to_path_buf()
}

/// `.git` of a work tree, or the directory that it names (gitrepository-layout(5)).
fn git_dir(root: &Path) -> Option<PathBuf> {
    let path = root.join(".git");
    if path.is_dir() {
        return Some(path);
    }
    let text = small_file(&path)?;
    Some(root.join(text.strip_prefix("gitdir:")?.trim()))
}

/// The kind of object ids, from the one setting that says it.
fn object_hash(common: &Path) -> gix_hash::Kind {
    let config = small_file(&common.join("config")).unwrap_or_default();
    let lines = config.lines().map(|line| line.to_ascii_lowercase().replace(' ', ""));
    let sha256 = lines.map(|line| line.trim().to_owned()).any(|line| line == "objectformat=sha256");
    if sha256 { gix_hash::Kind::Sha256 } else { gix_hash::Kind::Sha1 }
}

/// The tree at a path; `None` if nothing is there.
fn directory(
    objects: &gix_odb::Handle,
    root: gix_hash::ObjectId,
    path: &Path,
    frozen: &Frozen,
) -> Result<Option<gix_hash::ObjectId>, FrozenError> {
    let mut id = root;
    for part in path.components() {
        let Component::Normal(name) = part else { return Ok(None) };
        let shown = frozen.shown(path);
        let mut buffer = Vec::new();
        fits(objects, &id, &shown)?;
        let unreadable = |why: String| FrozenError::Unreadable { name: shown.clone(), why };
        let tree = objects.find_tree(&id, &mut buffer).map_err(|error| unreadable(error.to_string()))?;
        match tree.entries.iter().find(|entry| entry.filename == name.as_bytes()) {
            Some(entry) if entry.mode.is_tree() => id = entry.oid.to_owned(),
            Some(_) => return Err(FrozenError::NoFile { path: shown, what: "not below directories alone" }),
            None => return Ok(None),
        }
    }
    Ok(Some(id))
}

fn read_tree(objects: &gix_odb::Handle, root: gix_hash::ObjectId, frozen: &mut Frozen) -> Result<(), FrozenError> {
    let mut open = vec![(PathBuf::from(REPO_DIR), root, 1)];
    let (mut buffer, mut content) = (Vec::new(), Vec::new());
    let mut entries = 0;
    while let Some((path, id, depth)) = open.pop() {
        let name = frozen.shown(&path);
        let unreadable = |why: String| FrozenError::Unreadable { name: name.clone(), why };
        fits(objects, &id, &frozen.prefix)?;
        let tree = objects.find_tree(&id, &mut buffer).map_err(|error| unreadable(error.to_string()))?;
        for entry in tree.entries {
            let path = path.join(OsStr::from_bytes(entry.filename));
            entries += 1;
            if depth > MOST_DEPTH || entries > MOST_FILES {
                return Err(FrozenError::TooLarge(frozen.prefix.clone()));
            }
            // git refuses such names; a forged tree may have them.
            let plain = !entry.filename.contains(&b'/') && entry.filename != ".." && entry.filename != ".";
            let odd = |what| Err(FrozenError::NoFile { path: frozen.shown(&path), what });
            match entry.mode.kind() {
                _ if !plain => return odd("not a valid name"),
                EntryKind::Tree => open.push((path, entry.oid.to_owned(), depth + 1)),
                EntryKind::Link => return odd("a symbolic link"),
                EntryKind::Commit => return odd("a submodule"),
                kind @ (EntryKind::Blob | EntryKind::BlobExecutable) => {
                    fits(objects, entry.oid, &frozen.prefix)?;
                    let blob =
                        objects.find_blob(entry.oid, &mut content).map_err(|error| unreadable(error.to_string()))?;
                    let file = FrozenFile { bytes: blob.data.to_vec(), executable: kind == EntryKind::BlobExecutable };
                    frozen.add(path, file)?;
                }
            }
        }
    }
    Ok(())
}

/// The files as a disk for the readers of the repo's config. Everything else does not exist there.
pub(super) struct FrozenDisk<'a> {
    pub(super) repo_dir: &'a Path,
    pub(super) frozen: &'a Frozen,
}

impl FrozenDisk<'_> {
    fn file(&self, path: &Path) -> io::Result<&FrozenFile> {
        let relative = path.strip_prefix(self.repo_dir).ok();
        let file = relative.and_then(|path| self.frozen.files.get(path));
        file.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }
}

impl Disk for FrozenDisk<'_> {
    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        let mut plain = PathBuf::new();
        for component in path.components() {
            match component {
                Component::ParentDir => {
                    plain.pop();
                }
                Component::CurDir => {}
                other => plain.push(other),
            }
        }
        self.file(&plain).map(|_| plain.clone())
    }

    fn exists(&self, path: &Path) -> bool {
        let relative = path.strip_prefix(self.repo_dir).ok();
        relative.is_some_and(|path| self.frozen.files.keys().any(|file| file.starts_with(path)))
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.file(path).map(|file| file.bytes.clone())
    }

    fn tree(&self, _: &Path) -> io::Result<Rc<Tree>> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    fn read_beneath(&self, base: &Path, relative: &Path) -> io::Result<Vec<u8>> {
        let bytes = self.read(&base.join(relative))?;
        let fits = bytes.len() as u64 <= super::disk::MOST_BYTES;
        if fits { Ok(bytes) } else { Err(io::Error::other("it is larger than 1 MiB")) }
    }
}
