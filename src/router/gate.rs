//! The gate: the first process of the agent's pod. Nothing else starts there unless the session's network is its only
//! network, and the router in it belongs to the same plan. Forgetting a step of the recipe stops here.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use ipnet::Ipv4Net;

use super::dns::probe;
use super::pod_file::{self, PodFile};
use super::process::say;

/// How long the router may take to respond. It is up before the gate starts, so this only matters on a busy host.
const ROUTER: Duration = Duration::from_secs(10);

/// How many user namespaces processes of the pod may create (`user_namespaces(7)`). The limit belongs to the pod's own
/// user namespace, so it does not affect the host or other pods; raising it again needs `CAP_SYS_RESOURCE` there.
const USER_NAMESPACES: &str = "sys/user/max_user_namespaces";

/// The same for network namespaces, with which go netfilter, traffic control and packet sockets of their own.
const NET_NAMESPACES: &str = "sys/user/max_net_namespaces";

/// The pod's share of its user's inotify(7) limits on the host: its own limit, the host's, and the divisor.
const INOTIFY: [(&str, &str, u64); 2] = [
    ("sys/user/max_inotify_instances", "sys/fs/inotify/max_user_instances", 4),
    ("sys/user/max_inotify_watches", "sys/fs/inotify/max_user_watches", 2),
];

/// Runs the gate alone, and returns the exit code.
pub fn main(pod: &Path) -> u8 {
    match pod_file::open(pod).and_then(|file| check(&file, Path::new("/proc"))) {
        Ok(()) => 0,
        Err(error) => stop(&error),
    }
}

/// Prints why the pod does not start, and returns the exit code.
pub(super) fn stop(why: &str) -> u8 {
    say(&format!("gate: {why}; the sandbox does not start"));
    1
}

/// Checks the pod from inside; `proc` is where procfs is mounted.
///
/// # Errors
/// What is not as planned, as a clause.
pub fn check(file: &PodFile, proc: &Path) -> Result<(), String> {
    let read = |name: &str| fs::read_to_string(proc.join(name)).map_err(|error| format!("/proc/{name}: {error}"));
    routes(&read("net/route")?, file.internal)?;
    if proc.join("net/ipv6_route").exists() {
        ipv6_routes(&read("net/ipv6_route")?)?;
    }
    addresses(&read("net/fib_trie")?, file.agent)?;
    limits(file, proc)?;
    if file.needs_nsdelegate && !has_nsdelegate(&read("self/mountinfo")?) {
        return Err(NO_NSDELEGATE.to_owned());
    }
    probe::wait_for(file.router, &file.plan, ROUTER)
}

/// IPv4 routes as `/proc/net/route` lists them: at least one, no default route, none outside of the network.
fn routes(text: &str, internal: Ipv4Net) -> Result<(), String> {
    let mut count = 0;
    for line in text.lines().skip(1) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (&[name, destination, gateway, ..], Some(mask)) = (words.as_slice(), words.get(7)) else {
            return Err("cannot parse a line of /proc/net/route".to_owned());
        };
        let [Some(destination), Some(gateway), Some(mask)] = [destination, gateway, mask].map(address) else {
            return Err("cannot parse a line of /proc/net/route".to_owned());
        };
        if mask.is_unspecified() {
            return Err(format!("there is a default route (through {name})"));
        }
        let route = Ipv4Net::with_netmask(destination, mask)
            .map_err(|_| "cannot parse a line of /proc/net/route".to_owned())?;
        if !internal.contains(&route) {
            return Err(format!("there is a route out of {internal} (through {name})"));
        }
        if !gateway.is_unspecified() {
            return Err(format!("there is a gateway (through {name})"));
        }
        count += 1;
    }
    if count == 0 { Err("there is no route to the router".to_owned()) } else { Ok(()) }
}

/// The kernel prints an address as the number that its bytes represent in memory.
fn address(hex: &str) -> Option<Ipv4Addr> {
    let number = u32::from_str_radix(hex, 16).ok().filter(|_| hex.len() == 8 && !hex.starts_with('+'))?;
    Some(number.to_ne_bytes().into())
}

/// IPv6 routes: only those of the loopback interface.
fn ipv6_routes(text: &str) -> Result<(), String> {
    match text.lines().find(|line| line.split_whitespace().last() != Some("lo")) {
        Some(line) => {
            let name = line.split_whitespace().last().unwrap_or("an unknown interface");
            Err(format!("there is an IPv6 route (through {name})"))
        }
        None => Ok(()),
    }
}

/// The pod's addresses, from the kernel's routing trie: the planned one and loopback, no others.
fn addresses(text: &str, planned: Ipv4Addr) -> Result<(), String> {
    let (mut leaf, mut found) = (None, false);
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["|--", address] => leaf = Some(address),
            ["/32", "host", "LOCAL"] => {
                let own: Ipv4Addr = leaf
                    .and_then(|text| text.parse().ok())
                    .ok_or_else(|| "cannot parse a line of /proc/net/fib_trie".to_owned())?;
                if own == planned {
                    found = true;
                } else if !own.is_loopback() {
                    return Err(format!("the pod has the address {own} instead of {planned}"));
                }
            }
            _ => {}
        }
    }
    if found { Ok(()) } else { Err(format!("the pod does not have its address {planned}")) }
}

/// What is wrong if [`has_nsdelegate`] is false and must not be.
pub const NO_NSDELEGATE: &str =
    "the host's cgroup file system is mounted without `nsdelegate`, so the command could raise its own resource limits";

/// Whether a table of mounts (`proc_pid_mountinfo(5)`) has a cgroup file system with this option. It holds for all mounts of
/// one, in containers too.
pub fn has_nsdelegate(mountinfo: &str) -> bool {
    mountinfo.lines().filter_map(|line| line.split_once(" - cgroup2 ")).any(|(_, rest)| {
        let options = rest.split_whitespace().nth(1).unwrap_or_default();
        options.split(',').any(|option| option == "nsdelegate")
    })
}

/// Sets limits of the pod's user namespace, which apply as long as the pod exists.
fn limits(file: &PodFile, proc: &Path) -> Result<(), String> {
    let &PodFile { user_namespaces, net_namespaces, .. } = file;
    let read = |name: &str| fs::read_to_string(proc.join(name)).map_err(|error| format!("/proc/{name}: {error}"));
    // In the namespace that podman uses for all of a user's containers, or in the host's, the limits would affect
    // everything else.
    if !is_own(&read("self/uid_map")?) {
        let why = "the pod has no user namespace of its own, so the limits of one cannot be set";
        return if user_namespaces && net_namespaces { Ok(()) } else { Err(why.to_owned()) };
    }
    for (own, host, part) in INOTIFY {
        let all: u64 = read(host)?.trim().parse().map_err(|_| format!("/proc/{host} is no number"))?;
        limit(proc, own, (all / part).max(1))?;
    }
    if !net_namespaces {
        limit(proc, NET_NAMESPACES, 0)?;
    }
    if user_namespaces { Ok(()) } else { limit(proc, USER_NAMESPACES, 0) }
}

/// Whether the map is that of a namespace inside the one where podman is root: its user is 0 there
/// (`user_namespaces(7)`).
fn is_own(map: &str) -> bool {
    map.lines().any(|line| {
        let mut words = line.split_whitespace().skip(1);
        words.next() == Some("0") && words.next().is_some_and(|count| count != "4294967295")
    })
}

fn limit(proc: &Path, name: &str, value: u64) -> Result<(), String> {
    let failed = |error| format!("/proc/{name} cannot be set: {error}");
    fs::write(proc.join(name), format!("{value}\n")).map_err(failed)?;
    let now = fs::read_to_string(proc.join(name)).map_err(failed)?;
    if now.trim() == value.to_string() {
        return Ok(());
    }
    Err(format!("/proc/{name} cannot be set: it is {} still", now.trim()))
}

#[cfg(test)]
mod tests;
