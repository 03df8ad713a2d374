//! Bodies on decrypted connections: streamed both ways, and not read before the decision.

use std::time::{Duration, Instant};

use super::inspected::shared;
use super::secure::{Secure, https};
use super::wire::{get, statuses};
use super::world::World;

const HOST: &str = "open.secure.test";
/// Bytes, and the SHA-256 of so many zeros.
pub const GIB: usize = 1 << 30;
const ZEROS: &str = "49bc20df15e412a64472421e13fe86ff1c5165e18b2afccf160d4dc19fe68a14";

fn ask(head: &str) -> String {
    format!("{head}\r\nHost: {HOST}\r\nConnection: close\r\n\r\n")
}

/// The most memory that the router has had so far, in KiB.
pub fn peak(world: &World) -> u64 {
    let of = |process: u32| -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    of(world.pid())
}

//
#[test]
fn the_first_event_of_a_stream_arrives_at_once() {
    let world = shared();
    for host in [HOST, "sse.any.secure.test"] {
        let mut secure = Secure::to(world, host);
        secure.send(get(host, &format!("/held/{host}"))).until("data: 0\n\n");
        // The next one is not sent before.
        assert!(https(world, host, get(host, &format!("/go/{host}"))).contains("going"));
        secure.until("data: 1\n\n");
    }
}

fn upload(world: &World, chunk: &[u8], count: usize, between: impl Fn(usize)) -> String {
    let mut secure = Secure::to(world, HOST);
    secure.send(format!(
        "POST /upload HTTP/1.1\r\nHost: {HOST}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    ));
    let chunk = [format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat();
    for number in 0..count {
        secure.send(&chunk);
        between(number);
    }
    String::from_utf8(secure.send("0\r\n\r\n").rest()).unwrap()
}

//
#[test]
fn an_upload_streams_in_constant_memory() {
    let world = shared();
    // A little at a time: had it been held back, it would have come in one piece.
    let answer = upload(world, b"little", 10, |_| std::thread::sleep(Duration::from_millis(60)));
    assert!(answer.contains("\r\n\r\n60 ") && answer.contains("streamed=1"), "{answer}");
    let before = peak(world);
    let kept = |number: usize| {
        if number == 150 {
            let open = std::fs::read_dir(format!("/proc/{}/fd", world.pid())).unwrap().flatten();
            let files = open.filter_map(|fd| std::fs::read_link(fd.path()).ok());
            let files: Vec<_> = files.filter(|file| file.is_absolute() && !file.starts_with("/dev")).collect();
            assert!(
                files.iter().all(|file| file.ends_with("out") || file.ends_with("err")),
                "kept on a disk: {files:?}"
            );
        }
    };
    let started = Instant::now();
    let answer = upload(world, &vec![0; 1 << 20], 1024, kept);
    assert!(answer.contains(&format!("\r\n\r\n{GIB} {ZEROS} ")), "{answer}");
    let grown = peak(world).saturating_sub(before);
    println!("1 GiB in {:?}: {grown} KiB more", started.elapsed());
    // What runs beside this test takes some, too.
    assert!(grown < 16 * 1024, "{grown} KiB more");
}

#[test]
fn expect_continue_is_answered_when_the_head_is_decided() {
    let world = shared();
    let head = |path: &str, host: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 2\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
        )
    };
    let mut secure = Secure::to(world, HOST);
    secure.send(head("/upload", HOST)).until("100 Continue");
    assert!(String::from_utf8(secure.send("ok").rest()).unwrap().contains("\r\n\r\n2 "));
    // The answer does not wait for the body.
    let answer = Secure::to(world, "api.secure.test").send(head("/denied", "api.secure.test")).until("\"hint\"");
    assert!(statuses(&answer).contains(&"403"), "{answer}");
}

//
#[test]
fn a_denied_upload_is_answered_from_its_head_and_closed_soon() {
    let world = shared();
    for framing in ["Content-Length: 1000000000000", "Transfer-Encoding: chunked"] {
        let started = Instant::now();
        let mut secure = Secure::to(world, "api.secure.test");
        secure.send(format!("POST /denied HTTP/1.1\r\nHost: api.secure.test\r\n{framing}\r\n\r\n"));
        let answer = secure.until("\"hint\"");
        assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("path-not-allowed"), "{answer}");
        assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
        let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
        while started.elapsed() < Duration::from_secs(20) && secure.try_send(&chunk) {
            std::thread::sleep(Duration::from_millis(20));
        }
        println!("{framing}: left after {:?}", started.elapsed());
        assert!(started.elapsed() < Duration::from_secs(10), "{framing}: still read after {:?}", started.elapsed());
    }
}

#[test]
fn answers_without_a_body_and_upstreams_own_statuses_pass_as_they_are() {
    let world = shared();
    let mut secure = Secure::to(world, HOST);
    for (head, status) in [
        ("HEAD /x HTTP/1.1", "200"),
        ("GET /empty/204 HTTP/1.1", "204"),
        ("GET /empty/304 HTTP/1.1", "304"),
        ("GET /x HTTP/1.1", "200"),
    ] {
        let answer = secure.send(format!("{head}\r\nHost: {HOST}\r\n\r\n")).until("\r\n\r\n");
        assert_eq!(statuses(&answer), [status], "{head}: {answer}");
        assert_eq!(answer.contains("Content-Length: "), head.ends_with("/x HTTP/1.1"), "{answer}");
        if head.starts_with("GET /x") {
            assert!(answer.contains("GET /x") || secure.until("GET /x").contains("GET /x"));
        }
    }
    for status in ["400", "403", "404", "405", "413", "418", "419", "420", "421", "494", "500", "502", "504"] {
        let answer = https(world, HOST, ask(&format!("GET /status/{status} HTTP/1.1")));
        assert_eq!(answer.get(9..12), Some(status));
        assert!(answer.ends_with("\r\n\r\nown"), "{status}: {answer}");
        let line = world.decision("path", &format!("/status/{status}"));
        assert_eq!((&line["verdict"], &line["reason"]), (&"allow".into(), &"allowed".into()), "{line}");
        assert_eq!(line["status"], status.parse::<u16>().unwrap());
    }
    assert!(https(world, HOST, ask("GET /steer HTTP/1.1")).ends_with("\r\n\r\nsteered"));
    assert!(https(world, HOST, ask("GET /moved HTTP/1.1")).contains("Location: http://api.example.com/there\r\n"));
    assert!(https(world, HOST, ask("GET /late HTTP/1.1")).ends_with("late"));
}

#[test]
fn ten_megabytes_come_down_unchanged() {
    let world = shared();
    let answer = Secure::to(world, HOST).send(ask("GET /big/10000000 HTTP/1.1")).rest();
    let start = answer.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
    assert_eq!(answer.len() - start, 10_000_000);
    assert!(answer[start..].iter().zip((0..=255_u8).cycle()).all(|(got, want)| *got == want));
}

//
#[test]
fn websockets_work_and_no_other_upgrade_is_passed_on() {
    let world = shared();
    let upgrade = |to: &str, path: &str| {
        format!(
            "GET {path} HTTP/1.1\r\nHost: {HOST}\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: {to}\r\nHTTP2-Settings: AAMAAABk\r\nSec-WebSocket-Key: eA==\r\n\r\n"
        )
    };
    let mut secure = Secure::to(world, HOST);
    let head = secure.send(upgrade("websocket", "/ws")).until("\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 101 ") && head.to_lowercase().contains("upgrade: websocket"), "{head}");
    for frame in ["\u{1}ping", "\0\u{7f}binary"] {
        secure.send(frame).until(frame);
    }
    for other in ["h2c", "TLS/1.0", "websocket, h2c"] {
        let answer = Secure::to(world, HOST).send(upgrade(other, "/")).until("Sec-WebSocket-Key");
        assert!(
            answer.starts_with("HTTP/1.1 200 ") && !answer.contains("pgrade:") && !answer.contains("HTTP2"),
            "{answer}"
        );
    }
}

//
#[test]
fn a_request_with_two_readings_is_refused_and_the_connection_closed() {
    let world = shared();
    let smuggled = format!("GET /smuggled HTTP/1.1\r\nHost: {HOST}\r\n\r\n");
    for head in [
        "Host: HOST\r\nContent-Length: 5\r\nTransfer-Encoding: chunked",
        "Host: HOST\r\nTransfer-Encoding: chunked\r\nContent-Length: 5",
        "Host: HOST\r\nContent-Length: 5\r\nContent-Length: 6",
        "Host: HOST\r\nContent-Length: 5\r\nContent-Length: 5",
        "Host: HOST\r\nContent-Length: +5",
        "Host: HOST\r\nTransfer-Encoding: chunked, identity",
        "Host: HOST\r\nTransfer-Encoding: identity, chunked",
        "Host: HOST\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Host: HOST\r\nHost: api.secure.test",
        "Host: api.secure.test\r\nHost: HOST",
        "Host: HOST\r\nHost: HOST",
        "Host : HOST",
        "Host: HOST\r\nX: a\r\n\tfolded",
        "Host: HOST\r\n folded: a",
        "Host: HOST\r\nX: a\rb",
        "Host: HOST\r\nX\0Y: a",
    ] {
        let head = head.replace("HOST", HOST);
        let answer = https(world, HOST, format!("POST /r69 HTTP/1.1\r\n{head}\r\n\r\n{smuggled}"));
        assert!(matches!(statuses(&answer)[..], ["400" | "501"]), "{head:?}: {answer}");
        assert!(answer.contains("\"bad-request\""), "{head:?}: {answer}");
    }
    // Bare line feeds end lines for some servers and none for others.
    let answer = https(world, HOST, format!("GET /r69/lf HTTP/1.1\nHost: {HOST}\nConnection: close\n\n"));
    assert!(statuses(&answer) == ["400"] && answer.contains("\"bad-request\""), "{answer}");
    let body = format!(
        "POST /r69/body HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{smuggled}",
        smuggled.len()
    );
    assert_eq!(statuses(&https(world, HOST, body)), ["200"], "a request in a body is a body");
    assert!(!world.decisions().iter().any(|line| line["path"] == "/smuggled"));
}
