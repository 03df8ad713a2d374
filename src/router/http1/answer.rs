//! The head of a host's response, parsed as strictly as requests, since ambiguity would be just as dangerous.

use super::head::{fields, head_end};
use super::reader::Reader;
use crate::router::message::{Answer, Field, Length, content_length, is, members, strip_hop, strip_named, values};

/// Why there is no response.
#[derive(Debug)]
pub enum NoAnswer {
    /// The connection ended or failed. If no byte was received, the host may not have read the request.
    Ended {
        /// Whether some bytes were received.
        begun: bool,
    },
    /// Nothing was received in time.
    Silent,
    /// The response is not valid HTTP/1, or is ambiguous.
    Malformed,
    /// The head exceeds the limit.
    TooLarge,
}

/// Parses a head. Also returns whether the connection can serve another request after it.
pub async fn read_answer(reader: &mut Reader, method: &str, most: usize) -> Result<(Answer, bool), NoAnswer> {
    let mut scanned = 0;
    loop {
        match head_end(reader.bytes(), 0, &mut scanned) {
            Err(()) => return Err(NoAnswer::Malformed),
            Ok(Some(end)) if end <= most => {
                let parsed = parse(reader.bytes().get(..end).unwrap_or_default(), method);
                reader.consume(end);
                return parsed.ok_or(NoAnswer::Malformed);
            }
            Ok(None) if reader.bytes().len() < most => {}
            Ok(_) => return Err(NoAnswer::TooLarge),
        }
        // Garbage is detected immediately, not only at its first line end.
        if !b"HTTP/1.".iter().zip(reader.bytes()).all(|(wanted, got)| wanted == got) {
            return Err(NoAnswer::Malformed);
        }
        match reader.fill(reader.silence).await {
            Ok(true) => {}
            Err(error) if error.kind() == std::io::ErrorKind::TimedOut => return Err(NoAnswer::Silent),
            Ok(false) | Err(_) => return Err(NoAnswer::Ended { begun: !reader.bytes().is_empty() }),
        }
    }
}

fn parse(head: &[u8], method: &str) -> Option<(Answer, bool)> {
    let line_end = memchr::memchr(b'\n', head)?;
    let line = head.get(..line_end)?.strip_suffix(b"\r")?;
    let (version, rest) = line.split_at_checked(9)?;
    let one = match version {
        b"HTTP/1.1 " => true,
        b"HTTP/1.0 " => false,
        _ => return None,
    };
    let (digits, reason) = rest.split_at_checked(3)?;
    let digits = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()))?;
    let status: u16 = digits.parse().ok().filter(|status| (100..=999).contains(status))?;
    let reason = match reason {
        [] => &[],
        [b' ', reason @ ..] => reason,
        _ => return None,
    };
    if !reason.iter().all(|b| matches!(b, b'\t' | b' '..=b'~' | 0x80..)) {
        return None;
    }
    let mut headers = fields(head.get(line_end + 1..)?)?;
    let bodiless = method == "HEAD" || status < 200 || matches!(status, 204 | 304);
    let (length, framed) = length(&headers, one, bodiless)?;
    let said = |word: &str| members(&headers, "connection").any(|one| is(one, word));
    let stays = one && !said("close") && length != Length::Close && status != 101;
    strip_named(&mut headers);
    strip_hop(&mut headers);
    let length = if bodiless && framed { Length::Framed } else { length };
    Some((Answer { status, reason: reason.to_vec(), headers, length, bodiless }, stays))
}

/// RFC 9112 6.3. `None` if it is ambiguous.
fn length(headers: &[Field], one: bool, bodiless: bool) -> Option<(Length, bool)> {
    let mut codings = values(headers, "transfer-encoding");
    let mut lengths = values(headers, "content-length");
    let length = match lengths.next() {
        None => None,
        // Some servers send it twice; different values are ambiguous.
        Some(first) => match lengths.all(|other| other == first) {
            true => Some(content_length(first)?),
            false => return None,
        },
    };
    match (codings.next(), length) {
        (None, Some(length)) => Some((Length::Known(length), false)),
        (None, None) if bodiless => Some((Length::None, false)),
        (None, None) => Some((Length::Close, false)),
        (Some(coding), None) if coding.eq_ignore_ascii_case(b"chunked") && codings.next().is_none() && one => {
            Some((Length::Framed, true))
        }
        (Some(_), _) => None,
    }
}
