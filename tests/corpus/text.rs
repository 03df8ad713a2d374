//! Bytes as the corpus writes them: text with escapes, or hexadecimal digits.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A part of some bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Bytes(Vec<u8>),
    /// What the sandbox knows of a credential.
    Surrogate(String),
    /// What the router knows of it.
    Value(String),
    Base64(Text),
    Percent(Text),
    Repeat(usize, Text),
}

/// Bytes, some of which only a runner knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text(Vec<Piece>);

/// What stands for names of credentials.
#[derive(Clone, Debug, Default)]
pub struct Secrets {
    /// By the credential's name.
    pub surrogates: BTreeMap<String, String>,
    /// By the credential's name.
    pub values: BTreeMap<String, String>,
}

impl Text {
    /// Reads text with escapes: `\r \n \t \\ \xHH` and `\{WORD …}`. Line ends are left out.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut rest = text.chars().peekable();
        let read = pieces(&mut rest, false)?;
        match rest.next() {
            None => Ok(read),
            Some(c) => Err(format!("unexpected `{c}`")),
        }
    }

    /// Reads hexadecimal digits: `N*XX` repeats a byte, `#` starts a comment.
    pub fn read_hex(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut bytes = Vec::new();
        let words = text.lines().map(|line| line.split('#').next().unwrap_or("")).flat_map(str::split_whitespace);
        for word in words {
            match word.split_once('*') {
                None => bytes.extend(digits(word)?),
                Some((count, byte)) => {
                    pieces.push(Piece::Bytes(std::mem::take(&mut bytes)));
                    let count = count.parse().map_err(|_| format!("`{word}` has no count"))?;
                    pieces.push(Piece::Repeat(count, Self(vec![Piece::Bytes(digits(byte)?)])));
                }
            }
        }
        pieces.push(Piece::Bytes(bytes));
        Ok(Self(pieces))
    }

    /// The bytes; an unknown name is a mistake of the corpus.
    pub fn fill(&self, secrets: &Secrets) -> Vec<u8> {
        let known = |map: &BTreeMap<String, String>, name: &String| {
            map.get(name).unwrap_or_else(|| panic!("no credential {name}")).clone().into_bytes()
        };
        let one = |piece: &Piece| match piece {
            Piece::Bytes(bytes) => bytes.clone(),
            Piece::Surrogate(name) => known(&secrets.surrogates, name),
            Piece::Value(name) => known(&secrets.values, name),
            Piece::Base64(text) => STANDARD.encode(text.fill(secrets)).into_bytes(),
            Piece::Percent(text) => text.fill(secrets).iter().flat_map(|b| format!("%{b:02x}").into_bytes()).collect(),
            Piece::Repeat(count, text) => text.fill(secrets).repeat(*count),
        };
        self.0.iter().flat_map(one).collect()
    }
}

fn digits(word: &str) -> Result<Vec<u8>, String> {
    let pair = |pair: &[u8]| {
        let text = std::str::from_utf8(pair).ok().filter(|text| text.len() == 2);
        text.and_then(|text| u8::from_str_radix(text, 16).ok()).ok_or(format!("`{word}` is no row of bytes"))
    };
    word.as_bytes().chunks(2).map(pair).collect()
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// Reads up to the end, or up to the `}` that ends an inner text.
fn pieces(rest: &mut Chars<'_>, inner: bool) -> Result<Text, String> {
    let mut all = Vec::new();
    let mut bytes = Vec::new();
    while let Some(c) = rest.next_if(|c| !(inner && *c == '}')) {
        match c {
            '\n' => {}
            '\\' => match rest.next() {
                Some('r') => bytes.push(b'\r'),
                Some('n') => bytes.push(b'\n'),
                Some('t') => bytes.push(b'\t'),
                Some('\\') => bytes.push(b'\\'),
                Some('x') => {
                    let two: String = rest.by_ref().take(2).collect();
                    bytes.extend(digits(&two)?);
                }
                Some('{') => {
                    all.push(Piece::Bytes(std::mem::take(&mut bytes)));
                    all.push(special(rest)?);
                }
                other => return Err(format!("`\\{}` is no escape", other.unwrap_or(' '))),
            },
            c if c.is_ascii() && !c.is_ascii_control() => bytes.extend(c.to_string().bytes()),
            c => return Err(format!("{c:?} must be written with escapes")),
        }
    }
    all.push(Piece::Bytes(bytes));
    Ok(Text(all))
}

fn special(rest: &mut Chars<'_>) -> Result<Piece, String> {
    let word = |rest: &mut Chars<'_>| {
        let mut word = String::new();
        while let Some(c) = rest.next_if(|c| *c != ' ' && *c != '}') {
            word.push(c);
        }
        word
    };
    let what = word(rest);
    rest.next_if_eq(&' ').ok_or(format!("`{what}` is about nothing"))?;
    let piece = match what.as_str() {
        "surrogate" => Piece::Surrogate(word(rest)),
        "value" => Piece::Value(word(rest)),
        "base64" => Piece::Base64(pieces(rest, true)?),
        "percent" => Piece::Percent(pieces(rest, true)?),
        "repeat" => {
            let count = word(rest).parse().map_err(|_| "`repeat` needs a number".to_owned())?;
            rest.next_if_eq(&' ').ok_or("`repeat` repeats nothing")?;
            Piece::Repeat(count, pieces(rest, true)?)
        }
        other => return Err(format!("`{other}` is unknown")),
    };
    rest.next_if_eq(&'}').ok_or(format!("`{what}` has no end"))?;
    Ok(piece)
}
