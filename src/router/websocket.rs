//! WebSocket frames on their way to the client (RFC 6455 5.2): their content is cleared of credentials, and nothing
//! else changes.
//!
//! Replacements have the same length, so that frame headers and length fields in binary messages stay valid. A value
//! may be split over several fragments of a message. Extensions are never negotiated, since compressed messages could
//! not be read.

use std::collections::VecDeque;

use super::clear::{Replacer, Scanner, Unreadable};

/// The maximum size of frame headers and control frames that wait for held-back bytes. A host that sends more of them
/// in the middle of a possible value is up to no good.
const MOST_WAITING: usize = 64 << 10;

/// What to send, in order.
#[derive(Debug)]
enum Part {
    /// Frame headers and control frames.
    Done(Vec<u8>),
    /// This many bytes of messages.
    Payload(u64),
}

/// Clears what a server sends after its 101.
#[derive(Debug)]
pub struct Frames {
    replacer: Replacer,
    scanner: Scanner,
    parts: VecDeque<Part>,
    /// Cleared bytes of messages that have not been sent.
    ready: VecDeque<u8>,
    waiting: usize,
    /// A frame header, and the payload of a control frame.
    head: Vec<u8>,
    /// How many bytes of a message's frame are missing.
    left: u64,
    /// Whether it is the last frame of its message.
    last: bool,
    /// Whether a message has begun and not ended.
    open: bool,
}

impl Frames {
    /// For a connection to a host whose responses are cleared.
    pub fn new(replacer: &Replacer) -> Self {
        Self {
            replacer: replacer.clone(),
            scanner: Scanner::new(replacer, true),
            parts: VecDeque::new(),
            ready: VecDeque::new(),
            waiting: 0,
            head: Vec::new(),
            left: 0,
            last: false,
            open: false,
        }
    }

    /// Takes all of `input` and appends what can be sent to `out`.
    pub fn push(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), Unreadable> {
        let mut rest = input;
        while !rest.is_empty() {
            if self.left > 0 {
                let (piece, after) = rest.split_at(rest.len().min(usize::try_from(self.left).unwrap_or(usize::MAX)));
                rest = after;
                self.left -= u64::try_from(piece.len()).unwrap_or(self.left);
                self.payload(piece);
            } else if let Some((byte, after)) = rest.split_first() {
                rest = after;
                self.head.push(*byte);
                self.head()?;
            }
            self.send(out);
            if self.waiting > MOST_WAITING {
                return Err(Unreadable::Malformed);
            }
        }
        Ok(())
    }

    fn payload(&mut self, piece: &[u8]) {
        let mut cleared = Vec::new();
        self.scanner.push(piece, &mut cleared);
        if self.left == 0 && self.last {
            // A value cannot extend beyond its message.
            self.scanner.finish(&mut cleared);
        }
        self.ready.extend(cleared);
    }

    /// Checks whether the frame header, or the control frame, is complete.
    fn head(&mut self) -> Result<(), Unreadable> {
        let [first, second, more @ ..] = self.head.as_slice() else { return Ok(()) };
        let (opcode, masked) = (first & 15, second & 0x80 != 0);
        if first & 0x70 != 0 {
            return Err(Unreadable::Encoding);
        }
        let short = second & 0x7f;
        let wide = match short {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let Some(wide) = more.get(..wide) else { return Ok(()) };
        let length = match wide {
            [] => u64::from(short),
            bytes => bytes.iter().fold(0, |length, byte| length << 8 | u64::from(*byte)),
        };
        // A server does not mask frames (RFC 6455 5.1).
        if masked || length > u64::MAX >> 1 {
            return Err(Unreadable::Malformed);
        }
        match opcode {
            8..=10 => self.control(first & 0x80 != 0, short),
            0 if self.open => self.message(first & 0x80 != 0, length),
            1 | 2 if !self.open => self.message(first & 0x80 != 0, length),
            _ => Err(Unreadable::Malformed),
        }
    }

    /// A control frame, which is small and may appear between the fragments of a message (RFC 6455 5.5).
    fn control(&mut self, whole: bool, length: u8) -> Result<(), Unreadable> {
        if !whole || length > 125 {
            return Err(Unreadable::Malformed);
        }
        if self.head.len() < 2 + usize::from(length) {
            return Ok(());
        }
        let mut frame = std::mem::take(&mut self.head);
        let payload = frame.split_off(2);
        frame.extend(self.replacer.fitted(&payload).unwrap_or(payload));
        self.done(frame);
        Ok(())
    }

    #[expect(clippy::unnecessary_wraps, reason = "one of several ways of a head")]
    fn message(&mut self, last: bool, length: u64) -> Result<(), Unreadable> {
        (self.left, self.last, self.open) = (length, last, !last);
        let head = std::mem::take(&mut self.head);
        self.done(head);
        self.parts.push_back(Part::Payload(length));
        if length == 0 {
            self.payload(&[]);
        }
        Ok(())
    }

    fn done(&mut self, bytes: Vec<u8>) {
        self.waiting += bytes.len();
        self.parts.push_back(Part::Done(bytes));
    }

    /// Sends what is final, in order.
    fn send(&mut self, out: &mut Vec<u8>) {
        while let Some(part) = self.parts.front_mut() {
            match part {
                Part::Done(bytes) => {
                    self.waiting -= bytes.len();
                    out.append(bytes);
                }
                Part::Payload(left) => {
                    let count = self.ready.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    out.extend(self.ready.drain(..count));
                    *left -= u64::try_from(count).unwrap_or(*left);
                    if *left > 0 {
                        return;
                    }
                }
            }
            self.parts.pop_front();
        }
    }
}

#[cfg(test)]
mod tests;
