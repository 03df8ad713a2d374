//! Answers without values: every form of a value becomes the same form of its surrogate, while the body streams.
//!
//! An answer that cannot be read does not pass. An `ETag` stays as it is: what takes the place of a value is the same for the
//! whole session, so a validator still tells whether the host's representation has changed.

mod decode;
mod replace;

pub use self::decode::offer;
use self::decode::{Chain, Coding};
pub use self::replace::Replacer;
pub(super) use self::replace::Scanner;
use super::credential::Field;

/// Why an answer does not pass. The connection must end so that the client sees it: without a clean end of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// A Content-Encoding that cannot be read.
    Encoding,
    /// The body is not what its Content-Encoding says, or ends too early; or a frame is malformed.
    Malformed,
    /// A value stands in a packed body whose bytes must not change.
    Value,
}

impl Unreadable {
    /// For the log.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Encoding => "the answer's content encoding cannot be read, and so not cleared of credentials",
            Self::Malformed => "the answer cannot be decoded, and so not cleared of credentials",
            Self::Value => "the answer holds a credential in a compressed body that must keep its bytes",
        }
    }
}

/// What `out` of one call grows to at most, but for what was held back before.
const STEP: usize = 32 << 10;

/// Clears the body of one answer.
#[derive(Debug)]
pub struct Clearer(Way);

#[derive(Debug)]
enum Way {
    /// There is nothing to read.
    Untouched,
    /// Unpacked, if it is packed, and replaced.
    Replaced { chain: Chain, scanner: Scanner, unpacked: Vec<u8> },
    /// Packed bytes pass once what they hold was looked at.
    Checked { chain: Chain, scanner: Scanner, unpacked: Vec<u8>, waiting: Vec<u8> },
}

impl Clearer {
    /// For the answer to a request with this method. Clears its header fields, and takes those out that are not true of the
    /// body any more.
    ///
    /// Answers of a host with AWS keys alone keep their length and their bytes, which SDKs compare with checksums. gRPC
    /// messages say how long they are, so theirs are replaced by as many bytes.
    pub fn new(replacer: &Replacer, method: &str, status: u16, headers: &mut Vec<Field>) -> Result<Self, Unreadable> {
        replacer.fields(headers);
        if method == "HEAD" || matches!(status, 100..=199 | 204 | 304) {
            return Ok(Self(Way::Untouched));
        }
        let named = |name: &'static [u8]| headers.iter().filter(move |(one, _)| one.eq_ignore_ascii_case(name));
        let grpc = named(b"content-type").any(|(_, kind)| starts_with_word(kind, b"application/grpc"));
        let values: Vec<&[u8]> = named(b"content-encoding").map(|(_, value)| value.as_slice()).collect();
        let keeps = replacer.keeps_length();
        // A bucket holds whatever its owner called its objects' encoding; AWS itself packs nothing.
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

    /// True if a body is as long as it was, so that its `Content-Length` may stay.
    pub fn keeps_length(&self) -> bool {
        match &self.0 {
            Way::Untouched | Way::Checked { .. } => true,
            Way::Replaced { chain, scanner, .. } => chain.is_empty() && scanner.fits(),
        }
    }

    /// Takes bytes from the front of `input` and appends what may go down to `out`. True if it must be called again at
    /// once, since there is more to come of what it was given; a caller writes `out` in between, so that a small body that
    /// unpacks to a huge one takes no memory.
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

    /// The end of the body: appends what was held back. True if it must be called again. An error if a packed body ended
    /// too early.
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

/// Looks at unpacked bytes, of which none goes down.
fn check(scanner: &mut Scanner, unpacked: &mut Vec<u8>) -> Result<(), Unreadable> {
    let found = scanner.push(unpacked, &mut Vec::new());
    unpacked.clear();
    if found { Err(Unreadable::Value) } else { Ok(()) }
}

/// True of a media type that is `word`, or that and a suffix or parameters.
fn starts_with_word(kind: &[u8], word: &[u8]) -> bool {
    let (start, rest) = kind.trim_ascii().split_at_checked(word.len()).unwrap_or_default();
    start.eq_ignore_ascii_case(word) && rest.first().is_none_or(|next| b"+;, \t".contains(next))
}

#[cfg(test)]
mod tests;
