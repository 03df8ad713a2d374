//! The forwarder without its pod: one listener, a router of the test's own.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::thread;

use super::*;

fn pod_file(router: Ipv4Addr) -> PodFile {
    PodFile {
        format: crate::router::policy_file::FORMAT,
        plan: "p".into(),
        internal: "127.0.0.0/8".parse().unwrap(),
        agent: Ipv4Addr::LOCALHOST,
        router,
        user_namespaces: true,
        net_namespaces: true,
        needs_nsdelegate: false,
        web_loopback: [127, 0, 1, 1].into(),
        tcp: Vec::new(),
    }
}

/// A forwarder of one listener that leads to a router which sends everything back; where clients connect.
fn start(router: SocketAddr, socket: &Path) -> (SocketAddr, watch::Receiver<bool>) {
    let listener = listen(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at = listener.local_addr().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let listeners = shared(&runtime, vec![listener]).unwrap();
    let lent = listeners.clone();
    let (handed, watched) = watch::channel(false);
    let (socket, seen) = (socket.to_owned(), watched.clone());
    thread::spawn(move || hand_over(&socket, "p", &lent, &handed));
    thread::spawn(move || {
        LocalSet::new().block_on(&runtime, serve(Ipv4Addr::LOCALHOST, &[router.port()], &listeners, watched))
    });
    (at, seen)
}

fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut bytes = Vec::new();
                stream.read_to_end(&mut bytes).unwrap();
                let _ = stream.write_all(&bytes);
            });
        }
    });
    at
}

fn said(at: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut client = std::net::TcpStream::connect(at).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    client.write_all(bytes).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut back = Vec::new();
    client.read_to_end(&mut back).unwrap();
    back
}

#[test]
fn bytes_and_both_ends_pass_over_tcp() {
    let dir = tempfile::tempdir().unwrap();
    let (at, _) = start(echo(), &dir.path().join("nobody"));
    let bytes: Vec<u8> = (0..=255_u8).cycle().take(1 << 20).collect();
    assert_eq!(said(at, &bytes), bytes);
    // A router that is gone is no answer, and no hanging.
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (at, _) = start(gone, &dir.path().join("nobody"));
    let mut client = std::net::TcpStream::connect(at).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    assert!(matches!(client.read(&mut [0; 1]), Ok(0) | Err(_)));
}

#[test]
fn what_is_handed_over_is_accepted_by_the_router_alone_until_it_lets_go() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("router");
    let counter = handover::Counter::open(&path).unwrap();
    let (at, mut handed) = start(echo(), &path);
    let SocketAddr::V4(place) = at else { panic!() };
    let planned = Listeners::from([(place, 7)]);
    let taken = counter.take("p", &planned).unwrap();
    let wait = |handed: &mut watch::Receiver<bool>, wanted: bool| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let wait = async { timeout(Duration::from_secs(30), handed.wait_for(|is| *is == wanted)).await.map(drop) };
        runtime.block_on(wait).unwrap();
    };
    wait(&mut handed, true);
    let (_, listener) = &taken.listeners[0];
    listener.set_nonblocking(false).unwrap();
    for _ in 0..20 {
        // Were the forwarder accepting too, it would take about half of them.
        let client = std::net::TcpStream::connect(at).unwrap();
        let (_, peer) = listener.accept().unwrap();
        assert_eq!(peer, client.local_addr().unwrap());
    }
    // The forwarder's descriptor is of the same socket, and it never waits in `accept`.
    listener.set_nonblocking(true).unwrap();
    drop(taken);
    wait(&mut handed, false);
    assert_eq!(said(at, b"over TCP again"), b"over TCP again");
    // And the next router takes them as well.
    assert!(counter.take("p", &planned).is_ok());
}

#[test]
fn what_cannot_be_bound_is_named() {
    let taken = TcpListener::bind("127.0.1.1:0").unwrap();
    let SocketAddr::V4(at) = taken.local_addr().unwrap() else { panic!() };
    assert!(bind(&Listeners::from([(at, 80)])).unwrap_err().starts_with(&format!("{at}: ")));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pod.json");
    std::fs::write(&path, serde_json::to_vec(&pod_file(Ipv4Addr::LOCALHOST)).unwrap()).unwrap();
    assert_eq!(pod_file::open(&path), Ok(pod_file(Ipv4Addr::LOCALHOST)));
    assert!(pod_file::open(&dir.path().join("none")).unwrap_err().contains("none"));
}
