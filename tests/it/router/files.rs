//! The emitted files themselves. These need no router.

use sandboxc::emit::router::{forwarder_files, router_files};
use sandboxc::plan::SandboxNetwork;
use sandboxc::policy::Policy;

use super::inspected::{request, with_requests};
use crate::fixture::{plan_of, resolved, rules};

fn net_of(policy: &Policy) -> SandboxNetwork {
    let mut resolved = resolved();
    resolved.policy = policy.clone();
    plan_of(&resolved, &["true"]).network.unwrap()
}

#[test]
fn a_small_policy_in_every_file() {
    let policy = super::policy();
    let net = net_of(&policy);
    let files = router_files(&net, &policy).unwrap().into_iter().chain(forwarder_files(&net, false).unwrap());
    for file in files {
        let script = ["entry.sh", "forward.sh", "gate.sh", "limits.sh"].contains(&file.name());
        assert_eq!(file.executable, script, "{}", file.path);
        insta::assert_snapshot!(file.path.replace('/', "-"), file.text);
    }
}

#[test]
fn a_small_policy_with_requests_in_every_file() {
    let policy = Policy {
        allow: with_requests(
            "repo.allow",
            &[
                ("api.example.com", Some(request("GET", "/repos/*/issues"))),
                ("api.example.com", Some(request("POST", "/repos/**"))),
                (".example.org", Some(request("*", "/a%2fb"))),
                ("gql.example.com", Some(super::bodies::graphql("viewer", ""))),
                ("plain.example.com", None),
            ],
        ),
        ceiling: Some(with_requests(
            "server.ceiling",
            &[("*.example.com", None), (".example.org", Some(request("GET", "/**")))],
        )),
        ..Policy::default()
    };
    let new =
        ["nginx.conf", "inspected.conf", "requests.conf", "inspect.js", "entry.sh", "hosts-443.map", "hosts-80.map"];
    for file in router_files(&net_of(&policy), &policy).unwrap() {
        if new.contains(&file.name()) {
            insta::assert_snapshot!(format!("inspected-{}", file.name()), file.text);
        }
    }
}

#[test]
fn a_policy_with_credentials_in_the_files_that_know_of_them() {
    let policy = Policy {
        allow: with_requests(
            "repo.allow",
            &[("api.example.com", None), (".example.org", None), ("plain.example.com", None)],
        ),
        credentials: vec![
            super::masking::masked("KEY", "api.example.com *.example.org", "authorization x-api-key"),
            super::masking::aws("prod", "*.example.org"),
        ],
        ..Policy::default()
    };
    for file in router_files(&net_of(&policy), &policy).unwrap() {
        if ["nginx.conf", "inspected.conf", "credentials.js", "inspect.js"].contains(&file.name()) {
            insta::assert_snapshot!(format!("masked-{}", file.name()), file.text);
        }
    }
}

#[test]
fn a_path_that_nginx_could_not_read_is_refused_with_its_line() {
    let policy = |path: String| Policy {
        allow: with_requests("repo.allow", &[("api.example.com", Some(request("GET", &path)))]),
        ..Policy::default()
    };
    let emitted = |length: usize| {
        let policy = policy(format!("/{}", "x".repeat(length)));
        router_files(&net_of(&policy), &policy)
    };
    assert!(emitted(250).is_ok());
    let error = emitted(500).unwrap_err().to_string();
    assert!(error.starts_with(".sandboxc/sandbox.yaml:5: a path of this entry is too long"), "{error}");
}

#[test]
fn every_permission_points_back_to_its_line() {
    let policy = super::policy();
    let files = router_files(&net_of(&policy), &policy).unwrap();
    for file in files.iter().filter(|file| file.name().starts_with("hosts-")) {
        let permissions = file.text.lines().filter(|line| line.contains("\"pass ") || line.contains("\"private "));
        for line in permissions {
            assert!(line.contains("; # .sandboxc/sandbox.yaml:"), "{}: {line}", file.path);
        }
    }
}

#[test]
fn nothing_allowed_is_a_router_that_refuses_everything() {
    let policy = Policy::default();
    let files = router_files(&net_of(&policy), &policy).unwrap();
    let names: Vec<&str> = files.iter().map(sandboxc::emit::File::name).collect();
    assert_eq!(names, ["dns.conf", "entry.sh", "hosts-443.map", "hosts-80.map", "nginx.conf", "refusal.js"]);
    let map = &files[2].text;
    assert_eq!(
        map.lines().skip(1).collect::<Vec<_>>(),
        ["default \"deny not-allowed\";", "~^[0-9.]+$ \"deny not-allowed\";"]
    );
    assert!(!files[0].text.contains("127.0.1.1"), "no name resolves");
}

#[test]
fn an_address_that_the_guard_refuses_is_no_route() {
    let policy = Policy { allow: rules("repo.allow", &["10.1.2.3:22"]), ..Policy::default() };
    let error = router_files(&net_of(&policy), &policy).unwrap_err().to_string();
    assert!(error.starts_with(".sandboxc/sandbox.yaml:5: 10.1.2.3 lies in 10.0.0.0/8"), "{error}");
    assert!(error.contains("private: true"), "{error}");
    let private = Policy { allow: rules("repo.allow", &["!10.1.2.3:22"]), ..Policy::default() };
    assert!(router_files(&net_of(&private), &private).is_ok());
    let reachable = Policy { reachable: vec!["10.1.0.0/16".parse().unwrap()], ..policy };
    assert!(router_files(&net_of(&reachable), &reachable).is_ok());
    let own = Policy { allow: rules("repo.allow", &["!127.0.0.1:22"]), ..Policy::default() };
    assert!(router_files(&net_of(&own), &own).is_err(), "loopback is the router itself");
}

#[test]
fn a_route_that_the_policy_denies_is_a_fault() {
    let policy = super::policy();
    let net = net_of(&policy);
    let denied = Policy { deny: rules("server.deny", &["db.example.com"]), ..policy };
    assert!(router_files(&net, &denied).unwrap_err().to_string().contains("db.example.com:5432"));
}

#[test]
fn upstream_resolvers_keep_their_order_and_are_ipv4() {
    let policy = Policy { allow: rules("repo.allow", &["b.example.com", "a.example.com"]), ..Policy::default() };
    let mut net = net_of(&policy);
    net.upstream_dns = ["203.0.113.9", "2001:db8::53", "203.0.113.1"].map(|a| a.parse().unwrap()).to_vec();
    let files = router_files(&net, &policy).unwrap();
    let resolver = files.iter().find(|file| file.name() == "resolver.conf").unwrap();
    let servers: Vec<&str> = resolver.text.lines().filter(|line| line.starts_with("server=")).collect();
    let expected = ["a", "b"].map(|name| [9, 1].map(|last| format!("server=/{name}.example.com/203.0.113.{last}")));
    assert_eq!(servers, expected.concat());
    assert!(resolver.text.contains("\nstrict-order\n"));
    net.upstream_dns = vec!["2001:db8::53".parse().unwrap()];
    assert!(router_files(&net, &policy).is_err());
}
