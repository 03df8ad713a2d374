//! Listeners, and the threads that serve their connections.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};

use super::client::ClientConnection;
use super::entry::LogEntry;
use super::policy_file::TcpRoute;
use super::process::say;
use super::refusal::Refusal;
use super::stream::{keep_alive, plain};
use super::worker::Worker;
use super::{http1, passthrough, tcp};
use crate::policy::{Reason, Tier};

/// The number of threads that serve.
pub(super) const THREADS: usize = 2;

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
    pub socket: Arc<std::net::TcpListener>,
    /// Its purpose.
    pub port: Port,
    /// The only address that is served; `None` if only the agent can reach it.
    pub only: Option<Ipv4Addr>,
}

/// All threads serve web ports. Each named port is served by one thread, since there may be thousands.
pub(super) fn is_served_by(number: usize, port: &Port, thread: usize) -> bool {
    !matches!(port, Port::Tcp(_)) || number % THREADS == thread
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
            serve(&worker, stream, &port).await;
            drop(held);
        });
    }
}

async fn serve(worker: &Rc<Worker>, stream: TcpStream, port: &Port) {
    let _ = stream.set_nodelay(true);
    keep_alive(&stream);
    match port {
        Port::Tls => passthrough::serve(worker, stream).await,
        Port::Tcp(route) => tcp::serve(worker, stream, route).await,
        Port::Web => {
            let place = ClientConnection { tier: Tier::Http, port: 80, name: None, two: false };
            http1::serve(worker, &place, plain(stream)).await;
        }
    }
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
    let mut entry = LogEntry::new(tier, number, Instant::now());
    entry.refused(&Refusal::new(Reason::RouterFull));
    entry.write(&worker.shared);
}
