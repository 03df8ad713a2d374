//! Decodes content encodings step by step.

use std::fmt;

use compression_codecs::core::util::{PartialBuffer, WriteBuffer};
use compression_codecs::zstd::params::DParameter;
use compression_codecs::{BrotliDecoder, DecodeV2, DeflateDecoder, GzipDecoder, ZlibDecoder, ZstdDecoder};

use super::{STEP, Unreadable};

/// A supported content encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// RFC 1952.
    Gzip,
    /// RFC 1950, or RFC 1951 without a frame, which some servers send.
    Deflate,
    /// RFC 7932.
    Brotli,
    /// RFC 8878, with a window of at most 8 MiB (RFC 9659).
    Zstd,
}

/// More stacked encodings than this are not useful.
const MOST: usize = 4;

/// Values of this field that are not about compression.
const PLAIN: [&str; 10] =
    ["", "identity", "none", "aws-chunked", "utf-8", "utf8", "ascii", "us-ascii", "binary", "8bit"];

impl Coding {
    /// Parses all `Content-Encoding` fields of a response, in the order in which the encodings were applied. With
    /// `lenient`, unknown words are ignored.
    pub fn read(values: &[&[u8]], lenient: bool) -> Result<Vec<Self>, Unreadable> {
        let mut all = Vec::new();
        for word in values.iter().flat_map(|value| value.split(|byte| *byte == b',')) {
            match Self::named(word) {
                Some(coding) => all.push(coding),
                None if lenient
                    || PLAIN.iter().any(|plain| word.trim_ascii().eq_ignore_ascii_case(plain.as_bytes())) => {}
                None => return Err(Unreadable::Encoding),
            }
        }
        if all.len() > MOST { Err(Unreadable::Encoding) } else { Ok(all) }
    }

    fn named(word: &[u8]) -> Option<Self> {
        match word.trim_ascii().to_ascii_lowercase().as_slice() {
            b"gzip" | b"x-gzip" => Some(Self::Gzip),
            b"deflate" => Some(Self::Deflate),
            b"br" => Some(Self::Brotli),
            b"zstd" => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// The part of a client's `Accept-Encoding` that is forwarded to a host whose responses are cleared: only supported
/// encodings.
pub fn offer(accepted: &[&[u8]]) -> Vec<u8> {
    let words = accepted.iter().flat_map(|value| value.split(|byte| *byte == b','));
    let readable = words.map(<[u8]>::trim_ascii).filter(|word| {
        let name = word.split(|byte| *byte == b';').next().unwrap_or_default();
        Coding::named(name).is_some() || name.trim_ascii().eq_ignore_ascii_case(b"identity")
    });
    let offered = readable.collect::<Vec<_>>().join(&b", "[..]);
    if offered.is_empty() { b"identity".to_vec() } else { offered }
}

/// A chain of decoders.
#[derive(Debug, Default)]
pub struct Chain(Vec<Stage>);

impl Chain {
    /// Returns decoders for encodings in the order in which they were applied.
    pub fn new(codings: &[Coding]) -> Self {
        Self(codings.iter().rev().map(|coding| Stage::new(*coding)).collect())
    }

    /// Whether it does not change anything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes bytes from `input` and appends decoded bytes to `out`. Returns true if there is more output without more
    /// input.
    pub fn push(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Result<bool, Unreadable> {
        let last = self.0.len().saturating_sub(1);
        // From the end, so that nothing accumulates in between.
        let ready = self.0.iter().rposition(Stage::has_more).unwrap_or(0);
        for at in ready..=last {
            let mut made = Vec::new();
            let Some(stage) = self.0.get_mut(at) else { break };
            match at {
                0 => stage.step(input, &mut made)?,
                _ => stage.step_held(&mut made)?,
            }
            match self.0.get_mut(at + 1) {
                Some(next) => next.held.append(&mut made),
                None => out.append(&mut made),
            }
        }
        Ok(!input.is_empty() || self.0.iter().any(Stage::has_more))
    }

    /// The input has ended.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<bool, Unreadable> {
        if self.0.iter().any(Stage::has_more) {
            return self.push(&mut &[][..], out);
        }
        let whole = self.0.iter().all(|stage| stage.ended || !stage.begun);
        if whole { Ok(false) } else { Err(Unreadable::Malformed) }
    }
}

struct Stage {
    coding: Coding,
    decoder: Option<Box<dyn DecodeV2>>,
    /// Input that has not been consumed; in the first stage, only the first byte of deflate.
    held: Vec<u8>,
    begun: bool,
    ended: bool,
    /// Whether the last step filled its output.
    full: bool,
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.coding)
    }
}

impl Stage {
    fn new(coding: Coding) -> Self {
        Self { coding, decoder: None, held: Vec::new(), begun: false, ended: false, full: false }
    }

    fn has_more(&self) -> bool {
        // One byte of deflate waits for the second.
        self.full || (!self.held.is_empty() && (self.decoder.is_some() || self.held.len() > 1))
    }

    fn step_held(&mut self, out: &mut Vec<u8>) -> Result<(), Unreadable> {
        let held = std::mem::take(&mut self.held);
        let mut rest = held.as_slice();
        self.step(&mut rest, out)?;
        self.held.extend(rest);
        Ok(())
    }

    fn step(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Result<(), Unreadable> {
        if input.is_empty() && !self.full {
            return Ok(());
        }
        self.begun = true;
        if self.ended {
            // Several members of gzip and frames of zstd may follow each other.
            let again = matches!(self.coding, Coding::Gzip | Coding::Zstd);
            let decoder = self.decoder.as_mut().filter(|_| again).ok_or(Unreadable::Malformed)?;
            decoder.reinit().map_err(|_| Unreadable::Malformed)?;
            self.ended = false;
        }
        if self.decoder.is_none() {
            let head: Vec<u8> = self.held.iter().chain(*input).copied().take(2).collect();
            if self.coding == Coding::Deflate && head.len() < 2 {
                self.held.extend(std::mem::take(input));
                return Ok(());
            }
            self.decoder = Some(open(self.coding, &head));
            let first = std::mem::take(&mut self.held);
            self.decode(&mut first.as_slice(), out)?;
        }
        self.decode(input, out)
    }

    fn decode(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Result<(), Unreadable> {
        let decoder = self.decoder.as_mut().ok_or(Unreadable::Malformed)?;
        if input.is_empty() && !self.full {
            return Ok(());
        }
        let start = out.len();
        out.resize(start + STEP, 0);
        let mut buffer = WriteBuffer::new_initialized(out.get_mut(start..).unwrap_or_default());
        let mut from = PartialBuffer::new(*input);
        let ended = match decoder.decode(&mut from, &mut buffer) {
            // Without input, zlib reports an error because nothing was left to do. A real error in the data shows up as
            // an end that never comes.
            Err(_) if input.is_empty() => Ok(false),
            ended => ended,
        };
        let (made, full) = (buffer.written_len(), buffer.has_no_spare_space());
        let taken = from.written_len();
        out.truncate(start + made);
        self.ended = ended.map_err(|_| Unreadable::Malformed)?;
        self.full = full && !self.ended;
        // A stream that never makes progress would be one, too.
        if taken == 0 && made == 0 && !input.is_empty() && !self.ended {
            return Err(Unreadable::Malformed);
        }
        *input = input.get(taken..).unwrap_or_default();
        Ok(())
    }
}

fn open(coding: Coding, head: &[u8]) -> Box<dyn DecodeV2> {
    match coding {
        Coding::Gzip => Box::new(GzipDecoder::new()),
        Coding::Deflate if is_zlib(head) => Box::new(ZlibDecoder::new()),
        Coding::Deflate => Box::new(DeflateDecoder::new()),
        Coding::Brotli => Box::new(BrotliDecoder::new()),
        Coding::Zstd => Box::new(ZstdDecoder::new_with_params(&[DParameter::window_log_max(23)])),
    }
}

/// The header of zlib (RFC 1950 2.2): method 8, and a check value over both bytes.
fn is_zlib(head: &[u8]) -> bool {
    matches!(head, [method, flags] if method & 15 == 8 && u16::from_be_bytes([*method, *flags]) % 31 == 0)
}
