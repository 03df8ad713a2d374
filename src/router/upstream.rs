//! Connections to hosts: dialed by the checked name at the checked address, and only reused for the same host and the
//! same credentials.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, ClientConfig};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use super::dns::ResolveError;
use super::http1::{Reader, Writer};
use super::live::Live;
use super::stream::{Handle, Rewind, Stream};
use crate::policy::{HostName, Reason};

/// How long a host may take to accept a connection, and to finish its handshake.
const PATIENCE: Duration = Duration::from_secs(10);

/// How many addresses of a name are tried, one after the other.
const MOST_ADDRESSES: usize = 5;

/// Shorter than most servers keep idle connections, so that a request does not arrive when its connection is closed.
const KEPT: Duration = Duration::from_secs(4);

/// How many connections a thread keeps for one host, and in total.
const KEPT_FOR_ONE: usize = 512;
const KEPT_IN_ALL: usize = 1024;

/// The destination of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Host {
    Name(HostName),
    Address(Ipv4Addr),
}

impl Host {
    pub(super) fn text(&self) -> String {
        match self {
            Self::Name(name) => name.to_string(),
            Self::Address(address) => address.to_string(),
        }
    }
}

/// What a connection may be used for. Two requests only share one if all of it is equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Target {
    pub(super) host: Host,
    pub(super) port: u16,
    pub(super) private: bool,
    pub(super) tls: bool,
    /// The names of the credentials that were inserted.
    pub(super) credentials: Vec<String>,
}

/// Why there is no connection.
#[derive(Clone, Debug)]
pub(super) struct Unreached {
    pub(super) reason: Reason,
    /// A more specific hint than the reason's own.
    pub(super) said: String,
    /// The address that was dialed without success.
    pub(super) tried: String,
}

/// A connection with HTTP/1.1.
#[derive(Debug)]
pub(super) struct Plain {
    pub(super) reader: Reader,
    pub(super) writer: Writer,
    pub(super) address: SocketAddr,
    /// Whether it has served a request before.
    pub(super) reused: bool,
}

/// A connection with HTTP/2.
pub(super) struct Multi {
    pub(super) send: h2::client::SendRequest<Bytes>,
    pub(super) address: SocketAddr,
}

pub(super) enum Upstream {
    Plain(Box<Plain>),
    Multi(Multi),
}

struct Kept {
    connection: Plain,
    since: Instant,
}

/// A thread's connections to hosts.
pub(super) struct Dialer {
    tls: [Arc<ClientConfig>; 2],
    kept: RefCell<HashMap<Target, Vec<Kept>>>,
    multi: RefCell<HashMap<Target, (h2::client::SendRequest<Bytes>, SocketAddr)>>,
    /// Hosts that turned out to support only HTTP/2.
    modern: RefCell<HashSet<Host>>,
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
    pub(super) fn new(tls: [Arc<ClientConfig>; 2]) -> Self {
        Self { tls, kept: RefCell::default(), multi: RefCell::default(), modern: RefCell::default() }
    }

    /// A connection for a request: a kept one that is still idle, or a new one.
    pub(super) async fn connect(
        &self,
        live: &Live,
        target: &Target,
        multi: bool,
        fresh: bool,
    ) -> Result<Upstream, Unreached> {
        let multi = multi || self.modern.try_borrow().is_ok_and(|modern| modern.contains(&target.host));
        if multi && target.tls {
            return self.connect_multi(live, target).await.map(Upstream::Multi);
        }
        if !fresh && let Some(kept) = self.reuse(target) {
            return Ok(Upstream::Plain(Box::new(kept)));
        }
        let (tcp, address) = dial(live, &target.host, target.port, target.private).await?;
        let stream = if target.tls {
            match self.handshake(tcp, target, 0, address).await {
                Ok(stream) => stream,
                Err(Handshake::OtherProtocol) => {
                    if let Ok(mut modern) = self.modern.try_borrow_mut() {
                        if modern.len() >= KEPT_IN_ALL {
                            modern.clear();
                        }
                        modern.insert(target.host.clone());
                    }
                    return self.connect_multi(live, target).await.map(Upstream::Multi);
                }
                Err(Handshake::Failed(unreached)) => return Err(unreached),
            }
        } else {
            Stream::Plain(Rewind::new(Bytes::new(), tcp))
        };
        let handle = Handle::new(stream);
        let silence = live.file.limits.silence();
        let reader = Reader::new(handle.clone(), BytesMut::new(), silence);
        Ok(Upstream::Plain(Box::new(Plain { reader, writer: Writer::new(handle, silence), address, reused: false })))
    }

    async fn connect_multi(&self, live: &Live, target: &Target) -> Result<Multi, Unreached> {
        let known = self.multi.try_borrow().ok().and_then(|all| all.get(target).cloned());
        if let Some((send, address)) = known
            && let Ok(send) = send.ready().await
        {
            return Ok(Multi { send, address });
        }
        let (tcp, address) = dial(live, &target.host, target.port, target.private).await?;
        let failed = |reason: Reason, said: String| Unreached { reason, said, tried: address.to_string() };
        let stream = match self.handshake(tcp, target, 1, address).await {
            Ok(stream) => stream,
            Err(Handshake::OtherProtocol) => {
                return Err(failed(
                    Reason::UpstreamFailed,
                    "the host does not support HTTP/2, which gRPC needs".to_owned(),
                ));
            }
            Err(Handshake::Failed(unreached)) => return Err(unreached),
        };
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(256 << 10).initial_connection_window_size(1 << 20).max_header_list_size(256 << 10);
        builder.enable_push(false).max_send_buffer_size(64 << 10);
        let shaken = timeout(PATIENCE, builder.handshake(stream)).await;
        let Ok(Ok((send, connection))) = shaken else {
            return Err(failed(Reason::UpstreamFailed, "the host does not support HTTP/2".to_owned()));
        };
        tokio::task::spawn_local(async move {
            // The requests on it show what went wrong.
            let _ = connection.await;
        });
        if let Ok(mut all) = self.multi.try_borrow_mut() {
            if all.len() >= KEPT_IN_ALL {
                all.clear();
            }
            all.insert(target.clone(), (send.clone(), address));
        }
        match send.ready().await {
            Ok(send) => Ok(Multi { send, address }),
            Err(error) => Err(failed(Reason::UpstreamFailed, error.to_string())),
        }
    }

    async fn handshake(
        &self,
        tcp: TcpStream,
        target: &Target,
        which: usize,
        address: SocketAddr,
    ) -> Result<Stream, Handshake> {
        let failed =
            |reason: Reason, said: String| Handshake::Failed(Unreached { reason, said, tried: address.to_string() });
        let [one, two] = &self.tls;
        let config = if which == 0 { one } else { two };
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
                if which == 1 && protocol != Some(b"h2") {
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
    }

    /// Closes all connections, because the policy has changed.
    pub(super) fn forget(&self) {
        if let Ok(mut kept) = self.kept.try_borrow_mut() {
            kept.clear();
        }
        if let Ok(mut multi) = self.multi.try_borrow_mut() {
            multi.clear();
        }
    }
}

enum Handshake {
    OtherProtocol,
    Failed(Unreached),
}
