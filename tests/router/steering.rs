//! Headers that could tell a server another method, path or host than the one that was checked.

use sandboxc::policy::{Policy, RequestRule, STEERING};

use super::inspected::{request, with_requests};
use super::secure::https;
use super::wire::{http, statuses};
use super::world::World;

fn policy() -> Policy {
    let passes = RequestRule { pass_headers: ["x-forwarded-host".to_owned()].into(), ..request("GET", "/**") };
    Policy {
        allow: with_requests(
            "repo.allow",
            &[
                ("ruled.secure.test", Some(request("GET", "/**"))),
                ("passes.secure.test", Some(passes)),
                ("plain.example.com", None),
            ],
        ),
        reachable: vec!["203.0.113.0/24".parse().unwrap()],
        ..Policy::default()
    }
}

fn call(host: &str, name: &str) -> String {
    format!("GET /x HTTP/1.1\r\nHost: {host}\r\n{name}: steers\r\nConnection: close\r\n\r\n")
}

#[test]
fn they_go_up_where_the_entry_says_so_alone() {
    let world = World::start(policy());
    let forms = |name: &str| [name.to_owned(), name.to_uppercase(), name.replace('-', "_"), name.replacen('-', "_", 1)];
    for name in STEERING {
        for form in forms(name) {
            let answer = https(&world, "ruled.secure.test", call("ruled.secure.test", &form));
            assert!(statuses(&answer) == ["200"] && !answer.contains("steers"), "{form}: {answer}");
            let answer = http(&world, call("ruled.secure.test", &form).as_bytes());
            assert!(statuses(&answer) == ["200"] && !answer.contains("steers"), "{form} on port 80: {answer}");
        }
        let answer = https(&world, "passes.secure.test", call("passes.secure.test", name));
        assert_eq!(answer.contains("steers"), name == "x-forwarded-host", "{name}: {answer}");
        // Where no rule was asked about the request, none is circumvented.
        let answer = http(&world, call("plain.example.com", name).as_bytes());
        assert!(answer.contains("steers"), "{name}: {answer}");
    }
    let other = https(&world, "ruled.secure.test", call("ruled.secure.test", "X-Forwarded-Proto"));
    assert!(other.contains("steers"), "{other}");
}

#[test]
fn names_that_servers_take_for_those_that_frame_a_body_do_not_go_up() {
    let world = World::start(policy());
    for name in ["Transfer_Encoding", "TRANSFER_ENCODING", "Content_Length", "content_length"] {
        let answer = https(&world, "ruled.secure.test", call("ruled.secure.test", name));
        assert!(statuses(&answer) == ["200"] && !answer.contains("steers"), "{name}: {answer}");
        let answer = http(&world, call("plain.example.com", name).as_bytes());
        assert!(statuses(&answer) == ["200"] && !answer.contains("steers"), "{name}: {answer}");
    }
}
