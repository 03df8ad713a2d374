//! Clears responses of credentials: every form of a value becomes the same form of its surrogate, while the body
//! streams.
//!
//! A response that cannot be parsed is not passed on. An `ETag` is not changed: a value is replaced by the same
//! surrogate during the whole session, so a validator still shows whether the host's representation has changed.

mod decode;
mod replace;

pub use self::decode::offer;
use self::decode::{Chain, Coding};
pub use self::replace::Replacer;
pub(super) use self::replace::Scanner;
use super::message::Field;

/// Why a response is not passed on. The connection must end without a clean end of the body, so that the client
/// notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// An unsupported Content-Encoding.
    Encoding,
    /// The body does not match its Content-Encoding, ends too early, or has a malformed frame.
    Malformed,
    /// There is a value in a compressed body whose bytes must not change.
    Value,
}

impl Unreadable {
    /// For the log.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Encoding => {
                "the response's content encoding is not supported, so it cannot be cleared of credentials"
            }
            Self::Malformed => "the response cannot be decoded, so it cannot be cleared of credentials",
            Self::Value => "the response contains a credential in a compressed body that must not change",
        }
    }
}

/// How large `out` may grow in one call, apart from what was held back before.
const STEP: usize = 32 << 10;

/// Clears the body of a response.
#[derive(Debug)]
pub struct Clearer(Way);

#[derive(Debug)]
enum Way {
    /// There is nothing to clear.
    Untouched,
    /// The body is decompressed, if necessary, and values are replaced.
    Replaced { chain: Chain, scanner: Scanner, unpacked: Vec<u8> },
    /// Compressed bytes are passed on once their content has been checked.
    Checked { chain: Chain, scanner: Scanner, unpacked: Vec<u8>, waiting: Vec<u8> },
}

impl Clearer {
    /// Prepares for the response to a request with this method. Clears its header fields, and removes those that would
    /// no longer be true of the body.
    ///
    /// Responses of a host that only has AWS keys keep their length and their bytes, since SDKs verify checksums. gRPC
    /// messages contain their length, so values in them are replaced by the same number of bytes.
    pub fn new(replacer: &Replacer, method: &str, status: u16, headers: &mut Vec<Field>) -> Result<Self, Unreadable> {
        replacer.fields(headers);
        if method == "HEAD" || matches!(status, 100..=199 | 204 | 304) {
            return Ok(Self(Way::Untouched));
        }
        let named = |name: &'static [u8]| headers.iter().filter(move |(one, _)| one.eq_ignore_ascii_case(name));
        let grpc = named(b"content-type").any(|(_, kind)| starts_with_word(kind, b"application/grpc"));
        let values: Vec<&[u8]> = named(b"content-encoding").map(|(_, value)| value.as_slice()).collect();
        let keeps = replacer.keeps_length();
        // The owner of a bucket chooses its objects' encoding; AWS itself does not compress anything.
        let codings = Coding::read(&values, keeps && status < 300)?;
        let chain = Chain::new(&codings);
        let scanner = Scanner::new(replacer, keeps || grpc);
        let unpacked = Vec::new();
        if codings.is_empty() {
            return Ok(Self(Way::Replaced { chain, scanner, unpacked }));
        }
        if keeps {
            return Ok(Self(Way::Checked { chain, scanner, unpacked, waiting: Vec::new() }));
        }
        let stale = ["content-encoding", "content-md5", "content-digest", "digest", "repr-digest", "accept-ranges"];
        headers.retain(|(name, _)| !stale.iter().any(|one| name.eq_ignore_ascii_case(one.as_bytes())));
        Ok(Self(Way::Replaced { chain, scanner, unpacked }))
    }

    /// Whether the length of a body does not change, so that its `Content-Length` is kept.
    pub fn keeps_length(&self) -> bool {
        match &self.0 {
            Way::Untouched | Way::Checked { .. } => true,
            Way::Replaced { chain, scanner, .. } => chain.is_empty() && scanner.fits(),
        }
    }

    /// Takes bytes from the front of `input` and appends cleared bytes to `out`. Returns true if it must be called
    /// again because there is more output. The caller writes `out` in between, so that a small body that decompresses
    /// to a huge one needs little memory.
    pub fn push(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Result<bool, Unreadable> {
        match &mut self.0 {
            Way::Untouched => {
                out.extend(std::mem::take(input));
                Ok(false)
            }
            Way::Replaced { chain, scanner, .. } if chain.is_empty() => {
                scanner.push(std::mem::take(input), out);
                Ok(false)
            }
            Way::Replaced { chain, scanner, unpacked } => {
                let again = chain.push(input, unpacked)?;
                scanner.push(unpacked, out);
                unpacked.clear();
                Ok(again)
            }
            Way::Checked { chain, scanner, unpacked, waiting } => {
                let packed = *input;
                let again = chain.push(input, unpacked)?;
                let taken = packed.len() - input.len();
                waiting.extend(packed.get(..taken).unwrap_or_default());
                check(scanner, unpacked)?;
                if !again && !scanner.holds() {
                    out.append(waiting);
                }
                Ok(again)
            }
        }
    }

    /// Ends the body: appends what was held back. Returns true if it must be called again. Fails if a compressed body
    /// ended too early.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<bool, Unreadable> {
        match &mut self.0 {
            Way::Untouched => Ok(false),
            Way::Replaced { chain, scanner, unpacked } => {
                let again = chain.finish(unpacked)?;
                scanner.push(unpacked, out);
                unpacked.clear();
                if !again {
                    scanner.finish(out);
                }
                Ok(again)
            }
            Way::Checked { chain, scanner, unpacked, waiting } => {
                let again = chain.finish(unpacked)?;
                check(scanner, unpacked)?;
                if !again {
                    if scanner.finish(&mut Vec::new()) {
                        return Err(Unreadable::Value);
                    }
                    out.append(waiting);
                }
                Ok(again)
            }
        }
    }
}

/// Searches decompressed bytes, none of which are passed on.
fn check(scanner: &mut Scanner, unpacked: &mut Vec<u8>) -> Result<(), Unreadable> {
    let found = scanner.push(unpacked, &mut Vec::new());
    unpacked.clear();
    if found { Err(Unreadable::Value) } else { Ok(()) }
}

/// Whether a media type is `word`, possibly with a suffix or parameters.
fn starts_with_word(kind: &[u8], word: &[u8]) -> bool {
    let (start, rest) = kind.trim_ascii().split_at_checked(word.len()).unwrap_or_default();
    start.eq_ignore_ascii_case(word) && rest.first().is_none_or(|next| b"+;, \t".contains(next))
}

#[cfg(test)]
mod tests;
