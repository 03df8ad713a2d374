//! A machine with one repo, in a temporary directory.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use sandboxc::config::{Inputs, Loaded, Resolved, load};
use sandboxc::diagnostic::Code;
use tempfile::TempDir;

/// A machine with one repo: `w/` is the workspace, `c/` is `$XDG_CONFIG_HOME`, `h/` is `$HOME`.
pub struct World {
    /// Removed at the end of the test.
    pub dir: TempDir,
    /// The arguments of [`load`].
    pub inputs: Inputs,
}

impl World {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        for name in ["w/.sandboxc", "c/sandboxc", "h"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        let inputs = Inputs {
            repo_dir: root.join("w"),
            server_file: None,
            name: None,
            home: Some(root.join("h")),
            config_home: root.join("c"),
            env: BTreeMap::new(),
            frozen: None,
            conversation: None,
            repo_text: None,
            write_defaults: false,
        };
        Self { dir, inputs }
    }

    /// The temporary directory, canonical.
    pub fn root(&self) -> PathBuf {
        self.inputs.repo_dir.parent().unwrap().to_path_buf()
    }

    pub fn write(&self, path: &str, text: impl AsRef<[u8]>) -> &Self {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    pub fn repo(&self, text: &str) -> &Self {
        self.write("w/.sandboxc/sandbox.yaml", text)
    }

    pub fn server(&self, text: &str) -> &Self {
        self.write("c/sandboxc/server.yaml", text)
    }

    pub fn load(&self) -> Loaded {
        load(&self.inputs)
    }

    /// The result, which must exist.
    pub fn resolved(&self) -> Resolved {
        let loaded = self.load();
        let text = text(&loaded, &self.root());
        loaded.resolved.unwrap_or_else(|| panic!("{text}"))
    }

    /// The codes of all findings.
    pub fn codes(&self) -> Vec<Code> {
        self.load().diagnostics.sorted().iter().map(|d| d.code).collect()
    }

    /// All findings as text.
    pub fn text(&self) -> String {
        text(&self.load(), &self.root())
    }
}

/// Findings as text, with the temporary directory replaced.
pub fn text(loaded: &Loaded, root: &Path) -> String {
    loaded.diagnostics.text(&loaded.sources, false).replace(&root.display().to_string(), "@")
}
