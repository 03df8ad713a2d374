//! The hosts behind the router: one nginx, which counts its connections.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command};
use std::time::Duration;

use crate::mint::{surrogate, value};
use crate::policy::{self, CREDENTIAL, INSPECTED, MASKED, PASSED};
use crate::secure::https;
use crate::world::World;

/// A process that ends with its owner.
pub struct Ended(pub Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The running hosts.
pub struct Upstream<'w> {
    /// Whose namespaces they are in.
    pub world: &'w World,
    _nginx: Ended,
}

/// What nginx has seen since its start.
pub struct Counts {
    connections: f64,
    requests: f64,
}

impl Counts {
    /// Connections since then; each look at the counts is one too.
    pub fn connections_since(&self, before: &Self) -> f64 {
        self.connections - before.connections - 1.0
    }

    /// Requests since then.
    pub fn requests_since(&self, before: &Self) -> f64 {
        self.requests - before.requests - 1.0
    }
}

impl<'w> Upstream<'w> {
    /// Starts the hosts, on addresses of the router's namespace.
    pub fn start(world: &'w World) -> Self {
        let work = world.path("bench");
        fs::create_dir_all(&work).unwrap();
        fs::write(work.join("1k"), vec![b'x'; 1024]).unwrap();
        fs::write(work.join("1m"), vec![b'x'; 1024 * 1024]).unwrap();
        let (dir, certificate) = (work.display(), world.path("internet/good.pem"));
        let hosts = [PASSED, INSPECTED, MASKED].map(|name| {
            let masked = name == MASKED;
            let refusal = match masked {
                true => format!("if ($http_authorization != \"Bearer {}\") {{ return 401; }}", value(CREDENTIAL)),
                false => String::new(),
            };
            format!(
                "server {{ listen {address}:443 ssl; location / {{ {refusal} }}\n\
                 location = /echo {{ return 200 \"<$http_authorization>\"; }} }}\n",
                address = policy::address(name)
            )
        });
        // One process, so that killing it leaves nothing.
        let conf = format!(
            "daemon off; master_process off; worker_rlimit_nofile 16384; pid {dir}/pid; error_log stderr error; user root;\n\
             events {{ worker_connections 8192; }}\n\
             http {{ access_log off; keepalive_requests 1000000; client_body_temp_path {dir}/b;\n\
             proxy_temp_path {dir}/p; fastcgi_temp_path {dir}/f; uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;\n\
             root {dir}; ssl_certificate {certificate}; ssl_certificate_key {certificate};\n\
             {hosts} server {{ listen {counter}:8080; location / {{ stub_status; }} }} }}\n",
            certificate = certificate.display(),
            hosts = hosts.concat(),
            counter = policy::address(PASSED),
        );
        fs::write(work.join("nginx.conf"), conf).unwrap();
        let nginx = world.as_router(|| {
            for name in [PASSED, INSPECTED, MASKED] {
                add_address(name);
            }
            Command::new("nginx").args(["-e", "stderr", "-c"]).arg(work.join("nginx.conf")).spawn().expect("nginx")
        });
        let upstream = Self { world, _nginx: Ended(nginx) };
        world.wait("the bench's hosts", || {
            world.as_router(|| TcpStream::connect((policy::address(PASSED), 8080)).is_ok())
        });
        upstream
    }

    /// Each way does what it is called, or the figures would be of something else.
    pub fn probe(&self) {
        let ask = |name: &str, headers: &str| {
            https(self.world, name, format!("GET /echo HTTP/1.1\r\nHost: {name}\r\n{headers}Connection: close\r\n\r\n"))
        };
        let header = format!("Authorization: Bearer {}\r\n", surrogate(CREDENTIAL));
        for (answer, expected) in
            [(ask(INSPECTED, ""), String::new()), (ask(MASKED, &header), format!("Bearer {}", surrogate(CREDENTIAL)))]
        {
            assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains(&format!("<{expected}>")), "{answer}");
        }
    }

    /// Connections and requests so far.
    pub fn counts(&self) -> Counts {
        let mut text = String::new();
        let mut stream = self.world.as_router(|| TcpStream::connect((policy::address(PASSED), 8080))).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        stream.read_to_string(&mut text).unwrap();
        // Below its heading: accepted, handled, requests.
        let line = text.lines().skip_while(|line| !line.contains("accepts handled")).nth(1).unwrap_or_default();
        let numbers: Vec<f64> = line.split_whitespace().map(|number| number.parse().unwrap()).collect();
        Counts { connections: numbers[0], requests: numbers[2] }
    }
}

/// Gives the caller's network namespace the address of a host.
pub fn add_address(name: &str) {
    let address = format!("{}/32", policy::address(name));
    let output = Command::new("ip").args(["address", "add", &address, "dev", "lo"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
