//! Redacts secrets in everything that sandboxc writes: each value is replaced wherever it appears, in every form that
//! the router clears from responses ([`forms`]).
//!
//! Tokens that GitHub gives the router are known to the router only, so they are recognized by their format.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::RuntimeError;
use crate::router::clear::Replacer;
use crate::router::credential::forms;

/// The replacement.
pub const REDACTED: &str = "[redacted]";

/// Forms shorter than this are not replaced: they are like any other word, and the output would become unreadable.
const SHORTEST: usize = 4;

/// A line of a multi-line value that is shorter than this is not replaced on its own.
const SHORTEST_LINE: usize = 16;

/// How GitHub's installation tokens begin.
const MINTED: &str = "ghs_";

/// GitHub's tokens have at least 40 characters; anything shorter is a name that happens to look similar.
const SHORTEST_MINTED: usize = 20;

/// What must be redacted for a session.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Known {
    /// The values.
    pub values: Vec<String>,
    /// The agent's surrogates, if the router gets tokens that only it knows. Of all texts in the format of such tokens,
    /// only these are shown. Empty if there are no such tokens.
    pub surrogates: Vec<String>,
}

/// Redacts the values of one session. Works on whole lines, so that no value is split between two calls.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    forms: Option<Replacer>,
    surrogates: Vec<String>,
}

impl Redactor {
    /// Returns a redactor for these values.
    pub fn new(known: Known) -> Result<Self, RuntimeError> {
        // A key of several lines may appear one line at a time.
        let lines = |value: &'_ String| {
            let lines = value.lines().filter(|line| line.len() >= SHORTEST_LINE).map(str::to_owned);
            std::iter::once(value.clone()).chain(lines).collect::<Vec<_>>()
        };
        let parts = known.values.iter().flat_map(lines);
        let all = parts.flat_map(|part| forms::of(part.as_bytes(), SHORTEST));
        let failed = |_| RuntimeError::Host("preparing the redaction of logs: too many secrets".to_owned());
        Ok(Self { forms: Replacer::hiding(all, REDACTED.as_bytes()).map_err(failed)?, surrogates: known.surrogates })
    }

    /// Returns a redactor for the values that a session's runner wrote to `file`; redacts nothing if the file does not
    /// exist.
    pub fn read(file: &Path) -> Result<Self, RuntimeError> {
        let known: Known = match fs::read(file) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|error| RuntimeError::Io(format!("reading {}", file.display()), error.into()))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Known::default(),
            Err(error) => return Err(RuntimeError::Io(format!("reading {}", file.display()), error)),
        };
        Self::new(known)
    }

    /// Returns the text with the values replaced.
    pub fn text(&self, text: &str) -> String {
        let hidden = self.forms.as_ref().and_then(|forms| forms.text(text.as_bytes()));
        // Whole characters are replaced by whole characters.
        let text = hidden.map_or_else(|| text.to_owned(), |bytes| String::from_utf8_lossy(&bytes).into_owned());
        if self.surrogates.is_empty() { text } else { self.without_minted(&text) }
    }

    /// Returns the text with GitHub tokens replaced, except for surrogates.
    fn without_minted(&self, text: &str) -> String {
        let (mut done, mut rest) = (String::new(), text);
        while let Some((before, found)) = rest.find(MINTED).map(|at| rest.split_at(at)) {
            let (token, after) = found.split_at(found.find(|c| !in_token(c)).unwrap_or(found.len()));
            let shown = token.len() < SHORTEST_MINTED || self.surrogates.iter().any(|one| one == token);
            done.extend([before, if shown { token } else { REDACTED }]);
            rest = after;
        }
        done + rest
    }
}

/// The characters of tokens, including signed ones (JWT).
fn in_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE};
    use proptest::prelude::*;

    use super::*;

    /// Percent-encodes everything but unreserved characters (RFC 3986 2.3).
    fn url(text: &str, upper: bool) -> String {
        let encode = |byte: u8| match byte {
            _ if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => char::from(byte).to_string(),
            _ if upper => format!("%{byte:02X}"),
            _ => format!("%{byte:02x}"),
        };
        text.bytes().map(encode).collect()
    }

    fn of(values: &[&str]) -> Redactor {
        let values = values.iter().map(|&value| value.to_owned()).collect();
        Redactor::new(Known { values, surrogates: Vec::new() }).unwrap()
    }

    /// A log may quote what a server sent.
    #[test]
    fn a_minted_token_goes_by_its_looks_and_a_surrogate_stays() {
        let (minted, own) = (format!("ghs_{}", "m".repeat(36)), format!("ghs_{}", "s".repeat(36)));
        let signed = "ghs_1234_eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiIxMjM0In0.c2lnbmF0dXJlLW9mLWl0";
        let known = Known { values: vec!["hunter22".to_owned()], surrogates: vec![own.clone()] };
        let redactor = Redactor::new(known).unwrap();
        let line = |token: &str| {
            format!(
                "[error] 7#7: *1 upstream sent invalid header: \"Bad {token}\\x20...\" x={token}, ghs_name hunter22"
            )
        };
        let hidden = line(REDACTED).replace("hunter22", REDACTED);
        assert_eq!(redactor.text(&line(&minted)), hidden);
        assert_eq!(redactor.text(&line(signed)), hidden);
        assert_eq!(redactor.text(&line(&own)), line(&own).replace("hunter22", REDACTED));
        assert_eq!(redactor.text(&line(&format!("{own}x"))), hidden, "only the whole of ours is ours");
        assert_eq!(of(&["hunter22"]).text(&minted), minted, "without an App nothing is minted");
    }

    #[test]
    fn a_key_of_several_lines_and_what_is_no_secret() {
        let key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0\n-----END PRIVATE KEY-----\n";
        let redactor = of(&[key, "on"]);
        assert_eq!(redactor.text("x MIIEvQIBADANBgkqhkiG9w0 y"), "x [redacted] y");
        assert_eq!(redactor.text("one condition"), "one condition");
        assert_eq!(Redactor::default().text("hunter2"), "hunter2");
    }

    proptest! {
        #[test]
        fn no_form_of_a_value_is_left(value in "[ -~é]{6,40}", before in "[a-z:]{0,5}", after in "[a-z]{0,5}") {
            let redactor = of(&[&value]);
            let text = format!("{before}{value}{after}");
            let said = redactor.text(&format!("a {text} b"));
            prop_assert!(!said.contains(&value), "{}", said);
            for engine in [STANDARD, URL_SAFE] {
                let said = redactor.text(&format!("Basic {}", engine.encode(&text)));
                prop_assert!(said.contains(REDACTED), "{}", said);
                // Less than a group of characters is left at either end.
                let rest = said.replace(REDACTED, "");
                prop_assert!(rest.len() <= "Basic ".len() + 8 + 2 * (before.len() + after.len()), "{}", said);
            }
            prop_assert!(redactor.text(&url(&text, true)).contains(REDACTED));
            prop_assert!(redactor.text(&url(&text, false)).contains(REDACTED));
        }
    }
}
