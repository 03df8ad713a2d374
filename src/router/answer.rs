//! Responses on their way to the client: unchanged, or cleared of credentials.

use super::clear::{Clearer, Replacer};
use super::client::Down;
use super::message::{Answer, Length, Piece};
use super::refusal::Refusal;
use crate::policy::Reason;

/// How an exchange with a host failed.
#[derive(Debug)]
pub(super) enum Lost {
    /// The connection ended before the first byte of a response.
    Unread,
    /// The host has not looked at the request (RFC 9113 8.7), so it may be sent again.
    Untouched,
    /// The host requires HTTP/1.1 for the request (`HTTP_1_1_REQUIRED`, RFC 9113 7).
    OneRequired,
    /// Nothing has been sent to the client yet.
    Refused(Refusal),
    /// Something has been sent to the client.
    Broken,
}

/// A body on its way.
pub(super) struct Passing<'a> {
    clearer: Option<(Clearer, &'a Replacer)>,
}

impl<'a> Passing<'a> {
    /// The client's version of a response's head, and how its body is passed on.
    pub(super) fn new(
        mut answer: Answer,
        method: &str,
        clear: Option<&'a Replacer>,
    ) -> Result<(Self, Answer), Refusal> {
        let Some(replacer) = clear else { return Ok((Self { clearer: None }, answer)) };
        standard_reason(&mut answer);
        let unreadable = |_| Refusal::new(Reason::UpstreamUnreadable);
        let clearer = Clearer::new(replacer, method, answer.status, &mut answer.headers).map_err(unreadable)?;
        if !clearer.keeps_length() && answer.length != Length::None && !answer.bodiless {
            answer.length = Length::Framed;
        }
        Ok((Self { clearer: Some((clearer, replacer)) }, answer))
    }

    /// The next piece.
    pub(super) async fn piece(&mut self, piece: Piece, down: &mut impl Down) -> Result<(), Lost> {
        let Some((clearer, replacer)) = &mut self.clearer else {
            return down.piece(piece).await.map_err(|_| Lost::Broken);
        };
        match piece {
            Piece::Data(bytes) => {
                let mut input: &[u8] = &bytes;
                loop {
                    let mut out = Vec::new();
                    let more = clearer.push(&mut input, &mut out).map_err(|_| Lost::Broken)?;
                    if !out.is_empty() {
                        down.piece(data(out)).await.map_err(|_| Lost::Broken)?;
                    }
                    if !more {
                        return Ok(());
                    }
                }
            }
            Piece::Trailers(mut trailers) => {
                Self::flush(clearer, down).await?;
                replacer.fields(&mut trailers);
                self.clearer = None;
                down.piece(Piece::Trailers(trailers)).await.map_err(|_| Lost::Broken)
            }
        }
    }

    /// The end.
    pub(super) async fn finish(mut self, down: &mut impl Down) -> Result<(), Lost> {
        if let Some((clearer, _)) = &mut self.clearer {
            Self::flush(clearer, down).await?;
        }
        down.finish().await.map_err(|_| Lost::Broken)
    }

    async fn flush(clearer: &mut Clearer, down: &mut impl Down) -> Result<(), Lost> {
        loop {
            let mut out = Vec::new();
            let more = clearer.finish(&mut out).map_err(|_| Lost::Broken)?;
            if !out.is_empty() {
                down.piece(data(out)).await.map_err(|_| Lost::Broken)?;
            }
            if !more {
                return Ok(());
            }
        }
    }
}

/// Clears a head: each field is cleared, and the reason phrase becomes the standard one.
pub(super) fn clear_head(answer: &mut Answer, replacer: &Replacer) {
    standard_reason(answer);
    replacer.fields(&mut answer.headers);
}

fn standard_reason(answer: &mut Answer) {
    let standard = http::StatusCode::from_u16(answer.status).ok().and_then(|code| code.canonical_reason());
    answer.reason = standard.unwrap_or_default().as_bytes().to_vec();
}

/// A piece that is sent unchanged.
fn data(bytes: Vec<u8>) -> Piece {
    Piece::Data(bytes.into())
}
