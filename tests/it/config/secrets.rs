//! Secrets and credentials of the server file: when each is read, and what is never shown.

use sandboxc::config::{SecretValues, read_secrets};
use sandboxc::policy::{CredentialKind, HttpRequest, Tier};

use super::*;

const KEY: &str = "-----BEGIN RSA PRIVATE KEY-----\nMIIhunter2\n-----END RSA PRIVATE KEY-----\n";

const REPO: &str = "version: 1\nnetwork: {allow: [api.example.com, api.github.com, .amazonaws.com]}\n";

const SERVER: &str = "version: 1
vars: {token: !env TOKEN, level: warn}
defaults:
  secrets: {NPM_CONFIG_LOGLEVEL: !var level, NPM_TOKEN: !file npm}
  masked_secrets:
    A_TOKEN: {value: !var token, scopes: [api.example.com], headers: [X-Api-Key, Authorization]}
  signing_credentials:
    prod:
      type: aws-sigv4
      access_key_id: !env AWS_ID
      secret_access_key: {name: PROD_SECRET, value: !env AWS_SECRET}
      scopes: [.amazonaws.com]
      methods: [GET]
  github_app_credentials:
    GH_TOKEN: {app_id: 123, installation_id: 456, private_key: !file app.pem, repositories: [widgets], permissions: {contents: read}}
";

fn world() -> World {
    let mut world = World::new();
    world.repo(REPO).server(SERVER);
    let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    world.inputs.env = BTreeMap::from([set("TOKEN", "hunter2"), set("AWS_ID", "AKIA123"), set("AWS_SECRET", "s3cret")]);
    world.write("c/sandboxc/npm", "npm_x\n").write("c/sandboxc/app.pem", KEY);
    world
}

/// The values, or the findings as text.
fn read(world: &World) -> Result<SecretValues, String> {
    let loaded = world.load();
    let resolved = loaded.resolved.unwrap_or_else(|| panic!("{}", world.text()));
    let (values, findings) = read_secrets(&world.inputs, &resolved);
    values.ok_or_else(|| findings.text(&loaded.sources, false))
}

#[test]
fn values_are_read_where_they_are_said_to_be() {
    let values = read(&world()).unwrap();
    assert_eq!(values.plain["NPM_CONFIG_LOGLEVEL"].expose(), "warn");
    assert_eq!(values.plain["NPM_TOKEN"].expose(), "npm_x");
    assert_eq!(values.masked["A_TOKEN"].expose(), "hunter2");
    let keys = &values.aws["prod"];
    assert_eq!((keys.access_key_id.expose(), keys.secret_access_key.expose()), ("AKIA123", "s3cret"));
    assert_eq!(keys.session_token, None);
    assert_eq!(values.github["GH_TOKEN"].expose(), KEY.trim_end());
    assert_eq!(values.iter().count(), 6);
    assert!(!format!("{values:?}").contains("hunter2"));
}

#[test]
fn nothing_is_read_before_the_start_and_no_value_is_in_the_result() {
    let mut world = world();
    let there = world.resolved();
    world.inputs.env.clear();
    fs::remove_file(world.root().join("c/sandboxc/app.pem")).unwrap();
    fs::remove_file(world.root().join("c/sandboxc/npm")).unwrap();
    assert_eq!(world.codes(), [], "validate, explain and compile work without the values");
    let here = world.resolved();
    let json = serde_json::to_string(&there).unwrap();
    assert_eq!(serde_json::to_string(&here).unwrap(), json);
    assert!(!json.contains("hunter2") && !json.contains("warn"), "{json}");
    assert!(!format!("{there:?}").contains("hunter2"));
}

#[test]
fn credentials_reach_the_policy() {
    let policy = world().resolved().policy;
    let names: Vec<&str> = policy.credentials.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["A_TOKEN", "GH_TOKEN", "prod"]);
    let CredentialKind::AwsSigv4 { variables } = &policy.credentials[2].kind else { panic!() };
    assert_eq!(variables.access_key_id, "AWS_ACCESS_KEY_ID");
    assert_eq!((variables.secret_access_key.as_str(), &variables.session_token), ("PROD_SECRET", &None));
    assert_eq!(policy.credentials[1].scopes[0].to_string(), "api.github.com", "the host of the base URL");
    let decision = policy.decide("s3.amazonaws.com", 443);
    assert_eq!((decision.tier, decision.inspection.unwrap().credentials), (Tier::Inspected, vec!["prod".to_owned()]));
    assert_eq!(policy.decide("b.s3.amazonaws.com", 443).tier, Tier::Inspected);
    let post = HttpRequest { method: "POST", target: "/" };
    let inspection = policy.decide_request("s3.amazonaws.com", 443, &post).inspection.unwrap();
    assert!(inspection.credentials.is_empty());
}

//
#[test]
fn a_credential_names_the_headers_of_its_service() {
    let policy = world().resolved().policy;
    let CredentialKind::Masked { headers } = &policy.credentials[0].kind else { panic!() };
    assert_eq!(headers.iter().collect::<Vec<_>>(), ["authorization", "x-api-key"]);
}

//
#[test]
fn a_credential_needs_a_host_that_can_be_inspected() {
    let world = world();
    world.server("version: 1\ndefaults: {network: {sandbox_enabled: false}, masked_secrets: {A: {value: !env A, scopes: [api.example.com]}}}\n");
    assert!(world.codes().contains(&Code::NotEnforceable), "{}", world.text());
    world.server("version: 1\nnetwork: {deny: [\"api.example.com:443\"]}\ndefaults: {masked_secrets: {A: {value: !env A, scopes: [api.example.com]}}}\n");
    assert_eq!(world.codes(), [Code::NotEnforceable], "plain HTTP cannot carry a credential");
    world.server("version: 1\ndefaults: {masked_secrets: {A: {value: !env A, scopes: [api.example.com]}}}\n");
    assert_eq!(world.codes(), []);
    let policy = world.resolved().policy;
    assert_eq!(policy.decide("api.example.com", 443).tier, Tier::Inspected);
    assert_eq!(policy.decide("api.github.com", 443).tier, Tier::Passthrough);
}

//
#[test]
fn a_missing_value_stops_the_start_and_names_its_line() {
    for (change, key, words) in [
        ("unset", "secrets.NPM_TOKEN", "no such file"),
        ("env", "masked_secrets.A_TOKEN.value", "no variable `TOKEN`"),
        ("empty", "secrets.NPM_TOKEN", "is empty"),
        ("lines", "secrets.NPM_TOKEN", "line break"),
        ("nul", "masked_secrets.A_TOKEN.value", "control character"),
        ("blank", "masked_secrets.A_TOKEN.value", "is empty"),
        ("pem", "github_app_credentials.GH_TOKEN.private_key", "not a private key"),
        ("binary", "secrets.NPM_TOKEN", "not UTF-8"),
    ] {
        let mut world = world();
        let mut set = |value: &str| drop(world.inputs.env.insert("TOKEN".to_owned(), value.to_owned()));
        match change {
            "env" => drop(world.inputs.env.remove("TOKEN")),
            "nul" => set("hunter2\u{1}"),
            "blank" => set(" "),
            "empty" => drop(world.write("c/sandboxc/npm", "\n")),
            "lines" => drop(world.write("c/sandboxc/npm", "hunter2\n\n")),
            "binary" => drop(world.write("c/sandboxc/npm", b"hunter2\xff")),
            "pem" => drop(world.write("c/sandboxc/app.pem", "hunter2\n")),
            _ => fs::remove_file(world.root().join("c/sandboxc/npm")).unwrap(),
        }
        let text = read(&world).unwrap_err();
        assert!(text.contains(key) && text.contains(words) && text.contains('^'), "{change}: {text}");
        assert!(text.contains("server.yaml:") && !text.contains("hunter2"), "{change}: {text}");
    }
}

/// Responses are not cleared of short values, which they contain by chance, so the agent could see such a value.
#[test]
fn a_credential_below_six_characters_is_refused_and_a_plain_secret_below_four_is_warned_about() {
    let mut world = world();
    let set =
        |world: &mut World, name: &str, value: &str| drop(world.inputs.env.insert(name.to_owned(), value.to_owned()));
    for (name, key) in
        [("TOKEN", "masked_secrets.A_TOKEN.value"), ("AWS_SECRET", "signing_credentials.prod.secret_access_key.value")]
    {
        set(&mut world, name, "12345");
        let text = read(&world).unwrap_err();
        let words = [key, "fewer than 6 characters", "server.yaml:", "^"];
        assert!(text.contains("secret-short") && words.iter().all(|word| text.contains(word)), "{text}");
        assert!(!text.contains("12345"), "{text}");
        set(&mut world, name, "123456");
        assert!(read(&world).is_ok(), "six are enough");
    }
    let loaded = world.load();
    for (value, said) in [("abc", true), ("abcd", false)] {
        world.write("c/sandboxc/npm", value);
        let (values, findings) = read_secrets(&world.inputs, loaded.resolved.as_ref().unwrap());
        assert_eq!(values.unwrap().plain["NPM_TOKEN"].expose(), value, "it starts all the same");
        let text = findings.text(&loaded.sources, false);
        assert_eq!(text.contains("warning[secret-shown]: `secrets.NPM_TOKEN`") && text.contains('^'), said, "{text}");
        assert_eq!(text.is_empty(), !said, "{text}");
    }
}

//
#[test]
fn one_line_feed_at_the_end_of_a_secret_file_is_dropped() {
    let world = world();
    for (content, value) in [("x", "x"), ("x\n", "x"), ("x\r\n", "x"), (" x ", " x ")] {
        world.write("c/sandboxc/npm", content);
        assert_eq!(read(&world).unwrap().plain["NPM_TOKEN"].expose(), value);
    }
}

//
#[test]
fn a_secret_that_was_removed_is_gone() {
    let mut world = world();
    assert!(read(&world).unwrap().masked.contains_key("A_TOKEN"));
    world.inputs.env.insert("TOKEN".to_owned(), "changed".to_owned());
    assert_eq!(read(&world).unwrap().masked["A_TOKEN"].expose(), "changed");
    world.server("version: 1\n");
    assert!(world.resolved().secrets.is_empty() && world.resolved().policy.credentials.is_empty());
    assert_eq!(world.resolved().policy.decide("api.example.com", 443).tier, Tier::Passthrough);
}

#[test]
fn an_entry_adds_to_the_defaults_and_overrides_them_by_name() {
    let world = world();
    let path = world.inputs.repo_dir.display().to_string();
    world.server(&format!(
        "version: 1
defaults:
  secrets: {{A: aaaa, B: bbbb}}
  masked_secrets: {{C: {{value: c-real, scopes: [api.example.com]}}, D: {{value: d-real, scopes: [api.example.com]}}}}
repos:
  here:
    path: {path}
    secrets: {{B: bb-bb, E: eeee}}
    masked_secrets: {{D: {{value: dd-real, scopes: [api.github.com]}}}}
"
    ));
    assert_eq!(world.codes(), []);
    let values = read(&world).unwrap();
    let plain: Vec<&str> = values.plain.values().map(sandboxc::config::Secret::expose).collect();
    assert_eq!(plain, ["aaaa", "bb-bb", "eeee"]);
    assert_eq!((values.masked["C"].expose(), values.masked["D"].expose()), ("c-real", "dd-real"));
    assert_eq!(world.resolved().policy.credentials[1].scopes[0].to_string(), "api.github.com");
}

#[test]
fn a_plan_says_what_is_decrypted_and_what_each_credential_is_for() {
    let world = world();
    world.repo(&REPO.replace("api.github.com", "{host: api.github.com, methods: [GET], paths: [/repos/**]}"));
    let plan = crate::fixture::plan_of(&world.resolved(), &["true"]);
    let mut grants: Vec<String> =
        plan.grants.iter().map(|g| format!("{} {} @{}", g.kind, g.what, g.from.line)).collect();
    let egress = plan.egress.iter().flat_map(sandboxc::policy::Effective::lines);
    grants.extend(egress.map(|(what, from)| format!("egress {what} @{}", from.line)));
    grants.extend(plan.facts.iter().map(|fact| format!("{} {} @{}", fact.about, fact.what, fact.from.line)));
    for line in [
        "egress allow api.github.com 80 by repo.allow[1]: GET HEAD, on /repos/** @2",
        "egress allow api.github.com 443 decrypted by repo.allow[1]: GET HEAD, on /repos/** @2",
        "app GH_TOKEN: permissions contents:read; repositories widgets @15",
        "limit none for timeout memory cpus pids @0",
        "decrypted api.github.com because of repo.allow[1] @2",
        "decrypted api.github.com because of the credential GH_TOKEN @15",
        "decrypted *.amazonaws.com because of the credential prod @8",
        "credential A_TOKEN for api.example.com (headers authorization x-api-key) @6",
        "credential prod for .amazonaws.com (AWS signatures): GET HEAD @8",
        "credential GH_TOKEN for api.github.com (GitHub App, repositories widgets) @15",
        "secret NPM_TOKEN: the agent gets the value @4",
    ] {
        assert!(grants.iter().any(|grant| grant == line), "{line} is not in\n{}", grants.join("\n"));
    }
    let shown = format!("{plan:?} {}", sandboxc::emit::review::file(&plan).unwrap().text);
    assert!(!shown.contains("hunter2"));
}

#[test]
fn a_scope_that_can_be_reached_is_no_warning() {
    let world = World::new();
    world.repo("version: 1\nnetwork: {allow: [{host: .example.com, methods: [GET]}, .example.org]}\n");
    let codes = |scopes: &str| {
        let secret = format!("{{value: !env A, scopes: [{scopes}]}}");
        let entry = format!("{{path: {:?}, masked_secrets: {{A: {secret}}}}}", world.inputs.repo_dir);
        world.server(&format!("version: 1\nrepos: {{w: {entry}}}\n"));
        let own = world.codes();
        // A repo need not use every credential that all repos have.
        world.server(&format!("version: 1\ndefaults: {{masked_secrets: {{A: {secret}}}}}\n"));
        assert_eq!(world.codes(), [], "{scopes}");
        own
    };
    assert_eq!(codes("a.b.example.com, example.org, x.y.example.org, .example.org, \"*.y.example.org\""), []);
    assert_eq!(codes("example.net, \"*.x.example.net\""), [Code::MootRule, Code::MootRule]);
    world.resolved();
}

#[test]
fn no_secret_takes_the_place_of_what_makes_tools_trust_the_router() {
    for name in
        ["PATH", "HOME", "LD_AUDIT", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "SYSTEM_WGETRC", "SANDBOXC_X", "1A"]
    {
        let world = World::new();
        world.server(&format!("version: 1\ndefaults: {{secrets: {{{name}: hunter2}}}}\n"));
        assert_eq!(world.codes(), [Code::NameConflict], "{name}");
    }
    for name in ["NPM_TOKEN", "PATHS", "_x", "LDAP_PASSWORD"] {
        let world = World::new();
        world.server(&format!("version: 1\ndefaults: {{secrets: {{{name}: hunter2}}}}\n"));
        assert_eq!(world.codes(), [], "{name}");
    }
}

#[test]
fn extra_ca_is_certificates_and_nothing_else() {
    let world = world();
    world.server("version: 1\nnetwork: {extra_ca: ca.pem, log_query: true}\n");
    let block = "-----BEGIN CERTIFICATE-----\nMANvbmU=\n-----END CERTIFICATE-----\n";
    world.write("c/sandboxc/ca.pem", format!("# Example CA\n{block}text\r\n{}", block.replace('\n', "\r\n")));
    let resolved = world.resolved();
    assert_eq!(resolved.extra_ca.unwrap().value, format!("{block}{block}"));
    assert!(resolved.log_query);
    for (content, code) in [
        ("", Code::BadValue),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n", Code::BadValue),
        ("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n", Code::BadValue),
        ("-----BEGIN CERTIFICATE-----\nA A;\n-----END CERTIFICATE-----\n", Code::BadValue),
        (&block.replace("MANvbmU=", "dGV4dA=="), Code::BadValue),
        (&format!("{}{block}", block.replace("-----END CERTIFICATE-----\n", "")), Code::BadValue),
        (&format!("{block}{KEY}"), Code::BadValue),
    ] {
        world.write("c/sandboxc/ca.pem", content);
        assert_eq!(world.codes(), [code], "{content}");
    }
}
