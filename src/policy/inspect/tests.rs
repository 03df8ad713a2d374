use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::select;

use super::super::{
    CredentialKind, GraphqlRule, HostPattern, PathGlob, Policy, RefGlob, RepositoryGlob, Rule, RuleId, RuleSet,
    canonical, parse_pattern,
};
use super::*;
use crate::source::Place;

fn set(words: &[&str]) -> BTreeSet<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn request(methods: Option<&[&str]>, paths: Option<&[&str]>) -> RequestRule {
    RequestRule {
        methods: methods.map(set),
        paths: paths.map(|all| all.iter().map(|glob| PathGlob::parse(glob).unwrap()).collect()),
        ..RequestRule::default()
    }
}

fn graphql_rule(queries: &[&str], mutations: &[&str]) -> RequestRule {
    let graphql = GraphqlRule { queries: set(queries), mutations: set(mutations), subscriptions: set(&[]) };
    RequestRule { graphql: Some(graphql), ..RequestRule::default() }
}

fn rule(index: usize, pattern: &str, request: Option<RequestRule>) -> Rule {
    let (pattern, port) = parse_pattern(pattern).unwrap();
    let id = RuleId::new(&format!("repo.allow[{index}]"));
    Rule { id, pattern, ports: port.into_iter().collect(), private: false, request, from: Place::built_in() }
}

fn allow(entries: Vec<(&str, Option<RequestRule>)>) -> Policy {
    let rules = entries.into_iter().enumerate().map(|(index, (pattern, request))| rule(index, pattern, request));
    Policy { allow: RuleSet::new(rules.collect()), ..Policy::default() }
}

fn credential(name: &str, scopes: &[&str]) -> Credential {
    Credential {
        name: name.to_owned(),
        kind: CredentialKind::Masked { headers: set(&["authorization"]) },
        scopes: scopes.iter().map(|scope| parse_pattern(scope).unwrap().0).collect(),
        methods: None,
        paths: None,
        allow_foreign: false,
        from: Place::built_in(),
    }
}

fn ask(policy: &Policy, method: &str, target: &str) -> Reason {
    policy.decide_request("a.test", 443, &HttpRequest { method, target }).reason
}

#[test]
fn the_checks_come_in_their_order() {
    let policy = allow(vec![
        ("a.test", Some(request(Some(&["GET"]), Some(&["/read/**"])))),
        ("a.test", Some(request(Some(&["POST"]), Some(&["/write/*", "/read/x"])))),
    ]);
    for (method, target, reason) in [
        ("GET", "/read/x?y=../", Reason::Allowed),
        ("HEAD", "/read/x", Reason::Allowed),
        ("POST", "/read/x", Reason::Allowed),
        ("get", "/read/x", Reason::MethodNotAllowed),
        ("PUT", "/read/x", Reason::MethodNotAllowed),
        ("POST", "/read/y", Reason::MethodNotAllowed),
        ("GET", "/other", Reason::PathNotAllowed),
        ("GET", "/read/../other", Reason::BadPath),
        ("GET", "http://a.test/read/x", Reason::BadRequest),
        ("CONNECT", "/read/x", Reason::BadRequest),
        ("OPTIONS", "*", Reason::BadRequest),
        ("G T", "/read/x", Reason::BadRequest),
        ("", "/read/x", Reason::BadRequest),
    ] {
        assert_eq!(ask(&policy, method, target), reason, "{method} {target}");
    }
    let denied = policy.decide_request("a.test", 443, &HttpRequest { method: "POST", target: "/read/y" });
    assert_eq!((denied.tier, denied.rule.unwrap().to_string().as_str()), (Tier::Inspected, "repo.allow[0]"));
    let other = policy.decide_request("b.test", 443, &HttpRequest { method: "GET", target: "/read/x" });
    assert_eq!(other.reason, Reason::NotAllowed);
    assert_eq!(policy.decide("a.test", 22).reason, Reason::PortNotAllowed);
    assert_eq!(policy.decide("a.test", 80).tier, Tier::Http);
}

#[test]
fn a_plain_entry_makes_rules_of_its_pattern_moot() {
    let ruled = || Some(request(Some(&["GET"]), None));
    let policy = allow(vec![("a.test", ruled()), ("a.test", None)]);
    let decision = policy.decide("a.test", 443);
    assert_eq!((decision.tier, decision.inspection), (Tier::Passthrough, None));
    assert_eq!(decision.rule.unwrap().as_str(), "repo.allow[1]", "the log names the entry that permits");
    assert_eq!(ask(&policy, "DELETE", "/x"), Reason::Allowed);
    // The most specific pattern owns a host, so a plain entry for the suffix changes nothing.
    let policy = allow(vec![("a.test", ruled()), (".test", None), ("*.a.test", None)]);
    assert_eq!(ask(&policy, "DELETE", "/x"), Reason::MethodNotAllowed);
}

//
#[test]
fn the_ceiling_narrows_requests_too() {
    let get = || Some(request(Some(&["GET"]), None));
    let below = || Some(request(None, Some(&["/v1/**"])));
    let capped = |allowed, ceiling| Policy {
        ceiling: Some(RuleSet::new(vec![rule(9, "a.test", ceiling)])),
        ..allow(vec![("a.test", allowed)])
    };
    let both = capped(get(), below());
    assert_eq!(ask(&both, "GET", "/v1/x"), Reason::Allowed);
    assert_eq!(ask(&both, "POST", "/v1/x"), Reason::MethodNotAllowed);
    assert_eq!(ask(&both, "GET", "/v2"), Reason::AboveCeiling);
    let plain = capped(None, below());
    assert_eq!(plain.decide("a.test", 443).tier, Tier::Inspected);
    assert_eq!(ask(&plain, "POST", "/v1/x"), Reason::Allowed);
    assert_eq!(ask(&plain, "GET", "/v2"), Reason::AboveCeiling);
    assert_eq!(ask(&capped(get(), None), "GET", "/v2"), Reason::Allowed);
    assert_eq!(capped(None, None).decide("a.test", 443).tier, Tier::Passthrough);
}

#[test]
fn rules_that_nobody_could_enforce_permit_nothing() {
    let ruled = || Some(request(Some(&["GET"]), None));
    let policy = allow(vec![("a.test:5432", ruled()), ("203.0.113.7:443", ruled())]);
    assert_eq!(policy.decide("a.test", 5432).reason, Reason::PortNotAllowed);
    assert_eq!(policy.decide("203.0.113.7", 443).reason, Reason::PortNotAllowed);
    assert_eq!(policy.decide("a.test", 443).reason, Reason::PortNotAllowed);
    assert_eq!(allow(vec![("a.test:443", ruled())]).decide("a.test", 443).tier, Tier::Inspected);
    let plain = allow(vec![("a.test:5432", None), ("203.0.113.7:443", None)]);
    let capped = Policy { ceiling: Some(policy.allow), ..plain };
    assert_eq!(capped.decide("a.test", 5432).reason, Reason::AboveCeiling);
    assert_eq!(capped.decide("203.0.113.7", 443).reason, Reason::AboveCeiling);
}

#[test]
fn an_inspected_pattern_reaches_every_host_that_it_matches() {
    let ruled = || Some(request(Some(&["GET"]), None));
    for (pattern, hosts) in [
        (".a.test", &["a.test", "b.a.test", "d.c.b.a.test"][..]),
        ("*.a.test", &["b.a.test", "d.c.b.a.test"]),
        (".com", &["a.com", "b.a.com"]),
        ("*", &["a.test", "b.a.com"]),
    ] {
        let policy = allow(vec![(pattern, ruled())]);
        for host in hosts {
            for (port, tier) in [(443, Tier::Inspected), (80, Tier::Http)] {
                let decision = policy.decide(host, port);
                assert_eq!((decision.reason, decision.tier), (Reason::Allowed, tier), "{pattern} {host} {port}");
            }
        }
        assert_eq!(policy.decide("203.0.113.7", 443).verdict, Verdict::Deny, "{pattern}: no address");
    }
    assert_eq!(allow(vec![("*.a.test", ruled())]).decide("a.test", 443).reason, Reason::NotAllowed);
    let scoped = Policy { credentials: vec![credential("T", &["*.b.a.test"])], ..allow(vec![("*.a.test", None)]) };
    assert_eq!(scoped.decide("c.d.a.test", 443).tier, Tier::Passthrough);
    assert_eq!(scoped.decide("d.c.b.a.test", 443).tier, Tier::Inspected);
}

//
#[test]
fn credentials_are_for_their_hosts_methods_and_paths() {
    let mut scoped = credential("T", &["a.test", "*.c.test"]);
    scoped.methods = Some(set(&["GET"]));
    scoped.paths = Some(vec![PathGlob::parse("/v1/*").unwrap()]);
    let policy = allow(vec![("a.test", None), ("b.test", None), (".c.test", None)]);
    let policy = Policy { credentials: vec![scoped, credential("U", &[".test"])], ..policy };
    let names = |host: &str, method: &str, path: &str| -> Vec<String> {
        policy.credentials_for(host, method, path).into_iter().map(|c| c.name.clone()).collect()
    };
    assert_eq!(names("a.test", "GET", "/v1/x"), ["T", "U"]);
    assert_eq!(names("A.TEST.", "HEAD", "/v1/x"), ["T", "U"]);
    assert_eq!(names("a.test", "POST", "/v1/x"), ["U"]);
    assert_eq!(names("a.test", "GET", "/v2/x"), ["U"]);
    assert_eq!(names("www.a.test", "GET", "/v1/x"), ["U"], "neither a parent nor a sibling");
    assert_eq!(names("c.test", "GET", "/v1/x"), ["U"]);
    assert_eq!(names("x.c.test", "GET", "/v1/x"), ["T", "U"]);
    let decision = policy.decide_request("a.test", 443, &HttpRequest { method: "POST", target: "/v1/x" });
    let inspection = decision.inspection.unwrap();
    assert!(inspection.permits_everything() && !inspection.reads_body());
    assert_eq!(inspection.credentials, ["U"]);
    assert_eq!(policy.decide("a.test", 443).inspection.unwrap().credentials, ["T", "U"]);
    assert_eq!(policy.decide("a.test", 80).inspection, None, "never over plain HTTP");
    assert_eq!(ask(&policy, "GET", "/v1/../x"), Reason::BadPath, "no credential for what has no form");
}

#[test]
fn one_rule_must_permit_all_fields_of_an_operation() {
    let policy = allow(vec![
        ("a.test", Some(graphql_rule(&["viewer", "node"], &["addStar"]))),
        ("a.test", Some(graphql_rule(&["search"], &[]))),
        ("a.test", Some(request(Some(&["POST"]), Some(&["/api/*"])))),
    ]);
    let post = |target| HttpRequest { method: "POST", target };
    let reason =
        |target, kind, fields: &[&str]| policy.decide_graphql("a.test", 443, &post(target), kind, fields).reason;
    for (kind, fields, expected) in [
        (GraphqlKind::Query, vec!["node", "viewer"], Reason::Allowed),
        (GraphqlKind::Query, vec!["search"], Reason::Allowed),
        (GraphqlKind::Query, vec!["search", "viewer"], Reason::GraphqlNotAllowed),
        (GraphqlKind::Mutation, vec!["addStar"], Reason::Allowed),
        (GraphqlKind::Mutation, vec!["viewer"], Reason::GraphqlNotAllowed),
        (GraphqlKind::Subscription, vec!["viewer"], Reason::GraphqlNotAllowed),
        (GraphqlKind::Subscription, vec![], Reason::GraphqlNotAllowed),
    ] {
        assert_eq!(reason("/graphql", kind, &fields), expected, "{kind:?} {fields:?}");
    }
    assert_eq!(reason("/api/x", GraphqlKind::Mutation, &["anything"]), Reason::Allowed, "no body is read there");
    assert_eq!(ask(&policy, "GET", "/graphql"), Reason::MethodNotAllowed);
    assert_eq!(ask(&policy, "POST", "/graphql/x"), Reason::PathNotAllowed);
    let head = policy.decide_request("a.test", 443, &post("/graphql"));
    assert!(head.inspection.unwrap().reads_body());
    let settled = policy.decide_request("a.test", 443, &post("/api/x"));
    assert!(!settled.inspection.unwrap().reads_body());
    let every = allow(vec![("a.test", Some(graphql_rule(&["*"], &[])))]);
    let any = every.decide_graphql("a.test", 443, &post("/graphql"), GraphqlKind::Query, &["__schema"]);
    assert_eq!(any.reason, Reason::Allowed);
}

fn random_rules() -> impl Strategy<Value = Vec<Option<RequestRule>>> {
    let methods = select(vec![None, Some(&["GET"][..]), Some(&["GET", "POST"]), Some(&["PUT"])]);
    let paths = select(vec![None, Some(&["/a/*"][..]), Some(&["/a/**", "/b"]), Some(&["/**/c"])]);
    let one = (methods, paths).prop_map(|(methods, paths)| request(methods, paths));
    proptest::collection::vec(prop_oneof![1 => Just(None), 5 => one.prop_map(Some)], 1..4)
}

fn targets() -> impl Strategy<Value = String> {
    let piece = select(vec!["/", "a", "b", "c", "%61", "%2f", "..", ".", "%2e", "?x", "%25", "2f", ";"]);
    proptest::collection::vec(piece, 0..6).prop_map(|pieces| format!("/{}", pieces.concat()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn requests_pass_only_by_a_rule_of_both_lists(
        rules in random_rules(), ceiling in random_rules(), target in targets(),
        method in select(vec!["GET", "HEAD", "POST", "PUT", "DELETE"]), port in select(vec![80, 443])
    ) {
        let list = |rules: &[Option<RequestRule>]| {
            RuleSet::new(rules.iter().enumerate().map(|(at, request)| rule(at, "a.test", request.clone())).collect())
        };
        let policy = Policy { allow: list(&rules), ceiling: Some(list(&ceiling)), ..Policy::default() };
        let verdict = policy.decide_request("a.test", port, &HttpRequest { method, target: &target }).verdict;
        // Said once more, in the plainest words.
        let permits = |rules: &[Option<RequestRule>], path: &str| rules.iter().flatten().any(|r| {
            let method_fits = r.methods.as_ref().is_none_or(|m| m.contains(method) || (method == "HEAD" && m.contains("GET")));
            method_fits && r.paths.as_ref().is_none_or(|all| all.iter().any(|glob| glob.matches(path)))
        });
        let open = |rules: &[Option<RequestRule>]| rules.iter().any(Option::is_none);
        let expected = match canonical(&target) {
            _ if open(&rules) && open(&ceiling) => true,
            Err(_) => false,
            Ok(path) => [&rules, &ceiling].into_iter().all(|list| open(list) || permits(list, &path)),
        };
        prop_assert_eq!(verdict == Verdict::Allow, expected, "{} {}", method, target);
        let ruled = !open(&rules) || !open(&ceiling);
        prop_assert!(!ruled || canonical(&target).is_ok() || verdict == Verdict::Deny, "a bad path never matches");
    }

    #[test]
    fn a_scope_matches_what_an_entry_would_own(
        scope in select(vec!["a.test", ".a.test", "*.a.test", "b.a.test"]),
        host in "([ab]\\.){0,3}(a\\.test|aa\\.test|test)"
    ) {
        let pattern: HostPattern = parse_pattern(scope).unwrap().0;
        let name = HostName::from_wire(&host);
        let owned = name.as_ref().is_some_and(|name| !RuleSet::new(vec![rule(0, scope, None)]).owner(name).is_empty());
        prop_assert_eq!(name.is_some_and(|name| pattern.matches(&name)), owned);
    }
}

fn git_rule(fetch: &[&str], push: &[(&str, &[&str])]) -> RequestRule {
    let repository = |text: &&str| RepositoryGlob::parse(text).unwrap();
    let refs = |all: &&[&str]| all.iter().map(|text| RefGlob::parse(text).unwrap()).collect();
    let git = GitRule {
        fetch: fetch.iter().map(repository).collect(),
        push: push.iter().map(|(name, all)| (repository(name), refs(all))).collect(),
    };
    RequestRule { git: Some(git), ..RequestRule::default() }
}

fn acme() -> RequestRule {
    git_rule(&["acme/*"], &[("acme/widgets", &["refs/heads/agent/**", "refs/tags/x"])])
}

fn push(policy: &Policy, repository: &str, refs: &[(&str, bool)]) -> Decision {
    let target = format!("/{repository}/git-receive-pack");
    let refs: Vec<PushedRef<'_>> = refs.iter().map(|&(name, deletes)| PushedRef { name, deletes }).collect();
    policy.decide_push("a.test", 443, &HttpRequest { method: "POST", target: &target }, &refs)
}

#[test]
fn a_rule_about_git_permits_smart_http_of_its_repositories_alone() {
    let policy = allow(vec![("a.test", Some(acme()))]);
    for (method, target, reason) in [
        ("GET", "/acme/gadgets.git/info/refs?service=git-upload-pack", Reason::Allowed),
        ("POST", "/acme/gadgets/git-upload-pack", Reason::Allowed),
        ("GET", "/acme/widgets/info/refs?service=git-receive-pack", Reason::Allowed),
        ("POST", "/acme/widgets/git-receive-pack", Reason::Allowed),
        ("GET", "/acme/gadgets/info/refs?service=git-receive-pack", Reason::GitNotAllowed),
        ("POST", "/acme/gadgets/git-receive-pack", Reason::GitNotAllowed),
        ("POST", "/other/widgets/git-upload-pack", Reason::GitNotAllowed),
        ("POST", "/acme/widgets/x/git-upload-pack", Reason::GitNotAllowed),
        ("GET", "/acme/widgets", Reason::PathNotAllowed),
        ("GET", "/acme/widgets/info/refs", Reason::PathNotAllowed),
        ("GET", "/acme/widgets/raw/main/x", Reason::PathNotAllowed),
        ("POST", "/acme/widgets/info/lfs/objects/batch", Reason::PathNotAllowed),
        ("POST", "/acme/../acme/widgets/git-receive-pack", Reason::BadPath),
        ("POST", "/graphql", Reason::PathNotAllowed),
    ] {
        assert_eq!(ask(&policy, method, target), reason, "{method} {target}");
    }
    let reads = |method, target| {
        policy.decide_request("a.test", 443, &HttpRequest { method, target }).inspection.unwrap().reads_body()
    };
    assert!(reads("POST", "/acme/widgets/git-receive-pack"), "the refs decide");
    assert!(!reads("POST", "/acme/widgets/git-upload-pack"));
    assert!(!reads("GET", "/acme/widgets/info/refs?service=git-receive-pack"));
    let call = HttpRequest { method: "GET", target: "/acme/widgets/info/refs?service=git-upload-pack" };
    let upgraded = policy.decide_upgrade("a.test", 443, &call, Upgrade::Websocket);
    assert_eq!(upgraded.reason, Reason::UpgradeNotAllowed, "bytes that nobody reads");
}

#[test]
fn every_ref_of_a_push_must_be_permitted_and_none_is_deleted() {
    let more = git_rule(&[], &[("acme/widgets", &["refs/heads/docs"])]);
    let policy = allow(vec![("a.test", Some(acme())), ("a.test", Some(more))]);
    let reason = |refs: &[(&str, bool)]| push(&policy, "acme/widgets", refs).reason;
    assert_eq!(reason(&[]), Reason::Allowed, "git asks whether it may push");
    assert_eq!(reason(&[("refs/heads/agent/x", false), ("refs/tags/x", false)]), Reason::Allowed);
    assert_eq!(reason(&[("refs/heads/agent/x", false), ("refs/heads/docs", false)]), Reason::Allowed, "two entries");
    for bad in [("refs/heads/main", false), ("refs/heads/agent", false), ("refs/heads/agent/x", true), ("HEAD", false)]
    {
        assert_eq!(reason(&[bad]), Reason::RefNotAllowed, "{bad:?}");
        assert_eq!(reason(&[("refs/tags/x", false), bad]), Reason::RefNotAllowed, "{bad:?}");
    }
    assert_eq!(push(&policy, "acme/gadgets", &[("refs/heads/agent/x", false)]).reason, Reason::GitNotAllowed);
    let rule = |refs: &[(&str, bool)]| push(&policy, "acme/widgets", refs).rule.unwrap().to_string();
    assert_eq!(rule(&[("refs/heads/docs", false), ("refs/tags/x", false)]), "repo.allow[1]");
    assert_eq!(rule(&[("refs/tags/x", false)]), "repo.allow[0]");
    // A plain entry permits everything, a path of its own the whole request.
    let plain = allow(vec![("a.test", None), ("a.test", Some(acme()))]);
    assert_eq!(push(&plain, "any/thing", &[("refs/heads/main", true)]).reason, Reason::Allowed);
    let path = request(Some(&["POST"]), Some(&["/acme/widgets/git-receive-pack"]));
    let path = allow(vec![("a.test", Some(path)), ("a.test", Some(acme()))]);
    assert_eq!(push(&path, "acme/widgets", &[("refs/heads/main", true)]).reason, Reason::Allowed);
}

#[test]
fn a_ceiling_caps_pushes_too() {
    let capped = |allowed, ceiling| {
        let ceiling = allow(vec![("a.test", Some(ceiling))]).allow;
        Policy { ceiling: Some(ceiling), ..allow(vec![("a.test", allowed)]) }
    };
    let wide = || git_rule(&["**"], &[("**", &["refs/**"])]);
    for policy in
        [capped(Some(wide()), acme()), capped(Some(request(None, Some(&["/**"]))), acme()), capped(None, acme())]
    {
        let reason = |repository, name| push(&policy, repository, &[(name, false)]).reason;
        assert_eq!(reason("acme/widgets", "refs/heads/agent/x"), Reason::Allowed);
        assert_eq!(reason("acme/widgets", "refs/heads/main"), Reason::AboveCeiling);
        assert_eq!(reason("acme/gadgets", "refs/heads/agent/x"), Reason::AboveCeiling);
    }
    // What reads JSON permits no push, not even one of nothing, and the other way round.
    let post = RequestRule { paths: request(None, Some(&["/**"])).paths, ..graphql_rule(&["*"], &["*"]) };
    let both = capped(Some(acme()), post);
    assert_eq!(push(&both, "acme/widgets", &[]).reason, Reason::AboveCeiling);
    let call = HttpRequest { method: "POST", target: "/acme/widgets/git-receive-pack" };
    let kind = GraphqlKind::Query;
    assert_eq!(both.decide_graphql("a.test", 443, &call, kind, &["x"]).reason, Reason::BadBody);
}
