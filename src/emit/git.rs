//! The credential helper for git inside.

use super::File;
use crate::plan::Plan;
use crate::plan::git::{HELPER, answers};
use crate::plan::pod::{FileSet, Source};

/// The helper's text, without the scopes.
const TEXT: &str = include_str!("../../templates/git-credential.sh");

/// The line that the scopes replace.
const SCOPES: &str = "# SCOPES\n";

/// The file that the agent's container mounts, if it does.
pub(super) fn file(plan: &Plan) -> Option<File> {
    let source = Source::Files { set: FileSet::Agent, file: Some(HELPER) };
    plan.agent.main.mounts.iter().find(|mount| mount.source == source)?;
    let scope = |(pattern, name): (String, &str)| format!("{pattern}) token=${{{name}-}} ;;\n");
    let scopes: String = answers(&plan.policy).into_iter().map(scope).collect();
    Some(File::new(format!("agent/{HELPER}"), TEXT.replace(SCOPES, &scopes)))
}
