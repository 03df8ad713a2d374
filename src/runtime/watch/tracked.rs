//! Directories in which a user may call git, none of which may become a repository of its own; and gitlinks, whose
//! repositories `git status` enters.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use super::place::Broken;
use super::{rules, shown, shown_path};
use crate::config::disk::{Kind, Seen, Tree, seen_at};
use crate::config::git::read_index;
use crate::config::{Repository, Workspace};

/// How many directories are watched.
const DIRECTORIES: usize = 8192;

/// How many gitlinks are checked.
const LINKS: usize = 4096;

/// A directory that existed before.
#[derive(Debug)]
pub(super) struct Tracked {
    /// Relative to the workspace.
    pub(super) path: PathBuf,
    seen: Seen,
    /// Whether it had a `.git`.
    had_git: bool,
    /// Which of [`rules::SHAPE`] it had.
    had: Vec<&'static str>,
    broken: bool,
}

impl Tracked {
    /// The workspace and the directories with tracked files, or, without tracked files, those near the top. Those
    /// nearest to the top come first.
    pub(super) fn all(tree: &Tree, workspace: &Workspace) -> Vec<Self> {
        let mut paths = BTreeSet::new();
        for repository in &workspace.repositories {
            let Some(worktree) = &repository.worktree else { continue };
            let index = read_index(tree, &repository.git_dir, repository.sha256).unwrap_or_default();
            paths.extend(index.directories.into_iter().map(|path| worktree.join(path)));
            paths.insert(worktree.clone());
        }
        if paths.len() < 2 {
            near(tree, &mut paths);
        }
        paths.insert(PathBuf::new());
        let mut paths: Vec<PathBuf> = paths.into_iter().collect();
        paths.sort_by_key(|path| path.components().count());
        paths.truncate(DIRECTORIES);
        paths.into_iter().filter_map(|path| Self::new(tree, path)).collect()
    }

    fn new(tree: &Tree, path: PathBuf) -> Option<Self> {
        let seen = tree.look(&path).ok().flatten().filter(|seen| seen.kind == Kind::Directory)?;
        let directory = tree.directory(&path).ok()?;
        let had_git = has(&directory, ".git");
        let had = rules::SHAPE.into_iter().filter(|name| has(&directory, name)).collect();
        Some(Self { path, seen, had_git, had, broken: false })
    }

    /// Whether this name must not appear in it.
    pub(super) fn forbids(&self, name: &std::ffi::OsStr) -> bool {
        name == ".git" && !self.had_git
    }

    /// Checks whether it has become a repository.
    pub(super) fn check(&mut self, tree: &Tree) -> Option<Broken> {
        // A different directory has its name, and no user is in that one yet.
        tree.look(&self.path).ok().flatten().filter(|seen| seen.id == self.seen.id)?;
        let directory = tree.directory(&self.path).ok()?;
        let path = shown(&shown_path(&self.path));
        let (what, aside) = if !self.had_git && has(&directory, ".git") {
            (format!("`.git` appeared in `{path}`; git on this host would act on it"), ".git")
        } else {
            let now: Vec<&str> = rules::SHAPE.into_iter().filter(|name| has(&directory, name)).collect();
            let is = |names: &[&str]| rules::is_repository(|name| names.contains(&name));
            if !is(&now) || is(&self.had) {
                return None;
            }
            let new = now.iter().find(|name| !self.had.contains(name)).unwrap_or(&"HEAD");
            (format!("`{path}` became a git repository; git on this host would act on it"), *new)
        };
        let aside = self.path.join(aside);
        let what = if self.broken { String::new() } else { what };
        self.broken = true;
        Some(Broken { what, aside })
    }
}

fn has(directory: &OwnedFd, name: &str) -> bool {
    seen_at(directory, name).is_ok()
}

/// Directories at most two levels below the workspace.
fn near(tree: &Tree, paths: &mut BTreeSet<PathBuf>) {
    let mut waiting = vec![PathBuf::new()];
    while let Some(path) = waiting.pop() {
        let listing = tree.names(&path, DIRECTORIES).unwrap_or_default();
        for (name, _) in listing.names.into_iter().filter(|(name, kind)| *kind == Kind::Directory && name != ".git") {
            let inner = path.join(name);
            if inner.components().count() < 2 {
                waiting.push(inner.clone());
            }
            if paths.len() < DIRECTORIES {
                paths.insert(inner);
            }
        }
    }
}

/// The gitlinks of all repositories.
#[derive(Debug)]
pub(super) struct Gitlinks {
    repositories: Vec<Repository>,
    /// Gitlinks that existed before. Their repositories are protected, or their `.git` is watched.
    before: BTreeSet<PathBuf>,
    /// New gitlinks, whose `.git` must not exist.
    pub(super) new: BTreeSet<PathBuf>,
    told: BTreeSet<PathBuf>,
    /// Why the list may be incomplete.
    pub(super) unknown: Option<String>,
}

impl Gitlinks {
    pub(super) fn new(tree: &Tree, workspace: &Workspace) -> Self {
        let repositories = workspace.repositories.clone();
        let (before, new, told) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut links = Self { repositories, before, new, told, unknown: None };
        links.before = links.listed(tree);
        links
    }

    /// Directories that have an index.
    pub(super) fn directories(&self) -> impl Iterator<Item = &Path> {
        self.repositories.iter().filter(|r| r.worktree.is_some()).map(|r| r.git_dir.as_path())
    }

    /// Reads the indexes again.
    pub(super) fn read(&mut self, tree: &Tree) {
        let listed = self.listed(tree);
        self.new.extend(listed.difference(&self.before).cloned());
        if self.new.len() > LINKS {
            self.unknown = Some(format!("more than {LINKS} gitlinks were added to the index"));
            self.new = std::mem::take(&mut self.new).into_iter().take(LINKS).collect();
        }
    }

    fn listed(&mut self, tree: &Tree) -> BTreeSet<PathBuf> {
        let (mut all, mut unknown) = (BTreeSet::new(), None);
        for repository in &self.repositories {
            let Some(worktree) = &repository.worktree else { continue };
            match read_index(tree, &repository.git_dir, repository.sha256) {
                Ok(index) => all.extend(index.gitlinks.into_iter().map(|path| worktree.join(path))),
                Err(why) => {
                    let index = repository.git_dir.join("index");
                    unknown = Some(format!("cannot read `{}`: {why}", shown(&index.display().to_string())));
                }
            }
        }
        self.unknown = unknown;
        all
    }

    /// Checks which new gitlinks have a repository by now.
    pub(super) fn check(&mut self, tree: &Tree) -> Option<Broken> {
        let is_there = |path: &&PathBuf| matches!(tree.look(&path.join(".git")), Ok(Some(_)));
        let path = self.new.iter().find(is_there)?.clone();
        let shown_path = shown(&path.display().to_string());
        let what =
            format!("the gitlink `{shown_path}` was added to the index; git on this host would act on its `.git`");
        let what = if self.told.insert(path.clone()) { what } else { String::new() };
        Some(Broken { what, aside: path.join(".git") })
    }
}
