//! Paths of requests: a canonical form, and globs that match it.
//!
//! A canonical path is a sequence of tokens: a byte, or a `%XX` that stays encoded. Globs match tokens, so that no
//! wildcard ends inside an escape.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::part::Part;

/// Why a path has no safe canonical form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PathError {
    /// An absolute URI, `*`, an authority, or nothing.
    #[error("it does not start with `/`")]
    NoSlash,
    /// `.` or `..`, also encoded, with `;` parameters, or between encoded slashes.
    #[error("it has a `.` or `..` segment")]
    DotSegment,
    /// `//`.
    #[error("it has an empty segment (`//`)")]
    EmptySegment,
    /// `\` or `%5C`.
    #[error("it has a backslash")]
    Backslash,
    /// A control byte, a space or a non-ASCII byte, or an encoded control byte.
    #[error("it has a control byte, a space or a byte that is not ASCII")]
    Byte,
    /// `#`.
    #[error("it has a fragment (`#`)")]
    Fragment,
    /// `%C0%AE`, which lenient servers decode to a dot.
    #[error("it has escapes that are not UTF-8")]
    NotUtf8,
    /// `%` without two hexadecimal digits.
    #[error("it has a `%` that starts no escape")]
    Escape,
    /// `%252e`.
    #[error("it is encoded twice (`%25` before two hexadecimal digits)")]
    Twice,
    /// A glob with `?`.
    #[error("it has a query, and queries are not matched")]
    Query,
    /// A glob with `***`, or with too many wildcards.
    #[error("it has a wildcard that is neither `*` nor `**`, or more than 16 of them")]
    Wildcard,
}

const MOST_WILDCARDS: usize = 16;

/// The canonical form of a request target's path, without the query. Escapes of unreserved characters (RFC 3986 2.3)
/// are decoded, others get upper-case digits; `%2F` stays and does not separate segments. A path that servers parse
/// differently is an error.
pub fn canonical(target: &str) -> Result<String, PathError> {
    let path = target.split('?').next().unwrap_or("");
    if !path.starts_with('/') {
        return Err(PathError::NoSlash);
    }
    let mut out = String::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let decoded = escape(&mut rest).ok_or(PathError::Escape)?;
                match decoded {
                    0..0x20 | 0x7f => return Err(PathError::Byte),
                    b'\\' => return Err(PathError::Backslash),
                    _ if is_unreserved(decoded) => out.push(char::from(decoded)),
                    _ => out.push_str(&format!("%{decoded:02X}")),
                }
            }
            b'\\' => return Err(PathError::Backslash),
            b'#' => return Err(PathError::Fragment),
            0..=0x20 | 0x7f.. => return Err(PathError::Byte),
            _ => out.push(char::from(byte)),
        }
    }
    if out.contains("//") {
        return Err(PathError::EmptySegment);
    }
    // A server that decodes escapes before it resolves dots must not find any either.
    let decoded = decoded(&out).ok_or(PathError::NotUtf8)?;
    if decoded.split(['/', '\\']).any(is_dots) {
        return Err(PathError::DotSegment);
    }
    let twice = |(at, _): (usize, &str)| out.bytes().skip(at + 3).take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    if out.match_indices("%25").any(twice) {
        return Err(PathError::Twice);
    }
    Ok(out)
}

fn escape(bytes: &mut std::str::Bytes<'_>) -> Option<u8> {
    let mut digit = || char::from(bytes.next()?).to_digit(16);
    let (high, low) = (digit()?, digit()?);
    u8::try_from(high * 16 + low).ok()
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// A canonical path without escapes, as a server that also folds compatibility forms of its separators reads it
/// (NFKC, or the best-fit tables of Windows). `None` if it is not UTF-8.
fn decoded(canonical: &str) -> Option<Cow<'_, str>> {
    if !canonical.contains('%') {
        return Some(Cow::Borrowed(canonical));
    }
    let byte = |token: &str| match token.strip_prefix('%') {
        Some(digits) => u8::from_str_radix(digits, 16).ok(),
        None => token.bytes().next(),
    };
    let text = String::from_utf8(split(canonical).map(byte).collect::<Option<_>>()?).ok()?;
    let fold = |c: char| match c {
        '\u{2024}' | '\u{fe52}' | '\u{ff0e}' => '.',
        '\u{2044}' | '\u{2215}' | '\u{ff0f}' => '/',
        '\u{2216}' | '\u{fe68}' | '\u{ff3c}' => '\\',
        '\u{fe54}' | '\u{ff1b}' => ';',
        c => c,
    };
    Some(text.chars().map(fold).collect::<String>().replace('\u{2025}', "..").into())
}

/// `.` and `..`, also before parameters, a query or a fragment, and padded with blanks, all of which some servers remove
/// first.
fn is_dots(segment: &str) -> bool {
    let name = segment.split([';', '?', '#']).next().unwrap_or("");
    let is_blank =
        |c: char| c.is_whitespace() || matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}');
    let dots: String = name.chars().filter(|c| !is_blank(*c)).collect();
    matches!(dots.as_str(), "." | "..") || (dots != name && !dots.is_empty() && dots.bytes().all(|byte| byte == b'.'))
}

/// A glob for canonical paths: `*` stays inside a segment, `**` crosses segments, everything else is literal. Both also
/// match nothing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PathGlob(String);

impl TryFrom<String> for PathGlob {
    type Error = String;

    /// Parses a glob in canonical form.
    fn try_from(text: String) -> Result<Self, String> {
        let glob = Self::parse(&text).map_err(|e| format!("`{text}` is not a path: {e}"))?;
        if glob.0 == text { Ok(glob) } else { Err(format!("`{text}` is not in canonical form: `{}`", glob.0)) }
    }
}

impl From<PathGlob> for String {
    fn from(glob: PathGlob) -> Self {
        glob.0
    }
}

/// A part of a glob or a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    /// A byte, or an escape that stays.
    Literal(&'a str),
    /// `*`.
    Segment,
    /// `**`.
    Any,
}

impl PathGlob {
    /// Parses a glob and converts its literals to canonical form. Write a literal `*` as `%2A`, as in the requests that
    /// it should match.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        if text.contains('?') {
            return Err(PathError::Query);
        }
        let glob = Self(canonical(text)?);
        let wildcards = glob.tokens().iter().filter(|token| !matches!(token, Token::Literal(_))).count();
        if text.contains("***") || wildcards > MOST_WILDCARDS {
            return Err(PathError::Wildcard);
        }
        Ok(glob)
    }

    /// As written in the config, in canonical form.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a canonical path matches.
    pub fn matches(&self, canonical: &str) -> bool {
        let tokens = self.tokens();
        // `reached[i]`: the first `i` tokens of the glob match the part of the path that has been read.
        let mut reached = vec![false; tokens.len() + 1];
        if let Some(first) = reached.first_mut() {
            *first = true;
        }
        empty_matches(&tokens, &mut reached);
        for read in split(canonical) {
            let mut next = vec![false; tokens.len() + 1];
            for (at, token) in tokens.iter().enumerate().filter(|&(at, _)| reached.get(at) == Some(&true)) {
                let (stays, goes) = match token {
                    Token::Literal(literal) => (false, *literal == read),
                    Token::Segment => (read != "/", false),
                    Token::Any => (true, false),
                };
                if let Some(here) = next.get_mut(at) {
                    *here |= stays;
                }
                if let Some(after) = next.get_mut(at + 1) {
                    *after |= goes;
                }
            }
            empty_matches(&tokens, &mut next);
            reached = next;
        }
        reached.last() == Some(&true)
    }

    /// The parts, for comparing policies.
    pub(super) fn parts(&self) -> Vec<Part> {
        let part = |token| match token {
            Token::Literal(text) => Part::Literal(String::from(text)),
            Token::Segment => Part::Segment,
            Token::Any => Part::Any,
        };
        self.tokens().into_iter().map(part).collect()
    }

    fn tokens(&self) -> Vec<Token<'_>> {
        let mut tokens = Vec::new();
        for token in split(&self.0) {
            match (token, tokens.last()) {
                ("*", Some(Token::Segment)) => {
                    tokens.pop();
                    tokens.push(Token::Any);
                }
                ("*", _) => tokens.push(Token::Segment),
                (literal, _) => tokens.push(Token::Literal(literal)),
            }
        }
        tokens
    }
}

/// Wildcards also match nothing.
fn empty_matches(tokens: &[Token<'_>], reached: &mut [bool]) {
    for (at, token) in tokens.iter().enumerate() {
        let skips = !matches!(token, Token::Literal(_)) && reached.get(at) == Some(&true);
        if let Some(after) = reached.get_mut(at + 1).filter(|_| skips) {
            *after = true;
        }
    }
}

/// The tokens of a canonical path.
fn split(canonical: &str) -> impl Iterator<Item = &str> {
    let mut rest = canonical;
    std::iter::from_fn(move || {
        let length = if rest.starts_with('%') { 3 } else { 1 };
        let (token, after) = rest.split_at_checked(length).filter(|_| !rest.is_empty())?;
        rest = after;
        Some(token)
    })
}

#[cfg(test)]
mod tests;
