//! Mirrors of repos by URL: bare repositories in the user's state directory, which no sandbox sees.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::RuntimeError;
use super::fault::point;
use super::git::Git;
use super::lock::{Lock, Wait};
use super::signals::Signals;
use crate::config::Remote;

/// How long to wait for another process that fetches or clones.
const MOST: Duration = Duration::from_secs(2 * 60 * 60);

/// What is mirrored. Others, such as pull requests, are a stranger's until they are merged.
const REFS: [&str; 2] = ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"];

/// The mirror of a repo.
#[derive(Debug)]
pub struct Mirror {
    /// The directory of the repo.
    base: PathBuf,
}

/// What is known about a mirror, beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct State {
    url: String,
    /// The branch of the remote's HEAD.
    head: Option<String>,
    /// The end of the last fetch, in nanoseconds since the epoch.
    fetched: u64,
}

/// A commit of the mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tip {
    /// The branch.
    pub branch: String,
    /// Its commit, in hexadecimal digits.
    pub commit: String,
    /// Seconds since the last fetch.
    pub age: u64,
}

impl Mirror {
    /// The mirror in the directory of a repo.
    pub fn new(base: &Path) -> Self {
        Self { base: base.to_owned() }
    }

    /// The bare repository.
    pub fn git_dir(&self) -> PathBuf {
        self.base.join("mirror.git")
    }

    fn lock_file(&self) -> PathBuf {
        self.base.join("mirror.lock")
    }

    fn state_file(&self) -> PathBuf {
        self.base.join("mirror.json")
    }

    /// Clones or fetches the mirror, and returns the branch. A start that waits for another one's fetch uses it.
    pub fn fetch(&self, remote: &Remote, git: Git<'_>) -> Result<Tip, RuntimeError> {
        let asked = now();
        let free = Lock::try_take(&self.lock_file()).map_err(RuntimeError::io("locking the mirror"))?;
        let waited = free.is_none();
        let may_go_on = || git.signals.map_or(Ok(()), Signals::check);
        let wait = Wait { most: MOST, may_go_on: &may_go_on };
        let lock = free.map_or_else(|| Lock::take(&self.lock_file(), wait), Ok)?;
        let known = self.known().filter(|known| known.url == remote.url);
        match known {
            Some(known) if waited && known.fetched >= asked => {}
            Some(_) => self.update(remote, git)?,
            None => self.make(remote, git)?,
        }
        let tip = self.tip(remote, git);
        drop(lock);
        tip
    }

    /// The branch as it was fetched last.
    pub fn as_is(&self, remote: &Remote, git: Git<'_>) -> Result<Tip, RuntimeError> {
        match self.known() {
            Some(known) if known.url == remote.url => self.tip(remote, git),
            _ => Err(RuntimeError::Host(format!(
                "there is no mirror of {} yet: start once without `--offline`",
                remote.url
            ))),
        }
    }

    /// What a commit names that a clone does not contain: submodules, by their paths, and whether files are kept with Git LFS.
    pub fn left_out(&self, commit: &str, git: Git<'_>) -> Result<(Vec<String>, bool), RuntimeError> {
        let dir = self.git_dir();
        let tree = git.read("reading the commit", &dir, &["ls-tree", "-r", "-z", "--full-tree", commit])?;
        let path = |entry: &str| {
            entry.strip_prefix("160000 ")?.find('\t').and_then(|at| entry.get(at + 8..)).map(str::to_owned)
        };
        let submodules = tree.split('\0').filter_map(path).collect();
        let attributes = [":(top,glob)**/.gitattributes"];
        let args = [&["grep", "-q", "-E", "filter=lfs( |$)", commit, "--"], attributes.as_slice()].concat();
        // It fails if there is no match.
        Ok((submodules, git.read("reading the attributes", &dir, &args).is_ok()))
    }

    /// Keeps the mirror as it is as long as the lock is held.
    pub fn hold(&self, git: Git<'_>) -> Result<Lock, RuntimeError> {
        let may_go_on = || git.signals.map_or(Ok(()), Signals::check);
        let shared = Lock::share(&self.lock_file(), Wait { most: MOST, may_go_on: &may_go_on })?;
        shared.ok_or_else(|| RuntimeError::Host("another process has locked the mirror for two hours".to_owned()))
    }

    fn known(&self) -> Option<State> {
        let text = fs::read(self.state_file()).ok()?;
        serde_json::from_slice(&text).ok().filter(|_| self.git_dir().is_dir())
    }

    /// Clones the repo beside its place, so that there is either a whole mirror or none.
    fn make(&self, remote: &Remote, git: Git<'_>) -> Result<(), RuntimeError> {
        let (new, dir) = (self.base.join("mirror.new"), self.git_dir());
        let clear = |path: &Path| match fs::remove_dir_all(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(RuntimeError::Io(format!("removing {}", path.display()), error))
            }
            _ => Ok(()),
        };
        clear(&new)?;
        let what = format!("cloning {}", remote.url);
        let mut args = vec!["clone", "--bare", "--template=", "--quiet"];
        args.extend(git.progress.map(|_| "--progress"));
        let path = new.display().to_string();
        args.extend(["--", &remote.url, &path]);
        git.transfer(&what, &args)?;
        point("mirror-cloned");
        let _ = fs::remove_file(self.state_file());
        clear(&dir)?;
        sync(&new)?;
        fs::rename(&new, &dir).map_err(RuntimeError::io("putting the mirror in place"))?;
        point("mirror-in-place");
        self.keep(remote, git)
    }

    fn update(&self, remote: &Remote, git: Git<'_>) -> Result<(), RuntimeError> {
        let dir = format!("--git-dir={}", self.git_dir().display());
        let mut args = vec![dir.as_str(), "fetch", "--prune", "--force", "--quiet"];
        args.extend(git.progress.map(|_| "--progress"));
        args.extend(["--", &remote.url]);
        args.extend(REFS);
        git.transfer(&format!("fetching {}", remote.url), &args)?;
        self.keep(remote, git)
    }

    /// Writes down what was fetched.
    fn keep(&self, remote: &Remote, git: Git<'_>) -> Result<(), RuntimeError> {
        let head = match &remote.branch {
            Some(_) => None,
            None => Some(head(remote, git)?),
        };
        let state = State { url: remote.url.clone(), head, fetched: now() };
        write_whole(&self.state_file(), &state)
    }

    fn tip(&self, remote: &Remote, git: Git<'_>) -> Result<Tip, RuntimeError> {
        let known = self.known().unwrap_or_default();
        let no_head =
            || RuntimeError::Host(format!("{} has no branch as its HEAD: name one with `branch`", remote.url));
        let branch = remote.branch.clone().or(known.head).ok_or_else(no_head)?;
        let name = format!("refs/heads/{branch}^{{commit}}");
        let said = git.read(
            "reading the branch",
            &self.git_dir(),
            &["rev-parse", "--verify", "--quiet", "--end-of-options", &name],
        );
        let commit = said.ok().map(|text| text.trim().to_owned());
        let is_id = |text: &String| text.len() >= 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let commit = commit
            .filter(is_id)
            .ok_or_else(|| RuntimeError::Host(format!("{} has no branch `{branch}`", remote.url)))?;
        Ok(Tip { branch, commit, age: now().saturating_sub(known.fetched) / 1_000_000_000 })
    }
}

/// The branch of the remote's HEAD.
fn head(remote: &Remote, git: Git<'_>) -> Result<String, RuntimeError> {
    let what = format!("asking {} for its HEAD", remote.url);
    let said = git.ask(&what, &["ls-remote", "--symref", "--", &remote.url, "HEAD"])?;
    let line = said.split('\n').find_map(|line| line.strip_prefix("ref: refs/heads/"));
    let branch = line.and_then(|rest| rest.strip_suffix("\tHEAD")).filter(|branch| crate::config::is_branch(branch));
    branch.map(str::to_owned).ok_or_else(|| {
        RuntimeError::Host(format!("{} does not say which branch its HEAD is: name one with `branch`", remote.url))
    })
}

/// Nanoseconds since the epoch.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Writes all of a directory's file system to disk, so that a rename after it never survives without its content.
pub(super) fn sync(dir: &Path) -> Result<(), RuntimeError> {
    let written = File::open(dir).and_then(|dir| rustix::fs::syncfs(dir).map_err(io::Error::from));
    written.map_err(RuntimeError::io(format!("writing {} to disk", dir.display())))
}

/// Writes a JSON document beside its place, and renames it.
pub(super) fn write_whole(path: &Path, value: &impl Serialize) -> Result<(), RuntimeError> {
    let failed = || RuntimeError::io(format!("writing {}", path.display()));
    let text = serde_json::to_vec_pretty(value).map_err(io::Error::from).map_err(failed())?;
    let dir = path.parent().unwrap_or(Path::new("/"));
    let mut new = tempfile::NamedTempFile::with_prefix_in(".new-", dir).map_err(failed())?;
    let written = new.write_all(&text).and_then(|()| new.as_file().sync_all());
    written.map_err(failed())?;
    new.persist(path).map(drop).map_err(|error| failed()(error.error))
}

/// Makes a directory that only its user enters.
pub(super) fn make_dir(path: &Path) -> Result<(), RuntimeError> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(RuntimeError::io(format!("making {}", path.display())))
}
