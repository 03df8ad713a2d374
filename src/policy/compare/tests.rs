//! Changes in words, and the property that they say everything.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::policy::{
    Credential, CredentialKind, GitRule, GraphqlRule, HttpRequest, PathGlob, PushedRef, RefGlob, RepositoryGlob,
    RequestRule, Upgrade, parse_pattern,
};

fn rule(id: &str, pattern: &str, request: Option<RequestRule>) -> Rule {
    let (pattern, port) = parse_pattern(pattern).unwrap();
    let ports = port.into_iter().flat_map(|port| [80, 443, port]).collect();
    let (id, from) = (RuleId::new(id), Place::built_in());
    Rule { id, pattern, ports, private: false, request, from }
}

fn request(methods: &[&str], paths: &[&str]) -> RequestRule {
    RequestRule {
        methods: (!methods.is_empty()).then(|| methods.iter().map(|m| (*m).to_owned()).collect()),
        paths: (!paths.is_empty()).then(|| paths.iter().map(|p| PathGlob::parse(p).unwrap()).collect()),
        ..RequestRule::default()
    }
}

fn policy(rules: Vec<Rule>) -> Policy {
    Policy { allow: RuleSet::new(rules), ..Policy::default() }
}

/// Each change as a line.
fn lines(old: &Policy, new: &Policy) -> Vec<String> {
    let line = |c: &Change| {
        let subject = match &c.affected {
            Affected::Connections => "all".to_owned(),
            Affected::PrivateAddresses => "private".to_owned(),
            Affected::Requests(example) => example.clone(),
            Affected::Credential(name, example) => format!("{name} in {example}"),
            Affected::Header(name, example) => format!("{name}: in {example}"),
            Affected::TooManyCases => "too many".to_owned(),
        };
        let sign = if c.effect == Effect::Opens { '+' } else { '-' };
        format!("{sign} {}:{} {subject}", c.host, c.port)
    };
    compare(old, new).iter().map(line).collect()
}

#[test]
fn hosts_and_ports_that_open_and_close() {
    let old = policy(vec![rule("a", "a.test", None), rule("b", ".b.test", None)]);
    let new = policy(vec![rule("b", "*.b.test", None), rule("c", "c.test:22", None)]);
    assert_eq!(lines(&old, &old), [""; 0]);
    assert_eq!(
        lines(&old, &new),
        [
            "- a.test:80 all",
            "- a.test:443 all",
            "- b.test:80 all",
            "- b.test:443 all",
            "+ c.test:22 all",
            "+ c.test:80 all",
            "+ c.test:443 all",
        ]
    );
}

#[test]
fn requests_count_and_not_how_they_are_written() {
    let one = policy(vec![rule("a", "a.test", Some(request(&["GET", "POST"], &["/x/**"])))]);
    let two = policy(vec![
        rule("a", "a.test", Some(request(&["GET"], &["/x/**"]))),
        rule("b", "a.test", Some(request(&["POST"], &["/x/**", "/x/y"]))),
    ]);
    assert_eq!(lines(&one, &two), [""; 0], "the same requests by other rules");
    let narrow = policy(vec![rule("a", "a.test", Some(request(&["GET"], &["/x/*"])))]);
    assert_eq!(
        lines(&narrow, &one),
        ["+ a.test:80 GET /x//", "+ a.test:443 GET /x//"].map(|line| line.replace("/x//", "/x/y/")),
    );
    let plain = policy(vec![rule("a", "a.test", None)]);
    assert_eq!(lines(&narrow, &plain), ["+ a.test:80 all", "+ a.test:443 all"]);
    assert_eq!(lines(&plain, &narrow), ["- a.test:80 all", "- a.test:443 all"]);
}

#[test]
fn pushes_graphql_upgrades_headers_and_credentials_count() {
    let git = |refs: &str| RequestRule {
        git: Some(GitRule {
            fetch: Vec::new(),
            push: BTreeMap::from([(RepositoryGlob::parse("acme/x").unwrap(), vec![RefGlob::parse(refs).unwrap()])]),
        }),
        ..RequestRule::default()
    };
    let graphql = |fields: &[&str]| RequestRule {
        graphql: Some(GraphqlRule {
            queries: fields.iter().map(|f| (*f).to_owned()).collect(),
            ..GraphqlRule::default()
        }),
        ..RequestRule::default()
    };
    let upgrade = RequestRule { upgrade: [Upgrade::Websocket].into(), ..request(&["GET"], &["/x"]) };
    let header = RequestRule { pass_headers: ["forwarded".to_owned()].into(), ..request(&["GET"], &["/x"]) };
    let plain = request(&["GET"], &["/x"]);
    let opened = |old: RequestRule, new: RequestRule| {
        let [old, new] = [old, new].map(|request| policy(vec![rule("a", "a.test", Some(request))]));
        lines(&old, &new).into_iter().filter(|line| line.starts_with("+ a.test:443")).collect::<Vec<_>>()
    };
    let pushed = opened(git("refs/heads/a"), git("refs/heads/*"));
    assert!(pushed.iter().any(|line| line.contains("/git-receive-pack (refs/heads/")), "{pushed:?}");
    assert_eq!(opened(git("refs/heads/*"), git("refs/heads/a")), [""; 0]);
    let asked = opened(graphql(&["a"]), graphql(&["a", "b"]));
    assert_eq!(asked, ["+ a.test:443 POST /graphql (query a b)"]);
    assert_eq!(opened(plain.clone(), upgrade), ["+ a.test:443 GET /x (WebSocket)"]);
    assert_eq!(opened(plain.clone(), header), ["+ a.test:443 forwarded: in GET /x"]);
    let with = |scope: &str| Policy {
        credentials: vec![Credential {
            name: "TOKEN".to_owned(),
            kind: CredentialKind::Masked { headers: ["authorization".to_owned()].into() },
            scopes: vec![parse_pattern(scope).unwrap().0],
            methods: None,
            paths: None,
            allow_foreign: false,
            from: Place::built_in(),
        }],
        ..policy(vec![rule("a", "a.test", Some(plain.clone()))])
    };
    assert_eq!(lines(&with("b.test"), &with("a.test")), ["+ a.test:443 TOKEN in GET /x"]);
    assert_eq!(lines(&with("a.test"), &with("b.test")), ["- a.test:443 TOKEN in GET /x"]);
}

#[test]
fn too_many_cases_count_as_wider_unless_nothing_changed() {
    let glob = |n: usize| format!("/**{n}**a**{n}**b**/**{n}");
    let paths: Vec<String> = (0..12).map(glob).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let old = policy(vec![rule("a", "a.test", Some(request(&[], &paths)))]);
    let new = policy(vec![rule("a", "a.test", Some(request(&[], &paths[1..])))]);
    assert_eq!(lines(&old, &old), [""; 0]);
    assert_eq!(lines(&old, &new), ["+ a.test:80 too many", "+ a.test:443 too many"]);
}

/// Requests, upgrades and pushes that a test asks both policies about.
fn rules(most: usize) -> impl Strategy<Value = Vec<Rule>> {
    let pattern = select(vec!["a.test", ".a.test", "*.a.test", "b.a.test", "b.a.test:22", "*.test"]);
    let methods = select(vec![&[][..], &["GET"], &["POST"], &["GET", "PUT"]]);
    let paths = select(vec![&[][..], &["/x/*"], &["/x/**"], &["/x/y", "/**/z"], &["/**"]]);
    let asked = prop_oneof![Just(None), (methods, paths).prop_map(|(m, p)| Some(request(m, p)))];
    proptest::collection::vec((pattern, asked), 0..most).prop_map(|rules| {
        let rule = |(at, (pattern, asked)): (usize, (&str, _))| rule(&format!("repo.allow[{at}]"), pattern, asked);
        rules.into_iter().enumerate().map(rule).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn there_are_no_changes_exactly_if_both_decide_everything_alike(
        old in rules(5), new in rules(5), ceiling in rules(3), capped: bool,
        host in select(vec!["a.test", "b.a.test", "c.b.a.test", "x.test", "x.other"]), port in select(vec![22, 80, 443]),
        method in select(vec!["GET", "HEAD", "POST", "PUT", "PATCH"]), path in "/[xyz]?(/[xyz]){0,2}/?",
    ) {
        let ceiling = capped.then(|| RuleSet::new(ceiling));
        let [old, new] = [old, new].map(|rules| Policy { ceiling: ceiling.clone(), ..policy(rules) });
        let changes = compare(&old, &new);
        prop_assert!(compare(&new, &new).is_empty());
        let asked = HttpRequest { method, target: &path };
        let [before, after] = [&old, &new].map(|policy| allows(&policy.decide_request(host, port, &asked)));
        let has = |effect| changes.iter().any(|change| change.effect == effect);
        prop_assert!(before || !after || has(Effect::Opens), "{} {}:{} {}", method, host, port, path);
        prop_assert!(after || !before || has(Effect::Closes), "{} {}:{} {}", method, host, port, path);
        let back = compare(&new, &old);
        prop_assert_eq!(changes.len(), back.len(), "each way is the other's reverse");
    }
}

#[test]
fn a_push_of_several_refs_is_permitted_ref_by_ref() {
    // What lets `Case` ask about one ref at a time.
    let git = GitRule {
        fetch: Vec::new(),
        push: BTreeMap::from([(
            RepositoryGlob::parse("acme/x").unwrap(),
            vec![RefGlob::parse("refs/heads/a").unwrap(), RefGlob::parse("refs/heads/b").unwrap()],
        )]),
    };
    let policy = policy(vec![rule("a", "a.test", Some(RequestRule { git: Some(git), ..RequestRule::default() }))]);
    let refs = ["refs/heads/a", "refs/heads/b"].map(|name| PushedRef { name, deletes: false });
    let asked = HttpRequest { method: "POST", target: "/acme/x/git-receive-pack" };
    assert!(allows(&policy.decide_push("a.test", 443, &asked, &refs)));
}
