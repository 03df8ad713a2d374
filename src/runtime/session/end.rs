//! The end of a session.

use std::thread;
use std::time::Duration;

use super::Session;
use crate::runtime::conmon::{self, Inside, await_cleanups};
use crate::runtime::fault::point;
use crate::runtime::orphans::end_visits;

impl Session<'_> {
    /// Ends the containers of a complete session and removes everything. Returns what could not be removed.
    pub fn end(&self) -> Vec<String> {
        let names = &self.plan.names;
        self.end_visits();
        let all = self.containers();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        await_cleanups(&all);
        let grace = self.plan.router.as_ref().map_or(0, |router| router.main.stop_timeout);
        conmon::end(&all, &names.router_container(), Duration::from_secs(grace.into()));
        point("containers-ended");
        // Fails for each of them, since nobody has noted an exit code. After that, podman knows that they have ended.
        let _ = self.podman.output(&[&["stop", "--ignore", "--time", "0"], all.as_slice()].concat(), None);
        point("containers-stopped");
        // A network is removed together with the pods that use it.
        let pods = match self.plan.network {
            Some(_) => self.remove(&["network", "rm", "--force", "--time", "0", &names.internal_network]),
            None => self.remove(&["pod", "rm", "--force", "--ignore", "--time", "0", &names.agent_pod]),
        };
        point("pods-removed");
        let left = pods.or_else(|| self.remove_volumes());
        point("volumes-removed");
        // What fails at once may succeed step by step.
        left.map(|_| self.take_down()).unwrap_or_default()
    }

    /// Removes everything that `set_up` may have created, also of an incomplete session. Continues after errors and
    /// returns what failed.
    ///
    /// podman's cleanup after containers that ended by themselves is waited for, and containers are removed before
    /// their pods: a `pod rm` would wait for that cleanup while it holds the pod's lock, which the cleanup needs.
    pub fn take_down(&self) -> Vec<String> {
        let names = &self.plan.names;
        self.end_visits();
        let all = self.containers();
        await_cleanups(&all.iter().map(String::as_str).collect::<Vec<_>>());
        let has_network = self.plan.network.is_some();
        let (agent, forwarder, router) =
            (names.agent_container(), names.forwarder_container(), names.router_container());
        // Together with the volumes that the image declares for its container.
        let mut containers = vec!["rm", "--force", "--ignore", "--volumes", "--time", "0", &agent];
        let mut pods = vec![names.agent_pod.as_str()];
        if has_network {
            containers.extend([forwarder.as_str(), &router]);
            pods.push(&names.router_pod);
        }
        let first = self.remove(&containers);
        let second: Vec<String> = thread::scope(|scope| {
            let remove = |pod| move || self.remove(&["pod", "rm", "--force", "--ignore", "--time", "0", pod]);
            let handles: Vec<_> = pods.iter().map(|pod| scope.spawn(remove(*pod))).collect();
            handles.into_iter().filter_map(|handle| handle.join().ok().flatten()).collect()
        });
        let (network, volumes) = thread::scope(|scope| {
            let remove = || self.remove(&["network", "rm", "--force", &names.internal_network]);
            let network = scope.spawn(move || has_network.then(remove).flatten());
            (self.remove_volumes(), network.join().ok().flatten())
        });
        first.into_iter().chain(second).chain(network).chain(volumes).collect()
    }

    fn remove_volumes(&self) -> Option<String> {
        let names = &self.plan.names;
        let home = names.agent_home();
        let mut call = vec!["volume", "rm", "--force", &names.agent_files];
        call.extend(self.plan.has_volume(&home).then_some(home.as_str()));
        call.extend(self.plan.network.is_some().then_some(names.router_files.as_str()));
        self.remove(&call)
    }

    fn end_visits(&self) {
        if let Some(inside) = Inside::of(&self.plan.names.agent_container()) {
            end_visits(&self.state.empty_dir(), &inside);
        }
    }

    /// The containers that the session may have.
    fn containers(&self) -> Vec<String> {
        let names = &self.plan.names;
        let mut all = vec![names.agent_container(), names.agent_infra.clone()];
        if self.plan.network.is_some() {
            all.extend([names.forwarder_container(), names.router_container(), names.router_infra.clone()]);
        }
        all
    }

    /// None of these calls fails for objects that are already gone.
    fn remove(&self, args: &[&str]) -> Option<String> {
        self.podman.call("teardown", args, None).err().map(|error| error.to_string())
    }
}
