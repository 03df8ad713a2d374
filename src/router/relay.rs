//! Copies bytes in both directions between two connections. Each side's end is passed on separately.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use tokio::time::{Instant, sleep_until};

use super::stream::Handle;

/// The result of a relay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Bytes from the first to the second.
    pub there: u64,
    /// Bytes from the second to the first.
    pub back: u64,
}

/// Checks bytes on their way, and may change them. An error ends the relay.
pub trait Filter {
    fn pass(&mut self, bytes: &mut BytesMut) -> Result<(), ()>;
}

/// Passes everything on unchanged.
#[derive(Clone, Copy, Debug)]
pub struct Nothing;

impl Filter for Nothing {
    fn pass(&mut self, _bytes: &mut BytesMut) -> Result<(), ()> {
        Ok(())
    }
}

struct Pipe<'a> {
    from: &'a Handle,
    to: &'a Handle,
    buffer: BytesMut,
    moved: u64,
    /// The source has ended.
    ended: bool,
    /// The sink has been told.
    done: bool,
    /// Something was written and not flushed.
    dirty: bool,
}

impl<'a> Pipe<'a> {
    fn new(from: &'a Handle, to: &'a Handle, first: BytesMut) -> Self {
        Self { from, to, buffer: first, moved: 0, ended: false, done: false, dirty: false }
    }

    /// Copies what can be copied. Ready at the end of this direction; `active` is set if bytes were copied.
    fn poll(&mut self, cx: &mut Context<'_>, active: &mut bool, filter: &mut impl Filter) -> Poll<io::Result<()>> {
        while !self.done {
            if !self.buffer.is_empty() {
                let count = ready!(self.to.poll_write(cx, &self.buffer))?;
                if count == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                self.buffer.advance(count);
                self.moved += u64::try_from(count).unwrap_or(0);
                *active = true;
                self.dirty = true;
                if self.buffer.is_empty() {
                    // An idle relay has no buffer.
                    self.buffer = BytesMut::new();
                }
                continue;
            }
            if self.ended {
                ready!(self.to.poll_shutdown(cx))?;
                self.done = true;
                continue;
            }
            match self.from.poll_fill(cx, &mut self.buffer) {
                Poll::Ready(Ok(0)) => {
                    *active = true;
                    self.ended = true;
                }
                Poll::Ready(Ok(_)) => filter.pass(&mut self.buffer).map_err(|()| io::ErrorKind::InvalidData)?,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    if std::mem::take(&mut self.dirty) {
                        ready!(self.to.poll_flush(cx))?;
                    }
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// Copies bytes until both sides have ended, one fails, both have been idle for `silence`, or `stop` completes.
pub(super) async fn relay(
    (one, first_of_one): (&Handle, BytesMut),
    (two, first_of_two): (&Handle, BytesMut),
    silence: Duration,
    mut down: impl Filter,
    stop: impl Future<Output = ()>,
) -> Moved {
    let mut there = Pipe::new(one, two, first_of_one);
    let mut back = Pipe::new(two, one, first_of_two);
    if down.pass(&mut back.buffer).is_err() {
        return Moved::default();
    }
    let mut timer = pin!(sleep_until(Instant::now() + silence));
    let mut stop = pin!(stop);
    poll_fn(|cx| {
        let mut active = false;
        let there_done = match there.poll(cx, &mut active, &mut Nothing) {
            Poll::Ready(Err(_)) => return Poll::Ready(()),
            state => state.is_ready(),
        };
        let back_done = match back.poll(cx, &mut active, &mut down) {
            Poll::Ready(Err(_)) => return Poll::Ready(()),
            state => state.is_ready(),
        };
        if (there_done && back_done) || stop.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        if active {
            timer.as_mut().reset(Instant::now() + silence);
        }
        timer.as_mut().poll(cx)
    })
    .await;
    Moved { there: there.moved, back: back.moved }
}
