//! Connections to hosts: dialed by the checked name at the checked address, and only reused for the same host and the
//! same credentials.

mod multi;
mod target;

pub(super) use multi::{Multi, SharedConnections};
pub(super) use target::{Host, Target, Unreached};

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rustls::AlertDescription;
use rustls::pki_types::ServerName;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use super::dns::ResolveError;
use super::http1::{Reader, Writer};
use super::live::Live;
use super::stream::{Handle, Rewind, Stream};
use super::tls::Clients;
use crate::policy::Reason;

/// How long a host may take to accept a connection, and to finish its handshake.
const PATIENCE: Duration = Duration::from_secs(10);

/// How many addresses of a name are tried, one after the other.
const MOST_ADDRESSES: usize = 5;

/// Shorter than most servers keep idle connections, so that a request does not arrive when its connection is closed.
const KEPT: Duration = Duration::from_secs(4);

/// How many connections a thread keeps for one host, and in total.
const KEPT_FOR_ONE: usize = 512;
const KEPT_IN_ALL: usize = 1024;

/// A connection with HTTP/1.1.
#[derive(Debug)]
pub(super) struct Plain {
    pub(super) reader: Reader,
    pub(super) writer: Writer,
    pub(super) address: SocketAddr,
    /// Whether it has served a request before.
    pub(super) reused: bool,
}

pub(super) enum Upstream {
    Plain(Box<Plain>),
    Multi(Multi),
}

/// Which version of HTTP a request asks a host for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// HTTP/1.1, as its client uses; HTTP/2 if the host supports nothing else.
    One,
    /// HTTP/2, as its client uses, or else HTTP/1.1.
    Either,
    /// HTTP/2 only, which gRPC needs.
    Two,
}

/// What is known about a host's versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// It does not choose HTTP/2, or refuses requests with it.
    One,
    /// It chooses HTTP/2.
    Two,
    /// It supports nothing but HTTP/2.
    TwoOnly,
}

struct Kept {
    connection: Plain,
    since: Instant,
}

/// A thread's connections to hosts.
pub(super) struct Dialer {
    tls: Clients,
    kept: RefCell<HashMap<Target, Vec<Kept>>>,
    shared: SharedConnections,
    known: RefCell<HashMap<Host, Known>>,
}

/// Dials a host, at addresses that the guard permits.
pub(super) async fn dial(
    live: &Live,
    host: &Host,
    port: u16,
    private: bool,
) -> Result<(TcpStream, SocketAddr), Unreached> {
    let addresses = addresses(live, host, private).await?;
    let mut tried: Vec<String> = Vec::new();
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in addresses.into_iter().take(MOST_ADDRESSES) {
        let address = SocketAddr::new(IpAddr::V4(address), port);
        tried.push(address.to_string());
        match timeout(PATIENCE, connect(address)).await {
            Ok(Ok(stream)) => return Ok((stream, address)),
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    let reason = Reason::UpstreamFailed;
    Err(Unreached { reason, said: format!("{}: {last}", reason.hint()), tried: tried.join(", ") })
}

async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_keepalive(true)?;
    let stream = socket.connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// The addresses that the guard permits.
async fn addresses(live: &Live, host: &Host, private: bool) -> Result<Vec<Ipv4Addr>, Unreached> {
    let refused = |reason: Reason, said: String| Unreached { reason, said, tried: String::new() };
    match host {
        Host::Address(address) if live.guard.refuses((*address).into(), private) => {
            Err(refused(Reason::AddressRefused, String::new()))
        }
        Host::Address(address) => Ok(vec![*address]),
        Host::Name(name) => match live.resolver.resolve(name, private).await {
            Ok(addresses) => Ok(addresses),
            Err(error) => {
                let reason = match &error {
                    ResolveError::NoSuchName | ResolveError::NoAddress => Reason::NoAddress,
                    ResolveError::Ipv6Only => Reason::Ipv6Only,
                    ResolveError::Failed { .. } | ResolveError::NoAnswer => Reason::ResolverFailed,
                    ResolveError::PrivateAddress { .. } => Reason::AddressRefused,
                };
                Err(refused(reason, format!("{error}; {}", reason.hint())))
            }
        },
    }
}

impl Dialer {
    pub(super) fn new(tls: Clients) -> Self {
        Self { tls, kept: RefCell::default(), shared: SharedConnections::default(), known: RefCell::default() }
    }

    fn known(&self, host: &Host) -> Option<Known> {
        self.known.try_borrow().ok()?.get(host).copied()
    }

    fn learn(&self, host: &Host, what: Known) {
        if let Ok(mut known) = self.known.try_borrow_mut() {
            if known.len() >= KEPT_IN_ALL && !known.contains_key(host) {
                known.clear();
            }
            known.insert(host.clone(), what);
        }
    }

    /// The host has refused a request with HTTP/2 (`HTTP_1_1_REQUIRED`, RFC 9113 7).
    pub(super) fn needs_one(&self, host: &Host) {
        self.learn(host, Known::One);
    }

    /// A connection for a request: one that is already open and may serve it, or a new one.
    pub(super) async fn connect(
        &self,
        live: &Live,
        target: &Target,
        asked: Wish,
        fresh: bool,
    ) -> Result<Upstream, Unreached> {
        loop {
            let wish = match (asked, self.known(&target.host)) {
                _ if !target.tls => Wish::One,
                (Wish::One | Wish::Either, Some(Known::TwoOnly)) => Wish::Two,
                (Wish::Either, Some(Known::One)) => Wish::One,
                (asked, _) => asked,
            };
            if wish == Wish::One {
                if !fresh && let Some(kept) = self.reuse(target) {
                    return Ok(Upstream::Plain(Box::new(kept)));
                }
                return self.open(live, target, wish).await;
            }
            if !fresh && let Some(multi) = self.shared.take(target).await {
                return Ok(Upstream::Multi(multi));
            }
            // Requests that arrive together wait for one new connection, and share what becomes of it.
            match self.shared.opening(target) {
                Some(mut opening) if !fresh => opening.ended().await?,
                _ => {
                    let opening = self.shared.begin(target);
                    let opened = self.open(live, target, wish).await;
                    opening.end(opened.as_ref().map(|_| ()).map_err(Clone::clone));
                    return opened;
                }
            }
        }
    }

    async fn open(&self, live: &Live, target: &Target, wish: Wish) -> Result<Upstream, Unreached> {
        let (tcp, address) = dial(live, &target.host, target.port, target.private).await?;
        let failed = |said: &str| Unreached {
            reason: Reason::UpstreamFailed,
            said: said.to_owned(),
            tried: address.to_string(),
        };
        let stream = if target.tls {
            match (self.handshake(tcp, target, wish, address).await, wish) {
                (Ok(stream), _) => stream,
                (Err(Handshake::Failed(unreached)), _) => return Err(unreached),
                (Err(Handshake::OtherProtocol), Wish::One) => {
                    self.learn(&target.host, Known::TwoOnly);
                    return Box::pin(self.open(live, target, Wish::Two)).await;
                }
                (Err(Handshake::OtherProtocol), Wish::Two) => {
                    return Err(failed("the host does not support HTTP/2, which gRPC needs"));
                }
                (Err(Handshake::OtherProtocol), Wish::Either) => {
                    return Err(failed("the host supports neither HTTP/1.1 nor HTTP/2"));
                }
            }
        } else {
            Stream::Plain(Rewind::new(Bytes::new(), tcp))
        };
        if stream.speaks_two() {
            if self.known(&target.host) != Some(Known::TwoOnly) {
                self.learn(&target.host, Known::Two);
            }
            let opened = timeout(PATIENCE, self.shared.add(stream, target, address)).await;
            return opened
                .ok()
                .flatten()
                .map(Upstream::Multi)
                .ok_or_else(|| failed("the host does not support HTTP/2"));
        }
        if wish == Wish::Either {
            self.learn(&target.host, Known::One);
        }
        let handle = Handle::new(stream);
        let silence = live.file.limits.silence();
        let reader = Reader::new(handle.clone(), BytesMut::new(), silence);
        Ok(Upstream::Plain(Box::new(Plain { reader, writer: Writer::new(handle, silence), address, reused: false })))
    }

    async fn handshake(
        &self,
        tcp: TcpStream,
        target: &Target,
        wish: Wish,
        address: SocketAddr,
    ) -> Result<Stream, Handshake> {
        let failed =
            |reason: Reason, said: String| Handshake::Failed(Unreached { reason, said, tried: address.to_string() });
        let config = match wish {
            Wish::One => &self.tls.one,
            Wish::Either => &self.tls.either,
            Wish::Two => &self.tls.two,
        };
        let name = match &target.host {
            Host::Name(name) => ServerName::try_from(name.to_string()).ok(),
            Host::Address(address) => Some(ServerName::from(IpAddr::V4(*address))),
        };
        let Some(name) = name else { return Err(failed(Reason::UpstreamFailed, String::new())) };
        let shaken =
            timeout(PATIENCE, TlsConnector::from(Arc::clone(config)).connect(name, Rewind::new(Bytes::new(), tcp)))
                .await;
        let error = match shaken {
            Ok(Ok(stream)) => {
                let protocol = stream.get_ref().1.alpn_protocol();
                // A host without ALPN uses HTTP/1.1 (RFC 7301 3.2); rustls refuses one that selects a protocol that was
                // not offered.
                if wish == Wish::Two && protocol != Some(b"h2") {
                    return Err(Handshake::OtherProtocol);
                }
                return Ok(Stream::Upstream(Box::new(stream)));
            }
            Ok(Err(error)) => error,
            Err(_) => return Err(failed(Reason::UpstreamTimeout, String::new())),
        };
        Err(match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(
                rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol)
                | rustls::Error::NoApplicationProtocol,
            ) => Handshake::OtherProtocol,
            Some(rustls::Error::InvalidCertificate(why)) => {
                let hint = Reason::UpstreamUntrusted.hint();
                failed(Reason::UpstreamUntrusted, format!("the host's certificate is not trusted: {why:?}; {hint}"))
            }
            _ => failed(Reason::UpstreamFailed, format!("the TLS handshake failed: {error}")),
        })
    }

    fn reuse(&self, target: &Target) -> Option<Plain> {
        let mut kept = self.kept.try_borrow_mut().ok()?;
        let list = kept.get_mut(target)?;
        let mut found = None;
        while let Some(mut one) = list.pop() {
            if one.since.elapsed() < KEPT && one.connection.reader.is_quiet() {
                one.connection.reused = true;
                found = Some(one.connection);
                break;
            }
        }
        if list.is_empty() {
            kept.remove(target);
        }
        found
    }

    /// Keeps a connection whose response was read completely.
    pub(super) fn keep(&self, target: Target, connection: Plain) {
        let Ok(mut kept) = self.kept.try_borrow_mut() else { return };
        let all: usize = kept.values().map(Vec::len).sum();
        let list = kept.entry(target).or_default();
        if all < KEPT_IN_ALL && list.len() < KEPT_FOR_ONE {
            list.push(Kept { connection, since: Instant::now() });
        }
    }

    /// Closes connections that have been idle for too long.
    pub(super) fn sweep(&self) {
        if let Ok(mut kept) = self.kept.try_borrow_mut() {
            for list in kept.values_mut() {
                list.retain(|one| one.since.elapsed() < KEPT);
            }
            kept.retain(|_, list| !list.is_empty());
        }
        self.shared.sweep();
    }

    /// Closes all connections, because the policy has changed.
    pub(super) fn forget(&self) {
        if let Ok(mut kept) = self.kept.try_borrow_mut() {
            kept.clear();
        }
        self.shared.forget();
    }
}

enum Handshake {
    OtherProtocol,
    Failed(Unreached),
}
