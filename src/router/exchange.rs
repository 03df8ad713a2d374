//! One request on one connection to a host, and its response.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;

use super::answer::{Lost, Passing, clear_head};
use super::clear::Replacer;
use super::client::{Down, Up};
use super::entry::LogEntry;
use super::http1::{Body, BodyError, NoAnswer, read_answer, request_head};
use super::live::Live;
use super::message::{Answer, Length, Request};
use super::refusal::Refusal;
use super::upstream::{Plain, Target};
use crate::policy::Reason;

/// What to send, and how to treat the response.
pub(super) struct Exchange<'a> {
    pub(super) live: &'a Arc<Live>,
    pub(super) request: &'a Request,
    pub(super) target: &'a Target,
    /// Instead of the client's body.
    pub(super) body: Option<&'a Bytes>,
    pub(super) clear: Option<&'a Replacer>,
}

/// How it succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The connection can serve another request.
    Kept,
    /// It cannot.
    Ended,
    /// It now belongs to the client.
    Upgraded,
}

impl Exchange<'_> {
    /// With HTTP/1.1.
    pub(super) async fn plain(
        &self,
        connection: &mut Plain,
        entry: &mut LogEntry,
        up: &mut impl Up,
        down: &mut impl Down,
    ) -> Result<Outcome, Lost> {
        let Plain { reader, writer, .. } = connection;
        // On port 80, a client that closes its connection also closes the host's.
        let close = !self.target.tls && self.request.close;
        let mut head = request_head(self.request, &self.target.host.text(), close);
        if let Some(body) = self.body {
            head.extend_from_slice(body);
        }
        let streams = self.body.is_none() && !matches!(self.request.length, Length::None | Length::Known(0));
        if writer.write(&head).await.is_err() {
            // The host may have explained why before it closed the connection.
            if reader.is_quiet() {
                return Err(Lost::Unread);
            }
        }
        if streams && self.request.expects {
            down.invite().await.map_err(|_| Lost::Refused(Refusal::bad_request(400)))?;
        }
        let mut started = false;
        let upload = async {
            if !streams {
                return Ok(());
            }
            writer.set_chunked(self.request.length == Length::Framed);
            loop {
                let sent = match up.piece().await {
                    Ok(Some(piece)) => writer.piece(piece).await,
                    Ok(None) => {
                        let _ = writer.finish().await;
                        return Ok(());
                    }
                    Err(BodyError::Malformed | BodyError::Ended) => {
                        return Err(Lost::Refused(Refusal::bad_request(400)));
                    }
                };
                // The host does not read any further. It may have responded; if not, reading will fail.
                if sent.is_err() {
                    return Ok(());
                }
            }
        };
        let download = async {
            let most = usize::try_from(self.live.file.limits.answer_head).unwrap_or(usize::MAX);
            let (answer, stays) = loop {
                let (answer, stays) =
                    read_answer(reader, &self.request.method, most).await.map_err(|why| no_answer(&why))?;
                match answer.status {
                    101 if self.request.upgrade => break (answer, false),
                    101 => return Err(lost(Reason::UpstreamMalformed)),
                    // The router has already invited the client's body.
                    100 => {}
                    ..200 => {
                        let answer = self.clean(answer);
                        started = true;
                        down.interim(&answer).await.map_err(|_| Lost::Broken)?;
                    }
                    _ => break (answer, stays),
                }
            };
            entry.status = answer.status;
            let mut body = Body::new(if answer.bodiless { Length::None } else { answer.length });
            let (passing, answer) = Passing::new(answer, &self.request.method, self.clear).map_err(Lost::Refused)?;
            started = true;
            down.head(&answer).await.map_err(|_| Lost::Broken)?;
            if answer.status == 101 {
                down.finish().await.map_err(|_| Lost::Broken)?;
                return Ok(Outcome::Upgraded);
            }
            let mut passing = passing;
            loop {
                let next = {
                    let mut next = pin!(body.next(reader));
                    match poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx))).await {
                        Poll::Ready(next) => next,
                        Poll::Pending => {
                            down.flush().await.map_err(|_| Lost::Broken)?;
                            next.await
                        }
                    }
                };
                match next {
                    Ok(Some(piece)) => passing.piece(piece, down).await?,
                    Ok(None) => break,
                    Err(_) => {
                        // What came before is passed on.
                        let _ = down.flush().await;
                        return Err(Lost::Broken);
                    }
                }
            }
            passing.finish(down).await?;
            Ok(if stays && reader.bytes().is_empty() { Outcome::Kept } else { Outcome::Ended })
        };
        let (result, sent) = both(upload, download).await;
        match result {
            // The rest of a body would be parsed as the next request's head.
            Ok(Outcome::Kept) if !sent => Ok(Outcome::Ended),
            Err(Lost::Refused(_)) if started => Err(Lost::Broken),
            result => result,
        }
    }

    /// An interim response, cleared of credentials.
    pub(super) fn clean(&self, mut answer: Answer) -> Answer {
        if let Some(replacer) = self.clear {
            clear_head(&mut answer, replacer);
        }
        answer
    }
}

fn lost(reason: Reason) -> Lost {
    Lost::Refused(Refusal::new(reason))
}

fn no_answer(why: &NoAnswer) -> Lost {
    match why {
        NoAnswer::Ended { begun: false } => Lost::Unread,
        NoAnswer::Ended { begun: true } => Lost::Refused(Refusal::new(Reason::UpstreamFailed).says(
            "the host closed the connection in the middle of its response's headers; try again later".to_owned(),
        )),
        NoAnswer::Silent => lost(Reason::UpstreamTimeout),
        NoAnswer::Malformed => lost(Reason::UpstreamMalformed),
        NoAnswer::TooLarge => lost(Reason::UpstreamHeadTooLarge),
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
