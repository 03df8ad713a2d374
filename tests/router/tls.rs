//! Port 443: routed by the name in the `ClientHello`, never by an address, never decrypted.

use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use super::hello::{handshake, hello, is_unrecognized_name, records};
use super::shared;
use super::streams::{GIB, peak};
use super::wire::{Wire, exchange};
use super::world::World;

fn tls(world: &World, name: impl AsRef<[u8]>) -> Vec<u8> {
    exchange(world, 443, &hello(name))
}

fn assert_passes(world: &World, name: &str) {
    let answer = tls(world, name);
    let sent = hello(name);
    assert!(answer.starts_with(b"here is 203.0.113.10:443\n"), "{name}: {:?}", String::from_utf8_lossy(&answer));
    assert!(answer.windows(sent.len()).any(|w| w == sent), "{name}: the hello arrived changed");
}

fn assert_refused(world: &World, name: impl AsRef<[u8]>) {
    let answer = tls(world, name.as_ref());
    assert!(is_unrecognized_name(&answer), "{:?}: {answer:?}", String::from_utf8_lossy(name.as_ref()));
}

#[test]
fn an_allowed_name_passes_and_any_other_is_refused_with_an_alert() {
    let world = shared();
    assert_passes(world, "api.example.com");
    assert_passes(world, "suffix.example.com");
    assert_passes(world, "a.b.suffix.example.com");
    assert_passes(world, "tls-first.subs.example.com");
    for name in [
        "x.api.example.com",
        "xapi.example.com",
        "example.com",
        "subs.example.com",
        "evil.test",
        "suffix.example.com.evil.test",
    ] {
        assert_refused(world, name);
    }
    let decision = world.decision("host", "suffix.example.com.evil.test");
    assert_eq!((&decision["verdict"], &decision["reason"]), (&"deny".into(), &"not-allowed".into()));
    let decision = world.decision("host", "tls-first.subs.example.com");
    assert_eq!((&decision["verdict"], &decision["rule"]), (&"allow".into(), &"repo.allow[2]".into()));
    assert_eq!(decision["upstream"], "203.0.113.10:443");
}

#[test]
fn deny_wins_for_the_host_it_names_alone() {
    let world = shared();
    assert_refused(world, "evil.suffix.example.com");
    assert_refused(world, "x.worse.suffix.example.com");
    assert_passes(world, "x.evil.suffix.example.com");
    // Denied on port 80 alone.
    assert_passes(world, "web.suffix.example.com");
    let decision = world.decision("host", "x.worse.suffix.example.com");
    assert_eq!((&decision["rule"], &decision["reason"]), (&"server.deny[1]".into(), &"denied".into()));
}

//
#[test]
fn case_and_one_trailing_dot_of_a_server_name_do_not_matter() {
    let world = shared();
    for name in ["R28.Suffix.EXAMPLE.com", "r28.suffix.example.com.", "R28.SUFFIX.EXAMPLE.COM."] {
        assert_passes(world, name);
    }
    for name in ["EVIL.suffix.example.com", "evil.suffix.example.com.", "Evil.Suffix.Example.Com.", "API.example.com.."]
    {
        assert_refused(world, name);
    }
    let hosts: Vec<String> = world.decisions().iter().map(|d| d["host"].to_string()).collect();
    assert!(!hosts.iter().any(|host| host.ends_with("com.\"") && host.starts_with("\"r28")), "{hosts:?}");
}

#[test]
fn only_a_full_name_of_letters_digits_and_hyphens_is_looked_up() {
    let world = shared();
    let long = format!("{}.suffix.example.com", "a".repeat(64));
    let longest =
        format!("{}.suffix.example.com", ["a".repeat(63), "b".repeat(63), "c".repeat(63), "d".repeat(42)].join("."));
    assert_eq!(longest.len(), 253);
    assert_passes(world, &longest);
    assert_passes(world, &format!("{longest}."));
    assert_refused(world, longest.replace("d.suffix", "dd.suffix"));
    for name in [
        &long[..],
        "",
        ".",
        ".suffix.example.com",
        "a..suffix.example.com",
        "-a.suffix.example.com",
        "a-.suffix.example.com",
        "a_b.suffix.example.com",
        "*.suffix.example.com",
        "a.suffix.example.com:443",
        "a b.suffix.example.com",
        "a.suffix.example.com ",
        "a.suffix.example.com\n",
        "a.suffix.example.com\0",
        "evil.test\0.suffix.example.com",
        "evil.test/.suffix.example.com",
        "evil.test#.suffix.example.com",
        "127.0.0.1:80#.suffix.example.com",
        "unix:/tmp/sandboxc/pass.sock",
        "unix:/tmp/sandboxc/reject.sock/.suffix.example.com",
        "bücher.suffix.example.com",
        "203.0.113.22",
        "203.0.113.10",
        "2001:db8::1",
        "[::1]",
        "localhost",
        "com",
        "a.suffix.example.1",
    ] {
        assert_refused(world, name);
    }
}

#[test]
fn no_sni_at_all_is_refused_and_the_first_of_two_names_counts() {
    let world = shared();
    let bare = records(&handshake(&[], 0), 16384);
    assert!(is_unrecognized_name(&exchange(world, 443, &bare)));
    let two = |a: &[u8], b: &[u8]| exchange(world, 443, &records(&handshake(&[a, b], 0), 16384));
    assert!(!two(b"evil.test", b"api.example.com").starts_with(b"here"));
}

#[test]
fn a_hello_in_many_pieces_is_one_hello() {
    let world = shared();
    let message = handshake(&[b"pieces.suffix.example.com"], 0);
    for size in [1, 7, 100] {
        let answer = exchange(world, 443, &records(&message, size));
        assert!(answer.starts_with(b"here is"), "records of {size}");
    }
    for (name, passes) in [("pieces.suffix.example.com", true), ("pieces.evil.test", false)] {
        let mut wire = Wire::to_router(world, 443);
        for byte in hello(name) {
            wire.send(&[byte]);
            std::thread::sleep(Duration::from_micros(200));
        }
        let answer = wire.end().rest().unwrap();
        assert_eq!(answer.starts_with(b"here is"), passes, "{name}");
    }
    // As large as a post-quantum hello, and in several records of full size.
    let large = |padding| exchange(world, 443, &records(&handshake(&[b"large.suffix.example.com"], padding), 16384));
    assert!(large(1500).starts_with(b"here is"));
    assert!(large(14000).starts_with(b"here is"));
    assert!(large(40000).starts_with(b"here is"));
}

#[test]
fn a_hello_that_drips_ends_after_ten_seconds() {
    let world = World::start(super::policy());
    let mut wire = Wire::to_router(&world, 443);
    let started = Instant::now();
    wire.0.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    for byte in hello("drip.suffix.example.com").into_iter().take(150) {
        wire.send(&[byte]);
        // Whatever comes is the end: a hello is never answered before it is whole.
        match wire.0.read(&mut [0; 16]) {
            Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {}
            _ => break,
        }
        assert!(started.elapsed() < Duration::from_secs(13), "it drips on");
    }
    assert!(started.elapsed() > Duration::from_secs(9), "{:?}", started.elapsed());
    world.wait("the log line", || !world.decisions().is_empty());
    let line = &world.decisions()[0];
    assert_eq!((&line["reason"], &line["verdict"]), (&"not-tls".into(), &"deny".into()), "{line}");
    assert!(line["duration"].as_f64().is_some_and(|seconds| (9.0..13.0).contains(&seconds)), "{line}");
}

//
#[test]
fn bytes_other_than_tls_are_closed_and_logged() {
    let world = World::start(super::policy());
    let probes: [&[u8]; 9] = [
        b"SSH-2.0-OpenSSH_9.9\r\n",
        b"EHLO api.example.com\r\n",
        b"CANARY\r\n",
        b"GET / HTTP/1.1\r\nHost: api.example.com\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x00\x05hello",
        b"\x80\x2e\x01\x03\x01\x00\x15\x00\x00\x00\x10",
        b"\x00\x00\x00\x00",
        b"\x16",
    ];
    for (count, probe) in probes.iter().enumerate() {
        let answer = exchange(&world, 443, probe);
        assert!(answer.is_empty() || answer[0] == 0x15, "{probe:?}: {answer:?}");
        world.wait("the log line", || world.decisions().len() == count + 1);
    }
    for (decision, probe) in world.decisions().iter().zip(probes) {
        // An SSLv2 hello can be read, but names nobody.
        let reason = if probe.starts_with(b"\x80") { "bad-host" } else { "not-tls" };
        assert_eq!((&decision["verdict"], &decision["reason"]), (&"deny".into(), &reason.into()), "{decision}");
        assert_eq!(decision["host"], "");
    }
    assert_eq!(world.read("dns.log"), "", "nothing was resolved");
}

#[test]
fn an_end_of_the_clients_side_is_passed_on_and_the_answer_still_comes() {
    let world = shared();
    // Through the forwarder, as the agent does.
    let mut wire = Wire::to(world, world.net.web_loopback.into(), 443).unwrap();
    let hello = hello("half.suffix.example.com");
    let answer = wire.send(&hello).end().rest().unwrap();
    let end = format!("end after {}\n", hello.len());
    assert!(answer.ends_with(end.as_bytes()), "{:?}", String::from_utf8_lossy(&answer));
}

#[test]
fn ten_megabytes_pass_unchanged_both_ways() {
    let world = shared();
    let mut wire = Wire::to(world, world.net.web_loopback.into(), 443).unwrap();
    let hello = hello("big.suffix.example.com");
    wire.send(&hello).until("here is 203.0.113.10:443\n");
    let data: Vec<u8> = (0..10_000_000_u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    let mut writer = Wire(wire.0.try_clone().unwrap());
    let sent = data.clone();
    let sending = std::thread::spawn(move || {
        writer.send(&sent).end();
    });
    let answer = wire.rest().unwrap();
    sending.join().unwrap();
    let end = format!("end after {}\n", hello.len() + data.len());
    assert!(answer.ends_with(end.as_bytes()));
    let echoed = &answer[..answer.len() - end.len()];
    assert!(echoed.ends_with(&data), "changed on the way");
}

//
#[test]
fn a_passed_connection_streams_in_constant_memory() {
    let world = shared();
    let started = Instant::now();
    let before = peak(world);
    // By way of the forwarder; everything comes back.
    let mut wire = Wire::to(world, world.net.web_loopback.into(), 443).unwrap();
    let hello = hello("gib.suffix.example.com");
    wire.send(&hello).until("gib.suffix.example.com");
    let mut back = wire.0.try_clone().unwrap();
    let reader = std::thread::spawn(move || {
        let mut block = vec![0; 1 << 20];
        let (mut count, mut last) = (0, Vec::new());
        loop {
            match back.read(&mut block).unwrap() {
                0 => return (count, last),
                n => {
                    count += n;
                    last = block[n.saturating_sub(40)..n].to_vec();
                }
            }
        }
    });
    let block = vec![0; 1 << 20];
    for _ in 0..GIB / block.len() {
        wire.0.write_all(&block).unwrap();
    }
    wire.end();
    let (count, last) = reader.join().unwrap();
    let end = format!("end after {}\n", GIB + hello.len());
    assert!(last.ends_with(end.as_bytes()), "{:?}", String::from_utf8_lossy(&last));
    // And what was left of the hello.
    assert!((GIB + end.len()..GIB + end.len() + hello.len()).contains(&count), "{count}");
    let grown = peak(world).saturating_sub(before);
    println!("1 GiB there and back in {:?}: {grown} KiB more", started.elapsed());
    assert!(grown < 16 * 1024, "{grown} KiB more");
    let line = world.decision("host", "gib.suffix.example.com");
    let moved = (line["bytes_sent"].as_u64().unwrap(), line["bytes_received"].as_u64().unwrap());
    assert!(moved.0 > GIB as u64 && moved.1 > GIB as u64, "{line}");
}
