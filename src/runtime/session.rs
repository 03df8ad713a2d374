//! Sets a session up and tears it down.

mod end;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

use super::RuntimeError;
use super::cgroup::Cgroup;
use super::ctrlog;
use super::doctor::{FIX_CONTROLLERS, FIX_IDS, FIX_LABEL};
use super::fault::point;
use super::image::{ImageOrigin, MissingImage};
use super::nested;
use super::pins::{HostMount, Pins};
use super::podman::Podman;
use super::report::ReportedImage;
use super::selinux;
use super::signals::Signals;
use super::state::State;
use super::systemd;
use super::verify::{Verified, verify};
use crate::emit::kube::Documents;
use crate::emit::tree::Compiled;
use crate::emit::{ceiling_args, network, update_args};
use crate::plan::Plan;
use crate::plan::pod::{GATE_PASSED, Label, Mount, Pod, Role};

/// A session, during setup, while the command runs, and during teardown.
#[derive(Debug)]
pub struct Session<'a> {
    podman: &'a Podman,
    /// podman for the setup, whose calls end when a signal arrives.
    starting: Podman,
    signals: &'a Signals,
    state: &'a State,
    plan: &'a Plan,
    compiled: &'a Compiled,
}

/// A session whose command may start.
#[derive(Debug)]
pub struct Ready {
    /// podman's id of the agent's container.
    pub agent: String,
    /// The images in use.
    pub images: Vec<ReportedImage>,
}

/// Whether a failed setup may be tried again with another subnet.
#[derive(Debug)]
pub enum SetupError {
    /// The subnet is taken. Nothing was left behind.
    SubnetTaken,
    /// Any other error. The session must be torn down.
    Failed(RuntimeError),
}

impl<'a> Session<'a> {
    /// Returns the session of a plan. Nothing happens yet.
    pub fn new(
        podman: &'a Podman,
        signals: &'a Arc<Signals>,
        state: &'a State,
        plan: &'a Plan,
        compiled: &'a Compiled,
    ) -> Self {
        Self { podman, starting: podman.heeding(signals), signals, state, plan, compiled }
    }

    /// Opens the sources of mounts, creates the networks, starts the router, creates and verifies the agent pod, and
    /// waits for the gate and the forwarder. A signal stops the setup between two steps, and interrupts waits. Returns
    /// what podman calls the containers and images.
    pub fn set_up(&self) -> Result<Ready, SetupError> {
        self.refuse_unlabeled()?;
        nested::check_host(self.plan).map_err(SetupError::Failed)?;
        let mount =
            |(source, mount): (_, &'a Mount)| HostMount { source, target: &mount.target, read_only: mount.read_only };
        let pins = Pins::open(self.plan.agent.main.host_mounts().map(mount)).map_err(SetupError::Failed)?;
        self.networks()?;
        point("networks-made");
        self.signals.check().map_err(SetupError::Failed)?;
        let ready = self.pods(&pins).map_err(|error| SetupError::Failed(self.explain(error)))?;
        point("pods-up");
        self.signals.check().map_err(SetupError::Failed)?;
        Ok(ready)
    }

    /// If `SELinux` does not permit this login containers without a label, each of them would fail with a bare
    /// "Permission denied".
    fn refuse_unlabeled(&self) -> Result<(), SetupError> {
        let unlabeled = self.plan.agent.main.label == Label::Disabled && selinux::is_enforcing();
        let Some(role) = unlabeled.then(selinux::role_without_unconfined).flatten() else { return Ok(()) };
        Err(SetupError::Failed(RuntimeError::Host(format!(
            "the SELinux role {role} of this login cannot run containers without a label (spc_t), which the default, `selinux: disable`, \
             requires: {FIX_LABEL}"
        ))))
    }

    /// Creates the networks in parallel.
    fn networks(&self) -> Result<(), SetupError> {
        let calls = network::create_args(self.plan);
        let results: Vec<_> = thread::scope(|scope| {
            let create = |call| move || self.starting.call("the network", call, None);
            let handles: Vec<_> = calls.iter().map(|call| scope.spawn(create(call))).collect();
            handles.into_iter().map(|handle| joined(handle.join())).collect()
        });
        for (call, result) in calls.iter().zip(results) {
            let shared = call.iter().any(|word| word == "--ignore");
            result.map_err(|error| match error {
                RuntimeError::Podman { said, .. } if said.contains("is already used") && shared => {
                    let why = format!("{said}: set network.pool in the server file to a free block");
                    SetupError::Failed(RuntimeError::Podman { what: "the routers' network".to_owned(), said: why })
                }
                RuntimeError::Podman { said, .. } if said.contains("is already used") => SetupError::SubnetTaken,
                error => SetupError::Failed(error),
            })?;
        }
        Ok(())
    }

    /// Adds what to do to errors that podman reports in its own words: a missing image (pull policy `Never`) and
    /// used-up kernel keys.
    fn explain(&self, error: RuntimeError) -> RuntimeError {
        if let RuntimeError::Podman { said, .. } = &error
            && said.contains("keyring")
            && said.contains("quota")
        {
            return RuntimeError::Host(format!(
                "this user has used all its kernel keys, and each container needs one: stop other sessions, or raise the \
                 quota, e.g. `sudo sysctl kernel.keys.maxkeys=2000` ({said})"
            ));
        }
        // What crun and podman say if the user namespace has fewer ids than the images and services use.
        let ids = [
            "setresgid",
            "setresuid",
            "newuidmap",
            "newgidmap",
            "insufficient UIDs or GIDs",
            "UID/GID",
            "all the IDs mapped",
            "doesn't map UID",
            "doesn't map GID",
        ];
        if let RuntimeError::Podman { said, .. } = &error
            && ids.iter().any(|word| said.contains(word))
        {
            return RuntimeError::Host(format!(
                "this user has too few subordinate ids: add 65536 with `{FIX_IDS}` ({said})"
            ));
        }
        if let Some(controller) = undelegated(&error) {
            return RuntimeError::Host(format!(
                "this host does not delegate the controller `{controller}` to this user, so the sandbox's limits cannot be \
                 enforced: run `{FIX_CONTROLLERS}`"
            ));
        }
        let missing = self.missing_images();
        if missing.is_empty() { error } else { RuntimeError::MissingImages(missing) }
    }

    fn missing_images(&self) -> Vec<MissingImage> {
        let mut all: BTreeMap<&str, Role> = BTreeMap::new();
        for container in self.plan.pods().flat_map(Pod::containers) {
            let role = all.entry(container.image.value.reference()).or_insert(container.role);
            *role = if container.role == Role::Agent { Role::Agent } else { *role };
        }
        let is_missing = |image: &str| {
            let exists = self.podman.output(&["image", "exists", image], None).map(|output| output.status.code());
            matches!(exists, Ok(Some(1)))
        };
        let origin = |image: &str, role| match image.starts_with("localhost/") {
            true if role == Role::Agent => ImageOrigin::Build,
            true => ImageOrigin::Save,
            false => ImageOrigin::Pull,
        };
        let missing = all.into_iter().filter(|(image, _)| is_missing(image));
        missing.map(|(image, role)| MissingImage { image: image.to_owned(), origin: origin(image, role) }).collect()
    }

    /// Starts router and agent pod in parallel: the forwarder connects only when the agent does. While they start,
    /// podman's containers are compared with the plan.
    fn pods(&self, pins: &Pins) -> Result<Ready, RuntimeError> {
        let router = self.plan.router.as_ref().zip(self.compiled.stream.router.as_ref());
        let (first, second) = thread::scope(|scope| {
            let play = |(pod, manifest): (&Pod, &Documents)| self.pod(pod, "the router", "router", &manifest.text());
            let router = scope.spawn(move || router.map_or(Ok(()), play));
            let agent = self.pod(&self.plan.agent, "the agent pod", "forwarder", &self.compiled.stream.agent.text());
            (joined(router.join()), agent)
        });
        first.and(second)?;
        let (verified, ready) = thread::scope(|scope| {
            let verified = scope.spawn(|| self.verify(pins));
            let ready = self.ready();
            (joined(verified.join()), ready)
        });
        ready.and(verified)
    }

    /// Nothing runs in the agent's container yet except podman's init.
    fn verify(&self, pins: &Pins) -> Result<Ready, RuntimeError> {
        let Verified { containers: mut ids, images } = verify(&self.starting, self.plan)?;
        let agent = self.plan.names.agent_container();
        pins.verify(&agent)?;
        for (container, properties) in self.plan.pods().flat_map(ceiling_args) {
            if let Some(id) = ids.get(&container) {
                systemd::limit(&format!("libpod-{id}.scope"), &properties);
            }
        }
        let missing = || RuntimeError::Host(format!("podman has not created the container {agent}"));
        let agent = ids.remove(&agent).ok_or_else(missing)?;
        nested::check_image(self.plan, &agent)?;
        Ok(Ready { agent, images })
    }

    fn ready(&self) -> Result<(), RuntimeError> {
        if self.plan.network.is_none() {
            return Ok(());
        }
        self.wait_until("router", "router: ready", "the router")?;
        point("router-ready");
        self.wait_until("forwarder", GATE_PASSED, "the agent pod")
    }

    /// Plays a pod. Limits that kube play cannot express are set before it starts.
    fn pod(&self, pod: &Pod, what: &str, log: &str, manifest: &str) -> Result<(), RuntimeError> {
        let networks: Vec<String> =
            pod.networks.iter().map(|attachment| attachment.argument(&self.plan.names)).collect();
        let mut args = vec!["--no-hosts"];
        args.extend(networks.iter().flat_map(|network| ["--network", network]));
        let updates = update_args(pod);
        let later = !updates.is_empty();
        if later {
            args.push("--start=false");
        }
        self.play(what, log, &args, manifest)?;
        point(match pod.main.role {
            Role::Agent if later => "agent-created",
            Role::Agent => "agent-played",
            Role::Router | Role::Gate | Role::Forwarder => "router-played",
        });
        if later {
            for update in updates {
                self.starting.call("the limits", &update, None)?;
            }
            self.starting.start(what, &["pod", "start", &pod.name], None)?;
        }
        Ok(())
    }

    fn wait_until(&self, service: &str, ready: &str, what: &str) -> Result<(), RuntimeError> {
        ctrlog::wait_until(&self.state.log(service), ready, what, &|| self.signals.check())
    }

    /// k8s-file, whatever the user's log driver is, to a file of ours. Its size is limited, since the agent can cause
    /// output of the router.
    fn play(&self, what: &str, service: &str, args: &[&str], manifest: &str) -> Result<(), RuntimeError> {
        let path = format!("--log-opt=path={}", self.state.log(service).display());
        let mut call = vec!["kube", "play", "--quiet", "--build=false", "--log-driver=k8s-file", &path];
        call.push("--log-opt=max-size=16mb");
        // The agent's own seccomp profile, if it has one, is in the session's directory.
        let profiles = format!("--seccomp-profile-root={}", self.state.dir().display());
        call.push(&profiles);
        call.extend_from_slice(args);
        call.push("-");
        self.starting.start(what, &call, Some(manifest)).map(drop)
    }

    /// The file with the router's output.
    pub fn router_log(&self) -> std::path::PathBuf {
        self.state.log("router")
    }

    /// The limits that the agent's container reached, by the kernel's count. podman only reports a process that was killed
    /// if it is the container's init, which survives.
    pub fn limits_hit(&self) -> Vec<&'static str> {
        let container = self.plan.names.agent_container();
        let path = self.podman.inspect("reading the cgroup", &container).ok();
        let path = path.as_ref().and_then(|state| state.pointer("/State/CgroupPath")?.as_str());
        let Some(group) = path.and_then(|path| Cgroup::open(path).ok()) else { return Vec::new() };
        let all = [("memory", group.out_of_memory_kills()), ("pids", group.refused_processes())];
        all.into_iter().filter(|(_, count)| count.is_some_and(|count| count > 0)).map(|(name, _)| name).collect()
    }

    /// Explains that the kernel killed something because of the memory limit.
    pub fn out_of_memory(&self) -> Option<String> {
        let limit = self.plan.agent.main.limits.memory.as_ref()?;
        let (bytes, place) = (limit.value, limit.from.short());
        Some(format!("out of memory: the limit is {bytes} bytes; raise resource_limits.memory ({place})"))
    }

    /// Stops the router first, so that its last lines are written and read.
    pub fn stop_router(&self) {
        // If this fails, the teardown removes it by force.
        let _ = self.podman.output(&["stop", "--time", "2", &self.plan.names.router_container()], None);
    }
}

/// The controller that crun does not find where it must enforce a limit.
fn undelegated(error: &RuntimeError) -> Option<&'static str> {
    let RuntimeError::Podman { said, .. } = error else { return None };
    let lacks = |name: &&str| {
        said.contains(&format!("controller `{name}` is not available"))
            || (said.contains(&format!("opening file `{name}.")) && said.contains("for writing: No such file"))
    };
    ["cpu", "memory", "pids"].into_iter().find(lacks)
}

/// A panic in one of our threads is a bug. The session is torn down like any failed one.
pub(super) fn joined<T>(result: thread::Result<Result<T, RuntimeError>>) -> Result<T, RuntimeError> {
    result.unwrap_or_else(|_| Err(RuntimeError::Host("internal: a worker thread panicked".to_owned())))
}
