//! Just enough HTTP/2 to read responses: frames, and the status in a header block.

use std::collections::BTreeMap;

/// What came of one stream.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The status, or `reset`.
    pub status: String,
    /// Nothing more comes.
    pub ended: bool,
}

/// Answers by stream, from everything that came; an unfinished frame at the end is for later.
pub fn answers(mut bytes: &[u8]) -> BTreeMap<u32, Answer> {
    let mut streams: BTreeMap<u32, Answer> = BTreeMap::new();
    while let [a, b, c, kind, flags, id @ ..] = bytes {
        let length = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
        let Some((id, rest)) = id.split_first_chunk::<4>() else { break };
        let Some((payload, rest)) = rest.split_at_checked(length) else { break };
        bytes = rest;
        let id = u32::from_be_bytes(*id) & 0x7fff_ffff;
        match kind {
            0 => streams.entry(id).or_default().ended |= flags & 1 == 1,
            1 => {
                let answer = streams.entry(id).or_default();
                answer.status = status(payload);
                answer.ended |= flags & 1 == 1;
            }
            3 => {
                let answer = streams.entry(id).or_default();
                // The rest of a request's body is not wanted after its answer.
                if answer.status.is_empty() {
                    "reset".clone_into(&mut answer.status);
                }
                answer.ended = true;
            }
            _ => {}
        }
    }
    streams
}

/// The status of a block that starts with it, as every server's does (RFC 7541; RFC 9113 8.3.2).
pub fn status(mut block: &[u8]) -> String {
    // Size updates of the table come first.
    while let [0x20..0x40, rest @ ..] = block {
        block = rest;
    }
    let known = ["200", "204", "206", "304", "400", "404", "500"];
    match block {
        [indexed @ 0x88..=0x8e, ..] => known[usize::from(indexed - 0x88)].to_owned(),
        // A literal whose name is `:status`, not compressed.
        [0x48 | 0x08, 3, a, b, c, ..] => String::from_utf8_lossy(&[*a, *b, *c]).into_owned(),
        [0x48 | 0x08, length @ 0x82..=0x83, code @ ..] => huffman(&code[..usize::from(length & 0x7f)]),
        other => panic!("a block of headers that is read in another way: {other:02x?}"),
    }
}

/// Digits in the code of RFC 7541, appendix B; what is left of the last byte is ones.
fn huffman(code: &[u8]) -> String {
    let bits: Vec<u8> = code.iter().flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1)).collect();
    let number = |bits: &[u8]| bits.iter().fold(0, |sum, bit| sum << 1 | bit);
    let mut rest = &bits[..];
    let mut text = String::new();
    while rest.len() >= 5 && text.len() < 3 {
        let short = number(&rest[..5]);
        let (digit, length) = if short < 3 { (short, 5) } else { (number(&rest[..6]) - 0b01_1001 + 3, 6) };
        text.push(char::from(b'0' + digit));
        rest = &rest[length..];
    }
    text
}

#[test]
fn frames_are_read() {
    let frame = |kind: u8, flags: u8, id: u8, payload: &[u8]| {
        [&[0, 0, u8::try_from(payload.len()).unwrap(), kind, flags, 0, 0, 0, id], payload].concat()
    };
    let all = [
        frame(4, 0, 0, &[]),
        frame(1, 4, 1, &[0x20, 0x88]),
        frame(0, 1, 1, b"x"),
        frame(1, 5, 3, &[0x48, 3, b'4', b'2', b'1']),
        frame(3, 0, 5, &[0, 0, 0, 1]),
        frame(1, 5, 7, &[0x48, 0x82, 0x68, 0x41]),
        frame(1, 5, 9, &[0x48, 0x83, 0x68, 0x0c, 0xff]),
        vec![0, 0],
    ];
    let read = answers(&all.concat());
    let said: Vec<(u32, &str, bool)> = read.iter().map(|(id, a)| (*id, a.status.as_str(), a.ended)).collect();
    assert_eq!(said, [(1, "200", true), (3, "421", true), (5, "reset", true), (7, "421", true), (9, "403", true)]);
}
