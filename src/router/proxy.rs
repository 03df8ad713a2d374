//! Handles a request, from the decision to the log line, for both versions of HTTP.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use super::clear::Replacer;
use super::entry::Entry;
use super::exchange::{Exchange, Lost, Outcome};
use super::git::Refused;
use super::http1::BodyError;
use super::live::Live;
use super::message::{Answer, Length, Piece, Request};
use super::push::Resumed;
use super::refusal;
use super::settle::{self, Ready};
use super::upstream::{Host, Plain, Target, Unreached, Upstream};
use super::worker::Worker;
use crate::policy::{HostName, Reason, Tier};

/// The connection of a request.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) tier: Tier,
    pub(super) port: u16,
    /// The name in the handshake, which every request must match.
    pub(super) name: Option<HostName>,
    /// Whether it is HTTP/2, which gRPC uses.
    pub(super) two: bool,
}

/// The context in which a request is served.
#[derive(Clone, Copy)]
pub(super) struct Scene<'a> {
    pub(super) worker: &'a Worker,
    pub(super) live: &'a Arc<Live>,
    pub(super) place: &'a Place,
}

/// The client's side of a request, for reading.
pub(super) trait Up {
    /// The next piece of its body.
    async fn piece(&mut self) -> Result<Option<Piece>, BodyError>;
}

/// The client's side of a request, for writing.
pub(super) trait Down {
    /// Invites the body.
    async fn invite(&mut self) -> io::Result<()>;
    /// An interim response.
    async fn interim(&mut self, answer: &Answer) -> io::Result<()>;
    /// The head of the response; it may wait for the first piece.
    async fn head(&mut self, answer: &Answer) -> io::Result<()>;
    /// The next piece of the body.
    async fn piece(&mut self, piece: Piece) -> io::Result<()>;
    /// Nothing follows for now.
    async fn flush(&mut self) -> io::Result<()>;
    /// The end of the body.
    async fn finish(&mut self) -> io::Result<()>;
}

/// Why a request is not forwarded.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub(super) reason: Reason,
    pub(super) status: u16,
    pub(super) said: String,
    /// The credential that it is about.
    pub(super) credential: String,
    /// What the client gets in place of JSON.
    pub(super) refused: Option<Refused>,
}

impl Refusal {
    pub(super) fn new(reason: Reason) -> Self {
        let status = match reason {
            Reason::Misdirected => 421,
            Reason::BodyTooLarge => 413,
            Reason::RouterFull => 503,
            Reason::UpstreamTimeout => 504,
            Reason::AddressRefused
            | Reason::NoAddress
            | Reason::Ipv6Only
            | Reason::ResolverFailed
            | Reason::UpstreamFailed
            | Reason::UpstreamUntrusted
            | Reason::UpstreamMalformed
            | Reason::UpstreamHeadTooLarge
            | Reason::UpstreamUnreadable
            | Reason::CredentialUnavailable => 502,
            _ => 403,
        };
        Self { reason, status, said: String::new(), credential: String::new(), refused: None }
    }

    pub(super) fn bad_request(status: u16) -> Self {
        Self { status, ..Self::new(Reason::BadRequest) }
    }

    pub(super) fn says(self, said: String) -> Self {
        Self { said, ..self }
    }
}

/// How a request ended.
pub(super) enum End {
    /// With a complete response.
    Answered,
    /// With a refusal; `asked` if the client's body was requested.
    Refused,
    /// In the middle: the client must not mistake it for the end.
    Broken,
    /// Upgraded to a connection of its own.
    Upgraded(Box<Plain>, Option<Replacer>),
}

/// Serves a request. The result is in `entry`, whose line has not been written yet.
pub(super) async fn handle(
    worker: &Worker,
    place: &Place,
    mut request: Request,
    entry: &mut Entry,
    up: &mut impl Up,
    down: &mut impl Down,
) -> End {
    // In this order, so that no change is missed.
    let changes = worker.shared.current.watch();
    let live = worker.shared.current.get();
    let scene = Scene { worker, live: &live, place };
    let denied = worker.changed_to_denied(changes, place, entry, request.upgrade);
    let work = async {
        let refusal = match settle::settle(scene, &mut request, entry, up, down).await {
            Ok(mut ready) => {
                let mut up = Resumed { start: ready.start.take(), rest: up };
                match send(scene, &request, ready, entry, &mut up, down).await {
                    Ok(end) => return end,
                    Err(refusal) => refusal,
                }
            }
            Err(refusal) => refusal,
        };
        refuse(&refusal, &request, entry, down).await
    };
    tokio::select! {
        biased;
        end = work => end,
        () = denied => End::Broken,
    }
}

/// Responds with a refusal.
pub(super) async fn refuse(refusal: &Refusal, request: &Request, entry: &mut Entry, down: &mut impl Down) -> End {
    entry.refused(refusal);
    let (kind, body) = match &refusal.refused {
        Some(refused) => (refused.content_type, refused.body.clone()),
        None => ("application/json", refusal::json(&entry.about(&refusal.said))),
    };
    let length = Length::Known(u64::try_from(body.len()).unwrap_or(0));
    let headers = vec![(b"Content-Type".to_vec(), kind.as_bytes().to_vec())];
    let (status, bodiless) = (refusal.status, request.method == "HEAD");
    let reason = http::StatusCode::from_u16(status).ok().and_then(|code| code.canonical_reason()).unwrap_or_default();
    let answer = Answer { status, reason: reason.as_bytes().to_vec(), headers, length, bodiless };
    let written = async {
        down.head(&answer).await?;
        if !bodiless {
            down.piece(Piece::Data(body.into())).await?;
        }
        down.finish().await
    };
    match written.await {
        Ok(()) => End::Refused,
        Err(_) => End::Broken,
    }
}

/// Sends a permitted request, and passes the response on.
async fn send(
    Scene { worker, live, place }: Scene<'_>,
    request: &Request,
    ready: Ready,
    entry: &mut Entry,
    up: &mut impl Up,
    down: &mut impl Down,
) -> Result<End, Refusal> {
    let Ready { target, body, clear, whole, .. } = ready;
    let _held = whole;
    let grpc = place.two && super::message::values(&request.headers, "content-type").any(is_grpc);
    // A request that changes nothing and has no body may be sent twice, since its connection may have been closed when
    // it was sent.
    let safe = matches!(request.method.as_str(), "GET" | "HEAD" | "OPTIONS") && request.length == Length::None;
    let mut fresh = false;
    loop {
        let connected = worker.dialer.connect(live, &target, grpc, fresh).await;
        let connection = connected.map_err(|unreached| unreachable(unreached, entry))?;
        let exchange = Exchange { live, request, target: &target, body: body.as_ref(), clear: clear.as_ref() };
        let outcome = match connection {
            Upstream::Plain(mut plain) => {
                entry.upstream = plain.address.to_string();
                let outcome = exchange.plain(&mut plain, entry, up, down).await;
                match outcome {
                    Ok(Outcome::Kept) => {
                        worker.dialer.keep(target, *plain);
                        return Ok(End::Answered);
                    }
                    Ok(Outcome::Upgraded) => return Ok(End::Upgraded(plain, clear)),
                    Err(Lost::Unread) if plain.reused && safe && !fresh => {
                        fresh = true;
                        continue;
                    }
                    other => other,
                }
            }
            Upstream::Multi(multi) => {
                entry.upstream = multi.address.to_string();
                exchange.multi(multi, entry, up, down).await
            }
        };
        return match outcome {
            Ok(_) => Ok(End::Answered),
            Err(Lost::Unread) => Err(Refusal::new(Reason::UpstreamFailed)
                .says("the host ended the connection without an answer; try again later".to_owned())),
            Err(Lost::Refused(refusal)) => Err(refusal),
            Err(Lost::Broken) => Ok(End::Broken),
        };
    }
}

fn unreachable(unreached: Unreached, entry: &mut Entry) -> Refusal {
    entry.upstream = unreached.tried;
    Refusal::new(unreached.reason).says(unreached.said)
}

fn is_grpc(value: &[u8]) -> bool {
    let kind = b"application/grpc";
    let (start, rest) = value.split_at(value.len().min(kind.len()));
    start.eq_ignore_ascii_case(kind) && matches!(rest.first(), None | Some(b'+' | b';'))
}

/// The host of a request, from its connection and its head.
pub(super) fn who(place: &Place, request: &Request) -> Result<Host, Refusal> {
    let host = request.host.as_deref().and_then(|said| read_host(said, place.port));
    match (&place.name, host) {
        (Some(name), Some(Host::Name(host))) if host == *name => Ok(Host::Name(host)),
        (Some(_), _) => Err(Refusal::new(Reason::Misdirected)),
        (None, Some(host)) => Ok(host),
        (None, None) => Err(Refusal::new(Reason::BadHost)),
    }
}

/// A `Host` in normal form. A port must be the connection's, written in the usual way.
pub(super) fn read_host(said: &[u8], port: u16) -> Option<Host> {
    let said = std::str::from_utf8(said).ok()?;
    let host = match said.rsplit_once(':') {
        Some((host, digits)) => (digits == port.to_string()).then_some(host)?,
        None => said,
    };
    match host.parse() {
        Ok(address) => Some(Host::Address(address)),
        Err(_) => HostName::from_wire(host).map(Host::Name),
    }
}

/// Polls both until the second is done, or the first reports that it is pointless.
pub(super) async fn both<A, B, E>(
    first: impl Future<Output = Result<A, E>>,
    second: impl Future<Output = Result<B, E>>,
) -> (Result<B, E>, bool) {
    let (mut first, mut second) = (pin!(first), pin!(second));
    let mut first_done = false;
    poll_fn(|cx| {
        if !first_done {
            match first.as_mut().poll(cx) {
                Poll::Ready(Ok(_)) => first_done = true,
                Poll::Ready(Err(error)) => return Poll::Ready((Err(error), false)),
                Poll::Pending => {}
            }
        }
        second.as_mut().poll(cx).map(|result| (result, first_done))
    })
    .await
}

/// The target of a host, for the pool.
pub(super) fn target(place: &Place, host: Host, private: bool, credentials: Vec<String>) -> Target {
    Target { host, port: place.port, private, tls: place.port == 443, credentials }
}
