//! Placing compiled units for the user's systemd, and taking them away again.
//!
//! Invariant: never half. A tree is written beside its place and renamed, verified by what systemd then knows, and put
//! back if it knows less.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::RuntimeError;
use super::call::{Call, run};
use super::lock::{Lock, Wait};
use super::output::{self, Inside};
use crate::emit::File;
use crate::emit::quadlet::service_of;
use crate::emit::review;

/// Quadlet's own generator, for its words when a unit was refused.
const GENERATORS: [&str; 2] = ["/usr/libexec/podman/quadlet", "/usr/lib/podman/quadlet"];

/// How long systemd may take: a stop waits for its units' own time limits, one after the other.
const PATIENCE: Duration = Duration::from_secs(10 * 60);

/// The user's systemd and the directories it reads.
#[derive(Debug)]
pub struct UserManager {
    /// `$XDG_CONFIG_HOME/containers`; units are searched in `systemd` below it, so what lies beside is not found.
    containers: PathBuf,
    /// `$XDG_CONFIG_HOME/systemd/user`, for what systemd reads without Quadlet.
    native: PathBuf,
}

/// The units of one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Units {
    /// The one that runs the command.
    pub agent: String,
    /// All services that Quadlet makes.
    pub services: Vec<String>,
    /// Files that systemd reads without Quadlet: the target, a timer, and the service that keeps secrets.
    pub native: Vec<String>,
}

/// Kinds of files that systemd reads without Quadlet.
const NATIVE: [&str; 3] = [".service", ".target", ".timer"];

impl Units {
    /// From the names of the files of a session's directory.
    fn of<'a>(names: impl Iterator<Item = &'a str>) -> Option<Self> {
        let (mut services, mut native) = (Vec::new(), Vec::new());
        for name in names.filter(|name| name.starts_with("sandboxc-")) {
            services.extend(service_of(name));
            native.extend(NATIVE.iter().any(|kind| name.strip_suffix(kind).is_some()).then(|| name.to_owned()));
        }
        services.sort();
        native.sort();
        let agent = services.iter().find(|service| service.ends_with("-agent.service"))?.clone();
        Some(Self { agent, services, native })
    }

    /// How many there are, but for the target and a timer, which are names and times for them.
    pub fn count(&self) -> usize {
        self.services.len() + self.native_services().count()
    }

    /// Services that are no Quadlet units.
    fn native_services(&self) -> impl Iterator<Item = &String> {
        self.native.iter().filter(|unit| is_service(unit))
    }
}

impl UserManager {
    /// The one that reads under this `$XDG_CONFIG_HOME`.
    pub fn new(config_home: &Path) -> Self {
        Self { containers: config_home.join("containers"), native: config_home.join("systemd/user") }
    }

    /// Refuses a sandbox that would write its own units.
    pub fn check(&self, inside: &Inside) -> Result<(), RuntimeError> {
        inside.check(&self.containers.join("systemd"))?;
        inside.check(&self.native)
    }

    /// Where the units of a session are.
    pub fn place(&self, session: &str) -> PathBuf {
        self.containers.join("systemd").join(session)
    }

    /// Places a session's files, whose paths begin with its name, and verifies that systemd knows every service.
    pub fn install(&self, session: &str, files: &[File]) -> Result<Units, RuntimeError> {
        let names = files.iter().filter_map(|file| file.path.strip_prefix(session)?.strip_prefix('/'));
        let units = Units::of(names.filter(|name| !name.contains('/')))
            .ok_or_else(|| RuntimeError::Host("there is no unit of an agent among the files".to_owned()))?;
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
        let beside = self.beside()?;
        output::tree(beside.path(), files, &Inside::default())?;
        let new = beside.path().join(session);
        exchange(&new, &place, old.is_some())?;
        let before = old.as_ref().map(|old| old.native.as_slice()).unwrap_or_default();
        if let Err(error) = self.activate(&units, &place) {
            // `new` holds what was there before, if anything was.
            exchange(&place, &new, old.is_some())?;
            self.remove_native(units.native.iter().filter(|unit| !before.contains(unit)))?;
            self.place_native(before, &place)?;
            Self::reload()?;
            return Err(error);
        }
        self.remove_native(before.iter().filter(|unit| !units.native.contains(unit)))?;
        Ok(units)
    }

    /// Makes systemd read what was placed, verifies it, and starts its timers.
    fn activate(&self, units: &Units, place: &Path) -> Result<(), RuntimeError> {
        self.place_native(&units.native, place)?;
        Self::reload()?;
        Self::verify(units, place)?;
        for timer in units.native.iter().filter(|unit| unit.strip_suffix(".timer").is_some()) {
            call("the schedule", &["enable", "--now", timer])?;
        }
        Ok(())
    }

    /// Copies units that systemd reads without Quadlet from a session's directory to where it reads them.
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
            // One that was never enabled is as good as disabled.
            systemctl(&["disable", "--now", unit])?;
            remove(&self.native.join(unit))?;
        }
        Ok(())
    }

    /// Stops a session and removes its units. `None` if there is none of that name.
    pub fn uninstall(&self, session: &str) -> Result<Option<Units>, RuntimeError> {
        let _turn = self.turn()?;
        let Some(units) = self.installed(session)? else { return Ok(None) };
        self.remove_native(units.native.iter().filter(|unit| !is_service(unit)))?;
        // The agent first: the others end with it, in order.
        call("stopping the sandbox", &["stop", &units.agent])?;
        let services = || units.services.iter().chain(units.native_services()).map(String::as_str);
        let all: Vec<&str> = ["stop"].into_iter().chain(services()).collect();
        call("stopping the sandbox", &all)?;
        self.remove_native(units.native_services())?;
        let beside = self.beside()?;
        fs::rename(self.place(session), beside.path().join(session)).map_err(RuntimeError::io("removing the units"))?;
        Self::reload()?;
        let forget: Vec<&str> = ["reset-failed"].into_iter().chain(services()).collect();
        // Those that did not fail are unknown by now, which it says.
        systemctl(&forget)?;
        Ok(Some(units))
    }

    /// The units of a session that is in its place. A directory of that name that is nobody's of ours is an error.
    pub fn installed(&self, session: &str) -> Result<Option<Units>, RuntimeError> {
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
        match Units::of(names.iter().map(String::as_str)).filter(|_| ours) {
            Some(units) => Ok(Some(units)),
            None => Err(RuntimeError::Host(format!("{} is there already and not of sandboxc", place.display()))),
        }
    }

    /// One after the other: two that exchange and verify the same directories would put back each other's.
    fn turn(&self) -> Result<Lock, RuntimeError> {
        let doing = RuntimeError::io(format!("making {}", self.containers.display()));
        fs::create_dir_all(&self.containers).map_err(doing)?;
        Lock::take(&self.containers.join(".sandboxc.lock"), Wait { most: PATIENCE, may_go_on: &|| Ok(()) })
    }

    /// A scratch directory on the same file system that no generator reads.
    fn beside(&self) -> Result<tempfile::TempDir, RuntimeError> {
        let search = self.containers.join("systemd");
        fs::create_dir_all(&search).map_err(RuntimeError::io(format!("making {}", search.display())))?;
        tempfile::Builder::new()
            .prefix(".sandboxc-")
            .tempdir_in(&self.containers)
            .map_err(RuntimeError::io(format!("making a directory in {}", self.containers.display())))
    }

    /// Every service must be one that systemd knows: a unit that Quadlet refuses just does not exist.
    fn verify(units: &Units, place: &Path) -> Result<(), RuntimeError> {
        for service in units.services.iter().chain(units.native_services()) {
            if !systemctl(&["cat", service])?.status.success() {
                let elsewhere =
                    || format!("does the user's systemd read {}? its XDG_CONFIG_HOME counts", place.display());
                let why = generator_says(place).unwrap_or_else(elsewhere);
                return Err(RuntimeError::Host(format!("Quadlet made no {service}: {why}; nothing was installed")));
            }
        }
        Ok(())
    }

    fn is_active(service: &str) -> bool {
        let state = systemctl(&["show", "--property=ActiveState", "--value", service]);
        state.is_ok_and(|output| {
            let state = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            !["inactive", "failed", ""].contains(&state.as_str())
        })
    }

    fn reload() -> Result<(), RuntimeError> {
        call("systemctl --user daemon-reload", &["daemon-reload"])
    }
}

fn is_service(unit: &str) -> bool {
    unit.strip_suffix(".service").is_some()
}

/// Sets properties of a running unit until it ends. Nothing depends on them: a host without systemd's cgroups, of which `doctor`
/// says so, does without.
pub fn limit(unit: &str, properties: &[String]) {
    let properties = properties.iter().map(String::as_str);
    let _ = systemctl(&["set-property", "--runtime", unit].into_iter().chain(properties).collect::<Vec<_>>());
}

/// Ends a service, and waits until it has ended.
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
    command.arg("--user").arg("--no-pager").args(args);
    let call = Call { what: "systemctl --user", most: PATIENCE, signals: None };
    run(command, None, call, RuntimeError::io("running systemctl"))
}

/// Moves `new` to `place` in one step. What was there, if it is occupied, is then at `new`.
fn exchange(new: &Path, place: &Path, occupied: bool) -> Result<(), RuntimeError> {
    let flags = if occupied { RenameFlags::EXCHANGE } else { RenameFlags::NOREPLACE };
    renameat_with(CWD, new, CWD, place, flags)
        .map_err(|error| RuntimeError::Io(format!("placing {}", place.display()), error.into()))
}

/// Units mount files by paths relative to their own, which Quadlet makes absolute without any quoting.
fn check_place(place: &Path) -> Result<(), RuntimeError> {
    let plain = |c: char| c.is_alphanumeric() || "/._-+@=".contains(c);
    match place.to_str().is_some_and(|text| text.chars().all(plain)) {
        true => Ok(()),
        false => Err(RuntimeError::Host(format!(
            "{} has a space or another character that Quadlet does not carry in a path; set XDG_CONFIG_HOME elsewhere",
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

/// The first complaint of a dry run over one directory.
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
