//! Hosts that use HTTP/2: for clients that use it too, for gRPC, and those that support nothing else.

use std::future::{Future as _, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use bytes::Bytes;
use h2::client::ResponseFuture;
use http::uri::Uri;
use http::{Method, Request as Head, Response, Version};
use tokio::time::timeout;

use super::{fields, headers, receive, send};
use crate::policy::Reason;
use crate::router::answer::{Lost, Passing};
use crate::router::client::{Down, Up};
use crate::router::entry::LogEntry;
use crate::router::exchange::{Exchange, Outcome, both};
use crate::router::http1::BodyError;
use crate::router::message::{Answer, Length, Piece, content_length, strip_hop, values};
use crate::router::refusal::Refusal;
use crate::router::upstream::Multi;

/// A request on its own stream.
pub(in crate::router) async fn exchange(
    exchange: &Exchange<'_>,
    mut connection: Multi,
    entry: &mut LogEntry,
    up: &mut impl Up,
    down: &mut impl Down,
) -> Result<Outcome, Lost> {
    let request = exchange.request;
    let silence = exchange.live.file.limits.silence();
    let failed = |said: &str| Lost::Refused(Refusal::new(Reason::UpstreamFailed).says(said.to_owned()));
    let streams = exchange.body.is_none() && !matches!(request.length, Length::None | Length::Known(0));
    let bare = exchange.body.is_none() && !streams;
    let head =
        head(exchange).ok_or_else(|| failed("the request's target contains bytes that HTTP/2 does not permit"))?;
    let Ok((response, mut stream)) = connection.send.send_request(head, bare) else { return Err(Lost::Untouched) };
    if streams && request.expects {
        down.invite().await.map_err(|_| Lost::Refused(Refusal::bad_request(400)))?;
    }
    let mut started = false;
    let upload = async {
        if let Some(body) = exchange.body {
            let _ = send(&mut stream, body.clone(), silence).await;
            let _ = stream.send_data(Bytes::new(), true);
            return Ok(());
        }
        if !streams {
            return Ok(());
        }
        loop {
            let sent = match up.piece().await {
                Ok(Some(Piece::Data(data))) => send(&mut stream, data, silence).await,
                Ok(Some(Piece::Trailers(trailers))) => {
                    let _ = stream.send_trailers(headers(&trailers));
                    return Ok(());
                }
                Ok(None) => {
                    let _ = stream.send_data(Bytes::new(), true);
                    return Ok(());
                }
                Err(BodyError::Malformed | BodyError::Ended) => {
                    stream.send_reset(h2::Reason::CANCEL);
                    return Err(Lost::Refused(Refusal::bad_request(400)));
                }
            };
            if sent.is_err() {
                return Ok(());
            }
        }
    };
    let download = async {
        let mut response = response;
        let response = loop {
            match timeout(silence, coming(&mut response)).await {
                Ok(Ok(Coming::Final(response))) => break response,
                Ok(Ok(Coming::Interim(interim))) => {
                    let Some(answer) = interim_answer(&interim) else { continue };
                    started = true;
                    down.interim(&exchange.clean(answer)).await.map_err(|_| Lost::Broken)?;
                }
                Ok(Err(error)) => return Err(lost(&error)),
                Err(_) => return Err(Lost::Refused(Refusal::new(Reason::UpstreamTimeout))),
            }
        };
        let (head, mut stream) = response.into_parts();
        let mut answer = read(&head, &request.method, stream.is_end_stream())
            .ok_or_else(|| Lost::Refused(Refusal::new(Reason::UpstreamMalformed)))?;
        entry.status = answer.status;
        let bodiless = answer.bodiless;
        let passing;
        (passing, answer) = Passing::new(answer, &request.method, exchange.clear).map_err(Lost::Refused)?;
        let mut passing = passing;
        started = true;
        down.head(&answer).await.map_err(|_| Lost::Broken)?;
        let mut ended = bodiless;
        loop {
            down.flush().await.map_err(|_| Lost::Broken)?;
            match receive(&mut stream, &mut ended, silence).await.map_err(|_| Lost::Broken)? {
                Some(piece) => passing.piece(piece, down).await?,
                None => break,
            }
        }
        passing.finish(down).await?;
        Ok(Outcome::Ended)
    };
    match both(upload, download).await.0 {
        Err(Lost::Refused(_) | Lost::Unread | Lost::Untouched | Lost::OneRequired) if started => Err(Lost::Broken),
        result => result,
    }
}

/// What a host sends before the body of its response.
enum Coming {
    Interim(Response<()>),
    Final(Response<h2::RecvStream>),
}

async fn coming(response: &mut ResponseFuture) -> Result<Coming, h2::Error> {
    poll_fn(|cx| {
        // Interim responses come first.
        if let Poll::Ready(Some(interim)) = response.poll_informational(cx) {
            return Poll::Ready(interim.map(Coming::Interim));
        }
        Pin::new(&mut *response).poll(cx).map_ok(Coming::Final)
    })
    .await
}

/// An interim response for the client. The router has already invited the client's body, so 100 says nothing new.
fn interim_answer(interim: &Response<()>) -> Option<Answer> {
    let status = interim.status().as_u16();
    let mut headers = fields(interim.headers());
    strip_hop(&mut headers);
    let reason = interim.status().canonical_reason().unwrap_or_default().as_bytes().to_vec();
    (status != 100).then_some(Answer { status, reason, headers, length: Length::None, bodiless: true })
}

/// Why there is no response (RFC 9113 7, 8.7).
fn lost(error: &h2::Error) -> Lost {
    match error.reason() {
        Some(h2::Reason::HTTP_1_1_REQUIRED) => Lost::OneRequired,
        Some(h2::Reason::REFUSED_STREAM) => Lost::Untouched,
        Some(h2::Reason::NO_ERROR) if error.is_go_away() => Lost::Untouched,
        _ if error.is_io() => Lost::Unread,
        _ => Lost::Refused(Refusal::new(Reason::UpstreamFailed).says(format!("the host reset the request: {error}"))),
    }
}

fn head(exchange: &Exchange<'_>) -> Option<Head<()>> {
    let request = exchange.request;
    let target = std::str::from_utf8(&request.target).ok()?;
    // The crate would remove a fragment, but the target that was checked must be the one that is sent.
    let uri: Uri = format!("https://{}{target}", exchange.target.host.text()).parse().ok()?;
    if uri.path_and_query().map(http::uri::PathAndQuery::as_str) != Some(target) {
        return None;
    }
    let mut head = Head::new(());
    *head.method_mut() = Method::from_bytes(request.method.as_bytes()).ok()?;
    *head.uri_mut() = uri;
    *head.version_mut() = Version::HTTP_2;
    *head.headers_mut() = headers(&request.headers);
    if request.trailers {
        head.headers_mut().insert(http::header::TE, http::HeaderValue::from_static("trailers"));
    }
    if let Length::Known(length) = request.length {
        head.headers_mut().insert(http::header::CONTENT_LENGTH, length.into());
    }
    Some(head)
}

fn read(head: &http::response::Parts, method: &str, ended: bool) -> Option<Answer> {
    let status = head.status.as_u16();
    let mut all = fields(&head.headers);
    let bodiless = method == "HEAD" || matches!(status, 204 | 304);
    let length = match values(&all, "content-length").next() {
        Some(value) => Length::Known(content_length(value)?),
        None if ended => Length::None,
        None => Length::Framed,
    };
    strip_hop(&mut all);
    let reason = head.status.canonical_reason().unwrap_or_default().as_bytes().to_vec();
    // A body that ends with its head may still have had a length, of zero.
    let bodiless = bodiless || (ended && matches!(length, Length::None | Length::Known(0)));
    Some(Answer { status, reason, headers: all, length, bodiless })
}
