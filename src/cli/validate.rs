//! `sandboxc validate`.

use std::path::Path;

use clap::Args;

use super::context::{Context, print, say, say_drawn};
use super::documents::VERSION;
use super::find::Found;
use super::{ConfigArgs, Failure};
use crate::config::{
    Identity, InForce, Loaded, REPO_DIR, REPO_FILE, Resolved, SERVER_FILE, check_secret_files, refused_schedule,
};
use crate::diagnostic::{Severity, render_json};
use crate::runtime::{exit, systemd};
use crate::shell;
use crate::source::Sourced;
use crate::visible::escaped;

#[derive(Debug, Args)]
pub(super) struct ValidateArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Print the findings as JSON to stdout
    #[arg(long)]
    json: bool,
    /// Fail if there are warnings, or no config at all
    #[arg(long)]
    deny_warnings: bool,
}

pub(super) fn validate(args: &ValidateArgs) -> Result<u8, Failure> {
    let context = Context::of(&args.config)?;
    let (found, mut loaded) = context.find_and_load(&args.config, false)?;
    ask_this_host(&mut loaded);
    if args.json {
        let findings = render_json(&loaded.diagnostics, &loaded.sources);
        let valid = !loaded.diagnostics.has_errors();
        print(&format!("{{\"version\": {VERSION}, \"valid\": {valid}, \"findings\": {}}}\n", findings.trim_end()))?;
    } else if !loaded.diagnostics.is_empty() {
        say_drawn(&loaded.diagnostics.text(&loaded.sources, context.colour()));
    }
    if loaded.diagnostics.has_errors() {
        return Ok(exit::USAGE);
    }
    let default = context.config_home()?.join("sandboxc").join(SERVER_FILE);
    let in_force = &loaded.in_force;
    let none = in_force.repo.is_none() && in_force.server.is_none();
    if let Some(resolved) = loaded.resolved.as_ref().filter(|_| !args.json) {
        say(if none {
            "sandboxc: there is no config here; the defaults are in force"
        } else {
            "sandboxc: the config is valid"
        });
        say(&summary(in_force, &found, &default, resolved));
    }
    let warned = loaded.diagnostics.sorted().iter().any(|finding| finding.severity == Severity::Warning);
    if args.deny_warnings && (warned || none) {
        let what = if warned { "there are warnings" } else { "there is no config" };
        return Err(Failure::usage(format!("--deny-warnings: {what}")));
    }
    Ok(0)
}

/// Findings that depend on this machine, which only `validate` reports: `compile` gives the same everywhere.
fn ask_this_host(loaded: &mut Loaded) {
    if let Some(resolved) = &loaded.resolved {
        loaded.diagnostics.append(check_secret_files(resolved));
    }
    let schedule = loaded.schedule.as_ref().filter(|_| !loaded.diagnostics.has_errors());
    if let Some(schedule) = schedule.filter(|schedule| systemd::accepts_schedule(&schedule.value) == Some(false)) {
        loaded.diagnostics.push(refused_schedule(schedule));
    }
}

/// What is in force, one line each.
fn summary(files: &InForce, found: &Found, default_server: &Path, resolved: &Resolved) -> String {
    let shown = |path: &Path| path.display().to_string();
    let mut lines: Vec<(&str, String)> = Vec::new();
    let refused = found.refused.as_ref().map_or_else(String::new, |dir| {
        format!("; the search did not enter {}, which other users can write", dir.display())
    });
    let no_repo = || format!("none ({} does not exist{refused})", shown(&found.dir.join(REPO_DIR).join(REPO_FILE)));
    lines.push(("repo file", files.repo.as_deref().map_or_else(no_repo, shown)));
    let no_server = || format!("none ({} does not exist)", shown(default_server));
    lines.push(("server file", files.server.as_deref().map_or_else(no_server, shown)));
    let entry = resolved.name.as_ref().map(|name| format!("repos.{name} of the server file"));
    lines.extend(entry.map(|entry| ("entry", entry)));
    let built_in = || "none; the built-in list applies, and the first run writes it".to_owned();
    lines.push(("allow file", files.allow_file.as_deref().map_or_else(built_in, shown)));
    let overrides = files.overrides.join(" ");
    lines.push(("environment", if overrides.is_empty() { "overrides nothing".to_owned() } else { overrides }));
    lines.push(("workspace", shown(&resolved.workspace.source)));
    lines.push(("hosts", hosts(resolved)));
    let image = &resolved.image;
    lines.push(("image", format!("{}  ({})", image.value.reference(), image.from.short())));
    let identity = match resolved.identity.value {
        Identity::HostUser => "host-user",
        Identity::Root => "root",
    };
    lines.push(("identity", format!("{identity}  ({})", resolved.identity.from.short())));
    lines.push(("command", command(&resolved.command)));
    let timeout = resolved.limits.timeout.as_ref();
    lines.push((
        "timeout",
        timeout.map_or_else(|| "none".to_owned(), |t| format!("{} s  ({})", t.value, t.from.short())),
    ));
    lines.iter().map(|(name, text)| format!("  {name:<11}  {text}")).collect::<Vec<_>>().join("\n")
}

fn hosts(resolved: &Resolved) -> String {
    if !resolved.sandbox_enabled.value {
        return format!("EVERYTHING: the network sandbox is off  ({})", resolved.sandbox_enabled.from.short());
    }
    match resolved.policy.allow.groups().count() {
        0 => "none is allowed".to_owned(),
        1 => "1 is allowed".to_owned(),
        count => format!("{count} are allowed"),
    }
}

fn command(words: &[Sourced<String>]) -> String {
    let text = shell::line(&words.iter().map(|word| word.value.clone()).collect::<Vec<_>>());
    match words.first() {
        Some(first) => format!("{}  ({})", escaped(&text), first.from.short()),
        None => "none; `run` needs one, and `agent` cannot start".to_owned(),
    }
}
