//! No real value in anything that we write: each is replaced wherever it shows up, also in base64 and URL-encoded.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

use super::RuntimeError;

/// What stands in its place.
pub const REDACTED: &str = "[redacted]";

/// A form of a value that is shorter than this is a word like any other, and replacing it would leave nothing readable.
const SHORTEST: usize = 4;

/// A form of a part of a value, in base64.
const SHORTEST_ENCODED: usize = 6;

/// Replaces the values of one session. Works on whole lines, so that no value is split between two calls.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    forms: Option<AhoCorasick>,
    count: usize,
}

impl Redactor {
    /// For these values.
    pub fn new<'a>(values: impl IntoIterator<Item = &'a str>) -> Result<Self, RuntimeError> {
        let forms: BTreeSet<String> = values.into_iter().flat_map(forms).collect();
        if forms.is_empty() {
            return Ok(Self::default());
        }
        // The longest, so that no rest of an encoded form stays.
        let automaton = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&forms);
        let failed = |error| RuntimeError::Host(format!("preparing the redaction of logs: {error}"));
        Ok(Self { forms: Some(automaton.map_err(failed)?), count: forms.len() })
    }

    /// For the values that a session's runner has noted in `file`; nothing is redacted where there is none.
    pub fn read(file: &Path) -> Result<Self, RuntimeError> {
        let values: Vec<String> = match fs::read(file) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|error| RuntimeError::Io(format!("reading {}", file.display()), error.into()))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(RuntimeError::Io(format!("reading {}", file.display()), error)),
        };
        Self::new(values.iter().map(String::as_str))
    }

    /// The text without them.
    pub fn text(&self, text: &str) -> String {
        match &self.forms {
            Some(forms) => forms.replace_all(text, &vec![REDACTED; self.count]),
            None => text.to_owned(),
        }
    }
}

/// Every form in which a value may show up in a line.
fn forms(value: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    // A key of several lines shows up a line at a time.
    for part in std::iter::once(value).chain(value.lines().filter(|line| line.len() >= 16)) {
        let json = serde_json::to_string(part).unwrap_or_default();
        let plain = [part.to_owned(), json.trim_matches('"').to_owned(), url(part, true), url(part, false)];
        all.extend(plain.into_iter().filter(|form| form.len() >= SHORTEST));
        all.extend(base64_forms(part.as_bytes()).into_iter().filter(|form| form.len() >= SHORTEST_ENCODED));
    }
    all
}

/// What is certain of the base64 of any text that contains the bytes: it starts at one of three places of a group, and
/// the first and last digit may belong to a neighbour too.
fn base64_forms(bytes: &[u8]) -> Vec<String> {
    let mut all = Vec::new();
    for (before, dropped) in [(0_usize, 0_usize), (1, 2), (2, 3)] {
        let padded = [&[0_u8; 2][..before], bytes].concat();
        let certain = padded.len() * 8 / 6;
        for engine in [STANDARD, URL_SAFE] {
            let text = engine.encode(&padded);
            all.extend(text.get(dropped..certain).map(str::to_owned));
        }
    }
    all
}

/// Everything but unreserved characters (RFC 3986 2.3) as `%xx`.
fn url(text: &str, upper: bool) -> String {
    let encode = |byte: u8| match byte {
        b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        _ if upper => format!("%{byte:02X}"),
        _ => format!("%{byte:02x}"),
    };
    text.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_key_of_several_lines_and_what_is_no_secret() {
        let key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0\n-----END PRIVATE KEY-----\n";
        let redactor = Redactor::new([key, "on"]).unwrap();
        assert_eq!(redactor.text("x MIIEvQIBADANBgkqhkiG9w0 y"), "x [redacted] y");
        assert_eq!(redactor.text("one condition"), "one condition");
        assert_eq!(Redactor::default().text("hunter2"), "hunter2");
    }

    proptest! {
        #[test]
        fn no_form_of_a_value_is_left(value in "[ -~é]{6,40}", before in "[a-z:]{0,5}", after in "[a-z]{0,5}") {
            let redactor = Redactor::new([value.as_str()]).unwrap();
            let text = format!("{before}{value}{after}");
            let said = redactor.text(&format!("a {text} b"));
            prop_assert!(!said.contains(&value), "{}", said);
            for engine in [STANDARD, URL_SAFE] {
                let said = redactor.text(&format!("Basic {}", engine.encode(&text)));
                prop_assert!(said.contains(REDACTED), "{}", said);
                // Less than a group is left at either end.
                let rest = said.replace(REDACTED, "");
                prop_assert!(rest.len() <= "Basic ".len() + 8 + 2 * (before.len() + after.len()), "{}", said);
            }
            prop_assert!(redactor.text(&url(&text, true)).contains(REDACTED));
            prop_assert!(redactor.text(&url(&text, false)).contains(REDACTED));
        }
    }
}
