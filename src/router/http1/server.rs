//! Client connections with HTTP/1.

use std::io;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tokio::time::timeout;

use super::body::{Body, BodyError};
use super::head::{Malformed, Parsed, parse_request};
use super::reader::Reader;
use super::write::{Down as Form, Writer, answer_head};
use crate::policy::{Reason, Tier};
use crate::router::client::{ClientConnection, Down, Up};
use crate::router::entry::LogEntry;
use crate::router::limits::Held;
use crate::router::message::{Answer, Length, Piece, Request};
use crate::router::proxy::{self, End};
use crate::router::refusal::Refusal;
use crate::router::stream::Handle;
use crate::router::upgrade;
use crate::router::worker::Worker;

/// How long receiving a head may take.
const HEAD: Duration = Duration::from_secs(60);

/// How long to read what a client still sends after a refusal, so that it can read the response.
const LINGER: Duration = Duration::from_secs(2);

/// How large an incomplete head may be before it counts against the router's limit.
const SMALL: usize = 4096;

struct Upload<'a> {
    reader: &'a mut Reader,
    body: &'a mut Body,
    received: &'a mut u64,
}

impl Up for Upload<'_> {
    async fn piece(&mut self) -> Result<Option<Piece>, BodyError> {
        let piece = self.body.next(self.reader).await?;
        if let Some(Piece::Data(data)) = &piece {
            *self.received += u64::try_from(data.len()).unwrap_or(0);
        }
        Ok(piece)
    }
}

struct Answering<'a> {
    writer: &'a mut Writer,
    form: Form,
    invited: bool,
    /// Without status and headers, as in HTTP/0.9.
    bare: bool,
    /// Whether a body that ends with the connection is complete.
    ends_open: bool,
}

impl Down for Answering<'_> {
    async fn invite(&mut self) -> io::Result<()> {
        self.invited = true;
        self.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n").await
    }

    async fn interim(&mut self, answer: &Answer) -> io::Result<()> {
        if !self.form.one {
            return Ok(());
        }
        let (head, _) = answer_head(answer, self.form);
        self.writer.write(&head).await
    }

    async fn head(&mut self, answer: &Answer) -> io::Result<()> {
        if self.bare {
            return Ok(());
        }
        // A body that was not invited may or may not be sent, so no other request can follow.
        self.form.close |= !self.invited;
        let framed = matches!(answer.length, Length::Framed | Length::Close);
        self.ends_open = framed && !self.form.one && !answer.bodiless;
        self.form.close |= self.ends_open;
        let (head, chunked) = answer_head(answer, self.form);
        self.writer.set_chunked(chunked);
        self.writer.hold(head);
        Ok(())
    }

    async fn piece(&mut self, piece: Piece) -> io::Result<()> {
        self.writer.hold_piece(piece).await
    }

    async fn flush(&mut self) -> io::Result<()> {
        self.writer.release().await
    }

    async fn finish(&mut self) -> io::Result<()> {
        self.writer.finish().await
    }
}

/// Serves a connection until it ends.
pub(in crate::router) async fn serve(worker: &Worker, place: &ClientConnection, io: Handle) {
    let silence = worker.silence();
    let mut reader = Reader::new(io.clone(), BytesMut::new(), silence);
    let mut writer = Writer::new(io, silence);
    let mut changes = worker.shared.current.watch();
    let mut clean = true;
    loop {
        // A kept connection ends if its host is no longer allowed.
        let first = tokio::select! {
            biased;
            head = next_head(worker, &mut reader) => head,
            _ = changes.changed(), if reader.bytes().is_empty() => {
                if worker.still(place) {
                    continue;
                }
                NextHead::End
            }
        };
        let stays = match first {
            NextHead::End => break,
            NextHead::Bad(bad) => {
                refuse(worker, place, &bad, &mut reader, &mut writer).await;
                false
            }
            NextHead::Full => {
                let bad = Malformed { status: 503, reason: Some(Reason::RouterFull), ..Malformed::default() };
                refuse(worker, place, &bad, &mut reader, &mut writer).await;
                false
            }
            NextHead::Whole(request, stays, held) => {
                let next = one(worker, place, *request, stays, &mut reader, &mut writer).await;
                drop(held);
                clean = next != Next::Broken;
                next == Next::Request
            }
        };
        if !stays {
            break;
        }
    }
    // An incomplete response must not end cleanly, which TLS shows to the client.
    if clean {
        linger(&mut reader, &writer).await;
    }
}

/// What to do after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Request,
    End,
    Broken,
}

enum NextHead {
    /// A request, and whether the connection can serve another one after it.
    Whole(Box<Request>, bool, Option<Held>),
    Bad(Malformed),
    Full,
    End,
}

async fn next_head(worker: &Worker, reader: &mut Reader) -> NextHead {
    let mut scanned = 0;
    let mut held: Option<Held> = None;
    let mut until: Option<tokio::time::Instant> = None;
    // An empty line before a request is ignored (RFC 9112 2.2).
    let mut blank = false;
    loop {
        if !blank && reader.bytes().starts_with(b"\r\n") {
            reader.consume(2);
            blank = true;
        }
        if !reader.bytes().is_empty() && (blank || reader.bytes() != b"\r") {
            match parse_request(reader.bytes(), &mut scanned) {
                Parsed::Whole(request, size, stays) => {
                    reader.consume(size);
                    return NextHead::Whole(request, stays, held);
                }
                Parsed::Malformed(bad) => return NextHead::Bad(bad),
                Parsed::More => {}
            }
        }
        let have = reader.bytes().len();
        if have >= worker.shared.request_head {
            return NextHead::Bad(Malformed { status: 400, ..Malformed::default() });
        }
        if have > SMALL {
            let fits = if let Some(held) = &mut held {
                held.grow(have)
            } else {
                held = worker.shared.heads.take(have);
                held.is_some()
            };
            if !fits {
                return NextHead::Full;
            }
        }
        let patience = match until {
            None if have == 0 => reader.silence,
            None => {
                until = Some(tokio::time::Instant::now() + HEAD);
                HEAD
            }
            Some(until) => until.saturating_duration_since(tokio::time::Instant::now()),
        };
        match reader.fill(patience).await {
            Ok(true) => {}
            // A client that leaves before a request is not logged.
            Ok(false) | Err(_) if reader.bytes().is_empty() => return NextHead::End,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                return NextHead::Bad(Malformed { status: 408, ..Malformed::default() });
            }
            Ok(false) | Err(_) => return NextHead::Bad(Malformed { status: 400, ..Malformed::default() }),
        }
    }
}

/// Serves a request.
async fn one(
    worker: &Worker,
    place: &ClientConnection,
    request: Request,
    stays: bool,
    reader: &mut Reader,
    writer: &mut Writer,
) -> Next {
    let mut entry = entry(place, Instant::now());
    entry.received = request.size;
    let sent = writer.sent;
    let mut body = Body::new(request.length);
    let mut received = 0;
    let mut up = Upload { reader, body: &mut body, received: &mut received };
    let form = Form { one: request.one, close: !stays };
    let mut down = Answering { writer, form, invited: !request.expects, bare: false, ends_open: false };
    entry.of(place, &request);
    let end = proxy::handle(worker, place, request, &mut entry, &mut up, &mut down).await;
    let (close, invited) = (down.form.close, down.invited);
    let (refused, broken) = (matches!(end, End::Refused), matches!(end, End::Broken));
    let stays = !close && !broken && !matches!(end, End::Upgraded(..)) && (refused || body.is_done());
    if let End::Upgraded(plain, clear) = end {
        let moved = upgrade::relay(worker, place, &entry, reader, writer, *plain, clear).await;
        entry.received += moved.there;
        entry.sent += moved.back;
    }
    entry.received += received;
    entry.sent += writer.sent - sent;
    entry.write(&worker.shared);
    if broken {
        return Next::Broken;
    }
    match stays && invited && (body.is_done() || drain(&mut body, reader).await) {
        true => Next::Request,
        false => Next::End,
    }
}

/// Reads the rest of a refused request's body, for a while.
async fn drain(body: &mut Body, reader: &mut Reader) -> bool {
    let read = async {
        loop {
            match body.next(reader).await {
                Ok(Some(_)) => {}
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    };
    timeout(LINGER, read).await.unwrap_or(false)
}

/// Responds to an invalid request, and ends the connection.
async fn refuse(worker: &Worker, place: &ClientConnection, bad: &Malformed, reader: &mut Reader, writer: &mut Writer) {
    let mut entry = entry(place, Instant::now());
    entry.method.clone_from(&bad.method);
    entry.target.clone_from(&bad.target);
    entry.received = u64::try_from(reader.bytes().len()).unwrap_or(0);
    if let Some(name) = &place.name {
        entry.host = name.as_str().into();
    }
    let reason = bad.reason.unwrap_or(Reason::BadRequest);
    let bare = bad.status == 0;
    let refusal = Refusal { status: if bare { 403 } else { bad.status }, ..Refusal::new(reason) };
    let sent = writer.sent;
    let form = Form { one: true, close: true };
    let request = Request { method: String::from_utf8_lossy(&bad.method).into_owned(), ..Request::default() };
    let mut down = Answering { writer, form, invited: true, bare, ends_open: false };
    if reader.has_ended() && bad.method.is_empty() && bad.target.is_empty() {
        // The client does not wait for a response.
        entry.refused(&refusal);
    } else {
        proxy::refuse(&refusal, &request, &mut entry, &mut down).await;
    }
    entry.sent = writer.sent - sent;
    entry.write(&worker.shared);
}

fn entry(place: &ClientConnection, start: Instant) -> LogEntry {
    LogEntry::new(if place.tier == Tier::Inspected { Tier::Inspected } else { Tier::Http }, place.port, start)
}

/// Closes our side, and reads for a while what still arrives: closing with unread bytes would discard the response.
async fn linger(reader: &mut Reader, writer: &Writer) {
    let ended = timeout(LINGER, writer.end()).await;
    if !matches!(ended, Ok(Ok(()))) || reader.has_ended() {
        return;
    }
    let rest = async {
        while let Ok(true) = reader.fill(LINGER).await {
            let _ = reader.take_rest();
        }
    };
    let _ = timeout(LINGER, rest).await;
}
