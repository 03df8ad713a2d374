//! The router's stub resolver: A records of allowed names, from the servers in the plan, checked by the address guard.
//!
//! It does not use the C library: a static binary has no name service switch, and the checked address must be the
//! dialed one. It returns addresses, so callers never look up a name twice.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hickory_proto::op::{DEFAULT_MAX_PAYLOAD_LEN, Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::{Name, RData, RecordType};
use thiserror::Error;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, UdpSocket};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::policy::{AddressGuard, HostName};

/// When the next server is asked as well, and when a datagram is sent again.
const PATIENCE: Duration = Duration::from_secs(1);

/// The total time limit. (By default, stub resolvers wait 5 s for one server, resolv.conf(5).)
const DEADLINE: Duration = Duration::from_secs(6);

/// The maximum number of concurrent queries, each with its own socket.
const QUERIES: usize = 256;

/// Names are cached for their records' TTL, within these limits.
const REMEMBERED: usize = 1000;
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(300);

/// A longer chain of aliases is refused (BIND and unbound stop at 11 to 16).
const ALIASES: usize = 16;

/// Why a name cannot be dialed. Each cause has its own variant, since each needs a different fix.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ResolveError {
    /// The name does not exist (NXDOMAIN).
    #[error("the name does not exist")]
    NoSuchName,
    /// The name exists, but has no address.
    #[error("the name has no address")]
    NoAddress,
    /// The name only has IPv6 addresses, which the router does not support.
    #[error("the name has IPv6 addresses only, and the router has no IPv6")]
    Ipv6Only,
    /// Every server refused or failed; the first one with this response code (RFC 1035 4.1.1).
    #[error("the resolver {server} responded with {code}")]
    Failed {
        /// The server.
        server: IpAddr,
        /// `SERVFAIL`, `REFUSED`, or what could not be parsed.
        code: &'static str,
    },
    /// No server responded in time, or none could be reached.
    #[error("no resolver responded within {} s", DEADLINE.as_secs())]
    NoAnswer,
    /// One of its addresses must not be reached by this name.
    #[error("the name resolves to {address}, which is not a public address")]
    PrivateAddress {
        /// The first address that the guard refuses.
        address: Ipv4Addr,
    },
}

/// Resolves names. Cheap to clone; clones share the cache.
#[derive(Clone, Debug)]
pub struct Resolver {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    servers: Vec<SocketAddr>,
    guard: AddressGuard,
    remembered: Mutex<HashMap<HostName, Remembered>>,
    permits: Semaphore,
}

#[derive(Clone, Debug)]
struct Remembered {
    addresses: Vec<Ipv4Addr>,
    until: Instant,
}

/// The records of one type for a name.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    /// The addresses (empty for other types than A) and their TTL.
    Found(Vec<Ipv4Addr>, Duration),
    NoRecords,
    NoSuchName,
}

/// Why a server did not help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Code(&'static str),
    Silent,
}

impl Resolver {
    /// A resolver that asks `servers` in order and returns addresses that `guard` permits. Ignores IPv6 servers, since
    /// the router has no IPv6.
    pub fn new(servers: impl IntoIterator<Item = SocketAddr>, guard: AddressGuard) -> Self {
        let servers = servers.into_iter().filter(SocketAddr::is_ipv4).collect();
        let (remembered, permits) = (Mutex::default(), Semaphore::new(QUERIES));
        Self { shared: Arc::new(Shared { servers, guard, remembered, permits }) }
    }

    /// The addresses of an allowed name, in the server's order; never empty. If the guard refuses one address, the
    /// whole name is refused: otherwise whoever wrote the records could choose.
    ///
    /// # Errors
    /// A [`ResolveError`] for each cause, after at most six seconds.
    pub async fn resolve(&self, name: &HostName, private: bool) -> Result<Vec<Ipv4Addr>, ResolveError> {
        let addresses = self.addresses(name).await?;
        match addresses.iter().find(|address| self.shared.guard.refuses(IpAddr::V4(**address), private)) {
            Some(&address) => Err(ResolveError::PrivateAddress { address }),
            None => Ok(addresses),
        }
    }

    async fn addresses(&self, name: &HostName) -> Result<Vec<Ipv4Addr>, ResolveError> {
        if let Some(known) = self.recall(name) {
            return Ok(known);
        }
        // The semaphore is never closed, so a permit becomes available.
        let _permit = self.shared.permits.acquire().await.map_err(|_| ResolveError::NoAnswer)?;
        if let Some(known) = self.recall(name) {
            return Ok(known);
        }
        let query = query_name(name)?;
        match self.ask(&query, RecordType::A, DEADLINE).await? {
            Answer::Found(addresses, ttl) => {
                self.remember(name, &addresses, ttl);
                Ok(addresses)
            }
            Answer::NoSuchName => Err(ResolveError::NoSuchName),
            // Only asked to choose the right error.
            Answer::NoRecords => match self.ask(&query, RecordType::AAAA, PATIENCE).await {
                Ok(Answer::Found(..)) => Err(ResolveError::Ipv6Only),
                _ => Err(ResolveError::NoAddress),
            },
        }
    }

    /// Asks the first server, then the next one as well if that fails or is slow, and so on. A late response still
    /// counts.
    async fn ask(&self, name: &Name, kind: RecordType, within: Duration) -> Result<Answer, ResolveError> {
        let end = Instant::now() + within;
        let mut asked = JoinSet::new();
        let mut servers = self.shared.servers.iter();
        let mut failed = None;
        loop {
            if let Some(&server) = servers.next() {
                let name = name.clone();
                asked.spawn(async move { (server, ask_one(server, &name, kind).await) });
            }
            let result = tokio::select! {
                result = asked.join_next() => result,
                () = sleep(PATIENCE), if servers.len() > 0 => continue,
                () = sleep_until(end) => None,
            };
            match result {
                Some(Ok((_, Ok(answer)))) => return Ok(answer),
                Some(Ok((server, Err(Fault::Code(code))))) => {
                    failed.get_or_insert(ResolveError::Failed { server: server.ip(), code });
                }
                Some(_) => {}
                None => return Err(failed.unwrap_or(ResolveError::NoAnswer)),
            }
        }
    }

    fn recall(&self, name: &HostName) -> Option<Vec<Ipv4Addr>> {
        let remembered = self.shared.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.get(name).filter(|known| known.until > Instant::now()).map(|known| known.addresses.clone())
    }

    fn remember(&self, name: &HostName, addresses: &[Ipv4Addr], ttl: Duration) {
        let now = Instant::now();
        let mut remembered = self.shared.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        if remembered.len() >= REMEMBERED {
            remembered.retain(|_, known| known.until > now);
        }
        if remembered.len() >= REMEMBERED {
            remembered.clear();
        }
        let until = now + ttl.clamp(SHORTEST, LONGEST);
        remembered.insert(name.clone(), Remembered { addresses: addresses.to_vec(), until });
    }
}

fn query_name(name: &HostName) -> Result<Name, ResolveError> {
    // A name of 253 bytes always fits; the error only satisfies the type.
    Name::from_ascii(format!("{name}.")).map_err(|_| ResolveError::NoSuchName)
}

/// Asks a server by UDP from a random port with a random id, and by TCP if the response does not fit.
async fn ask_one(server: SocketAddr, name: &Name, kind: RecordType) -> Result<Answer, Fault> {
    let mut query = Message::query();
    query.metadata.recursion_desired = true;
    query.add_query(Query::query(name.clone(), kind));
    query.set_edns(Edns::new().set_max_payload(DEFAULT_MAX_PAYLOAD_LEN).set_version(0).clone());
    let mut reply = by_udp(server, &query).await?;
    if matches!(reply.metadata.response_code, ResponseCode::FormErr | ResponseCode::NotImp) {
        // A server older than RFC 6891.
        query.edns = None;
        reply = by_udp(server, &query).await?;
    }
    if reply.metadata.truncation {
        reply = by_tcp(server, &query).await?;
    }
    read_answer(&reply, name, kind)
}

async fn by_udp(server: SocketAddr, query: &Message) -> Result<Message, Fault> {
    let bytes = query.to_vec().map_err(|_| Fault::Silent)?;
    let socket = UdpSocket::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))).await.map_err(|_| Fault::Silent)?;
    // The kernel drops packets from other addresses, and reports if nothing is listening.
    socket.connect(server).await.map_err(|_| Fault::Silent)?;
    let mut buffer = vec![0; 4096];
    loop {
        socket.send(&bytes).await.map_err(|_| Fault::Silent)?;
        let again = sleep(PATIENCE);
        tokio::pin!(again);
        loop {
            let received = tokio::select! {
                received = socket.recv(&mut buffer) => received,
                () = &mut again => break,
            };
            let length = received.map_err(|_| Fault::Silent)?;
            // Anything but the response to this question is not from the server, or not for us.
            if let Some(reply) = buffer.get(..length).and_then(|bytes| fitting(bytes, query)) {
                return Ok(reply);
            }
        }
    }
}

async fn by_tcp(server: SocketAddr, query: &Message) -> Result<Message, Fault> {
    let exchange = async {
        let bytes = query.to_vec().map_err(io::Error::other)?;
        let length = u16::try_from(bytes.len()).map_err(io::Error::other)?;
        let mut stream = TcpSocket::new_v4()?.connect(server).await?;
        stream.write_all(&[&length.to_be_bytes(), bytes.as_slice()].concat()).await?;
        let mut reply = vec![0; usize::from(stream.read_u16().await?)];
        stream.read_exact(&mut reply).await?;
        Ok::<_, io::Error>(reply)
    };
    let bytes = exchange.await.map_err(|_| Fault::Code("a truncated response, and none over TCP"))?;
    let reply = fitting(&bytes, query).ok_or(Fault::Code("an invalid response over TCP"))?;
    if reply.metadata.truncation { Err(Fault::Code("a truncated response over TCP")) } else { Ok(reply) }
}

/// Parses the message if it is the response to this question.
fn fitting(bytes: &[u8], query: &Message) -> Option<Message> {
    let reply = Message::from_vec(bytes).ok()?;
    let head = &reply.metadata;
    let ours = head.id == query.metadata.id
        && head.message_type == MessageType::Response
        && head.op_code == OpCode::Query
        && (reply.queries == query.queries
            // A server that could not parse the question does not have to repeat it.
            || (reply.queries.is_empty() && head.response_code == ResponseCode::FormErr));
    ours.then_some(reply)
}

/// What the records say about the name itself. Records of other owners do not count, in any section.
fn read_answer(reply: &Message, name: &Name, kind: RecordType) -> Result<Answer, Fault> {
    match reply.metadata.response_code {
        ResponseCode::NoError => {}
        ResponseCode::NXDomain => return Ok(Answer::NoSuchName),
        ResponseCode::Refused => return Err(Fault::Code("REFUSED")),
        ResponseCode::ServFail => return Err(Fault::Code("SERVFAIL")),
        ResponseCode::FormErr => return Err(Fault::Code("FORMERR")),
        ResponseCode::NotImp => return Err(Fault::Code("NOTIMP")),
        _ => return Err(Fault::Code("an unknown code")),
    }
    let mut owner = name;
    let mut ttl = u32::MAX;
    for _ in 0..ALIASES {
        let own = || reply.answers.iter().filter(|record| record.name == *owner);
        let of_kind: Vec<_> = own().filter(|record| record.record_type() == kind).collect();
        if !of_kind.is_empty() {
            let ttl = of_kind.iter().map(|record| record.ttl).fold(ttl, u32::min);
            let addresses = of_kind.iter().filter_map(|record| match &record.data {
                RData::A(address) => Some(address.0),
                _ => None,
            });
            return Ok(Answer::Found(addresses.collect(), Duration::from_secs(u64::from(ttl))));
        }
        let alias = own().find_map(|record| match &record.data {
            RData::CNAME(target) => Some((&target.0, record.ttl)),
            _ => None,
        });
        let Some((target, alias_ttl)) = alias else { return Ok(Answer::NoRecords) };
        (owner, ttl) = (target, ttl.min(alias_ttl));
    }
    Err(Fault::Code("an endless chain of aliases"))
}

#[cfg(test)]
mod tests;
