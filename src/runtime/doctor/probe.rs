//! Images and networks, tried with the router's own program.

use std::thread;
use std::time::SystemTime;

use super::super::host::random_session;
use super::super::podman::Podman;
use super::super::registry::{Record, Registry, Stage};
use super::super::state::State;
use super::{Check, RuntimeError, Subject, resolver, told};
use crate::emit::{network, posture_args};
use crate::plan::{Container, Plan};

pub(super) fn images(subject: &Subject<'_>) -> Vec<Check> {
    let one = |check, promise, image: &str, make: String| {
        let found = subject.podman.output(&["image", "exists", image], None);
        match found.map(|output| output.status.code()) {
            Ok(Some(0)) => Check::ok(check, promise, image),
            Ok(_) => Check::fail(check, promise, format!("{image} is missing"), make),
            Err(error) => Check::fail(check, promise, told(&error), make),
        }
    };
    let Some(router) = &subject.plan.router else { return Vec::new() };
    let (router, agent) = (router.main.image.value.reference(), subject.plan.agent.main.image.value.reference());
    let make = match agent.starts_with("localhost/") {
        true => "sandboxc image build agent".to_owned(),
        false => format!("podman pull {agent}"),
    };
    thread::scope(|scope| {
        let first = scope.spawn(|| one("router-image", "the router's image exists", router, LOAD_ROUTER.to_owned()));
        let second = one("agent-image", "the agent's image exists", agent, make);
        first.join().into_iter().chain([second]).collect()
    })
}

/// Without a `router_image`, whatever starts a session loads it.
const LOAD_ROUTER: &str = "sandboxc image save router | podman load";

const NO_ROUTE: (&str, &str) = ("internal-network", "the internal network has no route out");
const RESOLVES: (&str, &str) = ("resolver", "the router can resolve names");

/// Runs two containers in parallel, one on each kind of network.
pub(super) fn networks(subject: &Subject<'_>) -> Vec<Check> {
    let (Some(registry), Some(router)) = (subject.registry, &subject.plan.router) else { return Vec::new() };
    match Probe::make(subject.podman, registry, subject.plan, &router.main) {
        Ok(probe) => thread::scope(|scope| {
            let no_route = scope.spawn(|| probe.no_route());
            let resolves = probe.resolves(subject);
            no_route.join().into_iter().chain([resolves]).collect()
        }),
        Err(error) => {
            let fix = "fix the failures above first; then run podman system reset if nothing else uses podman here";
            [NO_ROUTE, RESOLVES].map(|(check, promise)| Check::fail(check, promise, told(&error), fix)).into()
        }
    }
}

/// The plan's networks, created like those of a session, so that `gc` removes them if this process dies.
struct Probe<'a> {
    podman: &'a Podman,
    plan: &'a Plan,
    router: &'a Container,
    _state: State,
}

impl<'a> Probe<'a> {
    fn make(
        podman: &'a Podman,
        registry: &Registry,
        plan: &'a Plan,
        router: &'a Container,
    ) -> Result<Self, RuntimeError> {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let state = State::create(
            registry,
            Record {
                session: plan.session.clone(),
                workspace: "/".into(),
                image: router.image.value.reference().to_owned(),
                since,
                pid: i32::try_from(std::process::id()).unwrap_or(0),
                stage: Stage::Running,
                plans: Vec::new(),
                entrance: None,
                live: None,
            },
        )?;
        state.add_plan(&plan.names.hash)?;
        let probe = Self { podman, plan, router, _state: state };
        for call in network::create_args(plan) {
            probe.podman.call("creating a network", &call, None)?;
        }
        Ok(probe)
    }

    /// Runs the router's program in one of its probing modes, confined like the router.
    fn look(&self, role: &str, network: &str, mode: &[&str]) -> Result<String, RuntimeError> {
        let name = format!("{}-{role}", self.plan.names.agent_pod);
        let program = self.router.argv.first().map_or("", String::as_str);
        let mut args = vec!["run".to_owned(), "--rm".to_owned()];
        args.extend(posture_args(self.router));
        args.extend([format!("--network={network}"), format!("--name={name}"), format!("--entrypoint={program}")]);
        args.push(self.router.image.value.reference().to_owned());
        args.extend(mode.iter().map(|&word| word.to_owned()));
        self.podman.call("running a container of the router's image", &args, None)
    }

    fn no_route(&self) -> Check {
        let (check, promise) = NO_ROUTE;
        let fix = "update netavark, and run no sandbox until then";
        match self.look("no-route", &self.plan.names.internal_network, &["routes"]) {
            Ok(routes) if way_out(&routes) => Check::fail(check, promise, "found a default route", fix),
            Ok(_) => Check::ok(check, promise, "no default route"),
            Err(error) => Check::fail(check, promise, told(&error), LOAD_ROUTER),
        }
    }

    fn resolves(&self, subject: &Subject<'_>) -> Check {
        let (check, promise) = RESOLVES;
        let (server, name) = (resolver(self.plan), &subject.name);
        let mode = ["resolve", &server.to_string(), name];
        match self.look("resolver", &self.plan.names.egress_network, &mode) {
            Ok(said) => {
                let address = said.split_whitespace().next().unwrap_or("");
                Check::ok(check, promise, format!("{server} resolves {name} to {address}"))
            }
            Err(RuntimeError::Podman { said, .. }) if said.contains("resolve: ") => Check::fail(
                check,
                promise,
                format!("{server} does not resolve {name}: {}", said.trim_start_matches("resolve: ")),
                "set network.upstream_dns in the server file to resolvers that answer",
            ),
            Err(error) => Check::fail(check, promise, told(&error), LOAD_ROUTER),
        }
    }
}

impl Drop for Probe<'_> {
    fn drop(&mut self) {
        // If this fails, the next `gc` finds the network by its name.
        let _ = self.podman.output(&["network", "rm", "--force", &self.plan.names.internal_network], None);
    }
}

/// Whether `/proc/net/route` or `/proc/net/ipv6_route` holds a default route.
fn way_out(routes: &str) -> bool {
    routes.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [_, dest, _, _, _, _, _, mask, ..] if dest.len() == 8 => *dest == "00000000" && *mask == "00000000",
            // The kernel's own "unreachable" default is on lo.
            [dest, length, .., name] if dest.len() == 32 => *length == "00" && *name != "lo",
            _ => false,
        }
    })
}

/// A session id for the probe.
pub fn session() -> Result<String, RuntimeError> {
    Ok(format!("doctor-{}", random_session()?))
}

#[cfg(test)]
mod tests {
    use super::way_out;

    #[test]
    fn default_routes_of_both_kinds_are_found() {
        let head = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n";
        let inside = "eth0\t00C8D50A\t00000000\t0001\t0\t0\t0\tF8FFFFFF\t0\t0\t0\n";
        let outside = "eth0\t00000000\t01C8D50A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n";
        assert!(!way_out(&format!("{head}{inside}")));
        assert!(way_out(&format!("{head}{inside}{outside}")));
        let zero = "0".repeat(32);
        let six = |name: &str| format!("{zero} 00 {zero} 00 {zero} ffffffff 00000001 00000000 00200200 {name}\n");
        assert!(!way_out(&six("lo")) && way_out(&six("eth0")));
    }
}
