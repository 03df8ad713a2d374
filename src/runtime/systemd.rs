//! Installs compiled units for the user's systemd, and removes them.
//!
//! Invariant: an installation is complete or does not happen. A tree is written next to its place, renamed, checked
//! against what systemd then knows, and reverted if a unit is missing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::RuntimeError;
use super::call::{Call, run};
use super::conmon;
use super::host;
use super::lock::{Lock, Wait};
use super::output::{self, Inside};
use super::process::Process;
use crate::emit::File;
use crate::emit::quadlet::{service_of, stable_name};
use crate::emit::review::{self, Review};
use crate::policy::Policy;
use crate::router::policy_file::PolicyFile;

mod state;

pub use state::{LastRun, UnitState, now, state_of};

/// Quadlet's generator, for its message when it refused a unit.
const GENERATORS: [&str; 2] = ["/usr/libexec/podman/quadlet", "/usr/lib/podman/quadlet"];

/// How long systemd may take: a stop waits for the units' own timeouts, one after the other.
const PATIENCE: Duration = Duration::from_secs(10 * 60);

/// The user's systemd and the directories that it reads.
#[derive(Debug)]
pub struct UserManager {
    /// `$XDG_CONFIG_HOME/containers`. Units are searched in `systemd` below it, so its other directories are not read.
    containers: PathBuf,
    /// `$XDG_CONFIG_HOME/systemd/user`, for units that are not Quadlet's.
    native: PathBuf,
}

/// The units of one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledUnits {
    /// The unit that runs the command.
    pub agent: String,
    /// All services that Quadlet generates.
    pub services: Vec<String>,
    /// Units that are not Quadlet's: the target, a timer, and the service that holds secrets.
    pub native: Vec<String>,
}

/// File extensions of units that are not Quadlet's.
const NATIVE: [&str; 3] = [".service", ".target", ".timer"];

impl InstalledUnits {
    /// Determines the units from the names of files in a session's directory.
    fn of<'a>(session: &str, names: impl Iterator<Item = &'a str>) -> Option<Self> {
        let (mut services, mut native) = (Vec::new(), Vec::new());
        for name in names.filter(|name| name.starts_with("sandboxc-")) {
            services.extend(service_of(name));
            native.extend(NATIVE.iter().any(|kind| name.strip_suffix(kind).is_some()).then(|| name.to_owned()));
        }
        services.sort();
        native.sort();
        let stable = stable_name(session, "service");
        // Earlier versions named the service after the plan.
        let is_agents = |service: &&String| **service == stable || service.ends_with("-agent.service");
        // A repo by URL has no units of Quadlet.
        let agent = services.iter().find(is_agents).or_else(|| native.iter().find(|unit| **unit == stable))?.clone();
        Some(Self { agent, services, native })
    }

    /// The number of units, without the target and the timer.
    pub fn count(&self) -> usize {
        self.services.len() + self.native_services().count()
    }

    /// Services that are not Quadlet's.
    fn native_services(&self) -> impl Iterator<Item = &String> {
        self.native.iter().filter(|unit| is_service(unit))
    }
}

impl UserManager {
    /// Returns the manager that reads this `$XDG_CONFIG_HOME`.
    pub fn new(config_home: &Path) -> Self {
        Self { containers: config_home.join("containers"), native: config_home.join("systemd/user") }
    }

    /// Refuses a sandbox that could write its own units.
    pub fn check(&self, inside: &Inside) -> Result<(), RuntimeError> {
        inside.check(&self.containers.join("systemd"))?;
        inside.check(&self.native)
    }

    /// The directory of a session's units.
    pub fn place(&self, session: &str) -> PathBuf {
        self.containers.join("systemd").join(session)
    }

    /// Installs a session's files, whose paths begin with its name, and checks that systemd knows every service.
    pub fn install(&self, session: &str, files: &[File]) -> Result<InstalledUnits, RuntimeError> {
        let names = files.iter().filter_map(|file| file.path.strip_prefix(session)?.strip_prefix('/'));
        let units = InstalledUnits::of(session, names.filter(|name| !name.contains('/')))
            .ok_or_else(|| RuntimeError::Host("the files contain no unit for the agent".to_owned()))?;
        let place = self.place(session);
        check_place(&place)?;
        let _turn = self.turn()?;
        let old = self.installed(session)?;
        if let Some(old) = old.as_ref().filter(|old| Self::is_active(&old.agent)) {
            return Err(RuntimeError::Host(format!(
                "{session} is running; stop it first: systemctl --user stop {}",
                old.agent
            )));
        }
        if let Some(old) = &old {
            // After the command's end, systemd may still be stopping the rest. Without their units, nothing would remove the
            // network and the volumes, and the next start would find the subnet taken. A unit that does not exist is stopped.
            let services = old.services.iter().chain(old.native_services()).map(String::as_str);
            systemctl(&["stop"].into_iter().chain(services).collect::<Vec<_>>())?;
        }
        let beside = self.beside()?;
        output::tree(beside.path(), files, &Inside::default())?;
        let new = beside.path().join(session);
        exchange(&new, &place, old.is_some())?;
        let before = old.as_ref().map(|old| old.native.as_slice()).unwrap_or_default();
        if let Err(error) = self.activate(&units, &place) {
            // `new` now holds the previous tree, if there was one.
            exchange(&place, &new, old.is_some())?;
            self.remove_native(units.native.iter().filter(|unit| !before.contains(unit)))?;
            self.place_native(before, &place)?;
            Self::reload()?;
            return Err(error);
        }
        self.remove_native(before.iter().filter(|unit| !units.native.contains(unit)))?;
        Ok(units)
    }

    /// Reloads systemd, checks the units, and starts the timers.
    fn activate(&self, units: &InstalledUnits, place: &Path) -> Result<(), RuntimeError> {
        self.place_native(&units.native, place)?;
        Self::reload()?;
        Self::verify(units, place)?;
        for timer in units.native.iter().filter(|unit| unit.strip_suffix(".timer").is_some()) {
            call("the schedule", &["enable", timer])?;
            // It may be running with the previous schedule.
            call("the schedule", &["restart", timer])?;
        }
        Ok(())
    }

    /// Copies units that are not Quadlet's from a session's directory to where systemd reads them.
    fn place_native(&self, units: &[String], place: &Path) -> Result<(), RuntimeError> {
        let read = |unit: &String| fs::read_to_string(place.join(unit)).map(|text| File::new(unit, text));
        let files = units.iter().map(read).collect::<Result<Vec<_>, _>>();
        let files = files.map_err(RuntimeError::io(format!("reading {}", place.display())))?;
        match files.is_empty() {
            true => Ok(()),
            false => output::tree(&self.native, &files, &Inside::default()),
        }
    }

    fn remove_native<'a>(&self, units: impl Iterator<Item = &'a String>) -> Result<(), RuntimeError> {
        for unit in units {
            // Disabling a unit that was never enabled fails, which does not matter.
            systemctl(&["disable", "--now", unit])?;
            remove(&self.native.join(unit))?;
        }
        Ok(())
    }

    /// Stops a session and removes its units. Returns `None` if there is no session with that name.
    pub fn uninstall(&self, session: &str) -> Result<Option<InstalledUnits>, RuntimeError> {
        let _turn = self.turn()?;
        let Some(units) = self.installed(session)? else { return Ok(None) };
        self.remove_native(units.native.iter().filter(|unit| !is_service(unit)))?;
        // The agent first; the others stop with it, in order.
        call("stopping the sandbox", &["stop", &units.agent])?;
        let services = || units.services.iter().chain(units.native_services()).map(String::as_str);
        let all: Vec<&str> = ["stop"].into_iter().chain(services()).collect();
        call("stopping the sandbox", &all)?;
        self.remove_native(units.native_services())?;
        let beside = self.beside()?;
        fs::rename(self.place(session), beside.path().join(session)).map_err(RuntimeError::io("removing the units"))?;
        Self::reload()?;
        let forget: Vec<&str> = ["reset-failed"].into_iter().chain(services()).collect();
        // systemd does not know units that did not fail any more, and says so.
        systemctl(&forget)?;
        Ok(Some(units))
    }

    /// The units of an installed session. A directory with that name that is not ours is an error.
    pub fn installed(&self, session: &str) -> Result<Option<InstalledUnits>, RuntimeError> {
        let place = self.place(session);
        let doing = || RuntimeError::io(format!("reading {}", place.display()));
        match fs::symlink_metadata(&place) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(doing()(error)),
            Ok(_) => {}
        }
        let mut names = Vec::new();
        for entry in fs::read_dir(&place).map_err(doing())? {
            names.extend(entry.map_err(doing())?.file_name().into_string());
        }
        let ours = names.iter().any(|name| name == review::FILE);
        match InstalledUnits::of(session, names.iter().map(String::as_str)).filter(|_| ours) {
            Some(units) => Ok(Some(units)),
            None => Err(RuntimeError::Host(format!("{} already exists and is not sandboxc's", place.display()))),
        }
    }

    /// The names of all installed sessions, sorted.
    pub fn sessions(&self) -> Result<Vec<String>, RuntimeError> {
        let dir = self.containers.join("systemd");
        let entries = match fs::read_dir(&dir) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(RuntimeError::io(format!("reading {}", dir.display())))?,
        };
        let names = entries.flatten().filter(|entry| entry.path().join(review::FILE).is_file());
        let mut names: Vec<String> = names.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.retain(|name| matches!(self.installed(name), Ok(Some(_))));
        names.sort();
        Ok(names)
    }

    /// What the router of an installed session enforces; `None` without a router, or if it is in another format.
    pub fn policy(&self, session: &str) -> Option<Policy> {
        let bytes = fs::read(self.place(session).join("router/policy.json")).ok()?;
        PolicyFile::read(&bytes).ok().map(|file| file.policy)
    }

    /// The plan that an installed session's units were made from.
    pub fn review(&self, session: &str) -> Result<Review, RuntimeError> {
        let path = self.place(session).join(review::FILE);
        let doing = || RuntimeError::io(format!("reading {}", path.display()));
        let bytes = fs::read(&path).map_err(doing())?;
        serde_json::from_slice(&bytes).map_err(std::io::Error::from).map_err(doing())
    }

    /// One process at a time: two that exchange and check the same directories would revert each other's.
    fn turn(&self) -> Result<Lock, RuntimeError> {
        let doing = RuntimeError::io(format!("making {}", self.containers.display()));
        fs::create_dir_all(&self.containers).map_err(doing)?;
        Lock::take(&self.containers.join(".sandboxc.lock"), Wait { most: PATIENCE, may_go_on: &|| Ok(()) })
    }

    /// Creates a temporary directory on the same file system that no generator reads.
    fn beside(&self) -> Result<tempfile::TempDir, RuntimeError> {
        let search = self.containers.join("systemd");
        fs::create_dir_all(&search).map_err(RuntimeError::io(format!("making {}", search.display())))?;
        tempfile::Builder::new()
            .prefix(".sandboxc-")
            .tempdir_in(&self.containers)
            .map_err(RuntimeError::io(format!("creating a directory in {}", self.containers.display())))
    }

    /// Checks that systemd knows every service. A unit that Quadlet refuses simply does not exist.
    fn verify(units: &InstalledUnits, place: &Path) -> Result<(), RuntimeError> {
        for service in units.services.iter().chain(units.native_services()) {
            if !systemctl(&["cat", service])?.status.success() {
                let elsewhere =
                    || format!("the user's systemd may not read {}: check its XDG_CONFIG_HOME", place.display());
                let why = generator_says(place).unwrap_or_else(elsewhere);
                return Err(RuntimeError::Host(format!(
                    "Quadlet did not generate {service}: {why}; nothing was installed"
                )));
            }
        }
        Ok(())
    }

    fn is_active(service: &str) -> bool {
        show(service, "ActiveState").is_some_and(|state| !["inactive", "failed", ""].contains(&state.as_str()))
    }

    fn reload() -> Result<(), RuntimeError> {
        call("systemctl --user daemon-reload", &["daemon-reload"])
    }
}

fn is_service(unit: &str) -> bool {
    unit.strip_suffix(".service").is_some()
}

/// Sets properties of a running unit until it ends. Nothing depends on them, so errors are ignored: `doctor` reports a
/// host without systemd's cgroups.
pub fn limit(unit: &str, properties: &[String]) {
    let properties = properties.iter().map(String::as_str);
    let _ = systemctl(&["set-property", "--runtime", unit].into_iter().chain(properties).collect::<Vec<_>>());
}

/// podman's id of the container with this name that an active service of Quadlet runs. systemd tells which process is the
/// service's conmon.
pub fn container_of(service: &str, name: &str) -> Option<String> {
    let process = Process::open(show(service, "MainPID")?.parse().ok()?)?;
    let active = show(service, "ActiveState").is_some_and(|state| state == "active");
    conmon::container_of(&process, name).filter(|_| active)
}

/// A property of a unit; systemd also answers for units that it does not know.
fn show(unit: &str, property: &str) -> Option<String> {
    let output = systemctl(&["show", &format!("--property={property}"), "--value", unit]).ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Whether systemd accepts a calendar expression; `None` if it cannot be asked.
pub fn accepts_schedule(text: &str) -> Option<bool> {
    let accepts = |text: &str| {
        let mut command = Command::new("systemd-analyze");
        command.args(["calendar", "--", text]);
        let call = Call { what: "systemd-analyze", most: Duration::from_secs(5), signals: None };
        Some(run(command, None, call, RuntimeError::io("running systemd-analyze")).ok()?.status.success())
    };
    // An old one may not know the command.
    accepts("daily").filter(|works| *works)?;
    accepts(text)
}

/// Stops a service and waits until it has stopped.
pub fn stop(service: &str) -> Result<(), RuntimeError> {
    call("systemctl --user stop", &["stop", service])
}

fn call(what: &str, args: &[&str]) -> Result<(), RuntimeError> {
    let output = systemctl(args)?;
    match output.status.success() {
        true => Ok(()),
        false => Err(RuntimeError::Podman { what: what.to_owned(), said: super::podman::said(&output) }),
    }
}

fn systemctl(args: &[&str]) -> Result<Output, RuntimeError> {
    let mut command = Command::new("systemctl");
    command.envs(host::runtime_dir().map(|dir| (host::RUNTIME_DIR, dir)));
    command.arg("--user").arg("--no-pager").args(args);
    let call = Call { what: "systemctl --user", most: PATIENCE, signals: None };
    run(command, None, call, RuntimeError::io("running systemctl"))
}

/// Moves `new` to `place` in one step. If `place` exists, its content is afterwards at `new`.
fn exchange(new: &Path, place: &Path, occupied: bool) -> Result<(), RuntimeError> {
    let flags = if occupied { RenameFlags::EXCHANGE } else { RenameFlags::NOREPLACE };
    renameat_with(CWD, new, CWD, place, flags)
        .map_err(|error| RuntimeError::Io(format!("placing {}", place.display()), error.into()))
}

/// Units mount files by relative paths, which Quadlet makes absolute without quoting.
fn check_place(place: &Path) -> Result<(), RuntimeError> {
    let plain = |c: char| c.is_alphanumeric() || "/._-+@=".contains(c);
    match place.to_str().is_some_and(|text| text.chars().all(plain)) {
        true => Ok(()),
        false => Err(RuntimeError::Host(format!(
            "{} has a space or another character that Quadlet does not support in paths; set XDG_CONFIG_HOME to another directory",
            place.display()
        ))),
    }
}

fn remove(path: &Path) -> Result<(), RuntimeError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(RuntimeError::Io(format!("removing {}", path.display()), error))
        }
        _ => Ok(()),
    }
}

/// The first complaint of Quadlet's dry run over one directory.
fn generator_says(place: &Path) -> Option<String> {
    let generator = GENERATORS.iter().find(|path| Path::new(path).exists())?;
    let mut command = Command::new(generator);
    command.args(["-dryrun", "-user"]).env("QUADLET_UNIT_DIRS", place);
    let call = Call { what: "Quadlet", most: PATIENCE, signals: None };
    let output = run(command, None, call, RuntimeError::io("running Quadlet's generator")).ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let complaint = text.lines().find(|line| !line.contains("Loading source unit file"))?;
    Some(complaint.split_once("]: ").map_or(complaint, |(_, said)| said).to_owned())
}
