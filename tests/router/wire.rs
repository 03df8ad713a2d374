//! A client that writes raw bytes.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use super::world::World;

/// How long a test waits for bytes that should come.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// One TCP connection of the agent.
pub struct Wire(pub TcpStream);

impl Wire {
    /// Connects from the agent's network namespace straight to the router, past the forwarder.
    pub fn to_router(world: &World, port: u16) -> Self {
        Self::to(world, world.net.router_address.into(), port).expect("the router listens")
    }

    /// Connects to any address, as the agent.
    pub fn to(world: &World, address: IpAddr, port: u16) -> std::io::Result<Self> {
        let target = SocketAddr::new(address, port);
        let stream = world.as_agent(|| TcpStream::connect_timeout(&target, Duration::from_secs(3)))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self(stream))
    }

    /// Writes; a peer that has closed already is for the reader to see.
    pub fn send(&mut self, bytes: &[u8]) -> &mut Self {
        let _ = self.0.write_all(bytes);
        self
    }

    /// Ends our side.
    pub fn end(&mut self) -> &mut Self {
        let _ = self.0.shutdown(Shutdown::Write);
        self
    }

    /// Everything until the other side ends; a reset is an end. `None` if it does not end in time.
    pub fn rest(&mut self) -> Option<Vec<u8>> {
        let mut all = Vec::new();
        let mut buffer = vec![0; 65536];
        loop {
            match self.0.read(&mut buffer) {
                Ok(0) => return Some(all),
                Ok(n) => all.extend(&buffer[..n]),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return None,
                Err(_) => return Some(all),
            }
        }
    }

    /// Reads until a text has come, and returns everything up to then.
    pub fn until(&mut self, text: &str) -> String {
        let mut all = Vec::new();
        let mut buffer = vec![0; 65536];
        while !all.windows(text.len()).any(|window| window == text.as_bytes()) {
            match self.0.read(&mut buffer) {
                Ok(n) if n > 0 => all.extend(&buffer[..n]),
                other => panic!("{other:?} before {text:?}: {}", String::from_utf8_lossy(&all)),
            }
        }
        String::from_utf8_lossy(&all).into_owned()
    }
}

/// Sends bytes to a port of the router, ends, and returns what comes back.
pub fn exchange(world: &World, port: u16, bytes: &[u8]) -> Vec<u8> {
    Wire::to_router(world, port).send(bytes).end().rest().expect("the router ends the connection")
}

/// An HTTP request to the router and its answer as text.
pub fn http(world: &World, request: &[u8]) -> String {
    String::from_utf8_lossy(&exchange(world, 80, request)).into_owned()
}

/// `GET path` with one Host header.
pub fn get(host: &str, path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").into_bytes()
}

/// The status codes of the answers on one connection.
pub fn statuses(answers: &str) -> Vec<&str> {
    let codes = answers.split("HTTP/1.1 ").skip(1).filter_map(|answer| answer.get(..3));
    codes.filter(|code| code.parse::<u16>().is_ok()).collect()
}

/// The JSON body of an answer.
pub fn json(answer: &str) -> serde_json::Value {
    let body = answer.split_once("\r\n\r\n").map_or(answer, |(_, body)| body);
    serde_json::from_str(body).unwrap_or_else(|e| panic!("{e}: {answer:?}"))
}

/// What a name server said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// 0 is NOERROR, 3 is NXDOMAIN.
    pub code: u8,
    /// Addresses of the A records.
    pub addresses: Vec<Ipv4Addr>,
    /// How many records of any kind.
    pub records: u16,
    /// The question as it came back.
    pub question: Vec<u8>,
}

/// A query in wire form.
pub fn query(name: &[u8], kind: u16) -> Vec<u8> {
    let mut message = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split(|b| *b == b'.').filter(|label| !label.is_empty()) {
        message.push(u8::try_from(label.len()).expect("a label"));
        message.extend(label);
    }
    message.push(0);
    message.extend(kind.to_be_bytes());
    message.extend([0, 1]);
    message
}

/// Reads an answer to `query`.
pub fn read_answer(query: &[u8], answer: &[u8]) -> Answer {
    assert_eq!(answer[..2], query[..2], "another query's answer");
    let records = u16::from_be_bytes([answer[6], answer[7]]);
    let mut addresses = Vec::new();
    let mut at = query.len();
    for _ in 0..records {
        let kind = u16::from_be_bytes([answer[at + 2], answer[at + 3]]);
        let length = usize::from(u16::from_be_bytes([answer[at + 10], answer[at + 11]]));
        if let (1, [a, b, c, d]) = (kind, &answer[at + 12..at + 12 + length]) {
            addresses.push(Ipv4Addr::new(*a, *b, *c, *d));
        }
        at += 12 + length;
    }
    Answer { code: answer[3] & 15, addresses, records, question: answer[12..query.len()].to_vec() }
}

/// A socket of the agent for queries.
pub fn dns_socket(world: &World) -> UdpSocket {
    let socket = world.as_agent(|| UdpSocket::bind("0.0.0.0:0")).expect("a socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    socket.connect((world.net.router_address, 53)).expect("a route");
    socket
}

/// Asks the router's name server over UDP.
pub fn dns(world: &World, name: impl AsRef<[u8]>, kind: u16) -> Answer {
    let (socket, query) = (dns_socket(world), query(name.as_ref(), kind));
    let mut buffer = [0; 4096];
    socket.send(&query).expect("sent");
    let length = socket.recv(&mut buffer).expect("an answer");
    read_answer(&query, &buffer[..length])
}
