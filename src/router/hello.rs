//! Reads the name in a TLS `ClientHello` (RFC 8446 4.1.2, RFC 6066 3) without trusting anything else in it.
//!
//! It also reads names that no TLS library would accept, since the log should contain them. What passes is parsed again
//! by the TLS library. Everything ambiguous is refused.

/// The maximum size of a hello, including its record headers.
pub const LONGEST: usize = 64 << 10;

/// What the first bytes of a connection are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hello {
    /// The beginning of a hello.
    More,
    /// A complete hello with its name as received; `None` if it has no name.
    Whole(Option<Vec<u8>>),
    /// Something else.
    NotTls,
}

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;

/// Parses what has been received so far.
pub fn read(bytes: &[u8]) -> Hello {
    // SSLv2's hello (RFC 5246 E.2) has no name, so it cannot be routed.
    if let [first, _, 1, 3 | 0, ..] = bytes
        && first & 0x80 != 0
    {
        return Hello::Whole(None);
    }
    if bytes.len() <= 4 && bytes.first().is_some_and(|first| first & 0x80 != 0) {
        return if bytes.len() < 4 { Hello::More } else { Hello::NotTls };
    }
    let mut message = Vec::new();
    let mut rest = bytes;
    loop {
        // The received part of the record header must be valid.
        let expected = [Some(HANDSHAKE), Some(3)];
        if rest.iter().zip(expected).any(|(byte, wanted)| wanted.is_some_and(|wanted| *byte != wanted)) {
            return Hello::NotTls;
        }
        let Some((head, body)) = rest.split_at_checked(5) else { break };
        let [_, _, _, high, low] = head else { break };
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        // RFC 8446 5.1: at most 2^14 bytes, and no empty handshake record.
        if length == 0 || length > 1 << 14 {
            return Hello::NotTls;
        }
        let taken = body.get(..length).unwrap_or(body);
        message.extend_from_slice(taken);
        match parse(&message) {
            Parsed::More => {}
            Parsed::Done(hello) => return hello,
        }
        let Some(after) = body.get(length..) else { break };
        rest = after;
    }
    if bytes.len() >= LONGEST { Hello::NotTls } else { Hello::More }
}

/// How many bytes are needed before it makes sense to parse a partial hello again.
pub fn wants(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some([_, _, _, high, low]) = bytes.get(at..at + 5) {
        let end = at + 5 + usize::from(u16::from_be_bytes([*high, *low]));
        if end > bytes.len() {
            return end;
        }
        at = end;
    }
    bytes.len() + 1
}

enum Parsed {
    More,
    Done(Hello),
}

/// Parses the handshake message, which may be incomplete.
fn parse(message: &[u8]) -> Parsed {
    let not_tls = Parsed::Done(Hello::NotTls);
    if message.first().is_some_and(|kind| *kind != CLIENT_HELLO) {
        return not_tls;
    }
    let Some((head, body)) = message.split_at_checked(4) else { return Parsed::More };
    let length = head.iter().skip(1).fold(0_usize, |sum, byte| sum << 8 | usize::from(*byte));
    if length > LONGEST {
        return not_tls;
    }
    let Some(body) = body.get(..length) else { return Parsed::More };
    Parsed::Done(name(body).unwrap_or(Hello::NotTls))
}

/// The name in a complete message; `None` if it is malformed.
fn name(body: &[u8]) -> Option<Hello> {
    let mut body = Bytes(body);
    // TLS 1.0 to 1.3 all use 3 here.
    body.take(2)?.first().filter(|major| **major == 3)?;
    body.take(32)?;
    body.vector8()?;
    let ciphers = body.vector16()?;
    let compressions = body.vector8()?;
    if ciphers.is_empty() || ciphers.len() % 2 != 0 || compressions.is_empty() {
        return None;
    }
    if body.0.is_empty() {
        return Some(Hello::Whole(None));
    }
    let mut extensions = Bytes(body.vector16()?);
    if !body.0.is_empty() {
        return None;
    }
    let mut found = None;
    while !extensions.0.is_empty() {
        let kind = extensions.number()?;
        let content = extensions.vector16()?;
        if kind != SERVER_NAME {
            continue;
        }
        if found.is_some() {
            return None;
        }
        found = Some(server_name(content)?);
    }
    Some(Hello::Whole(found))
}

/// The only host name of the extension.
fn server_name(content: &[u8]) -> Option<Vec<u8>> {
    let mut content = Bytes(content);
    let mut list = Bytes(content.vector16()?);
    // Type 0 is a host name; no other type was ever defined.
    let [0] = list.take(1)? else { return None };
    let name = list.vector16()?.to_vec();
    (content.0.is_empty() && list.0.is_empty()).then_some(name)
}

/// A reader of length-prefixed fields.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u16> {
        let [high, low] = self.take(2)? else { return None };
        Some(u16::from_be_bytes([*high, *low]))
    }

    fn vector8(&mut self) -> Option<&'a [u8]> {
        let length = *self.take(1)?.first()?;
        self.take(length.into())
    }

    fn vector16(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        self.take(length.into())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn short(n: usize) -> [u8; 2] {
        u16::try_from(n).unwrap().to_be_bytes()
    }

    fn extension(names: &[&[u8]]) -> Vec<u8> {
        let list: Vec<u8> = names.iter().flat_map(|name| [&[0], &short(name.len())[..], name].concat()).collect();
        let content = [&short(list.len())[..], &list].concat();
        [&[0, 0], &short(content.len())[..], &content].concat()
    }

    fn message(extensions: &[u8]) -> Vec<u8> {
        let body =
            [&[3, 3][..], &[7; 32], &[0], &[0, 2, 0x13, 1], &[1, 0], &short(extensions.len()), extensions].concat();
        [&[1, 0], &short(body.len())[..], &body].concat()
    }

    fn records(message: &[u8], size: usize) -> Vec<u8> {
        message.chunks(size).flat_map(|chunk| [&[22, 3, 1], &short(chunk.len())[..], chunk].concat()).collect()
    }

    fn hello(name: &[u8]) -> Vec<u8> {
        records(&message(&extension(&[name])), 16384)
    }

    #[test]
    fn the_name_is_told_as_it_came_whatever_it_is() {
        for name in [&b"api.example.com"[..], b"", b"a\0b", b"203.0.113.7", b"*.x", b"\xff"] {
            assert_eq!(read(&hello(name)), Hello::Whole(Some(name.to_vec())));
        }
        assert_eq!(read(&records(&message(&[]), 16384)), Hello::Whole(None));
    }

    #[test]
    fn a_hello_may_come_in_any_pieces() {
        for size in [1, 2, 7, 100] {
            let whole = records(&message(&extension(&[b"a.test"])), size);
            for cut in 0..whole.len() {
                assert_eq!(read(&whole[..cut]), Hello::More, "{size} {cut}");
            }
            assert_eq!(read(&whole), Hello::Whole(Some(b"a.test".to_vec())));
            assert_eq!(read(&[&whole[..], b"more"].concat()), Hello::Whole(Some(b"a.test".to_vec())));
        }
    }

    #[test]
    fn what_is_read_in_two_ways_is_no_hello() {
        let two = [extension(&[b"a.test"]), extension(&[b"b.test"])].concat();
        let empty = [&[22, 3, 1, 0, 0][..], &hello(b"a.test")].concat();
        let mut padded = message(&extension(&[b"a.test"]));
        padded.push(0);
        padded[3] += 1;
        for bytes in [
            records(&message(&extension(&[b"a.test", b"b.test"])), 16384),
            records(&message(&two), 16384),
            empty,
            records(&padded, 16384),
            b"GET / HTTP/1.1\r\n".to_vec(),
            b"\x16\x03\x01\x00\x05hello".to_vec(),
            b"\x16\x03\x01\x40\x01".to_vec(),
            b"\x16\x03\x01\x00\x04\x01\x02\x00\x00".to_vec(),
            b"\x00".to_vec(),
            b"\x80\x00\x00\x00".to_vec(),
        ] {
            assert_eq!(read(&bytes), Hello::NotTls, "{bytes:x?}");
        }
        assert_eq!(read(b"\x80\x2e\x01\x03\x01\x00\x15"), Hello::Whole(None), "SSLv2");
        assert_eq!(read(b"\x16"), Hello::More);
    }

    #[test]
    fn a_hello_without_end_is_refused_at_its_limit() {
        let long = records(&[&[1, 1, 0, 0][..], &vec![0; 70_000]].concat(), 100);
        assert_eq!(read(&long[..LONGEST]), Hello::NotTls);
        assert_eq!(read(&long[..LONGEST - 1]), Hello::More);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes: Vec<u8>, cut in 0_usize..200) {
            read(&bytes);
            let mut real = hello(b"api.example.com");
            real.truncate(cut);
            real.extend(&bytes);
            read(&real);
        }
    }
}
