//! Chooses the agent's home volume. What one repo's agent leaves there, the next command with the same home may run.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::read;
use super::yaml::Node;
use crate::diagnostic::Diagnostics;
use crate::source::{Located, SourceMap, Sourced};

/// The volume that all repos share with `home: shared`.
pub const SHARED_HOME: &str = "sandboxc-home";

/// The number of hash bytes in a name.
const HASH_BYTES: usize = 6;

/// The value of `home`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    /// A volume for each entry of `repos`, or for each workspace without an entry.
    Private,
    /// One volume for all of them.
    Shared,
}

/// Reads `home`.
pub(super) fn read(node: &Node, d: &mut Diagnostics) -> Option<Located<Home>> {
    read::choice(node, "`home`", [("private", Home::Private), ("shared", Home::Shared)], d)
}

/// The name of the home volume of an entry of `repos`, or of a workspace without an entry.
pub fn private_home(entry: Option<&str>, workspace: &Path) -> String {
    let mut hash = Sha256::new();
    match entry {
        Some(entry) => hash.update(["entry:", entry].concat()),
        None => hash.update([b"workspace:", workspace.as_os_str().as_bytes()].concat()),
    }
    let digits = hash.finalize().iter().take(HASH_BYTES).fold(String::new(), |mut digits, byte| {
        // Writing to a String cannot fail.
        let _ = write!(digits, "{byte:02x}");
        digits
    });
    format!("{SHARED_HOME}-{digits}")
}

/// The volume's name and its place.
pub(super) fn volume(
    said: Option<Located<Home>>,
    entry: Option<&str>,
    workspace: &Path,
    sources: &SourceMap,
) -> Sourced<String> {
    let kind = said.as_ref().map_or(Home::Private, |said| said.value);
    let name = match kind {
        Home::Shared => SHARED_HOME.to_owned(),
        Home::Private => private_home(entry, workspace),
    };
    said.map_or_else(|| Sourced::built_in(name.clone()), |said| sources.sourced(said.map(|_| name.clone())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_entry_and_each_workspace_has_a_home_of_its_own() {
        let sources = SourceMap::new();
        let name = |entry, path: &str| volume(None, entry, Path::new(path), &sources).value;
        let all = [name(None, "/w/a"), name(None, "/w/b"), name(Some("a"), "/w/a"), name(Some("b"), "/w/a")];
        for (index, one) in all.iter().enumerate() {
            assert!(one.starts_with("sandboxc-home-") && !all[..index].contains(one), "{all:?}");
        }
        assert_eq!(name(Some("a"), "/w/a"), name(Some("a"), "/elsewhere"), "an entry's home moves with it");
    }
}
