//! `sandboxc suggest`: the entries that would allow what a run was denied.

mod evidence;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;

pub(super) use self::evidence::suggested;
use super::context::{Context, say, show};
use super::{ConfigArgs, Failure};
use crate::config::add_to_allow;
use crate::policy::{Effect, Policy, Verdict, compare};
use crate::runtime::logged::Logged;
use crate::runtime::output;

#[derive(Debug, Args)]
pub(super) struct SuggestArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Write the entries to the repo file
    #[arg(long)]
    write: bool,
    /// Replace several paths of a host by a pattern, and say what else it permits
    #[arg(long, visible_alias = "generalize")]
    generalise: bool,
    /// Network logs; `-` is standard input
    #[arg(required = true, value_name = "LOG")]
    logs: Vec<PathBuf>,
}

pub(super) fn suggest(args: &SuggestArgs) -> Result<u8, Failure> {
    let context = Context::new();
    let resolved = context.resolve(&args.config, false)?;
    let log = super::log::read(&args.logs)?;
    let denied: Vec<&Logged> = log.lines.iter().filter(|line| line.policy_verdict() == Some(Verdict::Deny)).collect();
    let destination = if args.write { Destination::File } else { Destination::Stdout };
    propose(&context, &args.config, &resolved.policy, &denied, args.generalise, destination)?;
    Ok(0)
}

/// Where entries go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    /// The repo file.
    File,
    /// A patch on stdout.
    Stdout,
    /// A patch on stderr, where stdout belongs to a command.
    Stderr,
}

/// Shows or writes the entries that would allow what these lines say and the policy denies.
pub(super) fn propose(
    context: &Context,
    config: &ConfigArgs,
    policy: &Policy,
    lines: &[&Logged],
    generalise: bool,
    to: Destination,
) -> Result<(), Failure> {
    let suggested = suggested(lines, policy, generalise);
    for note in &suggested.notes {
        say(&format!("sandboxc: {note}"));
    }
    if suggested.entries.is_empty() {
        say("sandboxc: the log has nothing that an entry of the repo file would allow");
        return Ok(());
    }
    let edit = Edit::of(context, config, &suggested.entries, policy, lines)?;
    match to {
        Destination::File => {
            edit.write()?;
            say(&format!("sandboxc: wrote {} entries to .sandboxc/sandbox.yaml", suggested.entries.len()));
        }
        Destination::Stdout => show(&patch(&edit.old, &edit.new))?,
        Destination::Stderr => say(patch(&edit.old, &edit.new).trim_end()),
    }
    Ok(())
}

/// The repo file with more entries, which has been checked and not been written.
pub(super) struct Edit {
    repo_dir: PathBuf,
    old: String,
    new: String,
}

impl Edit {
    /// `policy` is the one without the entries, and `denied` is what they are for.
    pub(super) fn of(
        context: &Context,
        config: &ConfigArgs,
        entries: &[String],
        policy: &Policy,
        denied: &[&Logged],
    ) -> Result<Self, Failure> {
        let repo_dir = context.repo_dir(config)?;
        let old = repo_text(&repo_dir)?;
        let by_hand = || Failure::usage(format!("add these entries by hand:\n{}", entries.join("\n")));
        let new = add_to_allow(&old, entries).ok_or_else(by_hand)?;
        check(context, config, &new, policy, denied)?;
        Ok(Self { repo_dir, old, new })
    }

    pub(super) fn write(&self) -> Result<(), Failure> {
        Ok(output::in_repo(&self.repo_dir, "sandbox.yaml", self.new.as_bytes())?)
    }
}

/// The repo file as it is in the workspace; empty if there is none.
fn repo_text(repo_dir: &Path) -> Result<String, Failure> {
    let bytes = crate::config::disk::Tree::open(repo_dir)
        .and_then(|tree| tree.read(Path::new(".sandboxc/sandbox.yaml"), 1 << 20));
    match bytes {
        Ok(bytes) => String::from_utf8(bytes).map_err(|_| Failure::usage("the repo file is not UTF-8")),
        Err(error) if crate::config::disk::missing(&error) => Ok(String::new()),
        Err(error) => Err(Failure::usage(format!("the repo file cannot be read: {error}"))),
    }
}

/// Loads the new text. It must be valid, and permit everything that the old one did.
fn check(context: &Context, config: &ConfigArgs, text: &str, old: &Policy, denied: &[&Logged]) -> Result<(), Failure> {
    let loaded = context.load_text(config, text)?;
    let Some(new) = loaded.resolved.map(|resolved| resolved.policy) else {
        let findings = loaded.diagnostics.text(&loaded.sources, false);
        return Err(Failure::promise(format!("the suggested entries are not valid:\n{findings}")));
    };
    // The most specific pattern applies, so an entry for one host replaces what a suffix permits for it.
    if let Some(closed) = compare(old, &new).into_iter().find(|change| change.effect == Effect::Closes) {
        let from = closed.from.map(|from| format!(" ({})", from.short())).unwrap_or_default();
        let (host, port) = (closed.host, closed.port);
        return Err(Failure::usage(format!(
            "an entry for exactly {host} would replace what another one permits for port {port}{from}; change that one by hand"
        )));
    }
    let stays: BTreeSet<String> =
        denied.iter().filter(|line| line.decide(&new).verdict == Verdict::Deny).map(|line| line.request()).collect();
    for request in stays {
        say(&format!("sandboxc: {request} stays denied"));
    }
    Ok(())
}

fn patch(old: &str, new: &str) -> String {
    let old_name = if old.is_empty() { "/dev/null" } else { "a/.sandboxc/sandbox.yaml" };
    similar::TextDiff::from_lines(old, new).unified_diff().header(old_name, "b/.sandboxc/sandbox.yaml").to_string()
}
