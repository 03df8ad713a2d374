//! Throughput of the passthrough tier against a direct connection, in one run, in network namespaces of its own.
//!
//! Needs root, the test host's root file system, and wrk and nginx on this machine; `make bench` sees to all of them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a bench fails by panicking")]

#[allow(dead_code, reason = "shared with the tests")]
#[path = "../tests/it/fixture.rs"]
mod fixture;
#[path = "../tests/it/router/mint.rs"]
mod mint;
#[allow(dead_code, reason = "shared with the tests")]
#[path = "../tests/it/router/world.rs"]
mod world;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use sandboxc::policy::Policy;

use world::World;

/// The bench's own upstream; the name says the address to the test internet's name server.
const NAME: &str = "ip-203-0-113-99.example.com";
const ADDRESS: &str = "203.0.113.99";

const ROUNDS: usize = 3;

fn main() {
    let policy = Policy {
        allow: fixture::rules("repo.allow", &[NAME]),
        reachable: vec!["203.0.113.0/24".parse().unwrap()],
        ..Policy::default()
    };
    let world = World::start(policy).expect("SANDBOXC_NO_ROUTER leaves no router to measure");
    let work = tempfile::tempdir().unwrap();
    let mut upstream = world.as_router(|| upstream(work.path()));
    let loopback = world.net.web_loopback.to_string();
    for (path, unit) in [("/1k", "1 KiB, requests/s"), ("/1m", "1 MiB, requests/s")] {
        let mut ratios = Vec::new();
        for _ in 0..ROUNDS {
            let direct = world.as_router(|| requests_per_second(work.path(), ADDRESS, path));
            let passed = world.as_agent(|| requests_per_second(work.path(), &loopback, path));
            println!("{:<58} {direct:>7.0} {passed:>8.0}", format!("  direct, through forwarder and router: {unit}"));
            ratios.push(passed / direct);
        }
        ratios.sort_by(f64::total_cmp);
        let target = if path == "/1k" { "target 0.9" } else { "" };
        println!("{:<58} {:>16.2}   {target}", format!("passthrough against direct, {unit}"), ratios[ROUNDS / 2]);
    }
    upstream.kill().unwrap();
    upstream.wait().unwrap();
}

/// A TLS server of nginx's on an address of the router's namespace.
fn upstream(work: &Path) -> Child {
    run(Command::new("ip").args(["address", "add", &format!("{ADDRESS}/32"), "dev", "lo"]));
    let (key, cert) = (work.join("key.pem"), work.join("cert.pem"));
    run(Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"])
        .args(["-subj", &format!("/CN={NAME}"), "-keyout"])
        .arg(&key)
        .arg("-out")
        .arg(&cert));
    fs::write(work.join("1k"), vec![b'x'; 1024]).unwrap();
    fs::write(work.join("1m"), vec![b'x'; 1024 * 1024]).unwrap();
    let dir = work.display();
    let conf = format!(
        "daemon off; worker_processes 1; pid {dir}/pid; error_log stderr error; user root;\n\
         events {{ worker_connections 1024; }}\n\
         http {{ access_log off; keepalive_requests 1000000; client_body_temp_path {dir}/b; proxy_temp_path {dir}/p;\n\
         fastcgi_temp_path {dir}/f; uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;\n\
         server {{ listen {ADDRESS}:443 ssl; ssl_certificate {cert}; ssl_certificate_key {key}; root {dir}; }} }}\n",
        cert = cert.display(),
        key = key.display(),
    );
    fs::write(work.join("nginx.conf"), conf).unwrap();
    let child = Command::new("nginx").args(["-e", "stderr", "-c"]).arg(work.join("nginx.conf")).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    child
}

/// wrk with 32 kept-alive connections for four seconds, in the caller's network namespace.
fn requests_per_second(work: &Path, address: &str, path: &str) -> f64 {
    fs::write(work.join("hosts"), format!("{address} {NAME}\n")).unwrap();
    let script =
        format!("mount --bind {}/hosts /etc/hosts && exec wrk -t1 -c32 -d4s https://{NAME}{path}", work.display());
    let output = Command::new("unshare").args(["--mount", "sh", "-c", &script]).stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let rate = text.lines().find_map(|line| line.trim().strip_prefix("Requests/sec:")).map(str::trim);
    rate.and_then(|rate| rate.parse().ok())
        .unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)))
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
