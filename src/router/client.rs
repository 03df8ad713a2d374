//! The client's side of a request: its connection, its body, and where the response goes.

use std::io;

use super::http1::BodyError;
use super::message::{Answer, Piece, Request};
use super::refusal::Refusal;
use super::upstream::{Host, Target};
use crate::policy::{HostName, Reason, Tier};

/// The connection of a request.
#[derive(Clone, Debug)]
pub(super) struct ClientConnection {
    pub(super) tier: Tier,
    pub(super) port: u16,
    /// The name in the handshake, which every request must match.
    pub(super) name: Option<HostName>,
    /// Whether it is HTTP/2, which gRPC uses.
    pub(super) two: bool,
}

/// The client's side of a request, for reading.
pub(super) trait Up {
    /// The next piece of its body.
    async fn piece(&mut self) -> Result<Option<Piece>, BodyError>;
}

/// The client's side of a request, for writing.
pub(super) trait Down {
    /// Invites the body.
    async fn invite(&mut self) -> io::Result<()>;
    /// An interim response.
    async fn interim(&mut self, answer: &Answer) -> io::Result<()>;
    /// The head of the response; it may wait for the first piece.
    async fn head(&mut self, answer: &Answer) -> io::Result<()>;
    /// The next piece of the body.
    async fn piece(&mut self, piece: Piece) -> io::Result<()>;
    /// Nothing follows for now.
    async fn flush(&mut self) -> io::Result<()>;
    /// The end of the body.
    async fn finish(&mut self) -> io::Result<()>;
}

/// The host of a request, from its connection and its head.
pub(super) fn who(place: &ClientConnection, request: &Request) -> Result<Host, Refusal> {
    let host = request.host.as_deref().and_then(|said| read_host(said, place.port));
    match (&place.name, host) {
        (Some(name), Some(Host::Name(host))) if host == *name => Ok(Host::Name(host)),
        (Some(_), _) => Err(Refusal::new(Reason::Misdirected)),
        (None, Some(host)) => Ok(host),
        (None, None) => Err(Refusal::new(Reason::BadHost)),
    }
}

/// A `Host` in normal form. A port must be the connection's, written in the usual way.
pub(super) fn read_host(said: &[u8], port: u16) -> Option<Host> {
    let said = std::str::from_utf8(said).ok()?;
    let host = match said.rsplit_once(':') {
        Some((host, digits)) => (digits == port.to_string()).then_some(host)?,
        None => said,
    };
    match host.parse() {
        Ok(address) => Some(Host::Address(address)),
        Err(_) => HostName::from_wire(host).map(Host::Name),
    }
}

/// The target of a host, for the pool.
pub(super) fn target(place: &ClientConnection, host: Host, private: bool, credentials: Vec<String>) -> Target {
    Target { host, port: place.port, private, tls: place.port == 443, credentials }
}
