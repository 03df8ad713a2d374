//! Requests and answers as both versions of HTTP bring them, and the form in which they go on.

use bytes::Bytes;

/// A header field as it came: its name in the case that it was sent in, and its value without surrounding blanks.
pub type Field = (Vec<u8>, Vec<u8>);

/// A request's head that was read in one way only.
#[derive(Clone, Debug, Default)]
#[allow(clippy::struct_excessive_bools)] // what a head says or does not say
pub struct Request {
    /// The method: upper-case letters, `-` and `_`.
    pub method: String,
    /// The target as it came: anything but blanks and controls.
    pub target: Vec<u8>,
    /// `Host` or `:authority` as it came; None where there is none.
    pub host: Option<Vec<u8>>,
    /// All fields but `Host`, in their order.
    pub headers: Vec<Field>,
    /// How the body ends.
    pub length: Length,
    /// The client waits for an invitation before it sends its body.
    pub expects: bool,
    /// The client asks for a WebSocket.
    pub upgrade: bool,
    /// HTTP/1.1 or later.
    pub one: bool,
    /// The client's connection ends after this request.
    pub close: bool,
    /// The client takes trailers of answers.
    pub trailers: bool,
    /// Bytes that it took.
    pub size: u64,
}

/// How a body ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Length {
    /// There is none.
    #[default]
    None,
    /// After so many bytes.
    Known(u64),
    /// By its framing: chunks, or a frame that says so.
    Framed,
    /// With the connection; answers alone.
    Close,
}

/// A piece of a body.
#[derive(Clone, Debug)]
pub enum Piece {
    /// Bytes.
    Data(Bytes),
    /// What comes after the last of them.
    Trailers(Vec<Field>),
}

/// An answer's head.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The reason phrase as it came.
    pub reason: Vec<u8>,
    /// All fields that are about the answer and not about the connection, in their order; no `Content-Length`.
    pub headers: Vec<Field>,
    /// How the body ends; for an answer to HEAD and 304 the length that was said.
    pub length: Length,
    /// There is no body, whatever the length says.
    pub bodiless: bool,
}

/// True if two names are one: case does not count (RFC 9110 5.1).
pub fn is(name: &[u8], wanted: &str) -> bool {
    name.eq_ignore_ascii_case(wanted.as_bytes())
}

/// The values of all fields of a name.
pub fn values<'a>(headers: &'a [Field], wanted: &'a str) -> impl Iterator<Item = &'a [u8]> {
    headers.iter().filter(move |(name, _)| is(name, wanted)).map(|(_, value)| value.as_slice())
}

/// The members of a list that may be in several fields (RFC 9110 5.6.1).
pub fn members<'a>(headers: &'a [Field], wanted: &'a str) -> impl Iterator<Item = &'a [u8]> {
    let parts = values(headers, wanted).flat_map(|value| value.split(|byte| *byte == b','));
    parts.map(<[u8]>::trim_ascii).filter(|part| !part.is_empty())
}

/// Fields about one connection, which go no further (RFC 9110 7.6.1), and what is written anew for the next one.
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
    // What servers that make variables of names take for the two that frame a body.
    "content_length",
    "transfer_encoding",
];

/// Removes fields about the connection.
pub fn strip_hop(headers: &mut Vec<Field>) {
    headers.retain(|(name, _)| !HOP.iter().any(|hop| is(name, hop)));
}

/// Removes fields that `Connection` names, before anything is decided by them: what is looked at is what goes on.
pub fn strip_named(headers: &mut Vec<Field>) {
    let named: Vec<Vec<u8>> = members(headers, "connection").map(<[u8]>::to_ascii_lowercase).collect();
    let goes = |name: &[u8]| named.contains(&name.to_ascii_lowercase()) && !HOP.iter().any(|hop| is(name, hop));
    headers.retain(|(name, _)| !goes(name));
}

/// Fields that no trailer may bring: they frame, route or authenticate (RFC 9110 6.5.1).
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

/// A number of a `Content-Length`: digits alone, at most 18 of them.
pub fn content_length(value: &[u8]) -> Option<u64> {
    let digits = (1..=18).contains(&value.len()) && value.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(value).ok().filter(|_| digits)?.parse().ok()
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
