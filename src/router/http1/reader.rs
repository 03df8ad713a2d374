//! The reading half of a connection.

use std::future::poll_fn;
use std::io;
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::time::timeout;

use crate::router::stream::Handle;

/// Bytes that were received and not consumed yet.
#[derive(Debug)]
pub struct Reader {
    pub(in crate::router) io: Handle,
    buffer: BytesMut,
    /// The total number of received bytes.
    pub received: u64,
    ended: bool,
    /// How long it may be idle.
    pub silence: Duration,
}

impl Reader {
    pub fn new(io: Handle, first: BytesMut, silence: Duration) -> Self {
        let received = u64::try_from(first.len()).unwrap_or(u64::MAX);
        Self { io, buffer: first, received, ended: false, silence }
    }

    /// The received bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// Consumes bytes.
    pub fn consume(&mut self, count: usize) {
        self.buffer.advance(count.min(self.buffer.len()));
        if self.buffer.is_empty() {
            // An idle connection has no buffer.
            self.buffer = BytesMut::new();
        }
    }

    /// Takes up to this many bytes.
    pub fn take(&mut self, most: u64) -> Bytes {
        let count = self.buffer.len().min(usize::try_from(most).unwrap_or(usize::MAX));
        if count == self.buffer.len() {
            return std::mem::take(&mut self.buffer).freeze();
        }
        self.buffer.split_to(count).freeze()
    }

    /// The bytes that were received but not consumed.
    pub fn take_rest(&mut self) -> BytesMut {
        std::mem::take(&mut self.buffer)
    }

    /// Whether the other side has closed the connection.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Waits for more; false at the end.
    pub async fn fill(&mut self, patience: Duration) -> io::Result<bool> {
        if self.ended {
            return Ok(false);
        }
        let (io, buffer) = (&self.io, &mut self.buffer);
        let count = match timeout(patience, poll_fn(|cx| io.poll_fill(cx, buffer))).await {
            Ok(Ok(count)) => count,
            Ok(Err(error)) => return Err(error),
            Err(_) => return Err(io::ErrorKind::TimedOut.into()),
        };
        self.received += u64::try_from(count).unwrap_or(0);
        self.ended = count == 0;
        Ok(count > 0)
    }

    /// Whether nothing has been received and nothing has ended, as expected of a kept connection.
    pub fn is_quiet(&mut self) -> bool {
        if self.ended || !self.buffer.is_empty() {
            return false;
        }
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        self.io.poll_fill(&mut cx, &mut self.buffer).is_pending()
    }
}
