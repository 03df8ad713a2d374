//! The real router: the program with exactly the emitted files, a small internet behind it, and a client that writes raw
//! bytes. Needs root; whatever is missing makes the tests fail.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod answers;
mod aws;
mod bodies;
mod capacity;
mod conformance;
mod conformance_dns;
#[allow(dead_code, reason = "shared with `it`")]
#[path = "../corpus/mod.rs"]
mod corpus;
mod differential;
mod dns;
mod files;
#[allow(dead_code, reason = "shared with `it`")]
#[path = "../it/fixture.rs"]
mod fixture;
mod frames;
mod git;
mod github;
mod guard;
mod h2;
mod h2_masking;
mod hello;
mod http;
mod inspected;
mod inspected_log;
mod life;
mod live;
mod log;
#[allow(dead_code, reason = "shared with `it`")]
#[path = "../it/machine.rs"]
mod machine;
mod masking;
mod masking_answers;
mod masking_aws;
mod mint;
mod modern;
mod pod;
mod requests;
mod script;
mod secure;
mod start;
mod steering;
mod streams;
mod tcp;
mod tls;
mod wire;
mod world;

use std::sync::OnceLock;

use sandboxc::policy::Policy;

use crate::fixture::rules;
use world::World;

/// The policy that most tests share: each kind of entry once.
fn policy() -> Policy {
    Policy {
        allow: rules(
            "repo.allow",
            &[
                "api.example.com",
                ".suffix.example.com",
                "*.subs.example.com",
                "db.example.com:5432",
                "!.private.example.com",
                "203.0.113.22:22",
                "db.example.com:5433",
                "!ip-10-55-0-1.example.org:5432",
                "ip-10-55-0-1.example.net:5432",
            ],
        ),
        // `web` is denied on port 80 alone.
        deny: rules(
            "server.deny",
            &["evil.suffix.example.com", ".worse.suffix.example.com", "web.suffix.example.com:80"],
        ),
        ceiling: None,
        reachable: vec!["203.0.113.0/24".parse().unwrap(), "10.66.0.0/16".parse().unwrap()],
        credentials: Vec::new(),
    }
}

/// The router that most tests share.
fn shared() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| World::start(policy()))
}
