//! The router's process: reads what it enforces, listens, serves, and ends.

use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::thread::CapabilitySet;
use tokio::sync::watch;
use tokio::task::LocalSet;

use super::accept::{Listener, Port, THREADS, accept, is_served_by};
use super::api::Asker;
use super::confine::{Permitted, Threads, confine, keep_capabilities};
use super::credential::{Minter, Table};
use super::dns::{RefusedName, Server};
use super::limits::Budget;
use super::live::{Current, Live, follow, read};
use super::log::{Log, Seldom, Stamp};
use super::mint::Mint;
use super::policy_file::PolicyFile;
use super::process::{Early, TERMINATED, listen, note, raise_limit, say};
use super::shared::Shared;
use super::taken::Taken;
use super::upstream::Dialer;
use super::worker::Worker;
use super::{handover, taken, tls};
use crate::policy::EVERY_NAME;

/// How long the end waits for tokens to be revoked.
const FAREWELL: Duration = Duration::from_secs(5);

/// The paths of files.
#[derive(Clone, Debug)]
pub struct Paths {
    /// `policy.json`.
    pub policy: PathBuf,
    /// The session's secrets.
    pub secrets: PathBuf,
    /// Where a forwarder may hand sockets over.
    pub handover: Option<PathBuf>,
}

impl Default for Paths {
    fn default() -> Self {
        Self {
            policy: "/etc/sandboxc/policy.json".into(),
            secrets: "/run/sandboxc".into(),
            handover: Some(handover::SOCKET.into()),
        }
    }
}

/// Everything that is read before listening.
pub struct Prepared {
    /// For all threads.
    pub shared: Arc<Shared>,
    roots: rustls::RootCertStore,
}

impl Prepared {
    /// Reads the policy and the session's secrets. If something is missing, that is an error: nothing is permitted
    /// instead.
    pub fn read(paths: &Paths, log: Log) -> Result<Self, String> {
        let file = read(&paths.policy)?;
        let secret = |name: &str| paths.secrets.join(name);
        let optional = |path: &Path| match std::fs::read(path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("{}: {error}", path.display())),
        };
        let server = match file.ca_scopes.first() {
            None => None,
            Some(scope) => Some(servers(&secret("ca.pem"), scope)?),
        };
        let path = secret("upstream.pem");
        let roots = match optional(&path)? {
            Some(pem) => tls::roots(&pem).map_err(|error| format!("{}: {error}", path.display()))?,
            None if server.is_some() => {
                return Err(format!("{} is missing: the session has no roots of trust", path.display()));
            }
            None => tls::built_in_roots(),
        };
        let table = credentials(&secret("credentials.json"), &file)?;
        let minter = Minter::new(table.as_ref().unwrap_or(&Table::empty()));
        let limits = file.limits;
        let shared = Shared {
            current: Current::new(Live::new(file)),
            log,
            connections: Budget::new(limits.connections),
            heads: Budget::new(limits.waiting_heads),
            bodies: Budget::new(limits.bodies),
            request_head: usize::try_from(limits.request_head).unwrap_or(usize::MAX),
            table,
            minter,
            ends: limits.session.and_then(|seconds| SystemTime::now().checked_add(Duration::from_secs(seconds))),
            server,
            full: Seldom::new(Duration::from_secs(1)),
            starved: Seldom::new(Duration::from_secs(1)),
        };
        Ok(Self { shared: Arc::new(shared), roots })
    }
}

fn servers(path: &Path, scope: &str) -> Result<[Arc<rustls::ServerConfig>; 2], String> {
    let failed = |why: String| format!("{}: {why}", path.display());
    let pem = match std::fs::read(path) {
        Ok(pem) => pem,
        Err(error) => return Err(format!("{} is missing: the session has no CA ({error})", path.display())),
    };
    let mint = Mint::read(&pem).map_err(failed)?;
    let example = if scope == EVERY_NAME { "any.invalid" } else { scope };
    mint.check(example).map_err(|why| failed(format!("it cannot speak for {scope}: {why}")))?;
    tls::servers(Arc::new(mint))
}

fn credentials(path: &Path, file: &PolicyFile) -> Result<Option<Table>, String> {
    if file.policy.credentials.is_empty() {
        return Ok(None);
    }
    let json = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Table::read(&json).map(Some).map_err(|error| format!("{}: {error}", path.display()))
}

/// Binds every port of the router on its internal address.
pub fn bind(file: &PolicyFile) -> Result<(Vec<Listener>, NameSockets), String> {
    let address = file.listen.router;
    let only = Some(file.listen.agent);
    let listener = |number: u16, port: Port| {
        let socket =
            listen(SocketAddrV4::new(address, number)).map_err(|error| format!("{address}:{number}: {error}"))?;
        Ok::<Listener, String>(Listener { socket: Arc::new(socket), port, only })
    };
    let mut all = vec![listener(443, Port::Tls)?, listener(80, Port::Web)?];
    for route in &file.tcp {
        all.push(listener(route.router_port, Port::Tcp(Arc::new(route.clone())))?);
    }
    let named = SocketAddrV4::new(address, 53);
    let failed = |error: std::io::Error| format!("{named}: {error}");
    let udp = std::net::UdpSocket::bind(named).map_err(failed)?;
    udp.set_nonblocking(true).map_err(failed)?;
    Ok((all, NameSockets { udp, tcp: listen(named).map_err(failed)? }))
}

/// The sockets of the agent's name server.
#[derive(Debug)]
pub struct NameSockets {
    udp: std::net::UdpSocket,
    tcp: std::net::TcpListener,
}

/// Serves listeners on separate threads until `ending` returns true.
pub fn serve(
    prepared: &Prepared,
    (listeners, names): (Vec<Listener>, NameSockets),
    taken: Option<&Taken>,
    policy: &Path,
    ending: &watch::Receiver<bool>,
) -> Result<Vec<std::thread::JoinHandle<()>>, String> {
    let mut portions: Vec<Vec<Listener>> = (0..THREADS).map(|_| Vec::new()).collect();
    for (number, listener) in listeners.iter().enumerate() {
        for (thread, portion) in portions.iter_mut().enumerate() {
            if is_served_by(number, &listener.port, thread) {
                portion.push(Listener {
                    socket: Arc::clone(&listener.socket),
                    port: listener.port.clone(),
                    only: listener.only,
                });
            }
        }
    }
    drop(listeners);
    let mut names = Some(names);
    let clients = tls::clients(prepared.roots.clone())?;
    let mut threads = Vec::new();
    for (thread, listeners) in portions.into_iter().enumerate() {
        let (shared, clients, mut ending) = (Arc::clone(&prepared.shared), clients.clone(), ending.clone());
        let taken = taken.cloned();
        let first =
            if thread == 0 { names.take().map(|names| (names, policy.to_owned(), taken.clone())) } else { None };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let spawned = std::thread::Builder::new().name(format!("serve-{thread}")).spawn(move || {
            let local = LocalSet::new();
            local.block_on(&runtime, async {
                let worker = Rc::new(Worker { shared, dialer: Dialer::new(clients) });
                let minting = first.is_some().then(|| keep_tokens(&worker, ending.clone()));
                start(&worker, listeners, first);
                if let Some(taken) = taken {
                    tokio::task::spawn_local(taken::serve(Rc::clone(&worker), thread, taken));
                }
                let _ = ending.wait_for(|ends| *ends).await;
                // Tokens are revoked with the session.
                if let Some(minting) = minting {
                    let _ = tokio::time::timeout(FAREWELL, minting).await;
                }
            });
        });
        threads.push(spawned.map_err(|error| error.to_string())?);
    }
    Ok(threads)
}

/// What only the first thread does: names, and following the policy's file.
type First = (NameSockets, PathBuf, Option<Taken>);

fn start(worker: &Rc<Worker>, listeners: Vec<Listener>, first: Option<First>) {
    for Listener { socket, port, only } in listeners {
        if let Ok(socket) = socket.try_clone().and_then(tokio::net::TcpListener::from_std) {
            tokio::task::spawn_local(accept(Rc::clone(worker), socket, port, only));
        }
    }
    if let Some((sockets, path, taken)) = first {
        serve_names(&worker.shared, sockets);
        let shared = Arc::clone(&worker.shared);
        let listen = async move |file: Arc<PolicyFile>| match &taken {
            Some(taken) => taken.listen_for(file).await,
            None => Err("router and forwarder share no volume".to_owned()),
        };
        tokio::task::spawn_local(async move {
            follow(path, &shared.current, listen, |line| shared.log.add(line), say).await;
        });
    }
    let keeper = Rc::clone(worker);
    tokio::task::spawn_local(async move {
        let mut changes = keeper.shared.current.watch();
        loop {
            tokio::select! {
                () = tokio::time::sleep(Duration::from_secs(1)) => keeper.dialer.sweep(),
                _ = changes.changed() => keeper.dialer.forget(),
            }
        }
    });
}

/// Requests tokens of GitHub Apps, renews them, and revokes them at the end.
fn keep_tokens(worker: &Rc<Worker>, mut ending: watch::Receiver<bool>) -> tokio::task::JoinHandle<()> {
    let worker = Rc::clone(worker);
    tokio::task::spawn_local(async move {
        let ended = async move {
            let _ = ending.wait_for(|ends| *ends).await;
        };
        worker.shared.minter.keep(&Asker(Rc::clone(&worker)), ended, &say).await;
    })
}

/// Serves the agent's DNS queries.
fn serve_names(shared: &Arc<Shared>, sockets: NameSockets) {
    let NameSockets { udp, tcp } = sockets;
    let (Ok(udp), Ok(tcp)) = (tokio::net::UdpSocket::from_std(udp), tokio::net::TcpListener::from_std(tcp)) else {
        return;
    };
    let listen = shared.current.get().file.listen.clone();
    let (policy, log) = (Arc::clone(shared), shared.log.clone());
    let current = move || Arc::clone(&policy.current.get().names);
    let sink = move |refused: &RefusedName| log.add(&NameLine { ts: Stamp::now(), refused });
    let server = Server::new(listen.agent, listen.router, Arc::new(current), Arc::new(sink));
    tokio::task::spawn_local(async move {
        let error = server.serve(udp, tcp).await;
        say(&format!("router: the name server ended: {error}"));
    });
}

/// The log line of a refused name.
#[derive(serde::Serialize)]
struct NameLine<'a> {
    ts: Stamp,
    #[serde(flatten)]
    refused: &'a RefusedName,
}

/// Runs until SIGTERM or SIGINT, and returns the exit code.
pub fn main(paths: &Paths, early: &Early) -> u8 {
    match run(paths, early) {
        Ok(code) => code,
        Err(error) => {
            say(&format!("router: {error}"));
            1
        }
    }
}

/// Everything is open by now; only a new policy is read later.
fn give_up(paths: &Paths) -> Result<(), String> {
    keep_capabilities(CapabilitySet::empty()).map_err(|error| format!("giving up capabilities: {error}"))?;
    let read = paths.policy.parent().map(Path::to_owned).into_iter().collect();
    let said = confine(&Permitted { read, ..Permitted::default() }, Threads::All)?;
    note(&format!("router: {said}"));
    Ok(())
}

fn run(paths: &Paths, early: &Early) -> Result<u8, String> {
    raise_limit();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
    let (log, writer) = Log::start(std::io::stdout());
    let (end, ending) = watch::channel(false);
    let code = runtime.block_on(async {
        use tokio::signal::unix::{SignalKind, signal};
        let mut term = signal(SignalKind::terminate()).map_err(|error| error.to_string())?;
        let mut int = signal(SignalKind::interrupt()).map_err(|error| error.to_string())?;
        early.disarm();
        let prepared = Prepared::read(paths, log.clone())?;
        let file = Arc::clone(&prepared.shared.current.get().file);
        let listeners = bind(&file)?;
        let counter = paths.handover.as_deref().and_then(taken::open);
        give_up(paths)?;
        let taken =
            counter.map(|counter| taken::start(counter, file)).transpose().map_err(|error| error.to_string())?;
        let threads = serve(&prepared, listeners, taken.as_ref(), &paths.policy, &ending)?;
        say("router: ready");
        let dead = async {
            loop {
                if threads.iter().any(std::thread::JoinHandle::is_finished) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        let code = tokio::select! {
            _ = term.recv() => TERMINATED,
            _ = int.recv() => TERMINATED,
            () = dead => 1,
        };
        let _ = end.send(true);
        for thread in threads {
            let _ = thread.join();
        }
        Ok::<u8, String>(code)
    })?;
    log.end();
    let _ = writer.join();
    Ok(code)
}
