//! WebSocket frames on their way down (RFC 6455 5.2): what they hold is cleared of values, and nothing else of them changes.
//!
//! What takes a value's place is as long as it, so that frames keep their heads, and binary messages what they say of their own
//! lengths. A value may stand in several fragments of one message. Nobody may agree on extensions: what would be packed cannot
//! be read, so no offer of one goes up.

use std::collections::VecDeque;

use super::clear::{Replacer, Scanner, Unreadable};

/// Bytes of heads and control frames that wait for what is held back. A host that sends more of them in the middle of what may
/// be a value means no good.
const MOST_WAITING: usize = 64 << 10;

/// What goes down, in its order.
#[derive(Debug)]
enum Part {
    /// Heads and control frames.
    Done(Vec<u8>),
    /// So many bytes of messages.
    Payload(u64),
}

/// Clears what a server sends after its 101.
#[derive(Debug)]
pub struct Frames {
    replacer: Replacer,
    scanner: Scanner,
    parts: VecDeque<Part>,
    /// Cleared bytes of messages that have not gone down.
    ready: VecDeque<u8>,
    waiting: usize,
    /// A head, and the payload of a control frame.
    head: Vec<u8>,
    /// Bytes that are missing of the frame of a message.
    left: u64,
    /// It is the last one of its message.
    last: bool,
    /// A message has begun and not ended.
    open: bool,
}

impl Frames {
    /// For a connection to a host whose answers are cleared.
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

    /// Takes all of `input` and appends what may go down to `out`.
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
            // What a value would begin with is over where its message is.
            self.scanner.finish(&mut cleared);
        }
        self.ready.extend(cleared);
    }

    /// Looks whether the head, or the control frame, is whole.
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
        // A server masks nothing (RFC 6455 5.1).
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

    /// A control frame, which is small and may stand between the fragments of a message (RFC 6455 5.5).
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

    /// Sends what is settled, in its order.
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
