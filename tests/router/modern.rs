//! Hosts that speak HTTP/2, alone or beside HTTP/1.1: which version a request reaches them with, and what happens if they refuse it.

use std::convert::Infallible;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use sandboxc::policy::Policy;

use super::h2::{END_STREAM, H2, pseudo};
use super::inspected;
use super::masking::masked;
use super::mint::{surrogate, value};
use super::script;
use super::secure::Secure;
use super::wire::json;
use super::world::World;

const HOST: &str = "ip-203-0-113-41.any.secure.test";

/// Starts a host that offers these protocols. With HTTP/2, it answers `METHOD TARGET`, the request's fields, and its body; with
/// HTTP/1.1 it answers `one`. Returns how many connections there were.
fn serve(world: &World, protocols: &[&str]) -> Arc<AtomicUsize> {
    script::address(world);
    let listener = world.as_router(|| TcpListener::bind((script::ADDRESS, 443)).unwrap());
    listener.set_nonblocking(true).unwrap();
    let pem = world.path("internet/good.pem");
    let chain = CertificateDer::pem_file_iter(&pem).unwrap().map(Result::unwrap).collect();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = versions.with_no_client_auth().with_single_cert(chain, PrivateKeyDer::from_pem_file(&pem).unwrap());
    let mut config = config.unwrap();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((tcp, _)) = listener.accept().await {
                let (acceptor, counted) = (acceptor.clone(), Arc::clone(&counted));
                tokio::spawn(async move {
                    // A client that offers something else gets the alert `no_application_protocol`.
                    let Ok(mut tls) = acceptor.accept(tcp).await else { return };
                    counted.fetch_add(1, Ordering::SeqCst);
                    if tls.get_ref().1.alpn_protocol() != Some(b"h2") {
                        let mut head = [0; 4096];
                        while tls.read(&mut head).await.is_ok_and(|read| read > 0) {
                            tls.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none").await.unwrap();
                        }
                        return;
                    }
                    let Ok(mut connection) = h2::server::handshake(tls).await else { return };
                    while let Some(Ok((request, respond))) = connection.accept().await {
                        tokio::spawn(answer(request, respond));
                    }
                });
            }
        });
    });
    count
}

/// The `Authorization` of all requests.
static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Whether `/busy` was refused once.
static BUSY: AtomicBool = AtomicBool::new(false);

async fn answer(
    request: http::Request<h2::RecvStream>,
    mut respond: h2::server::SendResponse<Bytes>,
) -> Result<(), Infallible> {
    let (head, mut body) = request.into_parts();
    match head.uri.path() {
        "/old" => respond.send_reset(h2::Reason::HTTP_1_1_REQUIRED),
        "/busy" if !BUSY.swap(true, Ordering::SeqCst) => respond.send_reset(h2::Reason::REFUSED_STREAM),
        "/hints" => {
            let hint = http::Response::builder().status(103).header("link", "</a>").body(()).unwrap();
            respond.send_informational(hint).unwrap();
        }
        "/slow" => tokio::time::sleep(std::time::Duration::from_secs(1)).await,
        _ => {}
    }
    let given = head.headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
    SEEN.lock().unwrap().extend(given);
    let mut text = format!("{} {}\n", head.method, head.uri);
    for (name, value) in &head.headers {
        text += &format!("{name}: {}\n", String::from_utf8_lossy(value.as_bytes()));
    }
    while let Some(Ok(data)) = body.data().await {
        let _ = body.flow_control().release_capacity(data.len());
        text += &String::from_utf8_lossy(&data);
    }
    if let Ok(mut stream) = respond.send_response(http::Response::new(()), false) {
        let _ = stream.send_data(text.into(), true);
    }
    Ok(())
}

#[test]
fn a_host_with_http2_alone_is_reached_and_its_connection_is_shared() {
    let world = World::start(inspected::policy());
    let connections = serve(&world, &["h2"]);
    let mut one = Secure::to(&world, HOST);
    one.send(format!("GET /a?b=%2f HTTP/1.1\r\nHost: {HOST}\r\nX-Mine: 1\r\n\r\n"));
    let first = one.until("\r\n0\r\n\r\n");
    assert!(first.starts_with("HTTP/1.1 200 OK\r\n"), "{first}");
    assert!(first.contains("x-mine: 1\n") && first.contains(&format!("GET https://{HOST}/a?b=%2f\n")), "{first}");
    // A body, on the same connection of client and host.
    one.send(format!("POST /b HTTP/1.1\r\nHost: {HOST}\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"));
    let second = one.until("\r\n0\r\n\r\n");
    assert!(second.contains("abc") && second.contains(&format!("POST https://{HOST}/b\n")), "{second}");
    let mut two = H2::to(&world, HOST);
    two.head(1, END_STREAM, &pseudo("GET", HOST, "/c"));
    let third = two.answer(1);
    assert!(third.status == "200" && third.body.contains("/c\n"), "{}", third.body);
    // At most one for each of the router's threads.
    let count = connections.load(Ordering::SeqCst);
    assert!((1..=2).contains(&count), "{count}");
    // What HTTP/2 cannot carry is refused rather than changed.
    one.send(format!("GET /d?x=\"y\" HTTP/1.1\r\nHost: {HOST}\r\n\r\n"));
    let refused = one.answer();
    assert!(refused.starts_with("HTTP/1.1 502 "), "{refused}");
    assert_eq!(json(&refused)["reason"], "upstream-failed");
    assert!(json(&refused)["hint"].as_str().unwrap().contains("HTTP/2"), "{refused}");
}

#[test]
fn a_host_gets_the_version_that_the_client_uses() {
    let world = World::start(inspected::policy());
    serve(&world, &["h2", "http/1.1"]);
    let mut one = Secure::to(&world, HOST);
    one.send(format!("GET /a HTTP/1.1\r\nHost: {HOST}\r\n\r\n"));
    assert!(one.until("one").ends_with("\r\n\r\none"), "HTTP/1.1 goes out as it came");
    let mut two = H2::to(&world, HOST);
    two.head(1, END_STREAM, &pseudo("GET", HOST, "/b"));
    let answer = two.answer(1);
    assert!(answer.status == "200" && answer.body.starts_with(&format!("GET https://{HOST}/b\n")), "{}", answer.body);
    // A request that the host has not looked at is sent again.
    two.head(3, END_STREAM, &pseudo("GET", HOST, "/busy"));
    let answer = two.answer(3);
    assert!(answer.status == "200" && answer.body.contains("/busy\n"), "{} {}", answer.status, answer.body);
    // Interim responses come through.
    two.head(5, END_STREAM, &pseudo("GET", HOST, "/hints"));
    assert_eq!(two.heads(5), ["103", "200"]);
    // A host may require HTTP/1.1, and then gets it.
    for (stream, path) in [(7, "/old"), (9, "/later")] {
        two.head(stream, END_STREAM, &pseudo("GET", HOST, path));
        let answer = two.answer(stream);
        assert_eq!((answer.status.as_str(), answer.body.as_str()), ("200", "one"), "{path}");
    }
}

#[test]
fn clients_with_http2_reach_hosts_that_only_have_http1() {
    let world = World::start(inspected::policy());
    serve(&world, &["http/1.1"]);
    let mut two = H2::to(&world, HOST);
    for stream in [1, 3] {
        two.head(stream, END_STREAM, &pseudo("GET", HOST, "/a"));
        let answer = two.answer(stream);
        assert_eq!((answer.status.as_str(), answer.body.as_str()), ("200", "one"));
    }
}

/// Requests that wait for each other's window would be a way to stall a session.
#[test]
fn a_few_requests_share_a_connection_and_more_open_another() {
    let world = World::start(inspected::policy());
    let connections = serve(&world, &["h2", "http/1.1"]);
    let mut two = H2::to(&world, HOST);
    two.head(1, END_STREAM, &pseudo("GET", HOST, "/first"));
    assert_eq!(two.answer(1).status, "200");
    let streams: Vec<u32> = (0..40).map(|index| 3 + 2 * index).collect();
    for &stream in &streams {
        two.head(stream, END_STREAM, &pseudo("GET", HOST, "/slow"));
    }
    assert_eq!(two.count_of("200", streams.len()), streams.len());
    let count = connections.load(Ordering::SeqCst);
    assert!((3..=4).contains(&count), "40 requests, 16 for each connection: {count}");
}

#[test]
fn credentials_are_inserted_and_cleared_with_http2_on_both_sides_and_connections_are_not_shared_between_them() {
    let policy = Policy {
        credentials: vec![
            masked("ONE", "*.any.secure.test", "authorization"),
            masked("TWO", "*.any.secure.test", "authorization"),
        ],
        ..inspected::policy()
    };
    let world = World::start(policy);
    let connections = serve(&world, &["h2", "http/1.1"]);
    let mut two = H2::to(&world, HOST);
    for (stream, name) in [(1, "ONE"), (3, "TWO")] {
        let given = format!("Bearer {}", surrogate(name));
        two.head(stream, END_STREAM, &[pseudo("GET", HOST, "/a"), vec![("authorization", given.as_str())]].concat());
        let answer = two.answer(stream);
        assert_eq!(answer.status, "200", "{}", answer.body);
        assert!(answer.body.contains(&format!("authorization: {given}\n")), "cleared: {}", answer.body);
        assert!(SEEN.lock().unwrap().contains(&format!("Bearer {}", value(name))), "{name}");
    }
    assert_eq!(connections.load(Ordering::SeqCst), 2);
}
