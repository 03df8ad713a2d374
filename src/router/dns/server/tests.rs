//! The sockets, and how floods are logged.

use std::io::{Read as _, Write as _};

use tokio::net::TcpSocket;

use super::super::names::tests::{names, query};
use super::*;

type Said = Arc<Mutex<Vec<RefusedName>>>;

fn sink() -> (Arc<Sink>, Said) {
    let said = Said::default();
    let to = Arc::clone(&said);
    (Arc::new(move |line: &RefusedName| to.lock().unwrap().push(line.clone())), said)
}

async fn start(agent: Ipv4Addr) -> (SocketAddr, SocketAddr, Said) {
    let names = Arc::new(names());
    let (sink, said) = sink();
    let server = Server::new(agent, [127, 0, 0, 7].into(), Arc::new(move || Arc::clone(&names)), sink);
    let udp = UdpSocket::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let tcp = TcpSocket::new_v4().unwrap();
    tcp.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let tcp = tcp.listen(16).unwrap();
    let at = (udp.local_addr().unwrap(), tcp.local_addr().unwrap());
    tokio::spawn(async move { server.serve(udp, tcp).await });
    (at.0, at.1, said)
}

fn framed(message: &[u8]) -> Vec<u8> {
    [&u16::try_from(message.len()).unwrap().to_be_bytes(), message].concat()
}

#[tokio::test]
async fn udp_and_tcp_say_the_same() {
    let (udp, tcp, said) = start(Ipv4Addr::LOCALHOST).await;
    let work = tokio::task::spawn_blocking(move || {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut stream = std::net::TcpStream::connect(tcp).unwrap();
        for labels in [[b"api".as_slice(), b"test"], [b"bad".as_slice(), b"test"]] {
            let message = query(&labels, 1);
            socket.send_to(&message, udp).unwrap();
            let mut buffer = [0; 512];
            let (length, _) = socket.recv_from(&mut buffer).unwrap();
            stream.write_all(&framed(&message)).unwrap();
            let mut answer = vec![0; length + 2];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(answer, framed(&buffer[..length]));
        }
        // An invalid query ends the connection.
        stream.write_all(&framed(b"short")).unwrap();
        assert_eq!(stream.read(&mut [0; 9]).unwrap(), 0);
    });
    work.await.unwrap();
    let said = said.lock().unwrap();
    assert!(said.len() == 2 && said.iter().all(|line| line.host == "bad.test" && line.count.is_none()), "{said:?}");
}

#[tokio::test]
async fn nobody_but_the_agent_is_answered() {
    let (udp, tcp, _) = start([127, 0, 0, 9].into()).await;
    let work = tokio::task::spawn_blocking(move || {
        let message = query(&[b"api", b"test"], 1);
        let agent = std::net::UdpSocket::bind("127.0.0.9:0").unwrap();
        let other = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        other.send_to(&message, udp).unwrap();
        agent.send_to(&message, udp).unwrap();
        assert!(agent.recv(&mut [0; 512]).is_ok());
        let itself = std::net::UdpSocket::bind("127.0.0.7:0").unwrap();
        itself.send_to(&message, udp).unwrap();
        assert!(itself.recv(&mut [0; 512]).is_ok());
        other.set_nonblocking(true).unwrap();
        assert!(other.recv(&mut [0; 512]).is_err());
        let mut stream = std::net::TcpStream::connect(tcp).unwrap();
        let _ = stream.write_all(&framed(&message));
        assert!(matches!(stream.read(&mut [0; 9]), Ok(0) | Err(_)));
    });
    work.await.unwrap();
}

#[tokio::test]
async fn connections_are_bounded_and_come_free_again() {
    let (_, tcp, _) = start(Ipv4Addr::LOCALHOST).await;
    let work = tokio::task::spawn_blocking(move || {
        let message = framed(&query(&[b"api", b"test"], 1));
        let ask = |stream: &mut std::net::TcpStream| {
            stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            stream.write_all(&message).is_ok() && stream.read(&mut [0; 512]).is_ok_and(|n| n > 0)
        };
        let connect = || std::net::TcpStream::connect(tcp).unwrap();
        let mut held: Vec<_> = (0..CONNECTIONS).map(|_| connect()).collect();
        assert!(held.iter_mut().all(ask));
        assert!(!ask(&mut connect()), "one too many");
        held.clear();
        let free = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            ask(&mut connect())
        });
        assert!(free);
    });
    work.await.unwrap();
}

#[test]
fn a_flood_has_one_line_a_second_with_a_count() {
    let refused = |host: &str| names().answer(&query(&[host.as_bytes(), b"test"], 1)).refused.unwrap();
    let (sink, said) = sink();
    let mut lines = Lines::new(sink);
    let flood = |lines: &mut Lines, count: u32| {
        (0..count).for_each(|_| lines.say(refused("x")));
        lines.say(refused("last"));
        lines.second();
        std::mem::take(&mut *said.lock().unwrap())
    };
    let first = flood(&mut lines, LINES + 99);
    assert_eq!(first.len(), usize::try_from(LINES).unwrap() + 1);
    assert_eq!(first.last().map(|line| (line.host.as_str(), line.count)), Some(("last.test", Some(100))));
    let second = flood(&mut lines, 999);
    assert_eq!(second.iter().map(|line| line.count).collect::<Vec<_>>(), [Some(1000)]);
    // After a calm second, each name has its own line again.
    assert_eq!(flood(&mut lines, 0).len(), 1);
    let calm = flood(&mut lines, 20);
    assert!(calm.len() == 21 && calm.iter().all(|line| line.count.is_none()));
    (0..=LINES).for_each(|_| lines.say(refused("x")));
    drop(lines);
    assert_eq!(said.lock().unwrap().last().and_then(|line| line.count), Some(1), "the end loses none");
}
