//! The lexer of GraphQL (October 2021, 2.1). Outside of strings and comments, only ASCII and byte order marks, which
//! are ignored, are permitted.

/// The maximum number of tokens and comments in a document.
const MOST: usize = 20_000;

/// The kind of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    Name,
    Number,
    /// A string and its content.
    Text(String),
    Block,
    /// `...`.
    Spread,
    /// One of `!$&()[]{}:=@|`.
    Mark(char),
    End,
}

/// A token, and how it is written again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub kind: TokenKind,
    pub text: String,
}

/// The tokens of a text, followed by an end token.
pub(super) fn lex(text: &str) -> Result<Vec<Token>, String> {
    let mut rest = text;
    let (mut tokens, mut comments) = (Vec::new(), 0);
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', '\r', ',', '\u{feff}']);
        if let Some(comment) = rest.strip_prefix('#') {
            comments += 1;
            rest = comment.find(['\n', '\r']).and_then(|end| comment.get(end..)).unwrap_or_default();
        } else if rest.is_empty() {
            tokens.push(Token { kind: TokenKind::End, text: String::new() });
            return Ok(tokens);
        } else {
            let (token, after) = token(rest)?;
            tokens.push(token);
            rest = after;
        }
        if tokens.len() > MOST || comments > MOST {
            return Err("too many tokens".to_owned());
        }
    }
}

/// The first token of a text that begins with one, and the rest.
fn token(text: &str) -> Result<(Token, &str), String> {
    let first = text.chars().next().unwrap_or_default();
    let plain = |kind: TokenKind, length: usize| {
        let (own, rest) = text.split_at_checked(length).unwrap_or((text, ""));
        Ok((Token { kind, text: own.to_owned() }, rest))
    };
    match first {
        '"' if text.starts_with("\"\"\"") => plain(TokenKind::Block, block(text)?),
        '"' => string(text),
        '-' | '0'..='9' => {
            let end = text.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '+' | '-' | '.'));
            let length = end.unwrap_or(text.len());
            if is_number(text.get(..length).unwrap_or_default()) {
                plain(TokenKind::Number, length)
            } else {
                Err("a malformed number".to_owned())
            }
        }
        '_' | 'a'..='z' | 'A'..='Z' => {
            plain(TokenKind::Name, text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len()))
        }
        '.' if text.starts_with("...") => plain(TokenKind::Spread, 3),
        '!' | '$' | '&' | '(' | ')' | '[' | ']' | '{' | '}' | ':' | '=' | '@' | '|' => plain(TokenKind::Mark(first), 1),
        _ => Err("an unexpected character".to_owned()),
    }
}

/// The length of a block string.
fn block(text: &str) -> Result<usize, String> {
    let mut at = 3;
    loop {
        let end = text.get(at..).and_then(|rest| rest.find("\"\"\"")).ok_or("an unterminated string")? + at;
        at = end + 3;
        if !text.get(..end).is_some_and(|inside| inside.ends_with('\\')) {
            return Ok(at);
        }
    }
}

/// A string. It is written as JSON, which every parser reads the same way.
fn string(text: &str) -> Result<(Token, &str), String> {
    // A GraphQL string may contain a literal tab, which JSON forbids. After a backslash, neither permits it.
    let (mut json, mut escaped) = ("\"".to_owned(), false);
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '\t' if !escaped => json.push_str("\\t"),
            _ => json.push(c),
        }
        if c == '"' && !escaped {
            let said: String = serde_json::from_str(&json).map_err(|_| "a malformed string".to_owned())?;
            let token = Token { text: super::json::text(&said), kind: TokenKind::Text(said) };
            return Ok((token, text.get(at + 1..).unwrap_or_default()));
        }
        escaped = c == '\\' && !escaped;
    }
    Err("an unterminated string".to_owned())
}

/// `-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?`
fn is_number(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (number, exponent) = text.split_once(['e', 'E']).map_or((text, None), |(number, rest)| (number, Some(rest)));
    let (whole, part) = number.split_once('.').map_or((number, None), |(whole, part)| (whole, Some(part)));
    let whole = whole.strip_prefix('-').unwrap_or(whole);
    digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && part.is_none_or(digits)
        && exponent.is_none_or(|exponent| digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)))
}
