//! The corpus of `tests/conformance`, byte by byte, against the real router: what it answers, what reaches the other
//! side, and what it logs. One router serves all cases with the same config.

use std::io::{ErrorKind, Read as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use sandboxc::policy::{Credential, CredentialKind, Policy};
use serde_json::Value;

use super::conformance_dns;
use super::frames;
use super::github::patiently;
use super::hello::is_unrecognized_name;
use super::secure::Secure;
use super::wire::{Wire, statuses};
use super::world::World;
use crate::corpus::by_config;
use crate::corpus::case::{Case, Step, Upstream};
use crate::corpus::log::says;
use crate::corpus::text::{Secrets, Text};

/// A client's connection.
enum Client {
    Plain(Wire),
    Tls(Box<Secure>),
}

impl Client {
    fn send(&mut self, bytes: &[u8]) {
        match self {
            Self::Plain(wire) => _ = wire.send(bytes),
            Self::Tls(secure) => _ = secure.send(bytes),
        }
    }

    /// What comes next; empty at the end.
    fn next(&mut self) -> Vec<u8> {
        let Self::Plain(wire) = self else {
            let Self::Tls(secure) = self else { unreachable!() };
            return secure.next();
        };
        let mut buffer = vec![0; 65536];
        match wire.0.read(&mut buffer) {
            Ok(n) => buffer[..n].to_vec(),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => panic!("nothing comes"),
            Err(_) => Vec::new(),
        }
    }

    fn end(&mut self) {
        match self {
            Self::Plain(wire) => _ = wire.end(),
            Self::Tls(secure) => _ = secure.end(),
        }
    }
}

/// One case on its way.
struct Run<'a> {
    world: &'a World,
    case: &'a Case,
    secrets: &'a Secrets,
    client: Client,
    sent: Vec<u8>,
    read: Vec<u8>,
    ended: bool,
}

impl Run<'_> {
    fn more(&mut self) {
        let bytes = self.client.next();
        self.ended = bytes.is_empty();
        self.read.extend(bytes);
    }

    fn steps(&mut self) {
        let mut read_to = 0;
        for step in &self.case.steps {
            match step {
                Step::Send(text) => {
                    let bytes = text.fill(self.secrets);
                    self.client.send(&bytes);
                    self.sent.extend(bytes);
                }
                Step::Pause(ms) => std::thread::sleep(Duration::from_millis(*ms)),
                Step::Await(text) => {
                    let wanted = text.fill(self.secrets);
                    loop {
                        if let Some(at) = find(&self.read[read_to..], &wanted) {
                            read_to += at + wanted.len();
                            break;
                        }
                        assert!(!self.ended, "the end before {:?}: {}", show(&wanted), show(&self.read));
                        self.more();
                    }
                }
            }
        }
    }

    fn statuses(&self) -> Vec<String> {
        if self.case.connect.alpn.as_deref() == Some("h2") {
            return frames::answers(&self.read).values().filter(|a| a.ended).map(|a| a.status.clone()).collect();
        }
        statuses(&String::from_utf8_lossy(&self.read)).into_iter().map(str::to_owned).collect()
    }

    /// All that is to come has come, as far as can be told without the end.
    fn is_answered(&self) -> bool {
        let expect = &self.case.expect;
        match expect.status[0].as_str() {
            "none" if expect.upstream == Upstream::Bytes => self.echoed().len() >= self.sent.len(),
            "alert" | "none" => false,
            _ => !expect.closed && self.statuses().len() >= expect.status.len(),
        }
    }

    /// What a server that sends everything back has got.
    fn echoed(&self) -> &[u8] {
        let line = find(&self.read, b"\n").filter(|_| self.read.starts_with(b"here is "));
        line.map_or(&[], |at| &self.read[at + 1..])
    }

    fn finish(&mut self) {
        while !self.ended && !self.is_answered() {
            self.more();
        }
        if !self.ended {
            self.client.end();
        }
        while !self.ended {
            self.more();
        }
        // Who has the end goes away, or the router would read on before it writes its line. That it does so
        // in the end is shown by a handshake that says `closed`.
        if !(self.case.expect.closed && self.case.expect.status == ["alert"]) {
            self.client.end();
        }
    }

    fn check_answer(&self) {
        let expect = &self.case.expect;
        let text = show(&self.read);
        let wanted: Vec<&str> = expect.status.iter().map(String::as_str).collect();
        match wanted[..] {
            ["alert"] => assert!(is_unrecognized_name(&self.read), "no alert: {:x?}", self.read),
            ["none"] => assert!(self.statuses().is_empty(), "{text}"),
            _ => assert_eq!(self.statuses(), wanted, "{text}"),
        }
        // A refusal tells its reader why, unless it has no body or is no HTTP.
        let http = wanted[0].parse::<u16>().is_ok() && self.case.question.0 != "HEAD";
        if expect.verdict == "deny" && http {
            assert!(text.contains(&format!("\"reason\":\"{}\"", expect.reason)), "another reason: {text}");
        }
        for with in &expect.answer_with {
            assert!(find(&self.read, &with.fill(self.secrets)).is_some(), "{with:?} is not in {text}");
        }
        for without in &expect.answer_without {
            assert!(find(&self.read, &without.fill(self.secrets)).is_none(), "{without:?} is in {text}");
        }
    }

    /// `seen`: what HTTP servers have read meanwhile.
    fn check_upstream(&self, seen: &[Value]) {
        let expect = &self.case.expect;
        let part =
            |what: &str| -> Vec<Vec<u8>> { seen.iter().filter_map(|one| one[what].as_str()).map(latin1).collect() };
        let (heads, bodies) = (part("head"), part("body"));
        match &expect.upstream {
            Upstream::Nothing => {
                assert!(seen.is_empty() && !self.read.starts_with(b"here is "), "{seen:?} {}", show(&self.read));
            }
            Upstream::Bytes => {
                let total = self.sent.len();
                assert_eq!(show(self.echoed()), show(&self.sent) + &format!("end after {total}\n"));
            }
            Upstream::Request => assert_eq!(heads.len(), 1, "{seen:?}"),
            Upstream::Requests(lines) => {
                let line = |head: &Vec<u8>| show(&head[..find(head, b"\r\n").unwrap_or(head.len())]);
                let mut got: Vec<String> = heads.iter().map(line).collect();
                if self.case.connect.alpn.is_some() {
                    got.sort();
                }
                let lines: Vec<String> = lines.iter().map(|line| show(&line.fill(self.secrets))).collect();
                assert_eq!(got, lines);
            }
        }
        for header in &expect.headers {
            let wanted = show(&header.fill(self.secrets));
            let (name, value) = wanted.split_once(": ").expect("a header");
            let is =
                |line: &str| line.split_once(": ").is_some_and(|(n, v)| n.eq_ignore_ascii_case(name) && v == value);
            assert!(heads.iter().any(|head| show(head).split("\r\n").any(is)), "no {wanted}: {seen:?}");
        }
        if let Some(body) = &expect.body {
            let bodies: Vec<String> = bodies.iter().map(|body| show(body)).collect();
            assert_eq!(bodies, [show(&body.fill(self.secrets))]);
        }
        let got = |text: &Text| {
            let bytes = text.fill(self.secrets);
            heads.iter().chain(&bodies).any(|part| find(part, &bytes).is_some())
        };
        for with in &expect.upstream_with {
            assert!(got(with), "{with:?} is not in {seen:?}");
        }
        for without in &expect.upstream_without {
            assert!(!got(without), "{without:?} is in {seen:?}");
        }
    }

    fn check_log(&self, lines: &[Value]) {
        let mut left: Vec<&Value> = lines.iter().collect();
        for wanted in &self.case.logs {
            let at = left.iter().position(|line| says(line, wanted));
            let at = at.unwrap_or_else(|| panic!("no line with {wanted:?} among {lines:#?}"));
            left.remove(at);
        }
    }
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

fn show(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn latin1(text: &str) -> Vec<u8> {
    text.chars().map(|c| u8::try_from(u32::from(c)).expect("a byte")).collect()
}

/// Connects as a case says; `None` if it is refused, and that is right.
fn connect(world: &World, case: &Case) -> Option<Client> {
    let port = case.connect.port;
    let expects = |status: &str| case.expect.status == [status];
    if let Some(host) = &case.connect.host {
        let route = world.net.tcp.iter().find(|route| route.name == *host).expect("a route");
        let wire = Wire::to(world, route.loopback.into(), port);
        assert_eq!(wire.is_err(), expects("refused"), "{:?}", wire.err());
        return wire.ok().map(Client::Plain);
    }
    let Some(name) = &case.connect.tls else { return Some(Client::Plain(Wire::to_router(world, port))) };
    let protocols: Vec<&str> = case.connect.alpn.iter().map(String::as_str).collect();
    match Secure::try_to(world, name, &protocols) {
        Ok(secure) => {
            assert!(!expects("alert"), "a handshake with {name}");
            Some(Client::Tls(Box::new(secure)))
        }
        Err(error) => {
            assert!(expects("alert") && error.to_string().contains("UnrecognisedName"), "{error}");
            None
        }
    }
}

/// What has been read by HTTP servers and not been looked at yet.
fn unread(world: &World, from: &mut usize) -> Vec<Value> {
    let text = world.read("seen");
    let whole = text.rfind('\n').map_or(0, |at| at + 1);
    let new = text.get(*from..whole).unwrap_or_default();
    *from = whole;
    new.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// What the router and the sandbox know of credentials; `seen`: what HTTP servers have read, a token of an App's included.
fn secrets(world: &World, seen: &[Value]) -> Secrets {
    let mut secrets = Secrets::default();
    if world.policy.credentials.is_empty() {
        return secrets;
    }
    let known: Value = serde_json::from_str(&world.file("materials/credentials.json")).expect("JSON");
    let mut put = |name: String, pair: &Value, minted: Option<&Value>| {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        secrets.surrogates.extend(text(&pair["surrogate"]).map(|text| (name.clone(), text)));
        secrets.values.extend(text(minted.unwrap_or(&pair["value"])).map(|text| (name, text)));
    };
    let list = |kind: &str| known[kind].as_array().expect("a list").iter();
    let name = |one: &Value| one["name"].as_str().expect("a name").to_owned();
    for one in list("masked") {
        put(name(one), one, None);
    }
    for (one, part) in list("aws").flat_map(|one| AWS_KEYS.map(|part| (one, part))) {
        put(format!("{}.{part}", name(one)), &one[part], None);
    }
    let token = seen.iter().find_map(|one| one.get("minted"));
    for one in list("github") {
        put(name(one), one, token);
    }
    secrets
}

const AWS_KEYS: [&str; 3] = ["access_key_id", "secret_access_key", "session_token"];

/// Waits for the tokens of GitHub's Apps whose API is there; the pauses between attempts grow.
fn wait_for_tokens(world: &World) {
    let there = |one: &&Credential| match &one.kind {
        CredentialKind::GithubApp { base_url, .. } => !base_url.contains("//nx."),
        _ => false,
    };
    let wanted = world.policy.credentials.iter().filter(there).count();
    patiently(|| world.read("seen").matches("\"minted\"").count() >= wanted);
}

/// Runs cases one after another; the result is what failed.
fn run(policy: &Policy, cases: &[&Case]) -> Vec<String> {
    let world = World::start(policy.clone());
    let (mut seen_to, mut logged) = (0, 0);
    wait_for_tokens(&world);
    let secrets = secrets(&world, &unread(&world, &mut seen_to));
    let mut failures = Vec::new();
    for case in cases {
        let one = || {
            if case.is_dns() {
                conformance_dns::run(&world, case);
                return;
            }
            let mut lines = Vec::new();
            let run = connect(&world, case).map(|client| {
                let mut run = Run {
                    world: &world,
                    case,
                    secrets: &secrets,
                    client,
                    sent: Vec::new(),
                    read: Vec::new(),
                    ended: false,
                };
                run.steps();
                run.finish();
                run.check_answer();
                run
            });
            world.wait("the lines of the log", || {
                lines = world.decisions();
                lines.len() >= logged + case.logs.len()
            });
            let lines = lines.split_off(logged.min(lines.len()));
            assert_eq!(lines.len(), case.logs.len(), "lines of the log: {lines:#?}");
            if let Some(run) = run {
                run.check_upstream(&unread(run.world, &mut seen_to));
                run.check_log(&lines);
            }
        };
        let failed = catch_unwind(AssertUnwindSafe(one)).err();
        if let Some(panic) = failed {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
            failures.push(format!("{}: {}", case.name, text.unwrap_or_default()));
            std::thread::sleep(Duration::from_millis(500));
            unread(&world, &mut seen_to);
        }
        logged = world.decisions().len();
    }
    failures
}

#[test]
fn the_router_does_what_the_corpus_says() {
    // `CASE=hosts/` runs those whose names start so.
    let only = std::env::var("CASE").unwrap_or_default();
    let groups = by_config(|case| case.name.starts_with(&only));
    let failures: Vec<String> = std::thread::scope(|scope| {
        let mut running = Vec::new();
        for (_, resolved, cases) in &groups {
            running.push(scope.spawn(move || run(&resolved.policy, cases)));
        }
        running.into_iter().flat_map(|one| one.join().unwrap_or_else(|_| vec!["a group".to_owned()])).collect()
    });
    assert!(failures.is_empty(), "{} failed\n{}", failures.len(), failures.join("\n\n"));
}
