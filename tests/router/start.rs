//! How soon a router is ready, from its first instruction on.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

use sandboxc::policy::{MOST_NAMED_PORTS, Policy, Rule, RuleId, RuleSet, parse_pattern};
use sandboxc::source::Place;

use super::world::{World, program};

/// In a network namespace of its own; the shell becomes the router after it has said so.
const START: &str = r#"ip link set lo up; ip address add "$0/32" dev lo; echo now >&2; exec "$@""#;

/// Milliseconds until a router with these files is ready, median of an odd number of starts.
pub fn milliseconds(world: &World, starts: usize) -> f64 {
    let mut all: Vec<f64> = (0..starts).map(|_| once(world)).collect();
    all.sort_by(f64::total_cmp);
    all[starts / 2]
}

fn once(world: &World) -> f64 {
    let mut child = Command::new("unshare")
        .args(["--net", "sh", "-c", START, &world.net.router_address.to_string()])
        .arg(program())
        .arg("router")
        .args([world.path("router/policy.json"), world.path("materials")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("unshare");
    let lines = BufReader::new(child.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
    let (mut started, mut took) = (None, f64::NAN);
    for line in lines {
        match line.as_str() {
            "now" => started = Some(Instant::now()),
            "router: ready" => {
                took = started.expect("the shell says it first").elapsed().as_secs_f64() * 1e3;
                break;
            }
            _ => {}
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    assert!(!took.is_nan(), "the router did not start");
    took
}

/// As many named ports as `compile` takes.
pub fn named_ports() -> Policy {
    let rule = |number: usize| Rule {
        id: RuleId::new(&format!("repo.allow[{number}]")),
        pattern: parse_pattern(&format!("h{number}.example.com")).unwrap().0,
        ports: BTreeSet::from([5432]),
        private: false,
        request: None,
        from: Place::built_in(),
    };
    Policy {
        allow: RuleSet::new((0..MOST_NAMED_PORTS).map(rule).collect()),
        reachable: vec!["203.0.113.0/24".parse().unwrap()],
        ..Policy::default()
    }
}
