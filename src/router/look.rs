//! Probes of a container's network: listeners, routes, and names. The image contains no other program for this.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::dns::Resolver;
use super::pod_file::Listeners;
use crate::policy::{AddressGuard, HostName};

const TCP: &str = "/proc/net/tcp";

/// The kernel's code for a listening socket (`TCP_LISTEN`, `include/net/tcp_states.h`).
const LISTENS: &str = "0A";

/// Waits until every planned address has a listener. Connecting to it instead would write a line to the log.
///
/// # Errors
/// The first address without a listener.
pub(super) fn wait_for(planned: &Listeners, within: Duration) -> Result<(), String> {
    let end = Instant::now() + within;
    loop {
        let there = listening(&fs::read_to_string(TCP).map_err(|error| format!("{TCP}: {error}"))?);
        let Some(missing) = planned.keys().find(|one| !there.contains(one)) else { return Ok(()) };
        if Instant::now() >= end {
            return Err(format!("nobody listens on {missing}"));
        }
        sleep(Duration::from_millis(5));
    }
}

/// The addresses of listening sockets in `/proc/net/tcp`: `0: 0101007F:0050 00000000:0000 0A …`.
fn listening(text: &str) -> BTreeSet<SocketAddrV4> {
    let one = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let (local, state) = (words.next()?, words.nth(1)?);
        let (address, port) = local.split_once(':').filter(|_| state == LISTENS)?;
        // The kernel prints an address as the number that its bytes represent in memory.
        let address = Ipv4Addr::from(u32::from_str_radix(address, 16).ok()?.to_ne_bytes());
        Some(SocketAddrV4::new(address, u16::from_str_radix(port, 16).ok()?))
    };
    text.lines().filter_map(one).collect()
}

/// All routes, as the kernel prints them.
pub(super) fn routes() -> String {
    // The file does not exist if IPv6 is off.
    ["/proc/net/route", "/proc/net/ipv6_route"].map(|path| fs::read_to_string(path).unwrap_or_default()).concat()
}

/// Asks a server for the IPv4 addresses of a name, and returns them, one per line.
///
/// # Errors
/// Why there are none.
pub(super) fn resolve(server: &str, name: &str) -> Result<String, String> {
    let server: IpAddr = server.parse().map_err(|_| format!("`{server}` is not an address"))?;
    let name = HostName::from_wire(name).ok_or_else(|| format!("`{name}` is not a host name"))?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
    let resolver = Resolver::new([SocketAddr::new(server, 53)], AddressGuard::default());
    let found = runtime.block_on(resolver.resolve(&name, true)).map_err(|error| error.to_string())?;
    Ok(found.iter().map(|address| format!("{address}\n")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sockets_that_listen_count() {
        let text = "  sl  local_address rem_address   st tx_queue\n\
                    \x20  0: 0101007F:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000   990\n\
                    \x20  1: 0101007F:01BB 0101007F:9C40 01 00000000:00000000 00:00000000 00000000   990\n";
        assert_eq!(listening(text), BTreeSet::from(["127.0.1.1:80".parse().unwrap()]));
        assert!(listening("").is_empty() && listening("a b c\n\n  2: x:y z 0A").is_empty());
    }
}
