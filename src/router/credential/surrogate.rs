//! Finds surrogates in texts, however they are encoded, and replaces them where they are a header's whole token.

use aho_corasick::AhoCorasick;
use base64::Engine as _;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::prelude::BASE64_STANDARD;

/// How often a text is decoded and searched. After that, it is decoded until nothing is left to decode.
const ROUNDS: usize = 8;

const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_allow_trailing_bits(true)
    .with_decode_padding_mode(DecodePaddingMode::Indifferent);

/// All surrogates of a session.
#[derive(Debug)]
pub(super) struct Watch {
    /// `None` if there are no surrogates.
    finder: Option<AhoCorasick>,
    /// The credential of each pattern.
    owners: Vec<usize>,
}

impl Watch {
    /// For surrogates, each with the index of its credential.
    pub(super) fn new(surrogates: &[(&str, usize)]) -> Result<Self, String> {
        let finder = AhoCorasick::new(surrogates.iter().map(|(text, _)| text));
        let finder = Some(finder.map_err(|_| "too many surrogates".to_owned())?);
        Ok(Self { finder, owners: surrogates.iter().map(|(_, owner)| *owner).collect() })
    }

    /// For a session without surrogates.
    pub(super) fn nothing() -> Self {
        Self { finder: None, owners: Vec::new() }
    }

    /// The credential whose surrogate is in a header or the target, also percent-encoded any number of times, or in
    /// Basic. Does not search for `excused`.
    pub(super) fn leaked<'a>(
        &self,
        target: &[u8],
        headers: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
        excused: Option<usize>,
    ) -> Option<usize> {
        if let Some(owner) = self.found(target, excused) {
            return Some(owner);
        }
        headers.into_iter().find_map(|(name, value)| {
            let plain = basic(value).and_then(|plain| self.found(&plain, excused));
            self.found(name, excused).or_else(|| self.found(value, excused)).or(plain)
        })
    }

    fn found(&self, text: &[u8], excused: Option<usize>) -> Option<usize> {
        let finder = self.finder.as_ref()?;
        let once = |text: &[u8]| {
            let hits = finder.find_overlapping_iter(text);
            hits.filter_map(|hit| self.owners.get(hit.pattern().as_usize()).copied())
                .find(|owner| Some(*owner) != excused)
        };
        let mut seen = once(text);
        let mut text = std::borrow::Cow::Borrowed(text);
        for round in 0..ROUNDS {
            if seen.is_some() || !text.contains(&b'%') {
                break;
            }
            let next = if round == ROUNDS - 1 { exhaust(&text) } else { decode(&text) };
            if *next == *text {
                break;
            }
            text = next.into();
            seen = once(&text);
        }
        seen
    }
}

fn escaped(digits: &[u8]) -> Option<u8> {
    let [high, low] = digits else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()
}

/// Percent-decodes once.
fn decode(text: &[u8]) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text);
    while let [first, after @ ..] = rest {
        let byte = (*first == b'%').then(|| after.get(..2).and_then(escaped)).flatten();
        out.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    out
}

/// Decodes until nothing is left, in one pass: an escape that a decoded byte completes is decoded, too.
fn exhaust(text: &[u8]) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::with_capacity(text.len());
    for byte in text {
        out.push(*byte);
        while let Some((before, [b'%', digits @ ..])) =
            out.split_last_chunk::<3>().map(|(before, last)| (before.len(), last))
        {
            let Some(byte) = escaped(digits) else { break };
            out.truncate(before);
            out.push(byte);
        }
    }
    out
}

/// Decodes `user:password` of a Basic header (RFC 7617), with either alphabet, with or without padding.
fn basic(value: &[u8]) -> Option<Vec<u8>> {
    let (scheme, token) = split(value)?;
    if !scheme?.eq_ignore_ascii_case(b"basic") {
        return None;
    }
    let end = token.iter().rposition(|byte| *byte != b'=').map_or(0, |at| at + 1);
    let (digits, padding) = token.split_at_checked(end)?;
    if padding.len() > 2 || digits.is_empty() {
        return None;
    }
    let standard: Vec<u8> = digits
        .iter()
        .map(|byte| match byte {
            b'-' => b'+',
            b'_' => b'/',
            other => *other,
        })
        .collect();
    GeneralPurpose::new(&ALPHABET, LENIENT).decode(standard).ok()
}

/// Whether a header's value is Basic with a user and an empty password.
pub fn is_user_alone(value: &[u8]) -> bool {
    basic(value)
        .is_some_and(|plain| plain.len() > 1 && plain.iter().position(|byte| *byte == b':') == Some(plain.len() - 1))
}

/// The scheme, if any, and the token of a header's value; `None` if it has another format.
fn split(value: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = value.iter().position(|byte| !blank(byte))?;
    let end = value.iter().rposition(|byte| !blank(byte))? + 1;
    let value = value.get(start..end)?;
    let Some(gap) = value.iter().position(blank) else { return Some((None, value)) };
    let (scheme, rest) = value.split_at_checked(gap)?;
    let token = rest.get(rest.iter().position(|byte| !blank(byte))?..)?;
    let is_scheme = scheme.first().is_some_and(u8::is_ascii_alphabetic)
        && scheme.iter().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&'*+.^_`|~-".contains(byte));
    (is_scheme && !token.iter().any(blank)).then_some((Some(scheme), token))
}

/// A header's value with real values.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Swapped {
    /// The value to forward.
    pub value: Vec<u8>,
    /// The credentials that were inserted.
    pub used: Vec<usize>,
    /// The token of Basic as forwarded, and as received.
    pub echo: Option<(Vec<u8>, Vec<u8>)>,
}

/// Replaces surrogates with real values. Returns `None` unless the surrogate is the whole token, alone or after a
/// scheme, or the user or password of Basic. `of` returns the credential of a token, `real` its value.
pub(super) fn swap(
    value: &[u8],
    of: impl Fn(&[u8]) -> Option<usize>,
    mut real: impl FnMut(usize) -> Vec<u8>,
) -> Option<Swapped> {
    let (scheme, token) = split(value)?;
    if let Some(plain) = basic(value) {
        let colon = plain.iter().position(|byte| *byte == b':')?;
        let halves = [plain.get(..colon)?, plain.get(colon + 1..)?];
        let found = halves.map(&of);
        let mut used: Vec<usize> = Vec::new();
        let clear = halves.iter().zip(found).map(|(half, one)| match one {
            Some(one) => {
                used.push(one);
                real(one)
            }
            None => half.to_vec(),
        });
        let clear = clear.collect::<Vec<_>>().join(&b':');
        if used.is_empty() {
            return None;
        }
        let sent = BASE64_STANDARD.encode(clear).into_bytes();
        let came = BASE64_STANDARD.encode(&plain).into_bytes();
        return Some(Swapped { value: [scheme?, &sent].join(&b' '), used, echo: Some((sent, came)) });
    }
    let one = of(token)?;
    let real = real(one);
    let value = scheme.map_or_else(|| real.clone(), |scheme| [scheme, &real].join(&b' '));
    Some(Swapped { value, used: vec![one], echo: None })
}

#[cfg(test)]
mod tests;
