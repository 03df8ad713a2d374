//! Read-only parts of the workspace: what the host would later execute or act on.
//!
//! What git uses (`git::uses`) and `.sandboxc` are built in. The repo file, `defaults` and the entry in force add to
//! the list; entries cannot be removed. What does not exist cannot be mounted over. If an empty file or directory does
//! not change anything for the host, it is created; otherwise a runner watches the name. Paths that users list must
//! exist, except those in `defaults`.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::compiled;
use super::disk::{Kind, Tree, words};
use super::git::{self, Around, Uses, Want};
use super::mounts::Ground;
use super::read::shorten;
use super::repo::{MountWish, RepoFile};
use super::resolved::{ExtraMount, Protected, Stand, Workspace};
use super::value::path_finding;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::source::{Located, Place};

/// How many files below protected parts are checked for hard links.
const NAMES: usize = 50_000;

/// How many files with hard links are reported one by one.
const TOLD: usize = 10;

/// Where a list of paths is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// The repo file or the server's entry, for this workspace.
    Name,
    /// The server's `defaults`, for all workspaces.
    Defaults,
}

/// Finds the protected parts of a workspace, sorted, none inside another, and the names to watch.
pub(super) fn protect<'a>(
    ground: &Ground<'_>,
    workspace: &mut Workspace,
    asked: impl Iterator<Item = (By, &'a Located<String>)>,
    d: &mut Diagnostics,
) {
    let tree = match ground.disk.tree(ground.repo_dir) {
        Ok(tree) => tree,
        Err(error) => {
            let message = format!("the workspace cannot be opened: {}", words(&error));
            return d
                .push(Diagnostic::new(Code::WorkspaceRefused, message).help("it must be a directory you can read"));
        }
    };
    let around = Around {
        disk: ground.disk,
        root: ground.repo_dir,
        home: ground.guarded.home.as_deref(),
        global: &ground.git_files,
    };
    // Nobody on the host runs git in a conversation's workspace, and nothing in it decides anything.
    let is_used = ground.owner.is_none();
    let Uses { mut paths, repositories, unknown } = if is_used { git::uses(&around) } else { Uses::default() };
    let (trees, whole) = if is_used { compiled::trees(&tree) } else { (Vec::new(), true) };
    if is_used {
        paths.insert(super::REPO_DIR.into(), Want::Held(Stand::Directory));
    }
    for path in trees {
        // Names that cannot be mounted.
        if path.to_str().is_some_and(|text| !text.contains(|c: char| c == ':' || c.is_control())) {
            paths.entry(path).or_insert(Want::IfThere);
        } else {
            let shown = shorten(&path.display().to_string());
            let message = format!("`{shown}` contains a compiled sandbox, and its name cannot be mounted");
            d.push(Diagnostic::new(Code::Unprotected, message).help("rename it, or remove it"));
        }
    }
    if !whole {
        let message = "the workspace has too many names to find the sandboxes that were compiled into it";
        d.push(
            Diagnostic::new(Code::Unprotected, message)
                .help("if there are any, list their directories under `protect`"),
        );
    }
    workspace.repositories = repositories;
    let mut parts = Vec::new();
    for (path, want) in paths {
        match built_in(&tree, workspace, &path, want) {
            Is::Held(stand_in) => parts.push(Protected { path, stand_in, from: Place::built_in() }),
            Is::Watched => workspace.watched.push(path),
            Is::Nothing => {}
            Is::Unprotected(message) => {
                d.push(
                    Diagnostic::new(Code::Unprotected, message)
                        .help("check it, and put a file or directory in its place, or change git's setting"),
                );
                workspace.watched.push(path);
            }
        }
    }
    for what in unknown {
        let message = format!("git on this host may use files of the workspace that could not be checked: {what}");
        d.push(Diagnostic::new(Code::Unprotected, message).help("they stay writable: check them before you use git"));
    }
    for (by, text) in asked {
        if let Some(path) = named(&tree, by, text, d) {
            parts.push(Protected { path, stand_in: None, from: ground.sources.place(text.span) });
        }
    }
    parts.sort_by(|a, b| a.path.cmp(&b.path));
    parts.dedup_by(|later, kept| later.path.starts_with(&kept.path));
    other_names(&tree, &parts, d);
    workspace.protect = parts;
}

/// How to protect a built-in path.
enum Is {
    Held(Option<Stand>),
    Watched,
    Nothing,
    Unprotected(String),
}

fn built_in(tree: &Tree, workspace: &Workspace, path: &Path, want: Want) -> Is {
    let shown = shorten(&path.display().to_string());
    let whole = path.as_os_str().is_empty() || workspace.repositories.iter().any(|r| r.git_dir.starts_with(path));
    if let Some(link) = tree.first_link(path) {
        return Is::Unprotected(format!(
            "`{shown}` cannot be protected: `{}` is a symbolic link, which the command could change",
            shorten(&link.display().to_string())
        ));
    }
    let kind = match tree.look(path) {
        Ok(seen) => seen.map(|seen| seen.kind),
        Err(error) => return Is::Unprotected(format!("`{shown}` cannot be protected: {}", words(&error))),
    };
    match (kind, want) {
        (None, Want::IfThere) => Is::Nothing,
        (None, Want::Held(_)) if workspace.read_only => Is::Nothing,
        (None, Want::Held(stand)) if is_directory(tree, path.parent()) => Is::Held(Some(stand)),
        (Some(Kind::Directory), _) if whole && path != Path::new(super::REPO_DIR) => Is::Unprotected(format!(
            "git on this host reads hooks or settings from `{}`, which contains a whole repository",
            if shown.is_empty() { "." } else { &shown }
        )),
        (Some(Kind::File), _) | (Some(Kind::Directory), Want::IfThere | Want::Held(Stand::Directory)) => Is::Held(None),
        (None | Some(Kind::Directory), Want::Watched | Want::Held(_)) => Is::Watched,
        (Some(Kind::Link | Kind::Other), _) => {
            Is::Unprotected(format!("`{shown}` cannot be protected: it is neither a file nor a directory"))
        }
    }
}

fn is_directory(tree: &Tree, path: Option<&Path>) -> bool {
    path.is_some_and(|path| matches!(tree.look(path), Ok(Some(seen)) if seen.kind == Kind::Directory))
}

/// A file with a second name outside of the protected parts can be written through that name, whatever is mounted.
fn other_names(tree: &Tree, parts: &[Protected], d: &mut Diagnostics) {
    let (mut files, mut left) = (BTreeMap::new(), NAMES);
    let mut waiting: Vec<PathBuf> = parts.iter().map(|part| part.path.clone()).collect();
    while let Some(path) = waiting.pop() {
        let Ok(Some(seen)) = tree.look(&path) else { continue };
        match seen.kind {
            Kind::Directory => {
                let listing = tree.names(&path, left).unwrap_or_default();
                left -= listing.names.len();
                if !listing.complete {
                    let message = format!(
                        "`{}` is protected, but it has too many files to check all of them for hard links",
                        shorten(&path.display().to_string())
                    );
                    d.push(Diagnostic::new(Code::Unprotected, message).help("protect a smaller directory"));
                }
                let inner = listing.names.into_iter().filter(|(_, kind)| *kind != Kind::Link);
                waiting.extend(inner.map(|(name, _)| path.join(name)));
            }
            _ if seen.links > 1 => files.entry(seen.id).or_insert((seen.links, Vec::new())).1.push(path),
            _ => {}
        }
    }
    let written = files.into_values().filter(|(links, paths)| usize::try_from(*links).is_ok_and(|n| n > paths.len()));
    let mut paths: Vec<PathBuf> = written.filter_map(|(_, paths)| paths.into_iter().min()).collect();
    paths.sort();
    for path in paths.iter().take(TOLD) {
        let shown = shorten(&path.display().to_string());
        d.push(
            Diagnostic::new(Code::HardLink, format!("`{shown}` is protected, but has a second name (a hard link)"))
                .help("writing to the other name changes this file: check its content")
                .help("then separate the two: `cp -p FILE FILE.new && mv FILE.new FILE`"),
        );
    }
    if let Some(more) = paths.len().checked_sub(TOLD).filter(|&more| more > 0) {
        let message = format!("{more} more protected files have a second name");
        d.push(Diagnostic::new(Code::HardLink, message).help("`find DIR -type f -links +1` lists them"));
    }
}

fn named(tree: &Tree, by: By, text: &Located<String>, d: &mut Diagnostics) -> Option<PathBuf> {
    let Located { value, span } = text;
    let path: PathBuf = Path::new(value).components().filter(|part| *part != Component::CurDir).collect();
    let shown = shorten(value);
    let bad = |problem: String, help: &str| path_finding(&problem, *span, help);
    if value.starts_with('~') || value.contains('$') || value.chars().any(char::is_control) {
        d.push(bad("`~`, `$` and control characters are not allowed here".to_owned(), "write a plain path"));
        return None;
    }
    if !path.components().all(|part| matches!(part, Component::Normal(_))) {
        let help = "write a path relative to the workspace without `..`, e.g. `.github/workflows`";
        d.push(bad(format!("`{shown}` does not stay inside the workspace"), help));
        return None;
    }
    if path.as_os_str().is_empty() {
        let help = "to protect everything, write `workspace: {read_only: true}` in the repo file";
        d.push(bad("this is the whole workspace".to_owned(), help));
        return None;
    }
    if let Some(link) = tree.first_link(&path) {
        let problem = format!("`{shown}` cannot be protected: `{}` is a link", link.display());
        d.push(bad(problem, "name the file or directory it points to; a link cannot be protected"));
        return None;
    }
    let why = match tree.look(&path) {
        Ok(Some(seen)) if seen.kind != Kind::Other => return Some(path),
        Ok(Some(_)) => "it is neither a file nor a directory".to_owned(),
        Ok(None) => "no such file or directory".to_owned(),
        Err(error) => words(&error),
    };
    if by == By::Defaults {
        d.push(
            Diagnostic::new(Code::Unprotected, format!("`{shown}` is not protected here: {why}"))
                .at(*span, "the command can create it")
                .help("create it, or list it only in the entries of repos that contain it"),
        );
    } else {
        let problem = format!("`{shown}` cannot be protected: {why}");
        d.push(bad(problem, "create it first, or remove it from the list"));
    }
    None
}

/// Mounts that would make a protected part writable again, or whose mount point would have to be created inside one.
pub(super) fn conflicts(repo: &RepoFile, workspace: &Workspace, mounts: &[ExtraMount], d: &mut Diagnostics) {
    for mount in mounts {
        let Some(problem) = workspace.protect.iter().find_map(|part| conflict(workspace, mount, &part.path)) else {
            continue;
        };
        let same = |wish: &&MountWish| Path::new(&wish.target.value).components().eq(mount.target.components());
        let mut finding = Diagnostic::new(Code::MountConflict, problem);
        if let Some(wish) = repo.mounts.iter().find(same) {
            finding = finding.at(wish.target.span, "");
        }
        d.push(finding.help("mount it with `read_only: true`, at a target outside every protected path"));
    }
}

fn conflict(workspace: &Workspace, mount: &ExtraMount, part: &Path) -> Option<String> {
    let (source, target, shown) = (workspace.source.join(part), workspace.target.join(part), part.display());
    if !mount.read_only && (mount.source.starts_with(&source) || source.starts_with(&mount.source)) {
        return Some(format!("this mount would let the command write `{shown}`, which is protected"));
    }
    // A mount that hides the whole workspace is reported elsewhere.
    let around = target.starts_with(&mount.target) && !workspace.target.starts_with(&mount.target);
    (around || mount.target.starts_with(&target))
        .then(|| format!("`{}` overlaps `{shown}`, which is protected", mount.target.display()))
}
