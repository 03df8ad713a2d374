//! WebSocket frames on their way down (RFC 6455 5.2): text is cleared of values, all else passes as it came.

use super::clear::{Replacer, Unreadable};

/// Clears what a server sends after its 101.
pub struct Frames {}

impl Frames {
    /// For a connection whose 101 had these `Sec-WebSocket-Extensions`. One that the router cannot read (compression) must
    /// have been taken out of the request: see [`offer`].
    pub fn new(_replacer: &Replacer) -> Self {
        Self {}
    }

    /// Takes all of `input` and appends what may go down to `out`.
    pub fn push(&mut self, _input: &[u8], _out: &mut Vec<u8>) -> Result<(), Unreadable> {
        Err(Unreadable::Malformed)
    }
}

/// What goes up of a client's `Sec-WebSocket-Extensions` to a host whose frames are read: nothing of compression. None if
/// the field is left out.
pub fn offer(_extensions: &[u8]) -> Option<Vec<u8>> {
    None
}
