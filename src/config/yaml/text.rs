//! Bytes to text, and the characters that no config file may have.

use super::syntax;
use crate::diagnostic::Diagnostic;
use crate::source::{FileId, Span};
use crate::visible::is_hidden;

/// The bytes are not UTF-8.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotUtf8 {
    /// The first byte that is none, counted from 0 in the file.
    pub offset: usize,
    /// That byte.
    pub byte: u8,
    /// The file with such bytes replaced; the same as the file up to `offset`.
    pub lossy: String,
}

/// The text of a file: a byte order mark is dropped and CRLF becomes LF, so that columns and lines are those that an
/// editor shows.
pub fn normalise(bytes: &[u8]) -> Result<String, NotUtf8> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.replace("\r\n", "\n")),
        Err(error) => {
            let offset = error.valid_up_to();
            let byte = bytes.get(offset).copied().unwrap_or(0);
            Err(NotUtf8 { offset, byte, lossy: String::from_utf8_lossy(bytes).into_owned() })
        }
    }
}

/// Finds the first character that hides or reorders text (a reviewer must see what the parser sees).
pub(super) fn check(file: FileId, text: &str) -> Option<Diagnostic> {
    let bad = |c: char| (is_hidden(c) && !matches!(c, '\t' | '\n')) || matches!(c, '\u{fffe}' | '\u{ffff}');
    let (start, found) = text.char_indices().find(|&(_, c)| bad(c))?;
    let span = Span { file, start, end: start + found.len_utf8() };
    let code = found as u32;
    Some(match found {
        '\r' => syntax(span, "a carriage return without a line feed").help("end lines with LF or CRLF"),
        _ => syntax(span, format!("hidden character U+{code:04X}"))
            .help(format!("remove it, or write it as \"\\u{code:04X}\" in a double-quoted string")),
    })
}
