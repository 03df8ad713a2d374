//! The emitted files themselves. These need no router.

use sandboxc::emit::router::{forwarder_files, policy_file, router_files};
use sandboxc::plan::Plan;
use sandboxc::policy::Policy;
use sandboxc::router::PolicyFile;
use sandboxc::source::Sourced;

use super::inspected::{request, with_requests};
use crate::fixture::{plan_of, resolved, rules};

fn planned(policy: Policy) -> Plan {
    let mut resolved = resolved();
    resolved.policy = policy;
    plan_of(&resolved, &["true"])
}

#[test]
fn a_small_policy_in_every_file() {
    let plan = planned(Policy {
        allow: with_requests(
            "repo.allow",
            &[
                ("api.example.com", Some(request("GET", "/repos/*/issues"))),
                (".example.org", None),
                ("gql.example.com", Some(super::bodies::graphql("viewer", ""))),
            ],
        ),
        credentials: vec![super::masking::masked("KEY", "api.example.com", "authorization x-api-key")],
        ..super::policy()
    });
    let mut files = router_files(&plan).unwrap();
    files.extend(forwarder_files(&plan).unwrap());
    let names: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(names, ["router/policy.json", "forwarder/pod.json"]);
    for file in files {
        assert!(!file.executable);
        insta::assert_snapshot!(file.path.replace('/', "-"), file.text);
    }
}

#[test]
fn what_is_read_is_what_was_planned() {
    let plan = planned(super::policy());
    let text = router_files(&plan).unwrap().remove(0).text;
    let read = PolicyFile::read(text.as_bytes()).unwrap();
    // Columns are for findings, not for the file.
    let value = |file: &PolicyFile| serde_json::to_value(file).unwrap();
    assert_eq!(value(&read), value(&policy_file(&plan).unwrap()));
}

#[test]
fn every_permission_points_back_to_its_line() {
    let text = router_files(&planned(super::policy())).unwrap().remove(0).text;
    let file: serde_json::Value = serde_json::from_str(&text).unwrap();
    let all = |at: &str| file.pointer(at).unwrap().as_array().unwrap().clone();
    for one in [all("/policy/allow"), all("/policy/deny"), all("/tcp")].concat() {
        let from = &one["from"];
        assert!(
            from["file"] == ".sandboxc/sandbox.yaml" && from["line"].as_u64().is_some_and(|line| line > 0),
            "{one}"
        );
    }
    assert!(
        text.lines().any(|line| line.contains("\"pattern\": ") && line.contains("\"line\": ")),
        "on one line: {text}"
    );
}

#[test]
fn an_address_that_the_guard_refuses_is_no_route() {
    let files = |policy: &Policy| router_files(&planned(policy.clone()));
    let policy = Policy { allow: rules("repo.allow", &["10.1.2.3:22"]), ..Policy::default() };
    let error = files(&policy).unwrap_err().to_string();
    assert!(error.starts_with(".sandboxc/sandbox.yaml:5: 10.1.2.3 lies in 10.0.0.0/8"), "{error}");
    assert!(error.contains("private: true"), "{error}");
    assert!(files(&Policy { allow: rules("repo.allow", &["!10.1.2.3:22"]), ..Policy::default() }).is_ok());
    assert!(files(&Policy { reachable: vec!["10.1.0.0/16".parse().unwrap()], ..policy }).is_ok());
    let own = Policy { allow: rules("repo.allow", &["!127.0.0.1:22"]), ..Policy::default() };
    assert!(files(&own).is_err(), "loopback is the router itself");
}

#[test]
fn a_route_that_the_policy_denies_is_a_fault() {
    let mut plan = planned(super::policy());
    plan.policy.deny = rules("server.deny", &["db.example.com"]);
    assert!(router_files(&plan).unwrap_err().to_string().contains("db.example.com:5432"));
}

#[test]
fn upstream_resolvers_keep_their_order_and_are_ipv4() {
    let with = |addresses: &[&str]| {
        let mut resolved = resolved();
        resolved.upstream_dns = addresses.iter().map(|one| Sourced::built_in(one.parse().unwrap())).collect();
        policy_file(&plan_of(&resolved, &["true"])).map(|file| file.upstream_dns)
    };
    let kept = with(&["203.0.113.9", "2001:db8::53", "203.0.113.1"]).unwrap();
    assert_eq!(kept, ["203.0.113.9", "203.0.113.1"].map(|one| one.parse::<std::net::IpAddr>().unwrap()));
    assert!(with(&["2001:db8::53"]).is_err());
}
