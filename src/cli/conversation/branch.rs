//! What commands that start nothing see of a repo by URL: the config of its branch, as it was fetched last.

use super::units::remote_only;
use crate::cli::context::{Context, say};
use crate::cli::ps::short;
use crate::cli::{ConfigArgs, Failure};
use crate::config::Frozen;
use crate::runtime::conversation::Store;
use crate::runtime::git::Git;

impl Context {
    /// The environment for a config: that of the mirror's branch, if the arguments name a repo by URL.
    pub(in crate::cli) fn of(config: &ConfigArgs) -> Result<Self, Failure> {
        let context = Self::new();
        let Some(remote) = remote_only(&context, config)? else { return Ok(context) };
        if config.config_from.is_some() {
            return Err(Failure::usage(format!(
                "{} is a repo by URL, whose config comes from its branch: remove --config-from, or add --repo",
                remote.name
            )));
        }
        let store = Store::open(&context.state_home()?, &remote.name)?;
        let mirror = store.mirror();
        let tip = mirror.as_is(&remote, Git { token: None, signals: None, progress: None })?;
        let frozen = Frozen::of_mirror(&mirror.git_dir(), &tip.commit, &tip.branch);
        let frozen = frozen.map_err(|error| Failure::usage(error.to_string()))?;
        say(&format!(
            "sandboxc: this is about new conversations of {}, by its branch {} as it was fetched {} ago",
            remote.name,
            tip.branch,
            short(tip.age)
        ));
        Ok(context.in_conversation(store.blank()?, frozen))
    }
}
