//! A `.container` unit: the container from the plan, and how its service runs.

use std::collections::BTreeMap;

use super::syntax::{Syntax, encode, json_words};
use super::unit::{Relations, path_text, quadlet};
use super::writer::UnitWriter;
use super::{EmitError, File, Maker, Pairs, global_args};
use crate::config::ResourceLimits;
use crate::emit::defaults;
use crate::plan::pod::{Ceiling, Container, Device, Dns, EnvValue, Label, Pod, Proc, Pull, Seccomp};
use crate::source::Sourced;

/// The longest single argument of a process on Linux (`MAX_ARG_STRLEN`, execve(2)), minus space for the option's name.
const LONGEST_ARGUMENT: usize = 128 * 1024 - 64;

/// Where an image comes from.
#[derive(Clone, Debug)]
pub(super) enum Image {
    /// Its reference.
    Reference,
    /// The unit file that builds or pulls it.
    Unit(String),
}

/// Where a container runs: in a pod, or on networks of its own.
#[derive(Clone, Debug)]
pub(super) enum Standing<'a> {
    /// The pod's unit file. The pod does not start the container: one unit starts everything in order.
    Pod(String),
    /// Alone, with its pod's settings.
    Alone {
        /// The pod.
        pod: &'a Pod,
        /// `x.network`, with options.
        networks: Vec<String>,
    },
}

/// How its service runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Service {
    /// Whether it must end before others start. Otherwise it counts as started when its process runs.
    pub oneshot: bool,
    /// The start timeout in seconds.
    pub start_timeout: u32,
    /// A condition that runs before the start, with specifiers.
    pub before: Option<String>,
    /// A directory that systemd makes below the user's runtime directory, which only this user enters: for the containers'
    /// users to write.
    pub directory: Option<String>,
    /// Files with variables that a unit file cannot contain.
    pub env_files: Vec<HostFile>,
}

/// A file of the host.
#[derive(Clone, Debug)]
pub(super) enum HostFile {
    /// Its path. If it starts with `./`, it is relative to the unit file.
    Path(String),
    /// A plain path below the user's runtime directory.
    Runtime(String),
}

/// A `.container` unit.
#[derive(Clone, Debug)]
pub(super) struct ContainerUnit<'a> {
    /// `[Unit]`.
    pub relations: Relations,
    /// The name in podman.
    pub name: String,
    /// The image.
    pub image: Image,
    /// Where it runs.
    pub standing: Standing<'a>,
    /// Labels.
    pub labels: Pairs,
    /// `[Service]`.
    pub service: Service,
    /// Everything else.
    pub container: &'a Container,
}

impl Maker<'_> {
    /// The text of a `.container` unit.
    pub(super) fn write_container(&self, unit: &ContainerUnit<'_>, comment: &str) -> Result<String, EmitError> {
        let ContainerUnit { relations, name, image, standing, labels, service, container } = unit;
        let Container {
            role: _,
            image: reference,
            pull,
            argv,
            working_dir,
            user,
            caps,
            read_only_root,
            init,
            label,
            seccomp,
            proc,
            env,
            mounts,
            devices,
            limits,
            ceiling,
            stop_timeout,
            ready,
        } = container;
        let mut w = UnitWriter::new(self.podman, comment);
        relations.write(&mut w)?;
        w.group("Container");
        w.set("ContainerName", name)?;
        global_args(&mut w)?;
        let (image, pull) = match image {
            Image::Reference => (reference.value.reference(), pull_word(*pull)),
            Image::Unit(unit) => (unit.as_str(), "never"),
        };
        w.set("Image", image)?;
        w.set("Pull", pull)?;
        entrypoint(&mut w, argv)?;
        w.set("User", &user.to_string())?;
        w.set("Group", &user.to_string())?;
        // `privileged = true` in the user's containers.conf would undo everything below.
        w.arg("--privileged=false")?;
        w.set("DropCapability", "all")?;
        for capability in caps {
            w.set("AddCapability", capability)?;
        }
        w.flag("NoNewPrivileges", true)?;
        w.flag("ReadOnly", *read_only_root)?;
        w.flag("RunInit", *init)?;
        confinement(&mut w, label, seccomp, *proc)?;
        standing.write(&mut w)?;
        environment(&mut w, env, &service.env_files)?;
        self.write_mounts(&mut w, mounts)?;
        for device in devices {
            write_device(&mut w, device)?;
        }
        if let Some(dir) = working_dir {
            w.set_or_arg("WorkingDir", &path_text(dir)?, "--workdir")?;
        }
        for (name, value) in labels {
            w.set("Label", &format!("{name}={value}"))?;
        }
        // Keeps the output after the container is gone, whatever the user's default is.
        w.set("LogDriver", "journald")?;
        let run_timeout = write_limits(&mut w, limits)?;
        w.set("StopTimeout", &stop_timeout.to_string())?;
        let ready = ready.as_ref().map(|argv| format!("podman exec {name} {}", argv.join(" ")));
        service.write(&mut w, ready.as_deref(), run_timeout)?;
        self.podman_environment(&mut w, defaults::CONF)?;
        if let Some(ceiling) = ceiling {
            write_ceiling(&mut w, *ceiling)?;
        }
        quadlet(&mut w)?;
        Ok(w.finish())
    }
}

fn entrypoint(w: &mut UnitWriter, argv: &[String]) -> Result<(), EmitError> {
    let command = json_words(argv);
    if command.len() > LONGEST_ARGUMENT {
        return Err(EmitError::CannotKeep {
            what: format!("a command of {} bytes", command.len()),
            why: "a unit's command can have at most 128 KiB; put the text into a file".to_owned(),
        });
    }
    w.set("Entrypoint", &command)
}

fn confinement(w: &mut UnitWriter, label: &Label, seccomp: &Seccomp, proc: Proc) -> Result<(), EmitError> {
    match label {
        Label::Confined => {}
        Label::Disabled => w.flag("SecurityLabelDisable", true)?,
        Label::Type(label) => w.set("SecurityLabelType", label)?,
    }
    match seccomp {
        Seccomp::Default => {}
        Seccomp::Profile(path) => w.set("SeccompProfile", &path_text(path)?)?,
    }
    match proc {
        Proc::Masked => Ok(()),
        Proc::Sysctls => w.set("Unmask", "/proc/sys"),
        Proc::Unmasked => w.set("Unmask", "/proc/*"),
    }
}

impl Standing<'_> {
    fn write(&self, w: &mut UnitWriter) -> Result<(), EmitError> {
        match self {
            Self::Pod(pod) => {
                w.set("Pod", pod)?;
                w.flag("StartWithPod", false)
            }
            Self::Alone { pod, networks } => {
                // Without a pod, there is no infra container; the unit has its name and networks.
                let Pod { name: _, infra: _, host_name, networks: _, dns, userns, sysctls, helpers: _, main: _ } = pod;
                w.set("UserNS", userns)?;
                for network in networks {
                    w.set("Network", network)?;
                }
                w.set("HostName", host_name)?;
                if let Some(Dns { server, ndots }) = dns {
                    w.set("DNS", &server.to_string())?;
                    w.set("DNSOption", &format!("ndots:{ndots}"))?;
                }
                // podman's default would start with the host's entries.
                w.arg("--no-hosts")?;
                for (name, value) in *sysctls {
                    w.set("Sysctl", &format!("{name}={value}"))?;
                }
                Ok(())
            }
        }
    }
}

/// Lines for the variables that a unit file can contain; the others are in files. The host's proxy variables and the
/// rest of its environment stay out, even if the user's containers.conf says `env_host`.
fn environment(
    w: &mut UnitWriter,
    env: &BTreeMap<String, Sourced<EnvValue>>,
    files: &[HostFile],
) -> Result<(), EmitError> {
    for (name, value) in env {
        match &value.value {
            EnvValue::Text(text) if env_fits(text) => w.set("Environment", &format!("{name}={text}"))?,
            // In the file of variables, in that of surrogates, or read by the shell that executes the command.
            EnvValue::Text(_) | EnvValue::Surrogate | EnvValue::Secret => {}
        }
    }
    for file in files {
        match file {
            HostFile::Path(file) => w.set("EnvironmentFile", file)?,
            HostFile::Runtime(file) => w.below_runtime("EnvironmentFile", file)?,
        }
    }
    w.flag("EnvironmentHost", false)?;
    w.set_or_arg("HttpProxy", "false", "--http-proxy")
}

/// The file for variables that only podman's own parser accepts: one per line, without quotes (podman `pkg/env`).
pub(super) fn variables_file(env: &BTreeMap<String, Sourced<EnvValue>>) -> Result<Option<File>, EmitError> {
    let mut file = String::new();
    for (name, value) in env {
        let EnvValue::Text(value) = &value.value else { continue };
        if env_fits(value) {
            continue;
        }
        if value.contains(['\0', '\n', '\r']) {
            return Err(EmitError::CannotKeep {
                what: format!("the variable {name}"),
                why: "a Quadlet unit cannot contain a NUL, or a line break together with a character such as U+0080 or a noncharacter"
                    .to_owned(),
            });
        }
        file.push_str(&format!("{name}={value}\n"));
    }
    Ok((!file.is_empty()).then(|| File::new("agent/variables", file)))
}

/// Whether an `Environment=` line can contain the value.
fn env_fits(value: &str) -> bool {
    encode(Syntax::Exec, &format!("X={value}")).is_ok()
}

fn write_device(w: &mut UnitWriter, device: &Device) -> Result<(), EmitError> {
    let Device { path, from: _ } = device;
    let text = path_text(path)?;
    if text.contains(':') {
        return Err(EmitError::CannotKeep {
            what: format!("the device {text}"),
            why: "podman would parse what follows the colon as options".to_owned(),
        });
    }
    w.set_or_arg("AddDevice", &text, "--device")
}

/// Writes the limits that podman enforces, and returns the timeout in seconds, which systemd enforces.
fn write_limits(w: &mut UnitWriter, limits: &ResourceLimits) -> Result<Option<u64>, EmitError> {
    // The pod's unit says the size of `/dev/shm`.
    let ResourceLimits { timeout, memory, cpus, pids, shm: _ } = limits;
    if let Some(memory) = memory.as_ref().map(|memory| memory.value) {
        w.set_or_arg("Memory", &memory.to_string(), "--memory")?;
        // A limit equal to the memory limit means no swap (podman-run(1)).
        w.arg(&format!("--memory-swap={memory}"))?;
    }
    if let Some(cpus) = cpus.as_ref().map(|cpus| cpus.value) {
        w.arg(&format!("--cpus={}.{:03}", cpus / 1000, cpus % 1000))?;
    }
    if let Some(pids) = pids {
        w.set("PidsLimit", &pids.value.to_string())?;
    }
    Ok(timeout.as_ref().map(|timeout| timeout.value))
}

/// systemd's own limits of the service, which the container is part of. Without the controllers, they have no effect,
/// while podman's limits would prevent the start.
fn write_ceiling(w: &mut UnitWriter, ceiling: Ceiling) -> Result<(), EmitError> {
    let Ceiling { memory, cpus, pids } = ceiling;
    w.set("MemoryMax", &memory.to_string())?;
    w.set("MemorySwapMax", "0")?;
    w.set("TasksMax", &pids.to_string())?;
    // systemd expands no specifiers here: `%%` would be an invalid quota, which it ignores.
    w.literal("CPUQuota", &format!("{}%", cpus * 100));
    Ok(())
}

impl Service {
    fn write(&self, w: &mut UnitWriter, ready: Option<&str>, run_timeout: Option<u64>) -> Result<(), EmitError> {
        w.group("Service");
        if self.oneshot {
            w.set("Type", "oneshot")?;
        }
        w.set("Restart", "no")?;
        w.set("TimeoutStartSec", &self.start_timeout.to_string())?;
        if !self.oneshot {
            // A container that SIGTERM ends has this exit code; to systemd it is as clean as the signal itself.
            w.set("SuccessExitStatus", "143")?;
        }
        if let Some(directory) = &self.directory {
            w.set("RuntimeDirectory", directory)?;
            w.set("RuntimeDirectoryMode", "0777")?;
        }
        if let Some(before) = &self.before {
            w.literal("ExecStartPre", before);
        }
        if let Some(ready) = ready {
            w.set("ExecStartPost", ready)?;
        }
        if let Some(timeout) = run_timeout {
            w.set("RuntimeMaxSec", &timeout.to_string())?;
        }
        Ok(())
    }
}

fn pull_word(pull: Pull) -> &'static str {
    match pull {
        Pull::Never => "never",
        Pull::Missing => "missing",
    }
}
