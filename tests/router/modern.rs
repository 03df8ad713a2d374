//! A host that only speaks HTTP/2: requests reach it, whatever the client speaks.

use std::convert::Infallible;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::h2::{END_STREAM, H2, pseudo};
use super::inspected;
use super::script;
use super::secure::Secure;
use super::wire::json;
use super::world::World;

const HOST: &str = "ip-203-0-113-41.any.secure.test";

/// Starts it; it answers `METHOD TARGET`, the request's fields, and its body. Returns how many connections there were.
fn serve(world: &World) -> Arc<AtomicUsize> {
    script::address(world);
    let listener = world.as_router(|| TcpListener::bind((script::ADDRESS, 443)).unwrap());
    listener.set_nonblocking(true).unwrap();
    let pem = world.path("internet/good.pem");
    let chain = CertificateDer::pem_file_iter(&pem).unwrap().map(Result::unwrap).collect();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = versions.with_no_client_auth().with_single_cert(chain, PrivateKeyDer::from_pem_file(&pem).unwrap());
    let mut config = config.unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
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
                    let Ok(tls) = acceptor.accept(tcp).await else { return };
                    counted.fetch_add(1, Ordering::SeqCst);
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

async fn answer(
    request: http::Request<h2::RecvStream>,
    mut respond: h2::server::SendResponse<Bytes>,
) -> Result<(), Infallible> {
    let (head, mut body) = request.into_parts();
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
    let connections = serve(&world);
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
