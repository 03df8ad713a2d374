//! Listeners that a forwarder has handed over. All threads serve them as long as the lease is valid.

use std::io;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::accept::{Listener, Port, accept, is_served_by};
use super::handover::{Counter, Handed};
use super::policy_file::PolicyFile;
use super::process::{note, say};
use super::worker::Worker;

/// The handed-over listeners, for each thread to check; empty as long as there are none.
pub(super) type Watch = watch::Receiver<Arc<Vec<Listener>>>;

/// Takes sockets from forwarders, one after the other, on a separate thread.
pub(super) fn start(counter: Counter, file: Arc<PolicyFile>) -> io::Result<Watch> {
    let (now, watched) = watch::channel(Arc::default());
    let planned = file.pod_listeners();
    std::thread::Builder::new().name("hand-over".to_owned()).spawn(move || {
        loop {
            match counter.take(&file.plan, &planned) {
                Ok(Handed { listeners, lease }) => {
                    let listeners = listeners.into_iter().filter_map(|(port, socket)| {
                        // Only the agent can reach a loopback address of its pod.
                        Some(Listener { socket, port: port_of(&file, port)?, only: None })
                    });
                    now.send_replace(Arc::new(listeners.collect()));
                    note("router: accepts on the agent pod's own sockets");
                    lease.wait();
                    now.send_replace(Arc::default());
                    note("router: has let go of the agent pod's sockets");
                }
                Err(error) => {
                    note(&format!("router: takes no sockets over: {error}"));
                    // In case accepting fails repeatedly.
                    std::thread::sleep(std::time::Duration::from_millis(100));
                }
            }
        }
    })?;
    Ok(watched)
}

/// Creates the socket if the volume exists.
pub(super) fn open(path: &Path) -> Option<Counter> {
    match Counter::open(path) {
        Ok(counter) => Some(counter),
        Err(error) => {
            note(&format!("router: takes no sockets over: {}: {error}", path.display()));
            None
        }
    }
}

fn port_of(file: &PolicyFile, port: u16) -> Option<Port> {
    match port {
        80 => Some(Port::Web),
        443 => Some(Port::Tls),
        _ => file.tcp.iter().find(|route| route.router_port == port).map(|route| Port::Tcp(Arc::new(route.clone()))),
    }
}

/// Accepts on a thread's share of the listeners that are currently handed over.
pub(super) async fn serve(worker: Rc<Worker>, thread: usize, mut watched: Watch) {
    loop {
        let now = watched.borrow_and_update().clone();
        let mut accepting = JoinSet::new();
        for (_, listener) in now.iter().enumerate().filter(|(number, one)| is_served_by(*number, &one.port, thread)) {
            match listener.socket.try_clone().and_then(tokio::net::TcpListener::from_std) {
                Ok(socket) => {
                    drop(accepting.spawn_local(accept(Rc::clone(&worker), socket, listener.port.clone(), None)));
                }
                Err(error) => say(&format!("router: a socket that was handed over is not served: {error}")),
            }
        }
        drop(now);
        if watched.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
