//! The environment as seen once, config loading, and printing.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use crate::config::{Inputs, Loaded, Resolved, SecretValues, entry_path, load, read_secrets};
use crate::emit::{LimitGap, MOUNT_GAP, Podman as Version, limit_gaps, mount_gaps};
use crate::plan::Plan;
use crate::runtime::host;
use crate::runtime::podman::Podman;
use crate::runtime::registry::Registry;
use crate::source::SourceMap;
use crate::visible::escaped;

use super::{ConfigArgs, Failure};

/// What the process was started with.
pub(super) struct Context {
    env: BTreeMap<String, String>,
}

impl Context {
    /// Takes the snapshot. Variables that are not UTF-8 are no one's business here.
    pub(super) fn new() -> Self {
        let pair = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self { env: std::env::vars_os().filter_map(pair).collect() }
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

    /// git's config files outside of repositories.
    pub(super) fn git_files(&self) -> Result<Vec<PathBuf>, Failure> {
        Ok(crate::config::git::own_files(&self.env, self.home().as_deref(), &self.config_home()?))
    }

    /// The server file, absolute, if there is one.
    pub(super) fn server_file(&self, args: &ConfigArgs) -> Result<Option<PathBuf>, Failure> {
        if let Some(path) = &args.server {
            let failed = |error| Failure::usage(format!("the server file {}: {error}", path.display()));
            return std::path::absolute(path).map(Some).map_err(failed);
        }
        let path = self.config_home()?.join("sandboxc/server.yaml");
        Ok(path.exists().then_some(path))
    }

    /// The user's runtime directory: a tmpfs that ends with the login, or with linger lives on.
    pub(super) fn runtime_dir(&self) -> Result<PathBuf, Failure> {
        let missing =
            "XDG_RUNTIME_DIR is not set or not a directory: log in through systemd, or run `loginctl enable-linger`";
        let dir = self.var("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_absolute() && dir.is_dir());
        dir.ok_or_else(|| Failure::promise(missing))
    }

    /// All sessions of this user, and the podman to ask about them.
    pub(super) fn sessions(&self) -> Result<(Registry, Podman), Failure> {
        host::check()?;
        let registry = Registry::open(&self.runtime_dir()?)?;
        let podman = Podman::new(registry.empty_dir())?;
        Ok((registry, podman))
    }

    /// Reads both files. Only a directory that is not there is a failure; everything else is in the diagnostics.
    pub(super) fn load(&self, args: &ConfigArgs, write_defaults: bool) -> Result<Loaded, Failure> {
        let dir = args.repo.as_deref().unwrap_or(Path::new("."));
        let repo_dir = dir
            .canonicalize()
            .map_err(|error| Failure::usage(format!("the repo directory {}: {error}", dir.display())))?;
        Ok(load(&self.inputs(args, repo_dir, write_defaults)?))
    }

    fn inputs(&self, args: &ConfigArgs, repo_dir: PathBuf, write_defaults: bool) -> Result<Inputs, Failure> {
        Ok(Inputs {
            repo_dir,
            server_file: args.server.clone(),
            name: args.name.clone(),
            home: self.home(),
            config_home: self.config_home()?,
            env: self.env.clone(),
            write_defaults,
        })
    }

    /// The `path` of the server's entry that `args.name` says.
    pub(super) fn entry_path(&self, args: &ConfigArgs) -> Result<Option<PathBuf>, Failure> {
        Ok(entry_path(&self.inputs(args, PathBuf::from("/"), false)?))
    }

    /// Whether the user's systemd outlives the login; `None` if nobody knows.
    pub(super) fn lingers(&self) -> Option<bool> {
        let user = self.var("USER").filter(|user| !user.contains('/'))?;
        Some(Path::new("/var/lib/systemd/linger").join(user).exists())
    }

    /// Reads both files and says on stderr what there is to say; errors end here.
    pub(super) fn resolve(&self, args: &ConfigArgs, write_defaults: bool) -> Result<Resolved, Failure> {
        self.resolved(args, write_defaults).map(|(resolved, _)| resolved)
    }

    /// The same, and the values of all secrets.
    pub(super) fn resolve_with_secrets(&self, args: &ConfigArgs) -> Result<(Resolved, SecretValues), Failure> {
        let (resolved, sources) = self.resolved(args, true)?;
        let values = self.secrets(args, &resolved, &sources)?;
        Ok((resolved, values))
    }

    /// The values of all secrets of a config and the sources it came with.
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
        values.ok_or_else(|| Failure::promise("a secret has no fit value; nothing was run"))
    }

    /// The same with the sources that its places belong to.
    pub(super) fn resolved(&self, args: &ConfigArgs, write_defaults: bool) -> Result<(Resolved, SourceMap), Failure> {
        let loaded = self.load(args, write_defaults)?;
        if !loaded.diagnostics.is_empty() {
            say_drawn(&loaded.diagnostics.text(&loaded.sources, self.colour()));
        }
        match loaded.resolved {
            Some(resolved) if !loaded.diagnostics.has_errors() => Ok((resolved, loaded.sources)),
            _ => Err(Failure::usage("the config has errors; nothing was run")),
        }
    }

    /// Colour on a terminal, unless `NO_COLOR` says otherwise (no-color.org).
    pub(super) fn colour(&self) -> bool {
        io::stderr().is_terminal() && self.var("NO_COLOR").is_none()
    }
}

/// Writes a line (or more) for people to stderr, with hidden characters made visible. A closed stderr is not an error.
pub(super) fn say(text: &str) {
    say_drawn(&visible_lines(text));
}

/// Writes findings as they were drawn: colors are in them, and what strangers wrote was made visible when they were drawn.
pub(super) fn say_drawn(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Writes a result for people to stdout, with hidden characters made visible.
pub(super) fn show(text: &str) -> Result<(), Failure> {
    print(&visible_lines(text))
}

fn visible_lines(text: &str) -> String {
    text.split('\n').map(escaped).collect::<Vec<_>>().join("\n")
}

/// Writes a result for programs to stdout, to the byte. A reader that went away is no failure; a full disk is.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::promise(format!("writing to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

/// Names the limits that the manifest alone does not keep; `strict` makes them an error.
pub(super) fn tell_limits(plan: &Plan, podman: Version, strict: bool) -> Result<(), Failure> {
    let gaps = limit_gaps(plan, podman);
    for LimitGap { limit, why } in &gaps {
        say(&format!("sandboxc: {limit} is not kept by the manifest alone: {why}"));
    }
    match strict && !gaps.is_empty() {
        true => Err(Failure::promise("--strict: a limit cannot be kept by the manifest alone")),
        false => Ok(()),
    }
}

/// Names the mounts that a manifest alone does not keep; `strict` makes them an error.
pub(super) fn tell_mounts(plan: &Plan, strict: bool) -> Result<(), Failure> {
    let gaps = mount_gaps(plan);
    for gap in &gaps {
        say(&format!("sandboxc: the mount of {gap} is not kept by the manifest alone: {MOUNT_GAP}"));
    }
    match strict && !gaps.is_empty() {
        true => Err(Failure::promise("--strict: a mount cannot be kept by the manifest alone")),
        false => Ok(()),
    }
}
