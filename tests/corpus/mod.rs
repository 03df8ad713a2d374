//! The corpus of `tests/conformance` as data, for the suites that ask the library and the real router.

#![allow(clippy::unwrap_used, clippy::panic)]

pub mod case;
pub mod dns;
pub mod log;
pub mod text;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use sandboxc::config::Resolved;

use crate::machine::World;
use case::Case;

/// Where the corpus is.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance")
}

/// Every case, sorted by name. A file that cannot be read fails the test.
pub fn cases() -> &'static [Case] {
    static CASES: OnceLock<Vec<Case>> = OnceLock::new();
    CASES.get_or_init(|| {
        let mut files = Vec::new();
        for group in fs::read_dir(root()).unwrap().flatten().filter(|entry| entry.path().is_dir()) {
            files.extend(fs::read_dir(group.path()).unwrap().flatten().map(|entry| entry.path()));
        }
        files.sort();
        let read = |path: &PathBuf| {
            let name = path.strip_prefix(root()).unwrap().with_extension("").to_string_lossy().into_owned();
            assert_eq!(path.extension().and_then(|e| e.to_str()), Some("case"), "{name}");
            Case::read(&name, &fs::read_to_string(path).unwrap()).unwrap_or_else(|error| panic!("{name}: {error}"))
        };
        files.iter().map(read).collect()
    })
}

/// The cases that are wanted by their config, each with what the loader makes of it.
pub fn by_config(wanted: impl Fn(&Case) -> bool) -> Vec<(World, Resolved, Vec<&'static Case>)> {
    let mut groups: BTreeMap<_, Vec<&Case>> = BTreeMap::new();
    for case in cases().iter().filter(|case| wanted(case)) {
        groups.entry(&case.config).or_default().push(case);
    }
    let load = |((repo, server), cases): (&(String, Option<String>), Vec<&'static Case>)| {
        let world = World::new();
        world.repo(repo);
        if let Some(server) = server {
            world.server(server);
        }
        let resolved = world.resolved();
        (world, resolved, cases)
    };
    groups.into_iter().map(load).collect()
}
