//! Public bug reports of tools like this one, replayed against the config room: what went wrong there, and beside it
//! what must still work.

use sandboxc::config::survives_podman;
use sandboxc::policy::{HttpRequest, Reason, Verdict};

use super::*;

fn error_codes(world: &World) -> Vec<Code> {
    let loaded = world.load();
    let errors = loaded.diagnostics.sorted();
    errors.iter().filter(|d| d.severity == sandboxc::diagnostic::Severity::Error).map(|d| d.code).collect()
}

fn refused(text: &str) -> Vec<Code> {
    let world = repo(&format!("version: 1\n{text}\n"));
    assert!(world.load().resolved.is_none(), "{text} is accepted");
    error_codes(&world)
}

fn accepted(text: &str) -> Resolved {
    repo(&format!("version: 1\n{text}\n")).resolved()
}

/// A mount of a directory that exists, by its `source`.
fn mount(source: &str) -> World {
    let world = repo(&format!("version: 1\nmounts: [{{source: {source}, target: /data}}]\n"));
    world.write("w/data/x", "").write("w/.sandboxc/data/x", "");
    world
}

//
#[test]
fn a_misspelt_key_is_an_error_everywhere() {
    for (repo_text, server_text, place, near) in [
        ("allow_hosst: [a.example.com]", "", "sandbox.yaml:2:1", "`allow`"),
        ("network: {allow_hosst: [a.example.com]}", "", "sandbox.yaml:2:11", "`allow`"),
        ("network: {alow: [a.example.com]}", "", "sandbox.yaml:2:11", "`allow`"),
        ("", "network: {ceilling: []}", "server.yaml:2:11", "`ceiling`"),
        ("", "repos: {x: {network: {sandbox_enable: true}}}", "server.yaml:2:23", "`sandbox_enabled`"),
    ] {
        let world = World::new();
        world.repo(&format!("version: 1\n{repo_text}\n")).server(&format!("version: 1\n{server_text}\n"));
        let text = world.text();
        assert!(text.contains("error[unknown-key]") && text.contains(place), "{text}");
        assert!(text.contains(&format!("did you mean {near}?")), "{text}");
        assert!(world.load().resolved.is_none());
    }
}

//
#[test]
fn the_key_spelled_correctly_works() {
    let resolved = accepted("network: {allow: [a.example.com]}");
    assert_eq!(resolved.policy.decide("a.example.com", 443).verdict, Verdict::Allow);
}

//
#[test]
fn words_are_no_booleans_and_no_numbers() {
    for text in [
        "workspace: {read_only: \"false\"}",
        "workspace: {read_only: no}",
        "workspace: {read_only: on}",
        "workspace: {read_only: 1}",
        "resource_limits: {timeout: \"10\"}",
        "resource_limits: {cpus: \"1.5\"}",
        "resource_limits: {memory: 4}",
        "env: {CI: 1}",
        "env: {CI: true}",
        "env: {CI: ~}",
        "version: 1.0",
    ] {
        let text = text.strip_prefix("version").map_or(format!("version: 1\n{text}"), |v| format!("version{v}"));
        let world = repo(&text);
        assert_eq!(error_codes(&world), [Code::WrongType], "{text}");
    }
    let world = World::new();
    world.server("version: 1\ndefaults: {network: {sandbox_enabled: no}}\n");
    assert!(world.text().contains("write `false`, without quotes"), "{}", world.text());
}

//
#[test]
fn words_stay_strings_where_strings_are_wanted() {
    let resolved = accepted("env: {A: no, B: on, C: 1_000, D: 2024-01-01, E: 1:30, F: \"true\", G: nUll, H: .}");
    let values: Vec<&str> = resolved.env.values().map(|v| v.value.as_str()).collect();
    assert_eq!(values, ["no", "on", "1_000", "2024-01-01", "1:30", "true", "nUll", "."]);
    assert!(accepted("workspace: {read_only: true}").workspace.read_only);
}

//
#[test]
fn every_spelling_of_nothing_allows_nothing() {
    for text in [
        "",
        "network:",
        "network: {}",
        "network: null",
        "network: {allow: []}",
        "network: {allow: }",
        "network: {allow: null}",
        "network: {allow: {}}",
        "network: {allow: ~}",
    ] {
        let resolved = accepted(text);
        assert!(resolved.policy.allow.rules().is_empty(), "{text}");
        assert_eq!(resolved.policy.decide("example.com", 443).reason, Reason::NotAllowed, "{text}");
    }
}

//
#[test]
fn an_empty_ceiling_permits_nothing_and_a_missing_one_everything() {
    for (ceiling, reason) in [
        ("null", Reason::Allowed),
        ("", Reason::Allowed),
        ("[]", Reason::AboveCeiling),
        ("{}", Reason::AboveCeiling),
        ("[a.example.com]", Reason::Allowed),
    ] {
        let world = repo("version: 1\nnetwork: {allow: [a.example.com]}\n");
        world.server(&format!("version: 1\nnetwork: {{ceiling: {ceiling}}}\n"));
        assert_eq!(world.resolved().policy.decide("a.example.com", 443).reason, reason, "{ceiling}");
    }
}

//
#[test]
fn rules_that_the_router_cannot_enforce_are_refused() {
    for (text, code) in [
        ("network: {allow: [{host: a.example.com, ports: [5432], paths: [/x/**]}]}", Code::NotEnforceable),
        ("network: {allow: [{host: \"a.example.com:22\", methods: [GET]}]}", Code::NotEnforceable),
        ("network: {allow: [{host: 9.9.9.9, ports: [443], graphql: {queries: [x]}}]}", Code::NotEnforceable),
        ("network: {allow: [{host: .com, broad: true, methods: [GET]}]}", Code::NotEnforceable),
        ("network: {allow: [{host: a.example.com, methods: []}]}", Code::BadValue),
        ("network: {allow: [{host: a.example.com, methods: [GET], graphql: {queries: [x]}}]}", Code::BadValue),
        ("network: {allow: [{host: a.example.com, paths: [\"/x?y=*\"]}]}", Code::BadPath),
        ("network: {allow: [{host: a.example.com, protocol: udp}]}", Code::UnknownKey),
        ("network: {allow: [{host: a.example.com, ports: [53], query: [x]}]}", Code::UnknownKey),
        ("network: {allow: [a.example.com:53/udp]}", Code::BadHost),
        ("network: {allow: [\"udp://a.example.com:53\"]}", Code::BadHost),
    ] {
        assert_eq!(refused(text), [code], "{text}");
    }
    let world = World::new();
    world.server("version: 1\nnetwork: {deny: [{host: a.example.com, methods: [GET]}]}\n");
    assert_eq!(error_codes(&world), [Code::NotEnforceable]);
}

//
#[test]
fn rules_on_web_ports_decide() {
    let entry = "{host: a.example.com, ports: [80, 443], methods: [GET], paths: [\"/%78/**\"]}";
    let policy = accepted(&format!("network: {{allow: [{entry}]}}")).policy;
    let ask = |method, target| policy.decide_request("a.example.com", 443, &HttpRequest { method, target }).reason;
    assert_eq!(ask("HEAD", "/x/y?z"), Reason::Allowed);
    assert_eq!(ask("POST", "/x/y"), Reason::MethodNotAllowed);
    assert_eq!(ask("GET", "/y"), Reason::PathNotAllowed);
    let nothing_said = accepted("network: {allow: [{host: a.example.com, paths: null, methods: , graphql: ~}]}").policy;
    assert_eq!(nothing_said.decide("a.example.com", 443).inspection, None);
}

//
#[test]
fn a_rule_is_about_a_host_and_a_path_and_never_about_a_url() {
    for host in ["https://a.example.com:443/x", "http://a.example.com:80", "a.example.com/x"] {
        assert_eq!(refused(&format!("network: {{allow: [{{host: \"{host}\", methods: [GET]}}]}}")), [Code::BadHost]);
    }
    let both = &[443, 80][..];
    for (host, ports) in
        [("A.Example.COM", both), ("a.example.com.", both), ("a.example.com:443", &[443]), ("a.example.com:80", &[80])]
    {
        let policy = accepted(&format!("network: {{allow: [{{host: \"{host}\", paths: [/x]}}]}}")).policy;
        for (port, named) in [(443, "a.example.com"), (80, "A.EXAMPLE.com.")] {
            if !ports.contains(&port) {
                assert_eq!(policy.decide(named, port).reason, Reason::PortNotAllowed, "{host} {port}");
                continue;
            }
            let ask = |target| policy.decide_request(named, port, &HttpRequest { method: "GET", target }).reason;
            assert_eq!((ask("/x"), ask("/y")), (Reason::Allowed, Reason::PathNotAllowed), "{host} {port}");
        }
    }
}

//
#[test]
fn a_request_needs_a_rule_of_the_repo_and_of_the_ceiling() {
    let world = repo("version: 1\nnetwork: {allow: [{host: a.example.com, methods: [GET]}, b.example.com]}\n");
    world.server("version: 1\nnetwork: {ceiling: [\"*\", {host: b.example.com, paths: [/v1/**]}]}\n");
    let policy = world.resolved().policy;
    let ask = |host, method, target| policy.decide_request(host, 443, &HttpRequest { method, target }).reason;
    assert_eq!(ask("a.example.com", "GET", "/x"), Reason::Allowed);
    assert_eq!(ask("a.example.com", "POST", "/x"), Reason::MethodNotAllowed);
    assert_eq!(ask("b.example.com", "POST", "/v1/x"), Reason::Allowed);
    assert_eq!(ask("b.example.com", "GET", "/v2"), Reason::AboveCeiling);
}

//
#[test]
fn each_suffix_pattern_includes_the_apex_or_not_as_documented() {
    let verdicts = |entry: &str| {
        let policy = accepted(&format!("network: {{allow: [\"{entry}\"]}}")).policy;
        ["example.com", "a.example.com", "a.b.example.com", "notexample.com"]
            .map(|host| policy.decide(host, 443).verdict == Verdict::Allow)
    };
    assert_eq!(verdicts("example.com"), [true, false, false, false]);
    assert_eq!(verdicts(".example.com"), [true, true, true, false]);
    assert_eq!(verdicts("*.example.com"), [false, true, true, false]);
    assert_eq!(refused("network: {allow: [\"**.example.com\"]}"), [Code::BadHost]);
    let lint = |allow: &str| repo(&format!("version: 1\nnetwork: {{allow: [{allow}]}}\n")).codes();
    assert_eq!(lint("\"*.example.com\""), [Code::ApexNotIncluded]);
    assert_eq!(lint("\"*.example.com\", example.com"), []);
    assert_eq!(lint("\"*.a.example.com\", .example.com"), []);
}

//
#[test]
fn globs_inside_a_label_are_refused_not_half_read() {
    for pattern in ["*-aiplatform.googleapis.com", "us-*.googleapis.com", "a.*.example.com", "**"] {
        assert_eq!(refused(&format!("network: {{allow: [\"{pattern}\"]}}")), [Code::BadHost], "{pattern}");
    }
    let policy = accepted("network: {allow: [us-aiplatform.googleapis.com]}").policy;
    assert_eq!(policy.decide("us-aiplatform.googleapis.com", 443).verdict, Verdict::Allow);
}

//
#[test]
fn over_broad_patterns_need_broad_true() {
    for pattern in ["*", "*.com", ".com", "*.co.uk", ".co.uk", "*.github.io", ".github.io", ".test"] {
        assert_eq!(refused(&format!("network: {{allow: [\"{pattern}\"]}}")), [Code::BroadHost], "{pattern}");
        let world = repo(&format!("version: 1\nnetwork: {{allow: [{{host: \"{pattern}\", broad: true}}]}}\n"));
        assert_eq!(world.resolved().policy.allow.rules().len(), 1, "{pattern}");
    }
    assert_eq!(refused("network: {allow: [\"*.*\"]}"), [Code::BadHost]);
    let world = World::new();
    world.write("c/sandboxc/allowed-hosts", ".com\n");
    assert_eq!(error_codes(&world), [Code::BroadHost]);
}

//
#[test]
fn narrow_suffixes_and_wide_denials_need_no_broad() {
    for pattern in [".githubusercontent.com", "*.docker.io", ".example.co.uk", ".me.github.io"] {
        accepted(&format!("network: {{allow: [\"{pattern}\"]}}"));
    }
    let world = repo("version: 1\nnetwork: {allow: [a.example.com, b.example.org]}\n");
    world.server("version: 1\nnetwork: {deny: [\".org\"], ceiling: [\"*\"]}\n");
    let policy = world.resolved().policy;
    assert_eq!(policy.decide("a.example.com", 443).reason, Reason::Allowed);
    assert_eq!(policy.decide("b.example.org", 443).reason, Reason::Denied);
}

//
#[test]
fn an_address_is_supported_to_the_end_or_refused() {
    for (entry, code) in [
        ("10.0.0.5", Code::IpNeedsPort),
        ("10.0.0.5:1234", Code::BadHost),
        ("\"[2001:db8::1]:443\"", Code::BadHost),
        ("\"2001:db8::1\"", Code::BadHost),
        ("10.0.0.0/8", Code::Cidr),
        ("\"2001:db8::/32\"", Code::Cidr),
        ("{host: 10.0.0.0/8, ports: [443]}", Code::Cidr),
        ("{host: 127.0.0.1, ports: [80], private: true}", Code::BadHost),
        ("{host: 169.254.1.2, ports: [80], private: true}", Code::BadHost),
        ("{host: 10.213.0.1, ports: [53], private: true}", Code::BadHost),
        ("10.1:80", Code::BadHost),
        ("0x7f.1:80", Code::BadHost),
    ] {
        assert_eq!(refused(&format!("network: {{allow: [{entry}]}}")), [code], "{entry}");
    }
}

//
#[test]
fn a_private_address_with_a_port_is_allowed() {
    // A repo's word alone does not do: see `private-from-repo`.
    let world = repo("version: 1\nnetwork: {allow: [{host: 10.0.0.5, ports: [1234], private: true}, 9.9.9.9:53]}\n");
    world.server("version: 1\ndefaults: {allow_private: [10.0.0.5]}\n");
    let policy = world.resolved().policy;
    assert_eq!(policy.decide("10.0.0.5", 1234).verdict, Verdict::Allow);
    assert_eq!(policy.decide("10.0.0.5", 443).verdict, Verdict::Deny);
    assert_eq!(policy.decide("9.9.9.9", 53).verdict, Verdict::Allow);
    let world = repo("version: 1\nnetwork: {allow: [10.20.0.5:1234]}\n");
    world.server("version: 1\nnetwork: {reachable: [10.20.0.0/16]}\n");
    assert_eq!(world.resolved().policy.decide("10.20.0.5", 1234).verdict, Verdict::Allow);
}

//
#[test]
fn the_server_caps_whatever_the_repo_asks() {
    let world = repo("version: 1\nnetwork: {allow: [a.example.com]}\n");
    world.server("version: 1\nnetwork: {deny: [\"*\"]}\n").write("c/sandboxc/allowed-hosts", "a.example.com\n");
    let decision = world.resolved().policy.decide("a.example.com", 443);
    assert_eq!(decision.reason, Reason::Denied);
    assert_eq!(decision.from.unwrap().short(), "server.yaml:2");
}

//
#[test]
fn values_are_never_expanded() {
    let mut world = repo(concat!(
        "version: 1\n",
        "env: {X: \"${OPENAI_API_KEY}\", A: \"$$HOME\", P: 'a$PATHb', Q: '%h %%', R: 'a\\b\\\\', S: $(id), T: '`id`'}\n",
        "command: [echo, $HOME, '%n', 'a\\.b', '']\n"
    ));
    world.inputs.env = BTreeMap::from([("OPENAI_API_KEY".into(), "secret".into()), ("HOME".into(), "/h".into())]);
    let resolved = world.resolved();
    let values: Vec<&str> = resolved.env.values().map(|v| v.value.as_str()).collect();
    assert_eq!(values, ["$$HOME", "a$PATHb", "%h %%", "a\\b\\\\", "$(id)", "`id`", "${OPENAI_API_KEY}"]);
    let words: Vec<&str> = resolved.command.iter().map(|v| v.value.as_str()).collect();
    assert_eq!(words, ["echo", "$HOME", "%n", "a\\.b", ""]);
}

//
#[test]
fn an_env_tag_reads_what_the_server_passes() {
    let mut world = repo("version: 1\nenv: {LANG: !env LANG}\n");
    world.inputs.env = BTreeMap::from([("LANG".into(), "de_CH.UTF-8 $HOME".into())]);
    assert_eq!(error_codes(&world), [Code::EnvMissing]);
    world.server("version: 1\ndefaults: {pass_env: [LANG]}\n");
    assert_eq!(world.resolved().env["LANG"].value, "de_CH.UTF-8 $HOME");
}

//
#[test]
fn strings_survive_podman_or_are_refused() {
    let lossy = ["\\n\\nx", "\\tx\\ny", "\\Lx\\n", "\\Nx\\n", "\\Px\\n", "  x\\ny"];
    for text in lossy {
        assert_eq!(refused(&format!("env: {{A: \"{text}\"}}")), [Code::PodmanLossy], "{text}");
        assert_eq!(refused(&format!("command: [sh, \"{text}\"]")), [Code::PodmanLossy], "{text}");
    }
    for text in ["a\\n\\tb", "\\t", "\\\"", "{\\\"a\\\": \\\"b'c\\\"}", " x", "x\\n  y", "\\u00e9"] {
        let resolved = accepted(&format!("env: {{A: \"{text}\"}}"));
        assert!(survives_podman(&resolved.env["A"].value), "{text}");
    }
}

//
#[test]
fn nothing_is_expanded_in_paths() {
    for source in ["~/x", "~user/x", "$HOME/x", "\"~\"", "\"${HOME}/x\"", "../$X"] {
        assert_eq!(error_codes(&mount(source)), [Code::BadPath], "{source}");
        assert!(mount(source).text().contains("are not expanded"), "{source}");
    }
    for target in ["~/x", "$HOME/x"] {
        let text = format!("mounts: [{{source: ., target: {target}}}]\nworkspace: {{target: {target}}}");
        assert_eq!(refused(&text), [Code::BadPath, Code::BadPath], "{target}");
    }
}

//
#[test]
fn an_absolute_path_is_accepted() {
    let world = World::new();
    let source = world.root().join("w/data");
    world.write("w/data/x", "");
    world.repo(&format!("version: 1\nmounts: [{{source: {}, target: /data/}}]\n", source.display()));
    let mounts = world.resolved().mounts;
    assert_eq!(mounts[0].source, source);
    assert_eq!(mounts[0].target, Path::new("/data"));
}

//
#[test]
fn relative_sources_start_at_the_directory_of_their_file() {
    for (source, place) in [("./data", "w/.sandboxc/data"), ("data", "w/.sandboxc/data"), ("../data", "w/data")] {
        let world = mount(source);
        assert_eq!(world.resolved().mounts[0].source, world.root().join(place), "{source}");
    }
}

//
#[test]
fn mounts_are_structured_and_never_split() {
    for text in ["/x", "/x:/y", "/x:/y:ro", "/x:/y:ro:z", "C:\\\\x:/y"] {
        assert_eq!(refused(&format!("mounts: [\"{text}\"]")), [Code::WrongType], "{text}");
    }
    // kube play would split these, so they are refused by name.
    for text in ["{source: \"../a:b\", target: /x}", "{source: ../a, target: \"/x:y\"}"] {
        let world = repo(&format!("version: 1\nmounts: [{text}]\n"));
        world.write("w/a:b/x", "").write("w/a/x", "");
        assert_eq!(world.codes(), [Code::BadPath], "{text}");
        assert!(world.text().contains("has a colon"), "{}", world.text());
    }
    let world = repo("version: 1\nmounts: [{source: ../a b, target: /x y}]\n");
    world.write("w/a b/x", "");
    let mounts = world.resolved().mounts;
    assert_eq!((mounts[0].source.clone(), mounts[0].target.as_path()), (world.root().join("w/a b"), Path::new("/x y")));
    assert!(mounts[0].read_only, "read-only unless it says otherwise");
}

//
#[test]
fn ports_out_of_range_are_refused() {
    for entry in ["a.example.com:0", "a.example.com:65536", "{host: a.example.com, ports: [0]}"] {
        assert_eq!(refused(&format!("network: {{allow: [{entry}]}}")), [Code::BadPort], "{entry}");
    }
    let policy = accepted("network: {allow: [a.example.com:65535, {host: b.example.com, ports: [1]}]}").policy;
    assert_eq!(policy.decide("a.example.com", 65535).verdict, Verdict::Allow);
    assert_eq!(policy.decide("b.example.com", 1).verdict, Verdict::Allow);
}
