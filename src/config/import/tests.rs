use super::*;

fn imported(format: ImportFormat, files: &[(&str, &str)]) -> Imported {
    let files: Vec<ImportFile> =
        files.iter().map(|(name, text)| ImportFile { name: (*name).to_owned(), text: (*text).to_owned() }).collect();
    import(format, &files).unwrap_or_else(|(findings, sources)| panic!("{}", findings.text(&sources, false)))
}

/// The lines of `allow`, without comments behind them.
fn allow(imported: &Imported) -> Vec<String> {
    let (_, list) = imported.repo.split_once("  allow:\n").unwrap_or(("", ""));
    list.lines()
        .filter_map(|line| line.trim().strip_prefix("- ")?.split_once("  # "))
        .map(|(entry, _)| entry.to_owned())
        .collect()
}

fn notes(imported: &Imported) -> Vec<String> {
    let told = |row: &ImportRow| Some(format!("{} {}: {}", row.place, row.note?.word(), row.theirs));
    imported.rows.iter().filter_map(told).collect()
}

#[test]
fn airut_rules_are_repeated_where_a_narrower_pattern_would_hide_them() {
    let text = r#"
domains: [api.widgets.example, "*.cdn.widgets.example", "a*.widgets.example"]
url_prefixes:
  - {host: forge.widgets.example, path: "/acme/*", methods: [get]}
  - {host: forge.widgets.example, path: /graphql, methods: [POST], graphql: {queries: [viewer]}}
  - {host: "*.svc.widgets.example", methods: [GET]}
  - {host: hook.svc.widgets.example, path: /in, methods: [POST]}
  - {host: x.cdn.widgets.example, methods: [GET]}
  - {host: forge.widgets.example, path: "/b?c"}
  - {host: forge.widgets.example, path: /graphql, methods: [POST]}
"#;
    let done = imported(ImportFormat::Airut, &[("list.yaml", text)]);
    assert_eq!(
        allow(&done),
        [
            "api.widgets.example",
            "\"*.cdn.widgets.example\"",
            "{host: forge.widgets.example, methods: [GET], paths: [\"/acme/**\"]}",
            "{host: forge.widgets.example, methods: [POST], paths: [\"/graphql\"], graphql: {queries: [\"viewer\"]}}",
            "{host: \"*.svc.widgets.example\", methods: [GET]}",
            "{host: hook.svc.widgets.example, methods: [POST], paths: [\"/in\"]}",
            "{host: hook.svc.widgets.example, methods: [GET]}",
        ]
    );
    let notes = notes(&done);
    for told in [
        "list.yaml:2 cannot: a*.widgets.example",
        "list.yaml:9 cannot: forge.widgets.example/b?c",
        "list.yaml:10 cannot: forge.widgets.example/graphql",
        "list.yaml:2 narrower: api.widgets.example",
        "list.yaml:4 wider: forge.widgets.example/acme/*",
    ] {
        assert!(notes.iter().any(|note| note == told), "{told}: {notes:#?}");
    }
    assert!(done.rows.iter().any(|row| row.why.contains("permits all of it")), "{:#?}", done.rows);
}

#[test]
fn no_value_of_a_secret_is_copied() {
    let text = "env: {A: !env HOST_A, CI: true, N: 5}\npass_env: [P]\nmasked_secrets:\n  TOKEN: {value: hunter2hunter2, scopes: [x.example], headers: [authorization]}\n";
    let done = imported(ImportFormat::Airut, &[("sandbox.yaml", text)]);
    let everything = format!("{done:?}");
    assert!(!everything.contains("hunter2"), "{everything}");
    assert!(done.repo.contains("  CI: \"True\"") && done.repo.contains("  N: \"5\""), "{}", done.repo);
    assert!(
        done.server.contains("pass_env:\n  - HOST_A") && done.server.contains("TOKEN: {value: !env TOKEN"),
        "{}",
        done.server
    );
    let settings = r#"{"env": {"API_KEY": "hunter2hunter2", "EDITOR": "vi"}}"#;
    let done = imported(ImportFormat::Srt, &[("settings.json", settings)]);
    assert!(!format!("{done:?}").contains("hunter2") && done.repo.contains("EDITOR: \"vi\""));
}

#[test]
fn an_agent_sandbox_list_is_ours() {
    let done = imported(
        ImportFormat::AgentSandbox,
        &[(
            "allowed-hosts",
            "# a list\napi.widgets.example\n.parts.example # x\ngit.widgets.example:2222\n10.0.0.1:80\nx:y\n",
        )],
    );
    assert_eq!(allow(&done), ["api.widgets.example", ".parts.example", "git.widgets.example:2222"]);
    assert!(done.repo.contains("# - 10.0.0.1"), "{}", done.repo);
}

#[test]
fn srt_ports_and_denials() {
    let text = r#"{
  // shared
  "sandbox": {"network": {"allowedDomains": ["api.widgets.example:443", "*.parts.example", "db.widgets.example:5432",
      "localhost", "[::1]:80", "*.parts.example:22"],
    "deniedDomains": ["ads.parts.example", "*:22"], "allowAllDomains": true, "httpProxyPort": 1, "new": 1,},
    "excludedCommands": ["docker"]},
  "permissions": {"allow": ["WebFetch(domain:docs.widgets.example)", "WebFetch", "Bash(ls)"]}
}"#;
    let done = imported(ImportFormat::Srt, &[("settings.json", text)]);
    assert_eq!(
        allow(&done),
        [
            "docs.widgets.example",
            "api.widgets.example:443",
            "\"*.parts.example\"",
            "{host: db.widgets.example, ports: [5432], exact: true}",
        ]
    );
    assert!(done.server.starts_with("network:\n  deny:\n    - \"ads.parts.example\""), "{}", done.server);
    assert!(done.server.contains("- {host: \"*\", ports: [22]}"), "{}", done.server);
    let notes = notes(&done);
    for told in [
        "settings.json:4 cannot: localhost",
        "settings.json:5 wider: ads.parts.example",
        "settings.json:5 cannot: allowAllDomains",
        "settings.json:5 cannot: network.new",
        "settings.json:7 cannot: WebFetch",
    ] {
        assert!(notes.iter().any(|note| note == told), "{told}: {notes:#?}");
    }
    assert!(!done.repo.contains("\"*\""));
}

#[test]
fn a_firewall_script_is_read_and_not_run() {
    let text = r#"#!/bin/bash
curl -s "$META_URL/meta" | jq -r '(.web + .api + .git)[]'
MORE=(
  one.widgets.example # why
  "two.widgets.example"
)
for name in \
    "api.widgets.example" \
    "img.parts.example" \
    "$EXTRA"; do
  ip=$(dig +short A "$name")
done
for name in "${MORE[@]}"; do ipset add ok "$(getent hosts "$name")"; done
for file in a.example b.example; do cat "$file"; done
iptables -A OUTPUT -p tcp --dport 22 -j ACCEPT
iptables -A OUTPUT -d 192.0.2.0/24 -j ACCEPT
iptables -A OUTPUT -o lo -j ACCEPT
"#;
    let done = imported(ImportFormat::Devcontainer, &[("init-firewall.sh", text)]);
    assert_eq!(
        allow(&done),
        ["api.widgets.example", "img.parts.example", "one.widgets.example", "two.widgets.example"]
    );
    assert!(done.repo.contains("init-firewall.sh:9") && done.repo.contains("init-firewall.sh:5"), "{}", done.repo);
    let notes = notes(&done);
    for told in [
        "init-firewall.sh:10 cannot: $EXTRA",
        "init-firewall.sh:15 ask: iptables",
        "init-firewall.sh:16 cannot: iptables",
        "init-firewall.sh:2 ask: curl",
    ] {
        assert!(notes.iter().any(|note| note.starts_with(told)), "{told}: {notes:#?}");
    }
    assert!(!done.repo.contains("a.example  #"), "{}", done.repo);
}

#[test]
fn a_devcontainer_has_settings_and_no_network() {
    let text = r#"{
	// editor's file
	"image": "mcr.widgets.example/base:1",
	"containerEnv": {"A": "b", "TOKEN": "${localEnv:TOKEN}", "P": "${localEnv:PATH}:/x"},
	"remoteUser": "root",
	"workspaceFolder": "/work",
	"runArgs": ["--memory", "4G", "--cap-add=NET_ADMIN", "--privileged"],
	"mounts": ["source=/var/run/docker.sock,target=/var/run/docker.sock,type=bind"],
	"features": {"ghcr.widgets.example/x/firewall:1": {"hosts": "a.widgets.example, b.widgets.example", "githubIps": true}},
	"postCreateCommand": "npm install",
}"#;
    let done = imported(ImportFormat::Devcontainer, &[("devcontainer.json", text)]);
    assert_eq!(allow(&done), ["a.widgets.example", "b.widgets.example"]);
    for line in [
        "image: \"mcr.widgets.example/base:1\"",
        "identity: root",
        "  A: \"b\"",
        "  memory: \"4g\"",
        "  target: \"/work\"",
    ] {
        assert!(done.repo.contains(line), "{line}: {}", done.repo);
    }
    let notes = notes(&done);
    for told in [
        "server: containerEnv.TOKEN",
        "cannot: containerEnv.P",
        "cannot: --cap-add NET_ADMIN",
        "cannot: --privileged",
        "cannot: mounts: /var/run/docker.sock",
        "ask: githubIps",
        "ask: postCreateCommand",
    ] {
        assert!(notes.iter().any(|note| note.contains(told)), "{told}: {notes:#?}");
    }
}

#[test]
fn awf_names_stand_for_everything_below_them() {
    let text = "network:\n  allowDomains: [docs.widgets.example, \"https://pay.widgets.example\", \"img-*.widgets.example\"]\n  blockDomains: [old.docs.widgets.example]\n  allowUrls: [\"https://forge.widgets.example/acme/*\"]\ncontainer: {memoryLimit: 4g, agentTimeout: 30}\n";
    let done = imported(ImportFormat::Awf, &[("awf.yaml", text)]);
    assert_eq!(
        allow(&done),
        [
            ".docs.widgets.example",
            "{host: .pay.widgets.example, ports: [443]}",
            "{host: forge.widgets.example, ports: [443], paths: [\"/acme/**\"]}",
        ]
    );
    assert!(done.repo.contains("timeout: 1800") && done.repo.contains("memory: \"4g\""), "{}", done.repo);
    assert!(done.server.contains("- \".old.docs.widgets.example\""), "{}", done.server);
    let done = imported(
        ImportFormat::Awf,
        &[("list.txt", "a.widgets.example, *.b.widgets.example # x\n\nc.widgets.example\n")],
    );
    assert_eq!(allow(&done), [".a.widgets.example", "\"*.b.widgets.example\"", ".c.widgets.example"]);
    let rules =
        "version: 1\nrules:\n  - {domain: a.widgets.example, subdomains: false}\n  - {domain: b.widgets.example}\n";
    assert_eq!(
        allow(&imported(ImportFormat::Awf, &[("rules.yaml", rules)])),
        ["a.widgets.example", ".b.widgets.example"]
    );
}

#[test]
fn what_would_not_be_valid_is_a_comment() {
    let text = r#"{"network": {"allowedDomains": ["*.com", "com", "x_y.example", "10.0.0.1:80", "good.example:443"]}}"#;
    let done = imported(ImportFormat::Srt, &[("s.json", text)]);
    assert_eq!(allow(&done), ["good.example:443"]);
    assert_eq!(done.repo.matches("    # - ").count(), 4, "{}", done.repo);
    let broken = import(ImportFormat::Srt, &[ImportFile { name: "s.json".to_owned(), text: "{\"a\": [".to_owned() }]);
    assert!(broken.is_err());
}
