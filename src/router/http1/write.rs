//! The writing half of a connection: heads and bodies.

use std::future::poll_fn;
use std::io::{self, Write as _};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use tokio::time::timeout;

use crate::router::message::{Answer, Field, Length, Piece, Request};
use crate::router::stream::Handle;

/// How much of a chunked body is held at most, to be sent with what follows.
const AT_ONCE: usize = 32 << 10;

/// A writer to one side.
#[derive(Debug)]
pub struct Writer {
    io: Handle,
    /// The total number of sent bytes.
    pub sent: u64,
    chunked: bool,
    /// A head that waits for the first bytes of its body, and chunks that wait for the last one, so that they are sent in
    /// one packet.
    waiting: Vec<u8>,
    /// How long the other side may not accept anything.
    silence: Duration,
}

impl Writer {
    pub fn new(io: Handle, silence: Duration) -> Self {
        Self { io, sent: 0, chunked: false, waiting: Vec::new(), silence }
    }

    /// Sets whether the following bodies are chunked.
    pub fn set_chunked(&mut self, chunked: bool) {
        self.chunked = chunked;
    }

    /// Queues bytes to send with the next ones.
    pub fn hold(&mut self, bytes: Vec<u8>) {
        if self.waiting.is_empty() {
            self.waiting = bytes;
        } else {
            self.waiting.extend_from_slice(&bytes);
        }
    }

    /// Sends the queued bytes.
    pub async fn release(&mut self) -> io::Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        if waiting.is_empty() { Ok(()) } else { self.write_in(&waiting, self.silence).await }
    }

    /// Writes and flushes.
    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.waiting.is_empty() {
            return self.write_in(bytes, self.silence).await;
        }
        self.waiting.extend_from_slice(bytes);
        self.release().await
    }

    /// The same, if the other side accepts it in time.
    pub async fn write_in(&mut self, bytes: &[u8], patience: Duration) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let io = &self.io;
            let count = match timeout(patience, poll_fn(|cx| io.poll_write(cx, rest))).await {
                Ok(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(result) => result?,
                Err(_) => return Err(io::ErrorKind::TimedOut.into()),
            };
            self.sent += u64::try_from(count).unwrap_or(0);
            rest.advance(count);
        }
        let io = &self.io;
        match timeout(patience, poll_fn(|cx| io.poll_flush(cx))).await {
            Ok(result) => result,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Closes our side.
    pub async fn end(&self) -> io::Result<()> {
        self.io.shutdown().await
    }

    /// The connection itself.
    pub(in crate::router) fn io(&self) -> &Handle {
        &self.io
    }

    /// Writes a piece of a body, or holds it until [`Self::release`] or the end.
    pub async fn hold_piece(&mut self, piece: Piece) -> io::Result<()> {
        match piece {
            Piece::Data(data) if self.chunked => {
                write_chunk(&mut self.waiting, &data);
                if self.waiting.len() < AT_ONCE { Ok(()) } else { self.release().await }
            }
            other => self.piece(other).await,
        }
    }

    /// Writes a piece of a body.
    pub async fn piece(&mut self, piece: Piece) -> io::Result<()> {
        match piece {
            Piece::Data(data) => self.data(&data).await,
            Piece::Trailers(_) if !self.chunked => Ok(()),
            Piece::Trailers(trailers) => {
                let mut text = b"0\r\n".to_vec();
                write_fields(&mut text, &trailers);
                text.extend_from_slice(b"\r\n");
                // The end of the body has been written.
                self.chunked = false;
                self.write(&text).await
            }
        }
    }

    /// Writes bytes of a body.
    pub async fn data(&mut self, data: &Bytes) -> io::Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        if !self.chunked {
            return self.write(data).await;
        }
        let mut text = Vec::with_capacity(data.len() + 24);
        write_chunk(&mut text, data);
        self.write(&text).await
    }

    /// The end of a body.
    pub async fn finish(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.chunked) { self.write(b"0\r\n\r\n").await } else { self.release().await }
    }
}

/// Nothing for no bytes, which would be the last chunk.
fn write_chunk(text: &mut Vec<u8>, data: &[u8]) {
    if data.is_empty() {
        return;
    }
    let _ = write!(text, "{:x}\r\n", data.len());
    text.extend_from_slice(data);
    text.extend_from_slice(b"\r\n");
}

fn write_fields(text: &mut Vec<u8>, fields: &[Field]) {
    for (name, value) in fields {
        text.extend_from_slice(name);
        text.extend_from_slice(b": ");
        text.extend_from_slice(value);
        text.extend_from_slice(b"\r\n");
    }
}

/// A request's head for a host.
pub fn request_head(request: &Request, host: &str, close: bool) -> Vec<u8> {
    let headers: usize = request.headers.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
    let mut text = Vec::with_capacity(request.target.len() + host.len() + headers + 120);
    text.extend_from_slice(request.method.as_bytes());
    text.push(b' ');
    text.extend_from_slice(&request.target);
    let _ = write!(text, " HTTP/1.1\r\nHost: {host}\r\n");
    match (request.upgrade, close, request.trailers) {
        (true, ..) => text.extend_from_slice(b"Upgrade: websocket\r\nConnection: Upgrade\r\n"),
        (_, true, true) => text.extend_from_slice(b"TE: trailers\r\nConnection: close, TE\r\n"),
        (_, false, true) => text.extend_from_slice(b"TE: trailers\r\nConnection: TE\r\n"),
        (_, true, false) => text.extend_from_slice(b"Connection: close\r\n"),
        (_, false, false) => {}
    }
    write_length(&mut text, request.length);
    write_fields(&mut text, &request.headers);
    text.extend_from_slice(b"\r\n");
    text
}

/// How a response is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Down {
    /// With HTTP/1.1, not 1.0.
    pub one: bool,
    /// Whether the connection ends after it.
    pub close: bool,
}

/// A response's head for a client, and whether its body is chunked.
pub fn answer_head(answer: &Answer, down: Down) -> (Vec<u8>, bool) {
    let mut text = Vec::with_capacity(512);
    let _ = write!(text, "HTTP/1.1 {:03} ", answer.status);
    text.extend_from_slice(&answer.reason);
    text.extend_from_slice(b"\r\n");
    write_fields(&mut text, &answer.headers);
    let mut chunked = false;
    match answer.length {
        _ if answer.status < 200 || answer.status == 204 => {}
        Length::None | Length::Framed | Length::Close if answer.bodiless => {}
        Length::Framed | Length::Close if down.one => {
            chunked = true;
            write_length(&mut text, Length::Framed);
        }
        Length::Framed | Length::Close => {}
        Length::None => text.extend_from_slice(b"Content-Length: 0\r\n"),
        Length::Known(_) => write_length(&mut text, answer.length),
    }
    if answer.status == 101 {
        text.extend_from_slice(b"Upgrade: websocket\r\nConnection: Upgrade\r\n");
    } else if down.close && answer.status >= 200 {
        text.extend_from_slice(b"Connection: close\r\n");
    }
    text.extend_from_slice(b"\r\n");
    (text, chunked)
}

fn write_length(text: &mut Vec<u8>, length: Length) {
    match length {
        Length::Known(count) => {
            let _ = write!(text, "Content-Length: {count}\r\n");
        }
        Length::Framed => text.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        Length::None | Length::Close => {}
    }
}
