//! `sandboxc status`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;

use super::context::{Context, show};
use super::documents::{Drift, InstalledSandbox, LastRunOf, Status, UsedImage, VERSION, print_json};
use super::install::session_of;
use super::ps::short;
use super::{ConfigArgs, Failure};
use crate::config::Remote;
use crate::emit::review::{Review, drift, review, without_place};
use crate::plan::pod::Role;
use crate::plan::{Command, Difference, Direction, Keeper, PlanRequest, hash_of, plan, policies};
use crate::runtime::host;
use crate::runtime::image;
use crate::runtime::podman::Podman;
use crate::runtime::systemd::{InstalledUnits, UserManager, now, state_of};

#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    /// Name under which the sandbox was installed [default: all]
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Server file [default: `$XDG_CONFIG_HOME/sandboxc/server.yaml`]
    #[arg(long, value_name = "FILE")]
    server: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn status(args: &StatusArgs) -> Result<u8, Failure> {
    host::check()?;
    let context = Context::new();
    let manager = UserManager::new(&context.config_home()?);
    let names = match &args.name {
        Some(name) => vec![session_of(name)?],
        None => manager.sessions()?,
    };
    let created = image::created(&Podman::apart()?)?;
    let mut sandboxes = Vec::new();
    for session in names {
        let Some(units) = manager.installed(&session)? else {
            return Err(Failure::usage(format!("no sandbox named {session} is installed")));
        };
        let about = About { context: &context, args, manager: &manager, created: &created };
        sandboxes.push(about.sandbox(session, &units)?);
    }
    if args.json {
        print_json(&Status { version: VERSION, sandboxes })?;
    } else if sandboxes.is_empty() {
        show("no sandbox is installed\n")?;
    } else {
        show(&sandboxes.iter().map(|one| text(one, now())).collect::<Vec<_>>().join("\n"))?;
    }
    Ok(0)
}

struct About<'a> {
    context: &'a Context,
    args: &'a StatusArgs,
    manager: &'a UserManager,
    /// When each image was created.
    created: &'a BTreeMap<String, u64>,
}

impl About<'_> {
    fn sandbox(&self, session: String, units: &InstalledUnits) -> Result<InstalledSandbox, Failure> {
        let installed = self.manager.review(&session)?;
        let state = state_of(units)?;
        let last = state.last.map(|last| LastRunOf {
            seconds: last.duration(),
            result: last.result,
            started: last.started,
            ended: last.ended,
        });
        Ok(InstalledSandbox {
            unit: units.agent.clone(),
            state: state.active,
            plan: installed.hash.clone(),
            schedule: installed.schedule.clone(),
            next_run: state.next,
            last_run: last,
            images: self.images(&installed),
            drift: self.drift(&session, &installed),
            session,
        })
    }

    fn images(&self, installed: &Review) -> Vec<UsedImage> {
        let mut names: Vec<&str> =
            installed.pods.iter().flat_map(|pod| &pod.containers).map(|container| container.image.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let image = |name: &str| {
            let created = self.created.get(name);
            let dated = created.copied().filter(|seconds| *seconds > 0);
            UsedImage { image: name.to_owned(), present: created.is_some(), created: dated }
        };
        names.into_iter().map(image).collect()
    }

    /// Compares the installed plan with the one that `install` would make today.
    fn drift(&self, session: &str, installed: &Review) -> Drift {
        match self.today(session, installed) {
            Ok(drift) => drift,
            Err(why) => Drift { changed: None, unknown: Some(why), keys: Vec::new(), differences: Vec::new() },
        }
    }

    /// The same for a repo by URL, whose units say nothing about the config of its branch.
    fn remote_today(&self, session: &str, installed: &Review) -> Result<Option<Drift>, String> {
        let config = ConfigArgs { repo: None, server: self.args.server.clone(), name: None, config_from: None };
        let all = self.context.all_remotes(&config).map_err(|failure| failure.message)?;
        let named = |remote: &Remote| session_of(&remote.name).is_ok_and(|one| one == session);
        let Some(remote) = all.into_iter().find(|remote| installed.pods.is_empty() && named(remote)) else {
            return Ok(None);
        };
        // All else is read at each start.
        let today = BTreeMap::from([("schedule".to_owned(), hash_of(&remote.schedule))]);
        let keys = installed.changed_keys(&today).unwrap_or_default();
        Ok(Some(Drift { changed: Some(!keys.is_empty()), unknown: None, keys, differences: Vec::new() }))
    }

    fn today(&self, session: &str, installed: &Review) -> Result<Drift, String> {
        let mut config = ConfigArgs { repo: None, server: self.args.server.clone(), name: None, config_from: None };
        let entries = self.context.entries(&config).map_err(|failure| failure.message)?;
        if let Some(drift) = self.remote_today(session, installed)? {
            return Ok(drift);
        }
        let entry = entries.into_iter().find(|(name, _)| session_of(name).is_ok_and(|one| one == session));
        let Some((name, Some(path))) = entry else {
            return Err(format!("the server file has no `repos: {session}` with a `path`"));
        };
        (config.name, config.repo) = (Some(name), Some(path));
        let loaded = self.context.load(&config, false).map_err(|failure| failure.message)?;
        let resolved = loaded.resolved.ok_or("the config has errors; run `sandboxc validate`")?;
        let resolved = super::context::with_router(resolved).map_err(|failure| failure.message)?;
        let words = match typed(installed) {
            Some(words) => words,
            None => resolved.command.iter().map(|word| word.value.clone()).collect(),
        };
        let server = self.context.server_file(&config).map_err(|failure| failure.message)?;
        let today = plan(PlanRequest {
            resolved: &resolved,
            session,
            command: &Command::Run(words),
            attempt: 0,
            keeper: Keeper::Service(server.as_deref()),
        });
        let today = today.map_err(|error| error.to_string())?;
        let keys = installed.changed_keys(&today.keys);
        let mut found = drift(installed, &review(&today));
        if let (Some(old), Some(_)) = (self.manager.policy(session), &today.network) {
            found.extend(policies(&old, &today.policy));
        }
        let changed = keys.as_ref().map_or(!found.is_empty(), |keys| !keys.is_empty());
        let differences = if changed { found.into_iter().collect() } else { Vec::new() };
        Ok(Drift { changed: Some(changed), unknown: None, keys: keys.unwrap_or_default(), differences })
    }
}

/// The command that was given to `install`, if it is not the configured one.
fn typed(installed: &Review) -> Option<Vec<String>> {
    let given = |fact: &String| fact.starts_with("command: ") && fact.ends_with("  (command line)");
    installed.facts.iter().find(|fact| given(fact))?;
    let mut containers = installed.pods.iter().flat_map(|pod| &pod.containers);
    containers.find(|container| container.container == Role::Agent).map(|container| container.command.clone())
}

fn text(one: &InstalledSandbox, now: u64) -> String {
    let mut lines = vec![("unit", format!("{}, {}", one.unit, one.state))];
    let schedule = one.schedule.as_deref().map(without_place);
    if let Some(schedule) = schedule {
        let next = one
            .next_run
            .map_or("the timer is not active".to_owned(), |at| format!("in {}", short(at.saturating_sub(now))));
        lines.push(("next run", format!("{next} ({schedule})")));
    }
    lines.push((
        "last run",
        one.last_run.as_ref().map_or("none that the journal knows".to_owned(), |last| {
            let took = last.seconds.map_or(String::new(), |seconds| format!(", took {}", short(seconds)));
            format!("{}, {} ago{took}", last.result, short(now.saturating_sub(last.ended)))
        }),
    ));
    for image in &one.images {
        let age = match (image.present, image.created) {
            (false, _) => "missing".to_owned(),
            (true, Some(at)) => format!("{} old", short(now.saturating_sub(at))),
            (true, None) => "present".to_owned(),
        };
        lines.push(("image", format!("{}, {age}", image.image)));
    }
    lines.push((
        "config",
        match (&one.drift.unknown, one.drift.changed) {
            (Some(why), _) => format!("cannot be compared: {why}"),
            (None, Some(true)) if one.drift.keys.is_empty() => "changed since it was installed".to_owned(),
            (None, Some(true)) => format!("changed since it was installed: {}", one.drift.keys.join(", ")),
            (None, _) => "as installed".to_owned(),
        },
    ));
    let mut text = format!("{}\n", one.session);
    for (name, what) in lines {
        text.push_str(&format!("  {name:<9} {what}\n"));
    }
    text + &one.drift.differences.iter().map(line).collect::<String>()
}

/// Like a line of `diff`.
fn line(difference: &Difference) -> String {
    let sign = match difference.direction {
        Direction::Wider => '+',
        Direction::Narrower => '-',
        Direction::Other => '~',
    };
    format!("    {sign} {}", super::diff::line(difference))
}
