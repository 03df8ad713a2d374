//! The Quadlet target: a directory of units and the files they mount, for the user's systemd.
//!
//! Starting the agent's unit starts all others in order. They stop when it does, since nothing requires them any more
//! (`StopWhenUnneeded=`). Its result is the command's exit code.
//!
//! ```text
//! images, mounts, materials, networks, volume ─► router (ready) ─► pod ─► gate (ends well) ─► forwarder ─► agent
//! ```

use crate::plan::pod::{Attachment, Container, NetworkKind, Pod, Role, Source};
use crate::plan::{Part, Plan, SESSION_LABEL, SandboxNetwork, plan_hash, runner_hash};

use super::{EmitError, File, PodmanVersion, defaults};

mod agent;
mod container;
mod conversation;
mod image;
pub mod keys;
mod materials;
mod mount;
mod pin;
pub mod syntax;
mod unit;
pub mod writer;

use container::{ContainerUnit, Image, Service, Standing};
pub use conversation::ConversationUnits;
pub use materials::PROGRAM_DIRS;
use pin::PIN_ROLE;
use unit::{Network, PodUnit, Relations, Volume};

/// The directory of all installed sandboxes, below the user's runtime directory. It is not the runners' registry, where
/// `gc` would treat them as dead sessions.
const HELD_IN: &str = "sandboxc-units";

/// The start timeout in seconds. The first start of an image with mapped ids copies its layers, which took more than a
/// minute on a busy machine.
const START_TIMEOUT: u32 = 300;

/// A label on every container with the service that runs the sandbox, so that it is not treated as a leftover.
pub const UNIT_LABEL: &str = "io.sandboxc.unit";

/// The names of a plan's unit files, and of the services that Quadlet generates from them.
///
/// What people and their tools name has a name that stays the same when the plan changes: the agent's unit, the target and
/// the timer. All other names contain the plan's hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Units {
    hash: String,
    session: String,
}

impl Units {
    /// The names of a plan's units.
    pub fn new(plan: &Plan) -> Self {
        Self { hash: plan.names.hash.clone(), session: plan.session.clone() }
    }

    fn file(&self, role: &str, kind: &str) -> String {
        format!("sandboxc-{}-{role}.{kind}", self.hash)
    }

    fn service(&self, role: &str) -> String {
        format!("sandboxc-{}-{role}.service", self.hash)
    }

    /// The file of a unit with a stable name.
    fn stable(&self, kind: &str) -> String {
        stable_name(&self.session, kind)
    }

    /// The unit to start.
    pub fn agent(&self) -> String {
        self.stable("service")
    }
}

/// The name of a unit that stays the same when a sandbox's plan changes.
pub fn stable_name(session: &str, kind: &str) -> String {
    format!("sandboxc-{session}.{kind}")
}

/// The service that Quadlet generates from a unit file; `None` for other files (podman-systemd.unit(5)).
pub fn service_of(file_name: &str) -> Option<String> {
    let (stem, kind) = file_name.rsplit_once('.')?;
    match kind {
        "container" => Some(format!("{stem}.service")),
        "build" | "image" | "network" | "pod" | "volume" => Some(format!("{stem}-{kind}.service")),
        _ => None,
    }
}

/// All units of a plan and the files they mount, in one directory with the session's name.
pub fn units(plan: &Plan, podman: PodmanVersion, mounted: &[File]) -> Result<Vec<File>, EmitError> {
    if podman < PodmanVersion::FLOOR {
        return Err(EmitError::TooOld(podman));
    }
    if runner_hash(&plan.names.agent_pod).is_some() {
        return Err(EmitError::Internal("units contain their command themselves".to_owned()));
    }
    // It would be the name of a part of another sandbox.
    if plan_hash(&format!("sandboxc-{}", plan.session)).is_some() {
        return Err(EmitError::UnitName(plan.session.clone()));
    }
    let mut maker = Maker { plan, podman, units: Units::new(plan), router_image: Image::Reference };
    let mut files = vec![maker.egress()?, maker.pod()?];
    files.extend(maker.volumes()?);
    if let (Some(net), Some(router)) = (&plan.network, &plan.router) {
        let (image, unit) = maker.image("router-image", router.main.image.value.reference())?;
        maker.router_image = image;
        files.extend(unit);
        files.extend([maker.internal(net)?, maker.router(router)?, maker.gate()?, maker.forwarder()?]);
    }
    files.extend(maker.agent()?);
    files.push(maker.target()?);
    files.extend(maker.timer()?);
    files.push(maker.pins()?);
    files.extend(maker.materials()?);
    files.extend(mounted.iter().cloned());
    for file in &mut files {
        file.path = format!("{}/{}", plan.session, file.path);
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// How the service of one of our containers runs.
struct With<'a> {
    /// Roles that it requires.
    requires: &'a [&'a str],
    /// Whether it must end before others start.
    oneshot: bool,
}

/// Options of every call that creates containers.
fn global_args(w: &mut writer::UnitWriter) -> Result<(), EmitError> {
    defaults::GLOBAL_ARGS.iter().try_for_each(|argument| w.set("GlobalArgs", argument))
}

/// Names and values.
type Pairs = Vec<(String, String)>;

struct Maker<'a> {
    plan: &'a Plan,
    podman: PodmanVersion,
    units: Units,
    router_image: Image,
}

impl Maker<'_> {
    fn relations(&self, what: &str, requires: &[&str], binds_to: &[&str]) -> Relations {
        let services = |roles: &[&str]| roles.iter().map(|role| self.units.service(role)).collect();
        Relations {
            description: format!("{what} of the sandbox {} (plan {})", self.plan.session, self.units.hash),
            requires: services(requires),
            binds_to: services(binds_to),
            stop_when_unneeded: true,
            part_of: None,
        }
    }

    /// podman in a service gets this tree's defaults, and none of the variables that secrets are read from, since its
    /// helpers would keep them. The tree must be where `install` puts it; elsewhere, the file is missing and nothing
    /// starts.
    fn podman_environment(&self, w: &mut writer::UnitWriter, conf: &str) -> Result<(), EmitError> {
        let Plan { session, secret_variables, .. } = self.plan;
        w.literal("Environment", &format!("{}=%E/containers/systemd/{session}/{conf}", defaults::CONF_VARIABLE));
        secret_variables.iter().try_for_each(|name| w.set("UnsetEnvironment", name))
    }

    fn labels(&self, role: &str) -> Pairs {
        let all = self.plan.labels(role).into_iter().chain([(UNIT_LABEL, self.units.agent())]);
        all.map(|(name, value)| (name.to_owned(), value)).collect()
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

    /// Services that can refuse a start. What only the agent requires is ordered after them: if they fail, the agent's
    /// start is canceled, and systemd does not check again whether other services that were started for it are still
    /// needed.
    fn refusers(&self) -> Vec<&'static str> {
        [PIN_ROLE].into_iter().chain(self.keeper()).collect()
    }

    /// The named volumes. Each starts after what can refuse a start, the image, and the volume before it, so that none is
    /// there if one of them fails.
    fn volumes(&self) -> Result<Vec<File>, EmitError> {
        let mut files = Vec::new();
        let mut before: Vec<String> =
            self.refusers().into_iter().chain(self.image_role()?).map(str::to_owned).collect();
        for mount in &self.plan.agent.main.mounts {
            let Source::Volume(name) = &mount.source else { continue };
            let what = if mount.name == "home" { "Home" } else { "Volume" };
            let requires: Vec<&str> = before.iter().map(String::as_str).collect();
            let volume = Volume { relations: self.relations(what, &requires, &[]), name: name.clone() };
            before.push(format!("{}-volume", mount.name));
            files.push(File::new(self.units.file(&mount.name, "volume"), volume.write(self.podman)?));
        }
        Ok(files)
    }

    /// The unit of one of our containers.
    fn service(
        &self,
        what: &str,
        pod: &Pod,
        standing: Standing<'_>,
        container: &Container,
        with: &With<'_>,
    ) -> Result<File, EmitError> {
        let role = container.role.word();
        let unit = ContainerUnit {
            relations: self.relations(what, with.requires, &[]),
            name: pod.container_name(container.role),
            image: self.router_image.clone(),
            standing,
            labels: self.labels(role),
            service: Service {
                oneshot: with.oneshot,
                start_timeout: START_TIMEOUT,
                directory: (container.role == Role::Router).then(|| self.handover()),
                ..Service::default()
            },
            container,
        };
        Ok(File::new(self.units.file(role, "container"), self.write_container(&unit, "")?))
    }

    /// The directory that systemd makes with the router's service and removes with it, below the runtime directory.
    fn handover(&self) -> String {
        format!("{HELD_IN}/handover-{}", self.plan.names.hash)
    }

    fn router(&self, pod: &Pod) -> Result<File, EmitError> {
        let keeper = self.keeper().filter(|_| self.plan.needs(Part::Router));
        let standing = Standing::Alone { pod, networks: self.networks(pod) };
        self.service("Router", pod, standing, &pod.main, &With { requires: keeper.as_slice(), oneshot: false })
    }

    fn networks(&self, pod: &Pod) -> Vec<String> {
        let unit = |attachment: &Attachment| {
            let Attachment { network, address } = attachment;
            let file = match network {
                NetworkKind::Internal => self.units.file("net", "network"),
                NetworkKind::Egress => self.units.file("egress", "network"),
            };
            address.map_or_else(|| file.clone(), |address| format!("{file}:ip={address}"))
        };
        pod.networks.iter().map(unit).collect()
    }

    /// The pod starts after the router listens.
    fn pod(&self) -> Result<File, EmitError> {
        let requires: &[&str] = if self.plan.network.is_some() { &["router"] } else { &[] };
        let pod = PodUnit {
            relations: self.relations("Pod", requires, &[]),
            networks: self.networks(&self.plan.agent),
            labels: self.labels("agent"),
            pod: &self.plan.agent,
        };
        Ok(File::new(self.units.file("agent", "pod"), pod.write(self)?))
    }

    fn helper(&self, role: Role, what: &str, with: &With<'_>) -> Result<File, EmitError> {
        let pod = &self.plan.agent;
        let helper = pod.helpers.iter().find(|helper| helper.role == role);
        let missing = || EmitError::Internal(format!("the plan has no {}", role.word()));
        let standing = Standing::Pod(self.units.file("agent", "pod"));
        self.service(what, pod, standing, helper.ok_or_else(missing)?, with)
    }

    /// Runs to its end before each start of forwarder and agent, which only start if it succeeds.
    fn gate(&self) -> Result<File, EmitError> {
        self.helper(Role::Gate, "Gate", &With { requires: &[], oneshot: true })
    }

    fn forwarder(&self) -> Result<File, EmitError> {
        self.helper(Role::Forwarder, "Forwarder", &With { requires: &["gate"], oneshot: false })
    }

    /// A single name for the whole sandbox, for starting and stopping it by hand or from another unit.
    fn target(&self) -> Result<File, EmitError> {
        let description = format!("The sandbox {} (plan {})", self.plan.session, self.units.hash);
        let text = unit::target(self.podman, &description, &self.units.agent())?;
        Ok(File::new(self.units.stable("target"), text))
    }

    fn timer(&self) -> Result<Option<File>, EmitError> {
        let Some(schedule) = &self.plan.schedule else { return Ok(None) };
        let description = format!("Schedule of the sandbox {} (plan {})", self.plan.session, self.units.hash);
        let text = unit::timer(self.podman, &description, &schedule.value, &self.units.agent())?;
        Ok(Some(File::new(self.units.stable("timer"), text)))
    }
}
