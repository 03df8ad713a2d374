//! The canonical request of Signature Version 4: headers, path and query in one of many variants. All variants that
//! clients use are here, botocore's first.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::router::message::Field;

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

fn push_escape(out: &mut String, byte: u8) {
    out.push_str(&format!("%{byte:02X}"));
}

/// Percent-encodes everything but unreserved characters.
pub(super) fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match is_unreserved(byte) {
            true => out.push(char::from(byte)),
            false => push_escape(&mut out, byte),
        }
    }
    out
}

/// The decoded bytes of a text, each with whether it was escaped. A `%` that does not start an escape is literal.
fn bytes(text: &str) -> impl Iterator<Item = (u8, bool)> {
    let mut rest = text.as_bytes();
    std::iter::from_fn(move || {
        let (first, after) = rest.split_first()?;
        let digit = |at: usize| after.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        let escaped = (*first == b'%').then(|| Some(digit(0)? * 16 + digit(1)?)).flatten();
        let escaped = escaped.and_then(|byte| u8::try_from(byte).ok());
        rest = if escaped.is_some() { after.get(2..).unwrap_or_default() } else { after };
        Some((escaped.unwrap_or(*first), escaped.is_some()))
    })
}

/// Normalizes the percent-encoding of a text: each byte is written in one way.
fn recode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (byte, _) in bytes(text) {
        match is_unreserved(byte) {
            true => out.push(char::from(byte)),
            false => push_escape(&mut out, byte),
        }
    }
    out
}

/// The name that a parameter's key has for AWS: escapes of ASCII are decoded, lower case.
fn name_of(key: &str) -> String {
    let mut out = String::new();
    for (byte, escaped) in bytes(key) {
        match byte {
            _ if byte.is_ascii() => out.push(char::from(byte.to_ascii_lowercase())),
            _ if escaped => push_escape(&mut out, byte),
            _ => out.push('?'),
        }
    }
    out
}

/// Decodes all escapes; `None` if one is malformed or the result is not UTF-8.
pub(super) fn decode(text: &str) -> Option<String> {
    let all: Vec<(u8, bool)> = bytes(text).collect();
    let whole = !all.iter().any(|(byte, escaped)| *byte == b'%' && !escaped);
    String::from_utf8(all.into_iter().map(|(byte, _)| byte).collect()).ok().filter(|_| whole)
}

/// A header's value, trimmed, with sequences of blanks collapsed.
pub(super) fn fold(value: &[u8]) -> Vec<u8> {
    let words = value.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(&b' ')
}

/// The values of each header, by lower-case name.
pub(super) type Values = BTreeMap<String, Vec<Vec<u8>>>;

pub(super) fn values_of(headers: &[Field]) -> Values {
    let mut values = Values::new();
    for (name, value) in headers {
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        values.entry(name).or_default().push(value.clone());
    }
    values
}

/// A parameter of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parameter {
    /// As received.
    pub key: String,
    /// As received; empty without `=`.
    pub value: String,
    /// Both, with the `=` if there was one.
    pub raw: String,
    /// The meaning of the key.
    pub name: String,
}

impl Parameter {
    pub(super) fn new(key: &str, value: &str) -> Self {
        Self { key: key.to_owned(), value: value.to_owned(), raw: format!("{key}={value}"), name: name_of(key) }
    }
}

pub(super) fn parameters_of(query: &str) -> Vec<Parameter> {
    if query.is_empty() {
        return Vec::new();
    }
    let one = |raw: &str| {
        let (key, value) = raw.split_once('=').unwrap_or((raw, ""));
        Parameter { key: key.to_owned(), value: value.to_owned(), raw: raw.to_owned(), name: name_of(key) }
    };
    query.split('&').map(one).collect()
}

/// Whether all clients write this text in the same way: it only contains unreserved characters, `more`, and upper-case
/// escapes of other characters, which include `/` if `slash` is set.
fn is_plain(text: &str, more: &str, slash: bool) -> bool {
    let upper = |byte: &u8| byte.is_ascii_digit() || (b'A'..=b'F').contains(byte);
    let parts = text.split('%').enumerate();
    parts.into_iter().all(|(at, part)| {
        let escape = part.as_bytes().get(..2).filter(|_| at > 0);
        let byte = escape.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        let is_other = byte.is_some_and(|byte| !is_unreserved(byte) && (slash || byte != b'/'));
        let good = at == 0 || (is_other && escape.is_some_and(|digits| digits.iter().all(upper)));
        good && part.bytes().all(|byte| is_unreserved(byte) || more.as_bytes().contains(&byte))
    })
}

/// The variants in which clients write a path for signing; just one for most paths. `as_sent`: the service uses the
/// path as sent.
pub(super) fn path_forms(path: &str, as_sent: bool) -> Vec<String> {
    if !as_sent {
        let mut kept: Vec<String> = Vec::new();
        for segment in path.split('/') {
            match segment {
                ".." => drop(kept.pop()),
                "" | "." => {}
                _ => kept.push(encode(segment)),
            }
        }
        let end = if path.ends_with('/') && !kept.is_empty() { "/" } else { "" };
        return vec![format!("/{}{end}", kept.join("/"))];
    }
    if is_plain(path, "/", false) {
        return vec![path.to_owned()];
    }
    // Amazon's servers decode and encode again; clients differ in what they send for what they sign.
    let segments = |text: &str| text.split('/').map(recode).collect::<Vec<_>>().join("/");
    let mut forms = vec![path.to_owned(), segments(path), segments(&path.replace('+', " "))];
    forms.extend(forms.clone().iter().map(|form| form.replace("%2F", "/")));
    let mut distinct: Vec<String> = Vec::new();
    for form in forms {
        if !distinct.contains(&form) {
            distinct.push(form);
        }
    }
    distinct
}

/// A variant in which clients write the names and values of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueryForm {
    AsSent,
    Recoded,
    /// Encoded again, with `+` for a blank.
    Spaced,
}

impl QueryForm {
    fn write(self, text: &str) -> Cow<'_, str> {
        match self {
            Self::AsSent => text.into(),
            Self::Recoded => recode(text).into(),
            Self::Spaced => recode(&text.replace('+', " ")).into(),
        }
    }
}

pub(super) fn query_forms(parameters: &[&Parameter]) -> &'static [QueryForm] {
    let all = &[QueryForm::AsSent, QueryForm::Recoded, QueryForm::Spaced];
    let plain = |one: &&Parameter| !one.raw.is_empty() && !one.value.contains('=') && is_plain(&one.raw, "=", true);
    if parameters.iter().all(plain) { &all[..1] } else { all }
}

/// The canonical query in one of the variants. Clients that encode again also leave out empty parts between two `&`.
pub(super) fn query_of(parameters: &[&Parameter], form: QueryForm) -> String {
    let some = parameters.iter().filter(|one| form == QueryForm::AsSent || !one.raw.is_empty());
    let mut pairs: Vec<_> = some.map(|one| (form.write(&one.key), form.write(&one.value))).collect();
    pairs.sort();
    let written: Vec<String> = pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
    written.join("&")
}
