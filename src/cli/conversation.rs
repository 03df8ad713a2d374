//! `sandboxc conversation`: what stays of sessions of a repo by URL.

mod branch;
mod open;
mod units;

pub(super) use open::{Opened, Starting, within};
pub(super) use units::{remote_only, units};

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::context::{Context, print, say, show};
use super::documents::{ConversationShown, Conversations, ExpiredConversations, TakenFiles, VERSION, print_json};
use super::ps::short;
use super::{ConfigArgs, Failure};
use crate::config::Remote;
use crate::runtime::conversation::{Listed, Store, Which, files, is_id, now};
use crate::runtime::git::{self, ANSWER, ASKED_FOR};
use crate::visible::escaped;

#[derive(Debug, Subcommand)]
pub(super) enum ConversationCommand {
    /// Make a conversation and print its id; its workspace is cloned at the first start
    New(NewArgs),
    /// List the conversations
    Ls(LsArgs),
    /// Show a conversation and its directories
    Show(OneArgs),
    /// Remove a conversation and everything in it
    Rm(RmArgs),
    /// Remove the conversations whose last end is longer ago than `expire_after`
    Expire(ExpireArgs),
    /// Copy files into the inbox of a conversation
    Put(PutArgs),
    /// Copy the outbox of a conversation into a new directory: regular files and directories only
    Take(TakeArgs),
}

/// Selects a repo by URL.
#[derive(Debug, Args)]
pub(super) struct Of {
    /// Entry of `repos` in the server file [default: the only one with `repo_url`, or the one that has the conversation]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Server file [default: `$XDG_CONFIG_HOME/sandboxc/server.yaml`]
    #[arg(long, value_name = "FILE")]
    server: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct NewArgs {
    #[command(flatten)]
    of: Of,
}

#[derive(Debug, Args)]
pub(super) struct LsArgs {
    #[command(flatten)]
    of: Of,
}

#[derive(Debug, Args)]
pub(super) struct OneArgs {
    #[command(flatten)]
    of: Of,
    /// The conversation
    #[arg(value_parser = id)]
    id: String,
}

#[derive(Debug, Args)]
pub(super) struct RmArgs {
    #[command(flatten)]
    of: Of,
    /// The conversations
    #[arg(value_parser = id, required = true)]
    ids: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct ExpireArgs {
    #[command(flatten)]
    of: Of,
    /// Show what would be removed
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Args)]
pub(super) struct PutArgs {
    #[command(flatten)]
    of: Of,
    /// The conversation
    #[arg(value_parser = id)]
    id: String,
    /// Regular files
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct TakeArgs {
    #[command(flatten)]
    of: Of,
    /// The conversation
    #[arg(value_parser = id)]
    id: String,
    /// A new or empty directory
    dir: PathBuf,
    /// Copy at most this many MiB
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    most: u64,
}

fn id(text: &str) -> Result<String, String> {
    is_id(text).then(|| text.to_owned()).ok_or_else(|| "an id has eight digits of 0-9 and a-f".to_owned())
}

pub(super) fn conversation(command: &ConversationCommand) -> Result<u8, Failure> {
    match command {
        ConversationCommand::New(args) => new(args),
        ConversationCommand::Ls(args) => ls(args),
        ConversationCommand::Show(args) => show_one(args),
        ConversationCommand::Rm(args) => rm(args),
        ConversationCommand::Expire(args) => expire(args),
        ConversationCommand::Put(args) => put(args),
        ConversationCommand::Take(args) => take(args),
    }
}

/// Answers git's question for a password, if git has started this program for that.
pub(super) fn askpass() -> Option<u8> {
    let var = |name: &str| std::env::var(name).ok();
    let (server, token) = (var(ASKED_FOR)?, var(ANSWER)?);
    let question = std::env::args_os().nth(1).and_then(|text| text.into_string().ok()).unwrap_or_default();
    let answered = git::askpass(&question, &server, &token).is_some_and(|answer| print(&format!("{answer}\n")).is_ok());
    Some(u8::from(!answered))
}

impl Of {
    fn config(&self) -> ConfigArgs {
        ConfigArgs { repo: None, config_from: None, server: self.server.clone(), name: self.name.clone() }
    }

    /// The repos by URL that are meant: the named one, or all.
    fn remotes(&self, context: &Context) -> Result<Vec<Remote>, Failure> {
        match &self.name {
            Some(name) => Ok(vec![context.remote(&self.config(), name)?.0]),
            None => context.sound_remotes(&self.config()),
        }
    }

    /// The repo of a conversation that is not there yet.
    fn only(&self, context: &Context) -> Result<Remote, Failure> {
        let mut all = self.remotes(context)?;
        match (all.pop(), all.is_empty()) {
            (Some(one), true) => Ok(one),
            (Some(_), false) => {
                Err(Failure::usage("the server file has several repos by URL: choose one with `--name`"))
            }
            (None, _) => Err(Failure::usage("the server file has no entry with `repo_url`")),
        }
    }

    /// The repo that has a conversation.
    fn store_of(&self, context: &Context, id: &str) -> Result<(Store, Listed), Failure> {
        let mut last = None;
        for remote in self.remotes(context)? {
            let store = Store::open(&context.state_home()?, &remote.name)?;
            match store.find(id) {
                Ok(found) => return Ok((store, found)),
                Err(error) => last = Some(error),
            }
        }
        Err(last.map_or_else(
            || Failure::usage("the server file has no entry with `repo_url`"),
            |error| Failure::usage(error.to_string()),
        ))
    }
}

fn new(args: &NewArgs) -> Result<u8, Failure> {
    let context = Context::new();
    let remote = args.of.only(&context)?;
    let store = Store::open(&context.state_home()?, &remote.name)?;
    let held = store.begin(Which::New { scheduled: false }, None, &say, &|| Ok(()))?;
    if args.of.json {
        let listed = Listed { conversation: held.conversation.clone(), running: false };
        print_json(&shown(&store, listed))?;
    } else {
        print(&format!("{}\n", held.conversation.id))?;
    }
    Ok(0)
}

fn shown(store: &Store, listed: Listed) -> ConversationShown {
    ConversationShown { version: VERSION, dir: store.dir(&listed.conversation.id), conversation: listed }
}

fn ls(args: &LsArgs) -> Result<u8, Failure> {
    let context = Context::new();
    let mut all = Vec::new();
    for remote in args.of.remotes(&context)? {
        all.extend(Store::open(&context.state_home()?, &remote.name)?.list()?);
    }
    if args.of.json {
        print_json(&Conversations { version: VERSION, conversations: all })?;
        return Ok(0);
    }
    for one in &all {
        print(&format!("{}\n", line(one)))?;
    }
    Ok(0)
}

/// `3f9a12cd  widgets  ended 3h ago with 0  main 1a2b3c4d5e6f`.
fn line(one: &Listed) -> String {
    let conversation = &one.conversation;
    let ago = |then: u64| short(now().saturating_sub(then));
    let state = match (one.running, conversation.last_end.max(conversation.last_start), conversation.exit_code) {
        (true, _, _) => "running".to_owned(),
        (false, None, _) => format!("made {} ago", ago(conversation.created)),
        (false, Some(end), Some(code)) => format!("ended {} ago with {code}", ago(end)),
        (false, Some(start), None) => format!("started {} ago", ago(start)),
    };
    let mut parts = vec![conversation.id.clone(), conversation.repo.clone(), state];
    if conversation.failures > 0 {
        parts.push(format!("failed starts: {}", conversation.failures));
    }
    if let (Some(branch), Some(commit)) = (&conversation.branch, &conversation.commit) {
        parts.push(format!("{branch} {}", commit.get(..12).unwrap_or(commit)));
    }
    escaped(&parts.join("  "))
}

fn show_one(args: &OneArgs) -> Result<u8, Failure> {
    let (store, found) = args.of.store_of(&Context::new(), &args.id)?;
    if args.of.json {
        print_json(&shown(&store, found))?;
        return Ok(0);
    }
    show(&format!("{}\n{}\n", line(&found), store.dir(&args.id).display()))?;
    Ok(0)
}

fn rm(args: &RmArgs) -> Result<u8, Failure> {
    let context = Context::new();
    for id in &args.ids {
        let (store, found) = args.of.store_of(&context, id)?;
        if !store.remove(id)? {
            return Err(Failure::promise(format!(
                "the conversation {id} of {} is running: stop its session first, see `sandboxc ps`",
                found.conversation.repo
            )));
        }
    }
    Ok(0)
}

fn expire(args: &ExpireArgs) -> Result<u8, Failure> {
    let context = Context::new();
    let mut expired = Vec::new();
    for remote in args.of.remotes(&context)? {
        let store = Store::open(&context.state_home()?, &remote.name)?;
        expired.extend(if args.dry_run { store.expired(&remote)? } else { store.expire(&remote)? });
    }
    if args.of.json {
        print_json(&ExpiredConversations { version: VERSION, dry_run: args.dry_run, expired })?;
        return Ok(0);
    }
    for conversation in expired {
        print(&format!("{}\n", line(&Listed { conversation, running: false })))?;
    }
    Ok(0)
}

fn put(args: &PutArgs) -> Result<u8, Failure> {
    let (store, _) = args.of.store_of(&Context::new(), &args.id)?;
    files::put(&store.dir(&args.id).join("inbox"), &args.files)?;
    Ok(0)
}

fn take(args: &TakeArgs) -> Result<u8, Failure> {
    let (store, _) = args.of.store_of(&Context::new(), &args.id)?;
    let most = args.most.saturating_mul(1 << 20);
    let taken = files::take(&store.dir(&args.id).join("outbox"), &args.dir, most)?;
    if args.of.json {
        print_json(&TakenFiles::of(taken))?;
        return Ok(0);
    }
    for (path, why) in &taken.skipped {
        say(&format!("sandboxc: skipped {}: {why}", escaped(&path.to_string_lossy())));
    }
    if taken.more > 0 {
        say(&format!("sandboxc: skipped {} more", taken.more));
    }
    print(&format!("{} files, {} bytes\n", taken.files, taken.bytes))?;
    Ok(0)
}
