//! Tokens of a GitHub App: minted, renewed and revoked by the router, with an API that verifies its JWTs.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use sandboxc::policy::{Credential, CredentialKind, Policy};
use sandboxc::source::Place;
use serde_json::{Value, json};

use super::inspected::with_requests;
use super::secure::https;
use super::world::World;

const ADDRESS: &str = "203.0.113.40";
const HOST: &str = "ip-203-0-113-40.secure.test";

fn policy() -> Policy {
    let kind = CredentialKind::GithubApp {
        base_url: format!("https://{HOST}"),
        app_id: "123".to_owned(),
        installation_id: 456,
        repositories: Some(["widgets".to_owned()].into()),
        permissions: Some([("contents".to_owned(), "read".to_owned())].into()),
    };
    let credential = Credential {
        name: "GH_TOKEN".to_owned(),
        kind,
        scopes: vec![sandboxc::policy::parse_pattern(HOST).unwrap().0],
        methods: None,
        paths: None,
        allow_foreign: false,
        from: Place::built_in(),
    };
    Policy {
        allow: with_requests("repo.allow", &[(HOST, None)]),
        reachable: vec!["203.0.113.0/24".parse().unwrap()],
        credentials: vec![credential],
        ..Policy::default()
    }
}

/// The API, on an address of its own.
struct GitHub<'a> {
    world: &'a World,
    process: Child,
}

impl<'a> GitHub<'a> {
    fn start(world: &'a World, certificate: &str) -> Self {
        Self::steered(world, certificate, &json!({}))
    }

    /// One that does as it is told from its first request on: the router asks as soon as anybody listens.
    fn steered(world: &'a World, certificate: &str, wish: &Value) -> Self {
        let here = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/router");
        let process = world.as_router(|| {
            let _ = Command::new("ip").args(["address", "add", &format!("{ADDRESS}/32"), "dev", "lo"]).status();
            Command::new("python3")
                .arg(here.join("fake_github.py"))
                .arg(ADDRESS)
                .arg(world.path(&format!("internet/{certificate}.pem")))
                .arg(world.path("internet/app.pub"))
                .env("STEERED", wish.to_string())
                .stdout(Stdio::piped())
                .spawn()
                .expect("python3")
        });
        let mut github = Self { world, process };
        let mut line = [0; 6];
        github.process.stdout.as_mut().unwrap().read_exact(&mut line).expect("ready");
        github
    }

    fn ask(&self, request: &str) -> Value {
        let answer = self.world.as_router(|| {
            let mut stream = TcpStream::connect((ADDRESS, 80)).expect("the fake");
            stream.write_all(request.as_bytes()).expect("a request");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("an answer");
            answer
        });
        let (_, body) = answer.split_once("\r\n\r\n").expect("a head");
        serde_json::from_str(body).expect("JSON")
    }

    fn state(&self) -> Value {
        self.ask("GET /_/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    }

    fn steer(&self, wish: &Value) {
        let body = wish.to_string();
        let length = body.len();
        self.ask(&format!(
            "POST /_/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        ));
    }

    fn mints(&self) -> u64 {
        self.state()["mints"].as_u64().unwrap()
    }
}

impl Drop for GitHub<'_> {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Waits a minute at most: pauses have grown since the router started, which was before the fake did.
pub fn patiently(mut done: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !done() {
        assert!(std::time::Instant::now() < end, "waited in vain");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

fn stop(world: &World) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(world.pid()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    world.wait("the router's end", || !world.read("router.exit").is_empty());
}

#[test]
fn a_token_is_minted_renewed_in_time_and_revoked_at_the_end() {
    let world = World::start(policy());
    let github = GitHub::steered(&world, "good", &json!({ "life": 3 }));
    patiently(|| github.mints() >= 3);
    let state = github.state();
    assert_eq!(state["refused"], json!([]), "every JWT is good");
    assert_eq!(state["wishes"][0], json!({ "repositories": ["widgets"], "permissions": { "contents": "read" } }));
    // From now on one lives for long, and the session ends with it.
    github.steer(&json!({ "life": 3600 }));
    patiently(|| github.state()["lasts"].as_f64().unwrap() > 60.0);
    stop(&world);
    let state = github.state();
    assert_eq!(state["live"], json!([]), "{state}\n{}", world.read("err"));
    assert!(!state["revoked"].as_array().unwrap().is_empty());
}

#[test]
fn a_surrogate_becomes_the_token_for_its_repositories_alone_in_graphql_too() {
    let world = World::start(policy());
    let github = GitHub::start(&world, "good");
    patiently(|| github.mints() >= 1);
    let ask = |method: &str, target: &str, body: &str| {
        let head = format!("{method} {target} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n");
        let fields = "Authorization: bearer ghs_surrogate\r\nContent-Type: application/json\r\n";
        https(&world, HOST, format!("{head}{fields}Content-Length: {}\r\n\r\n{body}", body.len()))
    };
    let query = |name: &str| format!(r#"query A {{ repository(owner: \"acme\", name: \"{name}\") {{ id }} }}"#);
    let other = r"query B { viewer { login } }";
    // The fake answers 200 to nobody but the holder of a token that it has minted.
    let rest = ask("GET", "/repos/acme/widgets/issues", "");
    assert!(rest.starts_with("HTTP/1.1 200"), "{rest}");
    assert!(ask("GET", "/repos/acme/gadgets/issues", "").contains("repository-not-allowed"));

    let both = format!(r#"{{"operationName":"A","query":"{} {other}"}}"#, query("widgets"));
    let answer = ask("POST", "/graphql", &both);
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("widgets"), "{answer}");
    assert!(!answer.contains("viewer"), "only what was judged goes up: {answer}");
    for (target, body, reason) in [
        ("/graphql", format!(r#"{{"query":"{}"}}"#, query("gadgets")), "repository-not-allowed"),
        ("/graphql", format!(r#"{{"query":"{other}"}}"#), "repository-not-allowed"),
        ("/graphql?query=%7Bviewer%7Blogin%7D%7D", format!(r#"{{"query":"{}"}}"#, query("widgets")), "bad-body"),
    ] {
        let answer = ask("POST", target, &body);
        assert!(answer.starts_with("HTTP/1.1 403") && answer.contains(reason), "{target} {body}: {answer}");
    }
}

#[test]
fn every_thread_has_the_one_token_that_was_minted() {
    let world = World::start(policy());
    let github = GitHub::start(&world, "good");
    patiently(|| github.mints() >= 1);
    let head = format!("GET /repos/acme/widgets HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n");
    let ask = || https(&world, HOST, format!("{head}Authorization: token ghs_surrogate\r\n\r\n"));
    patiently(|| ask().starts_with("HTTP/1.1 200"));
    // More than any one thread would take while another is free.
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..5).for_each(|_| assert!(ask().starts_with("HTTP/1.1 200"))));
        }
    });
    assert_eq!((github.mints(), &github.state()["refused"]), (1, &json!([])));
}

#[test]
fn a_failing_api_is_asked_again_and_less_and_less_often() {
    let world = World::start(policy());
    let github = GitHub::steered(&world, "good", &json!({ "status": 503 }));
    patiently(|| github.state()["refused"].as_array().unwrap().len() >= 2);
    assert!(github.state()["refused"].as_array().unwrap().len() < 10);
    github.steer(&json!({ "status": 0 }));
    patiently(|| github.mints() > 0);
    let log = world.read("err");
    assert!(log.contains("no token for GH_TOKEN: the API answered 503"), "{log}");
    assert!(!log.contains("ghs_") && !log.contains("BEGIN"), "{log}");
}

#[test]
fn the_api_must_show_a_certificate_that_the_router_trusts() {
    let world = World::start(policy());
    let github = GitHub::start(&world, "stranger");
    let needle = "no token for GH_TOKEN: the host's certificate is not trusted: UnknownIssuer";
    world.wait("two refused handshakes", || world.read("err").matches(needle).count() >= 2);
    assert_eq!((github.mints(), &github.state()["refused"]), (0, &json!([])));
    // The end does not wait for what cannot be.
    let start = std::time::Instant::now();
    stop(&world);
    assert!(start.elapsed() < std::time::Duration::from_secs(2));
}
