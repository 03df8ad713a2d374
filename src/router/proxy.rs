//! Handles a request, from the decision to the log line, for both versions of HTTP.

use super::answer::Lost;
use super::clear::Replacer;
use super::client::{ClientConnection, Down, Up};
use super::credential::is_user_alone;
use super::entry::LogEntry;
use super::exchange::{Exchange, Outcome};
use super::h2;
use super::message::{Answer, Length, Piece, Request};
use super::push::Resumed;
use super::refusal::{self, Refusal};
use super::settle::{self, Ready};
use super::upstream::{Plain, Unreached, Upstream, Wish};
use super::worker::{Scene, Worker};
use crate::policy::Reason;

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
    place: &ClientConnection,
    mut request: Request,
    entry: &mut LogEntry,
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
pub(super) async fn refuse(refusal: &Refusal, request: &Request, entry: &mut LogEntry, down: &mut impl Down) -> End {
    // For a URL with a user, curl sends the user alone before git asks its helper, which it only does after a 401.
    let asks = refusal.reason == Reason::ForeignCredential
        && super::message::values(&request.headers, "authorization").any(is_user_alone);
    let asking = asks.then(|| Refusal { status: 401, refused: None, ..refusal.clone() });
    let refusal = asking.as_ref().unwrap_or(refusal);
    entry.refused(refusal);
    let (kind, body) = match &refusal.refused {
        Some(refused) => (refused.content_type, refused.body.clone()),
        None => ("application/json", refusal::json(&entry.about(&refusal.said))),
    };
    let length = Length::Known(u64::try_from(body.len()).unwrap_or(0));
    let mut headers = vec![(b"Content-Type".to_vec(), kind.as_bytes().to_vec())];
    headers.extend(asks.then(|| (b"WWW-Authenticate".to_vec(), b"Basic realm=\"sandboxc\"".to_vec())));
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
    entry: &mut LogEntry,
    up: &mut impl Up,
    down: &mut impl Down,
) -> Result<End, Refusal> {
    let Ready { target, body, clear, whole: held, .. } = ready;
    let _held = held;
    let mut wish = match place.two {
        true if super::message::values(&request.headers, "content-type").any(is_grpc) => Wish::Two,
        true => Wish::Either,
        false => Wish::One,
    };
    // A request that changes nothing and has no body may be sent twice, since its connection may have been closed when
    // it was sent.
    let whole = request.length == Length::None || body.is_some();
    let safe = matches!(request.method.as_str(), "GET" | "HEAD" | "OPTIONS") && request.length == Length::None;
    let mut fresh = false;
    loop {
        let connected = worker.dialer.connect(live, &target, wish, fresh).await;
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
                match h2::client::exchange(&exchange, multi, entry, up, down).await {
                    Err(Lost::OneRequired) if whole && wish == Wish::Either => {
                        worker.dialer.needs_one(&target.host);
                        wish = Wish::One;
                        continue;
                    }
                    Err(Lost::Untouched) if whole && !fresh => {
                        fresh = true;
                        continue;
                    }
                    Err(Lost::Unread) if safe && !fresh => {
                        fresh = true;
                        continue;
                    }
                    other => other,
                }
            }
        };
        let refused = |said: &str| Err(Refusal::new(Reason::UpstreamFailed).says(said.to_owned()));
        return match outcome {
            Ok(_) => Ok(End::Answered),
            Err(Lost::Unread | Lost::Untouched) => {
                refused("the host ended the connection without an answer; try again later")
            }
            Err(Lost::OneRequired) => {
                worker.dialer.needs_one(&target.host);
                refused("the host requires HTTP/1.1 for this request; try again")
            }
            Err(Lost::Refused(refusal)) => Err(refusal),
            Err(Lost::Broken) => Ok(End::Broken),
        };
    }
}

fn unreachable(unreached: Unreached, entry: &mut LogEntry) -> Refusal {
    entry.upstream = unreached.tried;
    Refusal::new(unreached.reason).says(unreached.said)
}

fn is_grpc(value: &[u8]) -> bool {
    let kind = b"application/grpc";
    let (start, rest) = value.split_at(value.len().min(kind.len()));
    start.eq_ignore_ascii_case(kind) && matches!(rest.first(), None | Some(b'+' | b';'))
}
