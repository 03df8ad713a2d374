//! The image of a repo's Containerfile: a start builds it if it is missing or too old.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use crate::cli::Failure;
use crate::cli::context::{Context, say, say_drawn, with_router};
use crate::cli::ps::short;
use crate::config::{BuildNetwork, ImageSource, Resolved, SecretValues};
use crate::runtime::host;
use crate::runtime::image::created;
use crate::runtime::image_build::{Build, Watcher, build, build_in};
use crate::runtime::life::{self, Order, Purpose, image_use};
use crate::runtime::podman::Podman;
use crate::runtime::registry::Registry;
use crate::runtime::report::Report;
use crate::runtime::signals::Signals;
use crate::visible::escaped;

/// When to build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// Somebody asked for it.
    Always,
    /// A start needs it, which nobody else may have built meanwhile.
    Needed,
}

/// What a start knows about its image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// Nothing.
    Nothing,
    /// podman does not have it.
    Missing,
}

/// Why an image has to be built.
enum Reason {
    Missing,
    Old(u64),
}

/// Builds the image of a start if it is missing or too old. Returns whether it is there now as far as this can be known.
/// Nothing is printed, except through `tell`.
pub(crate) fn provide(resolved: &Resolved, known: Known, tell: Option<&dyn Fn(&str)>) -> Result<bool, Failure> {
    let Some(recipe) = resolved.image.value.recipe() else { return Ok(false) };
    // Asking podman takes time, so a start relies on the previous one.
    let registry = Registry::open(&Context::runtime_dir()?)?;
    let has_run = registry.is_used(&image_use(resolved.image.value.reference(), resolved.identity.value));
    if known == Known::Nothing && has_run && recipe.max_age.is_none() {
        return Ok(true);
    }
    let podman = Podman::apart()?;
    let Some(reason) = reason(&podman, resolved)? else { return Ok(true) };
    if recipe.network.is_none() {
        return match reason {
            // The caller may ask.
            Reason::Missing if known == Known::Nothing => Ok(false),
            Reason::Missing => Err(undecided(resolved, "is missing")),
            Reason::Old(age) => Err(undecided(resolved, &format!("is {} old", short(age)))),
        };
    }
    if let Some(tell) = tell {
        let why = match reason {
            Reason::Missing => "is missing".to_owned(),
            Reason::Old(age) => format!("is {} old", short(age)),
        };
        tell(&format!("sandboxc: the image {} {why}: building it", resolved.image.value.reference()));
    }
    build_repos(&podman, resolved, None, tell, When::Needed)?;
    Ok(true)
}

/// Says what to write, where nobody has said how to build an image.
fn undecided(resolved: &Resolved, why: &str) -> Failure {
    let recipe = resolved.image.value.recipe();
    say_drawn(recipe.map_or("", |recipe| recipe.undecided.trim_end()));
    Failure::promise(format!(
        "the image {} {why}; build it with `sandboxc image build agent`, or say how a start shall do that; nothing was run",
        resolved.image.value.reference()
    ))
}

/// Why the image has to be built now, if so.
fn reason(podman: &Podman, resolved: &Resolved) -> Result<Option<Reason>, Failure> {
    let reference = resolved.image.value.reference();
    let Some(created) = created(podman)?.get(reference).copied() else { return Ok(Some(Reason::Missing)) };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let age = now.saturating_sub(created);
    let most = resolved.image.value.recipe().and_then(|recipe| recipe.max_age.as_ref());
    Ok(most.filter(|most| age > most.value).map(|_| Reason::Old(age)))
}

/// Builds the image of the repo's Containerfile, once for all who want it at the same time.
pub(crate) fn build_repos(
    podman: &Podman,
    resolved: &Resolved,
    base: Option<&str>,
    tell: Option<&dyn Fn(&str)>,
    when: When,
) -> Result<(), Failure> {
    let ImageSource::Containerfile { reference, recipe, .. } = &resolved.image.value else { return Ok(()) };
    let signals = Arc::new(Signals::take_over()?);
    let registry = Registry::open(&Context::runtime_dir()?)?;
    let use_ = image_use(reference, resolved.identity.value);
    let lock = registry.heeding(&signals).build(reference)?;
    if when == When::Needed && reason(podman, resolved)?.is_none() {
        return Ok(());
    }
    let wanted = Build {
        tag: reference,
        containerfile: &recipe.text,
        base,
        context: Some(&recipe.context),
        // A conversation's workspace is one of many of its repo.
        repo: match &resolved.name {
            Some(name) if resolved.fresh_home => Some(Path::new(name)),
            _ => Some(&resolved.workspace.source),
        },
    };
    let shown = tell.map(|tell| move |line: &str| tell(&escaped(line)));
    let watcher = Watcher { tell: shown.as_ref().map(|shown| shown as &dyn Fn(&str)), signals: Some(&signals) };
    match recipe.network.as_ref().map(|network| network.value) {
        Some(BuildNetwork::Sandboxed) => build_sandboxed(resolved, &wanted, watcher.tell, &signals)?,
        Some(BuildNetwork::Host) | None => build(podman, &wanted, &watcher)?,
    }
    registry.forget_use(&use_);
    drop(lock);
    Ok(())
}

/// Builds in the network of a session of its own, which ends with the build.
fn build_sandboxed(
    resolved: &Resolved,
    wanted: &Build<'_>,
    tell: Option<&dyn Fn(&str)>,
    signals: &Arc<Signals>,
) -> Result<(), Failure> {
    let off = || {
        Failure::usage(
            "the network sandbox is off, so a build cannot be sandboxed: write `sandbox_enabled: true` in the server file, or \
             `build: host`",
        )
    };
    let resolved = with_router(resolved.clone())?.for_building().ok_or_else(off)?;
    let runtime_dir = host::required_runtime_dir()?;
    let order = Order {
        config: (&resolved, &SecretValues::default()),
        session: None,
        purpose: Purpose::Build(&|around| build_in(around, wanted, tell)),
        version: None,
        strict: false,
        timeout: None,
        tty: false,
        term: None,
        network_log: None,
        runtime_dir: &runtime_dir,
        keep: false,
        quiet: false,
        wants_report: false,
        signals: Some(Arc::clone(signals)),
        progress: &|_| (),
    };
    // What it was refused explains a failure.
    let said = RefCell::new(Vec::new());
    let keep = |line: &str| match tell {
        Some(tell) => tell(&format!("sandboxc: {line}")),
        None => said.borrow_mut().push(line.to_owned()),
    };
    let built = life::live(&order, &keep, &mut Report::begin());
    built.map(drop).map_err(|error| {
        said.take().iter().for_each(|line| say(&format!("sandboxc: {line}")));
        error.into()
    })
}
