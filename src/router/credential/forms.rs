//! The forms in which a value may appear in a response: as it is, and as servers, libraries and templates write it.
//!
//! The same list is used for responses and for everything that `sandboxc` itself writes. Each form of a value has a
//! corresponding form of its surrogate, so that the replacement can be parsed like the original.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// Shorter forms are too common to be replaced.
pub const SHORTEST: usize = 6;

/// Each form of a value with the same form of its surrogate, without duplicates, and none shorter than [`SHORTEST`].
pub fn pairs(value: &[u8], surrogate: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    pairs_from(value, surrogate, SHORTEST)
}

/// The forms only; those that are not base64 from `shortest` bytes on.
pub fn of(value: &[u8], shortest: usize) -> Vec<Vec<u8>> {
    pairs_from(value, &[], shortest).into_iter().map(|(form, _)| form).collect()
}

fn pairs_from(value: &[u8], surrogate: &[u8], shortest: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut all: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    if value.is_empty() {
        return Vec::new();
    }
    let mut add = |form: Vec<u8>, other: Vec<u8>, shortest: usize| {
        if form.len() >= shortest {
            all.entry(form).or_insert(other);
        }
    };
    for write in WRITERS {
        add(write(value), write(surrogate), shortest);
    }
    for form in Base64::all() {
        let (value, surrogate) = (form.write(value), form.write(surrogate));
        for write in AROUND_BASE64 {
            add(write(&value), write(&surrogate), SHORTEST);
        }
    }
    all.into_iter().collect()
}

type Writer = fn(&[u8]) -> Vec<u8>;

/// Ways to write a text. If several give the same form, the first determines the replacement.
const WRITERS: &[Writer] = &[
    <[u8]>::to_vec,
    |text| percent(text, Case::Upper, b"-._~"),
    |text| percent(text, Case::Lower, b"-._~"),
    // JavaScript's encodeURIComponent, Python's quote, and paths.
    |text| percent(text, Case::Upper, b"-._~!'()*"),
    |text| percent(text, Case::Upper, b"-._~/"),
    |text| percent(text, Case::Lower, b"-._~/"),
    |text| percent(text, Case::Upper, b"-._~!$&'()*+,;=:@/"),
    // application/x-www-form-urlencoded.
    |text| form(text, Case::Upper),
    |text| form(text, Case::Lower),
    |text| percent(&percent(text, Case::Upper, b"-._~"), Case::Upper, b"-._~"),
    |text| percent(&percent(text, Case::Lower, b"-._~"), Case::Lower, b"-._~"),
    |text| json(text, Json { slash: false, also: b"", ascii: None }),
    |text| json(text, Json { slash: true, also: b"", ascii: None }),
    // Go and Rails, Gson, .NET, Python, PHP.
    |text| json(text, Json { slash: false, also: b"<>&", ascii: None }),
    |text| json(text, Json { slash: false, also: b"<>&='", ascii: None }),
    |text| json(text, Json { slash: false, also: b"\"&'+<>`", ascii: Some(Case::Upper) }),
    |text| json(text, Json { slash: false, also: b"", ascii: Some(Case::Lower) }),
    |text| json(text, Json { slash: true, also: b"", ascii: Some(Case::Lower) }),
    // JSON in JSON.
    |text| json(&json(text, PLAIN), PLAIN),
    |text| json(&json(text, Json { slash: true, ..PLAIN }), Json { slash: true, ..PLAIN }),
    // Named and decimal entities as most libraries write them, then Go, PHP, Python and Django, XML, Handlebars.
    |text| html(text, &[(b'\'', "&#39;")]),
    |text| html(text, &[(b'\'', "&#39;"), (b'"', "&#34;"), (b'+', "&#43;")]),
    |text| html(text, &[(b'\'', "&#039;")]),
    |text| html(text, &[(b'\'', "&#x27;")]),
    |text| html(text, &[(b'\'', "&apos;")]),
    |text| html(text, &[(b'\'', "&#x27;"), (b'`', "&#x60;"), (b'=', "&#x3D;")]),
    |text| html(text, &[(b'\'', "&#39;"), (b'`', "&#x60;"), (b'=', "&#x3D;"), (b'/', "&#x2F;")]),
    |text| html(text, &[]),
    |text| hex(text, Case::Lower, ""),
    |text| hex(text, Case::Upper, ""),
    // In errors, S3 shows the bytes of the string to sign, in which the token of a URL is encoded.
    |text| hex(text, Case::Lower, " "),
    |text| hex(&percent(text, Case::Upper, b"-._~"), Case::Lower, " "),
];

/// Ways to write base64, whose digits include `+` and `/`.
const AROUND_BASE64: &[Writer] = &[
    <[u8]>::to_vec,
    |text| percent(text, Case::Upper, b"-._~"),
    |text| percent(text, Case::Lower, b"-._~"),
    |text| json(text, Json { slash: true, ..PLAIN }),
];

/// Ways to write hexadecimal digits.
#[derive(Clone, Copy)]
enum Case {
    Upper,
    Lower,
}

fn digit(nibble: u8, case: Case) -> u8 {
    match (nibble, case) {
        (0..=9, _) => b'0' + nibble,
        (_, Case::Upper) => b'A' + nibble - 10,
        (_, Case::Lower) => b'a' + nibble - 10,
    }
}

fn percent(text: &[u8], case: Case, kept: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for &byte in text {
        match byte.is_ascii_alphanumeric() || kept.contains(&byte) {
            true => out.push(byte),
            false => out.extend([b'%', digit(byte >> 4, case), digit(byte & 15, case)]),
        }
    }
    out
}

/// The serializer of HTML forms (URL standard 5.2).
fn form(text: &[u8], case: Case) -> Vec<u8> {
    let parts = text.split(|byte| *byte == b' ').map(|part| percent(part, case, b"*-._"));
    parts.collect::<Vec<_>>().join(&b'+')
}

/// How a serializer writes strings.
#[derive(Clone, Copy)]
struct Json<'a> {
    /// Whether it writes `\/` for `/`.
    slash: bool,
    /// What else is written as `\uXXXX`.
    also: &'a [u8],
    /// All characters outside ASCII, with digits of this case, and those in `also`.
    ascii: Option<Case>,
}

const PLAIN: Json<'_> = Json { slash: false, also: b"", ascii: None };

fn json(text: &[u8], style: Json<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let case = style.ascii.unwrap_or(Case::Lower);
    let unit = |out: &mut Vec<u8>, unit: u16| {
        out.extend(b"\\u");
        out.extend(unit.to_be_bytes().iter().flat_map(|byte| [digit(byte >> 4, case), digit(byte & 15, case)]));
    };
    for chunk in text.utf8_chunks() {
        for c in chunk.valid().chars() {
            let byte = u8::try_from(c).unwrap_or(0xff);
            match c {
                _ if c.is_ascii() && style.also.contains(&byte) => unit(&mut out, u16::from(byte)),
                '"' | '\\' => out.extend([b'\\', byte]),
                '/' if style.slash => out.extend(b"\\/"),
                '\t' => out.extend(b"\\t"),
                _ if c.is_ascii_control() => unit(&mut out, u16::from(byte)),
                _ if !c.is_ascii() && style.ascii.is_some() => {
                    c.encode_utf16(&mut [0; 2]).iter().for_each(|one| unit(&mut out, *one));
                }
                _ => out.extend(c.encode_utf8(&mut [0; 4]).bytes()),
            }
        }
        out.extend(chunk.invalid());
    }
    out
}

fn html(text: &[u8], more: &[(u8, &str)]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        let written = more.iter().find(|(special, _)| special == byte).map(|(_, written)| *written);
        let written = written.or(match byte {
            b'&' => Some("&amp;"),
            b'<' => Some("&lt;"),
            b'>' => Some("&gt;"),
            b'"' => Some("&quot;"),
            _ => None,
        });
        match written {
            Some(written) => out.extend(written.bytes()),
            None => out.push(*byte),
        }
    }
    out
}

fn hex(text: &[u8], case: Case, between: &str) -> Vec<u8> {
    let pairs = text.iter().map(|byte| vec![digit(byte >> 4, case), digit(byte & 15, case)]);
    pairs.collect::<Vec<_>>().join(between.as_bytes())
}

/// The certain part of the base64 of any text that contains a value.
#[derive(Clone, Copy)]
struct Base64 {
    /// Whether to use the alphabet for URLs.
    url: bool,
    /// How many bytes come before the value in its first group of three.
    before: usize,
    /// Whether the last of them is a colon, as in Basic, so that the digit that it shares with the value is also
    /// certain.
    after_colon: bool,
    end: End,
}

/// What follows the value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// Anything, so that a digit shared with it is uncertain.
    Any,
    /// A colon, as in Basic.
    Colon,
    /// Nothing.
    Bare,
    /// Nothing, and the last group is padded with `=`.
    Padded,
}

impl Base64 {
    fn all() -> impl Iterator<Item = Self> {
        let starts = [(0, false), (1, false), (1, true), (2, false), (2, true)];
        let ends = [End::Any, End::Colon, End::Bare, End::Padded];
        [false, true].into_iter().flat_map(move |url| {
            starts.into_iter().flat_map(move |(before, after_colon)| {
                ends.into_iter().map(move |end| Self { url, before, after_colon, end })
            })
        })
    }

    fn write(self, value: &[u8]) -> Vec<u8> {
        let mut group = vec![b':'; self.before];
        group.extend(value);
        let whole = group.len() * 8;
        if self.end == End::Colon {
            group.push(b':');
        }
        let digits = if self.url { URL_SAFE_NO_PAD.encode(&group) } else { STANDARD_NO_PAD.encode(&group) };
        let first = match (self.before, self.after_colon) {
            (0, _) => 0,
            (before, true) => before,
            (before, false) => before + 1,
        };
        // The last digit may contain bits of what follows.
        let last = if self.end == End::Any { whole / 6 } else { whole.div_ceil(6) };
        let mut out = digits.get(first..last).unwrap_or_default().as_bytes().to_vec();
        if self.end == End::Padded {
            out.extend(std::iter::repeat_n(b'=', (4 - last % 4) % 4));
        }
        out
    }
}

#[cfg(test)]
mod tests;
