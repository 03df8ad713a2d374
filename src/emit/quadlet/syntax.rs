//! The value syntaxes of Quadlet, each followed by systemd's parsing of the generated service.
//!
//! Quadlet quotes the values it parses when it writes `ExecStart=`, where systemd expands `%` specifiers and `$`
//! variables (systemd.service(5), "Command lines"). Quadlet escapes neither, so both are doubled here. A value that a
//! syntax cannot express is [`Unfit`]: the caller finds another way or refuses it.

/// Which of Quadlet's parsers reads a key (podman `pkg/systemd/parser`: `unitfile.go`, `split.go`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// The rest of the line as it is: no quotes, no escapes.
    Raw,
    /// The rest of the line. 5.0 to 5.8.1 strip any `"` at its ends, later versions a pair.
    Stripped,
    /// Words between spaces; quotes are removed, backslashes are literal.
    Strv,
    /// Words with quotes and C escapes. An empty word ends the list, an unknown escape drops the line.
    Exec,
    /// systemd's own keys, which Quadlet copies: only specifiers are expanded.
    Native,
    /// The same for systemd's own `Environment=`: one word with quotes and escapes, in which `$` has no meaning.
    Assignment,
}

/// Why a syntax cannot express a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfit(pub &'static str);

/// A value in its syntax, ready to follow `Key=`.
pub fn encode(syntax: Syntax, value: &str) -> Result<String, Unfit> {
    match syntax {
        Syntax::Exec => word(value, &double(value)),
        // systemd ignores anything else (`env_value_is_valid`).
        Syntax::Assignment if value.chars().any(|c| c.is_control() && !matches!(c, '\t' | '\n')) => {
            Err(Unfit("it has a control character, which systemd does not permit in variables"))
        }
        Syntax::Assignment => word(value, &value.replace('%', "%%")),
        Syntax::Raw | Syntax::Stripped | Syntax::Native => {
            whole_line(value)?;
            if syntax == Syntax::Stripped && (value.starts_with(['"', '\'']) || value.ends_with(['"', '\''])) {
                return Err(Unfit("it starts or ends with a quote, which this key strips"));
            }
            Ok(if syntax == Syntax::Native { value.replace('%', "%%") } else { double(value) })
        }
        Syntax::Strv => {
            whole_line(value)?;
            match value.contains(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '\\')) {
                true => Err(Unfit("it has a space, a quote or a backslash, which a list cannot contain")),
                false => Ok(double(value)),
            }
        }
    }
}

/// A word of an exec-like key. In `doubled`, everything that needs it has been doubled.
fn word(value: &str, doubled: &str) -> Result<String, Unfit> {
    if value.is_empty() {
        return Err(Unfit("an empty word ends the list there"));
    }
    if let Some(unfit) = value.chars().find_map(unfit) {
        return Err(unfit);
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "%$@+=:,./_-".contains(c);
    if value.chars().all(plain) {
        return Ok(doubled.to_owned());
    }
    let mut text = String::from("\"");
    for c in doubled.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            '\r' => text.push_str("\\r"),
            c if c.is_ascii_control() => text.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => text.push(c),
        }
    }
    text.push('"');
    Ok(text)
}

fn whole_line(value: &str) -> Result<(), Unfit> {
    if value.is_empty() {
        return Err(Unfit("an empty value resets the key"));
    }
    if value.trim() != value {
        return Err(Unfit("it starts or ends with a space, which is trimmed"));
    }
    if value.chars().any(char::is_control) {
        return Err(Unfit("it has a line break or another control character, which a line cannot contain"));
    }
    if value.ends_with('\\') {
        return Err(Unfit("it ends with a backslash, which continues the line"));
    }
    value.chars().find_map(unfit).map_or(Ok(()), Err)
}

/// Characters that no syntax can express.
fn unfit(c: char) -> Option<Unfit> {
    match u32::from(c) {
        0 => Some(Unfit("it has a NUL")),
        // Quadlet writes it as `\x80`, which systemd parses as one byte (`charNeedsEscape` tests `c > 128`).
        0x80 => Some(Unfit("it has U+0080, which Quadlet writes as another byte")),
        // systemd drops a line that contains one (`unichar_is_valid`).
        0xFDD0..=0xFDEF => Some(Unfit("it has a Unicode noncharacter, for which systemd drops the line")),
        n if n & 0xFFFE == 0xFFFE => Some(Unfit("it has a Unicode noncharacter, for which systemd drops the line")),
        _ => None,
    }
}

/// Escapes `%` and `$` for systemd.
fn double(value: &str) -> String {
    value.replace('%', "%%").replace('$', "$$")
}

/// A JSON array of strings that a whole-line key accepts, whatever the strings contain: it starts and ends with a
/// bracket, and everything that would be changed is a `\u` escape. podman parses `--entrypoint` this way.
pub fn json_words<S: AsRef<str>>(words: &[S]) -> String {
    let words: Vec<String> = words.iter().map(|word| json_string(word.as_ref())).collect();
    format!("[{}]", words.join(","))
}

fn json_string(word: &str) -> String {
    let mut text = String::from("\"");
    for c in word.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            c if c != ' ' && (c.is_control() || c.is_whitespace() || unfit(c).is_some()) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    text.push_str(&format!("\\u{unit:04x}"));
                }
            }
            c => text.push(c),
        }
    }
    text.push('"');
    text
}

/// A field of a CSV line as podman parses `--mount` (Go's `encoding/csv`).
pub fn csv_field(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_syntax_says_what_it_cannot_carry() {
        for (syntax, value) in [
            (Syntax::Raw, ""),
            (Syntax::Raw, " a"),
            (Syntax::Raw, "a\n[Service]"),
            (Syntax::Raw, "a\\"),
            (Syntax::Stripped, "\"a\""),
            (Syntax::Stripped, "a\""),
            (Syntax::Strv, "a b"),
            (Syntax::Strv, "a\\b"),
            (Syntax::Exec, ""),
            (Syntax::Exec, "a\0"),
            (Syntax::Exec, "\u{80}"),
            (Syntax::Exec, "\u{fffe}"),
            (Syntax::Native, "a\nExecStart=b"),
            (Syntax::Assignment, "A=\u{1}"),
            (Syntax::Assignment, "A=\r"),
            (Syntax::Assignment, "A=\u{fffe}"),
        ] {
            assert!(encode(syntax, value).is_err(), "{syntax:?} {value:?}");
        }
    }

    #[test]
    fn percent_and_dollar_are_doubled_and_words_quoted() {
        assert_eq!(encode(Syntax::Raw, "/a %h $b"), Ok("/a %%h $$b".to_owned()));
        assert_eq!(encode(Syntax::Native, "100% $x"), Ok("100%% $x".to_owned()));
        assert_eq!(encode(Syntax::Exec, "A=it's \"\\\n%"), Ok("\"A=it's \\\"\\\\\\n%%\"".to_owned()));
        assert_eq!(encode(Syntax::Exec, "--a=b"), Ok("--a=b".to_owned()));
        assert_eq!(encode(Syntax::Assignment, "A=$x %h\n"), Ok("\"A=$x %%h\\n\"".to_owned()));
    }

    #[test]
    fn a_command_is_json_that_a_line_carries() {
        let words = ["", "a b", "\"\\", "\n\u{1}\u{80}\u{2028}\u{1fffe}", "ü"];
        let json = json_words(&words);
        assert_eq!(serde_json::from_str::<Vec<String>>(&json).unwrap(), words);
        assert!(encode(Syntax::Stripped, &json).is_ok(), "{json}");
    }
}
