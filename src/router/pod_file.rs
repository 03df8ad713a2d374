//! The file for gate and forwarder: the agent pod's addresses, and which of its ports lead to which of the router's.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

use super::PolicyFile;
use super::policy_file::FORMAT;

/// The settings of gate and forwarder; `policy.json` is only for the router.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PodFile {
    /// [`FORMAT`].
    pub format: u32,
    /// The hash of the plan that it belongs to, which the router must also report.
    pub plan: String,
    /// The network of pod and router, without a route out.
    pub internal: Ipv4Net,
    /// The pod's only permitted address in it.
    pub agent: Ipv4Addr,
    /// The router's address.
    pub router: Ipv4Addr,
    /// Whether processes in the pod may create user namespaces. Not, if it is missing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub user_namespaces: bool,
    /// Whether they may create network namespaces. Not, if it is missing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub net_namespaces: bool,
    /// Whether limits of the agent rest on the `nsdelegate` of the host's cgroup file system (cgroups(7)).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub needs_nsdelegate: bool,
    /// The loopback address for every name without a named port.
    pub web_loopback: Ipv4Addr,
    /// Named ports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tcp: Vec<PodPort>,
}

/// A named port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PodPort {
    /// The loopback address of its host.
    pub loopback: Ipv4Addr,
    /// The port there.
    pub port: u16,
    /// The router's port.
    pub router_port: u16,
}

/// Reads `pod.json`.
///
/// # Errors
/// The path, and why it cannot be read.
pub fn open(path: &Path) -> Result<PodFile, String> {
    let text = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    PodFile::read("pod.json", &text)
}

impl PodFile {
    /// Parses a file; `name` is for error messages.
    ///
    /// # Errors
    /// A text with the file's name and what is wrong with it.
    pub fn read(name: &str, json: &[u8]) -> Result<Self, String> {
        let file: Self = serde_json::from_slice(json).map_err(|error| format!("{name}: {error}"))?;
        if file.format != FORMAT {
            return Err(format!("{name} has format {}, and this program reads format {FORMAT}", file.format));
        }
        Ok(file)
    }

    /// Where the forwarder listens, each with the router's port that it leads to.
    pub fn listeners(&self) -> Listeners {
        listeners(self.web_loopback, self.tcp.iter().copied())
    }
}

impl PolicyFile {
    /// The listeners in the agent's pod that the router takes over from a forwarder.
    pub fn pod_listeners(&self) -> Listeners {
        let ports = self.tcp.iter().map(|route| PodPort {
            loopback: route.loopback,
            port: route.port,
            router_port: route.router_port,
        });
        listeners(self.listen.web_loopback, ports)
    }
}

/// Addresses in the agent's pod, and the router's port that each leads to.
pub type Listeners = BTreeMap<SocketAddrV4, u16>;

/// Web ports on every loopback address, and named ports, which replace a web port on their own address.
fn listeners(web: Ipv4Addr, named: impl Iterator<Item = PodPort>) -> Listeners {
    let mut all = Listeners::new();
    let named: Vec<PodPort> = named.collect();
    for address in named.iter().map(|port| port.loopback).chain([web]) {
        all.extend([80, 443].map(|port| (SocketAddrV4::new(address, port), port)));
    }
    all.extend(named.iter().map(|one| (SocketAddrV4::new(one.loopback, one.port), one.router_port)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn web_ports_are_everywhere_but_where_a_named_port_takes_their_place() {
        let port = |last, port, router_port| PodPort { loopback: [127, 0, 1, last].into(), port, router_port };
        let all = listeners([127, 0, 1, 1].into(), [port(2, 5432, 20_000), port(3, 443, 20_001)].into_iter());
        let texts: Vec<String> = all.iter().map(|(at, to)| format!("{at} {to}")).collect();
        assert_eq!(
            texts,
            [
                "127.0.1.1:80 80",
                "127.0.1.1:443 443",
                "127.0.1.2:80 80",
                "127.0.1.2:443 443",
                "127.0.1.2:5432 20000",
                "127.0.1.3:80 80",
                "127.0.1.3:443 20001",
            ]
        );
    }

    #[test]
    fn a_file_of_another_format_or_with_more_in_it_is_refused() {
        let text = |more: &str| {
            format!(
                r#"{{"format":2,"plan":"p","internal":"10.0.0.0/29","agent":"10.0.0.3","router":"10.0.0.2",
                    "user_namespaces":true,"web_loopback":"127.0.1.1"{more}}}"#
            )
        };
        assert!(PodFile::read("pod.json", text("").as_bytes()).is_ok());
        assert!(PodFile::read("pod.json", text(r#","else":1"#).as_bytes()).is_err());
        let other = text("").replace("\"format\":2", "\"format\":1");
        assert!(PodFile::read("pod.json", other.as_bytes()).unwrap_err().contains("format 1"));
    }
}
