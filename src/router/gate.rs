//! The gate: the first process of the agent's pod. Nothing else starts there unless the session's own network is all there
//! is, and the router in it is the one of this plan. Whoever forgets a step of the recipe ends here.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use ipnet::Ipv4Net;

use super::dns::probe;
use super::pod_file::PodFile;
use super::run::say;

/// How long the router may take to answer. It is up before the gate starts, so this is for a host under load.
const ROUTER: Duration = Duration::from_secs(10);

/// How many user namespaces processes of the pod may make (`user_namespaces(7)`). It belongs to the pod's own user namespace,
/// so it is neither the host's nor another pod's; to raise it again takes `CAP_SYS_RESOURCE` there.
const USER_NAMESPACES: &str = "sys/user/max_user_namespaces";

/// What the pod gets of its user's inotify(7) on the host: its own limit, the host's, and which part of that.
const INOTIFY: [(&str, &str, u64); 2] = [
    ("sys/user/max_inotify_instances", "sys/fs/inotify/max_user_instances", 4),
    ("sys/user/max_inotify_watches", "sys/fs/inotify/max_user_watches", 2),
];

/// Runs the gate alone; the code that the process ends with.
pub fn main(pod: &Path) -> u8 {
    match super::forward::read(pod).and_then(|file| check(&file, Path::new("/proc"))) {
        Ok(()) => 0,
        Err(error) => stop(&error),
    }
}

/// Says why the pod does not start; the code that the process ends with.
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
    limits(file.user_namespaces, proc)?;
    probe::wait_for(file.router, &file.plan, ROUTER)
}

/// IPv4 routes as `/proc/net/route` lists them: at least one, none by default, none outside of the network.
fn routes(text: &str, internal: Ipv4Net) -> Result<(), String> {
    let mut count = 0;
    for line in text.lines().skip(1) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (&[name, destination, gateway, ..], Some(mask)) = (words.as_slice(), words.get(7)) else {
            return Err("a line of /proc/net/route is not understood".to_owned());
        };
        let [Some(destination), Some(gateway), Some(mask)] = [destination, gateway, mask].map(address) else {
            return Err("a line of /proc/net/route is not understood".to_owned());
        };
        if mask.is_unspecified() {
            return Err(format!("there is a default route (through {name})"));
        }
        let route = Ipv4Net::with_netmask(destination, mask)
            .map_err(|_| "a line of /proc/net/route is not understood".to_owned())?;
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

/// The kernel prints an address as the number that its bytes are in memory.
fn address(hex: &str) -> Option<Ipv4Addr> {
    let number = u32::from_str_radix(hex, 16).ok().filter(|_| hex.len() == 8 && !hex.starts_with('+'))?;
    Some(number.to_ne_bytes().into())
}

/// IPv6 routes: nothing but the loopback's own.
fn ipv6_routes(text: &str) -> Result<(), String> {
    match text.lines().find(|line| line.split_whitespace().last() != Some("lo")) {
        Some(line) => {
            let name = line.split_whitespace().last().unwrap_or("an unknown interface");
            Err(format!("there is an IPv6 route (through {name})"))
        }
        None => Ok(()),
    }
}

/// The pod's own addresses, from the kernel's routing trie: the planned one and loopback, nothing else.
fn addresses(text: &str, planned: Ipv4Addr) -> Result<(), String> {
    let (mut leaf, mut found) = (None, false);
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["|--", address] => leaf = Some(address),
            ["/32", "host", "LOCAL"] => {
                let own: Ipv4Addr = leaf
                    .and_then(|text| text.parse().ok())
                    .ok_or_else(|| "a line of /proc/net/fib_trie is not understood".to_owned())?;
                if own == planned {
                    found = true;
                } else if !own.is_loopback() {
                    return Err(format!("the pod has the address {own}, planned was {planned}"));
                }
            }
            _ => {}
        }
    }
    if found { Ok(()) } else { Err(format!("the pod does not have its address {planned}")) }
}

/// Limits of the pod's user namespace, which hold as long as the pod lives.
fn limits(user_namespaces: bool, proc: &Path) -> Result<(), String> {
    let read = |name: &str| fs::read_to_string(proc.join(name)).map_err(|error| format!("/proc/{name}: {error}"));
    // The namespace that podman uses for a user's other containers, or the host's, would take them for everybody.
    if !is_own(&read("self/uid_map")?) {
        let why = "the pod has no user namespace of its own, so the limits of one cannot be set";
        return if user_namespaces { Ok(()) } else { Err(why.to_owned()) };
    }
    for (own, host, part) in INOTIFY {
        let all: u64 = read(host)?.trim().parse().map_err(|_| format!("/proc/{host} is no number"))?;
        limit(proc, own, (all / part).max(1))?;
    }
    if user_namespaces { Ok(()) } else { limit(proc, USER_NAMESPACES, 0) }
}

/// True if the map is that of a namespace inside the one where podman is root: its user is 0 there (`user_namespaces(7)`).
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
