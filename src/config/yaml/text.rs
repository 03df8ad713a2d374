//! Converts bytes to text, and finds characters that config files must not contain.

use super::syntax;
use crate::diagnostic::Diagnostic;
use crate::source::{FileId, Span};
use crate::visible::is_hidden;

/// The bytes are not UTF-8.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotUtf8 {
    /// The offset of the first invalid byte.
    pub offset: usize,
    /// That byte.
    pub byte: u8,
    /// The file with invalid bytes replaced; identical to the file up to `offset`.
    pub lossy: String,
}

/// The text of a file: without a byte order mark and with CRLF as LF, so that lines and columns are those that an
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

/// Finds the first character that hides or reorders text, since a reviewer must see what the parser sees.
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
