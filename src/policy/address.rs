//! Addresses that a name must never resolve to, as data: the IANA special-purpose registries (RFC 6890 and successors),
//! and public addresses at which large clouds serve their own machines.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> IpNet {
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix))
}

const fn v6(head: [u16; 4], prefix: u8) -> IpNet {
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(head[0], head[1], head[2], head[3], 0, 0, 0, 0), prefix))
}

/// Blocks that are not on the public internet. A guarded name that resolves into one is refused.
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

/// Public blocks at which large clouds serve their own machines. (AWS, Google, Oracle, Alibaba, Huawei and Tencent use
/// link-local or shared addresses, which are in [`SPECIAL`].)
pub const PLATFORM: &[IpNet] = &[
    // Azure's host agent: learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16.
    v4(168, 63, 129, 16, 32),
    // IBM's resolvers, mirrors and service endpoints: cloud.ibm.com/docs/vpc?topic=vpc-service-endpoints-for-vpc.
    v4(161, 26, 0, 0, 16),
    v4(166, 8, 0, 0, 14),
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

/// Blocks that even `private: true` does not open: the router itself, and the two addresses that rootless podman maps
/// to the host (169.254.1.1 its resolver, 169.254.1.2 its services; podman `pasta_linux.go`).
const NEVER_PRIVATE: &[IpNet] =
    &[v4(0, 0, 0, 0, 8), v4(127, 0, 0, 0, 8), v4(169, 254, 1, 0, 30), v4(224, 0, 0, 0, 4), v4(240, 0, 0, 0, 4)];

/// Unwraps v4-mapped (RFC 4291 2.5.5.2) and well-known NAT64 (RFC 6052) addresses.
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

/// Whether the address, unwrapped, is in a special-purpose block.
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

/// Decides whether the router may dial an address that a name resolved to. Created by
/// [`Policy::guard`](super::Policy::guard).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressGuard {
    guarded: Vec<IpNet>,
    private: Vec<IpNet>,
}

impl AddressGuard {
    /// Whether a name must not resolve to this address: for names that may be `private`, or for all others.
    pub fn refuses(&self, address: IpAddr, private: bool) -> bool {
        let address = unwrap_address(address);
        let blocked = if private { &self.private } else { &self.guarded };
        // The router has no IPv6, so it never dials an address that is still IPv6 after unwrapping.
        address.is_ipv6() || blocked.iter().any(|net| net.contains(&address))
    }
}

impl super::Policy {
    /// The guard of a session with these networks of its own.
    pub fn guard(&self, own: &[IpNet]) -> AddressGuard {
        let mut guarded = self.blocked_addresses(false, own);
        guarded.extend_from_slice(PLATFORM);
        AddressGuard { guarded, private: self.blocked_addresses(true, own) }
    }

    /// The IPv4 blocks that the router's resolver refuses for a name, given the session's own networks. (The router has
    /// no IPv6, so it only asks for A records.)
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Policy;
    use super::*;

    fn nets(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn special_addresses_are_known_in_every_wrapping() {
        for text in [
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.100.100.200",
            "127.0.0.1",
            "169.254.169.254",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.168.0.1",
            "198.18.0.1",
            "198.19.255.255",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "2001:db8::1",
            "2002:a00:1::",
            "64:ff9b:1::1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::10.0.0.1",
            "64:ff9b::7f00:1",
        ] {
            assert!(is_special(text.parse().unwrap()), "{text}");
        }
        // a public address behind NAT64 is that address.
        for text in [
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.0.1",
            "172.32.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "2606:4700::1",
            "64:ff9b::8.8.8.8",
            "::ffff:8.8.8.8",
        ] {
            assert!(!is_special(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn what_may_never_be_reached_stays_shut_whatever_is_opened() {
        let policy = Policy { reachable: nets(&["0.0.0.0/0"]), ..Policy::default() };
        let own = nets(&["10.89.0.0/29", "10.90.0.0/24"]);
        let blocks = |private, address: &str| {
            let address: IpAddr = address.parse().unwrap();
            policy.blocked_addresses(private, &own).iter().any(|net| net.contains(&address))
        };
        for address in [
            "127.0.0.1",
            "0.0.0.0",
            "169.254.1.1",
            "169.254.1.2",
            "224.0.0.1",
            "255.255.255.255",
            "10.89.0.2",
            "10.90.0.1",
        ] {
            assert!(blocks(false, address) && blocks(true, address), "{address}");
        }
        assert!(blocks(false, "169.254.169.254"), "link-local is never a reachable range");
        assert!(!blocks(false, "10.20.0.1") && !blocks(false, "8.8.8.8") && !blocks(true, "192.168.1.1"));
    }

    #[test]
    fn a_reachable_range_opens_itself_alone() {
        let policy = Policy { reachable: nets(&["10.20.0.0/16"]), ..Policy::default() };
        let blocked = policy.blocked_addresses(false, &[]);
        let blocks = |address: &str| blocked.iter().any(|net| net.contains(&address.parse::<IpAddr>().unwrap()));
        assert!(!blocks("10.20.0.0") && !blocks("10.20.255.255"));
        assert!(blocks("10.19.255.255") && blocks("10.21.0.0") && blocks("192.168.0.1"));
        assert!(blocked.iter().all(|net| matches!(net, IpNet::V4(_))));
    }

    #[test]
    fn the_guard_sees_through_wrappings_and_keeps_private_apart() {
        let guard = Policy::default().guard(&nets(&["10.89.0.0/29"]));
        let refuses = |address: &str, private| guard.refuses(address.parse().unwrap(), private);
        for address in ["10.20.0.1", "::ffff:10.20.0.1", "64:ff9b::10.20.0.1", "168.63.129.16", "166.9.14.3"] {
            assert!(refuses(address, false) && !refuses(address, true), "{address}");
        }
        for address in ["10.89.0.2", "::ffff:127.0.0.1", "2606:4700::1", "::1"] {
            assert!(refuses(address, false) && refuses(address, true), "{address}");
        }
        assert!(!refuses("168.63.129.15", false) && !refuses("166.12.0.1", false));
        assert!(!refuses("8.8.8.8", false) && !refuses("64:ff9b::8.8.8.8", false));
    }

    fn any_net() -> impl Strategy<Value = IpNet> {
        // Few distinct high bits, so that blocks overlap often.
        let four = (0_u32..4, any::<u32>(), 0_u8..=32).prop_map(|(high, low, prefix)| {
            IpNet::V4(Ipv4Net::new((high << 30 | low >> 2).into(), prefix).unwrap().trunc())
        });
        let six = (0_u128..4, any::<u128>(), 0_u8..=128).prop_map(|(high, low, prefix)| {
            IpNet::V6(Ipv6Net::new((high << 126 | low >> 2).into(), prefix).unwrap().trunc())
        });
        prop_oneof![3 => four, 1 => six]
    }

    proptest! {
        #[test]
        fn subtracting_leaves_what_is_in_no_hole(
            from in proptest::collection::vec(any_net(), 0..5),
            holes in proptest::collection::vec(any_net(), 0..5),
            random in proptest::collection::vec(any::<u32>(), 8),
        ) {
            let left = subtract(&from, &holes);
            let edges = from.iter().chain(&holes).flat_map(|net| [net.network(), net.broadcast()]);
            let addresses = edges.chain(random.into_iter().map(|bits| IpAddr::V4(bits.into())));
            for address in addresses {
                let within = |nets: &[IpNet]| nets.iter().any(|net| net.contains(&address));
                prop_assert_eq!(within(&left), within(&from) && !within(&holes), "{}", address);
            }
            for (index, one) in left.iter().enumerate() {
                let others = left.iter().skip(index + 1);
                prop_assert!(others.clone().all(|other| !one.contains(other) && !other.contains(one)));
            }
        }

        #[test]
        fn wrapping_changes_nothing(bits in any::<u32>()) {
            let four = Ipv4Addr::from(bits);
            let special = is_special(four.into());
            prop_assert_eq!(is_special(four.to_ipv6_mapped().into()), special);
            let nat64 = Ipv6Addr::from(0x64_ff9b_u128 << 96 | u128::from(bits));
            prop_assert_eq!(is_special(nat64.into()), special);
            prop_assert_eq!(unwrap_address(nat64.into()), IpAddr::V4(four));
        }
    }
}
