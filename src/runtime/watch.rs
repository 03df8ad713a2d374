//! What of a workspace the host may execute later without being asked: git's hooks and settings, environment files,
//! editors' tasks, our own config. Looked at before and after the agent had it.
//!
//! The agent writes all of this, so: no git is asked, no link is followed, nothing is read that is no plain file, and
//! what is looked at is bounded in depth, number and size.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

mod gitconfig;
mod rules;

use rules::Place;

use crate::visible::is_hidden;

/// Directories below the workspace that are looked into.
const DEPTH: usize = 4;

/// Entries that are looked at, most of them by name only.
const ENTRIES: usize = 20_000;

/// Bytes of a file that are compared; what lies beyond counts by its length.
const BYTES: u64 = 256 * 1024;

/// Characters of a line.
const WIDTH: usize = 300;

/// One file as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Mark {
    /// A plain file: its length, the hash of its beginning, whether it can be executed, and of git's settings those
    /// that make git execute or fetch something.
    File { len: u64, hash: [u8; 32], executable: bool, settings: Vec<String> },
    /// A link, and where it leads.
    Link(PathBuf),
    /// Neither, or not readable.
    Other,
}

/// Everything of interest in a workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    marks: BTreeMap<PathBuf, Mark>,
}

impl Snapshot {
    /// Looks.
    pub fn take(workspace: &Path) -> Self {
        let mut walk = Walk { root: workspace, left: ENTRIES, waiting: VecDeque::new(), marks: BTreeMap::new() };
        walk.waiting.push_back((PathBuf::new(), 0));
        while let Some((directory, depth)) = walk.waiting.pop_front() {
            walk.directory(&directory, depth);
        }
        Self { marks: walk.marks }
    }

    /// What changed until `after`, one line each, sorted by path.
    pub fn changes(&self, after: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        for (path, mark) in &after.marks {
            match self.marks.get(path) {
                None => lines.push(line("new", path, mark, None)),
                Some(before) if before != mark => lines.push(line("changed", path, mark, Some(before))),
                Some(_) => {}
            }
        }
        let gone = self.marks.iter().filter(|(path, _)| !after.marks.contains_key(*path));
        lines.extend(gone.map(|(path, mark)| line("removed", path, mark, Some(mark))));
        lines
    }
}

/// A change for people; names and settings are the agent's, so what would move a cursor is shown as what it is.
fn line(what: &str, path: &Path, now: &Mark, before: Option<&Mark>) -> String {
    let mut text = format!("{what} {}", path.display());
    match now {
        Mark::Link(to) => text.push_str(&format!(", a link to {}", to.display())),
        Mark::File { settings, .. } => {
            let old = match before {
                Some(Mark::File { settings, .. }) => settings.as_slice(),
                _ => &[],
            };
            let new: Vec<&str> = settings.iter().filter(|s| !old.contains(s)).map(String::as_str).collect();
            if !new.is_empty() {
                text.push_str(&format!(": {}", new.join("; ")));
            }
        }
        Mark::Other => {}
    }
    let mut shown: String = text.chars().map(|c| if is_hidden(c) { '?' } else { c }).take(WIDTH).collect();
    if text.chars().count() > WIDTH {
        shown.push('…');
    }
    shown
}

struct Walk<'a> {
    root: &'a Path,
    left: usize,
    waiting: VecDeque<(PathBuf, usize)>,
    marks: BTreeMap<PathBuf, Mark>,
}

impl Walk<'_> {
    /// Places of interest come first and are followed to their own end; of the rest, what is near the top.
    fn directory(&mut self, relative: &Path, depth: usize) {
        let entries = fs::read_dir(self.root.join(relative)).into_iter().flatten().flatten();
        for entry in entries.take(self.left) {
            self.left -= 1;
            let path = relative.join(entry.file_name());
            // Not that of what a link leads to.
            let Ok(kind) = entry.file_type() else { continue };
            let as_directory = rules::place(&path, true);
            if kind.is_dir() {
                match as_directory {
                    Place::Inside => self.waiting.push_front((path, depth + 1)),
                    Place::Unknown if depth < DEPTH => self.waiting.push_back((path, depth + 1)),
                    _ => {}
                }
            } else if rules::place(&path, false) == Place::Watched
                || (kind.is_symlink() && as_directory == Place::Inside)
            {
                let mark = self.mark(&path, kind.is_symlink());
                self.marks.insert(path, mark);
            }
        }
    }

    fn mark(&self, relative: &Path, is_link: bool) -> Mark {
        let path = self.root.join(relative);
        if is_link {
            return fs::read_link(path).map_or(Mark::Other, Mark::Link);
        }
        read(&path, relative).unwrap_or(Mark::Other)
    }
}

/// The directories on the way were no links when they were listed; the file is none when it is opened.
fn read(path: &Path, relative: &Path) -> Option<Mark> {
    use rustix::fs::OFlags;
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).ok()?;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let meta = file.metadata().ok().filter(fs::Metadata::is_file)?;
    let mut bytes = Vec::new();
    file.take(BYTES).read_to_end(&mut bytes).ok()?;
    let executable = meta.mode() & 0o111 != 0;
    let settings = match rules::is_git_settings(relative) {
        true => gitconfig::executing(&String::from_utf8_lossy(&bytes)),
        false => Vec::new(),
    };
    Some(Mark::File { len: meta.len(), hash: Sha256::digest(&bytes).into(), executable, settings })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn write(root: &Path, path: &str, text: &str) {
        fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
        fs::write(root.join(path), text).unwrap();
    }

    #[test]
    fn what_is_planted_is_named_and_ordinary_work_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        write(root, ".git/config", "[core]\n\tbare = false\n");
        write(root, ".git/hooks/pre-commit.sample", "x");
        write(root, ".envrc", "layout python\n");
        write(root, "src/main.rs", "");
        let before = Snapshot::take(root);
        assert_eq!(before.changes(&Snapshot::take(root)), [""; 0]);
        write(root, "src/main.rs", "fn main() {}");
        write(root, ".git/objects/ab/cd", "x");
        write(root, ".git/index", "x");
        assert_eq!(before.changes(&Snapshot::take(root)), [""; 0], "ordinary work");
        write(root, ".git/config", "[core]\n\tbare = false\n\thooksPath = .x\n\tfsmonitor = ./y\n");
        write(root, ".git/hooks/pre-commit", "evil");
        write(root, ".git/hooks/pre-commit.sample", "longer");
        write(root, "sub/.gitattributes", "* filter=x\n");
        write(root, "vendored/.git/hooks/post-checkout", "evil");
        write(root, ".vscode/tasks.json", "{}");
        fs::remove_file(root.join(".envrc")).unwrap();
        assert_eq!(
            before.changes(&Snapshot::take(root)),
            [
                "changed .git/config: core.hookspath = .x; core.fsmonitor = ./y",
                "new .git/hooks/pre-commit",
                "changed .git/hooks/pre-commit.sample",
                "new .vscode/tasks.json",
                "new sub/.gitattributes",
                "new vendored/.git/hooks/post-checkout",
                "removed .envrc",
            ]
        );
    }

    #[test]
    fn links_are_named_and_not_followed_and_pipes_do_not_block() {
        let dir = tempfile::tempdir().unwrap();
        let (root, outside) = (dir.path().join("work"), dir.path().join("outside"));
        write(&outside, "hooks/pre-push", "x");
        fs::create_dir_all(root.join(".git")).unwrap();
        let before = Snapshot::take(&root);
        symlink(outside.join("hooks"), root.join(".git/hooks")).unwrap();
        symlink(&root, root.join("loop")).unwrap();
        symlink("/etc/passwd\u{1b}[2J", root.join(".envrc")).unwrap();
        let fifo = root.join(".gitmodules");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let changes = before.changes(&Snapshot::take(&root));
        let link = format!("new .git/hooks, a link to {}", outside.join("hooks").display());
        assert_eq!(changes, ["new .envrc, a link to /etc/passwd?[2J", link.as_str(), "new .gitmodules"]);
    }

    #[test]
    fn a_mode_that_makes_a_hook_run_is_a_change() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), ".git/hooks/pre-commit", "x");
        let before = Snapshot::take(dir.path());
        let hook = dir.path().join(".git/hooks/pre-commit");
        fs::set_permissions(hook, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(before.changes(&Snapshot::take(dir.path())), ["changed .git/hooks/pre-commit"]);
    }
}
