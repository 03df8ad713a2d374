//! The writing half of a connection: heads and bodies as they go out.

use std::future::poll_fn;
use std::io::{self, Write as _};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use tokio::time::timeout;

use crate::router::message::{Answer, Field, Length, Piece, Request};
use crate::router::stream::Handle;

/// What is written to one side.
#[derive(Debug)]
pub struct Writer {
    io: Handle,
    /// What went out in all.
    pub sent: u64,
    chunked: bool,
    /// A head that waits for the first bytes of its body, so that both are one packet.
    waiting: Vec<u8>,
    /// How long it may take nothing.
    silence: Duration,
}

impl Writer {
    pub fn new(io: Handle, silence: Duration) -> Self {
        Self { io, sent: 0, chunked: false, waiting: Vec::new(), silence }
    }

    /// Bodies from here on are chunked or not.
    pub fn set_chunked(&mut self, chunked: bool) {
        self.chunked = chunked;
    }

    /// Goes out with whatever is written next.
    pub fn hold(&mut self, bytes: Vec<u8>) {
        if self.waiting.is_empty() {
            self.waiting = bytes;
        } else {
            self.waiting.extend_from_slice(&bytes);
        }
    }

    /// Writes what was held.
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

    /// The same, if it is taken in time.
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

    /// Ends our side.
    pub async fn end(&self) -> io::Result<()> {
        self.io.shutdown().await
    }

    /// The connection itself.
    pub(in crate::router) fn io(&self) -> &Handle {
        &self.io
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
                // What ends the body has been written.
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
        let _ = write!(text, "{:x}\r\n", data.len());
        text.extend_from_slice(data);
        text.extend_from_slice(b"\r\n");
        self.write(&text).await
    }

    /// The end of a body.
    pub async fn finish(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.chunked) { self.write(b"0\r\n\r\n").await } else { self.release().await }
    }
}

fn write_fields(text: &mut Vec<u8>, fields: &[Field]) {
    for (name, value) in fields {
        text.extend_from_slice(name);
        text.extend_from_slice(b": ");
        text.extend_from_slice(value);
        text.extend_from_slice(b"\r\n");
    }
}

/// A request's head as it goes up.
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

/// How an answer goes down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Down {
    /// HTTP/1.1, not 1.0.
    pub one: bool,
    /// The connection ends after it.
    pub close: bool,
}

/// An answer's head as it goes down; and if its body is chunked.
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
