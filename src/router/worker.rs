//! Threads that serve connections, and what they share.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};

use super::credential::{Minter, Table};
use super::entry::Entry;
use super::limits::Budget;
use super::live::{Current, Live};
use super::log::{Log, Seldom};
use super::policy_file::TcpRoute;
use super::proxy::{Place, Refusal};
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
    /// Connections.
    pub(super) connections: Budget,
    /// Bytes of heads that are not complete.
    pub(super) heads: Budget,
    /// Bodies that are read whole.
    pub(super) bodies: Budget,
    /// Bytes of a request's head at most.
    pub(super) request_head: usize,
    /// The session's credentials; None if it has none.
    pub(super) table: Option<Table>,
    /// Tokens of GitHub Apps.
    pub(super) minter: Minter,
    /// How clients are spoken to; None if nothing is decrypted.
    pub(super) server: Option<Arc<ServerConfig>>,
    /// Connections that were refused since there were too many.
    pub(super) full: Seldom,
}

/// What one thread's tasks share.
pub(super) struct Worker {
    pub(super) shared: Arc<Shared>,
    pub(super) dialer: Dialer,
}

/// What a listener is for.
#[derive(Clone, Debug)]
pub enum Port {
    /// 443.
    Tls,
    /// 80.
    Web,
    /// A named port.
    Tcp(Arc<TcpRoute>),
}

/// A listener, and who may come to it.
#[derive(Debug)]
pub struct Listener {
    /// Bound and listening, not blocking.
    pub socket: std::net::TcpListener,
    /// What for.
    pub port: Port,
    /// The only address that is served; None where whoever reaches it is the agent.
    pub only: Option<Ipv4Addr>,
}

impl Worker {
    /// How long a connection may be silent.
    pub(super) fn silence(&self) -> Duration {
        self.shared.current.get().file.limits.silence()
    }

    /// True if requests on a connection are still decided inside of it.
    pub(super) fn still(&self, place: &Place) -> bool {
        let Some(name) = &place.name else { return true };
        let decision = self.shared.current.get().file.policy.decide(name.as_str(), place.port);
        decision.verdict == Verdict::Allow && decision.tier == Tier::Inspected
    }

    /// Waits until a request that became a connection of its own would not be allowed any more.
    pub(super) async fn until_denied(&self, place: &Place, entry: &Entry) {
        let host = String::from_utf8_lossy(&entry.host).into_owned();
        let method = String::from_utf8_lossy(&entry.method).into_owned();
        let target = String::from_utf8_lossy(&entry.target).into_owned();
        let call = HttpRequest { method: &method, target: &target };
        let allowed = |live: &Live| {
            let policy = &live.file.policy;
            policy.decide_upgrade(&host, place.port, &call, Upgrade::Websocket).verdict == Verdict::Allow
        };
        self.until(allowed).await;
    }

    /// Waits until a policy is in force that does not permit something.
    pub(super) async fn until(&self, permits: impl Fn(&Live) -> bool) {
        let mut changes = self.shared.current.watch();
        // Looked at before the first change too, since what was decided may have been decided by the policy before.
        while permits(&self.shared.current.get()) {
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

/// Serves what comes to a listener.
pub(super) async fn accept(worker: Rc<Worker>, listener: TcpListener, port: Port, only: Option<Ipv4Addr>) {
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of descriptors: whoever waits is served when others have ended.
                if !matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset) {
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

/// Clients that vanish without an end are noticed.
pub(super) fn keep_alive(stream: &TcpStream) {
    let _ = rustix::net::sockopt::set_socket_keepalive(stream, true);
}

/// A connection more than there may be: refused without a byte, and said at most once a second.
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

/// Both halves of a plain TCP connection, with what was read of it already.
pub(super) fn plain(stream: TcpStream) -> Handle {
    Handle::new(Stream::Plain(Rewind::new(bytes::Bytes::new(), stream)))
}

/// Nothing read yet.
pub(super) fn nothing() -> BytesMut {
    BytesMut::new()
}
