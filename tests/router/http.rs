//! Port 80: routed by the Host header, unbuffered, with a refusal that says why.

use std::time::{Duration, Instant};

use super::shared;
use super::wire::{Wire, get, http, json, statuses};
use super::world::World;

#[test]
fn an_allowed_host_gets_the_request_as_it_was_sent() {
    let world = shared();
    let request = b"GET /a%2fb//../c?q=%00&x HTTP/1.1\r\nHost: api.example.com\r\nX_Under-Score: 1\r\nCookie: a=b\r\nConnection: close\r\n\r\n";
    let answer = http(world, request);
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    assert_eq!(
        body,
        "203.0.113.10:80\nGET /a%2fb//../c?q=%00&x HTTP/1.1\r\nHost: api.example.com\r\nConnection: close\r\nX_Under-Score: 1\r\nCookie: a=b",
        "nothing added, nothing changed"
    );
}

//
#[test]
fn a_denied_host_is_told_why_in_json() {
    let world = shared();
    let answer = http(world, &get("r50.evil.test", "/x/y?secret=1"));
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert!(answer.contains("\r\nContent-Type: application/json\r\n"), "{answer}");
    let body = json(&answer);
    assert_eq!(body["reason"], "not-allowed");
    assert_eq!(body["error"], "no allow entry matches this host");
    assert_eq!(
        (&body["host"], &body["method"], &body["path"]),
        (&"r50.evil.test".into(), &"GET".into(), &"/x/y".into())
    );
    assert!(body["hint"].as_str().unwrap().contains("network.allow"));
    let decision = world.decision("host", "r50.evil.test");
    assert_eq!(
        (&decision["verdict"], &decision["status"], &decision["path"]),
        (&"deny".into(), &403.into(), &"/x/y".into())
    );
    let body = json(&http(world, &get("web.suffix.example.com", "/")));
    assert_eq!((&body["reason"], &body["rule"]), (&"denied".into(), &"server.deny[2]".into()));
}

//
#[test]
fn case_a_trailing_dot_and_the_default_port_do_not_matter() {
    let world = shared();
    for host in ["API.Example.COM", "api.example.com.", "api.example.com:80", "API.example.com.:80"] {
        let answer = http(world, &get(host, "/"));
        assert!(
            answer.starts_with("HTTP/1.1 200 ") && answer.contains("Host: api.example.com\r\n"),
            "{host}: {answer}"
        );
    }
    for host in ["EVIL.suffix.example.com", "evil.suffix.example.com.", "evil.suffix.example.com:80"] {
        assert_eq!(json(&http(world, &get(host, "/")))["reason"], "denied", "{host}");
    }
}

#[test]
fn a_host_in_any_other_form_is_refused() {
    let world = shared();
    for host in [
        "api.example.com:8080",
        "api.example.com:443",
        "api.example.com:080",
        "api.example.com:",
        "api.example.com..",
        "a_b.suffix.example.com",
        "u@api.example.com",
        "api.example.com#x",
        "api.example.com\"",
        "api.example.com?",
        "*.suffix.example.com",
        "[::1]",
        "[::1]:80",
        "localhost",
        "unix:/tmp/sandboxc/pass.sock",
        "api.example.com,evil.test",
        "203.0.113.10",
        "203.0.113.22",
        "0xcb.0.113.10",
        "3405803786",
        "api.example.com:80:80",
        "api.example.com|api.example.com",
    ] {
        let answer = http(world, &get(host, "/"));
        let status = answer.get(9..12).unwrap_or_default();
        assert!(matches!(status, "403" | "400"), "{host}: {answer}");
        assert!(
            ["bad-host", "bad-request", "not-allowed", "port-not-allowed"]
                .contains(&json(&answer)["reason"].as_str().unwrap())
        );
    }
}

//
#[test]
fn requests_that_name_a_target_elsewhere_are_refused() {
    let world = shared();
    for (line, status) in [
        ("GET http://api.example.com/ HTTP/1.1", "403"),
        ("GET http://evil.test/ HTTP/1.1", "403"),
        ("GET HTTP://evil.test/ HTTP/1.1", "403"),
        ("GET https://evil.test/ HTTP/1.1", "403"),
        ("CONNECT evil.test:443 HTTP/1.1", "400"),
        ("CONNECT api.example.com:443 HTTP/1.1", "400"),
        ("OPTIONS * HTTP/1.1", "400"),
        ("TRACE / HTTP/1.1", "405"),
        ("GET //evil.test/ HTTP/2.0", "505"),
        ("get / HTTP/1.1", "400"),
    ] {
        let answer = http(world, format!("{line}\r\nHost: api.example.com\r\nConnection: close\r\n\r\n").as_bytes());
        assert_eq!(answer.get(9..12), Some(status), "{line}: {answer}");
        assert_eq!(json(&answer)["reason"], "bad-request", "{line}");
    }
    for (request, reason) in [
        (&b"GET / HTTP/1.0\r\n\r\n"[..], "bad-host"),
        (b"GET /\r\n", "bad-host"),
        (b"GET / HTTP/1.0\r\nHost:\r\n\r\n", "bad-request"),
        (b"GET / HTTP/1.1\r\n\r\n", "bad-request"),
    ] {
        assert_eq!(json(&http(world, request))["reason"], reason, "{}", String::from_utf8_lossy(request));
    }
    assert!(http(world, b"GET / HTTP/1.0\r\nHost: api.example.com\r\n\r\n").contains(" 200 "), "with a Host it passes");
    assert!(
        http(world, b"GET //evil.test/ HTTP/1.1\r\nHost: api.example.com\r\nConnection: close\r\n\r\n")
            .contains(" 200 ")
    );
}

//
#[test]
fn a_request_with_two_readings_is_refused_and_the_connection_closed() {
    let world = shared();
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: api.example.com\r\n\r\n";
    for head in [
        "Host: api.example.com\r\nContent-Length: 5\r\nTransfer-Encoding: chunked",
        "Host: api.example.com\r\nTransfer-Encoding: chunked\r\nContent-Length: 5",
        "Host: api.example.com\r\nContent-Length: 5\r\nContent-Length: 6",
        "Host: api.example.com\r\nContent-Length: 5\r\nContent-Length: 5",
        "Host: api.example.com\r\nContent-Length: +5",
        "Host: api.example.com\r\nContent-Length: 0x5",
        "Host: api.example.com\r\nContent-Length: 5, 5",
        "Host: api.example.com\r\nTransfer-Encoding: chunked, identity",
        "Host: api.example.com\r\nTransfer-Encoding: xchunked",
        "Host: api.example.com\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Host: api.example.com\r\nHost: evil.test",
        "Host: evil.test\r\nHost: api.example.com",
        "Host : api.example.com",
        "Host: api.example.com\r\nX: a\r\n\tfolded",
        "Host: api.example.com\r\nX: a\rb",
        "Host: api.example.com\r\nX\0Y: a",
    ] {
        let answer = http(world, format!("POST /r69 HTTP/1.1\r\n{head}\r\n\r\n{smuggled}").as_bytes());
        let status = statuses(&answer);
        assert!(matches!(status[..], ["400" | "501"]), "{head:?}: {answer}");
    }
    let body = format!(
        "POST /upload HTTP/1.1\r\nHost: api.example.com\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{smuggled}",
        smuggled.len()
    );
    let answer = http(world, body.as_bytes());
    assert!(statuses(&answer) == ["200"], "a request in a body is a body: {answer}");
}

#[test]
fn each_request_of_a_connection_is_decided_for_itself() {
    let world = shared();
    let request = |host: &str| format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let pipeline =
        [request("api.example.com"), request("evil.test"), request("suffix.example.com"), request("evil.test")]
            .concat();
    let answer = http(world, pipeline.as_bytes());
    assert_eq!(statuses(&answer), ["200", "403", "200", "403"], "{answer}");
}

//
#[test]
fn a_denied_upload_is_answered_from_its_head() {
    let world = shared();
    let started = Instant::now();
    let mut wire = Wire::to_router(world, 80);
    wire.send(b"POST /x HTTP/1.1\r\nHost: evil.test\r\nContent-Length: 1000000000000\r\n\r\nabc");
    let answer = wire.until("\"hint\"");
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert!(started.elapsed() < Duration::from_secs(2));
}

//
#[test]
fn the_first_event_of_a_stream_arrives_at_once() {
    let world = shared();
    let mut wire = Wire::to(world, world.net.web_loopback.into(), 80).unwrap();
    wire.send(&get("api.example.com", "/held/http")).until("data: 0\n\n");
    // The next one is not sent before.
    assert!(http(world, &get("api.example.com", "/go/http")).contains("going"));
    wire.until("data: 1\n\n");
}

//
/// Twenty minutes with silent gaps, scaled down: every time limit that is not about a connection's set-up or end is about
/// silence, so with it at three seconds a longer stream passes, and a longer silence does not.
#[test]
fn idle_time_is_limited_and_total_time_is_not() {
    let world = World::start_limited(super::policy(), |limits| limits.silence = 3);
    let tcp = world.net.tcp.iter().find(|route| route.port == 5432).unwrap();
    std::thread::scope(|scope| {
        // A word each second, longer in all than any limit; then longer silence than the limit.
        for (address, port) in [(tcp.loopback, 5432), (world.net.web_loopback, 443)] {
            let world = &world;
            scope.spawn(move || {
                let mut wire = Wire::to(world, address.into(), port).unwrap();
                wire.send(&if port == 443 { super::hello::hello("api.example.com") } else { Vec::new() }).until("\n");
                for word in 0..5 {
                    std::thread::sleep(Duration::from_secs(1));
                    wire.send(format!("word {word}\n").as_bytes()).until(&format!("word {word}\n"));
                }
                let silent = Instant::now();
                assert!(wire.rest().is_some(), "{port} is closed");
                assert!(silent.elapsed() > Duration::from_secs(2), "{port}: {:?}", silent.elapsed());
            });
        }
        let world = &world;
        scope.spawn(move || {
            let mut wire = Wire::to(world, world.net.web_loopback.into(), 80).unwrap();
            wire.send(&get("api.example.com", "/sse/6/1")).until("data: 5\n\n");
            let mut wire = Wire::to(world, world.net.web_loopback.into(), 80).unwrap();
            let start = Instant::now();
            let cut = wire.send(&get("api.example.com", "/sse/2/6")).rest().unwrap();
            assert!(!String::from_utf8(cut).unwrap().contains("data: 1"), "longer silence than the limit");
            assert!(start.elapsed() > Duration::from_secs(2), "{:?}", start.elapsed());
        });
    });
}

//
#[test]
fn uploads_stream_and_have_no_size_limit() {
    let world = shared();
    for host in ["api.example.com", "ip-203-0-113-10.private.example.com"] {
        let mut wire = Wire::to_router(world, 80);
        wire.send(
            format!("POST /upload HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n")
                .as_bytes(),
        );
        let block = vec![b'x'; 1_000_000];
        for _ in 0..10 {
            wire.send(b"f4240\r\n").send(&block).send(b"\r\n");
            std::thread::sleep(Duration::from_millis(50));
        }
        let answer = String::from_utf8(wire.send(b"0\r\n\r\n").rest().unwrap()).unwrap();
        assert!(answer.contains("\r\n\r\n10000000 ") && answer.contains("streamed=1"), "{host}: {answer}");
    }
    let expect = b"POST /upload HTTP/1.1\r\nHost: api.example.com\r\nContent-Length: 2\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n";
    let mut wire = Wire::to_router(world, 80);
    wire.send(expect).until("100 Continue");
    assert!(String::from_utf8(wire.send(b"ok").rest().unwrap()).unwrap().contains("\r\n\r\n2 "));
}

#[test]
fn ten_megabytes_come_down_unchanged() {
    let world = shared();
    let mut wire = Wire::to(world, world.net.web_loopback.into(), 80).unwrap();
    let answer = wire.send(&get("api.example.com", "/big/10000000")).rest().unwrap();
    let start = answer.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
    let body = &answer[start..];
    assert_eq!(body.len(), 10_000_000);
    assert!(body.iter().zip((0..=255_u8).cycle()).all(|(got, want)| *got == want));
}

//
#[test]
fn websockets_work_and_no_other_upgrade_is_passed_on() {
    let world = shared();
    let upgrade = |to: &str, path: &str| {
        format!(
            "GET {path} HTTP/1.1\r\nHost: api.example.com\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: {to}\r\nHTTP2-Settings: AAMAAABk\r\nSec-WebSocket-Key: eA==\r\n\r\n"
        )
    };
    let mut wire = Wire::to(world, world.net.web_loopback.into(), 80).unwrap();
    let head = wire.send(upgrade("websocket", "/ws").as_bytes()).until("\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 101 ") && head.to_lowercase().contains("upgrade: websocket"), "{head}");
    for frame in ["\u{1}ping", "\0\u{7f}binary"] {
        wire.send(frame.as_bytes()).until(frame);
    }
    for other in ["h2c", "TLS/1.0", "websocket, h2c"] {
        let answer = Wire::to_router(world, 80).send(upgrade(other, "/").as_bytes()).until("Sec-WebSocket-Key");
        assert!(
            answer.starts_with("HTTP/1.1 200 ") && !answer.contains("pgrade:") && !answer.contains("HTTP2"),
            "{answer}"
        );
    }
}

#[test]
fn the_answer_comes_after_the_clients_end() {
    let world = shared();
    let mut wire = Wire::to(world, world.net.web_loopback.into(), 80).unwrap();
    let answer = wire.send(&get("api.example.com", "/late")).end().rest().unwrap();
    assert!(answer.ends_with(b"\r\n\r\nlate"), "{:?}", String::from_utf8_lossy(&answer));
}

#[test]
fn an_upstream_cannot_steer_the_router_and_its_own_answers_pass_as_they_are() {
    let world = shared();
    let answer = http(world, &get("api.example.com", "/steer"));
    assert!(answer.ends_with("\r\n\r\nsteered"), "{answer}");
    for status in ["400", "403", "404", "405", "418", "421", "494", "500", "502", "504"] {
        let answer = http(world, &get("api.example.com", &format!("/status/{status}")));
        assert_eq!(answer.get(9..12), Some(status));
        assert!(answer.ends_with("\r\n\r\nown"), "{status}: {answer}");
        let decision = world.decision("path", &format!("/status/{status}"));
        assert_eq!((&decision["verdict"], &decision["reason"]), (&"allow".into(), &"allowed".into()), "{decision}");
    }
    let answer = http(world, &get("api.example.com", "/moved"));
    assert!(answer.contains("Location: http://api.example.com/there\r\n"), "{answer}");
}
