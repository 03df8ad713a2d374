//! A conversation that this process runs: its workspace, and what is noted about it.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::super::RuntimeError;
use super::super::fault::point;
use super::super::git::Git;
use super::super::mirror::{Mirror, Tip, sync, write_whole};
use super::removal::remove_tree;
use super::{Condition, HeldConversation, now};
use crate::config::{CONVERSATION_WORKSPACE, Remote};

impl HeldConversation {
    /// The directory of the conversation.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Its workspace.
    pub fn workspace(&self) -> PathBuf {
        self.dir.join(CONVERSATION_WORKSPACE)
    }

    pub(super) fn note(&self) -> Result<(), RuntimeError> {
        write_whole(&self.dir.with_extension("json"), &self.conversation)
    }

    /// Clones the workspace, unless it is there. Returns whether it was cloned now.
    pub fn clone_workspace(
        &mut self,
        mirror: &Mirror,
        (remote, tip): (&Remote, &Tip),
        git: Git<'_>,
    ) -> Result<bool, RuntimeError> {
        self.conversation.last_start = Some(now());
        self.conversation.commit = Some(tip.commit.clone());
        if self.workspace().exists() {
            self.conversation.condition = Condition::Ready;
            self.note()?;
            return Ok(false);
        }
        self.note()?;
        match self.clone_into(mirror, remote, tip, git) {
            Ok(()) => {
                self.conversation.condition = Condition::Ready;
                self.conversation.branch = Some(tip.branch.clone());
                self.note()?;
                Ok(true)
            }
            Err(error) => {
                self.conversation.condition = Condition::Failed;
                self.conversation.failures += 1;
                self.note()?;
                Err(error)
            }
        }
    }

    /// A clone that shares nothing with the mirror, made beside its place.
    fn clone_into(&self, mirror: &Mirror, remote: &Remote, tip: &Tip, git: Git<'_>) -> Result<(), RuntimeError> {
        let new = self.dir.join("workspace.new");
        remove_tree(&new)?;
        make_shared(&new)?;
        let (from, to) = (mirror.git_dir().display().to_string(), new.display().to_string());
        let held = mirror.hold(git)?;
        let what = "cloning the workspace";
        let mut args = vec!["clone", "--no-local", "--no-hardlinks", "--no-checkout", "--template=", "--quiet"];
        args.extend(git.progress.map(|_| "--progress"));
        args.extend(["--origin=origin", "--branch", &tip.branch, "--", &from, &to]);
        git.copy(what, &args)?;
        drop(held);
        git.copy(what, &["-C", &to, "remote", "set-url", "origin", "--", &remote.url])?;
        git.copy(what, &["-C", &to, "checkout", "--quiet", "-B", &tip.branch, &tip.commit, "--"])?;
        point("workspace-cloned");
        sync(&new)?;
        fs::rename(&new, self.workspace()).map_err(RuntimeError::io("putting the workspace in place"))?;
        point("workspace-in-place");
        Ok(())
    }

    /// Whether a command has ever run in it.
    pub fn has_run(&self) -> bool {
        self.conversation.plan.is_some()
    }

    /// Writes down how a start ended.
    pub fn end(&mut self, plan: Option<String>, exit_code: u8) -> Result<(), RuntimeError> {
        self.conversation.last_end = Some(now());
        self.conversation.exit_code = Some(exit_code);
        match plan {
            Some(plan) => (self.conversation.plan, self.conversation.failures) = (Some(plan), 0),
            None => self.conversation.failures += 1,
        }
        self.note()
    }
}

/// Makes a directory that every user inside may enter; nobody else can, since its parent is closed.
pub(super) fn make_shared(path: &Path) -> Result<(), RuntimeError> {
    let made = match fs::create_dir(path) {
        Ok(()) => fs::set_permissions(path, fs::Permissions::from_mode(0o755)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    };
    made.map_err(RuntimeError::io(format!("making {}", path.display())))
}
