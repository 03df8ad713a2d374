//! What the modes of the program share: lines for people, signals, sockets and limits.

use std::net::{SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};

/// The exit code of a process that SIGTERM ends.
pub const TERMINATED: u8 = 143;

/// The backlog of each listener.
const BACKLOG: i32 = 1024;

/// What a signal does until a mode handles it: PID 1 would otherwise ignore it, and podman would wait ten seconds
/// before it kills the container.
#[derive(Clone, Debug)]
pub struct Early(Arc<AtomicBool>);

impl Early {
    /// From now on, SIGTERM and SIGINT end the process.
    pub(super) fn install() -> std::io::Result<Self> {
        let armed = Arc::new(AtomicBool::new(true));
        for signal in [SIGTERM, SIGINT] {
            signal_hook::flag::register_conditional_shutdown(signal, i32::from(TERMINATED), Arc::clone(&armed))?;
        }
        Ok(Self(armed))
    }

    /// From now on, the mode handles signals itself.
    pub fn disarm(&self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

/// An informational line: a runner that waits for a start stops at any other line.
pub fn note(line: &str) {
    say(&format!("note: {line}"));
}

/// A line for people.
pub fn say(line: &str) {
    use std::io::Write as _;
    let mut text = line.to_owned();
    text.push('\n');
    // There may be no reader.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// A socket that listens, and does not block.
pub(super) fn listen(address: SocketAddrV4) -> std::io::Result<std::net::TcpListener> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &SocketAddr::V4(address))?;
    listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// Two descriptors for each connection, and one for each listener: raises the limit as far as possible.
pub(super) fn raise_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // If the limit cannot be raised, connections beyond it wait.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
