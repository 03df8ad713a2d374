//! Hands listening sockets from the forwarder to the router, through a unix socket in a volume that only these two
//! share.
//!
//! A socket belongs to the network namespace in which it was created, so a router that accepts on the agent pod's
//! sockets serves the agent without a hop in between. The connection over which they came is a lease: when it ends, the
//! router closes them, since they keep the other namespace alive. Over the same connection, the router requests
//! listeners for named ports that a new policy adds. Only the forwarder mounts the volume, never the agent, and the
//! router checks the sockets nevertheless.

use std::fs;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, SocketAddrV4, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen,
    recvmsg, sendmsg, socket_with,
};

use super::pod_file::Listeners;

/// The router's socket in the shared volume.
pub const SOCKET: &str = "/run/handover/router";

/// The number of sockets in a message (`SCM_MAX_FD` is 253, unix(7)).
const BATCH: usize = 128;

/// The maximum size of a message, which is short.
const MESSAGE: usize = 256;

/// How long either side waits for the other while sockets are handed over.
const PATIENCE: Duration = Duration::from_secs(5);

/// The beginning of a message.
const PLAN: &[u8] = b"plan ";
const SOCKETS: &[u8] = b"sockets";
const END: &[u8] = b"end";
const TAKEN: &[u8] = b"taken";
const LISTEN: &[u8] = b"listen ";
const REFUSED: &[u8] = b"refused: ";

/// The router's end, which waits for a forwarder.
#[derive(Debug)]
pub struct Counter {
    socket: OwnedFd,
}

/// Sockets that a forwarder has handed over, each with the router's port that it stands for.
#[derive(Debug)]
pub struct Handed {
    /// All planned sockets.
    pub listeners: Vec<(u16, TcpListener)>,
    /// Valid as long as the forwarder is.
    pub lease: Lease,
}

/// The connection over which sockets were handed over.
#[derive(Debug)]
pub struct Lease {
    stream: OwnedFd,
}

impl Lease {
    /// The router waits: true if `bell` can be read, false if the forwarder has closed the connection.
    pub fn wait(&self, bell: &impl AsFd) -> bool {
        let mut both = [PollFd::new(&self.stream, PollFlags::IN), PollFd::new(bell, PollFlags::IN)];
        match rustix::io::retry_on_intr(|| poll(&mut both, None)) {
            // A forwarder only speaks when it is asked.
            Ok(_) => both.iter().map(PollFd::revents).eq([PollFlags::empty(), PollFlags::IN]),
            Err(_) => false,
        }
    }

    /// The router requests a listener on another address of the agent's pod.
    ///
    /// # Errors
    /// A clause that says why there is none.
    pub fn request(&self, at: SocketAddrV4) -> Result<TcpListener, String> {
        set_timeouts(&self.stream, Some(PATIENCE)).map_err(|error| error.to_string())?;
        let sent = send(&self.stream, &[LISTEN, at.to_string().as_bytes()].concat(), &[]);
        sent.map_err(|error| format!("asking for a listener on {at}: {error}"))?;
        let (said, fds) = next(&self.stream)?;
        if let Some(why) = said.strip_prefix(REFUSED) {
            return Err(format!("the forwarder cannot listen on {at}: {}", String::from_utf8_lossy(why)));
        }
        let mut planned = Listeners::from([(at, at.port())]);
        let mut listeners = fds.into_iter().map(|fd| checked(fd, &mut planned));
        match (said.as_slice(), listeners.next(), listeners.next()) {
            (SOCKETS, Some(listener), None) => listener.map(|(_, listener)| listener),
            _ => Err("the forwarder sent an unexpected message".to_owned()),
        }
    }

    /// The forwarder serves such requests with `listen`, until the router closes the connection.
    pub fn serve(self, listen: impl Fn(SocketAddrV4) -> io::Result<TcpListener>) {
        // Any other message or error also ends it.
        while let Ok((said, _)) = next(&self.stream) {
            let wanted = said.strip_prefix(LISTEN).and_then(|at| std::str::from_utf8(at).ok()?.parse().ok());
            let Some(at) = wanted else { return };
            let sent = match listen(at) {
                // Its own copy ends here: the router's is enough.
                Ok(listener) => send(&self.stream, SOCKETS, &[listener.as_fd()]),
                Err(error) => send(&self.stream, &[REFUSED, error.to_string().as_bytes()].concat(), &[]),
            };
            if sent.is_err() {
                return;
            }
        }
    }
}

impl Counter {
    /// Creates the socket at `path`, and replaces one that a previous router left.
    pub fn open(path: &Path) -> io::Result<Self> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        // Connecting requires write permission on the file (unix(7)), which only this user has. SO_PEERCRED does not help: the
        // forwarder is in another PID namespace, so it has no pid here.
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        listen(&socket, 1)?;
        Ok(Self { socket })
    }

    /// Waits for a forwarder and takes its sockets if they are exactly those that were planned. Both sides learn the
    /// reason for a refusal.
    ///
    /// # Errors
    /// A clause. The caller can wait for the next forwarder.
    pub fn take(&self, plan: &str, planned: &Listeners) -> Result<Handed, String> {
        let stream = rustix::io::retry_on_intr(|| accept_with(&self.socket, SocketFlags::CLOEXEC))
            .map_err(|error| format!("accepting: {error}"))?;
        set_timeouts(&stream, Some(PATIENCE)).map_err(|error| error.to_string())?;
        let taken = receive(&stream, plan, planned);
        let answer = match &taken {
            Ok(_) => TAKEN.to_vec(),
            Err(why) => [REFUSED, why.as_bytes()].concat().into_iter().take(MESSAGE).collect(),
        };
        let answered = send(&stream, &answer, &[]);
        let listeners = taken?;
        answered.map_err(|error| format!("answering: {error}"))?;
        set_timeouts(&stream, None).map_err(|error| error.to_string())?;
        Ok(Handed { listeners, lease: Lease { stream } })
    }
}

fn receive(stream: &OwnedFd, plan: &str, planned: &Listeners) -> Result<Vec<(u16, TcpListener)>, String> {
    let (hello, fds) = next(stream)?;
    if hello.strip_prefix(PLAN) != Some(plan.as_bytes()) || !fds.is_empty() {
        return Err(format!("it is not the forwarder of plan {plan}"));
    }
    let mut left = planned.clone();
    let mut listeners = Vec::new();
    loop {
        let (said, fds) = next(stream)?;
        match said.as_slice() {
            END if fds.is_empty() && left.is_empty() => return Ok(listeners),
            END => return Err(format!("{} of the planned listeners are not there", left.len())),
            SOCKETS => {
                for fd in fds {
                    listeners.push(checked(fd, &mut left)?);
                }
            }
            _ => return Err("it sent an unexpected message".to_owned()),
        }
    }
}

/// A listening TCP socket on a planned address that has not been handed over yet.
fn checked(fd: OwnedFd, left: &mut Listeners) -> Result<(u16, TcpListener), String> {
    let what = |error: Errno| format!("a socket that cannot be looked at: {error}");
    let listens = sockopt::socket_acceptconn(&fd).map_err(what)?;
    let domain = sockopt::socket_domain(&fd).map_err(what)?;
    let kind = sockopt::socket_type(&fd).map_err(what)?;
    if !listens || domain != AddressFamily::INET || kind != SocketType::STREAM {
        return Err("a socket that does not listen for TCP".to_owned());
    }
    let listener = TcpListener::from(fd);
    let at = listener.local_addr().map_err(|error| error.to_string())?;
    let SocketAddr::V4(at) = at else { return Err("a socket of another family".to_owned()) };
    let port = left.remove(&at).ok_or_else(|| format!("a socket on {at}, which is not planned or came before"))?;
    listener.set_nonblocking(true).map_err(|error| error.to_string())?;
    Ok((port, listener))
}

/// Hands listeners over. The lease is valid as long as the router has them.
///
/// # Errors
/// A clause; the caller still has the listeners.
pub fn offer(path: &Path, plan: &str, listeners: &[impl AsFd]) -> Result<Lease, String> {
    let stream = connect_to(path).map_err(|error| error.to_string())?;
    let failed = |error: io::Error| format!("handing over: {error}");
    let sent = send_all(&stream, plan, listeners);
    // A router that refuses stops reading, and sends the reason.
    let answer = next(&stream);
    if let Some(why) = answer.as_ref().ok().and_then(|(answer, _)| answer.strip_prefix(REFUSED)) {
        return Err(format!("the router says: {}", String::from_utf8_lossy(why)));
    }
    sent.map_err(failed)?;
    if answer?.0 != TAKEN {
        return Err("the router sent an unexpected message".to_owned());
    }
    set_timeouts(&stream, None).map_err(failed)?;
    Ok(Lease { stream })
}

fn send_all(stream: &OwnedFd, plan: &str, listeners: &[impl AsFd]) -> io::Result<()> {
    send(stream, &[PLAN, plan.as_bytes()].concat(), &[])?;
    for batch in listeners.chunks(BATCH) {
        let fds: Vec<BorrowedFd<'_>> = batch.iter().map(AsFd::as_fd).collect();
        send(stream, SOCKETS, &fds)?;
    }
    send(stream, END, &[])
}

fn connect_to(path: &Path) -> io::Result<OwnedFd> {
    let stream = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    set_timeouts(&stream, Some(PATIENCE))?;
    connect(&stream, &SocketAddrUnix::new(path)?)?;
    Ok(stream)
}

fn set_timeouts(stream: &OwnedFd, timeout: Option<Duration>) -> io::Result<()> {
    sockopt::set_socket_timeout(stream, Timeout::Recv, timeout)?;
    sockopt::set_socket_timeout(stream, Timeout::Send, timeout)?;
    Ok(())
}

fn send(stream: &OwnedFd, message: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(BATCH))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::other("too many sockets for one message"));
    }
    loop {
        match sendmsg(stream, &[IoSlice::new(message)], &mut control, SendFlags::NOSIGNAL) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            // More descriptors in flight than this user may have; the router is taking them.
            Err(Errno::TOOMANYREFS) => std::thread::sleep(Duration::from_millis(1)),
            Err(error) => return Err(error.into()),
        }
    }
}

/// The next message with its descriptors. The kernel closes those that do not fit, and the message is refused.
fn next(stream: &OwnedFd) -> Result<(Vec<u8>, Vec<OwnedFd>), String> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(BATCH))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut buffer = vec![0; MESSAGE];
    let received = loop {
        match recvmsg(stream, &mut [IoSliceMut::new(&mut buffer)], &mut control, RecvFlags::CMSG_CLOEXEC) {
            // A side that closed with unread messages reports that once, before its own last message.
            Err(Errno::INTR | Errno::CONNRESET) => {}
            Err(Errno::AGAIN) => return Err("the other side says nothing".to_owned()),
            other => break other.map_err(|error| error.to_string())?,
        }
    };
    let fds: Vec<OwnedFd> = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        })
        .flatten()
        .collect();
    if received.bytes == 0 {
        return Err("the other side has ended".to_owned());
    }
    if received.flags.contains(ReturnFlags::CTRUNC) {
        return Err("it hands over more sockets than may be open: raise the limit of open files".to_owned());
    }
    if received.flags.contains(ReturnFlags::TRUNC) {
        return Err("a message that is too long".to_owned());
    }
    buffer.truncate(received.bytes);
    Ok((buffer, fds))
}

#[cfg(test)]
mod tests;
