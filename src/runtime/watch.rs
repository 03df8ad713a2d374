//! Finds what the host may later execute in a workspace without being asked: git's hooks and settings, environment
//! files, editors' tasks, our own config. Scans it before and after the command, and watches it in between.
//!
//! The command can write all of this. So git is never called, no link is followed, everything is reached from the
//! opened workspace, only plain files are read, and the number and size of what is read is limited. What was not
//! examined is reported.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

mod live;
mod mark;
mod place;
mod restore;
mod rules;
mod tracked;
mod walk;

pub use live::Watch;
pub use restore::Kept;

use mark::Mark;
use walk::walk;

use crate::config::Workspace;
use crate::config::disk::{Kind, Tree};
use crate::visible::escaped;

/// How many names are examined before the command starts. In a larger workspace, the kernel's time stamps show what is
/// new.
const BEFORE: usize = 20_000;

/// How many names are examined at the end.
const AFTER: usize = 1_000_000;

/// How many names are examined in each place that is always checked.
const IN_KNOWN: usize = 1000;

/// How many files are read by the first scan. For others, the time stamps are compared.
const READ: usize = 4000;

/// How many new files of interest are examined one by one.
const NEW: usize = 5000;

/// The maximum length of a line, in characters.
const WIDTH: usize = 300;

/// Everything of interest in a workspace at one time.
#[derive(Debug)]
pub struct Before {
    known: BTreeSet<PathBuf>,
    /// Those entries of `known` that git on the host acts on.
    obeyed: BTreeSet<PathBuf>,
    marks: BTreeMap<PathBuf, Mark>,
    /// Whether every known place was examined.
    known_complete: bool,
    /// Whether everything was examined.
    complete: bool,
    since: (i64, u32),
}

/// The result of comparing two scans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What was not examined.
    pub alarm: Option<String>,
    /// One line for each change; those that git acts on come first.
    pub changes: Vec<String>,
}

impl Before {
    /// Scans the workspace.
    pub fn look(tree: &Tree, workspace: &Workspace) -> Self {
        // The kernel's time stamps may be a tick (10 ms) behind, but the command starts much later.
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let since = (i64::try_from(since.as_secs()).unwrap_or(i64::MAX), since.subsec_nanos());
        let obeyed = obeyed(workspace);
        let known = known(&obeyed);
        let mut marks = BTreeMap::new();
        let (places, known_complete) = below(tree, &known);
        for path in places {
            mark(tree, path, true, &mut marks);
        }
        let found = walk(tree, BEFORE);
        for path in found.paths {
            let read = marks.len() < READ;
            mark(tree, path, read, &mut marks);
        }
        Self { known, obeyed, marks, known_complete, complete: found.unseen.is_none(), since }
    }

    /// Scans the workspace again and compares.
    pub fn report(&self, tree: &Tree) -> Report {
        let (mut paths, _) = below(tree, &self.known);
        // Known places are examined by name, whatever a walk may miss.
        paths.extend(self.marks.keys().cloned());
        let found = walk(tree, AFTER);
        paths.extend(found.paths);
        let (mut lines, mut new) = (Vec::new(), 0);
        for path in &paths {
            let line = match (self.marks.get(path), tree.look(path)) {
                (Some(before), Ok(None)) => Some(line("removed", path, before, None)),
                (Some(before), Ok(Some(seen))) => {
                    let now = Mark::of(tree, path, seen, true);
                    before.became(&now).map(|what| line(what, path, &now, Some(before)))
                }
                (None, Ok(Some(seen))) if self.knew(path) || seen.changed >= self.since => {
                    new += 1;
                    let now = Mark::of(tree, path, seen, new <= NEW);
                    Some(line(if self.knew(path) { "new" } else { "new or changed" }, path, &now, None))
                }
                (None, _) => None,
                (Some(before), Err(_)) => Some(line("no longer reachable:", path, before, None)),
            };
            lines.extend(line.map(|line| (!self.is_gits(path), line)));
        }
        // A stable sort: otherwise by path.
        lines.sort_by_key(|(ordinary, _)| *ordinary);
        let alarm = found.unseen.map(|first| {
            format!(
                "the command left more files than can be examined; {} and what follows it were not: check for \
                 `.git` and hooks there before you use git or an editor",
                shown(&shown_path(&first))
            )
        });
        Report { alarm, changes: lines.into_iter().map(|(_, line)| line).collect() }
    }

    /// Whether it is new: the first scan would have found it.
    fn knew(&self, path: &Path) -> bool {
        self.complete || (self.known_complete && self.known.iter().any(|known| path.starts_with(known)))
    }

    /// Whether git acts on it; such changes are listed first.
    fn is_gits(&self, path: &Path) -> bool {
        let repository = path.iter().any(|name| name == ".git") || path.as_os_str().is_empty();
        repository || self.obeyed.iter().any(|obeyed| path.starts_with(obeyed))
    }
}

/// What git on the host, or sandboxc, acts on in a workspace.
fn obeyed(workspace: &Workspace) -> BTreeSet<PathBuf> {
    let parts = workspace.protect.iter().map(|part| part.path.clone());
    let mut all: BTreeSet<PathBuf> = parts.chain(workspace.watched.iter().cloned()).collect();
    for repository in &workspace.repositories {
        all.extend(rules::IN_REPOSITORY.iter().map(|name| repository.git_dir.join(name)));
    }
    all
}

/// The places that are always examined.
fn known(obeyed: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    let names = rules::FILES.iter().chain(&rules::DIRECTORIES).chain(&[".git"]);
    let mut all: BTreeSet<PathBuf> = names.map(PathBuf::from).collect();
    all.extend(rules::IN_REPOSITORY.iter().map(|name| Path::new(".git").join(name)));
    all.extend(obeyed.iter().cloned());
    all
}

/// Returns known places and the files in those that are directories, with a limit for each. Returns false if a limit
/// was too small.
fn below(tree: &Tree, known: &BTreeSet<PathBuf>) -> (BTreeSet<PathBuf>, bool) {
    let (mut all, mut complete) = (BTreeSet::new(), true);
    for place in known {
        let mut left = IN_KNOWN;
        let mut waiting = vec![place.clone()];
        while let Some(path) = waiting.pop() {
            let kind = tree.look(&path).ok().flatten().map(|seen| seen.kind);
            if kind != Some(Kind::Directory) || path.ends_with(".git") {
                all.insert(path);
                continue;
            }
            let listing = tree.names(&path, left).unwrap_or_default();
            complete &= listing.complete;
            left -= listing.names.len();
            let inner = listing.names.into_keys().map(|name| path.join(name));
            waiting.extend(inner.filter(|path| rules::treatment(path, false) != rules::Treatment::Skipped));
        }
    }
    (all, complete)
}

fn mark(tree: &Tree, path: PathBuf, read: bool, marks: &mut BTreeMap<PathBuf, Mark>) {
    if marks.contains_key(&path) {
        return;
    }
    if let Ok(Some(seen)) = tree.look(&path) {
        let mark = Mark::of(tree, &path, seen, read);
        marks.insert(path, mark);
    }
}

/// Describes a change.
fn line(what: &str, path: &Path, now: &Mark, before: Option<&Mark>) -> String {
    let mut text = format!("{what} {}", shown_path(path));
    match now {
        Mark::Link(to) => text.push_str(&format!(", a link to {}", to.display())),
        Mark::Repository(_) if !path.ends_with(".git") => text.push_str(", a git repository"),
        _ => {
            let old = before.map_or(&[][..], Mark::settings);
            let new: Vec<&str> =
                now.settings().iter().filter(|setting| !old.contains(setting)).map(String::as_str).collect();
            if !new.is_empty() && what != "removed" {
                text.push_str(&format!(": {}", new.join("; ")));
            }
        }
    }
    shown(&text)
}

fn shown_path(path: &Path) -> String {
    if path.as_os_str().is_empty() { ".".to_owned() } else { path.display().to_string() }
}

/// The command chooses names and settings, so hidden characters are escaped and long lines are cut.
pub(super) fn shown(text: &str) -> String {
    let mut shown: String = escaped(text).chars().take(WIDTH).collect();
    if text.chars().count() > WIDTH {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests;
