//! Where the values of `!env` and `!file` come from, and which of them a config file may read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::disk::{Disk, words};
use super::literal;
use super::read::shorten;
use crate::diagnostic::{Code, Diagnostic};
use crate::source::Span;

/// Which variables of the environment a file may read.
pub(super) enum Permitted {
    /// The server file: all.
    All,
    /// The repo file: those in the server's `pass_env`.
    Only(BTreeSet<String>),
    /// The repo file while the server file has errors: unknown, so nothing is reported.
    Unknown,
}

/// Which files a file may read.
pub(super) enum Reach {
    /// The server file: all; relative paths start at its directory.
    Anywhere {
        /// Where relative paths start.
        base: PathBuf,
    },
    /// The repo file: those inside the workspace.
    Inside {
        /// Where relative paths start.
        base: PathBuf,
        /// The workspace, canonical.
        root: PathBuf,
    },
}

/// Looks up the variables and files of one config file.
pub(super) struct Lookup<'a> {
    pub(super) env: &'a BTreeMap<String, String>,
    pub(super) permitted: Permitted,
    pub(super) reach: Reach,
    pub(super) disk: &'a dyn Disk,
}

impl Lookup<'_> {
    /// A variable of the environment; `Ok(None)` if nothing must be reported. `key` is the key whose value it becomes.
    pub(super) fn env(&self, name: &str, key: Option<&str>, span: Span) -> Result<Option<String>, Diagnostic> {
        let shown = shorten(name);
        match &self.permitted {
            Permitted::All => {}
            Permitted::Unknown => return Ok(None),
            Permitted::Only(names) if names.contains(name) => {}
            Permitted::Only(_) => {
                let permit = format!("to permit it, add `pass_env: [{shown}]` to this repo's entry in the server file");
                let is_secret = literal::secretive(name) || key.is_some_and(literal::secretive);
                let help = if is_secret { literal::masked(key.unwrap_or(name), name) } else { permit };
                return Err(Diagnostic::new(
                    Code::EnvMissing,
                    format!("the repo file is not permitted to read `{shown}`"),
                )
                .at(span, "")
                .help(help));
            }
        }
        match self.env.get(name) {
            Some(value) => Ok(Some(value.clone())),
            None => Err(Diagnostic::new(Code::EnvMissing, format!("the environment variable `{shown}` is not set"))
                .at(span, "")
                .help(format!("set {shown}, or write the value itself"))),
        }
    }

    /// The content of a file without one trailing line feed.
    pub(super) fn file(&self, argument: &str, span: Span) -> Result<Option<String>, Diagnostic> {
        if argument.starts_with('~') || argument.contains('\0') {
            return Err(Diagnostic::new(Code::BadPath, "`~` is not expanded in paths")
                .at(span, "")
                .help("write an absolute path, or one relative to this file's directory"));
        }
        let unreadable = |why: String| {
            Diagnostic::new(Code::FileUnreadable, format!("`{}` cannot be read: {why}", shorten(argument)))
                .at(span, "")
                .help("use a regular text file of at most 1 MiB")
        };
        let bytes = match &self.reach {
            Reach::Anywhere { base } => self.disk.read(&base.join(argument)).map_err(|e| unreadable(words(&e)))?,
            Reach::Inside { base, root } => self.read_inside(base, root, Path::new(argument), span, &unreadable)?,
        };
        let text = String::from_utf8(bytes).map_err(|_| unreadable("it is not UTF-8".to_owned()))?;
        let text = text.strip_suffix('\n').map_or(text.as_str(), |t| t.strip_suffix('\r').unwrap_or(t));
        Ok(Some(text.to_owned()))
    }

    fn read_inside(
        &self,
        base: &Path,
        root: &Path,
        argument: &Path,
        span: Span,
        unreadable: &dyn Fn(String) -> Diagnostic,
    ) -> Result<Vec<u8>, Diagnostic> {
        let outside = || {
            Diagnostic::new(Code::BadPath, "the repo file may only read files inside the workspace")
                .at(span, "")
                .help("copy the file into the repo, or set the value in the server file")
        };
        // Checked before the disk is accessed, so that a stranger's file cannot find out what exists elsewhere.
        if argument.is_absolute() && !argument.starts_with(root) {
            return Err(outside());
        }
        let real = self.disk.canonical(&base.join(argument)).map_err(|e| unreadable(words(&e)))?;
        let Ok(relative) = real.strip_prefix(root) else { return Err(outside()) };
        self.disk.read_beneath(root, relative).map_err(|e| unreadable(words(&e)))
    }
}
