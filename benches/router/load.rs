//! Load: wrk with kept-alive connections, from the agent's side of the router or from the host's.

use std::fs;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

use crate::mint::surrogate;
use crate::policy::{self, CREDENTIAL};
use crate::world::World;

const SECONDS: u32 = 3;

/// How many connections a load has, unless it says otherwise.
pub const USUAL: usize = 32;

/// Where a load goes to, and how.
#[derive(Clone)]
pub struct Target {
    name: &'static str,
    address: Ipv4Addr,
    port: u16,
    authorized: bool,
    from_agent: bool,
}

/// What it brought.
pub struct Load {
    /// Requests per second.
    pub rate: f64,
    /// Those whose answer did not come, or not in time.
    pub errors: u64,
    /// Milliseconds within which half of the answers came, and 99 of 100.
    pub latency: [f64; 2],
}

impl Target {
    /// Straight to the host, from its own namespace.
    pub fn direct(name: &'static str) -> Self {
        Self { name, address: policy::address(name), port: 443, authorized: false, from_agent: false }
    }

    /// From the agent through forwarder and router.
    pub fn routed(world: &World, name: &'static str) -> Self {
        Self { name, address: world.net.web_loopback, port: 443, authorized: false, from_agent: true }
    }

    /// From the agent to another port of the router's address.
    pub fn beside(world: &World, name: &'static str, port: u16) -> Self {
        Self { port, address: world.net.router_address, ..Self::routed(world, name) }
    }

    /// The same with the surrogate in each request.
    pub fn authorized(self) -> Self {
        Self { authorized: true, ..self }
    }

    /// Loads it for a few seconds.
    pub fn measure(&self, world: &World, path: &str) -> Load {
        self.measure_with(world, path, USUAL)
    }

    /// The same over so many connections.
    pub fn measure_with(&self, world: &World, path: &str, connections: usize) -> Load {
        match self.from_agent {
            true => world.as_agent(|| self.wrk(world, path, connections)),
            false => world.as_router(|| self.wrk(world, path, connections)),
        }
    }

    fn wrk(&self, world: &World, path: &str, connections: usize) -> Load {
        let hosts = world.path("bench/hosts");
        fs::write(&hosts, format!("{} {}\n", self.address, self.name)).unwrap();
        let mut url = format!("https://{}", self.name);
        if self.port != 443 {
            url += &format!(":{}", self.port);
        }
        let mut wrk = Command::new("unshare");
        wrk.args(["--mount", "sh", "-c", r#"ulimit -n 8192; mount --bind "$0" /etc/hosts && exec wrk "$@""#])
            .arg(hosts);
        wrk.args(["-t1", &format!("-c{connections}"), &format!("-d{SECONDS}s"), "--latency", &(url + path)]);
        if self.authorized {
            wrk.args(["-H", &format!("Authorization: Bearer {}", surrogate(CREDENTIAL))]);
        }
        let output = wrk.stdin(Stdio::null()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let after = |label: &str| text.lines().find_map(|line| line.trim().strip_prefix(label)).map(str::trim);
        assert!(after("Non-2xx").is_none(), "{}: not every answer was good: {text}", self.name);
        let rate = after("Requests/sec:").and_then(|rate| rate.parse().ok());
        let errors = after("Socket errors:").map_or(0, |list| {
            list.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse::<u64>().ok()).sum()
        });
        let latency = ["50%", "99%"].map(|share| after(share).map_or(f64::NAN, milliseconds));
        let rate = rate.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)));
        Load { rate, errors, latency }
    }
}

/// A time as wrk writes it: `87.00us`, `1.25ms`, `2.10s`.
fn milliseconds(text: &str) -> f64 {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len()));
    let scale = match unit {
        "us" => 1e-3,
        "ms" => 1.0,
        _ => 1e3,
    };
    number.parse::<f64>().map_or(f64::NAN, |number| number * scale)
}
