//! Sockets handed from one thread to another, and everything that may not be.

use std::net::{TcpStream, UdpSocket};
use std::thread;

use super::*;

fn listener() -> (TcpListener, SocketAddrV4) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let SocketAddr::V4(at) = listener.local_addr().unwrap() else { panic!() };
    (listener, at)
}

/// What a counter makes of what `give` does with a connection to it.
fn taken<T: Send + 'static>(
    planned: &Listeners,
    give: impl FnOnce(&Path) -> T + Send + 'static,
) -> (Result<Handed, String>, T) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("router");
    let counter = Counter::open(&path).unwrap();
    let giver = thread::spawn(move || give(&path));
    let taken = counter.take("p", planned);
    (taken, giver.join().unwrap())
}

#[test]
fn who_takes_a_listener_accepts_what_comes_to_it() {
    let listeners: Vec<_> = (0..300).map(|_| listener()).collect();
    let mut planned = Listeners::new();
    planned.extend(listeners.iter().zip(0..).map(|((_, at), port)| (*at, port)));
    let at = listeners[299].1;
    let (handed, lease) = taken(&planned, move |path| {
        let listeners: Vec<TcpListener> = listeners.into_iter().map(|(listener, _)| listener).collect();
        offer(path, "p", &listeners)
        // Their own copies end here: the router's are enough.
    });
    let (handed, lease) = (handed.unwrap(), lease.unwrap());
    assert_eq!(handed.listeners.len(), 300);
    let (_, listener) = handed.listeners.iter().find(|(port, _)| *port == 299).unwrap();
    let _client = TcpStream::connect(at).unwrap();
    listener.set_nonblocking(false).unwrap();
    assert!(listener.accept().is_ok());
    // The lease ends with the other side.
    let waiting = thread::spawn(move || handed.lease.wait(&bell()));
    assert!(!waiting.is_finished());
    drop(lease);
    assert!(!waiting.join().unwrap());
}

fn bell() -> OwnedFd {
    rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap()
}

#[test]
fn more_listeners_are_requested_while_the_lease_lasts() {
    let free = || listener().1;
    let (planned, lent) = (Listeners::new(), free());
    let (handed, serving) = taken(&planned, move |path| {
        let lease = offer(path, "p", &[] as &[TcpListener]).unwrap();
        thread::spawn(move || {
            lease.serve(|at| match at {
                at if at == lent => TcpListener::bind(at),
                // Somewhere else, which the router notices.
                at if at.port() == 1 => TcpListener::bind("127.0.0.1:0"),
                _ => Err(io::ErrorKind::PermissionDenied.into()),
            });
        })
    });
    let lease = handed.unwrap().lease;
    let listener = lease.request(lent).unwrap();
    let _client = TcpStream::connect(lent).unwrap();
    listener.set_nonblocking(false).unwrap();
    assert!(listener.accept().is_ok());
    let refused = lease.request(free()).unwrap_err();
    assert!(refused.contains("cannot listen on 127.0.0.1:") && refused.contains("permission denied"), "{refused}");
    let elsewhere = lease.request(SocketAddrV4::new([127, 0, 0, 1].into(), 1)).unwrap_err();
    assert!(elsewhere.contains("which is not planned"), "{elsewhere}");
    // It is a lease still, and the bell is heard.
    let bell = bell();
    rustix::io::write(&bell, &1_u64.to_ne_bytes()).unwrap();
    assert!(lease.wait(&bell));
    drop(lease);
    serving.join().unwrap();
}

#[test]
fn what_is_not_planned_is_refused_and_both_know_why() {
    let (own, at) = listener();
    let planned = Listeners::from([(at, 80)]);
    let offered = |listeners: Vec<TcpListener>, plan: &'static str| {
        let (handed, lease) = taken(&planned, move |path| offer(path, plan, &listeners));
        let (why, said) = (handed.unwrap_err(), lease.unwrap_err());
        assert!(said.contains(&why), "{said:?} {why:?}");
        why
    };
    assert!(offered(vec![], "p").contains("1 of the planned listeners"));
    assert!(offered(vec![own.try_clone().unwrap()], "q").contains("not the forwarder of plan p"));
    assert!(offered(vec![listener().0], "p").contains("not planned"));
    assert!(offered(vec![own.try_clone().unwrap(), own.try_clone().unwrap()], "p").contains("came before"));
    let (handed, lease) = taken(&planned, move |path| offer(path, "p", &[own]));
    assert!(handed.is_ok() && lease.is_ok());
}

#[test]
fn only_listening_tcp_sockets_are_taken() {
    let (own, at) = listener();
    let connected = TcpStream::connect(at).unwrap();
    let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
    let file = fs::File::open("/dev/null").unwrap();
    let fds: [OwnedFd; 3] = [connected.into(), datagrams.into(), file.into()];
    for fd in fds {
        let (handed, ()) = taken(&Listeners::from([(at, 80)]), move |path| {
            let stream = connect_to(path).unwrap();
            send(&stream, b"plan p", &[]).unwrap();
            send(&stream, SOCKETS, &[fd.as_fd()]).unwrap();
            let _ = next(&stream);
        });
        let why = handed.unwrap_err();
        assert!(why.contains("does not listen for TCP") || why.contains("cannot be looked at"), "{why}");
    }
    drop(own);
}

#[test]
fn what_says_something_else_or_nothing_is_refused() {
    let planned = Listeners::new();
    let said = |messages: &'static [&'static [u8]]| {
        let (handed, ()) = taken(&planned, move |path| {
            let stream = connect_to(path).unwrap();
            for message in messages {
                let _ = send(&stream, message, &[]);
            }
        });
        handed.unwrap_err()
    };
    assert!(said(&[]).contains("ended"));
    assert!(said(&[b"plan p"]).contains("ended"));
    assert!(said(&[b"plan p", b"more"]).contains("unexpected message"));
    assert!(said(&[&[b'x'; MESSAGE + 1]]).contains("too long"));
}

#[test]
fn a_socket_that_a_router_before_has_left_is_replaced_and_is_its_users_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("router");
    drop(Counter::open(&path).unwrap());
    assert!(offer(&path, "p", &[] as &[TcpListener]).is_err(), "nobody is there");
    let _counter = Counter::open(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}
