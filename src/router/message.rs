//! Requests and responses of both HTTP versions in a common form.

use bytes::Bytes;

/// A header field as received: its name with the original case, and its value without surrounding white space.
pub type Field = (Vec<u8>, Vec<u8>);

/// An unambiguous request head.
#[derive(Clone, Debug, Default)]
#[allow(clippy::struct_excessive_bools)] // what a head says or does not say
pub struct Request {
    /// The method: upper-case letters, `-` and `_`.
    pub method: String,
    /// The target as received, without blanks and control characters.
    pub target: Vec<u8>,
    /// `Host` or `:authority` as received; `None` if missing.
    pub host: Option<Vec<u8>>,
    /// All fields except `Host`, in order.
    pub headers: Vec<Field>,
    /// How the body ends.
    pub length: Length,
    /// Whether the client waits for an invitation before it sends its body.
    pub expects: bool,
    /// Whether the client requests a WebSocket.
    pub upgrade: bool,
    /// Whether it is HTTP/1.1 or later.
    pub one: bool,
    /// Whether the client's connection ends after this request.
    pub close: bool,
    /// Whether the client accepts trailers.
    pub trailers: bool,
    /// The size of the head in bytes.
    pub size: u64,
}

/// How a body ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Length {
    /// There is none.
    #[default]
    None,
    /// After this many bytes.
    Known(u64),
    /// By its framing: chunks, or a frame with an end flag.
    Framed,
    /// With the connection; only for responses.
    Close,
}

/// A piece of a body.
#[derive(Clone, Debug)]
pub enum Piece {
    /// Bytes.
    Data(Bytes),
    /// Trailers after the last byte.
    Trailers(Vec<Field>),
}

/// The head of a response.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The reason phrase as received.
    pub reason: Vec<u8>,
    /// All fields about the response, and not about the connection, in order; without `Content-Length`.
    pub headers: Vec<Field>,
    /// How the body ends; for responses to HEAD and for 304, the declared length.
    pub length: Length,
    /// Whether there is no body, whatever the length.
    pub bodiless: bool,
}

/// Whether two names are equal, ignoring case (RFC 9110 5.1).
pub fn is(name: &[u8], wanted: &str) -> bool {
    name.eq_ignore_ascii_case(wanted.as_bytes())
}

/// The values of all fields with a name.
pub fn values<'a>(headers: &'a [Field], wanted: &'a str) -> impl Iterator<Item = &'a [u8]> {
    headers.iter().filter(move |(name, _)| is(name, wanted)).map(|(_, value)| value.as_slice())
}

/// The members of a list that may be split over several fields (RFC 9110 5.6.1).
pub fn members<'a>(headers: &'a [Field], wanted: &'a str) -> impl Iterator<Item = &'a [u8]> {
    let parts = values(headers, wanted).flat_map(|value| value.split(|byte| *byte == b','));
    parts.map(<[u8]>::trim_ascii).filter(|part| !part.is_empty())
}

/// Fields about a connection, which are not forwarded (RFC 9110 7.6.1), and fields that are written again for the next
/// one.
const HOP: [&str; 11] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "upgrade",
    "transfer-encoding",
    "content-length",
    "expect",
    "http2-settings",
    // Names that servers which turn headers into variables would treat as the two that frame a body.
    "content_length",
    "transfer_encoding",
];

/// Removes fields about the connection.
pub fn strip_hop(headers: &mut Vec<Field>) {
    headers.retain(|(name, _)| !HOP.iter().any(|hop| is(name, hop)));
}

/// Removes fields that `Connection` names, before they can affect a decision: what is checked must be what is
/// forwarded.
pub fn strip_named(headers: &mut Vec<Field>) {
    let named: Vec<Vec<u8>> = members(headers, "connection").map(<[u8]>::to_ascii_lowercase).collect();
    let goes = |name: &[u8]| named.contains(&name.to_ascii_lowercase()) && !HOP.iter().any(|hop| is(name, hop));
    headers.retain(|(name, _)| !goes(name));
}

/// Fields that trailers must not contain: they frame, route or authenticate (RFC 9110 6.5.1).
pub fn may_trail(name: &[u8]) -> bool {
    const NOT: [&str; 12] = [
        "host",
        "authorization",
        "proxy-authorization",
        "cookie",
        "set-cookie",
        "content-type",
        "content-encoding",
        "content-range",
        "cache-control",
        "trailer",
        "location",
        "forwarded",
    ];
    !HOP.iter().chain(&NOT).any(|not| is(name, not)) && !name.starts_with(b":")
}

/// The number in a `Content-Length`: digits only, at most 18 of them.
pub fn content_length(value: &[u8]) -> Option<u64> {
    let digits = (1..=18).contains(&value.len()) && value.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(value).ok().filter(|_| digits)?.parse().ok()
}

/// Whether servers that turn headers into variables (CGI) treat two names as the same: case is ignored, and `_` equals
/// `-`.
pub fn same_name(left: &[u8], right: &[u8]) -> bool {
    let plain = |byte: &u8| if *byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    left.len() == right.len() && left.iter().map(plain).eq(right.iter().map(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str, value: &str) -> Field {
        (name.as_bytes().to_vec(), value.as_bytes().to_vec())
    }

    #[test]
    fn what_is_about_the_connection_goes_no_further() {
        let mut headers = vec![
            field("Connection", "keep-alive, X-Mine"),
            field("Keep-Alive", "timeout=5"),
            field("x-mine", "1"),
            field("X-Other", "1"),
            field("Transfer_Encoding", "chunked"),
            field("TE", "trailers"),
        ];
        strip_named(&mut headers);
        strip_hop(&mut headers);
        assert_eq!(headers, [field("X-Other", "1")]);
    }

    #[test]
    fn lengths_are_digits() {
        assert_eq!(content_length(b"0005"), Some(5));
        for bad in ["", "+5", "-0", "0x5", "5 ", "5,5", "1000000000000000000", "\u{665}"] {
            assert_eq!(content_length(bad.as_bytes()), None, "{bad}");
        }
    }
}
