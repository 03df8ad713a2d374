//! Checks whether git on this host uses bare repositories that it finds in a workspace.

use std::fs;
use std::path::PathBuf;

use super::Check;
use crate::config::git::settings;

/// Reads `safe.bareRepository` (git-config(1)). Unless it is `explicit`, git uses any directory that looks like a bare
/// repository, and a command can leave one anywhere in a workspace.
pub(super) fn bare_repositories(files: &[PathBuf]) -> Check {
    let (check, promise) = ("bare-repository", "git ignores bare repositories that it finds in a workspace");
    let texts = files.iter().filter_map(|path| fs::read_to_string(path).ok());
    let value = texts.flat_map(|text| settings(&text)).rfind(|setting| setting.is("safe", "barerepository"));
    match value.map(|setting| setting.value) {
        Some(value) if value == "explicit" => Check::ok(check, promise, "safe.bareRepository is explicit"),
        Some(value) => Check::ok(check, promise, format!("safe.bareRepository is {value}")).warn(FIX),
        None => Check::ok(check, promise, "safe.bareRepository is not set").warn(FIX),
    }
}

const FIX: &str = "git config --global safe.bareRepository explicit";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::doctor::Level;

    #[test]
    fn the_last_setting_counts() {
        let dir = tempfile::tempdir().unwrap();
        let (system, own) = (dir.path().join("a"), dir.path().join("b"));
        let level = || bare_repositories(&[system.clone(), own.clone()]).level;
        assert_eq!(level(), Level::Warn);
        fs::write(&system, "[safe]\n\tbareRepository = explicit\n").unwrap();
        assert_eq!(level(), Level::Ok);
        fs::write(&own, "[safe]\n\tbareRepository = all\n").unwrap();
        assert_eq!(level(), Level::Warn);
    }
}
