//! mitmproxy in the router's place, with the same rewriting of one header and, in its favour, without forwarder, log,
//! rules, or a look at the host's certificate.

use std::fs;
use std::net::TcpStream;
use std::process::{Command, Stdio};

use crate::load::Target;
use crate::mint::{surrogate, value};
use crate::policy::{self, CREDENTIAL, MASKED};
use crate::upstream::Ended;
use crate::world::World;

const PORT: u16 = 8443;

/// A running mitmproxy.
pub struct Rival<'w> {
    world: &'w World,
    process: Ended,
}

impl<'w> Rival<'w> {
    /// Starts it on the router's address. `None` without `SANDBOXC_MITMDUMP`.
    pub fn start(world: &'w World) -> Option<Self> {
        let program = std::env::var_os("SANDBOXC_MITMDUMP").filter(|program| !program.is_empty())?;
        let addon = world.path("bench/rewrite.py");
        let script = format!(
            "def request(flow):\n    if flow.request.headers.get(\"authorization\") == \"Bearer {}\":\n        \
             flow.request.headers[\"authorization\"] = \"Bearer {}\"\n",
            surrogate(CREDENTIAL),
            value(CREDENTIAL)
        );
        fs::write(&addon, script).unwrap();
        let child = world.as_router(|| {
            Command::new(program)
                .args(["--quiet", "--listen-host", &world.net.router_address.to_string()])
                .args(["--listen-port", &PORT.to_string()])
                .args(["--mode", &format!("reverse:https://{}:443", policy::address(MASKED))])
                .args(["--ssl-insecure", "--set", "keep_host_header=true", "--scripts"])
                .arg(addon)
                .arg("--set")
                .arg(format!("confdir={}", world.path("bench/mitmproxy").display()))
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .spawn()
                .expect("mitmdump")
        });
        let rival = Self { world, process: Ended(child) };
        let mut tries = 0;
        while !world.as_router(|| TcpStream::connect((world.net.router_address, PORT)).is_ok()) {
            tries += 1;
            assert!(tries < 300, "mitmproxy does not listen");
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        Some(rival)
    }

    /// A load with the surrogate, by way of it.
    pub fn target(&self) -> Target {
        Target::beside(self.world, MASKED, PORT).authorized()
    }

    /// Its process.
    pub fn processes(&self) -> [u32; 1] {
        [self.process.0.id()]
    }
}
