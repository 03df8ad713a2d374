//! The workspace around a run: names that are kept, what is watched, and what is told in the end.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use super::Tell;
use crate::config::disk::Tree;
use crate::config::{Resolved, Workspace};
use crate::runtime::watch::{Before, Watch};
use crate::runtime::{RuntimeError, stand_in};

/// How many changes are named.
const CHANGES: usize = 40;

/// The opened workspace of a session, looked at while the session is set up.
pub(super) struct Watching {
    tree: Arc<Tree>,
    looking: JoinHandle<Result<(Before, Watch), RuntimeError>>,
}

/// The same once the command may run.
pub(super) struct Watched {
    tree: Arc<Tree>,
    before: Before,
    /// What is wrong already.
    pub(super) watch: Watch,
}

impl Watching {
    /// Takes the names that nobody may take, and begins to look.
    pub(super) fn start(resolved: &Resolved) -> Result<Self, RuntimeError> {
        let workspace: Workspace = resolved.workspace.clone();
        let doing = || RuntimeError::io(format!("opening the workspace {}", workspace.source.display()));
        let tree = Arc::new(Tree::open(&workspace.source).map_err(doing())?);
        stand_in::put(&tree, &workspace)?;
        // Without a gate, or where it permits them, the command makes a mount namespace in which nothing is held.
        let held = resolved.sandbox_enabled.value && !resolved.user_namespaces.value;
        let inner = Arc::clone(&tree);
        let looking = thread::spawn(move || {
            let before = Before::look(&inner, &workspace);
            Watch::start(inner, &workspace, held).map(|watch| (before, watch))
        });
        Ok(Self { tree, looking })
    }

    /// Ends the watch of a session whose command never ran, and tells what it saw.
    pub(super) fn tell(self, tell: Tell<'_>) {
        for alarm in self.ready().map(|watched| watched.watch.finish()).unwrap_or_default() {
            tell(&format!("ALARM: {alarm}"));
        }
    }

    /// Waits until everything has been looked at once.
    pub(super) fn ready(self) -> Result<Watched, RuntimeError> {
        let looked = self.looking.join();
        let (before, watch) =
            looked.map_err(|_| RuntimeError::Host("internal: the look at the workspace ended early".to_owned()))??;
        Ok(Watched { tree: self.tree, before, watch })
    }
}

impl Watched {
    /// Ends the watch, and tells what it saw and what the command has changed of what the host may execute later. True if
    /// something has happened that the watch is there to prevent.
    pub(super) fn tell(self, tell: Tell<'_>) -> bool {
        let alarms = self.watch.finish();
        for alarm in &alarms {
            tell(&format!("ALARM: {alarm}"));
        }
        let report = self.before.report(&self.tree);
        if let Some(alarm) = &report.alarm {
            tell(&format!("ALARM: {alarm}"));
        }
        if report.changes.is_empty() {
            return !alarms.is_empty();
        }
        tell("the command changed what this host may execute later; look before you go on:");
        for change in report.changes.iter().take(CHANGES) {
            tell(&format!("  {change}"));
        }
        if let Some(more) = report.changes.len().checked_sub(CHANGES).filter(|&more| more > 0) {
            tell(&format!("  and {more} more"));
        }
        !alarms.is_empty()
    }
}
