//! The workspace and the mounts: which parts of the host the agent sees, and where.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::disk::{Disk, words};
use super::read::shorten;
use super::remote::{Given, RemoteWish, WORKSPACE_AT};
use super::repo::{MountWish, RepoFile};
use super::resolved::{ExtraMount, Workspace};
use super::target::{taken, target, unfit};
use super::value::path_finding;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::source::{Located, Place, SourceMap, Span};

/// Directories that all users of the machine share.
const SHARED: [&str; 2] = ["/tmp", "/var/tmp"];

/// What podman's storage has, wherever it is: its lock and one of these.
const STORAGE: [&str; 3] = ["libpod", "overlay-layers", "vfs-layers"];

/// The parts of the host that must not be visible inside.
pub(super) struct Guarded {
    /// `$XDG_RUNTIME_DIR`, canonical.
    pub(super) runtime: Option<PathBuf>,
    /// podman's usual storage, canonical.
    pub(super) storage: Option<PathBuf>,
    /// `$HOME`, canonical.
    pub(super) home: Option<PathBuf>,
    /// The allow file and the server file, canonical, with a description of each.
    pub(super) files: Vec<(&'static str, PathBuf)>,
}

impl Guarded {
    /// Why a directory may not be given to the agent, if so.
    fn objection(&self, real: &Path) -> Option<String> {
        if real == Path::new("/") {
            return Some("it is the root of the file system".to_owned());
        }
        if let Some(home) = self.home.as_ref().filter(|home| home.starts_with(real)) {
            let what = if home == real { "is" } else { "holds" };
            return Some(format!("it {what} your home directory"));
        }
        if self.runtime.as_ref().is_some_and(|runtime| runtime.starts_with(real)) {
            return Some("it holds the sockets of your login session".to_owned());
        }
        if self.storage.as_ref().is_some_and(|storage| storage.starts_with(real)) {
            return Some("it holds podman's storage".to_owned());
        }
        let (what, file) = self.files.iter().find(|(_, file)| file.starts_with(real))?;
        Some(format!("it holds {what}, `{}`", file.display()))
    }
}

/// The input of both readers below.
pub(super) struct Ground<'a> {
    pub(super) repo_dir: &'a Path,
    /// `.sandboxc/`, where relative sources start.
    pub(super) config_dir: PathBuf,
    pub(super) guarded: Guarded,
    /// The server's `allow_mounts`, canonical.
    pub(super) allowed: Vec<PathBuf>,
    /// git's system and user config files.
    pub(super) git_files: Vec<PathBuf>,
    /// The repo by URL whose conversation this is.
    pub(super) owner: Option<&'a RemoteWish>,
    pub(super) disk: &'a dyn Disk,
    pub(super) sources: &'a SourceMap,
}

impl Ground<'_> {
    /// Reads the workspace.
    pub(super) fn workspace(&self, repo: &RepoFile, d: &mut Diagnostics) -> Option<Workspace> {
        let mut good = true;
        let shared = SHARED.iter().find(|shared| self.repo_dir == Path::new(shared));
        let shared = shared.map(|_| "all users of this machine share it".to_owned());
        let inside = || self.storage_around(self.repo_dir).map(|_| "it is inside podman's storage".to_owned());
        if let Some(why) = shared.or_else(|| self.guarded.objection(self.repo_dir)).or_else(inside) {
            good = false;
            d.push(
                Diagnostic::new(
                    Code::WorkspaceRefused,
                    format!("`{}` cannot be a workspace: {why}", self.repo_dir.display()),
                )
                .help("run from the directory of a single project, and keep the files that limit it elsewhere"),
            );
        }
        if let Some(problem) = unfit(self.repo_dir) {
            d.push(
                Diagnostic::new(
                    Code::WorkspaceRefused,
                    format!("`{}` cannot be a workspace: {problem}", self.repo_dir.display()),
                )
                .help("rename the directory"),
            );
            return None;
        }
        let source = self.repo_dir.to_path_buf();
        let (target, from) = match &repo.workspace_target {
            Some(text) => (target(text, d)?, self.sources.place(text.span)),
            None => match self.owner {
                Some(remote) => (WORKSPACE_AT.into(), self.sources.place(remote.span())),
                None => (self.same_path(d)?, Place::built_in()),
            },
        };
        good.then_some(Workspace { read_only: repo.workspace_read_only, ..Workspace::new(source, target, from) })
    }

    /// podman's storage, if a directory is inside of it.
    fn storage_around(&self, real: &Path) -> Option<PathBuf> {
        let is_storage = |dir: &&Path| {
            self.guarded.storage.as_deref() == Some(dir)
                || (self.disk.exists(&dir.join("storage.lock"))
                    && STORAGE.iter().any(|name| self.disk.exists(&dir.join(name))))
        };
        real.ancestors().find(is_storage).map(Path::to_path_buf)
    }

    fn same_path(&self, d: &mut Diagnostics) -> Option<PathBuf> {
        let Some(problem) = taken(self.repo_dir) else { return Some(self.repo_dir.to_path_buf()) };
        d.push(
            Diagnostic::new(Code::BadPath, format!("the workspace cannot be at the same path inside: {problem}"))
                .help("add `workspace: {target: /workspace}` to .sandboxc/sandbox.yaml, or move the directory"),
        );
        None
    }

    /// Reads the mounts, sorted by target.
    pub(super) fn mounts(
        &self,
        repo: &RepoFile,
        workspace: Option<&Workspace>,
        d: &mut Diagnostics,
    ) -> Vec<ExtraMount> {
        let mut mounts = self.given(d);
        for wish in &repo.mounts {
            let (source, target) = (self.source(wish, d), target(&wish.target, d));
            if let (Some(source), Some(target)) = (source, target) {
                let from = self.sources.place(wish.span);
                mounts.push((ExtraMount { target, source, read_only: wish.read_only, from }, wish.target.span));
            }
        }
        // By target, so that a mount comes after the one that contains it.
        mounts.sort_by(|(a, _), (b, _)| a.target.cmp(&b.target));
        conflicts(&mounts, workspace, repo, d);
        mounts.into_iter().map(|(mount, _)| mount).collect()
    }

    /// What a conversation gets from the server file: its own directories, and tools.
    fn given(&self, d: &mut Diagnostics) -> Vec<(ExtraMount, Span)> {
        let dir = self.repo_dir.parent().unwrap_or(self.repo_dir);
        let given = self.owner.map(|remote| remote.given(dir)).unwrap_or_default();
        let mut mounts = Vec::new();
        for Given { source, target, read_only, span, is_tool } in given {
            let from = self.sources.place(span);
            let source = if is_tool { self.tool(&source, span, d) } else { Some(source) };
            if let Some(source) = source {
                mounts.push((ExtraMount { target: target.to_owned(), source, read_only, from }, span));
            }
        }
        mounts
    }

    /// A file or directory of the host that the owner of the machine gives. A link is followed here, and never again.
    fn tool(&self, source: &Path, span: Span, d: &mut Diagnostics) -> Option<PathBuf> {
        let refuse = |why: &str, help: &str| {
            let message = format!("`{}` cannot be mounted: {why}", shorten(&source.display().to_string()));
            path_finding(&message, span, help)
        };
        let real = match self.disk.canonical(source) {
            Ok(real) => real,
            Err(error) => {
                d.push(refuse(&words(&error), "install the tool, or correct its path"));
                return None;
            }
        };
        let why = unfit(&real).map(str::to_owned).or_else(|| self.guarded.objection(&real));
        let why = why.or_else(|| self.storage_around(&real).map(|_| "it belongs to podman's storage".to_owned()));
        match why {
            None => Some(real),
            Some(why) => {
                d.push(refuse(&why, "name the directory of the tool alone"));
                None
            }
        }
    }

    /// The directory that this user cannot enter on the way to a path.
    fn closed(&self, path: &Path) -> Option<PathBuf> {
        path.ancestors().skip(1).find_map(|dir| self.disk.canonical(dir).ok())
    }

    fn source(&self, wish: &MountWish, d: &mut Diagnostics) -> Option<PathBuf> {
        let Located { value: text, span } = &wish.source;
        let shown = shorten(text);
        let help = "write an absolute path, or one relative to `.sandboxc/`";
        if text.starts_with('~') || text.contains('$') {
            d.push(path_finding("`~` and `$` are not expanded in paths", *span, help));
            return None;
        }
        if text.is_empty() || text.chars().any(char::is_control) {
            d.push(path_finding("the path is empty or contains a control character", *span, help));
            return None;
        }
        let real = match self.disk.canonical(&self.config_dir.join(text)) {
            Ok(real) => real,
            Err(error) => {
                let message = format!("`{shown}` cannot be mounted: {}", words(&error));
                let help = match self
                    .closed(&self.config_dir.join(text))
                    .filter(|_| error.kind() == ErrorKind::PermissionDenied)
                {
                    Some(dir) => format!(
                        "you may not search `{}`: ask its owner, or mount a directory that you can read",
                        dir.display()
                    ),
                    None => "create it first, or remove the mount".to_owned(),
                };
                d.push(path_finding(&message, *span, &help));
                return None;
            }
        };
        if let Some(problem) = unfit(&real) {
            d.push(path_finding(
                &format!("`{shown}` cannot be mounted: {problem}"),
                *span,
                "rename it, or mount another directory",
            ));
            return None;
        }
        let refuse = |why: &str| {
            Diagnostic::new(Code::MountRefused, format!("`{shown}` may not be mounted: {why}")).at(*span, "")
        };
        if let Some(why) = self.guarded.objection(&real) {
            d.push(refuse(&why).help("mount only the directory you need, not a parent of it"));
            return None;
        }
        let is_volume = |path: &Path| {
            let mut parts = path.iter();
            parts.next().is_some_and(|part| part == "volumes") && parts.nth(1).is_some_and(|part| part == "_data")
        };
        let storage = self.storage_around(&real).and_then(|storage| real.strip_prefix(storage).ok());
        if storage.is_some_and(|below| !is_volume(below)) {
            let help = "mount the directory of a volume, `volumes/NAME/_data`, or another directory";
            d.push(refuse("it belongs to podman's storage").help(help));
            return None;
        }
        let open = real.starts_with(self.repo_dir) || self.allowed.iter().any(|allowed| real.starts_with(allowed));
        if !open {
            let help = format!("to permit it, add `allow_mounts: [\"{}\"]` to this repo's entry", real.display());
            d.push(refuse("it lies outside the workspace").help(help));
            return None;
        }
        Some(real)
    }
}

fn conflicts(mounts: &[(ExtraMount, Span)], workspace: Option<&Workspace>, repo: &RepoFile, d: &mut Diagnostics) {
    let by_target: BTreeMap<&Path, &(ExtraMount, Span)> = mounts.iter().map(|m| (m.0.target.as_path(), m)).collect();
    let conflict = |message: String, span: Span| Diagnostic::new(Code::MountConflict, message).at(span, "");
    for (index, (mount, span)) in mounts.iter().enumerate() {
        let target = mount.target.display();
        if let Some(workspace) = workspace {
            let also = |f: Diagnostic| match &repo.workspace_target {
                Some(text) => f.at(text.span, "the workspace"),
                None => f,
            };
            if workspace.target.starts_with(&mount.target) {
                d.push(
                    also(conflict(format!("a mount at `{target}` would hide the workspace"), *span))
                        .help("choose another target"),
                );
            } else if workspace.read_only && mount.target.starts_with(&workspace.target) {
                let finding = conflict(format!("`{target}` is inside the workspace, which is read-only"), *span);
                d.push(also(finding).help("choose a target outside the workspace"));
            }
        }
        let previous = index.checked_sub(1).and_then(|i| mounts.get(i)).filter(|(m, _)| m.target == mount.target);
        let around = || mount.target.ancestors().skip(1).find_map(|p| by_target.get(p).filter(|(m, _)| m.read_only));
        if let Some((_, other)) = previous {
            d.push(
                conflict(format!("two mounts at `{target}`"), *span)
                    .at(*other, "the other one")
                    .help("choose another target"),
            );
        } else if let Some((_, other)) = around() {
            let finding =
                conflict(format!("`{target}` is inside a mount that is read-only"), *span).at(*other, "this one");
            d.push(finding.help("choose a target outside it"));
        }
    }
}
