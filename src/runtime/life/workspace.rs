//! The workspace of a run: protected names, what is watched, and what is reported at the end.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use super::Tell;
use crate::config::disk::Tree;
use crate::config::{Resolved, Workspace};
use crate::runtime::watch::{Before, Kept, Watch};
use crate::runtime::{RuntimeError, stand_in};

/// How many changes are reported.
const CHANGES: usize = 40;

/// The opened workspace of a session during setup.
pub(super) struct Watching {
    tree: Arc<Tree>,
    looking: JoinHandle<Result<(Before, Watch), RuntimeError>>,
    /// The protected parts, if no mounts hold them.
    kept: Kept,
}

/// The workspace while the command may be running.
pub(super) struct Watched {
    tree: Arc<Tree>,
    kept: Kept,
    before: Before,
    /// Alarms so far.
    pub(super) watch: Watch,
}

/// What was told about the workspace of a run.
#[derive(Default)]
pub(super) struct Told {
    /// What the watch is meant to prevent.
    pub(super) alarms: Vec<String>,
    /// Files that the host may execute later.
    pub(super) changes: Vec<String>,
}

impl Watching {
    /// Occupies the protected names and starts to watch.
    pub(super) fn start(resolved: &Resolved) -> Result<Self, RuntimeError> {
        let workspace: Workspace = resolved.workspace.clone();
        let doing = || RuntimeError::io(format!("opening the workspace {}", workspace.source.display()));
        let tree = Arc::new(Tree::open(&workspace.source).map_err(doing())?);
        stand_in::put(&tree, &workspace)?;
        // Without a gate, or if user namespaces are permitted, the command can create a mount namespace in which
        // protected parts can be moved.
        let held = resolved.sandbox_enabled.value && !resolved.user_namespaces.value;
        let kept = if held { Kept::default() } else { Kept::open(&tree, &workspace) };
        let inner = Arc::clone(&tree);
        let looking = thread::spawn(move || {
            let before = Before::look(&inner, &workspace);
            Watch::start(inner, &workspace, held).map(|watch| (before, watch))
        });
        Ok(Self { tree, looking, kept })
    }

    /// Ends the watch of a session whose command never ran, and reports what it saw.
    pub(super) fn tell(self, tell: Tell<'_>) {
        for alarm in self.ready().map(|watched| watched.watch.finish()).unwrap_or_default() {
            tell(&format!("ALARM: {alarm}"));
        }
    }

    /// Waits for the first complete scan.
    pub(super) fn ready(self) -> Result<Watched, RuntimeError> {
        let looked = self.looking.join();
        let (before, watch) =
            looked.map_err(|_| RuntimeError::Host("internal: the scan of the workspace ended early".to_owned()))??;
        Ok(Watched { tree: self.tree, kept: self.kept, before, watch })
    }
}

impl Watched {
    /// Ends the watch, restores protected parts, and reports what it saw, and which changes by the command the host may execute
    /// later.
    pub(super) fn tell(self, tell: Tell<'_>) -> Told {
        let alarms = self.watch.finish();
        for alarm in &alarms {
            tell(&format!("ALARM: {alarm}"));
        }
        for line in self.kept.restore(&self.tree) {
            tell(&line);
        }
        let report = self.before.report(&self.tree);
        if let Some(alarm) = &report.alarm {
            tell(&format!("ALARM: {alarm}"));
        }
        if !report.changes.is_empty() {
            tell("the command changed files that this host may execute later; review them first:");
        }
        for change in report.changes.iter().take(CHANGES) {
            tell(&format!("  {change}"));
        }
        if let Some(more) = report.changes.len().checked_sub(CHANGES).filter(|&more| more > 0) {
            tell(&format!("  and {more} more"));
        }
        Told { alarms, changes: report.changes.iter().map(ToString::to_string).collect() }
    }
}
