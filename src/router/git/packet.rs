//! Packet lines (gitprotocol-common): four hexadecimal digits with the packet's total length, followed by text.

/// The maximum size of the text in a line.
pub(super) const MOST: usize = 65_516;

/// A packet.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Packet {
    /// `0000`.
    Flush,
    Data(Vec<u8>),
}

/// Parses packets from a text that arrives in pieces.
#[derive(Debug, Default)]
pub(super) struct Packets {
    bytes: Vec<u8>,
    at: usize,
}

impl Packets {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..std::mem::take(&mut self.at));
        self.bytes.extend(bytes);
    }

    /// The next complete packet, if there is one.
    pub(super) fn next(&mut self) -> Result<Option<Packet>, String> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Some((head, after)) = rest.split_first_chunk::<4>() else { return Ok(None) };
        // `u16::from_str_radix` accepts a sign.
        let digits = std::str::from_utf8(head).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let length = digits.and_then(|digits| usize::from_str_radix(digits, 16).ok());
        match length {
            Some(0) => {
                self.at += 4;
                Ok(Some(Packet::Flush))
            }
            Some(length @ 4..) if length - 4 <= MOST => {
                let Some(data) = after.get(..length - 4) else { return Ok(None) };
                let data = data.to_vec();
                self.at += length;
                Ok(Some(Packet::Data(data)))
            }
            // The delimiters of protocol version 2 do not occur in a push.
            _ => Err("this push is malformed".to_owned()),
        }
    }
}

/// Appends a packet; its text must fit.
pub(super) fn line(out: &mut Vec<u8>, text: &[u8]) {
    out.extend(format!("{:04x}", text.len() + 4).into_bytes());
    out.extend(text);
}
