//! A file of the compiled tree.

/// An emitted file. Everything that will run is in such files; nothing else of ours is mounted anywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Path in the tree, e.g. `router/policy.json`.
    pub path: String,
    /// Whether it is a script to execute from the tree.
    pub executable: bool,
    /// The content.
    pub text: String,
}

impl File {
    /// A plain file.
    pub fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        Self { path: path.into(), executable: false, text: text.into() }
    }

    /// The name without directories: the key in a `ConfigMap`, and the name below the mount point.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}
