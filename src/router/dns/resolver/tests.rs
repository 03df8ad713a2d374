//! The resolver with servers that respond as instructed.

use std::net::UdpSocket as Blocking;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use hickory_proto::rr::Record;
use hickory_proto::rr::rdata::{A, AAAA, CNAME};

use super::*;

/// What a server does with a query.
enum Reply {
    /// Responds with this.
    Say(Message),
    /// Does not respond.
    Nothing,
    /// Responds with these bytes first.
    Bytes(Vec<u8>),
}

struct Server {
    at: SocketAddr,
    asked: Arc<AtomicUsize>,
}

impl Server {
    /// Lives until the test's process ends.
    fn start(answer: impl Fn(&Message, usize) -> Vec<Reply> + Send + 'static) -> Self {
        let socket = Blocking::bind(("127.0.0.1", 0)).unwrap();
        let at = socket.local_addr().unwrap();
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok((length, from)) = socket.recv_from(&mut buffer) {
                let query = Message::from_vec(&buffer[..length]).unwrap();
                for reply in answer(&query, count.fetch_add(1, Ordering::SeqCst)) {
                    match reply {
                        Reply::Say(message) => drop(socket.send_to(&message.to_vec().unwrap(), from)),
                        Reply::Bytes(bytes) => drop(socket.send_to(&bytes, from)),
                        Reply::Nothing => {}
                    }
                }
            }
        });
        Self { at, asked }
    }

    fn coded(code: ResponseCode) -> Self {
        Self::start(move |query, _| {
            let mut reply = reply_to(query, &[]);
            reply.metadata.response_code = code;
            vec![Reply::Say(reply)]
        })
    }

    fn with(records: &'static [(&'static str, u32, &'static str)]) -> Self {
        Self::start(move |query, _| vec![Reply::Say(reply_to(query, records))])
    }

    fn silent() -> Self {
        Self::start(|_, _| vec![Reply::Nothing])
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

fn record(owner: &str, ttl: u32, data: &str) -> Record {
    let name = Name::from_ascii(owner).unwrap();
    let data = match (data.parse::<Ipv4Addr>(), data.parse::<std::net::Ipv6Addr>()) {
        (Ok(four), _) => RData::A(A(four)),
        (_, Ok(six)) => RData::AAAA(AAAA(six)),
        _ => RData::CNAME(CNAME(Name::from_ascii(data).unwrap())),
    };
    Record::from_rdata(name, ttl, data)
}

/// The records that the question asks for, and every alias.
fn reply_to(query: &Message, records: &[(&str, u32, &str)]) -> Message {
    let mut reply = Message::response(query.metadata.id, OpCode::Query);
    reply.add_queries(query.queries.iter().cloned());
    let kind = query.queries[0].query_type();
    let records = records.iter().map(|(owner, ttl, data)| record(owner, *ttl, data));
    reply.add_answers(records.filter(|one| [kind, RecordType::CNAME].contains(&one.record_type())));
    reply
}

fn name(text: &str) -> HostName {
    HostName::from_wire(text).unwrap()
}

fn guard() -> AddressGuard {
    crate::policy::Policy::default().guard(&["203.0.114.0/29".parse().unwrap()])
}

async fn resolve(servers: &[&Server], host: &str) -> Result<Vec<Ipv4Addr>, ResolveError> {
    Resolver::new(servers.iter().map(|server| server.at), guard()).resolve(&name(host), false).await
}

#[tokio::test]
async fn a_chain_of_aliases_leads_to_its_end_and_other_owners_do_not_count() {
    let server = Server::with(&[
        ("a.test.", 60, "B.example.test."),
        ("evil.test.", 60, "8.8.4.4"),
        ("b.EXAMPLE.test.", 60, "c.test."),
        ("c.test.", 60, "8.8.8.8"),
        ("c.test.", 60, "1.1.1.1"),
    ]);
    let found = resolve(&[&server], "a.test").await.unwrap();
    assert_eq!(found, [Ipv4Addr::new(8, 8, 8, 8), Ipv4Addr::new(1, 1, 1, 1)]);
    let stranger = Server::with(&[("evil.test.", 60, "8.8.4.4")]);
    assert_eq!(resolve(&[&stranger], "a.test").await, Err(ResolveError::NoAddress));
}

#[tokio::test]
async fn aliases_in_a_circle_end() {
    let server = Server::with(&[("a.test.", 60, "b.test."), ("b.test.", 60, "a.test.")]);
    let failed = resolve(&[&server], "a.test").await.unwrap_err();
    assert!(matches!(failed, ResolveError::Failed { code: "an endless chain of aliases", .. }), "{failed:?}");
}

#[tokio::test]
async fn each_cause_has_its_own_error() {
    let failed = |server: &Server, code| ResolveError::Failed { server: server.at.ip(), code };
    let missing = Server::coded(ResponseCode::NXDomain);
    assert_eq!(resolve(&[&missing], "a.test").await, Err(ResolveError::NoSuchName));
    let empty = Server::with(&[]);
    assert_eq!(resolve(&[&empty], "a.test").await, Err(ResolveError::NoAddress));
    let six = Server::with(&[("a.test.", 60, "2606:4700::1")]);
    assert_eq!(resolve(&[&six], "a.test").await, Err(ResolveError::Ipv6Only));
    let refused = Server::coded(ResponseCode::Refused);
    assert_eq!(resolve(&[&refused], "a.test").await, Err(failed(&refused, "REFUSED")));
    let broken = Server::coded(ResponseCode::ServFail);
    assert_eq!(resolve(&[&broken, &refused], "a.test").await, Err(failed(&broken, "SERVFAIL")));
    assert_eq!(resolve(&[], "a.test").await, Err(ResolveError::NoAnswer));
}

#[tokio::test]
async fn one_refused_address_refuses_the_name() {
    for (bad, host) in [("10.0.0.1", "a.test"), ("203.0.114.2", "b.test"), ("168.63.129.16", "c.test")] {
        let server = Server::start(move |query, _| {
            vec![Reply::Say(reply_to(query, &[(&format!("{host}."), 60, "8.8.8.8"), (&format!("{host}."), 60, bad)]))]
        });
        let address = bad.parse().unwrap();
        assert_eq!(resolve(&[&server], host).await, Err(ResolveError::PrivateAddress { address }), "{bad}");
    }
}

#[tokio::test]
async fn a_private_name_may_lead_to_a_private_address_but_not_to_ours() {
    let server = Server::with(&[("a.test.", 60, "10.0.0.1"), ("own.test.", 60, "203.0.114.2")]);
    let resolver = Resolver::new([server.at], guard());
    let refused = |address: [u8; 4]| Err(ResolveError::PrivateAddress { address: address.into() });
    assert_eq!(resolver.resolve(&name("a.test"), true).await, Ok(vec![[10, 0, 0, 1].into()]));
    assert_eq!(resolver.resolve(&name("a.test"), false).await, refused([10, 0, 0, 1]), "remembered, and guarded anew");
    assert_eq!(resolver.resolve(&name("own.test"), true).await, refused([203, 0, 114, 2]));
}

#[tokio::test]
async fn the_second_server_is_asked_where_the_first_fails_or_is_slow() {
    let good = Server::with(&[("a.test.", 60, "8.8.8.8")]);
    for first in [Server::coded(ResponseCode::Refused), Server::coded(ResponseCode::ServFail), Server::silent()] {
        assert_eq!(resolve(&[&first, &good], "a.test").await, Ok(vec![[8, 8, 8, 8].into()]));
        assert!(first.asked() >= 1);
    }
    let closed = Blocking::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let resolver = Resolver::new([closed, good.at], guard());
    let start = Instant::now();
    assert!(resolver.resolve(&name("a.test"), false).await.is_ok());
    assert!(start.elapsed() < PATIENCE, "a port that is closed says so at once");
}

#[tokio::test]
async fn servers_are_asked_in_their_order() {
    let first = Server::with(&[("a.test.", 60, "8.8.8.8")]);
    let second = Server::with(&[("a.test.", 60, "9.9.9.9")]);
    assert_eq!(resolve(&[&first, &second], "a.test").await, Ok(vec![[8, 8, 8, 8].into()]));
    let missing = Server::coded(ResponseCode::NXDomain);
    assert_eq!(resolve(&[&missing, &second], "a.test").await, Err(ResolveError::NoSuchName), "a no is an answer");
    assert_eq!(second.asked(), 0);
}

#[tokio::test]
async fn silence_ends() {
    let silent = Server::silent();
    let start = Instant::now();
    assert_eq!(resolve(&[&silent], "a.test").await, Err(ResolveError::NoAnswer));
    assert!(start.elapsed() < DEADLINE + PATIENCE);
    assert!(silent.asked() > 1, "datagrams get lost, so it is sent again");
}

#[tokio::test]
async fn what_is_not_the_answer_is_not_taken() {
    let server = Server::start(|query, _| {
        let good = reply_to(query, &[("a.test.", 60, "8.8.8.8")]);
        let forged = |change: &dyn Fn(&mut Message)| {
            let mut bad = reply_to(query, &[("a.test.", 60, "9.9.9.9")]);
            change(&mut bad);
            Reply::Say(bad)
        };
        let other = Query::query(Name::from_ascii("b.test.").unwrap(), RecordType::A);
        vec![
            Reply::Bytes(vec![0; 3]),
            forged(&|bad| bad.metadata.id ^= 1),
            forged(&|bad| bad.metadata.message_type = MessageType::Query),
            forged(&|bad| bad.queries.clear()),
            forged(&|bad| bad.queries = vec![other.clone()]),
            forged(&|bad| {
                bad.queries[0].set_query_type(RecordType::AAAA);
            }),
            Reply::Say(good),
        ]
    });
    assert_eq!(resolve(&[&server], "a.test").await, Ok(vec![[8, 8, 8, 8].into()]));
}

#[tokio::test]
async fn an_old_server_is_asked_without_edns() {
    let server = Server::start(|query, _| {
        let mut reply = reply_to(query, &[("a.test.", 60, "8.8.8.8")]);
        if query.edns.is_some() {
            reply = Message::response(query.metadata.id, OpCode::Query);
            reply.metadata.response_code = ResponseCode::FormErr;
        }
        vec![Reply::Say(reply)]
    });
    assert_eq!(resolve(&[&server], "a.test").await, Ok(vec![[8, 8, 8, 8].into()]));
}

#[tokio::test]
async fn a_truncated_answer_comes_whole_by_tcp() {
    let many: Vec<String> = (1..=60).map(|n| format!("8.8.8.{n}")).collect();
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let at = listener.local_addr().unwrap();
    let udp = Blocking::bind(at).unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        let (length, from) = udp.recv_from(&mut buffer).unwrap();
        let mut reply = reply_to(&Message::from_vec(&buffer[..length]).unwrap(), &[("a.test.", 60, "8.8.8.8")]);
        reply.metadata.truncation = true;
        udp.send_to(&reply.to_vec().unwrap(), from).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        let mut length = [0; 2];
        std::io::Read::read_exact(&mut stream, &mut length).unwrap();
        let mut query = vec![0; usize::from(u16::from_be_bytes(length))];
        std::io::Read::read_exact(&mut stream, &mut query).unwrap();
        let records: Vec<_> = many.iter().map(|address| ("a.test.", 60, address.as_str())).collect();
        let reply = reply_to(&Message::from_vec(&query).unwrap(), &records).to_vec().unwrap();
        let length = u16::try_from(reply.len()).unwrap().to_be_bytes();
        std::io::Write::write_all(&mut stream, &[&length, reply.as_slice()].concat()).unwrap();
    });
    let found = Resolver::new([at], guard()).resolve(&name("a.test"), false).await.unwrap();
    assert_eq!(found.len(), 60);
}

#[tokio::test]
async fn a_name_is_remembered_as_long_as_its_records_say() {
    let server = Server::with(&[("a.test.", 60, "8.8.8.8"), ("brief.test.", 0, "8.8.8.8")]);
    let resolver = Resolver::new([server.at], guard());
    for _ in 0..5 {
        resolver.clone().resolve(&name("a.test"), false).await.unwrap();
    }
    assert_eq!(server.asked(), 1);
    for _ in 0..2 {
        resolver.resolve(&name("brief.test"), false).await.unwrap();
        sleep(SHORTEST + Duration::from_millis(100)).await;
    }
    assert_eq!(server.asked(), 3);
    let failing = Server::coded(ResponseCode::ServFail);
    let resolver = Resolver::new([failing.at], guard());
    for _ in 0..2 {
        assert!(resolver.resolve(&name("a.test"), false).await.is_err());
    }
    assert_eq!(failing.asked(), 2, "a failure is not remembered");
}
