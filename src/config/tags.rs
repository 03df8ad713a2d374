//! `!env`, `!var` and `!file`: replaces every tagged scalar of a tree with the value it names, or reports that it is
//! missing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::disk::Disk;
use super::read::shorten;
use super::suggest::nearest;
use super::vars::{Value, Vars};
use super::yaml::{Kind, Node, Tag};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
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

/// What the tags of one file are looked up in.
pub(super) struct Lookup<'a> {
    pub(super) env: &'a BTreeMap<String, String>,
    pub(super) permitted: Permitted,
    pub(super) reach: Reach,
    /// `None` in the repo file.
    pub(super) vars: Option<&'a Vars>,
    pub(super) disk: &'a dyn Disk,
}

impl Lookup<'_> {
    /// Replaces every tagged scalar in the tree.
    pub(super) fn substitute(&self, node: &mut Node, d: &mut Diagnostics) {
        match &mut node.kind {
            Kind::Seq(items) => items.iter_mut().for_each(|item| self.substitute(item, d)),
            Kind::Map(entries) => entries.iter_mut().for_each(|(_, value)| self.substitute(value, d)),
            Kind::Tagged(tag, argument) => {
                let (tag, argument) = (*tag, std::mem::take(argument));
                *node = self.value(tag, &argument, node.span, d);
            }
            _ => {}
        }
    }

    fn value(&self, tag: Tag, argument: &str, span: Span, d: &mut Diagnostics) -> Node {
        let broken = Node { kind: Kind::Broken, span, raw: String::new(), looked_up: Some(tag) };
        let found = match tag {
            Tag::Var => return self.var(argument, broken, d),
            Tag::Env => self.env(argument, span),
            Tag::File => self.file(argument, span),
        };
        match found {
            Ok(Some(text)) => Node { kind: Kind::Str(text), ..broken },
            Ok(None) => broken,
            Err(finding) => {
                d.push(finding);
                broken
            }
        }
    }

    fn var(&self, name: &str, broken: Node, d: &mut Diagnostics) -> Node {
        let Some(vars) = self.vars else {
            d.push(
                Diagnostic::new(Code::BadTag, "`!var` is not allowed in the repo file")
                    .at(broken.span, "")
                    .help("`vars` belongs to the server file; write the value itself"),
            );
            return broken;
        };
        match vars.get(name) {
            Some(Value::Ready(node)) => Node { kind: node.kind.clone(), raw: node.raw.clone(), ..broken },
            Some(Value::Late(finding)) => {
                d.push(finding.clone().at(broken.span, "needed here"));
                broken
            }
            Some(Value::Broken) => broken,
            None => {
                d.push(missing_var(name, broken.span, vars.names()));
                broken
            }
        }
    }

    /// A variable of the environment; `Ok(None)` if nothing must be reported.
    pub(super) fn env(&self, name: &str, span: Span) -> Result<Option<String>, Diagnostic> {
        let shown = shorten(name);
        match &self.permitted {
            Permitted::All => {}
            Permitted::Unknown => return Ok(None),
            Permitted::Only(names) if names.contains(name) => {}
            Permitted::Only(_) => {
                return Err(Diagnostic::new(
                    Code::EnvMissing,
                    format!("the repo file is not permitted to read `{shown}`"),
                )
                .at(span, "")
                .help(format!("to permit it, add `pass_env: [{shown}]` to this repo's entry in the server file")));
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

/// The names of the environment variables that a tree reads.
pub(super) fn variables(node: &Node) -> BTreeSet<String> {
    match &node.kind {
        Kind::Seq(items) => items.iter().flat_map(variables).collect(),
        Kind::Map(entries) => entries.iter().flat_map(|(_, value)| variables(value)).collect(),
        Kind::Tagged(Tag::Env, name) => BTreeSet::from([name.clone()]),
        _ => BTreeSet::new(),
    }
}

/// The finding for `!var` with an unknown name.
pub(super) fn missing_var<'a>(name: &str, span: Span, names: impl IntoIterator<Item = &'a str> + Clone) -> Diagnostic {
    let finding = Diagnostic::new(Code::VarMissing, format!("`vars` has no `{}`", shorten(name)));
    match nearest(name, names) {
        Some(near) => finding.at(span, format!("did you mean `{near}`?")).help(format!("write `!var {near}`")),
        None => finding.at(span, "").help(format!("add `{}` to `vars`", shorten(name))),
    }
}

/// An error of the operating system without its number.
pub(super) fn words(error: &std::io::Error) -> String {
    let text = error.to_string();
    let plain = text.split(" (os error").next().unwrap_or("").to_owned();
    let mut chars = plain.chars();
    chars.next().map_or(plain.clone(), |first| first.to_lowercase().chain(chars).collect())
}
