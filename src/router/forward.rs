//! The forwarder: listens on the loopback addresses of the agent's pod that allowed names resolve to, and passes
//! connections to the router. It decides nothing.
//!
//! If possible, it hands its sockets over, so that there is no hop. Otherwise (the pods are on two machines, or a
//! security module forbids it), it accepts connections itself and dials the router. It logs which.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use rustix::thread::CapabilitySet;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinSet, LocalSet, spawn_local};
use tokio::time::{sleep, timeout};

use super::confine::{Permitted, Threads, confine, keep_capabilities};
use super::limits::{Budget, Held};
use super::log::Seldom;
use super::pod_file::{Listeners, PodFile};
use super::process::{listen, note, raise_limit, say};
use super::relay::{Nothing, relay};
use super::stream::{keep_alive, plain};
use super::{gate, handover, pod_file};

/// What a gate at the start of the forwarder prints once everything is listening. Whoever waits for the pod reads it.
const PASSED: &[u8] = b"gate: passed\n";

/// The maximum number of connections, which is the router's.
const CONNECTIONS: u32 = 4096;

/// How long the router may take to accept.
const CONNECT: Duration = Duration::from_secs(10);

/// Longer than the router's own limits, so that the router decides when a connection is idle.
const SILENCE: Duration = Duration::from_secs(3600);

/// How often handing over is tried before only TCP is used, and the pauses in between: a router that restarts needs a
/// moment.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(100);

/// The paths of files.
#[derive(Clone, Debug)]
pub struct Paths {
    /// `pod.json`.
    pub pod: PathBuf,
    /// The router's socket in the volume that it shares with the forwarder.
    pub router: PathBuf,
}

impl Default for Paths {
    fn default() -> Self {
        Self { pod: "/etc/sandboxc/pod.json".into(), router: handover::SOCKET.into() }
    }
}

/// Runs until a signal ends the process; otherwise returns the exit code.
pub fn main(paths: &Paths, gated: bool) -> u8 {
    let file = match pod_file::open(&paths.pod) {
        Ok(file) => file,
        Err(error) => return fail(&error),
    };
    if gated && let Err(error) = gate::check(&file, Path::new("/proc")) {
        return gate::stop(&error);
    }
    match run(&file, paths, gated) {
        Ok(()) => 1,
        Err(error) => fail(&error),
    }
}

fn fail(error: &str) -> u8 {
    say(&format!("forwarder: {error}"));
    1
}

fn run(file: &PodFile, paths: &Paths, gated: bool) -> Result<(), String> {
    raise_limit();
    let planned = file.listeners();
    let (leads, listeners) = bind(&planned)?;
    let (handed, watched) = watch::channel(false);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
    let listeners = shared(&runtime, listeners)?;
    let (plan, socket, lent) = (file.plan.clone(), paths.router.clone(), listeners.clone());
    // The thread that speaks to the router also listens on what a new policy adds. It gets no bytes of the agent.
    let may_listen = Permitted { listen: true, connect: Some(Vec::new()), ..Permitted::default() };
    let (confined, confining) = std::sync::mpsc::channel();
    let lender = std::thread::Builder::new().name("hand-over".to_owned());
    let lender = lender.spawn(move || {
        let done = give_up(CapabilitySet::NET_BIND_SERVICE, &may_listen);
        let goes_on = done.is_ok();
        if confined.send(done).is_ok() && goes_on {
            hand_over(&socket, &plan, &lent, &handed);
        }
    });
    lender.map_err(|error| error.to_string())?;
    confining.recv().map_err(|error| error.to_string())??;
    let mut ports: Vec<u16> = planned.values().copied().collect();
    ports.sort_unstable();
    ports.dedup();
    let said = give_up(CapabilitySet::empty(), &Permitted { connect: Some(ports), ..Permitted::default() })?;
    note(&format!("forwarder: {said}"));
    if gated {
        use std::io::Write as _;
        let mut out = std::io::stdout();
        out.write_all(PASSED).and_then(|()| out.flush()).map_err(|error| format!("saying that it is up: {error}"))?;
    }
    LocalSet::new().block_on(&runtime, serve(file.router, &leads, &listeners, watched))
}

/// Drops what this thread does not need. Each thread is confined by itself.
fn give_up(keep: CapabilitySet, permitted: &Permitted) -> Result<String, String> {
    keep_capabilities(keep).map_err(|error| format!("giving up capabilities: {error}"))?;
    confine(permitted, Threads::ThisAndItsOwn)
}

/// All listeners, each with the router's port that it leads to.
fn bind(planned: &Listeners) -> Result<(Vec<u16>, Vec<TcpListener>), String> {
    let one = |(at, port): (&SocketAddrV4, &u16)| match listen(*at) {
        Ok(listener) => Ok((*port, listener)),
        Err(error) => Err(format!("{at}: {error}")),
    };
    planned.iter().map(one).collect()
}

/// A listener to accept on and to lend. There may be thousands, so there are no copies.
type Shared = Arc<tokio::net::TcpListener>;

fn shared(runtime: &tokio::runtime::Runtime, listeners: Vec<TcpListener>) -> Result<Vec<Shared>, String> {
    let _inside = runtime.enter();
    let one = |listener| tokio::net::TcpListener::from_std(listener).map(Arc::new);
    listeners.into_iter().map(one).collect::<Result<_, _>>().map_err(|error| error.to_string())
}

/// Hands the listeners over as long as a router takes them, and tracks whether one does.
fn hand_over(router: &Path, plan: &str, listeners: &[Shared], handed: &watch::Sender<bool>) {
    let mut tries = 0;
    loop {
        match handover::offer(router, plan, listeners) {
            Ok(lease) => {
                note("forwarder: the router accepts connections itself");
                handed.send_replace(true);
                lease.serve(listen_for);
                handed.send_replace(false);
                note("forwarder: the router has let go; connections go to it over TCP");
                tries = 0;
            }
            Err(error) if tries == TRIES => {
                note(&format!("forwarder: connections go to the router over TCP, since it takes no sockets: {error}"));
                return;
            }
            Err(_) => tries += 1,
        }
        std::thread::sleep(PAUSE);
    }
}

/// A listener for a named port that a new policy adds: on a loopback address, which only the agent can reach.
fn listen_for(at: SocketAddrV4) -> std::io::Result<TcpListener> {
    if at.ip().is_loopback() { listen(at) } else { Err(std::io::ErrorKind::InvalidInput.into()) }
}

/// Accepts connections while no router does.
async fn serve(
    router: Ipv4Addr,
    leads: &[u16],
    listeners: &[Shared],
    mut handed: watch::Receiver<bool>,
) -> Result<(), String> {
    let budget = Budget::new(CONNECTIONS);
    loop {
        let mut accepting = JoinSet::new();
        for (port, listener) in leads.iter().zip(listeners) {
            accepting.spawn_local(accept(Arc::clone(listener), SocketAddr::from((router, *port)), budget.clone()));
        }
        // The sender is gone if handing over was given up.
        if handed.wait_for(|handed| *handed).await.is_err() {
            std::future::pending::<()>().await;
        }
        drop(accepting);
        if handed.wait_for(|handed| !*handed).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

async fn accept(listener: Shared, router: SocketAddr, budget: Budget) {
    static FULL: Seldom = Seldom::new(Duration::from_secs(1));
    static STARVED: Seldom = Seldom::new(Duration::from_secs(1));
    loop {
        let client = match listener.accept().await {
            Ok((client, _)) => client,
            Err(error) => {
                // No descriptors are left; whoever waits is served when other connections have ended.
                if STARVED.pass().is_some() {
                    say(&format!("forwarder: connections wait: {error}"));
                }
                sleep(Duration::from_millis(20)).await;
                continue;
            }
        };
        match budget.take(1) {
            Some(held) => drop(spawn_local(forward(client, router, held))),
            None => {
                if let Some(count) = FULL.pass() {
                    say(&format!("forwarder: {count} connections were refused: {CONNECTIONS} are open already"));
                }
            }
        }
    }
}

/// A connection, for as long as it lasts.
async fn forward(client: TcpStream, router: SocketAddr, _held: Held) {
    let dial = async { TcpSocket::new_v4()?.connect(router).await };
    // A router that does not accept has ended, and the session ends with it.
    let Ok(Ok(upstream)) = timeout(CONNECT, dial).await else { return };
    for stream in [&client, &upstream] {
        let _ = stream.set_nodelay(true);
        keep_alive(stream);
    }
    let (client, upstream) = (plain(client), plain(upstream));
    relay((&client, BytesMut::new()), (&upstream, BytesMut::new()), SILENCE, Nothing, std::future::pending()).await;
}

#[cfg(test)]
mod tests;
