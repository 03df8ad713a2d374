//! The format of the corpus: what is not a case is refused.

use std::collections::BTreeMap;

use crate::corpus::case::Case;
use crate::corpus::text::{Secrets, Text};

#[test]
fn a_case_is_read_strictly() {
    let good = "== case\nwhy: x\n== repo\nversion: 1\n== connect\nport: 80\n== expect\nverdict: allow\nreason: allowed\n\
        status: 200\nupstream: GET / HTTP/1.1\n== log\nverdict: allow\n== explain\nmethod: GET\ntarget: http://a.b/\n\
        exit: 0\nverdict: allow\nreason: allowed\n";
    assert!(Case::read("x", good).is_ok(), "{:?}", Case::read("x", good));
    for (from, to) in [
        ("why: x\n", ""),
        ("why: x", "why: x\nwhy: y"),
        ("port: 80", "port: x"),
        ("status: 200\n", ""),
        ("upstream: GET", "upstrem: GET"),
        ("== repo", "== rebo"),
        ("== log", "== repo"),
        ("== case", "x\n== case"),
        ("exit: 0", "exit: zero"),
    ] {
        assert!(Case::read("x", &good.replacen(from, to, 1)).is_err(), "{from:?} → {to:?}");
    }
}

#[test]
fn escapes_are_read_strictly() {
    let secrets = Secrets {
        surrogates: BTreeMap::from([("A".to_owned(), "sur".to_owned())]),
        values: BTreeMap::from([("A".to_owned(), "val".to_owned())]),
    };
    let fill = |text: &str| Text::read(text).map(|text| text.fill(&secrets));
    assert_eq!(fill("a\\r\\n\nb\\x00\\\\").unwrap(), b"a\r\nb\0\\");
    assert_eq!(fill("\\{repeat 3 ab}}{").unwrap(), b"ababab}{");
    assert_eq!(fill("\\{base64 u:\\{surrogate A}} \\{value A}").unwrap(), b"dTpzdXI= val");
    assert_eq!(fill("\\{percent \\{surrogate A}}").unwrap(), b"%73%75%72");
    for wrong in ["\\q", "\\x0", "\\{other x}", "\\{repeat x y}", "\\{value A", "\t", "\u{e9}", "\\"] {
        assert!(fill(wrong).is_err(), "{wrong}");
    }
    let hex = |text: &str| Text::read_hex(text).map(|text| text.fill(&secrets));
    assert_eq!(hex("4142 # CD\n3*00\n43").unwrap(), b"AB\0\0\0C");
    assert!(hex("414").is_err() && hex("zz").is_err() && hex("x*00").is_err());
}
