//! Credentials: where a surrogate is replaced by the real value, and where it is refused.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sandboxc::policy::{AwsVariables, Credential, CredentialKind, HostPattern, PathGlob, Policy};
use sandboxc::source::Place;

use super::inspected::{request, with_requests};
use super::mint::{surrogate, value};
use super::secure::https;
use super::wire::{get, http, json};
use super::world::World;

/// A masked secret for hosts and headers, each separated by spaces.
pub fn masked(name: &str, hosts: &str, headers: &str) -> Credential {
    let pattern = |text: &str| sandboxc::policy::parse_pattern(text).unwrap().0;
    let scopes: Vec<HostPattern> = hosts.split(' ').map(pattern).collect();
    let headers = headers.split(' ').map(str::to_owned).collect();
    Credential {
        name: name.to_owned(),
        kind: CredentialKind::Masked { headers },
        scopes,
        methods: None,
        paths: None,
        allow_foreign: false,
        from: Place::built_in(),
    }
}

/// Keys for AWS.
pub fn aws(name: &str, hosts: &str) -> Credential {
    let variables = AwsVariables {
        access_key_id: "AWS_ACCESS_KEY_ID".to_owned(),
        secret_access_key: "AWS_SECRET_ACCESS_KEY".to_owned(),
        session_token: Some("AWS_SESSION_TOKEN".to_owned()),
    };
    Credential { kind: CredentialKind::AwsSigv4 { variables }, ..masked(name, hosts, "x") }
}

pub fn policy() -> Policy {
    let narrow = Credential {
        methods: Some(["GET".to_owned(), "HEAD".to_owned()].into()),
        paths: Some(vec![PathGlob::parse("/hex/repos/**").unwrap()]),
        ..masked("NARROW", "narrow.secure.test", "authorization")
    };
    let open = Credential { allow_foreign: true, ..masked("OPEN", "open.secure.test", "authorization") };
    Policy {
        allow: with_requests(
            "repo.allow",
            &[
                ("api.secure.test", None),
                ("www.api.secure.test", Some(request("*", "/**"))),
                ("key.secure.test", None),
                ("odd.secure.test", None),
                ("open.secure.test", None),
                ("narrow.secure.test", None),
                ("ruled.secure.test", Some(request("GET", "/hex/**"))),
                (".any.secure.test", None),
                ("untrusted.secure.test", None),
                ("plain.example.com", None),
                ("aws.secure.test", None),
            ],
        ),
        reachable: vec!["203.0.113.0/24".parse().unwrap()],
        credentials: vec![
            masked("GH", "api.secure.test ruled.secure.test untrusted.secure.test *.any.secure.test", "authorization"),
            masked("SECOND", "api.secure.test", "authorization"),
            masked("KEY", "key.secure.test", "x-api-key private-token"),
            masked("ODD", "odd.secure.test", "authorization"),
            masked("LATIN", "odd.secure.test", "authorization"),
            narrow,
            open,
            aws("prod", "aws.secure.test"),
        ],
        ..Policy::default()
    }
}

/// The router of these tests.
pub fn shared() -> &'static World {
    static WORLD: std::sync::OnceLock<World> = std::sync::OnceLock::new();
    WORLD.get_or_init(|| World::start(policy()))
}

pub fn with(host: &str, path: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: it\r\n{headers}Connection: close\r\n\r\n").into_bytes()
}

pub fn basic(text: &str) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(text))
}

/// The head of the request as it reached the host, which answers `/hex` with it.
pub fn reached(answer: &str) -> String {
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    // Chunks of even length, each with its size before it.
    let chunked = head.contains("Transfer-Encoding: chunked");
    let lines = body.split("\r\n").enumerate().filter(|(at, _)| !chunked || at % 2 == 1).map(|(_, line)| line);
    shown(&lines.collect::<String>())
}

/// What `upstream.py` has hidden.
pub fn shown(digits: &str) -> String {
    let pairs = digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    let bytes = pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap_or_else(|_| panic!("{pair:?}: {digits}")) ^ 0x55);
    String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
}

fn arrives(world: &World, host: &str, header: (&str, &str), expected: &str) {
    let head = reached(&https(world, host, with(host, "/hex/repos/x", &[header])));
    let line = head.lines().find(|line| line.to_lowercase().starts_with(&format!("{}: ", header.0.to_lowercase())));
    let value = line.and_then(|line| line.split_once(": ")).map(|(_, value)| value);
    assert_eq!(value, Some(expected), "{header:?}: {head}");
    assert!(!head.contains("surrogate"), "{head}");
}

pub fn refused(answer: &str, status: &str, reason: &str) {
    assert_eq!(answer.get(9..12), Some(status), "{answer}");
    // Its length may be left out.
    let body = answer.find('{').and_then(|at| answer[at..].lines().next()).unwrap_or_default();
    assert_eq!(json(body)["reason"], reason, "{answer}");
}

fn is_refused(world: &World, host: &str, path: &str, headers: &[(&str, &str)], reason: &str) {
    refused(&https(world, host, with(host, path, headers)), "403", reason);
}

#[test]
fn a_surrogate_becomes_the_value_in_every_scheme() {
    let world = shared();
    let (sur, real) = (surrogate("GH"), value("GH"));
    for scheme in ["Bearer ", "bearer ", "token ", "Own-Scheme ", ""] {
        arrives(world, "api.secure.test", ("Authorization", &format!("{scheme}{sur}")), &format!("{scheme}{real}"));
    }
    arrives(world, "x.any.secure.test", ("authorization", &sur), &real);
    let second = surrogate("SECOND");
    arrives(world, "api.secure.test", ("Authorization", &second), &value("SECOND"));
    let line = world.first_decision(|line| line["credentials"] == "SECOND");
    assert_eq!((&line["host"], &line["verdict"]), (&"api.secure.test".into(), &"allow".into()), "{line}");
    assert!(!world.read("out").contains("surrogate") && !world.read("out").contains("real-"), "names only");
}

//
#[test]
fn basic_credentials_are_decoded_and_encoded_again() {
    let world = shared();
    let (sur, real) = (surrogate("GH"), value("GH"));
    let api = "api.secure.test";
    arrives(
        world,
        api,
        ("Authorization", &basic(&format!("x-access-token:{sur}"))),
        &basic(&format!("x-access-token:{real}")),
    );
    let lower = basic(&format!("{sur}:x")).replace("Basic", "basic");
    arrives(world, api, ("Authorization", &lower), &basic(&format!("{real}:x")).replace("Basic", "basic"));
    is_refused(world, api, "/hex", &[("Authorization", &basic(&format!("u:x{sur}")))], "leak");
    is_refused(world, api, "/hex", &[("Authorization", &basic("u:mine"))], "foreign-credential");
    is_refused(world, "key.secure.test", "/hex", &[("Authorization", &basic(&format!("u:{sur}")))], "leak");
}

//
#[test]
fn only_the_listed_headers_carry_a_credential() {
    let world = shared();
    let sur = surrogate("KEY");
    arrives(world, "key.secure.test", ("x-api-key", &sur), &value("KEY"));
    arrives(world, "key.secure.test", ("Private-Token", &sur), &value("KEY"));
    is_refused(world, "key.secure.test", "/hex", &[("Authorization", &format!("Bearer {sur}"))], "leak");
    is_refused(world, "key.secure.test", "/hex", &[("x-api-key", "mine")], "foreign-credential");
    is_refused(world, "key.secure.test", "/hex", &[("X_API_Key", "mine")], "foreign-credential");
    // No business of this credential.
    let head =
        reached(&https(world, "key.secure.test", with("key.secure.test", "/hex", &[("Authorization", "Bearer mine")])));
    assert!(head.contains("\r\nAuthorization: Bearer mine"), "{head}");
}

#[test]
fn values_with_special_characters_and_bytes_arrive_as_they_are() {
    let world = shared();
    arrives(
        world,
        "odd.secure.test",
        ("Authorization", &format!("Bearer {}", surrogate("ODD"))),
        &format!("Bearer {}", value("ODD")),
    );
    arrives(world, "odd.secure.test", ("Authorization", &surrogate("LATIN")), &value("LATIN"));
    let user = basic(&format!("u:{}", surrogate("LATIN")));
    arrives(world, "odd.secure.test", ("Authorization", &user), &basic(&format!("u:{}", value("LATIN"))));
}

//
#[test]
fn a_surrogate_goes_to_its_host_alone() {
    let world = shared();
    let bearer = format!("Bearer {}", surrogate("GH"));
    for host in ["www.api.secure.test", "key.secure.test"] {
        is_refused(world, host, "/hex/alone", &[("Authorization", &bearer)], "leak");
        let line = world.first_decision(|line| line["host"] == host && line["path"] == "/hex/alone");
        assert_eq!((&line["reason"], &line["credentials"]), (&"leak".into(), &"GH".into()), "{line}");
    }
    // The trailing dot names the same host; another Host header does not get this far.
    let dotted = https(world, "api.secure.test", with("api.secure.test.", "/hex", &[("Authorization", &bearer)]));
    assert!(reached(&dotted).contains(&format!("Authorization: Bearer {}", value("GH"))));
    refused(
        &https(world, "www.api.secure.test", with("api.secure.test", "/hex", &[("Authorization", &bearer)])),
        "421",
        "misdirected",
    );
    // What a redirect sends elsewhere is the surrogate, and is refused there.
    let moved = https(world, "api.secure.test", with("api.secure.test", "/echo", &[("Authorization", &bearer)]));
    assert!(moved.contains("\r\nLocation: https://other.test/?t=Bearer ghp_GHsurrogate"), "{moved}");
    // Port 80 is nobody's.
    for host in ["plain.example.com", "api.secure.test"] {
        refused(&http(world, &with(host, "/", &[("Authorization", &bearer)])), "403", "leak");
        refused(&http(world, &get(host, &format!("/?a={}", surrogate("KEY").replace('_', "%5F")))), "403", "leak");
        assert!(http(world, &with(host, "/", &[("Authorization", "Bearer mine")])).starts_with("HTTP/1.1 200 "));
    }
}

#[test]
fn methods_paths_and_rules_come_first() {
    let world = shared();
    let bearer = format!("Bearer {}", surrogate("NARROW"));
    arrives(world, "narrow.secure.test", ("Authorization", &bearer), &format!("Bearer {}", value("NARROW")));
    is_refused(world, "narrow.secure.test", "/hex/other", &[("Authorization", &bearer)], "leak");
    let post = String::from_utf8(with("narrow.secure.test", "/hex/repos/a", &[("Authorization", &bearer)])).unwrap();
    refused(&https(world, "narrow.secure.test", post.replace("GET ", "POST ")), "403", "leak");
    assert!(
        https(world, "narrow.secure.test", with("narrow.secure.test", "/hex/other", &[])).starts_with("HTTP/1.1 200 ")
    );
    let gh = format!("Bearer {}", surrogate("GH"));
    arrives(world, "ruled.secure.test", ("Authorization", &gh), &format!("Bearer {}", value("GH")));
    is_refused(world, "ruled.secure.test", "/other", &[("Authorization", &gh)], "path-not-allowed");
}

#[test]
fn a_surrogate_elsewhere_is_a_leak() {
    let world = shared();
    let (api, sur) = ("api.secure.test", surrogate("GH"));
    let encoded: String = sur.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let twice = encoded.replace('%', "%25");
    for target in
        [format!("/hex?t={sur}"), format!("/hex?t={encoded}"), format!("/hex?t={twice}"), format!("/hex/{encoded}")]
    {
        is_refused(world, api, &target, &[], "leak");
    }
    for value in [sur.clone(), encoded, twice, format!("a={sur}; b=1")] {
        is_refused(world, api, "/hex", &[("Cookie", &value)], "leak");
        is_refused(world, "open.secure.test", "/hex", &[("X-Own", &value)], "leak");
    }
    for value in [format!("Bearer x{sur}"), format!("Bearer {sur}x"), format!("Bearer {sur} {sur}")] {
        is_refused(world, api, "/hex", &[("Authorization", &value)], "leak");
    }
    let bytes = [&with(api, "/hex", &[])[..70], b"X-B: \xe2\x28", sur.as_bytes(), b"\xff\r\nConnection: close\r\n\r\n"]
        .concat();
    let bytes = String::from_utf8_lossy(&bytes).contains("X-B").then_some(bytes).unwrap();
    let answer = https(world, api, bytes);
    assert!(answer.starts_with("HTTP/1.1 40"), "{answer}");
    // In a body it is what the agent has anyway.
    let body = format!(
        "POST /upload HTTP/1.1\r\nHost: {api}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{sur}",
        sur.len()
    );
    assert!(https(world, api, body).starts_with("HTTP/1.1 200 "));
}

#[test]
fn foreign_empty_and_doubled_credentials() {
    let world = shared();
    let (api, bearer) = ("api.secure.test", format!("Bearer {}", surrogate("GH")));
    is_refused(world, api, "/hex", &[("Authorization", "Bearer ghp_mine")], "foreign-credential");
    // Not a request at all.
    let twice = https(world, api, with(api, "/hex", &[("Authorization", &bearer), ("authorization", &bearer)]));
    refused(&twice, "403", "duplicate-credential");
    let (key, host) = (surrogate("KEY"), "key.secure.test");
    for second in [("X-Api-Key", key.as_str()), ("x-api-key", "mine"), ("x_api_key", "mine"), ("x-api-key", "")] {
        is_refused(world, host, "/hex", &[("x-api-key", &key), second], "duplicate-credential");
    }
    for headers in [&[("Authorization", "")][..], &[]] {
        let head = reached(&https(world, api, with(api, "/hex", headers)));
        assert!(!head.contains("real-"), "{head}");
    }
    let open = "open.secure.test";
    arrives(
        world,
        open,
        ("Authorization", &format!("Bearer {}", surrogate("OPEN"))),
        &format!("Bearer {}", value("OPEN")),
    );
    arrives(world, open, ("Authorization", "Bearer mine"), "Bearer mine");
    // Bytes that are no UTF-8 are not touched.
    let request = String::from_utf8(with(open, "/hex", &[("Authorization", "Bearer LATIN")])).unwrap();
    let (before, after) = request.split_once("LATIN").unwrap();
    let head = reached(&https(world, open, [before.as_bytes(), b"m\xefne", after.as_bytes()].concat()));
    assert!(head.contains("Authorization: Bearer m\u{fffd}ne"), "{head}");
    let large = format!("Bearer {}", "a".repeat(60_000));
    is_refused(world, api, "/hex", &[("Authorization", &large)], "foreign-credential");
    arrives(world, open, ("Authorization", &large), &large);
    for byte in ["\0", "\u{1}"] {
        let answer = https(world, api, with(api, "/hex", &[("Authorization", &format!("{bearer}{byte}"))]));
        assert!(answer.starts_with("HTTP/1.1 40"), "{answer}");
    }
}

#[test]
fn a_value_goes_to_a_host_that_proves_its_name_alone() {
    let world = shared();
    let bearer = format!("Bearer {}", surrogate("GH"));
    let answer =
        https(world, "untrusted.secure.test", with("untrusted.secure.test", "/hex", &[("Authorization", &bearer)]));
    refused(&answer, "502", "upstream-untrusted");
}
