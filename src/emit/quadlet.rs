//! The Quadlet target: one directory of units and the files they mount, for systemd's user manager.
//!
//! One unit is started, the agent's; it pulls in the others in order, and they end when it does, since nothing needs
//! them any more (`StopWhenUnneeded=`). Its result is the command's exit code.
//!
//!     images, materials, networks, volume ─► router (ready) ─► pod ─► gate (ends well) ─► forwarder ─► agent

use crate::plan::{Names, Plan, SESSION_LABEL, SandboxNetwork};

use super::{EmitError, File, Podman};

mod agent;
mod container;
mod image;
pub mod keys;
mod materials;
pub mod syntax;
mod unit;
pub mod writer;

use container::{Bind, Container, Image, Limits, Place, Service, Source};
pub use materials::{PROGRAM_DIRS, ROLE as MATERIALS_ROLE};
use unit::{Network, Pod, Relations, Volume};

/// Where our files are mounted in router, gate and forwarder.
const FILES_AT: &str = "/etc/sandboxc";

/// uid and gid of router, gate and forwarder: no user of the host, no user of the agent.
const SERVICE_UID: u32 = 990;

/// Seconds that a start may take. The first start of an image with shifted ids copies its layers, which took more than a
/// minute on a busy machine.
const START_TIMEOUT: u32 = 300;

/// Label on every container: the service that runs the sandbox, so that nobody takes it for a dead session's leftover.
pub const UNIT_LABEL: &str = "io.sandboxc.unit";

/// Names of the unit files of a plan and of the services that Quadlet makes of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Units {
    hash: String,
}

impl Units {
    /// The names of a plan's units.
    pub fn new(plan: &Plan) -> Self {
        Self { hash: plan.names.hash.clone() }
    }

    fn file(&self, role: &str, kind: &str) -> String {
        format!("sandboxc-{}-{role}.{kind}", self.hash)
    }

    fn service(&self, role: &str) -> String {
        format!("sandboxc-{}-{role}.service", self.hash)
    }

    /// The one to start.
    pub fn agent(&self) -> String {
        self.service("agent")
    }
}

/// The service that Quadlet makes of a unit file; `None` for any other file (podman-systemd.unit(5)).
pub fn service_of(file_name: &str) -> Option<String> {
    let (stem, kind) = file_name.rsplit_once('.')?;
    match kind {
        "container" => Some(format!("{stem}.service")),
        "build" | "image" | "network" | "pod" | "volume" => Some(format!("{stem}-{kind}.service")),
        _ => None,
    }
}

/// All units of a plan, with the files they mount, in one directory that is named like the session.
pub fn units(plan: &Plan, podman: Podman, mounted: &[File]) -> Result<Vec<File>, EmitError> {
    if podman < Podman::FLOOR {
        return Err(EmitError::TooOld(podman));
    }
    let mut maker = Maker {
        plan,
        podman,
        units: Units::new(plan),
        router_image: Image::Reference(plan.router_image.value.clone()),
    };
    let mut files = vec![maker.egress()?, maker.home()?, maker.pod()?];
    if let Some(net) = &plan.network {
        let (image, unit) = maker.image("router-image", &plan.router_image.value)?;
        maker.router_image = image;
        files.extend(unit);
        files.extend([maker.internal(net)?, maker.router(net)?, maker.gate()?, maker.forwarder()?]);
    }
    files.extend(maker.agent()?);
    files.push(maker.target()?);
    files.extend(maker.timer()?);
    files.extend(maker.materials()?);
    files.extend(mounted.iter().cloned());
    for file in &mut files {
        file.path = format!("{}/{}", plan.session, file.path);
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// Names and values.
type Pairs = Vec<(String, String)>;

struct Maker<'a> {
    plan: &'a Plan,
    podman: Podman,
    units: Units,
    router_image: Image,
}

impl Maker<'_> {
    fn relations(&self, what: &str, requires: &[&str], binds_to: &[&str]) -> Relations {
        let services = |roles: &[&str]| roles.iter().map(|role| self.units.service(role)).collect();
        Relations {
            description: format!("{what} of the sandbox {}", self.plan.session),
            requires: services(requires),
            binds_to: services(binds_to),
            stop_when_unneeded: true,
            part_of: None,
        }
    }

    fn labels(&self, role: &str) -> Pairs {
        let names = &self.plan.names;
        [
            (SESSION_LABEL, self.plan.session.clone()),
            ("io.sandboxc.role", role.to_owned()),
            ("io.sandboxc.plan", names.hash.clone()),
            (UNIT_LABEL, self.units.agent()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }

    fn internal(&self, net: &SandboxNetwork) -> Result<File, EmitError> {
        let network = Network {
            relations: self.relations("Network", &[], &[]),
            name: self.plan.names.internal_network.clone(),
            subnet: net.internal.to_string(),
            internal: true,
            label: (SESSION_LABEL.to_owned(), self.plan.session.clone()),
        };
        Ok(File::new(self.units.file("net", "network"), network.write(self.podman)?))
    }

    fn egress(&self) -> Result<File, EmitError> {
        let network = Network {
            relations: self.relations("Routers' network", &[], &[]),
            name: self.plan.names.egress_network.clone(),
            subnet: self.plan.names.egress_subnet.to_string(),
            internal: false,
            label: ("io.sandboxc.egress".to_owned(), "1".to_owned()),
        };
        Ok(File::new(self.units.file("egress", "network"), network.write(self.podman)?))
    }

    fn home(&self) -> Result<File, EmitError> {
        let volume =
            Volume { relations: self.relations("Home", &[], &[]), name: self.plan.agent.home.volume.value.clone() };
        Ok(File::new(self.units.file("home", "volume"), volume.write(self.podman)?))
    }

    /// A container of ours: stock image, our files read-only, read-only root, no user of the host, no privileges.
    fn service(&self, role: &str, what: &str, command: &[&str], place: Place, relations: Relations) -> Container {
        let names = &self.plan.names;
        let (pod, files) = match &place {
            Place::Pod(_) => (&names.agent_pod, "./forwarder"),
            Place::Own { .. } => (&names.router_pod, "./router"),
        };
        Container {
            relations: Relations { description: format!("{what} of the sandbox {}", self.plan.session), ..relations },
            name: Names::container(pod, role),
            image: self.router_image.clone(),
            command: command.iter().map(|&word| word.to_owned()).collect(),
            user: SERVICE_UID,
            capabilities: vec!["NET_BIND_SERVICE"],
            read_only: true,
            init: false,
            label_disable: false,
            place,
            env: Vec::new(),
            env_files: Vec::new(),
            volumes: Vec::new(),
            // The files are ours, so an SELinux label for containers does no harm to anybody's.
            binds: vec![Bind {
                source: Source::Path(files.to_owned()),
                target: FILES_AT.to_owned(),
                options: &["ro", "z"],
            }],
            working_dir: None,
            labels: self.labels(role),
            limits: Limits::default(),
            stop_timeout: 2,
            service: Service { start_timeout: START_TIMEOUT, ..Service::default() },
        }
    }

    fn router(&self, net: &SandboxNetwork) -> Result<File, EmitError> {
        let place = Place::Own {
            networks: vec![
                format!("{}:ip={}", self.units.file("net", "network"), net.router_address),
                self.units.file("egress", "network"),
            ],
            host_name: "router".to_owned(),
            dns: "127.0.0.1".to_owned(),
            userns: self.plan.userns(),
        };
        let command = ["/bin/sh", "/etc/sandboxc/entry.sh"];
        let materials = self.router_materials()?;
        let requires = materials.as_ref().and(self.keeper());
        let relations = self.relations("", requires.as_slice(), &[]);
        let mut router = self.service("router", "Router", &command, place, relations);
        router.binds.extend(materials);
        router.service.ready =
            Some(format!("podman exec {} /bin/sh /etc/sandboxc/entry.sh ready", self.plan.names.router_container()));
        Ok(File::new(self.units.file("router", "container"), router.write(self.podman, "")?))
    }

    /// The pod comes after the router listens.
    fn pod(&self) -> Result<File, EmitError> {
        let network = match &self.plan.network {
            Some(net) => format!("{}:ip={}", self.units.file("net", "network"), net.agent_address),
            None => self.units.file("egress", "network"),
        };
        let requires: &[&str] = if self.plan.network.is_some() { &["router"] } else { &[] };
        let pod = Pod {
            relations: self.relations("Pod", requires, &[]),
            name: self.plan.names.agent_pod.clone(),
            network,
            dns: self.plan.network.as_ref().map(|net| net.router_address.to_string()),
            host_name: "sandbox".to_owned(),
            userns: self.plan.userns(),
            labels: self.labels("agent"),
        };
        Ok(File::new(self.units.file("agent", "pod"), pod.write(self.podman)?))
    }

    fn in_pod(&self) -> Place {
        Place::Pod(self.units.file("agent", "pod"))
    }

    /// Runs to its end before each start of forwarder and agent, which do not start unless it ends well.
    fn gate(&self) -> Result<File, EmitError> {
        let command = ["/bin/sh", "/etc/sandboxc/gate.sh"];
        let mut gate = self.service("gate", "Gate", &command, self.in_pod(), self.relations("", &[], &[]));
        gate.capabilities.clear();
        gate.service.oneshot = true;
        Ok(File::new(self.units.file("gate", "container"), gate.write(self.podman, "")?))
    }

    fn forwarder(&self) -> Result<File, EmitError> {
        let command = ["nginx", "-e", "stderr", "-c", "/etc/sandboxc/forwarder.conf"];
        let relations = self.relations("", &["gate"], &[]);
        let forwarder = self.service("forwarder", "Forwarder", &command, self.in_pod(), relations);
        Ok(File::new(self.units.file("forwarder", "container"), forwarder.write(self.podman, "")?))
    }

    /// One name for the whole set, for those who start and stop it by hand or let another unit want it.
    fn target(&self) -> Result<File, EmitError> {
        let description = format!("The sandbox {}", self.plan.session);
        let text = unit::target(self.podman, &description, &self.units.agent())?;
        Ok(File::new(self.units.file("sandbox", "target"), text))
    }

    fn timer(&self) -> Result<Option<File>, EmitError> {
        let Some(schedule) = &self.plan.schedule else { return Ok(None) };
        let description = format!("Schedule of the sandbox {}", self.plan.session);
        let text = unit::timer(self.podman, &description, &schedule.value, &self.units.agent())?;
        Ok(Some(File::new(self.units.file("agent", "timer"), text)))
    }
}
