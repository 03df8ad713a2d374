//! What an answer to a query of names must be.

use std::net::Ipv4Addr;

use super::case::{Case, Step};
use super::text::Secrets;

const CODES: [&str; 6] = ["NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED"];
/// Those of an answer to what was understood.
const GOOD: [&str; 2] = ["NOERROR", "NXDOMAIN"];

/// Checks the answer to a message; `named` and `web` are the addresses inside. A difference is a panic.
pub fn check(named: impl Fn(&str) -> Option<Ipv4Addr>, web: Ipv4Addr, case: &Case, message: &[u8], answer: &[u8]) {
    assert!(answer[..2] == message[..2] && answer[2] & 0x80 != 0, "no answer to it: {answer:x?}");
    let code = CODES[usize::from(answer[3] & 15)];
    match case.expect.status[0].as_str() {
        "error" => assert!(!GOOD.contains(&code), "{answer:x?}"),
        wanted => assert_eq!(code, wanted, "{answer:x?}"),
    }
    let addresses = addresses(answer);
    match case.expect.address.as_deref() {
        Some("none") => assert!(addresses.is_empty(), "{answer:x?}"),
        Some("inside") => {
            let (host, _) = case.question.1.rsplit_once(':').expect("HOST:PORT");
            assert_eq!(addresses, [named(host).unwrap_or(web)], "{answer:x?}");
        }
        other => panic!("`address: {other:?}`"),
    }
    if GOOD.contains(&code) {
        let question = &message[12..end_of_name(message, 12) + 4];
        assert_eq!(&answer[12..12 + question.len()], question, "the question comes back as it was asked");
    }
}

/// The message of a case, and the bytes that are sent: with a length before it over TCP.
pub fn message(case: &Case) -> (Vec<u8>, bool) {
    let [Step::Send(text)] = &case.steps[..] else { panic!("one query") };
    let sent = text.fill(&Secrets::default());
    let tcp = case.connect.transport.as_deref() == Some("tcp");
    (sent, tcp)
}

fn end_of_name(message: &[u8], mut at: usize) -> usize {
    loop {
        match message[at] {
            0 => return at + 1,
            0xc0.. => return at + 2,
            length => at += 1 + usize::from(length),
        }
    }
}

/// The addresses of an answer, which holds no other record: each is an A record, or the test fails.
fn addresses(answer: &[u8]) -> Vec<Ipv4Addr> {
    let count = |at: usize| u16::from_be_bytes([answer[at], answer[at + 1]]);
    assert_eq!(count(8), 0, "an authority: {answer:x?}");
    let mut at = 12;
    for _ in 0..count(4) {
        at = end_of_name(answer, at) + 4;
    }
    let one = |_| {
        at = end_of_name(answer, at);
        let [0, 1, 0, 1, _, _, _, _, 0, 4, a, b, c, d] = answer[at..at + 14] else { panic!("no A: {answer:x?}") };
        at += 14;
        Ipv4Addr::new(a, b, c, d)
    };
    (0..count(6)).map(one).collect()
}
