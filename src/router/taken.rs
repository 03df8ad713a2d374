//! Listeners that a forwarder has handed over. All threads serve them as long as the lease is valid.

use std::collections::BTreeMap;
use std::io;
use std::mem;
use std::net::{SocketAddr, SocketAddrV4, TcpListener};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::accept::{Listener, Port, accept, is_served_by};
use super::handover::{Counter, Handed, Lease};
use super::policy_file::PolicyFile;
use super::process::{note, say};
use super::worker::Worker;

/// How long a new policy waits for its listeners.
const PATIENCE: Duration = Duration::from_secs(3);

/// The handed-over listeners, for each thread to check; empty as long as there are none.
type Watch = watch::Receiver<Arc<Vec<Listener>>>;

/// Where the thread that holds the lease gets orders from.
#[derive(Debug)]
struct Desk {
    /// `None` as long as there is no lease.
    orders: Mutex<Option<Vec<Order>>>,
    bell: OwnedFd,
}

/// A request for the listeners that a policy needs.
#[derive(Debug)]
struct Order {
    file: Arc<PolicyFile>,
    done: oneshot::Sender<Result<(), String>>,
}

/// The sockets of the agent's pod.
#[derive(Clone, Debug)]
pub struct Taken {
    watch: Watch,
    desk: Arc<Desk>,
}

impl Taken {
    /// Ensures that everything that a policy names is listened on.
    ///
    /// # Errors
    /// A clause that says why not.
    pub(super) async fn listen_for(&self, file: Arc<PolicyFile>) -> Result<(), String> {
        let (done, answer) = oneshot::channel();
        match &mut *self.desk.orders.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(orders) => orders.push(Order { file, done }),
            None => return Err("the forwarder has not handed its sockets over".to_owned()),
        }
        rustix::io::write(&self.desk.bell, &1_u64.to_ne_bytes()).map_err(|error| error.to_string())?;
        match timeout(PATIENCE, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err("the forwarder has ended".to_owned()),
            Err(_) => Err("the forwarder does not answer".to_owned()),
        }
    }
}

impl Desk {
    /// Begins or ends taking orders. Those that are left are dropped, which their owners notice.
    fn set_open(&self, open: bool) {
        *self.orders.lock().unwrap_or_else(PoisonError::into_inner) = open.then(Vec::new);
    }

    fn take(&self) -> Vec<Order> {
        // Any number of rings is one.
        let _ = rustix::io::read(&self.bell, &mut [0_u8; 8]);
        self.orders.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(mem::take).unwrap_or_default()
    }
}

/// The listeners of a lease, and whom they are published to.
struct Held<'a> {
    lease: Lease,
    sockets: BTreeMap<SocketAddrV4, Arc<TcpListener>>,
    now: &'a watch::Sender<Arc<Vec<Listener>>>,
}

impl Held<'_> {
    /// Requests what a policy needs in addition, and publishes all of it.
    fn serve(&mut self, file: &PolicyFile) -> Result<(), String> {
        for at in file.pod_listeners().into_keys() {
            if !self.sockets.contains_key(&at) {
                self.sockets.insert(at, Arc::new(self.lease.request(at)?));
            }
        }
        let named = file.tcp.iter().map(|route| (SocketAddrV4::new(route.loopback, route.port), route));
        let named: BTreeMap<SocketAddrV4, _> = named.collect();
        let listener = |(at, socket): (&SocketAddrV4, &Arc<TcpListener>)| {
            let port = match (named.get(at), at.port()) {
                (Some(route), _) => Port::Tcp(Arc::new((*route).clone())),
                (None, 80) => Port::Web,
                (None, 443) => Port::Tls,
                // Of a policy before this one.
                (None, _) => return None,
            };
            // Only the agent can reach a loopback address of its pod.
            Some(Listener { socket: Arc::clone(socket), port, only: None })
        };
        self.now.send_replace(Arc::new(self.sockets.iter().filter_map(listener).collect()));
        Ok(())
    }
}

/// Takes sockets from forwarders, one after the other, on a separate thread.
pub(super) fn start(counter: Counter, first: Arc<PolicyFile>) -> io::Result<Taken> {
    let (now, watch) = watch::channel(Arc::default());
    let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let desk = Arc::new(Desk { orders: Mutex::default(), bell });
    let taken = Taken { watch, desk: Arc::clone(&desk) };
    std::thread::Builder::new().name("hand-over".to_owned()).spawn(move || {
        // A forwarder that starts again knows what was planned, and is asked for the rest.
        let planned = first.pod_listeners();
        let mut file = Arc::clone(&first);
        loop {
            match counter.take(&first.plan, &planned) {
                Ok(handed) => hold(handed, &mut file, &desk, &now),
                Err(error) => {
                    note(&format!("router: takes no sockets over: {error}"));
                    // In case accepting fails repeatedly.
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        }
    })?;
    Ok(taken)
}

/// Serves a lease until it ends. Then the sockets are closed.
fn hold(handed: Handed, file: &mut Arc<PolicyFile>, desk: &Desk, now: &watch::Sender<Arc<Vec<Listener>>>) {
    let Handed { listeners, lease } = handed;
    let at = |listener: TcpListener| match listener.local_addr() {
        Ok(SocketAddr::V4(at)) => Some((at, Arc::new(listener))),
        _ => None,
    };
    let sockets = listeners.into_iter().filter_map(|(_, listener)| at(listener)).collect();
    let mut held = Held { lease, sockets, now };
    desk.set_open(true);
    match held.serve(file) {
        Ok(()) => note("router: accepts on the agent pod's own sockets"),
        Err(error) => say(&format!("router: does not accept on all of the agent pod's sockets: {error}")),
    }
    while held.lease.wait(&desk.bell) {
        for order in desk.take() {
            let served = held.serve(&order.file);
            if served.is_ok() {
                *file = order.file;
            }
            // Nobody may be waiting any more.
            let _ = order.done.send(served);
        }
    }
    desk.set_open(false);
    now.send_replace(Arc::default());
    note("router: has let go of the agent pod's sockets");
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

/// Accepts on a thread's share of the listeners that are currently handed over.
pub(super) async fn serve(worker: Rc<Worker>, thread: usize, taken: Taken) {
    let mut watched = taken.watch;
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
