//! Port 443: routed by the name in the `ClientHello`, never by address, and decrypted only if a rule or a credential
//! requires it.

use std::future::poll_fn;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::client::ClientConnection;
use super::entry::LogEntry;
use super::hello::{self, Hello};
use super::refusal::Refusal;
use super::relay::{Nothing, relay};
use super::stream::{Handle, Rewind, Stream, nothing, plain};
use super::tls::UNRECOGNIZED_NAME;
use super::upstream::{Host, dial};
use super::worker::Worker;
use super::{h2, http1};
use crate::policy::{HostName, Reason, Tier, Verdict};

/// How long receiving a hello may take, and then the handshake.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a refused client is read from, so that it can read the alert.
const LINGER: Duration = Duration::from_secs(2);

pub(super) async fn serve(worker: &Rc<Worker>, stream: TcpStream) {
    let mut entry = LogEntry::new(Tier::Passthrough, 443, Instant::now());
    let handle = plain(stream);
    let mut first = BytesMut::new();
    let read = timeout(PATIENCE, read_hello(&handle, &mut first)).await.unwrap_or(Hello::NotTls);
    entry.received = u64::try_from(first.len()).unwrap_or(0);
    let name = match read {
        Hello::Whole(name) => name.unwrap_or_default(),
        Hello::More | Hello::NotTls => {
            // Nothing was received: somebody only checked the port.
            if first.is_empty() {
                return;
            }
            entry.refused(&Refusal::new(Reason::NotTls));
            entry.write(&worker.shared);
            return end(&handle).await;
        }
    };
    let text = std::str::from_utf8(&name).unwrap_or_default();
    let live = worker.shared.current.get();
    let decision = live.file.policy.decide(text, 443);
    let host = match (text.parse(), HostName::from_wire(text)) {
        (Ok(address), _) => Some(Host::Address(address)),
        (Err(_), name) => name.map(Host::Name),
    };
    entry.host = host.as_ref().map_or(name, |host| host.text().into_bytes());
    entry.decided(&decision);
    let (Verdict::Allow, Some(host)) = (decision.verdict, host) else {
        entry.status = 403;
        entry.sent = u64::try_from(UNRECOGNIZED_NAME.len()).unwrap_or(0);
        let _ = timeout(LINGER, handle.write_all(&UNRECOGNIZED_NAME)).await;
        entry.write(&worker.shared);
        return end(&handle).await;
    };
    if let (Tier::Inspected, Host::Name(name)) = (decision.tier, &host) {
        return inspect(worker, handle, first, name, entry).await;
    }
    let (upstream, address) = match dial(&live, &host, 443, decision.private).await {
        Ok(dialled) => dialled,
        Err(unreached) => {
            entry.upstream = unreached.tried;
            entry.refused(&Refusal::new(unreached.reason));
            entry.write(&worker.shared);
            return;
        }
    };
    entry.upstream = address.to_string();
    entry.status = 200;
    let upstream = plain(upstream);
    let text = host.text();
    let rule = worker.until(|live| {
        let decision = live.file.policy.decide(&text, 443);
        decision.verdict == Verdict::Allow && decision.tier == Tier::Passthrough
    });
    let moved = relay((&handle, first), (&upstream, nothing()), worker.silence(), Nothing, rule).await;
    entry.received = moved.there;
    entry.sent = moved.back;
    entry.write(&worker.shared);
}

/// Reads until it is known what was sent.
async fn read_hello(handle: &Handle, first: &mut BytesMut) -> Hello {
    let mut next = 1;
    loop {
        match poll_fn(|cx| handle.poll_fill(cx, first)).await {
            Ok(count) if count > 0 => {}
            _ => return Hello::NotTls,
        }
        // A hello that arrives byte by byte is not parsed again for each byte.
        if first.len() < next && first.len() < hello::LONGEST {
            continue;
        }
        match hello::read(first) {
            Hello::More => next = hello::wants(first),
            done => return done,
        }
    }
}

/// Closes our side and reads for a while, so that closing does not discard the alert.
async fn end(handle: &Handle) {
    let rest = async {
        if handle.shutdown().await.is_err() {
            return;
        }
        loop {
            let mut gone = BytesMut::new();
            match poll_fn(|cx| handle.poll_fill(cx, &mut gone)).await {
                Ok(count) if count > 0 => {}
                _ => return,
            }
        }
    };
    let _ = timeout(LINGER, rest).await;
}

/// Terminates TLS with a certificate of the session's CA, and serves the requests inside.
async fn inspect(worker: &Rc<Worker>, handle: Handle, first: BytesMut, name: &HostName, mut entry: LogEntry) {
    let failed = |mut entry: LogEntry| {
        entry.status = 403;
        entry.reason = Reason::NotTls;
        entry.write(&worker.shared);
    };
    let (Some([both, one]), Some(Stream::Plain(tcp))) = (&worker.shared.server, handle.into_stream()) else {
        entry.reason = Reason::NotAllowed;
        return failed(entry);
    };
    // git below 2.48 hangs at times when it sends a push in chunks over HTTP/2: it reads on after its end if libcurl asks again.
    let decision = worker.shared.current.get().file.policy.decide(name.as_str(), 443);
    let config = if decision.inspection.is_some_and(|inspection| inspection.is_about_git()) { one } else { both };
    let acceptor = TlsAcceptor::from(std::sync::Arc::clone(config));
    let tcp = Rewind::before(first.freeze(), tcp);
    let Ok(Ok(tls)) = timeout(PATIENCE, acceptor.accept(tcp)).await else {
        // A client that does not trust the session's CA stops here. That is not a decision, so it is not logged.
        return;
    };
    let (said, two) = {
        let connection = tls.get_ref().1;
        let said = connection.server_name().and_then(HostName::from_wire);
        (said, connection.alpn_protocol() == Some(b"h2"))
    };
    // Two parsers have read the hello, so their results must agree.
    if said.as_ref() != Some(name) {
        return failed(entry);
    }
    let place = ClientConnection { tier: Tier::Inspected, port: 443, name: said, two };
    let stream = Stream::Inspected(Box::new(tls));
    if two {
        h2::serve(worker, &place, stream).await;
    } else {
        http1::serve(worker, &place, Handle::new(stream)).await;
    }
}
