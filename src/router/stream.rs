//! The bytes of a connection, plain or in TLS.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::{client, server};

/// The maximum size of a read.
pub(super) const READ_SIZE: usize = 16 << 10;

/// How much is read at once from below TLS, whose library asks for 4 KB at a time.
const READ_AHEAD: usize = 32 << 10;

thread_local! {
    /// The buffer for reads. There is one for each thread instead of one for each connection, so that idle connections
    /// need no memory.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_SIZE].into_boxed_slice());

    /// The same for reads from below TLS.
    static AHEAD: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_AHEAD].into_boxed_slice());
}

/// A connection.
#[derive(Debug)]
pub(super) enum Stream {
    /// Plain TCP.
    Plain(Rewind),
    /// TLS that the router terminates.
    Inspected(Box<server::TlsStream<Rewind>>),
    /// TLS to a host.
    Upstream(Box<client::TlsStream<Rewind>>),
}

impl Stream {
    /// Whether the host chose HTTP/2 in the handshake (RFC 7301).
    pub(super) fn speaks_two(&self) -> bool {
        matches!(self, Self::Upstream(tls) if tls.get_ref().1.alpn_protocol() == Some(b"h2"))
    }
}

/// TCP of which some bytes have already been read and are read again.
#[derive(Debug)]
pub(super) struct Rewind {
    first: Bytes,
    tcp: TcpStream,
}

impl Rewind {
    pub(super) fn new(first: Bytes, tcp: TcpStream) -> Self {
        Self { first, tcp }
    }
}

impl Rewind {
    /// The same connection, with bytes that are read first.
    pub(super) fn before(first: Bytes, rewind: Self) -> Self {
        let first = if rewind.first.is_empty() { first } else { [first, rewind.first].concat().into() };
        Self { first, tcp: rewind.tcp }
    }
}

impl AsyncRead for Rewind {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.first.is_empty() {
            if buf.remaining() >= READ_SIZE {
                return Pin::new(&mut self.tcp).poll_read(cx, buf);
            }
            return AHEAD.with(|ahead| {
                let Ok(mut ahead) = ahead.try_borrow_mut() else { return Poll::Ready(Err(busy())) };
                let mut read = ReadBuf::new(&mut ahead);
                ready!(Pin::new(&mut self.tcp).poll_read(cx, &mut read))?;
                let (now, later) = read.filled().split_at(read.filled().len().min(buf.remaining()));
                buf.put_slice(now);
                if !later.is_empty() {
                    self.first = Bytes::copy_from_slice(later);
                }
                Poll::Ready(Ok(()))
            });
        }
        let count = self.first.len().min(buf.remaining());
        buf.put_slice(&self.first.split_to(count));
        if self.first.is_empty() {
            self.first = Bytes::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Rewind {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}

impl Stream {
    fn as_io(&mut self) -> Pin<&mut (dyn Io + Unpin)> {
        match self {
            Self::Plain(tcp) => Pin::new(tcp),
            Self::Inspected(tls) => Pin::new(&mut **tls),
            Self::Upstream(tls) => Pin::new(&mut **tls),
        }
    }
}

trait Io: AsyncRead + AsyncWrite {}
impl<T: AsyncRead + AsyncWrite> Io for T {}

/// A handle on a connection: one reads, another writes. All handles are on the same thread.
#[derive(Clone, Debug)]
pub(super) struct Handle(Rc<RefCell<Stream>>);

impl Handle {
    pub(super) fn new(stream: Stream) -> Self {
        Self(Rc::new(RefCell::new(stream)))
    }

    /// Reads at most [`READ_SIZE`] available bytes, and appends them to `buffer`. Returns 0 at the end.
    pub(super) fn poll_fill(&self, cx: &mut Context<'_>, buffer: &mut BytesMut) -> Poll<io::Result<usize>> {
        SCRATCH.with(|scratch| {
            let (Ok(mut scratch), Ok(mut stream)) = (scratch.try_borrow_mut(), self.0.try_borrow_mut()) else {
                return Poll::Ready(Err(busy()));
            };
            let mut read = ReadBuf::new(&mut scratch);
            ready!(stream.as_io().poll_read(cx, &mut read))?;
            buffer.extend_from_slice(read.filled());
            Poll::Ready(Ok(read.filled().len()))
        })
    }

    /// Writes as much as the other side accepts.
    pub(super) fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Ok(mut stream) = self.0.try_borrow_mut() else { return Poll::Ready(Err(busy())) };
        stream.as_io().poll_write(cx, bytes)
    }

    pub(super) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Ok(mut stream) = self.0.try_borrow_mut() else { return Poll::Ready(Err(busy())) };
        stream.as_io().poll_flush(cx)
    }

    pub(super) fn poll_shutdown(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Ok(mut stream) = self.0.try_borrow_mut() else { return Poll::Ready(Err(busy())) };
        stream.as_io().poll_shutdown(cx)
    }

    /// Writes everything and flushes.
    pub(super) async fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let count = std::future::poll_fn(|cx| self.poll_write(cx, rest)).await?;
            if count == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            rest.advance(count);
        }
        std::future::poll_fn(|cx| self.poll_flush(cx)).await
    }

    /// Closes our side.
    pub(super) async fn shutdown(&self) -> io::Result<()> {
        std::future::poll_fn(|cx| self.poll_shutdown(cx)).await
    }

    /// The connection itself, if this is the last handle.
    pub(super) fn into_stream(self) -> Option<Stream> {
        Rc::try_unwrap(self.0).ok().map(RefCell::into_inner)
    }
}

/// Two handles are never used at once: a thread polls one task at a time.
fn busy() -> io::Error {
    io::Error::other("a connection is in use twice")
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.as_io().poll_read(cx, buf)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.as_io().poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.as_io().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.as_io().poll_shutdown(cx)
    }
}

/// Detects clients that disappear without closing the connection.
pub(super) fn keep_alive(stream: &TcpStream) {
    let _ = rustix::net::sockopt::set_socket_keepalive(stream, true);
}

/// Both halves of a plain TCP connection, with the bytes that were already read.
pub(super) fn plain(stream: TcpStream) -> Handle {
    Handle::new(Stream::Plain(Rewind::new(Bytes::new(), stream)))
}

/// Nothing has been read yet.
pub(super) fn nothing() -> BytesMut {
    BytesMut::new()
}
