//! Client connections with HTTP/2.

use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::{Method, Response, StatusCode};
use tokio::time::timeout;

use super::{headers, join_cookies, receive, send};
use crate::router::client::{ClientConnection, Down, Up};
use crate::router::entry::LogEntry;
use crate::router::http1::BodyError;
use crate::router::message::{Answer, Length, Piece, Request, content_length, is, members, values};
use crate::router::proxy::{self, End};
use crate::router::refusal::Refusal;
use crate::router::stream::Stream;
use crate::router::worker::Worker;

/// The maximum number of concurrent streams.
const STREAMS: u32 = 128;

struct Upload {
    stream: RecvStream,
    ended: bool,
    received: u64,
    silence: Duration,
}

impl Up for Upload {
    async fn piece(&mut self) -> Result<Option<Piece>, BodyError> {
        let piece = receive(&mut self.stream, &mut self.ended, self.silence).await?;
        if let Some(Piece::Data(data)) = &piece {
            self.received += u64::try_from(data.len()).unwrap_or(0);
        }
        Ok(piece)
    }
}

struct Answering {
    respond: SendResponse<Bytes>,
    body: Option<SendStream<Bytes>>,
    sent: u64,
    silence: Duration,
}

impl Down for Answering {
    async fn invite(&mut self) -> io::Result<()> {
        Ok(())
    }

    async fn interim(&mut self, answer: &Answer) -> io::Result<()> {
        let head = head(answer)?;
        self.respond.send_informational(head).map_err(io::Error::other)
    }

    async fn head(&mut self, answer: &Answer) -> io::Result<()> {
        let mut head = head(answer)?;
        if let Length::Known(length) = answer.length {
            head.headers_mut().insert(http::header::CONTENT_LENGTH, length.into());
        }
        let ended = answer.bodiless || matches!(answer.length, Length::None | Length::Known(0));
        self.sent += u64::try_from(head.headers().iter().map(|(n, v)| n.as_str().len() + v.len() + 4).sum::<usize>())
            .unwrap_or(0);
        let stream = self.respond.send_response(head, ended).map_err(io::Error::other)?;
        self.body = (!ended).then_some(stream);
        Ok(())
    }

    async fn piece(&mut self, piece: Piece) -> io::Result<()> {
        let Some(body) = &mut self.body else { return Ok(()) };
        match piece {
            Piece::Data(data) => {
                self.sent += u64::try_from(data.len()).unwrap_or(0);
                send(body, data, self.silence).await
            }
            Piece::Trailers(trailers) => {
                let result = body.send_trailers(headers(&trailers)).map_err(io::Error::other);
                self.body = None;
                result
            }
        }
    }

    async fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    async fn finish(&mut self) -> io::Result<()> {
        match self.body.take() {
            Some(mut body) => body.send_data(Bytes::new(), true).map_err(io::Error::other),
            None => Ok(()),
        }
    }
}

fn head(answer: &Answer) -> io::Result<Response<()>> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_u16(answer.status).map_err(io::Error::other)?;
    *response.headers_mut() = headers(&answer.headers);
    Ok(response)
}

/// Serves a connection until it ends.
pub(in crate::router) async fn serve(worker: &Rc<Worker>, place: &ClientConnection, stream: Stream) {
    let mut builder = h2::server::Builder::new();
    builder.max_concurrent_streams(STREAMS).max_header_list_size(64 << 10).max_send_buffer_size(64 << 10);
    builder.initial_window_size(128 << 10).initial_connection_window_size(256 << 10);
    let Ok(Ok(mut connection)) = timeout(worker.silence(), builder.handshake::<_, Bytes>(stream)).await else { return };
    let mut changes = worker.shared.current.watch();
    let mut looks = tokio::time::interval(worker.silence() / 2);
    let mut quiet = 0;
    loop {
        let next = tokio::select! {
            next = connection.accept() => next,
            _ = looks.tick() => {
                quiet = if connection.has_streams() { 0 } else { quiet + 1 };
                // Two checks, the first of which comes immediately.
                if quiet > 2 {
                    connection.graceful_shutdown();
                }
                continue;
            }
            _ = changes.changed() => {
                if !worker.still(place) {
                    connection.graceful_shutdown();
                }
                continue;
            }
        };
        match next {
            Some(Ok((request, respond))) => {
                let (worker, place) = (Rc::clone(worker), place.clone());
                tokio::task::spawn_local(async move { one(&worker, &place, request, respond).await });
            }
            Some(Err(error)) => {
                // Only `h2` knows what was malformed, but the log notes that something was.
                if error.is_library() || error.is_go_away() {
                    malformed(worker, place);
                }
                return;
            }
            None => return,
        }
    }
}

/// Logs a connection that ended because of invalid HTTP/2.
fn malformed(worker: &Worker, place: &ClientConnection) {
    let mut entry = LogEntry::new(place.tier, place.port, Instant::now());
    if let Some(name) = &place.name {
        entry.host = name.as_str().into();
    }
    entry.refused(&Refusal::bad_request(400));
    entry.write(&worker.shared);
}

async fn one(
    worker: &Worker,
    place: &ClientConnection,
    request: http::Request<RecvStream>,
    respond: SendResponse<Bytes>,
) {
    let mut entry = LogEntry::new(place.tier, place.port, Instant::now());
    let (head, stream) = request.into_parts();
    let ended = stream.is_end_stream();
    let silence = worker.silence();
    let mut down = Answering { respond, body: None, sent: 0, silence };
    let mut up = Upload { stream, ended: false, received: 0, silence };
    let read = read(&head, ended);
    let end = match read {
        Ok(request) => {
            entry.of(place, &request);
            entry.received = request.size;
            proxy::handle(worker, place, request, &mut entry, &mut up, &mut down).await
        }
        Err(status) => {
            entry.method = head.method.as_str().into();
            entry.target = head.uri.path().into();
            if let Some(name) = &place.name {
                entry.host = name.as_str().into();
            }
            let request = Request { method: head.method.as_str().to_owned(), ..Request::default() };
            proxy::refuse(&Refusal::bad_request(status), &request, &mut entry, &mut down).await
        }
    };
    // The rest of a body is not needed after the response; `h2` tells the client when the stream is dropped (RFC 9113
    // 8.1).
    if matches!(end, End::Broken | End::Upgraded(..)) {
        down.reset();
    }
    entry.received += up.received;
    entry.sent = down.sent;
    entry.write(&worker.shared);
}

impl Answering {
    fn reset(&mut self) {
        match &mut self.body {
            Some(body) => body.send_reset(h2::Reason::INTERNAL_ERROR),
            None => self.respond.send_reset(h2::Reason::INTERNAL_ERROR),
        }
    }
}

/// The request as HTTP/1 would express it, or the status that refuses it.
fn read(head: &http::request::Parts, ended: bool) -> Result<Request, u16> {
    let method = head.method.as_str();
    if head.method == Method::TRACE {
        return Err(405);
    }
    if head.method == Method::CONNECT || !method.bytes().all(|b| b.is_ascii_uppercase() || matches!(b, b'-' | b'_')) {
        return Err(400);
    }
    if head.uri.scheme_str().is_some_and(|scheme| scheme != "https") {
        return Err(400);
    }
    let target = head.uri.path_and_query().map(http::uri::PathAndQuery::as_str).unwrap_or_default();
    if !target.starts_with('/') {
        return Err(400);
    }
    let mut fields = super::fields(&head.headers);
    let authority = head.uri.authority().map(|authority| authority.as_str().as_bytes().to_vec());
    let mut hosts: Vec<Vec<u8>> = values(&fields, "host").map(<[u8]>::to_vec).collect();
    let host = match (authority, hosts.pop()) {
        (Some(authority), None) => Some(authority),
        (None, Some(host)) if hosts.is_empty() => Some(host),
        (Some(authority), Some(host)) if hosts.is_empty() && authority == host => Some(host),
        _ => return Err(400),
    };
    let length = {
        let mut lengths = values(&fields, "content-length");
        match (lengths.next().map(content_length), lengths.next()) {
            (None, _) if ended => Length::None,
            (None, _) => Length::Framed,
            (Some(Some(length)), None) => Length::Known(length),
            _ => return Err(400),
        }
    };
    let trailers = members(&fields, "te").any(|one| is(one, "trailers"));
    fields.retain(|(name, _)| !is(name, "host"));
    join_cookies(&mut fields);
    let size = fields.iter().map(|(name, value)| name.len() + value.len() + 4).sum::<usize>() + target.len();
    Ok(Request {
        method: method.to_owned(),
        target: target.as_bytes().to_vec(),
        host,
        headers: fields,
        length,
        expects: false,
        upgrade: false,
        one: true,
        close: false,
        trailers,
        size: u64::try_from(size).unwrap_or(0),
    })
}
