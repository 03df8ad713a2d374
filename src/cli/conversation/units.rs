//! Units for a repo by URL, for `compile --target quadlet` and `install`.

use std::path::Path;

use crate::cli::context::Context;
use crate::cli::{ConfigArgs, Failure};
use crate::config::Remote;
use crate::emit::quadlet::ConversationUnits;
use crate::emit::{File, tree};

/// The repo by URL that the arguments name, unless they mean a directory of this host.
pub(in crate::cli) fn remote_only(context: &Context, config: &ConfigArgs) -> Result<Option<Remote>, Failure> {
    let Some(name) = config.name.as_ref().filter(|_| config.repo.is_none()) else { return Ok(None) };
    let remote = context.all_remotes(config)?.into_iter().find(|remote| &remote.name == name);
    Ok(remote.filter(|_| matches!(context.entry_path(config), Ok(None))))
}

/// The files for a repo by URL, in a directory with the session's name.
pub(in crate::cli) fn units(
    context: &Context,
    config: &ConfigArgs,
    (remote, session): (&Remote, &str),
    command: &[String],
) -> Result<Vec<File>, Failure> {
    let server = context.server_file(config)?;
    let state_home = context.var("XDG_STATE_HOME").map(Path::new).filter(|path| path.is_absolute());
    Ok(tree::conversations(&ConversationUnits { session, remote, server: server.as_deref(), state_home, command })?)
}
