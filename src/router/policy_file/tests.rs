use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::*;
use crate::policy::{
    AwsVariables, Credential, CredentialKind, GitRule, GraphqlRule, PathGlob, RefGlob, RepositoryGlob, RequestRule,
    Rule, RuleSet, STEERING, Upgrade, parse_pattern,
};

fn place() -> impl Strategy<Value = Place> {
    ("[a-z./ -]{1,12}", any::<u32>()).prop_map(|(file, line)| Place { file, line, column: 0 })
}

fn glob() -> impl Strategy<Value = PathGlob> {
    "/[a-z*/%2-5Ff.~ä;]{0,12}".prop_filter_map("no path", |text| PathGlob::parse(&text).ok())
}

fn words() -> impl Strategy<Value = std::collections::BTreeSet<String>> {
    proptest::collection::btree_set("[A-Z*a-z-]{1,6}", 0..3)
}

fn git() -> impl Strategy<Value = GitRule> {
    let repository =
        || "[a-z*/%2-5Ff~ä.]{1,10}(.git)?".prop_filter_map("no path", |text| RepositoryGlob::parse(&text).ok());
    let name = "refs/[a-zäß*/.-]{1,10}".prop_filter_map("no ref", |text| RefGlob::parse(&text).ok());
    let push = proptest::collection::btree_map(repository(), proptest::collection::vec(name, 0..3), 0..3);
    (proptest::collection::vec(repository(), 0..3), push).prop_map(|(fetch, push)| GitRule { fetch, push })
}

fn request() -> impl Strategy<Value = RequestRule> {
    let graphql = (words(), words(), words());
    let graphql =
        graphql.prop_map(|(queries, mutations, subscriptions)| GraphqlRule { queries, mutations, subscriptions });
    let paths = proptest::option::of(proptest::collection::vec(glob(), 0..3));
    let pass_headers = proptest::collection::btree_set(select(&STEERING[..]).prop_map(str::to_owned), 0..3);
    let git = proptest::option::of(git());
    (proptest::option::of(words()), paths, proptest::option::of(graphql), git, any::<bool>(), pass_headers).prop_map(
        |(methods, paths, graphql, git, upgrade, pass_headers)| RequestRule {
            methods,
            paths,
            graphql,
            git,
            upgrade: upgrade.then_some(Upgrade::Websocket).into_iter().collect(),
            pass_headers,
        },
    )
}

fn pattern() -> impl Strategy<Value = crate::policy::HostPattern> {
    let written = prop_oneof![
        "([.]|[*][.])?[a-z0-9-]{1,8}([.][a-z0-9-]{1,8}){0,3}[.]?",
        select(vec!["*", "203.0.113.7", "2001:db8::1", "bücher.example", "*.test", ".XN--p1ai", "r3---sn.example.com"])
            .prop_map(str::to_owned),
    ];
    written.prop_filter_map("no pattern", |text| parse_pattern(&text).ok().map(|(pattern, _)| pattern))
}

fn rule() -> impl Strategy<Value = Rule> {
    let ports = proptest::collection::btree_set(any::<u16>(), 0..3);
    let id = "[ -~]{1,20}".prop_map(|text| RuleId::new(&text));
    (id, pattern(), ports, any::<bool>(), proptest::option::of(request()), place())
        .prop_map(|(id, pattern, ports, private, request, from)| Rule { id, pattern, ports, private, request, from })
}

fn credential() -> impl Strategy<Value = Credential> {
    let kind = prop_oneof![
        words().prop_map(|headers| CredentialKind::Masked { headers }),
        (any::<String>(), any::<String>(), any::<Option<String>>()).prop_map(|(a, b, session_token)| {
            let variables = AwsVariables { access_key_id: a, secret_access_key: b, session_token };
            CredentialKind::AwsSigv4 { variables }
        }),
        (any::<String>(), any::<u64>(), proptest::option::of(words())).prop_map(
            |(app_id, installation_id, repositories)| {
                let base_url = "https://api.github.com".to_owned();
                let permissions = Some([("contents".to_owned(), "read".to_owned())].into());
                CredentialKind::GithubApp { base_url, app_id, installation_id, repositories, permissions }
            }
        ),
    ];
    let scopes = proptest::collection::vec(pattern(), 0..3);
    let paths = proptest::option::of(proptest::collection::vec(glob(), 0..3));
    (any::<String>(), kind, scopes, proptest::option::of(words()), paths, any::<bool>(), place()).prop_map(
        |(name, kind, scopes, methods, paths, allow_foreign, from)| Credential {
            name,
            kind,
            scopes,
            methods,
            paths,
            allow_foreign,
            from,
        },
    )
}

fn policy() -> impl Strategy<Value = Policy> {
    let rules = || proptest::collection::vec(rule(), 0..4).prop_map(RuleSet::new);
    let credentials = proptest::collection::vec(credential(), 0..3);
    (rules(), rules(), proptest::option::of(rules()), credentials).prop_map(|(allow, deny, ceiling, credentials)| {
        Policy { allow, deny, ceiling, reachable: vec!["10.0.0.0/8".parse().unwrap()], credentials }
    })
}

fn file(policy: Policy) -> PolicyFile {
    PolicyFile {
        format: FORMAT,
        plan: "0123456789ab".to_owned(),
        session: "s".to_owned(),
        listen: Listen {
            router: [10, 89, 0, 2].into(),
            agent: [10, 89, 0, 3].into(),
            internal: "10.89.0.0/29".parse().unwrap(),
            web_loopback: [127, 0, 1, 1].into(),
        },
        own_networks: vec!["10.89.0.0/29".parse().unwrap()],
        upstream_dns: vec!["169.254.1.1".parse().unwrap()],
        log_query: false,
        limits: RouterLimits::default(),
        ca_scopes: Vec::new(),
        tcp: Vec::new(),
        policy,
    }
}

proptest! {
    #[test]
    fn what_is_written_is_what_is_enforced(policy in policy(), host in "([a-c]\\.){0,3}test", port in select(vec![80, 443, 22])) {
        let file = file(policy);
        let written = serde_json::to_vec(&file).unwrap();
        let read = PolicyFile::read(&written).unwrap();
        prop_assert_eq!(read.policy.decide(&host, port), file.policy.decide(&host, port));
        prop_assert_eq!(read, file);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
        let _ = PolicyFile::read(&bytes);
    }
}

fn changed(change: impl FnOnce(&mut Value)) -> Result<PolicyFile, String> {
    let rule = json!({"id": "repo.allow[0]", "pattern": "a.test", "ports": [], "private": false, "from": {"file": "x", "line": 1}});
    let mut value = serde_json::to_value(file(Policy::default())).unwrap();
    value["policy"]["allow"] = json!([rule]);
    change(&mut value);
    PolicyFile::read(value.to_string().as_bytes())
}

#[test]
fn another_format_is_refused_before_anything_else_of_it_is_read() {
    assert!(changed(|_| ()).is_ok());
    let later = PolicyFile::read(br#"{"format": 3, "new": true}"#).unwrap_err();
    assert!(later.contains("format 3"), "{later}");
    // In format 1, `ports: [443]` also opened port 80.
    assert!(changed(|value| value["format"] = json!(1)).unwrap_err().contains("format 1"));
    assert!(PolicyFile::read(b"{}").unwrap_err().contains("format"));
}

#[test]
fn what_is_not_in_normal_form_or_not_known_is_refused() {
    for pattern in [
        "A.test",
        "a.test.",
        "a",
        "",
        ".",
        "*.",
        "**.a.test",
        "a..test",
        "-a.test",
        "01.2.3.4",
        "a_b.test",
        "a.test:80",
    ] {
        assert!(changed(|value| value["policy"]["allow"][0]["pattern"] = json!(pattern)).is_err(), "{pattern}");
    }
    for path in ["/a/../b", "/%61", "a", "/a?b", "/***", "/%2f"] {
        let request = json!({"methods": null, "paths": [path], "graphql": null});
        assert!(changed(|value| value["policy"]["allow"][0]["request"] = request).is_err(), "{path}");
    }
    assert!(changed(|value| value["policy"]["allow"][0]["id"] = json!("a b")).is_err());
    assert!(changed(|value| value["policy"]["allow"][0]["methods"] = json!(["GET"])).is_err(), "an unknown field");
    assert!(changed(|value| value["more"] = json!(1)).is_err());
}

/// Whatever takes something away is written even where it is empty.
#[test]
fn a_lost_key_never_permits_anything() {
    for key in ["allow", "deny", "ceiling", "reachable"] {
        let said = changed(|value| drop(value["policy"].as_object_mut().unwrap().remove(key))).unwrap_err();
        assert!(said.contains(&format!("missing field `{key}`")), "{said}");
    }
    assert!(changed(|_| ()).is_ok());
}
