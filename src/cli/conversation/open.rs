//! Starts a session in a conversation: fetches the mirror, clones the workspace, and reads the config of the branch.

use std::cell::{Cell, RefCell};
use std::io::{self, IsTerminal as _};
use std::sync::Arc;

use clap::Args;

use super::units::remote_only;
use crate::cli::context::{Context, say, show_progress};
use crate::cli::ps::short;
use crate::cli::run::RunFlags;
use crate::cli::{ConfigArgs, Failure};
use crate::config::{Frozen, Remote, Secret};
use crate::runtime::conversation::{HeldConversation, Store, Which, is_id};
use crate::runtime::git::{Git, Token};
use crate::runtime::mirror::Tip;
use crate::runtime::signals::Signals;

/// Flags of commands that start a session.
#[derive(Debug, Args)]
pub(in crate::cli) struct Starting {
    /// Run in this conversation of the repo by URL that --name says, or in a new one
    #[arg(long, value_name = "ID|new", requires = "name", conflicts_with_all = ["repo", "config_from"], value_parser = which)]
    conversation: Option<String>,
    /// Use the mirror as it is, without fetching it
    #[arg(long, requires = "conversation")]
    offline: bool,
    /// The conversation is one of a schedule, of which the newest stay
    #[arg(long, requires = "conversation", hide = true)]
    scheduled: bool,
}

fn which(text: &str) -> Result<String, String> {
    match text == "new" || is_id(text) {
        true => Ok(text.to_owned()),
        false => Err("an id has eight digits of 0-9 and a-f; write `new` for a new one".to_owned()),
    }
}

/// A conversation that a session runs in.
pub(in crate::cli) struct Opened {
    signals: Arc<Signals>,
    plan: RefCell<Option<String>>,
    /// The id of a new one, which nobody knows yet.
    new: Cell<Option<String>>,
}

impl Opened {
    pub(in crate::cli) fn signals(&self) -> Arc<Signals> {
        Arc::clone(&self.signals)
    }

    /// Says which conversation is new, once.
    pub(in crate::cli) fn announce(&self) {
        if let Some(id) = self.new.take() {
            say(&format!("conversation {id}"));
        }
    }

    /// Remembers the plan that ran.
    pub(in crate::cli) fn planned(&self, plan: Option<String>) {
        self.plan.replace(plan);
    }
}

/// Runs a session in the conversation that the flags name, if they do.
pub(in crate::cli) fn within(
    context: Context,
    flags: &RunFlags,
    body: impl FnOnce(&Context, Option<&Opened>) -> Result<u8, Failure>,
) -> Result<u8, Failure> {
    let (config, starting) = (flags.config(), flags.conversation());
    let (Some(asked), Some(name)) = (&starting.conversation, &config.name) else {
        refuse_without(&context, config)?;
        return body(&context, None);
    };
    let signals = Arc::new(Signals::take_over()?);
    let (remote, token) = context.remote(config, name)?;
    let store = Store::open(&context.state_home()?, name)?;
    let is_new = asked == "new";
    let which = if is_new { Which::New { scheduled: starting.scheduled } } else { Which::Id(asked) };
    // This start does not depend on it.
    match store.expire_daily(&remote) {
        Ok(old) => old.iter().for_each(|old| say(&format!("sandboxc: the conversation {} has expired", old.id))),
        Err(error) => say(&format!("sandboxc: removing expired conversations: {error}")),
    }
    let mut held = store.begin(which, remote.max_concurrent, &say, &|| signals.check())?;
    let id = held.conversation.id.clone();
    let progress = io::stderr().is_terminal() && !flags.is_quiet();
    let progress = progress.then_some(show_progress as fn(&str));
    let git = Git { token: given(&remote, token.as_ref()), signals: Some(&signals), progress };
    let prepared = prepare(&store, &remote, &mut held, git, starting.offline);
    progress.inspect(|show| show(""));
    let opened = match prepared {
        Ok(frozen) => {
            let opened = Opened {
                signals: Arc::clone(&signals),
                plan: RefCell::new(None),
                new: Cell::new(is_new.then(|| id.clone())),
            };
            let context = context.in_conversation(held.dir().to_owned(), frozen);
            let result = body(&context, Some(&opened));
            let code = result.as_ref().map_or_else(|failure| failure.code, |code| *code);
            // How the command ended is settled; a full disk does not change it.
            if let Err(error) = held.end(opened.plan.into_inner(), code) {
                say(&format!("sandboxc: {error}"));
            }
            result
        }
        Err(failure) => Err(failure),
    };
    let useless = is_new && opened.is_err() && !held.has_run();
    drop(held);
    // Nothing has run in a useless one, and nobody knows its id.
    let tidied = if useless { store.remove(&id).map(drop) } else { Ok(()) };
    let tidied = tidied.and_then(|()| if starting.scheduled { store.supersede(&remote) } else { Ok(()) });
    if let Err(error) = tidied {
        say(&format!("sandboxc: removing conversations: {error}"));
    }
    opened
}

/// The token, and who may have it.
fn given<'a>(remote: &'a Remote, token: Option<&'a Secret>) -> Option<Token<'a>> {
    let (token, server) = (token?, remote.asked_as()?);
    Some(Token { value: token.expose(), server, variable: remote.token_variable() })
}

/// The config of the branch, and a workspace. Says what a new workspace does not contain.
fn prepare(
    store: &Store,
    remote: &Remote,
    held: &mut HeldConversation,
    git: Git<'_>,
    offline: bool,
) -> Result<Frozen, Failure> {
    let mirror = store.mirror();
    let tip = if offline { mirror.as_is(remote, git)? } else { mirror.fetch(remote, git)? };
    if offline {
        say(&format!("sandboxc: offline: the mirror of {} was fetched {} ago", remote.name, short(tip.age)));
    }
    let frozen = Frozen::of_mirror(&mirror.git_dir(), &tip.commit, &tip.branch);
    let frozen = frozen.map_err(|error| Failure::usage(error.to_string()))?;
    if held.clone_workspace(&mirror, (remote, &tip), git)? {
        let (submodules, lfs) = mirror.left_out(&tip.commit, git)?;
        tell_left_out(&tip, &submodules, lfs);
    }
    Ok(frozen)
}

/// At most this many submodules are named.
const NAMED: usize = 5;

fn tell_left_out(tip: &Tip, submodules: &[String], lfs: bool) {
    if !submodules.is_empty() {
        let named = submodules.get(..NAMED).unwrap_or(submodules).join(", ");
        let more = submodules.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        say(&format!(
            "sandboxc: the workspace has no submodules ({named}{more}): run `git submodule update --init` inside, for which their \
             hosts must be allowed"
        ));
    }
    if lfs {
        say(&format!(
            "sandboxc: files that {} keeps with Git LFS are pointers: run `git lfs pull` inside, for which its host must be allowed",
            tip.branch
        ));
    }
}

/// An entry of the server file that is only a repo by URL has no directory of the host.
fn refuse_without(context: &Context, config: &ConfigArgs) -> Result<(), Failure> {
    match remote_only(context, config)? {
        None => Ok(()),
        Some(remote) => Err(Failure::usage(format!(
            "{} is a repo by URL, which runs in conversations: add `--conversation new`, or the id of one",
            remote.name
        ))),
    }
}
