//! Parts of the workspace that stay read-only: what the host would execute or obey later.
//!
//! The repo file, `defaults` and the entry in force add to a built-in list; nobody takes away. A part that is not there
//! cannot be mounted over: built-in ones are left out then (the report at the end of a run tells who made them),
//! those of `defaults` are warned about, and all others must be there.

use std::path::{Component, Path, PathBuf};

use super::mounts::Ground;
use super::read::{self, shorten};
use super::repo::{MountWish, RepoFile};
use super::resolved::{Mount, Protected, Workspace};
use super::server::path_finding;
use super::tags::words;
use super::yaml::Node;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::source::{Located, Place};

/// Protected wherever they are. `.git` itself is one only where it is a file that says where the repository is.
const ALWAYS: [&str; 4] = [".sandboxc", ".git", ".git/config", ".git/hooks"];

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// The repo file or the server's entry: about this workspace.
    Name,
    /// The server's `defaults`: about all workspaces.
    Defaults,
}

/// Reads a list of paths.
pub(super) fn paths(node: &Node, d: &mut Diagnostics) -> Vec<Located<String>> {
    let items = read::list(node, "`protect`", d).iter();
    items.filter_map(|item| read::string(item, "a path of `protect`", d)).collect()
}

/// The protected parts of a workspace, sorted, none inside another.
pub(super) fn protected<'a>(
    ground: &Ground<'_>,
    asked: impl Iterator<Item = (By, &'a Located<String>)>,
    d: &mut Diagnostics,
) -> Vec<Protected> {
    let mut all = Vec::new();
    for path in ALWAYS {
        // A repository's own directory is written all the time.
        let fits = path != ".git" || ground.disk.read_beneath(ground.repo_dir, Path::new(path)).is_ok();
        let is = fits.then(|| plain(ground, Path::new(path)));
        match is {
            Some(Is::There) => all.push(Protected { path: path.into(), from: Place::built_in() }),
            Some(Is::Link(link)) => d.push(
                Diagnostic::new(
                    Code::Unprotected,
                    format!(
                        "`{path}` cannot be protected: `{}` is a symbolic link, which the command could change",
                        link.display()
                    ),
                )
                .help("check the link, and replace it with the file or directory it points to"),
            ),
            Some(Is::Missing(_)) | None => {}
        }
    }
    for (by, text) in asked {
        if let Some(path) = named(ground, by, text, d) {
            all.push(Protected { path, from: ground.sources.place(text.span) });
        }
    }
    all.sort_by(|a, b| a.path.cmp(&b.path));
    all.dedup_by(|later, kept| later.path.starts_with(&kept.path));
    all
}

/// What is at a path of the workspace, without following a link.
enum Is {
    There,
    Missing(std::io::Error),
    Link(PathBuf),
}

fn plain(ground: &Ground<'_>, path: &Path) -> Is {
    let mut whole = ground.repo_dir.to_path_buf();
    for part in path.components() {
        whole.push(part);
        match ground.disk.canonical(&whole) {
            Ok(real) if real == whole => {}
            Ok(_) => return Is::Link(within(&whole, ground.repo_dir)),
            // A link that leads nowhere is missing too, but it is there for the command to change.
            Err(_) if ground.disk.is_link(&whole) => return Is::Link(within(&whole, ground.repo_dir)),
            Err(error) => return Is::Missing(error),
        }
    }
    Is::There
}

fn within(path: &Path, base: &Path) -> PathBuf {
    path.strip_prefix(base).unwrap_or(path).to_path_buf()
}

fn named(ground: &Ground<'_>, by: By, text: &Located<String>, d: &mut Diagnostics) -> Option<PathBuf> {
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
    match plain(ground, &path) {
        Is::There => Some(path),
        Is::Link(link) => {
            let problem = format!("`{shown}` cannot be protected: `{}` is a link", link.display());
            d.push(bad(problem, "name the file or directory it points to; a link cannot be protected"));
            None
        }
        Is::Missing(error) if by == By::Defaults => {
            let message = format!("`{shown}` is not protected here: {}", words(&error));
            d.push(
                Diagnostic::new(Code::Unprotected, message)
                    .at(*span, "the command can create it")
                    .help("create it, or list it only in the entries of repos that contain it"),
            );
            None
        }
        Is::Missing(error) => {
            let problem = format!("`{shown}` cannot be protected: {}", words(&error));
            d.push(bad(problem, "create it first, or remove it from the list"));
            None
        }
    }
}

/// Mounts that would open a protected part again, or that would have to be made inside one.
pub(super) fn conflicts(repo: &RepoFile, workspace: &Workspace, mounts: &[Mount], d: &mut Diagnostics) {
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

fn conflict(workspace: &Workspace, mount: &Mount, part: &Path) -> Option<String> {
    let (source, target, shown) = (workspace.source.join(part), workspace.target.join(part), part.display());
    if !mount.read_only && (mount.source.starts_with(&source) || source.starts_with(&mount.source)) {
        return Some(format!("this mount would let the command write `{shown}`, which is protected"));
    }
    // One that hides the whole workspace is told elsewhere.
    let around = target.starts_with(&mount.target) && !workspace.target.starts_with(&mount.target);
    (around || mount.target.starts_with(&target))
        .then(|| format!("`{}` overlaps `{shown}`, which is protected", mount.target.display()))
}
