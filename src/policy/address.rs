//! Which addresses a name may never lead to: the IANA special-purpose registries (RFC 6890 and successors) as data.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> IpNet {
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix))
}

const fn v6(head: [u16; 4], prefix: u8) -> IpNet {
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(head[0], head[1], head[2], head[3], 0, 0, 0, 0), prefix))
}

/// Blocks that are not the public internet. A guarded name that resolves into one is refused.
pub const SPECIAL: &[IpNet] = &[
    v4(0, 0, 0, 0, 8),
    v4(10, 0, 0, 0, 8),
    v4(100, 64, 0, 0, 10),
    v4(127, 0, 0, 0, 8),
    v4(169, 254, 0, 0, 16),
    v4(172, 16, 0, 0, 12),
    v4(192, 0, 0, 0, 24),
    v4(192, 0, 2, 0, 24),
    v4(192, 88, 99, 0, 24),
    v4(192, 168, 0, 0, 16),
    v4(198, 18, 0, 0, 15),
    v4(198, 51, 100, 0, 24),
    v4(203, 0, 113, 0, 24),
    v4(224, 0, 0, 0, 4),
    v4(240, 0, 0, 0, 4),
    v6([0, 0, 0, 0], 127),
    v6([0x64, 0xff9b, 1, 0], 48),
    v6([0x100, 0, 0, 0], 63),
    v6([0x2001, 0, 0, 0], 23),
    v6([0x2001, 0xdb8, 0, 0], 32),
    v6([0x2002, 0, 0, 0], 16),
    v6([0x3fff, 0, 0, 0], 20),
    v6([0x5f00, 0, 0, 0], 16),
    v6([0xfc00, 0, 0, 0], 7),
    v6([0xfe80, 0, 0, 0], 10),
    v6([0xfec0, 0, 0, 0], 10),
    v6([0xff00, 0, 0, 0], 8),
];

/// Blocks that `reachable` may not name: this network, loopback, link-local (cloud metadata), multicast, reserved.
pub const NEVER: &[IpNet] = &[
    v4(0, 0, 0, 0, 8),
    v4(127, 0, 0, 0, 8),
    v4(169, 254, 0, 0, 16),
    v4(224, 0, 0, 0, 4),
    v4(240, 0, 0, 0, 4),
    v6([0, 0, 0, 0], 127),
    v6([0xfe80, 0, 0, 0], 10),
    v6([0xff00, 0, 0, 0], 8),
];

/// Blocks that even `private: true` does not open: the router itself, and the two addresses that rootless podman
/// maps to the host (169.254.1.1 its resolver, 169.254.1.2 its services; podman `pasta_linux.go`).
const NEVER_PRIVATE: &[IpNet] =
    &[v4(0, 0, 0, 0, 8), v4(127, 0, 0, 0, 8), v4(169, 254, 1, 0, 30), v4(224, 0, 0, 0, 4), v4(240, 0, 0, 0, 4)];

/// Unwraps v4-mapped (RFC 4291 2.5.5.2) and well-known NAT64 (RFC 6052) addresses to the address they lead to.
pub fn unwrap_address(address: IpAddr) -> IpAddr {
    let IpAddr::V6(six) = address else { return address };
    if let Some(four) = six.to_ipv4_mapped() {
        return IpAddr::V4(four);
    }
    match six.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            let [a, b] = high.to_be_bytes();
            let [c, d] = low.to_be_bytes();
            IpAddr::V4(Ipv4Addr::new(a, b, c, d))
        }
        _ => address,
    }
}

/// True if the address, unwrapped, lies in a special-purpose block.
pub fn is_special(address: IpAddr) -> bool {
    let address = unwrap_address(address);
    SPECIAL.iter().any(|net| net.contains(&address))
}

/// `nets` without `holes`, as the fewest blocks, sorted.
pub fn subtract(nets: &[IpNet], holes: &[IpNet]) -> Vec<IpNet> {
    let mut rest: Vec<IpNet> = nets.to_vec();
    for hole in holes {
        rest = rest.into_iter().flat_map(|net| without(net, *hole)).collect();
    }
    IpNet::aggregate(&rest)
}

fn without(net: IpNet, hole: IpNet) -> Vec<IpNet> {
    if hole.contains(&net) {
        return Vec::new();
    }
    if !net.contains(&hole) {
        return vec![net];
    }
    let halves = net.subnets(net.prefix_len() + 1).into_iter().flatten();
    halves.flat_map(|half| without(half, hole)).collect()
}

impl super::Policy {
    /// The IPv4 blocks whose addresses the router's resolver refuses for a name, given the session's own networks.
    /// (The router has no IPv6, so only A records are ever asked for or dialled.)
    pub fn blocked_addresses(&self, private: bool, own: &[IpNet]) -> Vec<IpNet> {
        let mut nets: Vec<IpNet> = if private {
            NEVER_PRIVATE.to_vec()
        } else {
            let open = subtract(&self.reachable, NEVER);
            subtract(SPECIAL, &open)
        };
        nets.extend_from_slice(own);
        IpNet::aggregate(&nets).into_iter().filter(|net| matches!(net, IpNet::V4(_))).collect()
    }
}
