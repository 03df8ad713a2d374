//! Credentials: responses contain no real value, and are otherwise unchanged.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use super::masking::{basic, shared, with};
use super::mint::{surrogate, value};
use super::secure::{Secure, https};
use super::world::World;

const API: &str = "api.secure.test";

fn answer(world: &World, path: &str, more: &[(&str, &str)]) -> String {
    let bearer = format!("Bearer {}", surrogate("GH"));
    let headers = [&[("Authorization", bearer.as_str())], more].concat();
    let answer = https(world, API, with(API, path, &headers));
    assert!(!answer.contains(&value("GH")), "{answer}");
    answer
}

#[test]
fn headers_and_bodies_come_with_the_surrogate() {
    let world = shared();
    let sur = format!("Bearer {}", surrogate("GH"));
    let echo = answer(world, "/echo", &[]);
    for part in [
        format!("Location: https://other.test/?t={sur}\r\n"),
        format!("Set-Cookie: a={sur}\r\n"),
        format!("Set-Cookie: b={sur}\r\n"),
        format!("X-Dup: {sur}\r\n"),
        "X-Dup: 2\r\n".to_owned(),
        format!("Content-Type: text/x-{sur}\r\n"),
        format!("<{sur}>"),
    ] {
        assert!(echo.contains(&part), "{part}: {echo}");
    }
    let sent = basic(&format!("user:{}", surrogate("GH")));
    let echo = https(world, API, with(API, "/echo", &[("Authorization", &sent)]));
    assert!(echo.contains(&format!("<{sent}>")) && echo.contains(&format!("Set-Cookie: a={sent}\r\n")), "{echo}");
    assert!(!echo.contains(&basic(&format!("user:{}", value("GH")))[6..]), "{echo}");
}

#[test]
fn gzip_is_undone_whatever_the_client_accepts_and_nothing_else_passes() {
    let world = shared();
    let sur = format!("<Bearer {}>", surrogate("GH"));
    for accept in [&[][..], &[("Accept-Encoding", "gzip")], &[("Accept-Encoding", "br, gzip;q=0.5")]] {
        let answer = answer(world, "/gzip", accept);
        assert!(answer.contains(&sur) && !answer.contains("Content-Encoding"), "{answer}");
    }
    let bearer = format!("Bearer {}", surrogate("GH"));
    let silent =
        String::from_utf8(with(API, "/gzip", &[("Authorization", &bearer), ("Accept-Encoding", "gzip")])).unwrap();
    let silent = https(world, API, silent.replace("User-Agent: it\r\n", ""));
    assert!(!silent.contains("Content-Encoding"), "{silent}");
    // What is not packed as its head says ends before anything of it goes down.
    let packed = answer(world, "/br", &[("Accept-Encoding", "br")]);
    assert!(!packed.contains('<') && !packed.ends_with("0\r\n\r\n"), "{packed}");
    // What is offered to the host.
    for (accept, offered) in [
        ("gzip, br", "gzip, br"),
        ("compress, br", "br"),
        ("dcb", "identity"),
        ("deflate, gzip;q=0.5", "deflate, gzip;q=0.5"),
    ] {
        let text = answer(world, "/plain", &[("Accept-Encoding", accept)]);
        assert!(text.contains(&format!("\r\nAccept-Encoding: {offered}\r\n")), "{accept}: {text}");
    }
}

#[test]
fn a_value_in_pieces_is_found_and_events_are_not_held_back() {
    let world = shared();
    let mut wire = Secure::to(world, API);
    wire.send(with(API, "/split/pieces", &[("Authorization", &format!("Bearer {}", surrogate("GH")))]));
    wire.until("data: 1\n\n");
    // What follows is not sent before.
    assert!(https(world, API, with(API, "/go/pieces", &[])).contains("going"));
    let rest = String::from_utf8_lossy(&wire.rest()).into_owned();
    let joined: String = rest.split("\r\n").enumerate().filter(|(at, _)| at % 2 == 0).map(|(_, part)| part).collect();
    assert!(!rest.contains("real-gh") && !joined.contains("real-gh"), "{rest}");
    assert!(rest.contains("data: 3"), "{rest}");
}

#[test]
fn binary_bodies_keep_every_byte() {
    let world = shared();
    let mut expected = Vec::new();
    for n in 0..32768 {
        let mut text = String::new();
        write!(text, "{n}").unwrap();
        expected.extend_from_slice(&Sha256::digest(text.as_bytes()));
    }
    for (path, tail) in [("/bytes", String::new()), ("/bytes/value", format!("Bearer {}", surrogate("GH")))] {
        let request = with(API, path, &[("Authorization", &format!("Bearer {}", surrogate("GH")))]);
        let request = String::from_utf8(request).unwrap().replace("HTTP/1.1", "HTTP/1.0");
        let all = Secure::to(world, API).send(request).rest();
        let at = all.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
        let body = [expected.clone(), tail.into_bytes()].concat();
        assert_eq!(Sha256::digest(&all[at..]), Sha256::digest(&body), "{path}: {} bytes", all.len() - at);
    }
}

#[test]
fn a_reason_phrase_is_the_standard_one() {
    let world = shared();
    // The host says `Own`, which could be a value as well.
    assert!(answer(world, "/status/410", &[]).starts_with("HTTP/1.1 410 Gone\r\n"));
    assert!(answer(world, "/status/299", &[]).starts_with("HTTP/1.1 299 \r\n"));
    // Where nothing is cleared, it passes.
    let open = super::inspected::shared();
    let passed = https(open, "open.secure.test", super::wire::get("open.secure.test", "/status/410"));
    assert!(passed.starts_with("HTTP/1.1 410 Own\r\n"), "{passed}");
}

#[test]
fn head_keeps_its_length() {
    let world = shared();
    let request =
        String::from_utf8(with(API, "/plain", &[("Authorization", &format!("Bearer {}", surrogate("GH")))])).unwrap();
    let answer = https(world, API, request.replacen("GET", "HEAD", 1));
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("\r\nContent-Length: "), "{answer}");
}

#[test]
fn a_websocket_is_opened_with_the_value() {
    let world = shared();
    let mut wire = Secure::to(world, API);
    wire.send(format!(
        "GET /ws-hex HTTP/1.1\r\nHost: {API}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nAuthorization: Bearer {}\r\n\r\n",
        surrogate("GH")
    ));
    let hex = value("GH").bytes().map(|byte| format!("{:02x}", byte ^ 0x55)).collect::<String>();
    let answer = wire.until(&hex);
    assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
}
