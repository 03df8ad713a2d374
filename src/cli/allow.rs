//! `sandboxc allow`: an entry for a session that runs.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use super::context::{Context, say, say_drawn};
use super::documents::{AllowedEntry, VERSION, print_json};
use super::{Failure, no_session, shell_files};
use crate::config::{SessionBounds, session_rule};
use crate::emit::live::with_rules;
use crate::policy::{Effect, HostPattern, Policy, Rule, RuleId, Verdict, compare};
use crate::runtime::exit;
use crate::runtime::live::LivePolicy;

#[derive(Debug, Args)]
pub(super) struct AllowArgs {
    /// Session id, as shown by `ps`
    #[arg(long, value_name = "SESSION", add = ArgValueCandidates::new(shell_files::sessions))]
    session: String,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Entry as in network.allow: a host, .suffix, HOST:PORT, or a mapping such as '{host: a.example.com, methods: [GET]}'
    #[arg(value_name = "ENTRY")]
    entry: String,
}

pub(super) fn allow(args: &AllowArgs) -> Result<u8, Failure> {
    let context = Context::new();
    let (registry, _) = Context::sessions()?;
    let session = &args.session;
    let live = LivePolicy::open(&registry, session)?.ok_or_else(|| no_session(session))?;
    let added = add(&context, &live, &args.entry)?;
    let (rule, opened) = match &added {
        Added::Rule(id) => (Some(id.to_string()), true),
        Added::Nothing => (None, false),
    };
    say(&match &rule {
        Some(rule) => format!("sandboxc: {session} now allows {} ({rule}), until it ends", args.entry),
        None => format!("sandboxc: {session} allows all of {} already; nothing was changed", args.entry),
    });
    if args.json {
        print_json(&AllowedEntry {
            version: VERSION,
            session: session.clone(),
            entry: args.entry.clone(),
            rule,
            opened,
        })?;
    }
    Ok(0)
}

/// What an entry changed.
pub(super) enum Added {
    /// It is in force, as this rule.
    Rule(RuleId),
    /// Everything of it was allowed already.
    Nothing,
}

/// Checks an entry and puts it into force.
pub(super) fn add(context: &Context, live: &LivePolicy, entry: &str) -> Result<Added, Failure> {
    let file = live.file()?;
    let bounds =
        SessionBounds { policy: &file.policy, own_networks: &file.own_networks, allow_private: &live.allow_private };
    let rule = session_rule(entry, &bounds).map_err(|(findings, sources)| {
        say_drawn(&findings.text(&sources, context.colour()));
        Failure::usage("the entry has errors; nothing was changed")
    })?;
    let new = with_rules(&file, vec![rule.clone()]).map_err(|error| Failure::usage(error.to_string()))?;
    let changes = compare(&file.policy, &new.policy);
    // The most specific pattern applies, so an entry for one host replaces what a suffix permits for it.
    if let Some(closed) = changes.iter().find(|change| change.effect == Effect::Closes) {
        let from = closed.from.as_ref().map(|from| format!(" ({})", from.short())).unwrap_or_default();
        let (host, port) = (&closed.host, closed.port);
        return Err(Failure::usage(format!(
            "the entry would replace what another one permits for {host}:{port}{from}; nothing was changed"
        )));
    }
    let refused = refusals(&new.policy, &rule);
    if changes.is_empty() {
        return match refused.is_empty() {
            true => Ok(Added::Nothing),
            false => Err(Failure { message: refused.join("\n"), code: exit::USAGE }),
        };
    }
    live.replace(&new)?;
    for line in refused {
        say(&format!("sandboxc: {line}"));
    }
    Ok(Added::Rule(rule.id))
}

/// What the server file does not permit of a rule that is in the policy.
fn refusals(policy: &Policy, rule: &Rule) -> Vec<String> {
    let example = match &rule.pattern {
        HostPattern::Exact(name) => name.to_string(),
        HostPattern::Suffix(base) => base.clone(),
        HostPattern::Subdomains(base) => format!("any.{base}"),
        HostPattern::Ip(address) => address.to_string(),
    };
    let refused = |port: &u16| match &rule.pattern {
        HostPattern::Ip(_) => policy.decide(&example, *port).verdict == Verdict::Deny,
        pattern => !policy.reaches(pattern, *port),
    };
    let line = |port: u16| {
        let decision = policy.decide(&example, port);
        let from = decision.from.map(|from| format!(" ({})", from.short())).unwrap_or_default();
        format!("{}:{port} stays denied: {}{from}", rule.pattern, decision.reason.text())
    };
    rule.covered_ports().into_iter().filter(refused).map(line).collect()
}
