//! Answers without values: every form of a value becomes the same form of its surrogate, while the body streams.
//!
//! An answer that cannot be read is not passed on.

use std::fmt;

/// What answers are cleared of: forms of values, each with what takes its place. Cheap to clone.
#[derive(Clone)]
pub struct Replacer {}

/// Never shows what it looks for.
impl fmt::Debug for Replacer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Replacer")
    }
}

impl Replacer {
    /// A whole text (a header's value, a trailer, a reason phrase), cleared; None if there is nothing in it to clear.
    pub fn text(&self, _text: &[u8]) -> Option<Vec<u8>> {
        Some(Vec::new())
    }
}

/// How an answer's body is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// There is nothing to read: the answer to HEAD, 1xx, 204 and 304. Lengths and encodings stay as they are.
    Nothing,
    /// As it comes, and every replacement is as long as what it replaces: Content-Length stays.
    SameLength,
    /// Content-Length, Content-Encoding, Accept-Ranges, Content-MD5, Digest and their like go: the body is sent unpacked
    /// and of any length.
    Rewritten,
}

/// Why an answer does not pass. The connection ends so that the client sees it (no clean end of the body).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// A Content-Encoding that cannot be read.
    Encoding,
    /// The body is not what its Content-Encoding says, or ends too early.
    Malformed,
    /// A value stands in a packed body that must keep its bytes.
    Value,
}

/// Clears one body.
pub struct Clearer {}

impl Clearer {
    /// For an answer with this method, status, and the values of all of its `Content-Encoding` fields in their order.
    pub fn new(
        _replacer: &Replacer,
        _method: &str,
        _status: u16,
        _encodings: &[&[u8]],
    ) -> Result<(Self, Plan), Unreadable> {
        Err(Unreadable::Encoding)
    }

    /// Takes bytes from the front of `input` and appends what may go down to `out`, about 64 KiB at most. True if it must
    /// be called again at once, since there is more of `input` or more to come of what was taken.
    pub fn push(&mut self, _input: &mut &[u8], _out: &mut Vec<u8>) -> Result<bool, Unreadable> {
        Err(Unreadable::Encoding)
    }

    /// The end of the body: appends what was held back. True if it must be called again.
    pub fn finish(&mut self, _out: &mut Vec<u8>) -> Result<bool, Unreadable> {
        Err(Unreadable::Encoding)
    }
}
