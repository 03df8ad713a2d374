//! TLS `ClientHello`s, byte by byte.

fn u16(n: usize) -> [u8; 2] {
    u16::try_from(n).expect("a short length").to_be_bytes()
}

fn extension(kind: u16, body: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes(), &u16(body.len()), body].concat()
}

fn server_name(names: &[&[u8]]) -> Vec<u8> {
    let list: Vec<u8> = names.iter().flat_map(|name| [&[0], &u16(name.len())[..], name].concat()).collect();
    extension(0, &[&u16(list.len()), &list[..]].concat())
}

/// A handshake message with the SNI names given and `padding` bytes of padding.
pub fn handshake(names: &[&[u8]], padding: usize) -> Vec<u8> {
    let mut extensions = Vec::new();
    if !names.is_empty() {
        extensions.extend(server_name(names));
    }
    extensions.extend(extension(0x0a, &[0, 4, 0, 0x1d, 0, 0x17]));
    extensions.extend(extension(0x0b, &[1, 0]));
    extensions.extend(extension(0x0d, &[0, 8, 4, 3, 8, 4, 4, 1, 2, 1]));
    if padding > 0 {
        extensions.extend(extension(0x15, &vec![0; padding]));
    }
    let ciphers = [0xc0, 0x2b, 0xc0, 0x2f, 0xcc, 0xa9, 0x00, 0x9c];
    let body =
        [&[3, 3], &[7; 32][..], &[0], &u16(ciphers.len()), &ciphers, &[1, 0], &u16(extensions.len()), &extensions]
            .concat();
    [&[1, 0], &u16(body.len())[..], &body].concat()
}

/// A message in records of at most `size` bytes.
pub fn records(message: &[u8], size: usize) -> Vec<u8> {
    message.chunks(size).flat_map(|chunk| [&[0x16, 3, 1], &u16(chunk.len())[..], chunk].concat()).collect()
}

/// An ordinary hello for one name.
pub fn hello(name: impl AsRef<[u8]>) -> Vec<u8> {
    records(&handshake(&[name.as_ref()], 0), 16384)
}

/// The fatal alert `unrecognized_name` (RFC 6066 3), whatever the record version.
pub fn is_unrecognized_name(answer: &[u8]) -> bool {
    matches!(answer, [0x15, 3, _, 0, 2, 2, 112])
}
