use proptest::prelude::*;

use super::*;

fn status(head: &[u8]) -> u16 {
    match parse_request(head, &mut 0) {
        Parsed::Whole(..) => 200,
        Parsed::Malformed(bad) => bad.status,
        Parsed::More => 1,
    }
}

#[test]
fn heads_of_two_readings_are_refused() {
    for (line, wanted) in [
        ("GET / HTTP/1.1", 200),
        ("GET /a?b#c HTTP/1.0", 200),
        ("M_X-Y /a HTTP/1.1", 200),
        ("GET http://a.test/ HTTP/1.1", 403),
        ("CONNECT a.test:443 HTTP/1.1", 400),
        ("OPTIONS * HTTP/1.1", 400),
        ("TRACE / HTTP/1.1", 405),
        ("GET / HTTP/2.0", 505),
        ("get / HTTP/1.1", 400),
        ("GET  / HTTP/1.1", 400),
        ("GET / a HTTP/1.1", 400),
        ("GET /\t HTTP/1.1", 400),
        ("GET / http/1.1", 400),
        ("GET / HTTP/1.1 ", 400),
        ("GET a HTTP/1.1", 400),
        ("SSH-2.0-x", 400),
        ("GET /", 0),
    ] {
        assert_eq!(status(format!("{line}\r\nHost: a.test\r\n\r\n").as_bytes()), wanted, "{line}");
    }
    for (head, wanted) in [
        ("Host: a", 200),
        ("Host: a\r\nX: \t a \t", 200),
        ("Host: a\r\nContent-Length: 0", 200),
        ("Host: a\r\nTransfer-Encoding: Chunked", 200),
        ("Host: a\r\nX_Y.z: \u{e9}", 200),
        ("X: a", 400),
        ("Host:", 400),
        ("Host: a\r\nHost: a", 400),
        ("Host : a", 400),
        ("Host: a\r\n X: b", 400),
        ("Host: a\nX: b", 400),
        ("Host: a\r\nX: a\rb", 400),
        ("Host: a\r\nX: a\0b", 400),
        ("Host: a\r\n: b", 400),
        ("Host: a\r\nX", 400),
        ("Host: a\r\nContent-Length: 5\r\nContent-Length: 5", 400),
        ("Host: a\r\nContent-Length: +5", 400),
        ("Host: a\r\nContent-Length: ", 400),
        ("Host: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked", 400),
        ("Host: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked", 400),
        ("Host: a\r\nTransfer-Encoding: chunked, chunked", 501),
        ("Host: a\r\nTransfer-Encoding: identity", 501),
        ("Host: a\r\nExpect: banana", 417),
    ] {
        assert_eq!(status(format!("GET / HTTP/1.1\r\n{head}\r\n\r\n").as_bytes()), wanted, "{head:?}");
    }
    for early in [&b"\x16\x03"[..], b"g", b"GET\t", b"GET / HTTP/1.1\n", b"GET / HTTP/1.1\r\nHost: a\n"] {
        assert_eq!(status(early), 400, "{early:?}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused_and_pieces_do_not_matter(
        bytes in "(GET|P|get) [/a?# ]{0,4} HTTP/1[.][01](\r\n|\n)(([A-Z]{1,3}|Host|Content-Length): ?[a5\t]{0,3}(\r\n|\n| )){0,4}\r?\n?",
        noise: Vec<u8>,
        cut in 0_usize..60,
    ) {
        let bytes = [bytes.as_bytes(), &noise].concat();
        let whole = parse_request(&bytes, &mut 0);
        let mut scanned = 0;
        let first = parse_request(&bytes[..cut.min(bytes.len())], &mut scanned);
        if let Parsed::More = first {
            let second = parse_request(&bytes, &mut scanned);
            prop_assert_eq!(format!("{whole:?}"), format!("{second:?}"));
        }
    }
}
