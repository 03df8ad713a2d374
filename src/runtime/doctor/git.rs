//! Whether git on this host obeys a repository that nobody has named.

use std::fs;
use std::path::PathBuf;

use super::Check;
use crate::config::git::settings;

/// `safe.bareRepository` (git-config(1)): unless it is `explicit`, a directory with the shape of a repository is one, and
/// a command may leave such a directory anywhere in a workspace.
pub(super) fn bare_repositories(files: &[PathBuf]) -> Check {
    let (check, promise) = ("bare-repository", "git obeys no repository that is just a directory of the workspace");
    let texts = files.iter().filter_map(|path| fs::read_to_string(path).ok());
    let value = texts.flat_map(|text| settings(&text)).rfind(|setting| setting.is("safe", "barerepository"));
    match value.map(|setting| setting.value) {
        Some(value) if value == "explicit" => Check::kept(check, promise, "safe.bareRepository is explicit"),
        Some(value) => Check::kept(check, promise, format!("safe.bareRepository is {value}")).warning(MEND),
        None => Check::kept(check, promise, "safe.bareRepository is not set").warning(MEND),
    }
}

const MEND: &str = "git config --global safe.bareRepository explicit";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::doctor::Level;

    #[test]
    fn the_last_word_counts() {
        let dir = tempfile::tempdir().unwrap();
        let (system, own) = (dir.path().join("a"), dir.path().join("b"));
        let level = || bare_repositories(&[system.clone(), own.clone()]).level;
        assert_eq!(level(), Level::Warning);
        fs::write(&system, "[safe]\n\tbareRepository = explicit\n").unwrap();
        assert_eq!(level(), Level::Kept);
        fs::write(&own, "[safe]\n\tbareRepository = all\n").unwrap();
        assert_eq!(level(), Level::Warning);
    }
}
