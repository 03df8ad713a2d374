//! Where the files of `.sandboxc/` are read from.

use std::io;
use std::path::{Path, PathBuf};

use super::disk::Disk;
use super::{Inputs, REPO_DIR};

/// The files of `.sandboxc/`: in the workspace, or frozen.
pub(super) struct RepoFiles<'a> {
    pub(super) disk: &'a dyn Disk,
    pub(super) inputs: &'a Inputs,
}

impl RepoFiles<'_> {
    /// Reads a file by its path in the repo.
    pub(super) fn read(&self, relative: &Path) -> io::Result<Vec<u8>> {
        self.disk.read_beneath(&self.inputs.repo_dir, relative)
    }

    /// The path of a file and its label in findings.
    pub(super) fn shown(&self, relative: &Path) -> (PathBuf, String) {
        match &self.inputs.frozen {
            Some(frozen) => (frozen.shown(relative).into(), frozen.shown(relative)),
            None => (self.inputs.repo_dir.join(relative), relative.to_string_lossy().into_owned()),
        }
    }

    /// The directory that the repo file may read from. Frozen files are the only ones that were read with them.
    pub(super) fn root(&self) -> PathBuf {
        match &self.inputs.frozen {
            Some(_) => self.inputs.repo_dir.join(REPO_DIR),
            None => self.inputs.repo_dir.clone(),
        }
    }
}
