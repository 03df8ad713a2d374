//! Threads that serve connections, and what they share.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::BytesMut;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::credential::{Minter, Table};
use super::entry::Entry;
use super::limits::Budget;
use super::live::{Current, Live};
use super::log::{Log, Seldom};
use super::policy_file::TcpRoute;
use super::proxy::{Place, Refusal};
use super::run::say;
use super::stream::{Handle, Rewind, Stream};
use super::upstream::Dialer;
use super::{http1, passthrough, tcp};
use crate::policy::{HttpRequest, Reason, Tier, Upgrade, Verdict};

/// What all threads share.
pub struct Shared {
    /// The policy in force.
    pub(super) current: Current,
    /// The log.
    pub(super) log: Log,
    /// The limit of connections.
    pub(super) connections: Budget,
    /// The limit of bytes in incomplete heads.
    pub(super) heads: Budget,
    /// The limit of bodies that are read completely.
    pub(super) bodies: Budget,
    /// The maximum size of a request's head.
    pub(super) request_head: usize,
    /// The session's credentials, if any.
    pub(super) table: Option<Table>,
    /// Tokens of GitHub Apps.
    pub(super) minter: Minter,
    /// When the session ends at the latest.
    pub(super) ends: Option<SystemTime>,
    /// The TLS configuration for clients; `None` if nothing is decrypted.
    pub(super) server: Option<[Arc<ServerConfig>; 2]>,
    /// How many connections were refused because of the limit.
    pub(super) full: Seldom,
    /// How often no connection could be accepted.
    pub(super) starved: Seldom,
}

/// What the tasks of a thread share.
pub(super) struct Worker {
    pub(super) shared: Arc<Shared>,
    pub(super) dialer: Dialer,
}

/// The purpose of a listener.
#[derive(Clone, Debug)]
pub enum Port {
    /// Port 443.
    Tls,
    /// Port 80.
    Web,
    /// A named port.
    Tcp(Arc<TcpRoute>),
}

/// A listener, and who may connect to it.
#[derive(Debug)]
pub struct Listener {
    /// Bound, listening and non-blocking.
    pub socket: std::net::TcpListener,
    /// Its purpose.
    pub port: Port,
    /// The only address that is served; `None` if only the agent can reach it.
    pub only: Option<Ipv4Addr>,
}

impl Worker {
    /// How long a connection may be idle.
    pub(super) fn silence(&self) -> Duration {
        self.shared.current.get().file.limits.silence()
    }

    /// Whether requests on a connection are decided individually.
    pub(super) fn still(&self, place: &Place) -> bool {
        let Some(name) = &place.name else { return true };
        let decision = self.shared.current.get().file.policy.decide(name.as_str(), place.port);
        decision.verdict == Verdict::Allow && decision.tier == Tier::Inspected
    }

    /// Waits until an upgraded request would no longer be allowed.
    pub(super) async fn until_denied(&self, place: &Place, entry: &Entry) {
        self.until(allowed(place, entry, true)).await;
    }

    /// Waits until a policy that comes after these changes does not allow a request.
    pub(super) fn changed_to_denied(
        &self,
        mut changes: watch::Receiver<u64>,
        place: &Place,
        entry: &Entry,
        upgrade: bool,
    ) -> impl Future<Output = ()> + use<'_> {
        let allowed = allowed(place, entry, upgrade);
        async move {
            loop {
                if changes.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
                if !allowed(&self.shared.current.get()) {
                    return;
                }
            }
        }
    }

    /// Waits until a policy is in force that does not permit something.
    pub(super) async fn until(&self, permits: impl Fn(&Live) -> bool) {
        let mut changes = self.shared.current.watch();
        // Also checked before the first change, since an earlier policy may have decided.
        while permits(&self.shared.current.get()) {
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

/// Whether a policy allows a request.
fn allowed(place: &Place, entry: &Entry, upgrade: bool) -> impl Fn(&Live) -> bool + use<> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (host, method, target, port) = (text(&entry.host), text(&entry.method), text(&entry.target), place.port);
    move |live| {
        let (policy, call) = (&live.file.policy, HttpRequest { method: &method, target: &target });
        let decision = match upgrade {
            true => policy.decide_upgrade(&host, port, &call, Upgrade::Websocket),
            false => policy.decide_request(&host, port, &call),
        };
        decision.verdict == Verdict::Allow
    }
}

/// Serves a listener's connections.
pub(super) async fn accept(worker: Rc<Worker>, listener: TcpListener, port: Port, only: Option<Ipv4Addr>) {
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // No descriptors are left; whoever waits is served when other connections have ended.
                if !matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset) {
                    if worker.shared.starved.pass().is_some() {
                        say(&format!("router: connections wait: {error}"));
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                continue;
            }
        };
        if only.is_some_and(|only| peer.ip() != IpAddr::V4(only)) {
            continue;
        }
        let Some(held) = worker.shared.connections.take(1) else {
            full(&worker, &port);
            continue;
        };
        let (worker, port) = (Rc::clone(&worker), port.clone());
        tokio::task::spawn_local(async move {
            serve(&worker, stream, peer, &port).await;
            drop(held);
        });
    }
}

async fn serve(worker: &Rc<Worker>, stream: TcpStream, _peer: SocketAddr, port: &Port) {
    let _ = stream.set_nodelay(true);
    keep_alive(&stream);
    match port {
        Port::Tls => passthrough::serve(worker, stream).await,
        Port::Tcp(route) => tcp::serve(worker, stream, route).await,
        Port::Web => {
            let place = Place { tier: Tier::Http, port: 80, name: None, two: false };
            let handle = Handle::new(Stream::Plain(Rewind::new(bytes::Bytes::new(), stream)));
            http1::serve(worker, &place, handle).await;
        }
    }
}

/// Detects clients that disappear without closing the connection.
pub(super) fn keep_alive(stream: &TcpStream) {
    let _ = rustix::net::sockopt::set_socket_keepalive(stream, true);
}

/// Too many connections: refused without sending anything, and logged at most once a second.
fn full(worker: &Worker, port: &Port) {
    if worker.shared.full.pass().is_none() {
        return;
    }
    let (tier, number) = match port {
        Port::Tls => (Tier::Passthrough, 443),
        Port::Web => (Tier::Http, 80),
        Port::Tcp(route) => (Tier::Tcp, route.port),
    };
    let mut entry = Entry::new(tier, number, Instant::now());
    entry.refused(&Refusal::new(Reason::RouterFull));
    entry.write(&worker.shared);
}

/// Both halves of a plain TCP connection, with the bytes that were already read.
pub(super) fn plain(stream: TcpStream) -> Handle {
    Handle::new(Stream::Plain(Rewind::new(bytes::Bytes::new(), stream)))
}

/// Nothing has been read yet.
pub(super) fn nothing() -> BytesMut {
    BytesMut::new()
}
