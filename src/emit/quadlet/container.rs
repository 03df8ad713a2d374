//! A `.container`, typed.

use super::syntax::{Syntax, csv_field, encode, json_words};
use super::unit::{Relations, quadlet};
use super::writer::Writer;
use crate::emit::{EmitError, Podman};

/// The longest single argument of a process on Linux (`MAX_ARG_STRLEN`, execve(2)), with room for the option's name.
const LONGEST_ARGUMENT: usize = 128 * 1024 - 64;

/// Where an image comes from.
#[derive(Clone, Debug)]
pub enum Image {
    /// A reference.
    Reference(String),
    /// File of the unit that brings it.
    Unit(String),
}

/// A file or directory of the host.
#[derive(Clone, Debug)]
pub enum Source {
    /// Its path; one that starts with `./` is relative to the unit file.
    Path(String),
    /// A plain path below the user's runtime directory.
    Runtime(String),
}

/// A bind mount.
#[derive(Clone, Debug)]
pub struct Bind {
    /// What is mounted.
    pub source: Source,
    /// Where it appears.
    pub target: String,
    /// `ro`, `rw`, and whether it is relabelled (`z`); in the order podman reads them.
    pub options: &'static [&'static str],
}

impl Bind {
    /// `Volume=` splits at colons, trims, and makes a `RequiresMountsFor=` that breaks at spaces (before 5.8), so any
    /// path that is not plain goes to podman's `--mount`, which reads CSV.
    fn write(&self, w: &mut Writer) -> Result<(), EmitError> {
        let plain = |c: char| c.is_alphanumeric() && c != '\u{80}' || "/._-+@=".contains(c);
        let options = self.options.join(",");
        let source = match &self.source {
            Source::Path(source) => source,
            Source::Runtime(source) => {
                return w.below_runtime("Volume", &format!("{source}:{}:{options}", self.target));
            }
        };
        if source.chars().chain(self.target.chars()).all(plain) {
            return w.set("Volume", &format!("{source}:{}:{options}", self.target));
        }
        let source = csv_field(&format!("source={source}"));
        let target = csv_field(&format!("destination={}", self.target));
        let read_only = if self.options.contains(&"ro") { ",ro=true" } else { "" };
        w.arg(&format!("--mount=type=bind,{source},{target}{read_only}"))
    }
}

/// Where a container is: in a pod, or on networks of its own.
#[derive(Clone, Debug)]
pub enum Place {
    /// File of the pod's unit. It is not started with the pod: one unit starts everything in order.
    Pod(String),
    /// Networks, host name and resolver of its own.
    Own {
        /// `x.network`, with options.
        networks: Vec<String>,
        /// Its host name.
        host_name: String,
        /// Its resolver.
        dns: String,
        /// Its user namespace, if not podman's usual one.
        userns: Option<&'static str>,
    },
}

/// How its service runs.
#[derive(Clone, Debug, Default)]
pub struct Service {
    /// Runs to its end before others start; else it counts as started when its process runs.
    pub oneshot: bool,
    /// Seconds until a start counts as failed.
    pub start_timeout: u32,
    /// Runs before the start, with specifiers, and decides whether there is one.
    pub before: Option<String>,
    /// Runs after the start and decides whether it went well.
    pub ready: Option<String>,
    /// Seconds that it may run.
    pub run_timeout: Option<u64>,
}

/// Limits of a container.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// Bytes; swap is off.
    pub memory: Option<u64>,
    /// Thousandths.
    pub cpus: Option<u64>,
    /// Processes and threads.
    pub pids: Option<u64>,
}

/// A `.container`.
#[derive(Clone, Debug)]
pub struct Container {
    /// `[Unit]`.
    pub relations: Relations,
    /// Name in podman.
    pub name: String,
    /// Its image.
    pub image: Image,
    /// The whole command; the image's entrypoint and command do not count.
    pub command: Vec<String>,
    /// uid and gid inside.
    pub user: u32,
    /// Capabilities besides none.
    pub capabilities: Vec<&'static str>,
    /// Root file system read-only, with tmpfs on /tmp, /run and /var/tmp.
    pub read_only: bool,
    /// podman's init as PID 1.
    pub init: bool,
    /// No label of a mandatory access control, since files of the host keep theirs.
    pub label_disable: bool,
    /// Where it is.
    pub place: Place,
    /// Its environment.
    pub env: Vec<(String, String)>,
    /// Files with the variables that no line carries.
    pub env_files: Vec<Source>,
    /// Named volumes: unit file and target.
    pub volumes: Vec<(String, String)>,
    /// Bind mounts.
    pub binds: Vec<Bind>,
    /// Working directory.
    pub working_dir: Option<String>,
    /// Labels.
    pub labels: Vec<(String, String)>,
    /// Limits.
    pub limits: Limits,
    /// Seconds between SIGTERM and SIGKILL.
    pub stop_timeout: u32,
    /// `[Service]`.
    pub service: Service,
}

impl Container {
    /// The file's text.
    pub fn write(&self, podman: Podman, comment: &str) -> Result<String, EmitError> {
        let mut w = Writer::new(podman, comment);
        self.relations.write(&mut w)?;
        w.group("Container");
        w.set("ContainerName", &self.name)?;
        let (image, pull) = match &self.image {
            Image::Reference(reference) => (reference, pull(reference)),
            Image::Unit(unit) => (unit, "never"),
        };
        w.set("Image", image)?;
        w.set("Pull", pull)?;
        let command = json_words(&self.command);
        if command.len() > LONGEST_ARGUMENT {
            return Err(EmitError::CannotKeep {
                what: format!("a command of {} bytes", command.len()),
                why: "a unit carries at most 128 KiB; put the text into a file".to_owned(),
            });
        }
        w.set("Entrypoint", &command)?;
        self.identity(&mut w)?;
        self.place(&mut w)?;
        self.environment(&mut w)?;
        for (unit, target) in &self.volumes {
            volume(&mut w, unit, target)?;
        }
        for bind in &self.binds {
            bind.write(&mut w)?;
        }
        if let Some(dir) = &self.working_dir {
            w.set_or_arg("WorkingDir", dir, "--workdir")?;
        }
        for (name, value) in &self.labels {
            w.set("Label", &format!("{name}={value}"))?;
        }
        // Lines stay readable after the container is gone, whatever the user's default is.
        w.set("LogDriver", "journald")?;
        self.limits.write(&mut w)?;
        w.set("StopTimeout", &self.stop_timeout.to_string())?;
        self.service.write(&mut w)?;
        quadlet(&mut w)?;
        Ok(w.finish())
    }

    fn identity(&self, w: &mut Writer) -> Result<(), EmitError> {
        w.set("User", &self.user.to_string())?;
        w.set("Group", &self.user.to_string())?;
        // `privileged = true` in the user's containers.conf would undo the rest of this.
        w.arg("--privileged=false")?;
        w.set("DropCapability", "all")?;
        for capability in &self.capabilities {
            w.set("AddCapability", capability)?;
        }
        w.flag("NoNewPrivileges", true)?;
        w.flag("ReadOnly", self.read_only)?;
        w.flag("RunInit", self.init)?;
        if self.label_disable {
            w.flag("SecurityLabelDisable", true)?;
        }
        Ok(())
    }

    fn place(&self, w: &mut Writer) -> Result<(), EmitError> {
        match &self.place {
            Place::Pod(pod) => {
                w.set("Pod", pod)?;
                w.flag("StartWithPod", false)
            }
            Place::Own { networks, host_name, dns, userns } => {
                if let Some(userns) = userns {
                    w.set("UserNS", userns)?;
                }
                for network in networks {
                    w.set("Network", network)?;
                }
                w.set("HostName", host_name)?;
                w.set("DNS", dns)?;
                w.set("DNSOption", "ndots:1")?;
                // podman's own would begin with the host's.
                w.arg("--no-hosts")?;
                for which in ["all", "default"] {
                    w.set("Sysctl", &format!("net.ipv6.conf.{which}.disable_ipv6=1"))?;
                }
                Ok(())
            }
        }
    }

    /// The host's proxy variables stay outside, as everything of its environment does, also where the user's
    /// containers.conf says `env_host`.
    fn environment(&self, w: &mut Writer) -> Result<(), EmitError> {
        for (name, value) in &self.env {
            w.set("Environment", &format!("{name}={value}"))?;
        }
        for file in &self.env_files {
            match file {
                Source::Path(file) => w.set("EnvironmentFile", file)?,
                Source::Runtime(file) => w.below_runtime("EnvironmentFile", file)?,
            }
        }
        w.flag("EnvironmentHost", false)?;
        w.set_or_arg("HttpProxy", "false", "--http-proxy")
    }
}

/// True if an `Environment=` line carries the value.
pub fn env_fits(value: &str) -> bool {
    encode(Syntax::Exec, &format!("X={value}")).is_ok()
}

/// `Volume=` of a named volume's unit. Its target must not be split or trimmed.
fn volume(w: &mut Writer, unit: &str, target: &str) -> Result<(), EmitError> {
    if target.contains(':') {
        return Err(EmitError::CannotKeep {
            what: format!("the path {target}"),
            why: "a colon in the path of a named volume is taken for its options".to_owned(),
        });
    }
    w.set("Volume", &format!("{unit}:{target}"))
}

impl Limits {
    fn write(&self, w: &mut Writer) -> Result<(), EmitError> {
        if let Some(memory) = self.memory {
            w.set_or_arg("Memory", &memory.to_string(), "--memory")?;
            // Equal to the memory limit means no swap (podman-run(1)).
            w.arg(&format!("--memory-swap={memory}"))?;
        }
        if let Some(cpus) = self.cpus {
            w.arg(&format!("--cpus={}.{:03}", cpus / 1000, cpus % 1000))?;
        }
        if let Some(pids) = self.pids {
            w.set("PidsLimit", &pids.to_string())?;
        }
        Ok(())
    }
}

impl Service {
    fn write(&self, w: &mut Writer) -> Result<(), EmitError> {
        w.group("Service");
        if self.oneshot {
            w.set("Type", "oneshot")?;
        }
        w.set("Restart", "no")?;
        w.set("TimeoutStartSec", &self.start_timeout.to_string())?;
        if !self.oneshot {
            // A container that SIGTERM ends exits so; to systemd that is as clean as the signal itself.
            w.set("SuccessExitStatus", "143")?;
        }
        if let Some(before) = &self.before {
            w.literal("ExecStartPre", before);
        }
        if let Some(ready) = &self.ready {
            w.set("ExecStartPost", ready)?;
        }
        if let Some(timeout) = self.run_timeout {
            w.set("RuntimeMaxSec", &timeout.to_string())?;
        }
        Ok(())
    }
}

/// A local image is never looked for elsewhere.
fn pull(image: &str) -> &'static str {
    if image.starts_with("localhost/") { "never" } else { "missing" }
}
