//! A TLS client that writes raw bytes, for tests of decrypted connections.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::wire::Wire;
use super::world::World;

/// One TLS connection of the agent, which trusts the session's authority alone.
pub struct Secure {
    stream: StreamOwned<ClientConnection, TcpStream>,
}

impl Secure {
    /// Connects to the router with a name in the handshake, for HTTP/1.1.
    pub fn to(world: &World, name: &str) -> Self {
        Self::try_to(world, name, &[]).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// The same with protocols to choose from; the handshake may fail.
    pub fn try_to(world: &World, name: &str, protocols: &[&str]) -> std::io::Result<Self> {
        let mut roots = RootCertStore::empty();
        let pem = world.file("session.pem");
        roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate")).expect("a root");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let mut config = versions.expect("versions").with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let server = ServerName::try_from(name.to_owned()).expect("a name");
        let client = ClientConnection::new(Arc::new(config), server).expect("a client");
        let mut stream = StreamOwned::new(client, Wire::to_router(world, 443).0);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(Self { stream })
    }

    /// The protocol that both sides chose.
    pub fn protocol(&self) -> String {
        String::from_utf8_lossy(self.stream.conn.alpn_protocol().unwrap_or_default()).into_owned()
    }

    /// Writes; a peer that has closed already is for the reader to see.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        let _ = self.stream.write_all(bytes.as_ref()).and_then(|()| self.stream.flush());
        self
    }

    /// Writes; false if the peer has closed.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).and_then(|()| self.stream.flush()).is_ok()
    }

    /// Ends our side.
    pub fn end(&mut self) -> &mut Self {
        self.stream.conn.send_close_notify();
        let _ = self.stream.flush();
        let _ = self.stream.sock.shutdown(std::net::Shutdown::Write);
        self
    }

    /// What comes next; empty at the end.
    pub fn next(&mut self) -> Vec<u8> {
        let mut buffer = vec![0; 65536];
        match self.stream.read(&mut buffer) {
            Ok(n) => buffer[..n].to_vec(),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => panic!("nothing comes"),
            Err(_) => Vec::new(),
        }
    }

    /// Everything until the other side ends.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        loop {
            match self.next() {
                bytes if bytes.is_empty() => return all,
                bytes => all.extend(bytes),
            }
        }
    }

    /// Reads until a text has come, and returns everything up to then.
    pub fn until(&mut self, text: &str) -> String {
        let mut all = Vec::new();
        while !all.windows(text.len()).any(|window| window == text.as_bytes()) {
            let bytes = self.next();
            assert!(!bytes.is_empty(), "the end before {text:?}: {}", String::from_utf8_lossy(&all));
            all.extend(bytes);
        }
        String::from_utf8_lossy(&all).into_owned()
    }

    /// One answer with a `Content-Length`, whole.
    pub fn answer(&mut self) -> String {
        self.answer_to("GET")
    }

    /// The same to a method; HEAD has no body.
    pub fn answer_to(&mut self, method: &str) -> String {
        let mut all = self.until("\r\n\r\n");
        if method == "HEAD" {
            return all;
        }
        let (head, body) = all.split_once("\r\n\r\n").expect("a head");
        let lower = head.to_lowercase();
        let length = lower.split_once("content-length: ").map_or("0", |(_, rest)| rest.lines().next().unwrap_or("0"));
        let mut missing = length.parse::<usize>().expect("a length").saturating_sub(body.len());
        while missing > 0 {
            let bytes = self.next();
            assert!(!bytes.is_empty(), "the end within a body: {all}");
            missing = missing.saturating_sub(bytes.len());
            all.push_str(&String::from_utf8_lossy(&bytes));
        }
        all
    }
}

/// A request on a connection of its own, and everything that comes back.
pub fn https(world: &World, name: &str, request: impl AsRef<[u8]>) -> String {
    String::from_utf8_lossy(&Secure::to(world, name).send(request).rest()).into_owned()
}
