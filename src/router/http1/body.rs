//! Bodies: with a length, in chunks, or until the end of the connection.

use std::io;

use super::head::{fields, head_end};
use super::reader::Reader;
use crate::router::message::{Length, Piece, may_trail};

/// The maximum size of a chunk's first line, and of all trailers.
const LONGEST_LINE: usize = 4096;
const LONGEST_TRAILERS: usize = 64 << 10;

/// Why a body ended early.
#[derive(Debug)]
pub enum BodyError {
    /// It is malformed.
    Malformed,
    /// The connection failed or ended in the middle.
    Ended,
}

impl From<io::Error> for BodyError {
    fn from(_error: io::Error) -> Self {
        Self::Ended
    }
}

/// The position in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Bytes(u64),
    ChunkHead,
    Chunk(u64),
    ChunkEnd,
    Trailers,
    ToTheEnd,
    Done,
}

/// A body in progress.
#[derive(Debug)]
pub struct Body {
    state: State,
    /// Whether to skip trailers, which are then only parsed to find the end.
    scanned: usize,
}

impl Body {
    /// A body that ends like this.
    pub fn new(length: Length) -> Self {
        let state = match length {
            Length::None | Length::Known(0) => State::Done,
            Length::Known(count) => State::Bytes(count),
            Length::Framed => State::ChunkHead,
            Length::Close => State::ToTheEnd,
        };
        Self { state, scanned: 0 }
    }

    /// Whether it has been read completely.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// The next piece; `None` at the end.
    pub async fn next(&mut self, reader: &mut Reader) -> Result<Option<Piece>, BodyError> {
        loop {
            match self.state {
                State::Done => return Ok(None),
                State::Bytes(left) | State::Chunk(left) if !reader.bytes().is_empty() => {
                    let data = reader.take(left);
                    let left = left - u64::try_from(data.len()).unwrap_or(left);
                    self.state = match self.state {
                        State::Bytes(_) if left == 0 => State::Done,
                        State::Bytes(_) => State::Bytes(left),
                        _ if left == 0 => State::ChunkEnd,
                        _ => State::Chunk(left),
                    };
                    return Ok(Some(Piece::Data(data)));
                }
                State::ToTheEnd if !reader.bytes().is_empty() => return Ok(Some(Piece::Data(reader.take(u64::MAX)))),
                State::ToTheEnd => {
                    if !reader.fill(reader.silence).await? {
                        self.state = State::Done;
                    }
                }
                State::ChunkHead => match chunk_size(reader.bytes())? {
                    Some((size, used)) => {
                        reader.consume(used);
                        self.state = if size == 0 { State::Trailers } else { State::Chunk(size) };
                        self.scanned = 0;
                    }
                    None => more(reader).await?,
                },
                State::ChunkEnd => match reader.bytes() {
                    [b'\r', b'\n', ..] => {
                        reader.consume(2);
                        self.state = State::ChunkHead;
                    }
                    [] | [b'\r'] => more(reader).await?,
                    _ => return Err(BodyError::Malformed),
                },
                State::Trailers => match head_end(reader.bytes(), 0, &mut self.scanned) {
                    Ok(Some(end)) => {
                        let mut trailers = fields(reader.bytes().get(..end).unwrap_or_default());
                        reader.consume(end);
                        self.state = State::Done;
                        if let Some(trailers) = &mut trailers {
                            trailers.retain(|(name, _)| may_trail(name));
                        }
                        match trailers {
                            None => return Err(BodyError::Malformed),
                            Some(trailers) if trailers.is_empty() => return Ok(None),
                            Some(trailers) => return Ok(Some(Piece::Trailers(trailers))),
                        }
                    }
                    Ok(None) if reader.bytes().len() <= LONGEST_TRAILERS => more(reader).await?,
                    _ => return Err(BodyError::Malformed),
                },
                State::Bytes(_) | State::Chunk(_) => more(reader).await?,
            }
        }
    }
}

async fn more(reader: &mut Reader) -> Result<(), BodyError> {
    match reader.fill(reader.silence).await? {
        true => Ok(()),
        false => Err(BodyError::Ended),
    }
}

/// A chunk's size and the length of its first line. Extensions are ignored (RFC 9112 7.1.1).
fn chunk_size(bytes: &[u8]) -> Result<Option<(u64, usize)>, BodyError> {
    let Some(end) = memchr::memchr(b'\n', bytes) else {
        let plausible = bytes.len() <= LONGEST_LINE && bytes.first().is_none_or(u8::is_ascii_hexdigit);
        return if plausible { Ok(None) } else { Err(BodyError::Malformed) };
    };
    let line = bytes.get(..end).and_then(|line| line.strip_suffix(b"\r")).ok_or(BodyError::Malformed)?;
    let (digits, extension) = line.split_at(line.iter().take_while(|b| b.is_ascii_hexdigit()).count());
    let extension = extension.trim_ascii_start();
    let is_text = |b: &u8| matches!(b, b'\t' | b' '..=b'~' | 0x80..);
    let fits = (1..=16).contains(&digits.len())
        && line.len() <= LONGEST_LINE
        && (extension.is_empty() || extension.starts_with(b";"))
        && extension.iter().all(is_text);
    let size = std::str::from_utf8(digits).ok().and_then(|digits| u64::from_str_radix(digits, 16).ok());
    match size.filter(|size| fits && *size <= u64::MAX >> 1) {
        Some(size) => Ok(Some((size, end + 1))),
        None => Err(BodyError::Malformed),
    }
}
