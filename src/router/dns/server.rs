//! The sockets of the agent's name server: UDP and TCP on port 53 of the router's internal address.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::names::{PolicyNames, RefusedName};

/// The maximum number of connections; each holds a message of at most 64 KiB.
const CONNECTIONS: usize = 64;

/// How long a connection may be idle.
const IDLE: Duration = Duration::from_secs(10);

/// How many refused names are logged individually before limiting the rate.
const LINES: u32 = 500;

/// How many refused names per second are not limited.
const CALM: u32 = 50;

/// Returns the current names; called for each message.
pub type Current = dyn Fn() -> Arc<PolicyNames> + Send + Sync;

/// Where log entries for refused names go. It must not block.
pub type Sink = dyn Fn(&RefusedName) + Send + Sync;

/// The name server for an agent.
#[derive(Clone)]
pub struct Server {
    served: [Ipv4Addr; 2],
    current: Arc<Current>,
    lines: Arc<Mutex<Lines>>,
    connections: Arc<Semaphore>,
}

impl Server {
    /// A server that only responds to the agent and to the router itself, which checks its readiness.
    pub fn new(agent: Ipv4Addr, router: Ipv4Addr, current: Arc<Current>, sink: Arc<Sink>) -> Self {
        let lines = Arc::new(Mutex::new(Lines::new(sink)));
        Self { served: [agent, router], current, lines, connections: Arc::new(Semaphore::new(CONNECTIONS)) }
    }

    /// Serves until one of the sockets fails permanently, which does not happen in practice. Spawns a task for each
    /// connection, so it needs a runtime.
    pub async fn serve(&self, udp: UdpSocket, tcp: TcpListener) -> io::Error {
        let seconds = async {
            let mut second = interval(Duration::from_secs(1));
            second.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                second.tick().await;
                self.lines.lock().unwrap_or_else(PoisonError::into_inner).second();
            }
        };
        tokio::select! {
            error = self.datagrams(udp) => error,
            error = self.accept(tcp) => error,
            error = seconds => error,
        }
    }

    fn serves(&self, from: SocketAddr) -> bool {
        self.served.iter().any(|served| from.ip() == IpAddr::V4(*served))
    }

    async fn datagrams(&self, udp: UdpSocket) -> io::Error {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let (length, from) = match udp.recv_from(&mut buffer).await {
                Ok(received) => received,
                Err(error) if is_passing(&error) => continue,
                Err(error) => return error,
            };
            if !self.serves(from) {
                continue;
            }
            if let Some(answer) = buffer.get(..length).and_then(|message| self.answer(message)) {
                // If the agent does not read its responses, they are lost, and nothing waits.
                let _ = udp.try_send_to(&answer, from);
            }
        }
    }

    async fn accept(&self, tcp: TcpListener) -> io::Error {
        loop {
            let (stream, from) = match tcp.accept().await {
                Ok(accepted) => accepted,
                Err(error) if is_passing(&error) => {
                    // Most likely no descriptors are left; open connections end soon.
                    sleep(Duration::from_millis(20)).await;
                    continue;
                }
                Err(error) => return error,
            };
            let Ok(permit) = Arc::clone(&self.connections).try_acquire_owned() else { continue };
            if self.serves(from) {
                let server = self.clone();
                tokio::spawn(async move {
                    let _permit = permit;
                    // Errors only concern this connection.
                    let _ = server.connection(stream).await;
                });
            }
        }
    }

    /// Messages after their lengths, one after the other (RFC 1035 4.2.2, RFC 7766).
    async fn connection(&self, mut stream: TcpStream) -> io::Result<()> {
        loop {
            let length = within(stream.read_u16()).await?;
            let mut message = vec![0; usize::from(length)];
            within(stream.read_exact(&mut message)).await?;
            let Some(answer) = self.answer(&message) else { return Ok(()) };
            let length = u16::try_from(answer.len()).map_err(io::Error::other)?;
            within(stream.write_all(&[&length.to_be_bytes(), answer.as_slice()].concat())).await?;
        }
    }

    fn answer(&self, message: &[u8]) -> Option<Vec<u8>> {
        let answer = (self.current)().answer(message);
        if let Some(refused) = answer.refused {
            self.lines.lock().unwrap_or_else(PoisonError::into_inner).say(refused);
        }
        answer.bytes
    }
}

async fn within<T>(step: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(IDLE, step).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Whether an error only concerns one datagram or connection, or is temporary: an ICMP error, an aborted connection, a
/// full table.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    let of_process =
        [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE, rustix::io::Errno::NOBUFS].map(|e| Some(e.raw_os_error()));
    let known = [
        Kind::ConnectionRefused,
        Kind::ConnectionReset,
        Kind::ConnectionAborted,
        Kind::HostUnreachable,
        Kind::NetworkUnreachable,
        Kind::Interrupted,
        Kind::OutOfMemory,
    ];
    known.contains(&error.kind()) || of_process.contains(&error.raw_os_error())
}

/// Log entries for refused names: one for each or, if there are too many, one per second with a count.
struct Lines {
    sink: Arc<Sink>,
    left: u32,
    this_second: u32,
    held: u64,
    last: Option<RefusedName>,
}

impl Lines {
    fn new(sink: Arc<Sink>) -> Self {
        Self { sink, left: LINES, this_second: 0, held: 0, last: None }
    }

    fn say(&mut self, refused: RefusedName) {
        self.this_second = self.this_second.saturating_add(1);
        if let Some(left) = self.left.checked_sub(1) {
            self.left = left;
            (self.sink)(&refused);
        } else {
            self.held += 1;
            self.last = Some(refused);
        }
    }

    fn second(&mut self) {
        self.flush();
        if self.this_second <= CALM {
            self.left = LINES;
        }
        self.this_second = 0;
    }

    fn flush(&mut self) {
        if let Some(last) = self.last.take() {
            (self.sink)(&RefusedName { count: Some(self.held), ..last });
            self.held = 0;
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests;
