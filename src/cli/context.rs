//! The environment, config loading and printing.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::config::{
    CONVERSATION_WORKSPACE, Frozen, Inputs, Loaded, Resolved, SecretValues, entries, entry_path, load, read_secrets,
};
use crate::diagnostic::{Diagnostic, Severity};
use crate::emit::{LimitGap, MOUNT_GAP, PodmanVersion as Version, limit_gaps, mount_gaps};
use crate::plan::Plan;
use crate::runtime::host;
use crate::runtime::podman::Podman;
use crate::runtime::registry::Registry;
use crate::runtime::router_image::RouterImage;
use crate::source::SourceMap;

pub(super) use super::words::{answer, confirmed, print, put, say, say_drawn, show, show_progress};

use super::find::{Found, find};
use super::{ConfigArgs, Failure};

/// A snapshot of the environment.
pub(super) struct Context {
    env: BTreeMap<String, String>,
    /// Variables that an option set, which nobody has to be told about.
    by_option: Vec<String>,
    /// Where the config and the workspace are, if they are a conversation's.
    place: Option<Place>,
}

impl Context {
    /// Takes the snapshot. Ignores variables that are not UTF-8.
    pub(super) fn new() -> Self {
        let pair = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self { env: std::env::vars_os().filter_map(pair).collect(), by_option: Vec::new(), place: None }
    }

    /// The same environment with another value of a variable.
    #[must_use]
    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.to_owned(), value.to_owned());
        self.by_option.push(name.to_owned());
        self
    }

    /// The same environment with the config and the workspace of a conversation.
    #[must_use]
    pub(super) fn in_conversation(self, dir: PathBuf, frozen: Frozen) -> Self {
        Self { place: Some(Place { dir, frozen }), ..self }
    }

    pub(super) fn var(&self, name: &str) -> Option<&str> {
        self.env.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    pub(super) fn home(&self) -> Option<PathBuf> {
        self.var("HOME").map(PathBuf::from)
    }

    pub(super) fn config_home(&self) -> Result<PathBuf, Failure> {
        let home = || self.home().map(|home| home.join(".config"));
        let absolute = |path: PathBuf| path.is_absolute().then_some(path);
        let xdg = self.var("XDG_CONFIG_HOME").map(PathBuf::from).and_then(absolute);
        xdg.or_else(home).ok_or_else(|| Failure::promise("neither XDG_CONFIG_HOME nor HOME is set"))
    }

    /// `$XDG_STATE_HOME`, or `~/.local/state`.
    pub(super) fn state_home(&self) -> Result<PathBuf, Failure> {
        let home = || self.home().map(|home| home.join(".local/state"));
        let xdg = self.var("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        xdg.or_else(home).ok_or_else(|| Failure::promise("neither XDG_STATE_HOME nor HOME is set"))
    }

    /// git's system and user config files.
    pub(super) fn git_files(&self) -> Result<Vec<PathBuf>, Failure> {
        Ok(crate::config::git::own_files(&self.env, self.home().as_deref(), &self.config_home()?))
    }

    /// Returns the absolute path of the server file, if there is one.
    pub(super) fn server_file(&self, args: &ConfigArgs) -> Result<Option<PathBuf>, Failure> {
        if let Some(path) = &args.server {
            let failed = |error| Failure::usage(format!("cannot find the server file {}: {error}", path.display()));
            return std::path::absolute(path).map(Some).map_err(failed);
        }
        let path = self.config_home()?.join("sandboxc/server.yaml");
        Ok(path.exists().then_some(path))
    }

    /// Returns the user's runtime directory, a tmpfs that is removed at logout unless lingering is enabled.
    pub(super) fn runtime_dir() -> Result<PathBuf, Failure> {
        Ok(host::required_runtime_dir()?)
    }

    /// Returns the registry of this user's sessions and a podman.
    pub(super) fn sessions() -> Result<(Registry, Podman), Failure> {
        host::check()?;
        let registry = Registry::open(&Self::runtime_dir()?)?;
        let podman = Podman::new(registry.empty_dir())?;
        Ok((registry, podman))
    }

    /// The repo's directory, without links.
    pub(super) fn repo_dir(&self, args: &ConfigArgs) -> Result<PathBuf, Failure> {
        self.find_repo(args).map(|found| found.dir)
    }

    fn find_repo(&self, args: &ConfigArgs) -> Result<Found, Failure> {
        if let Some(place) = &self.place {
            return Ok(Found { dir: place.dir.join(CONVERSATION_WORKSPACE), below: PathBuf::new(), refused: None });
        }
        let dir = args.repo.as_deref().unwrap_or(Path::new("."));
        let start = dir
            .canonicalize()
            .map_err(|error| Failure::usage(format!("cannot find the repo directory {}: {error}", dir.display())))?;
        if args.repo.is_some() {
            return Ok(Found { dir: start, below: PathBuf::new(), refused: None });
        }
        Ok(find(&start, self.home().and_then(|home| home.canonicalize().ok()).as_deref()))
    }

    /// Reads both config files. Fails only if the repo's directory does not exist; other errors are in the diagnostics.
    pub(super) fn load(&self, args: &ConfigArgs, write_defaults: bool) -> Result<Loaded, Failure> {
        self.find_and_load(args, write_defaults).map(|(_, loaded)| loaded)
    }

    /// Like `load`, and also returns where the repo was found.
    pub(super) fn find_and_load(&self, args: &ConfigArgs, write_defaults: bool) -> Result<(Found, Loaded), Failure> {
        let found = self.find_repo(args)?;
        let frozen = match (&self.place, &args.config_from) {
            (Some(place), _) => Some(place.frozen.clone()),
            (None, Some(name)) => Some(frozen(&found.dir, name)?),
            (None, None) => None,
        };
        let mut loaded = load(&Inputs { frozen, ..self.inputs(args, found.dir.clone(), write_defaults)? });
        if let Some(resolved) = &mut loaded.resolved {
            resolved.workspace.start.clone_from(&found.below);
        }
        Ok((found, loaded))
    }

    /// Like `load`, with this text instead of the repo file.
    pub(super) fn load_text(&self, args: &ConfigArgs, text: &str) -> Result<Loaded, Failure> {
        let inputs = self.inputs(args, self.repo_dir(args)?, false)?;
        Ok(load(&Inputs { repo_text: Some(text.to_owned()), ..inputs }))
    }

    /// Like `load`, with `.sandboxc/` from elsewhere.
    pub(super) fn load_frozen(&self, args: &ConfigArgs, frozen: Option<Frozen>) -> Result<Loaded, Failure> {
        let inputs = self.inputs(args, self.repo_dir(args)?, false)?;
        Ok(load(&Inputs { frozen, ..inputs }))
    }

    pub(super) fn inputs(&self, args: &ConfigArgs, repo_dir: PathBuf, write_defaults: bool) -> Result<Inputs, Failure> {
        Ok(Inputs {
            repo_dir,
            server_file: args.server.clone(),
            name: args.name.clone(),
            home: self.home(),
            config_home: self.config_home()?,
            env: self.env.clone(),
            frozen: None,
            conversation: self.place.as_ref().map(|place| place.dir.clone()),
            repo_text: None,
            write_defaults,
        })
    }

    /// Returns the `path` of the server's entry `args.name`.
    pub(super) fn entry_path(&self, args: &ConfigArgs) -> Result<Option<PathBuf>, Failure> {
        Ok(entry_path(&self.inputs(args, PathBuf::from("/"), false)?))
    }

    /// The server's entries, each with its `path`.
    pub(super) fn entries(&self, args: &ConfigArgs) -> Result<Vec<(String, Option<PathBuf>)>, Failure> {
        Ok(entries(&self.inputs(args, PathBuf::from("/"), false)?))
    }

    /// The names of the entries in the default server file.
    pub(super) fn entry_names(&self) -> Result<Vec<String>, Failure> {
        let args = ConfigArgs { repo: None, server: None, name: None, config_from: None };
        let inputs = self.inputs(&args, PathBuf::from("/"), false)?;
        Ok(entries(&inputs).into_iter().map(|(name, _)| name).collect())
    }

    /// Whether lingering is enabled for this user; `None` if unknown.
    pub(super) fn lingers(&self) -> Option<bool> {
        let user = self.var("USER").filter(|user| !user.contains('/'))?;
        Some(Path::new("/var/lib/systemd/linger").join(user).exists())
    }

    /// The same for a plan: where the config names no router, it is the one beside this program.
    pub(super) fn resolve_for_plan(&self, args: &ConfigArgs, write_defaults: bool) -> Result<Resolved, Failure> {
        with_router(self.resolve(args, write_defaults)?)
    }

    /// Reads both config files and prints the diagnostics to stderr. Fails if there are errors.
    pub(super) fn resolve(&self, args: &ConfigArgs, write_defaults: bool) -> Result<Resolved, Failure> {
        self.resolved(args, write_defaults).map(|(resolved, _)| resolved)
    }

    /// Like `resolve`, and also reads the values of all secrets.
    pub(super) fn resolve_with_secrets(&self, args: &ConfigArgs) -> Result<(Resolved, SecretValues), Failure> {
        let (resolved, sources) = self.resolved(args, true)?;
        let values = self.secrets(args, &resolved, &sources)?;
        // Where nothing is sandboxed, the runner starts no router.
        let resolved = if resolved.sandbox_enabled.value { with_router(resolved)? } else { resolved };
        Ok((resolved, values))
    }

    /// Reads the values of all secrets of a config. `sources` holds the files of the config.
    pub(super) fn secrets(
        &self,
        args: &ConfigArgs,
        resolved: &Resolved,
        sources: &SourceMap,
    ) -> Result<SecretValues, Failure> {
        let inputs = self.inputs(args, resolved.workspace.source.clone(), false)?;
        let (values, findings) = read_secrets(&inputs, resolved);
        if !findings.is_empty() {
            say_drawn(&findings.text(sources, self.colour()));
        }
        values.ok_or_else(|| Failure::promise("a secret has no usable value; nothing was run"))
    }

    /// Like `resolve`, and also returns the sources of the config.
    pub(super) fn resolved(&self, args: &ConfigArgs, write_defaults: bool) -> Result<(Resolved, SourceMap), Failure> {
        let loaded = self.load(args, write_defaults)?;
        self.tell(&loaded);
        match loaded.resolved {
            Some(resolved) if !loaded.diagnostics.has_errors() => {
                let workspace = &resolved.workspace;
                if !workspace.start.as_os_str().is_empty() {
                    let (dir, below) = (workspace.source.display(), workspace.start.display());
                    say(&format!("sandboxc: the workspace is {dir}, whose config is in force in {below}"));
                }
                Ok((resolved, loaded.sources))
            }
            _ => Err(Failure::usage("the config has errors; nothing was run")),
        }
    }

    /// Prints the findings about a config. Without errors, all that `validate` would show is one line.
    pub(super) fn tell(&self, loaded: &Loaded) {
        let findings = &loaded.diagnostics;
        if findings.has_errors() || verbosity() == Verbosity::Verbose {
            if !findings.is_empty() {
                say_drawn(&findings.text(&loaded.sources, self.colour()));
            }
            return;
        }
        if verbosity() == Verbosity::Quiet {
            return;
        }
        let overrides = loaded.in_force.overrides.iter().copied();
        let overrides: Vec<&str> = overrides.filter(|name| !self.by_option.iter().any(|by| by == name)).collect();
        match overrides.as_slice() {
            [] => {}
            [one] => say(&format!("sandboxc: {one} overrides the config")),
            [all @ .., last] => say(&format!("sandboxc: {} and {last} override the config", all.join(", "))),
        }
        let is_warning = |finding: &&Diagnostic| finding.severity == Severity::Warning;
        match findings.sorted().into_iter().filter(is_warning).count() {
            0 => {}
            1 => say("sandboxc: 1 warning, see `sandboxc validate`"),
            count => say(&format!("sandboxc: {count} warnings, see `sandboxc validate`")),
        }
    }

    /// Whether to print colors: as `--color` says, or on a terminal, unless `NO_COLOR` is set (no-color.org).
    pub(super) fn colour(&self) -> bool {
        match OUTPUT.get().map_or(ColorWhen::Auto, |output| output.color) {
            ColorWhen::Always => true,
            ColorWhen::Never => false,
            ColorWhen::Auto => io::stderr().is_terminal() && self.var("NO_COLOR").is_none(),
        }
    }
}

/// A conversation.
struct Place {
    /// Its directory.
    dir: PathBuf,
    /// The config of the branch.
    frozen: Frozen,
}

/// How much to print about a config without errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verbosity {
    /// Nothing.
    Quiet,
    /// The number of warnings.
    Normal,
    /// Every finding.
    Verbose,
}

/// When to print colors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum ColorWhen {
    /// On a terminal, unless `NO_COLOR` is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// The options of every command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Output {
    pub(super) color: ColorWhen,
    pub(super) verbosity: Verbosity,
}

static OUTPUT: OnceLock<Output> = OnceLock::new();

/// Sets the options of every command, once.
pub(super) fn set_output(output: Output) {
    let _ = OUTPUT.set(output);
}

fn verbosity() -> Verbosity {
    OUTPUT.get().map_or(Verbosity::Normal, |output| output.verbosity)
}

/// Reads `.sandboxc/` from a commit, and says which files of the working tree are ignored for that.
pub(super) fn frozen(repo_dir: &Path, name: &str) -> Result<Frozen, Failure> {
    let frozen = Frozen::of_commit(repo_dir, name).map_err(|error| Failure::usage(error.to_string()))?;
    // What cannot be read there is ignored, too.
    let here = match Frozen::of_directory(repo_dir) {
        Ok(here) => frozen.differences(&here).iter().map(|path| path.display().to_string()).collect(),
        Err(error) => vec![error.to_string()],
    };
    if !here.is_empty() {
        let more = here.len().saturating_sub(MOST_NAMED);
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        let named = here.get(..MOST_NAMED).unwrap_or(&here).join(", ");
        say(&format!(
            "sandboxc: the config is that of {name}; these files of the working tree differ and are ignored: {named}{rest}"
        ));
    }
    Ok(frozen)
}

/// How many differing files are named.
const MOST_NAMED: usize = 10;

/// The hash of the router's program is an input of the plan.
pub(super) fn with_router(mut resolved: Resolved) -> Result<Resolved, Failure> {
    if resolved.router_image.from == crate::source::Place::built_in() {
        resolved.router_image.value = RouterImage::find()?.reference();
    }
    Ok(resolved)
}

/// Prints the limits that the manifest alone cannot enforce; with `strict`, they are an error.
pub(super) fn tell_limits(plan: &Plan, podman: Version, strict: bool) -> Result<(), Failure> {
    let gaps = limit_gaps(plan, podman);
    for LimitGap { limit, why } in &gaps {
        say(&format!("sandboxc: the manifest alone does not enforce {limit}: {why}"));
    }
    match strict && !gaps.is_empty() {
        true => Err(Failure::promise("--strict: the manifest alone cannot enforce a limit")),
        false => Ok(()),
    }
}

/// Prints the mounts that a manifest alone cannot protect; with `strict`, they are an error.
pub(super) fn tell_mounts(plan: &Plan, strict: bool) -> Result<(), Failure> {
    let gaps = mount_gaps(plan);
    for gap in &gaps {
        say(&format!("sandboxc: the manifest alone cannot protect the mount of {gap}: {MOUNT_GAP}"));
    }
    match strict && !gaps.is_empty() {
        true => Err(Failure::promise("--strict: the manifest alone cannot protect a mount")),
        false => Ok(()),
    }
}
