//! A file of the compiled tree.

/// One emitted file. Everything that will run is in such files; nothing else of ours is mounted anywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Path in the tree, e.g. `router/nginx.conf`.
    pub path: String,
    /// True for scripts that are to be executed from the tree.
    pub executable: bool,
    /// Content.
    pub text: String,
}

impl File {
    /// A plain file.
    pub fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        Self { path: path.into(), executable: false, text: text.into() }
    }

    /// Its name without directories: the key in a `ConfigMap` and the name under the mount point.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}
