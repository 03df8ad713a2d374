//! What still works in a confined thread, and what does not. Each test confines its own thread.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::thread;

use super::*;

fn confined<T: Send + 'static>(permitted: Permitted, body: impl FnOnce(String) -> T + Send + 'static) -> T {
    thread::spawn(move || body(confine(&permitted, Threads::ThisAndItsOwn).unwrap())).join().unwrap()
}

#[test]
fn what_the_router_does_still_works() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("policy.json");
    fs::write(&file, "1").unwrap();
    confined(Permitted { read: vec![dir.path().to_owned()], ..Permitted::default() }, move |_| {
        // A rename replaces the file.
        fs::read(&file).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let _ = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).unwrap();
            let accepting = tokio::net::TcpListener::from_std({
                listener.set_nonblocking(true).unwrap();
                listener
            });
            let accepting = accepting.unwrap();
            let client = tokio::net::TcpSocket::new_v4().unwrap().connect(at).await.unwrap();
            let (served, _) = accepting.accept().await.unwrap();
            drop((client, served));
            let udp = tokio::net::UdpSocket::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
            udp.send_to(b"x", at).await.unwrap();
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        });
        let thread = thread::Builder::new().name("another".to_owned()).spawn(|| vec![0_u8; 1 << 24].len());
        assert_eq!(thread.unwrap().join().unwrap(), 1 << 24);
    });
}

#[test]
fn nothing_else_does() {
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("secret");
    fs::write(&secret, "1").unwrap();
    let permitted = Permitted { connect: Some(vec![9]), ..Permitted::default() };
    confined(permitted, move |said| {
        assert!(Command::new("/bin/true").status().is_err(), "no program starts");
        assert!(rustix::net::socket(rustix::net::AddressFamily::NETLINK, rustix::net::SocketType::RAW, None).is_err());
        if said.contains("Landlock on") {
            assert!(fs::read(&secret).is_err() && fs::write(&secret, "2").is_err());
            assert!(fs::read_dir("/proc/self/fd").is_err());
        }
        if said.contains("Landlock on,") {
            assert!(TcpListener::bind("127.0.0.1:0").is_err());
        }
        drop(UdpSocket::bind("127.0.0.1:0").unwrap());
    });
}

#[test]
fn one_that_listens_may_do_that_and_nothing_more() {
    confined(Permitted { listen: true, connect: Some(Vec::new()), ..Permitted::default() }, |said| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        if said.contains("Landlock on,") {
            assert!(TcpStream::connect(listener.local_addr().unwrap()).is_err());
        }
        assert!(Command::new("/bin/true").status().is_err());
    });
}

#[test]
fn ports_that_are_not_on_the_list_are_not_connected_to() {
    let [one, two] = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    let [one_at, two_at] = [&one, &two].map(|listener| listener.local_addr().unwrap());
    let permitted = Permitted { connect: Some(vec![one_at.port()]), ..Permitted::default() };
    confined(permitted, move |said| {
        assert!(TcpStream::connect(one_at).is_ok());
        if said.contains("Landlock on,") {
            assert!(TcpStream::connect(two_at).is_err());
        }
    });
}

#[test]
fn capabilities_go_and_do_not_come_back() {
    thread::spawn(|| {
        let wanted = CapabilitySet::NET_BIND_SERVICE;
        let had = capabilities(None).unwrap().permitted & wanted;
        keep_capabilities(wanted).unwrap();
        let sets = capabilities(None).unwrap();
        assert_eq!((sets.permitted, sets.effective, sets.inheritable), (had, had, CapabilitySet::empty()));
        keep_capabilities(CapabilitySet::empty()).unwrap();
        assert!(capabilities(None).unwrap().permitted.is_empty());
        keep_capabilities(wanted).unwrap();
        assert!(capabilities(None).unwrap().permitted.is_empty());
    })
    .join()
    .unwrap();
}
