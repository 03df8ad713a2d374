//! Finds everything in a workspace that git on this host uses.
//!
//! git is not called, since a stranger controls the workspace. Starting at the workspace, this finds repositories,
//! their settings with all included files, hooks, the pointers between repositories, and gitlinks. If git would choose
//! (the condition of an `includeIf`, the last of several values), all choices count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::executing::is_unasked;
use super::index::read_index;
use super::plain;
use super::syntax::{Setting, settings};
use crate::config::disk::{Disk, Kind, Tree, words};
use crate::config::read::shorten;
use crate::config::resolved::{Repository, Stand};

/// The maximum number of repositories.
const REPOSITORIES: usize = 256;

/// The maximum number of config files, counting the user's once per repository.
const CONFIGS: usize = 2048;

/// The maximum number of words in commands that are looked up.
const COMMANDS: usize = 4096;

/// The maximum number of names in a directory below `modules` or `worktrees`.
const NAMES: usize = 4096;

/// The maximum size of a config file.
const CONFIG_BYTES: u64 = 1 << 20;

/// How to protect a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::config) enum Want {
    /// Keep it as it is, if it exists.
    IfThere,
    /// Keep it as it is; if it does not exist, the command must not create it.
    Watched,
    /// Keep it as it is; if it does not exist, create an empty one, which does not change anything for git.
    Held(Stand),
}

/// Everything that git uses in a workspace.
#[derive(Debug, Default)]
pub(in crate::config) struct Uses {
    /// Paths in the workspace.
    pub(in crate::config) paths: BTreeMap<PathBuf, Want>,
    /// The repositories.
    pub(in crate::config) repositories: Vec<Repository>,
    /// What could not be examined, and why.
    pub(in crate::config) unknown: Vec<String>,
}

/// Where to find git's own settings.
pub(in crate::config) struct Around<'a> {
    pub(in crate::config) disk: &'a dyn Disk,
    /// The workspace, canonical.
    pub(in crate::config) root: &'a Path,
    /// `$HOME`, canonical.
    pub(in crate::config) home: Option<&'a Path>,
    /// The user's and the system's config files.
    pub(in crate::config) global: &'a [PathBuf],
}

/// Finds everything.
pub(in crate::config) fn uses(around: &Around<'_>) -> Uses {
    let tree = match around.disk.tree(around.root) {
        Ok(tree) => tree,
        Err(error) => return Uses { unknown: vec![format!("the workspace: {}", words(&error))], ..Uses::default() },
    };
    let mut finder =
        Finder { around, tree: &tree, found: Uses::default(), configs: 0, commands: 0, worktrees: BTreeSet::new() };
    finder.worktree(Path::new(""));
    if finder.commands > COMMANDS {
        finder.found.unknown.push(format!("more than {COMMANDS} words of commands in git's settings"));
    }
    finder.found
}

struct Finder<'a> {
    around: &'a Around<'a>,
    tree: &'a Tree,
    found: Uses,
    /// Config files that were read.
    configs: usize,
    /// Words of commands that were looked up.
    commands: usize,
    worktrees: BTreeSet<PathBuf>,
}

/// Where relative paths of a setting start.
#[derive(Clone, Copy)]
struct Scope<'a> {
    /// The worktree, absolute.
    worktree: Option<&'a Path>,
    /// The repository, if there is no worktree.
    bare: Option<&'a Path>,
}

/// What a repository's settings say about itself.
#[derive(Default)]
struct Said {
    worktree: Option<String>,
    worktree_config: bool,
    sha256: bool,
}

impl Finder<'_> {
    fn want(&mut self, path: PathBuf, want: Want) {
        let all = &mut self.found.paths;
        let stronger = all.get(&path).is_none_or(|known| *known < want);
        if stronger {
            all.insert(path, want);
        }
    }

    fn unknown(&mut self, path: &Path, why: &str) {
        self.found.unknown.push(format!("`{}`: {why}", shorten(&path.display().to_string())));
    }

    fn kind(&mut self, path: &Path) -> Option<Kind> {
        match self.tree.look(path) {
            Ok(seen) => seen.map(|seen| seen.kind),
            // There is a link on the way, which is reported for the path itself.
            Err(_) => Some(Kind::Link),
        }
    }

    /// A directory in which git may be called: the workspace, or the target of a gitlink.
    fn worktree(&mut self, worktree: &Path) {
        if !self.worktrees.insert(worktree.to_owned()) {
            return;
        }
        let dot_git = worktree.join(".git");
        let is_root = worktree.as_os_str().is_empty();
        match self.kind(&dot_git) {
            None if is_root => {
                self.want(dot_git, Want::Held(Stand::Directory));
                if self.is_bare(worktree) {
                    self.repository(Path::new(""), None);
                } else {
                    // The repository may be one around the workspace. The command cannot reach its settings, but may
                    // affect what the user's settings name.
                    let root = self.around.root;
                    self.config(None, Scope { worktree: Some(root), bare: None });
                }
            }
            // A name that an earlier session reserved is no repository, and the next one reserves it again.
            Some(Kind::Directory) if is_root && self.is_empty(&dot_git) => {
                self.want(dot_git, Want::Held(Stand::Directory));
            }
            Some(Kind::Directory) => self.repository(&dot_git, Some(worktree.to_owned())),
            Some(Kind::File) => {
                self.want(dot_git.clone(), Want::IfThere);
                if let Some(git_dir) = self.pointer(&dot_git, "gitdir:", worktree) {
                    self.repository(&git_dir, Some(worktree.to_owned()));
                }
            }
            None | Some(Kind::Link | Kind::Other) => self.want(dot_git, Want::Watched),
        }
    }

    fn is_empty(&self, directory: &Path) -> bool {
        self.tree.names(directory, 1).is_ok_and(|listing| listing.names.is_empty())
    }

    /// Whether git would treat this as a repository (`is_git_directory`).
    fn is_bare(&mut self, directory: &Path) -> bool {
        let mut has = |name: &str| self.kind(&directory.join(name)).is_some();
        has("HEAD") && (has("commondir") || (has("objects") && has("refs")))
    }

    /// The target of a one-line file, if it is inside the workspace.
    fn pointer(&mut self, file: &Path, before: &str, base: &Path) -> Option<PathBuf> {
        let text = match self.tree.read(file, CONFIG_BYTES) {
            Ok(bytes) => String::from_utf8(bytes).ok()?,
            Err(error) => {
                self.unknown(file, &words(&error));
                return None;
            }
        };
        let path = text.strip_prefix(before)?.trim_start_matches(' ').trim_end_matches(['\n', '\r']);
        let path = plain(&self.around.root.join(base).join(path));
        path.strip_prefix(self.around.root).map(Path::to_owned).ok()
    }

    fn repository(&mut self, git_dir: &Path, worktree: Option<PathBuf>) {
        if self.found.repositories.iter().any(|known| known.git_dir == git_dir) {
            return;
        }
        if self.found.repositories.len() == REPOSITORIES {
            return self.unknown(git_dir, &format!("more than {REPOSITORIES} repositories"));
        }
        // Recorded first, so that repositories that refer to each other are examined once.
        let at = self.found.repositories.len();
        let placeholder = Repository { git_dir: git_dir.to_owned(), worktree: worktree.clone(), sha256: false };
        self.found.repositories.push(placeholder);
        let mut common = git_dir.to_owned();
        let commondir = git_dir.join("commondir");
        self.want(commondir.clone(), Want::Watched);
        if self.kind(&commondir) == Some(Kind::File) {
            match self.pointer(&commondir, "", git_dir) {
                Some(inside) => common = inside,
                None => return,
            }
        }
        let said = self.said(git_dir, &common);
        let root = self.around.root;
        let said_worktree = said.worktree.as_deref().map(|path| plain(&root.join(git_dir).join(path)));
        let worktree = worktree.or_else(|| said_worktree?.strip_prefix(root).ok().map(Path::to_owned));
        self.settings(git_dir, &common, worktree.as_deref(), said.worktree_config);
        if let Some(repository) = self.found.repositories.get_mut(at) {
            *repository = Repository { git_dir: git_dir.to_owned(), worktree: worktree.clone(), sha256: said.sha256 };
        }
        self.gitlinks(git_dir, worktree.as_deref(), said.sha256);
        for holder in BTreeSet::from([git_dir, common.as_path()]) {
            self.modules(&holder.join("modules"), 0);
            self.linked_worktrees(&holder.join("worktrees"), said.worktree_config);
        }
    }

    /// What a repository's own files say about it.
    fn said(&mut self, git_dir: &Path, common: &Path) -> Said {
        let mut said = Said::default();
        let root = self.around.root;
        let own = self.text(&root.join(common).join("config")).unwrap_or_default();
        for setting in settings(&own) {
            said.hear(&setting);
        }
        if said.worktree_config {
            let more = self.text(&root.join(git_dir).join("config.worktree")).unwrap_or_default();
            for setting in settings(&more) {
                said.hear(&setting);
            }
        }
        said
    }

    /// Config, hooks and everything that they name.
    fn settings(&mut self, git_dir: &Path, common: &Path, worktree: Option<&Path>, has_own: bool) {
        self.want(common.join("config"), Want::Held(Stand::File));
        self.want(common.join("hooks"), Want::Held(Stand::Directory));
        let root = self.around.root;
        let (bare, worktree) = (root.join(git_dir), worktree.map(|path| root.join(path)));
        let scope = Scope { worktree: worktree.as_deref(), bare: Some(&bare) };
        self.config(Some(&root.join(common).join("config")), scope);
        if has_own {
            let own = git_dir.join("config.worktree");
            self.want(own.clone(), Want::Held(Stand::File));
            self.config(Some(&root.join(own)), scope);
        }
    }

    /// Reads the user's config, a repository's own, and what they include. Paths are absolute.
    fn config(&mut self, own: Option<&Path>, scope: Scope<'_>) {
        let mut done = BTreeSet::new();
        let mut waiting = self.around.global.to_vec();
        waiting.extend(own.map(Path::to_owned));
        while let Some(path) = waiting.pop() {
            if !done.insert(path.clone()) {
                continue;
            }
            self.configs += 1;
            if self.configs > CONFIGS {
                self.unknown(&path, &format!("more than {CONFIGS} config files"));
                break;
            }
            let Some(text) = self.text(&path) else { continue };
            for setting in settings(&text) {
                if (setting.section == "include" || setting.section == "includeif") && setting.name == "path" {
                    waiting.extend(self.include(&setting.value, path.parent().unwrap_or(Path::new("/"))));
                } else {
                    self.setting(&setting, scope);
                }
            }
        }
    }

    fn text(&mut self, path: &Path) -> Option<String> {
        let bytes = match path.strip_prefix(self.around.root) {
            Ok(inside) if self.kind(inside) == Some(Kind::File) => self.tree.read(inside, CONFIG_BYTES),
            Ok(_) => return None,
            Err(_) => self.around.disk.read(path),
        };
        match bytes {
            Ok(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => {
                self.unknown(path, &words(&error));
                None
            }
        }
    }

    fn include(&mut self, value: &str, base: &Path) -> Option<PathBuf> {
        let path = self.expand(value, base)?;
        if let Ok(inside) = path.strip_prefix(self.around.root) {
            self.want(inside.to_owned(), Want::Watched);
        }
        Some(path)
    }

    /// Resolves a path as git does: `~/` is the home directory, relative paths start at `base`.
    fn expand(&self, value: &str, base: &Path) -> Option<PathBuf> {
        match value.strip_prefix("~/") {
            Some(rest) => Some(plain(&self.around.home?.join(rest))),
            None if value.starts_with('~') || value.is_empty() => None,
            None => Some(plain(&base.join(value))),
        }
    }

    fn setting(&mut self, setting: &Setting, scope: Scope<'_>) {
        let Some(base) = scope.worktree.or(scope.bare) else { return };
        let directory = setting.is("core", "hookspath") || setting.is("init", "templatedir");
        if directory {
            let path = self.expand(&setting.value, base);
            if let Some(inside) = path.as_deref().and_then(|path| path.strip_prefix(self.around.root).ok()) {
                let want = if setting.name == "hookspath" { Want::Held(Stand::Directory) } else { Want::IfThere };
                self.want(inside.to_owned(), want);
            }
        } else if is_unasked(setting) {
            self.command(&setting.value, base);
        }
    }

    /// The files of the workspace that a command line names, which git executes.
    fn command(&mut self, value: &str, base: &Path) {
        for word in
            value.split(|c: char| c.is_whitespace() || "!\"'();&|<>=".contains(c)).filter(|word| !word.is_empty())
        {
            self.commands += 1;
            if self.commands > COMMANDS {
                return;
            }
            let Some(path) = self.expand(word, base) else { continue };
            let Ok(inside) = path.strip_prefix(self.around.root) else { continue };
            if !inside.as_os_str().is_empty() && self.kind(inside) == Some(Kind::File) {
                self.want(inside.to_owned(), Want::IfThere);
            }
        }
    }

    /// `git status` enters the repositories that the index names.
    fn gitlinks(&mut self, git_dir: &Path, worktree: Option<&Path>, sha256: bool) {
        let Some(worktree) = worktree else { return };
        match read_index(self.tree, git_dir, sha256) {
            Ok(index) => {
                for link in index.gitlinks {
                    self.worktree(&plain(&worktree.join(link)));
                }
            }
            Err(why) => self.unknown(&git_dir.join("index"), &why),
        }
    }

    /// Submodules' repositories, whose names may contain slashes.
    fn modules(&mut self, directory: &Path, depth: usize) {
        for name in self.directories(directory) {
            let path = directory.join(name);
            if self.kind(&path.join("config")).is_some() || self.kind(&path.join("HEAD")).is_some() {
                self.repository(&path, None);
            } else if depth < 16 {
                self.modules(&path, depth + 1);
            } else {
                self.unknown(&path, "too deep");
            }
        }
    }

    /// Worktrees outside of the workspace whose repository is inside. The command may create and remove those inside.
    fn linked_worktrees(&mut self, directory: &Path, has_config: bool) {
        for name in self.directories(directory) {
            let path = directory.join(name);
            let pointer = path.join("gitdir");
            if self.kind(&pointer) == Some(Kind::File) && self.pointer(&pointer, "", &path).is_some() {
                continue;
            }
            self.want(pointer, Want::Watched);
            self.want(path.join("commondir"), Want::Watched);
            if has_config {
                self.want(path.join("config.worktree"), Want::Held(Stand::File));
            }
            self.modules(&path.join("modules"), 0);
        }
    }

    fn directories(&mut self, path: &Path) -> Vec<PathBuf> {
        if self.kind(path) != Some(Kind::Directory) {
            return Vec::new();
        }
        match self.tree.names(path, NAMES) {
            Ok(listing) => {
                if !listing.complete {
                    self.unknown(path, &format!("more than {NAMES} names"));
                }
                let all = listing.names.into_iter().filter(|(_, kind)| *kind == Kind::Directory);
                all.map(|(name, _)| PathBuf::from(name)).collect()
            }
            Err(error) => {
                self.unknown(path, &words(&error));
                Vec::new()
            }
        }
    }
}

impl Said {
    fn hear(&mut self, setting: &Setting) {
        if setting.is("core", "worktree") {
            self.worktree = Some(setting.value.clone());
        } else if setting.is("extensions", "worktreeconfig") {
            self.worktree_config |= !["false", "no", "off", "0", ""].contains(&setting.value.as_str());
        } else if setting.is("extensions", "objectformat") {
            self.sha256 = setting.value == "sha256";
        }
    }
}
