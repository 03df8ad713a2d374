//! The head of a request. Everything ambiguous is refused before anything is forwarded.

use crate::policy::Reason;
use crate::router::message::{Field, Length, Request, content_length, is, members, strip_named, values};

/// A refused head, with details for the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Malformed {
    /// The status of the response; 0 stands for the bare body of HTTP/0.9.
    pub status: u16,
    /// The method, if it is valid.
    pub method: Vec<u8>,
    /// The target, as far as it was read.
    pub target: Vec<u8>,
    /// The reason, if it is not [`Reason::BadRequest`].
    pub reason: Option<Reason>,
    /// Whether the client waits for the response before it sends the body.
    pub expects: bool,
}

/// The received part of a head.
#[derive(Debug)]
pub enum Parsed {
    /// An incomplete head.
    More,
    /// A complete head with its size, and whether the connection can serve another request after it.
    Whole(Box<Request>, usize, bool),
    /// An invalid head.
    Malformed(Malformed),
}

impl Malformed {
    fn new(status: u16) -> Self {
        Self { status, ..Self::default() }
    }
}

/// The maximum number of headers in a request.
const MOST_HEADERS: usize = 500;

/// Parses a head. `scanned` is how much of it has been checked before, so that no line is checked twice.
pub fn parse_request(bytes: &[u8], scanned: &mut usize) -> Parsed {
    let line_bytes = match first_line(bytes) {
        Ok(Some(line)) => line,
        Ok(None) => return Parsed::More,
        Err(bad) => return Parsed::Malformed(bad),
    };
    let line = match request_line(line_bytes) {
        Ok(line) => line,
        Err(bad) => return Parsed::Malformed(bad),
    };
    let start = line_bytes.len() + 2;
    match head_end(bytes, start, scanned) {
        Ok(Some(end)) => match request(&line, bytes.get(start..end).unwrap_or_default(), end) {
            Ok((request, stays)) => Parsed::Whole(Box::new(request), end, stays),
            Err(bad) => Parsed::Malformed(Malformed { method: line.method.into(), target: line.target.into(), ..bad }),
        },
        Ok(None) => Parsed::More,
        Err(()) => {
            let (method, target) = (line.method.into(), line.target.into());
            Parsed::Malformed(Malformed { method, target, ..Malformed::new(400) })
        }
    }
}

/// The request line without its line end. It is refused as soon as it cannot be valid.
fn first_line(bytes: &[u8]) -> Result<Option<&[u8]>, Malformed> {
    let is_method = |b: u8| b.is_ascii_uppercase() || matches!(b, b'_' | b'-');
    let method = bytes.iter().take_while(|b| is_method(**b)).count();
    // No known method is longer.
    if method > 64 || (method < bytes.len() && (method == 0 || bytes.get(method) != Some(&b' '))) {
        return Err(Malformed::new(400));
    }
    let Some(end) = memchr::memchr(b'\n', bytes) else { return Ok(None) };
    match bytes.get(..end).and_then(|line| line.strip_suffix(b"\r")) {
        Some(line) => Ok(Some(line)),
        None => Err(Malformed { method: bytes.get(..method).unwrap_or_default().into(), ..Malformed::new(400) }),
    }
}

struct Line<'a> {
    method: &'a [u8],
    target: &'a [u8],
    /// Whether it is HTTP/1.1, not 1.0.
    one: bool,
}

fn request_line(line: &[u8]) -> Result<Line<'_>, Malformed> {
    let mut words = line.splitn(2, |b| *b == b' ');
    let method = words.next().unwrap_or_default();
    let rest = words.next().unwrap_or_default();
    let (target, version) = match memchr::memrchr(b' ', rest) {
        Some(at) => (rest.get(..at).unwrap_or_default(), rest.get(at + 1..)),
        None => (rest, None),
    };
    let bad = |status| Malformed { method: method.into(), target: target.into(), ..Malformed::new(status) };
    let clean = !target.is_empty() && target.iter().all(|b| *b > b' ' && *b != 0x7f);
    let one = match version {
        Some(b"HTTP/1.1") => true,
        Some(b"HTTP/1.0") => false,
        // HTTP/0.9, which has neither Host nor status.
        None if clean && target.starts_with(b"/") && method == b"GET" => {
            return Err(Malformed { reason: Some(Reason::BadHost), ..bad(0) });
        }
        Some(other) if clean && is_version(other) && target.starts_with(b"/") => return Err(bad(505)),
        _ => return Err(bad(400)),
    };
    let form = match method {
        _ if !clean => Some(400),
        b"CONNECT" => Some(400),
        b"TRACE" => Some(405),
        _ if target.starts_with(b"/") => None,
        // An absolute URI would name a second host; the router is not a proxy.
        _ if target.windows(3).any(|three| three == b"://") => Some(403),
        _ => Some(400),
    };
    match form {
        Some(status) => Err(bad(status)),
        None => Ok(Line { method, target, one }),
    }
}

fn is_version(word: &[u8]) -> bool {
    matches!(word, [b'H', b'T', b'T', b'P', b'/', major, b'.', minor] if major.is_ascii_digit() && minor.is_ascii_digit())
}

/// The end of the head, including its empty line. A line feed without a carriage return is an error.
pub(super) fn head_end(bytes: &[u8], start: usize, scanned: &mut usize) -> Result<Option<usize>, ()> {
    let mut at = (*scanned).max(start);
    while let Some(offset) = memchr::memchr(b'\n', bytes.get(at..).unwrap_or_default()) {
        let end = at + offset;
        let line_end = end.checked_sub(1).filter(|before| bytes.get(*before) == Some(&b'\r')).ok_or(())?;
        if line_end == start || bytes.get(..line_end).is_some_and(|before| before.ends_with(b"\n") && line_end > start)
        {
            return Ok(Some(end + 1));
        }
        at = end + 1;
    }
    *scanned = at;
    Ok(None)
}

/// The fields of a block that ends with an empty line; `None` if one is malformed.
pub(super) fn fields(block: &[u8]) -> Option<Vec<Field>> {
    let count = memchr::memchr_iter(b'\n', block).count();
    if count > MOST_HEADERS {
        return None;
    }
    let mut headers = vec![httparse::EMPTY_HEADER; count];
    match httparse::parse_headers(block, &mut headers) {
        Ok(httparse::Status::Complete((used, headers))) if used == block.len() => {
            Some(headers.iter().map(|one| (one.name.as_bytes().to_vec(), one.value.trim_ascii().to_vec())).collect())
        }
        _ => None,
    }
}

/// Interprets the head: its destination, and how the body ends.
fn request(line: &Line<'_>, block: &[u8], size: usize) -> Result<(Request, bool), Malformed> {
    let bad = Malformed::new;
    let mut headers = fields(block).ok_or_else(|| bad(400))?;
    let expects = values(&headers, "expect").next().is_some();
    let waiting = |status| Malformed { expects, ..bad(status) };
    let length = request_length(&headers, line.one).map_err(waiting)?;
    // RFC 9110 10.1.1: there is only one expectation.
    if !values(&headers, "expect").all(|value| value.eq_ignore_ascii_case(b"100-continue"))
        || values(&headers, "expect").count() > 1
    {
        return Err(waiting(417));
    }
    let host = {
        let mut hosts = values(&headers, "host");
        let host = hosts.next().map(<[u8]>::to_vec);
        // RFC 9112 3.2: exactly one; HTTP/1.0 may have none.
        if hosts.next().is_some() || (host.is_none() && line.one) || host.as_ref().is_some_and(Vec::is_empty) {
            return Err(waiting(400));
        }
        host
    };
    let connection = |word: &str| members(&headers, "connection").any(|one| is(one, word));
    let stays = line.one && !connection("close");
    let websocket = {
        let mut upgrades = values(&headers, "upgrade");
        upgrades.next().is_some_and(|value| is(value, "websocket")) && upgrades.next().is_none()
    };
    let upgrade = websocket && line.one && connection("upgrade") && length == Length::None;
    let trailers = members(&headers, "te").any(|one| is(one, "trailers"));
    headers.retain(|(name, _)| !is(name, "host"));
    strip_named(&mut headers);
    let method = std::str::from_utf8(line.method).unwrap_or_default().to_owned();
    let size = u64::try_from(size).unwrap_or(u64::MAX);
    let expects = expects && line.one && !matches!(length, Length::None | Length::Known(0));
    let target = line.target.to_vec();
    let (one, close) = (line.one, !stays);
    Ok((Request { method, target, host, headers, length, expects, upgrade, one, close, trailers, size }, stays))
}

/// RFC 9112 6.1 and 6.3, without the choices that they permit.
fn request_length(headers: &[Field], one: bool) -> Result<Length, u16> {
    let mut codings = values(headers, "transfer-encoding");
    let mut lengths = values(headers, "content-length");
    match (codings.next(), lengths.next()) {
        (None, None) => Ok(Length::None),
        (None, Some(length)) => match content_length(length) {
            Some(length) if lengths.next().is_none() => Ok(Length::Known(length)),
            _ => Err(400),
        },
        (Some(_), Some(_)) => Err(400),
        (Some(coding), None) => match coding.eq_ignore_ascii_case(b"chunked") {
            _ if codings.next().is_some() || !one => Err(400),
            true => Ok(Length::Framed),
            false => Err(501),
        },
    }
}

#[cfg(test)]
mod tests;
