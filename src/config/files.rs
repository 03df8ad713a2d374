//! Reads the repo file and the server file into trees.

use std::io;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::disk::{Disk, missing, words};
use super::repo_files::RepoFiles;
use super::sealed;
use super::yaml::{self, Node};
use super::{Inputs, MISNAMED, REPO_DIR, REPO_FILE, SERVER_FILE};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::shell;
use crate::source::{FileId, SourceMap, Span};

/// A file as read.
pub(super) enum Tree {
    Missing,
    Broken,
    Read(Node),
}

impl Tree {
    /// Whether there is a file.
    pub(super) fn is_there(&self) -> bool {
        !matches!(self, Self::Missing)
    }
}

pub(super) fn repo_file(files: &RepoFiles<'_>, sources: &mut SourceMap, d: &mut Diagnostics) -> Tree {
    let relative = Path::new(REPO_DIR).join(REPO_FILE);
    let (path, label) = files.shown(&relative);
    if let Some(text) = &files.inputs.repo_text {
        return parse(text.as_bytes(), &path, &label, sources, d);
    }
    let (disk, repo_dir) = (files.disk, &files.inputs.repo_dir);
    misnamed(repo_dir, &MISNAMED, (REPO_DIR, REPO_FILE), &Shown { files: Some(files), disk }, sources, d);
    let real = match disk.canonical(&repo_dir.join(&relative)) {
        Ok(real) => real,
        Err(error) if missing(&error) && !disk.exists(&repo_dir.join(&relative)) => return Tree::Missing,
        Err(error) if missing(&error) => return unreadable(&path, &nowhere(), sources, d),
        Err(error) => return unreadable(&path, &error, sources, d),
    };
    // A link may point elsewhere in the workspace, but not outside, since findings show the file.
    let content = match real.strip_prefix(repo_dir) {
        Ok(relative) => files.read(relative),
        Err(_) => Err(io::Error::other("it leads outside the workspace")),
    };
    match content {
        Ok(bytes) => not_empty(parse(&bytes, &path, &label, sources, d), d),
        Err(error) => unreadable(&path, &error, sources, d),
    }
}

pub(super) fn server_file(
    inputs: &Inputs,
    path: &Path,
    disk: &dyn Disk,
    sources: &mut SourceMap,
    d: &mut Diagnostics,
) -> Tree {
    if let (None, Some(dir)) = (&inputs.server_file, path.parent()) {
        misnamed(dir, &MISNAMED_SERVER, ("", SERVER_FILE), &Shown { files: None, disk }, sources, d);
    }
    match disk.read(path) {
        Ok(bytes) => not_empty(parse(&bytes, path, SERVER_FILE, sources, d), d),
        Err(error) if missing(&error) && disk.exists(path) => unreadable(path, &nowhere(), sources, d),
        Err(error) if missing(&error) && inputs.server_file.is_none() => Tree::Missing,
        Err(error) => unreadable(path, &error, sources, d),
    }
}

/// Not the same as a missing file: its owner believes that it is in force.
fn nowhere() -> io::Error {
    io::Error::other("it is a link to a file that does not exist")
}

/// Names next to the server file that people give it by mistake.
const MISNAMED_SERVER: [&str; 3] = ["config.yaml", "config.yml", "server.yml"];

/// Where files are, and how findings name them.
struct Shown<'a> {
    /// The repo's files, if they are meant.
    files: Option<&'a RepoFiles<'a>>,
    disk: &'a dyn Disk,
}

/// Reports files of a directory that nothing reads because of their names; `right` is the directory below it and the
/// name that is read.
fn misnamed(
    dir: &Path,
    names: &[&str],
    right: (&str, &str),
    shown: &Shown<'_>,
    sources: &mut SourceMap,
    d: &mut Diagnostics,
) {
    let right = Path::new(right.0).join(right.1);
    let to = dir.join(&right);
    for name in names.iter().filter(|name| shown.disk.exists(&dir.join(name))) {
        let from = dir.join(name);
        let (path, label) =
            shown.files.map_or_else(|| (from.clone(), (*name).to_owned()), |f| f.shown(Path::new(name)));
        let message = format!("`{label}` is not read: the file is called `{}`", right.display());
        let finding = Diagnostic::new(Code::MisnamedFile, message).at(empty_place(&path, &label, sources), "");
        let frozen = shown.files.is_some_and(|files| files.inputs.frozen.is_some());
        d.push(finding.help(match shown.disk.exists(&to) {
            _ if frozen => format!("rename it to `{}` in a new commit", right.display()),
            true => format!("remove it, and move what it says to `{}`", right.display()),
            false => format!("rename it: `{}`", rename(&from, &to, shown.disk)),
        }));
    }
}

/// The shell command that renames a file.
fn rename(from: &Path, to: &Path, disk: &dyn Disk) -> String {
    let quoted = |path: &Path| shell::quote(&path.display().to_string());
    let parent = to.parent().filter(|parent| !disk.exists(parent));
    let create = parent.map_or_else(String::new, |parent| format!("mkdir {} && ", quoted(parent)));
    format!("{create}mv {} {}", quoted(from), quoted(to))
}

/// A place for findings about a file whose content does not matter, so that text and JSON name the file.
fn empty_place(path: &Path, label: &str, sources: &mut SourceMap) -> Span {
    Span { file: sources.add(path, label, ""), start: 0, end: 0 }
}

/// Reports a file that cannot be read.
pub(super) fn unreadable(path: &Path, error: &io::Error, sources: &mut SourceMap, d: &mut Diagnostics) -> Tree {
    let span = empty_place(path, &path.file_name().unwrap_or_default().to_string_lossy(), sources);
    let message = match error.kind() {
        io::ErrorKind::NotFound => format!("`{}` does not exist", path.display()),
        _ => format!("`{}` cannot be read: {}", path.display(), words(error)),
    };
    d.push(Diagnostic::new(Code::FileUnreadable, message).at(span, "").help(help_to_read(error)));
    Tree::Broken
}

/// What to do about a file that cannot be read.
pub(super) fn help_to_read(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "make the file and its directories readable for the user who runs sandboxc",
        io::ErrorKind::NotFound => "create the file, or correct its path",
        _ => "use a regular file of at most 1 MiB",
    }
}

/// The tree of a file without tags; `None` if it has errors.
pub(super) fn parse_file(
    bytes: &[u8],
    path: &Path,
    label: &str,
    sources: &mut SourceMap,
    d: &mut Diagnostics,
) -> Option<Node> {
    match parse(bytes, path, label, sources, d) {
        Tree::Read(node) => Some(node),
        Tree::Missing | Tree::Broken => None,
    }
}

fn parse(bytes: &[u8], path: &Path, label: &str, sources: &mut SourceMap, d: &mut Diagnostics) -> Tree {
    let Some((file, text)) = add_text(bytes, path, label, sources, d) else { return Tree::Broken };
    let mut findings = Diagnostics::new();
    let tree = yaml::read(file, &text, &mut findings);
    // What the tree lacks, such as the second of two equal keys, may have been a secret.
    let whole = Span { file, start: 0, end: text.len() };
    let twice = findings.sorted().iter().any(|finding| finding.code == Code::DuplicateKey);
    let complete = tree.as_ref().filter(|_| !twice);
    for span in sealed::hidden(complete, &text, whole) {
        sources.hide(span);
    }
    d.append(findings);
    tree.map_or(Tree::Broken, Tree::Read)
}

/// Reports a file without anything but comments.
fn not_empty(tree: Tree, d: &mut Diagnostics) -> Tree {
    if let Tree::Read(root) = &tree
        && root.is_null()
    {
        let start = Span { end: 0, start: 0, ..root.span };
        d.push(
            Diagnostic::new(Code::EmptyFile, "the file is empty, so the defaults are in force")
                .at(start, "")
                .help("write at least `version: 1`, or remove the file"),
        );
    }
    tree
}

/// Adds a file to the sources; reports one that is not UTF-8.
pub(super) fn add_text(
    bytes: &[u8],
    path: &Path,
    label: &str,
    sources: &mut SourceMap,
    d: &mut Diagnostics,
) -> Option<(FileId, String)> {
    match yaml::normalise(bytes) {
        Ok(text) => {
            let file = sources.add(path, label, text.as_str());
            let digest = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
            sources.set_digest(file, digest);
            Some((file, text))
        }
        Err(error) => {
            let yaml::NotUtf8 { offset, byte, lossy } = error;
            let file = sources.add(path, label, lossy);
            let span = Span { file, start: offset, end: offset };
            let message = format!("the file is not UTF-8: byte 0x{byte:02x} at offset {offset}");
            d.push(Diagnostic::new(Code::YamlSyntax, message).at(span, "").help("save it as UTF-8"));
            None
        }
    }
}
