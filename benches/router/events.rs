//! How much later than the host sends it the first event of a stream arrives.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::mint::surrogate;
use crate::policy::{self, CREDENTIAL, EVENTS_REDACTED};
use crate::secure::Secure;
use crate::upstream::add_address;
use crate::world::World;

const STREAMS: usize = 15;

/// Milliseconds.
pub struct Delays {
    pub median: f64,
    pub most: f64,
}

/// Opens streams one after another.
pub fn delays(world: &World, name: &str) -> Delays {
    let listener = world.as_router(|| {
        add_address(name);
        TcpListener::bind((policy::address(name), 443)).unwrap()
    });
    let pem = world.path("internet/good.pem");
    let chain = CertificateDer::pem_file_iter(&pem).unwrap().map(Result::unwrap).collect();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::from_pem_file(&pem).unwrap());
    let config = Arc::new(config.unwrap());
    let (sent, sending) = mpsc::channel();
    let host = std::thread::spawn(move || {
        for _ in 0..STREAMS {
            let (tcp, _) = listener.accept().unwrap();
            sent.send(stream(tcp, &config)).unwrap();
        }
    });
    let mut all: Vec<f64> = (0..STREAMS)
        .map(|_| {
            let arrived = arrival(world, name);
            arrived.saturating_duration_since(sending.recv().unwrap()).as_secs_f64() * 1e3
        })
        .collect();
    host.join().unwrap();
    all.sort_by(f64::total_cmp);
    Delays { median: all[STREAMS / 2], most: all[STREAMS - 1] }
}

/// The host's side: an event some time after the head. Returns when it was written.
fn stream(tcp: TcpStream, config: &Arc<ServerConfig>) -> Instant {
    tcp.set_nodelay(true).unwrap();
    let mut tls = StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), tcp);
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        tls.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
    tls.write_all(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n",
    )
    .unwrap();
    tls.flush().unwrap();
    std::thread::sleep(Duration::from_millis(150));
    let now = Instant::now();
    tls.write_all(b"f\r\nid: 1\ndata: 1\n\n\r\n").unwrap();
    tls.flush().unwrap();
    // Nothing more comes for a while that could push the event through.
    std::thread::sleep(Duration::from_millis(300));
    tls.write_all(b"0\r\n\r\n").unwrap();
    tls.conn.send_close_notify();
    tls.flush().unwrap();
    now
}

/// The agent's side: when the event had come.
fn arrival(world: &World, name: &str) -> Instant {
    let header = match name == EVENTS_REDACTED {
        true => format!("Authorization: Bearer {}\r\n", surrogate(CREDENTIAL)),
        false => String::new(),
    };
    let mut client = Secure::to(world, name);
    client.send(format!("GET /sse HTTP/1.1\r\nHost: {name}\r\nUser-Agent: bench\r\n{header}Connection: close\r\n\r\n"));
    client.until("data: 1\n\n");
    Instant::now()
}
