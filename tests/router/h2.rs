//! HTTP/2 on inspected connections, frame by frame: each stream is a request of its own.

use super::frames;
use super::inspected::{policy, shared};
use super::secure::Secure;
use super::wire::json;
use super::world::World;

pub const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const CONTINUATION: u8 = 9;
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

/// What came on one stream: the status, the body, and the header block after it.
pub struct Answer {
    /// The code, or `reset`.
    pub status: String,
    /// As text.
    pub body: String,
    /// As it came.
    pub trailers: Vec<u8>,
    /// Whether it ended as an answer does, rather than by a reset.
    pub whole: bool,
}

/// One connection.
pub struct H2 {
    secure: Secure,
    buffer: Vec<u8>,
}

impl H2 {
    /// Connects, for HTTP/2.
    pub fn to(world: &World, name: &str) -> Self {
        let secure = Secure::try_to(world, name, &["h2", "http/1.1"]).unwrap();
        assert_eq!(secure.protocol(), "h2");
        let mut h2 = Self { secure, buffer: Vec::new() };
        h2.secure.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        // Without a table of headers, so that each block can be read for itself (SETTINGS_HEADER_TABLE_SIZE).
        h2.frame(SETTINGS, 0, 0, &[0, 1, 0, 0, 0, 0]);
        h2
    }

    /// Writes one frame.
    pub fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        self.secure.send([&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat());
    }

    /// A request's head, literally, so that any bytes can be said.
    pub fn head(&mut self, stream: u32, flags: u8, fields: &[(&str, &str)]) {
        self.frame(HEADERS, flags | END_HEADERS, stream, &block(fields));
    }

    fn get(&mut self, stream: u32, host: &str, path: &str) -> Answer {
        self.head(stream, END_STREAM, &pseudo("GET", host, path));
        self.answer(stream)
    }

    /// The next frame: kind, flags, stream, payload. None at the end.
    fn next(&mut self) -> Option<(u8, u8, u32, Vec<u8>)> {
        loop {
            if let [a, b, c, kind, flags, s @ ..] = &self.buffer[..] {
                let end = 9 + u32::from_be_bytes([0, *a, *b, *c]) as usize;
                if self.buffer.len() >= end {
                    let frame =
                        (*kind, *flags, u32::from_be_bytes([s[0], s[1], s[2], s[3]]), self.buffer[9..end].to_vec());
                    self.buffer.drain(..end);
                    return Some(frame);
                }
            }
            let bytes = self.secure.next();
            if bytes.is_empty() {
                return None;
            }
            self.buffer.extend(bytes);
        }
    }

    /// Reads until a text has come on any stream.
    pub fn until(&mut self, text: &str) {
        let mut seen = String::new();
        while !seen.contains(text) {
            let (kind, _, _, payload) = self.next().unwrap_or_else(|| panic!("the end before {text:?}: {seen}"));
            if kind == 0 {
                seen += &String::from_utf8_lossy(&payload);
            }
        }
    }

    /// Everything of one stream; a reset or the connection's end is status `reset`.
    pub fn answer(&mut self, stream: u32) -> Answer {
        self.answer_from(stream, String::new())
    }

    /// The statuses of all heads on a stream, until it ends.
    pub fn heads(&mut self, stream: u32) -> Vec<String> {
        let mut all = Vec::new();
        while let Some((kind, flags, of, payload)) = self.next() {
            if of == stream && kind == HEADERS {
                all.push(frames::status(&payload));
            }
            if of == stream && flags & END_STREAM != 0 {
                break;
            }
        }
        all
    }

    /// Reads until so many heads have come on any streams; returns how many have this status.
    pub fn count_of(&mut self, status: &str, heads: usize) -> usize {
        let all = std::iter::from_fn(|| self.next()).filter(|(kind, ..)| *kind == HEADERS).take(heads);
        all.filter(|(_, _, _, payload)| frames::status(payload) == status).count()
    }

    /// The same where the head has been read.
    fn answer_from(&mut self, stream: u32, status: String) -> Answer {
        let mut answer = Answer { status, body: String::new(), trailers: Vec::new(), whole: false };
        loop {
            let Some((kind, flags, of, payload)) = self.next() else {
                answer.status += if answer.status.is_empty() { "reset" } else { "" };
                return answer;
            };
            match kind {
                SETTINGS if flags & 1 == 0 => self.frame(SETTINGS, 1, 0, &[]),
                0 if of == stream => answer.body += &String::from_utf8_lossy(&payload),
                HEADERS if of == stream && answer.status.is_empty() => answer.status = frames::status(&payload),
                HEADERS if of == stream => answer.trailers = payload,
                3 if of == stream => {
                    answer.status += if answer.status.is_empty() { "reset" } else { "" };
                    return answer;
                }
                _ => continue,
            }
            if of == stream && flags & END_STREAM != 0 {
                answer.whole = true;
                return answer;
            }
        }
    }
}

/// Fields as literals without indexing and without Huffman coding.
fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let string = |text: &str| {
        // Seven bits, then what is above in groups of seven.
        let Some(mut rest) = text.len().checked_sub(127) else {
            return [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
        };
        let mut bytes = vec![127];
        while rest > 127 {
            bytes.push(u8::try_from(rest & 127).unwrap() | 128);
            rest >>= 7;
        }
        bytes.push(u8::try_from(rest).unwrap());
        [&bytes, text.as_bytes()].concat()
    };
    fields.iter().flat_map(|(name, value)| [vec![0], string(name), string(value)].concat()).collect()
}

/// What a request's head begins with.
pub fn pseudo<'a>(method: &'a str, host: &'a str, path: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![(":method", method), (":scheme", "https"), (":path", path), (":authority", host)]
}

//
#[test]
fn each_http2_stream_is_a_request_of_its_own() {
    let world = shared();
    let mut h2 = H2::to(world, "api.secure.test");
    let first = h2.get(1, "api.secure.test", "/repos/h2/issues?x=1");
    assert_eq!(first.status, "200");
    assert!(first.body.contains("GET /repos/h2/issues?x=1 HTTP/1.1\r\nHost: api.secure.test\r\n"), "{}", first.body);
    for (stream, host, path, status, reason) in [
        (3, "open.secure.test", "/", "421", "misdirected"),
        (5, "evil.test", "/", "421", "misdirected"),
        (7, "api.secure.test", "/h2/denied", "403", "path-not-allowed"),
        (9, "api.secure.test", "/a/../b", "403", "bad-path"),
        (11, "api.secure.test", "/%252e", "403", "bad-path"),
    ] {
        let answer = h2.get(stream, host, path);
        assert_eq!(answer.status, status, "{host}{path}");
        assert_eq!(json(&answer.body)["reason"], reason, "{host}{path}");
    }
    assert_eq!(h2.get(13, "api.secure.test", "/a%2fb").status, "200", "the connection goes on");
    let line = world.decision("path", "/h2/denied");
    assert_eq!(
        (&line["reason"], &line["method"], &line["host"]),
        (&"path-not-allowed".into(), &"GET".into(), &"api.secure.test".into())
    );
}

#[test]
fn a_body_follows_its_head() {
    let world = shared();
    let mut h2 = H2::to(world, "open.secure.test");
    h2.head(1, 0, &pseudo("POST", "open.secure.test", "/upload"));
    h2.frame(0, 0, 1, b"one ");
    std::thread::sleep(std::time::Duration::from_millis(400));
    h2.frame(0, END_STREAM, 1, b"two");
    let answer = h2.answer(1);
    assert!(
        answer.status == "200" && answer.body.starts_with("7 ") && answer.body.contains("streamed=1"),
        "{}",
        answer.body
    );
    // A denied one is answered without it.
    let mut h2 = H2::to(world, "api.secure.test");
    h2.head(1, 0, &pseudo("POST", "api.secure.test", "/denied"));
    assert_eq!(h2.answer(1).status, "403");
}

#[test]
fn what_http_1_could_read_otherwise_is_refused() {
    let world = shared();
    let host = "open.secure.test";
    let base = |more: &[(&'static str, &'static str)]| {
        [pseudo("GET", "open.secure.test", "/h2/smuggled"), more.to_vec()].concat()
    };
    let cases = [
        base(&[("x", "a\r\nHost: evil.test")]),
        base(&[("x\r\ny", "a")]),
        base(&[("x y", "a")]),
        base(&[("X-Upper", "a")]),
        base(&[("host", "api.secure.test")]),
        base(&[(":authority", "api.secure.test")]),
        base(&[(":path", "/other")]),
        base(&[(":x", "a")]),
        base(&[("content-length", "5"), ("content-length", "6")]),
        base(&[("content-length", "x")]),
        pseudo("GET", host, "https://evil.test/"),
        pseudo("GET", host, "h2"),
        pseudo("GET", host, "*"),
        pseudo("GET", host, ""),
        pseudo("GET", host, "/a b"),
        pseudo("GET", host, "/a\0b"),
        pseudo("CONNECT", host, "/"),
        pseudo("TRACE", host, "/"),
        pseudo("G ET", host, "/"),
        pseudo("get", host, "/"),
        vec![(":method", "CONNECT"), (":authority", "evil.test:443")],
        vec![(":method", "GET"), (":scheme", "https"), (":path", "/")],
    ];
    for fields in cases {
        let mut h2 = H2::to(world, host);
        h2.head(1, END_STREAM, &fields);
        let answer = h2.answer(1);
        assert!(
            ["400", "403", "405", "421", "reset"].contains(&answer.status.as_str()),
            "{fields:?}: {} {}",
            answer.status,
            answer.body
        );
        assert!(!answer.body.contains("connection="), "{fields:?}: {}", answer.body);
    }
    // Framing of HTTP/1 has no meaning here and is written anew.
    let mut h2 = H2::to(world, host);
    h2.head(1, END_STREAM, &base(&[("te", "trailers"), ("connection", "upgrade"), ("upgrade", "websocket-not")]));
    let answer = h2.answer(1);
    assert!(answer.status == "400" || !answer.body.to_lowercase().contains("upgrade"), "{}", answer.body);
}

#[test]
fn a_head_without_end_takes_no_memory_and_is_no_request() {
    let world = shared();
    let before = super::streams::peak(world);
    let mut h2 = H2::to(world, "open.secure.test");
    h2.frame(HEADERS, END_STREAM, 1, &block(&pseudo("GET", "open.secure.test", "/flood")));
    let piece = block(&[("x-flood", &"f".repeat(8000))]);
    let length = u32::try_from(piece.len()).unwrap().to_be_bytes();
    let continuation = [&length[1..], &[CONTINUATION, 0, 0, 0, 0, 1], &piece].concat();
    // 64 MB; the router may end the connection sooner.
    let _ = (0..8000).all(|_| h2.secure.try_send(&continuation));
    let grown = super::streams::peak(world).saturating_sub(before);
    println!("64 MB: {grown} KiB more");
    // What runs beside this test takes some, too.
    assert!(grown < 16 * 1024, "{grown} KiB more");
    h2.frame(CONTINUATION, END_HEADERS, 1, &[]);
    assert!(["400", "reset"].contains(&h2.answer(1).status.as_str()));
    assert_eq!(H2::to(world, "open.secure.test").get(1, "open.secure.test", "/").status, "200", "others are served");
    let mut h2 = H2::to(world, "open.secure.test");
    h2.frame(HEADERS, END_STREAM, 1, &block(&pseudo("GET", "open.secure.test", "/")));
    h2.frame(CONTINUATION, END_HEADERS, 1, &block(&[("x-last", "1")]));
    let answer = h2.answer(1);
    assert!(answer.status == "200" && answer.body.contains("x-last: 1"), "one that ends is fine: {}", answer.body);
}

#[test]
fn grpc_passes_with_its_trailers_and_message_by_message() {
    // A router remembers that a host speaks HTTP/2, which other tests do not expect of these.
    let world = &World::start(policy());
    for host in ["open.secure.test", "grpc.any.secure.test"] {
        let mut h2 = H2::to(world, host);
        let call = [
            pseudo("POST", host, "/service/Method"),
            vec![("content-type", "application/grpc+proto"), ("te", "trailers")],
        ]
        .concat();
        h2.head(1, 0, &call);
        h2.frame(0, 0, 1, b"\0\0\0\0\x03one");
        let mut seen = Vec::new();
        while !seen.ends_with(b"one") {
            let (kind, _, of, payload) = h2.next().expect("the first message comes back before the second is sent");
            if kind == 0 && of == 1 {
                seen.extend(payload);
            }
        }
        h2.frame(0, END_STREAM, 1, b"\0\0\0\0\x03two");
        let answer = h2.answer_from(1, "read".to_owned());
        assert!(answer.body.ends_with("two"), "{}", answer.body);
        // `grpc-status` in Huffman coding, then `0`, which may be coded too.
        assert!(
            answer.trailers.ends_with(&[1, b'0']) || answer.trailers.ends_with(&[0x81, 7]),
            "{:?}",
            answer.trailers
        );
    }
    let line = world.decision("host", "grpc.any.secure.test");
    assert_eq!(
        (&line["path"], &line["method"], &line["status"]),
        (&"/service/Method".into(), &"POST".into(), &200.into())
    );
    let mut h2 = H2::to(world, "api.secure.test");
    let call =
        [pseudo("POST", "api.secure.test", "/service/Method"), vec![("content-type", "application/grpc")]].concat();
    h2.head(1, 0, &call);
    let answer = h2.answer(1);
    assert_eq!((answer.status.as_str(), &json(&answer.body)["reason"]), ("403", &"path-not-allowed".into()));
}
