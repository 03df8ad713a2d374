//! The real router: the program with exactly the emitted files, a small internet behind it, and a client that writes raw
//! bytes. Needs root; `SANDBOXC_NO_ROUTER=1` leaves these tests out, anything else that is missing makes them fail.

mod answers;
mod aws;
mod bodies;
mod capacity;
pub mod conformance;
mod conformance_dns;
mod differential;
mod dns;
mod files;
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
mod masking;
mod masking_answers;
mod masking_aws;
mod mint;
mod pod;
mod requests;
mod script;
mod secure;
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

/// The router that most tests share; `None` if they are left out.
fn shared() -> Option<&'static World> {
    static WORLD: OnceLock<Option<World>> = OnceLock::new();
    WORLD.get_or_init(|| World::start(policy())).as_ref()
}
