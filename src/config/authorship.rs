//! `git_identity: host`: the host's git name and email as variables inside, since `.git/config` is read-only there.
//!
//! Only the server file can ask for it: the values are about a person and leave for the sandbox. They are read from
//! the user's own git config files, never from the repository's, whose content is a stranger's, and without git.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Inputs;
use super::disk::Disk;
use super::git;
use super::git::syntax::settings;
use super::read::{self, shorten};
use super::yaml::Node;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::source::{Located, Span};

/// What git would read, and the variables that replace it.
const VALUES: [(&str, [&str; 2]); 2] =
    [("name", ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"]), ("email", ["GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"])];

/// How many files are read, with those that they include.
const FILES: usize = 32;

/// A name or an address that is longer is not one.
const LONGEST: usize = 256;

/// Reads `git_identity`. Its place stands for the permission.
pub(super) fn read(node: &Node, d: &mut Diagnostics) -> Option<Located<()>> {
    let text = read::string(node, "`git_identity`", d)?;
    if text.value == "host" {
        return Some(text.map(drop));
    }
    let finding =
        Diagnostic::new(Code::BadValue, format!("`{}` is not a choice for `git_identity`", shorten(&text.value)));
    d.push(finding.at(text.span, "").help("write `host`, or remove the key"));
    None
}

/// The variables, each with the key of git's config that it replaces.
pub(super) fn variables(
    asked: Span,
    inputs: &Inputs,
    disk: &dyn Disk,
    d: &mut Diagnostics,
) -> BTreeMap<String, (Located<String>, String)> {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    let mut left = FILES;
    for path in git::own_files(&inputs.env, inputs.home.as_deref(), &inputs.config_home) {
        let around = Around { disk, home: inputs.home.as_deref() };
        around.file(&path, &mut left, &mut found);
    }
    let mut variables = BTreeMap::new();
    for (key, names) in VALUES {
        let key = format!("user.{key}");
        match found.get(&key).filter(|value| fits(value)) {
            Some(value) => {
                let one = |name: &str| (name.to_owned(), (Located::new(value.clone(), asked), key.clone()));
                variables.extend(names.map(one));
            }
            None => d.push(
                Diagnostic::new(Code::GitIdentity, format!("git's config of this user has no usable `{key}`"))
                    .at(asked, "asks for it")
                    .help(format!("run `git config --global {key} …`, or remove `git_identity`")),
            ),
        }
    }
    variables
}

fn fits(value: &str) -> bool {
    !value.trim().is_empty() && value.len() <= LONGEST && !value.chars().any(char::is_control)
}

struct Around<'a> {
    disk: &'a dyn Disk,
    home: Option<&'a Path>,
}

impl Around<'_> {
    /// Reads a file and what it includes, in git's order: the last value counts. A conditional include depends on a
    /// repository, so it is ignored.
    fn file(&self, path: &Path, left: &mut usize, found: &mut BTreeMap<String, String>) {
        let Some(rest) = left.checked_sub(1) else { return };
        *left = rest;
        let Ok(bytes) = self.disk.read(path) else { return };
        for setting in settings(&String::from_utf8_lossy(&bytes)) {
            if setting.subsection.is_some() {
                continue;
            }
            match (setting.section.as_str(), setting.name.as_str()) {
                ("include", "path") => {
                    if let Some(included) = self.included(&setting.value, path) {
                        self.file(&included, left, found);
                    }
                }
                ("user", name) => _ = found.insert(format!("user.{name}"), setting.value),
                _ => {}
            }
        }
    }

    fn included(&self, value: &str, from: &Path) -> Option<PathBuf> {
        match value.strip_prefix("~/") {
            Some(rest) => Some(self.home?.join(rest)),
            None if value.is_empty() || value.starts_with('~') => None,
            None => Some(from.parent()?.join(value)),
        }
    }
}
