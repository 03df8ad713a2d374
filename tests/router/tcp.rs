//! Named ports: each leads to one host and port, and nothing else listens.

use super::shared;
use super::wire::Wire;

#[test]
fn a_named_port_leads_to_its_own_host_and_port() {
    let world = shared();
    for (host, port, address) in [
        ("db.example.com", 5432, "203.0.113.10"),
        ("db.example.com", 5433, "203.0.113.10"),
        ("203.0.113.22", 22, "203.0.113.22"),
    ] {
        let route = world.net.tcp.iter().find(|route| route.host == host && route.port == port).unwrap();
        // Through the forwarder, on the loopback address that the name resolves to.
        let mut wire = Wire::to(world, route.loopback.into(), port).unwrap();
        assert_eq!(wire.until("\n"), format!("here is {address}:{port}\n"));
        let answer = wire.send(b"hello").end().rest().unwrap();
        assert_eq!(answer, b"helloend after 5\n", "{host}:{port}");
    }
    world.wait("its log line", || {
        let mine = |d: &serde_json::Value| d["tier"] == "tcp" && d["host"] == "203.0.113.22";
        world
            .decisions()
            .iter()
            .any(|d| mine(d) && d["port"] == 22 && d["rule"] == "repo.allow[5]" && d["verdict"] == "allow")
    });
}

//
#[test]
fn nothing_else_listens_for_the_agent() {
    let world = shared();
    let routes: Vec<u16> = world.net.tcp.iter().map(|route| route.router_port).collect();
    for port in [22, 25, 8080, 5432, 5353, 8443, 20000 - 1, 20000 + 100] {
        assert!(!routes.contains(&port));
        assert!(Wire::to(world, world.net.router_address.into(), port).is_err(), "{port}");
    }
    for address in ["203.0.113.10", "10.55.0.1", "169.254.169.254"] {
        assert!(Wire::to(world, address.parse().unwrap(), 80).is_err(), "{address}");
    }
    // A port that one host names is open on that host's loopback address alone.
    assert!(Wire::to(world, world.net.web_loopback.into(), 5432).is_err());
}

//
#[test]
fn the_router_listens_on_the_sessions_network_alone() {
    let world = shared();
    let egress = world.net.egress.hosts().nth(5).unwrap();
    let ports = [53, 80, 443].into_iter().chain(world.net.tcp.iter().map(|route| route.router_port));
    for port in ports {
        let reached = world.as_router(|| std::net::TcpStream::connect((egress, port)).is_ok());
        assert!(!reached, "{port} answers on the egress network");
    }
    // Nor does it serve anyone but the agent there.
    let stranger = world.as_router(|| {
        use std::io::{Read as _, Write as _};
        let mut stream = std::net::TcpStream::connect((world.net.router_address, 443)).unwrap();
        stream.set_read_timeout(Some(super::wire::PATIENCE)).unwrap();
        let _ = stream.write_all(&super::hello::hello("stranger.suffix.example.com"));
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer
    });
    assert!(stranger.is_empty(), "{stranger:?}");
}
