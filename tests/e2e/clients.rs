//! Real clients with masked credentials: each has a surrogate, and the service only accepts the real value.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use crate::harness::{Sandbox, code, internet_log, internet_log_end, json, text, unique};
use crate::trust::{CLIENTS, import_clients};

const HOST: &str = "api.example.com";

/// What the fake AWS knows (tests/host/services.py).
pub const AWS_ID: &str = "AKIAREALREALREALREAL";
pub const AWS_SECRET: &str = "the/real+secret/of/the/test/internet0000";

/// A sandbox whose TOKEN is masked, and the service that requires its value.
struct Clients {
    sandbox: Sandbox,
    value: String,
    /// `$W`: the service's host and path, without a scheme.
    wants: String,
    /// `$D`: the digest in it.
    digest: String,
}

/// The result of a script.
struct Seen {
    /// Its output, on both streams.
    said: String,
    /// What the test internet logged in the meantime.
    log: Vec<serde_json::Value>,
    digest: String,
}

impl Clients {
    fn new(prefix: &str) -> Self {
        Self::with(prefix, HOST)
    }

    fn with(prefix: &str, rule: &str) -> Self {
        Self::of(prefix, &[HOST], &format!("    - {rule}\n"))
    }

    /// With a TOKEN for these hosts, and these lines in `allow`.
    fn of(prefix: &str, hosts: &[&str], allow: &str) -> Self {
        import_clients();
        let value = format!("{prefix}real{}{}", unique(), unique());
        let digest = Sha256::digest(&value).iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        let sandbox = Sandbox::with(
            &format!("version: 1\nimage: {CLIENTS}\nnetwork:\n  allow:\n{allow}"),
            &server(&format!(
                "  masked_secrets:\n    TOKEN: {{value: {value}, scopes: [{}], headers: [authorization, x-api-key]}}\n",
                hosts.join(", ")
            )),
        );
        Self { sandbox, value, wants: format!("{HOST}/wants/{digest}"), digest }
    }

    /// Runs a script with `$W`, and `$U` for its URL. It must succeed without having seen the value, and the service
    /// must not have seen the surrogate.
    fn run(&self, script: &str) -> Seen {
        let start = internet_log_end("access.log");
        let script = format!(
            "echo $TOKEN; exec 2>&1; export W={0} U=https://{0} D={1}; cd /tmp; {script}",
            self.wants, self.digest
        );
        let output = self.sandbox.run(&["sh", "-euc", &script]);
        let said = text(&output.stdout);
        assert_eq!(code(&output), 0, "{said}\n{}", text(&output.stderr));
        let (surrogate, said) = said.split_once('\n').unwrap();
        assert!(surrogate.len() >= self.value.len() && surrogate != self.value, "{surrogate}");
        assert!(!said.contains(&self.value), "the client has seen the value: {said}");
        let log = internet_log("access.log", start);
        assert!(!log.contains(surrogate), "the service has seen the surrogate");
        let log = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        Seen { said: said.replace(surrogate, "SURROGATE"), log, digest: self.digest.clone() }
    }
}

impl Seen {
    /// How many requests of a kind carried the value. None may have carried anything else, however it was encoded.
    fn claims(&self, kind: &str) -> usize {
        let claims: Vec<&str> = self
            .log
            .iter()
            .filter(|line| line["event"] == "claim" && line["wants"] == *self.digest && line["kind"] == kind)
            .filter_map(|line| line["given"].as_str())
            .collect();
        assert!(!claims.contains(&"wrong"), "{kind}: {claims:?}");
        claims.iter().filter(|given| **given == "right").count()
    }
}

pub fn server(lines: &str) -> String {
    format!("version: 1\nnetwork:\n  reachable: [203.0.113.0/24]\n  extra_ca: /srv/internet/ca.pem\ndefaults:\n{lines}")
}

#[test]
fn curl_sends_a_token_in_every_usual_way_and_no_other() {
    let clients = Clients::new("ghp_");
    let seen = clients.run(
        "for auth in \"Bearer $TOKEN\" \"token $TOKEN\" \"$TOKEN\"; do curl -sSf -H \"Authorization: $auth\" $U/echo/a; echo; done
         curl -sSf -u \"x:$TOKEN\" $U/echo/a; echo; curl -sSf -u \"$TOKEN:\" $U/echo/a; echo
         echo foreign; curl -sS -H 'Authorization: Bearer ghp_0123456789012345678901234567890123456' $U/echo/foreign",
    );
    let (own, foreign) = seen.said.split_once("foreign\n").unwrap();
    assert_eq!(own.matches("\"credential\": \"SURROGATE\"").count(), 5, "{own}");
    assert_eq!(seen.claims("echo"), 5);
    assert!(foreign.contains("foreign-credential"), "{foreign}");
}

/// A streamed response reaches the client in pieces, although the router searches it for the value.
#[test]
fn anthropics_api_key_streams_events() {
    let clients = Clients::new("sk-ant-");
    let program = "import json, sys, time\n\
         events = [[time.monotonic(), json.loads(line[6:])[\"text\"]] for line in sys.stdin if line.startswith(\"data: \")]\n\
         print(json.dumps({\"texts\": [text for _, text in events], \"took\": events[-1][0] - events[0][0]}))";
    let seen = clients.run(&format!(
        "curl -sSfN -H \"x-api-key: $TOKEN\" -H 'anthropic-version: 2023-06-01' -H 'content-type: application/json' \
         -d '{{\"stream\": true}}' $U/events/v1/messages | python3 -c '{program}'"
    ));
    assert_eq!(seen.claims("events"), 1);
    let said = json(&seen.said);
    assert_eq!(said["texts"], serde_json::json!(["SURROGATE", "SURROGATE", "SURROGATE"]));
    // They are sent half a second apart.
    assert!(said["took"].as_f64().unwrap() > 0.8, "{said}");
}

/// The token as password and as user, with a push that is too large for git's buffer, so that git sends it in chunks.
#[test]
fn git_clones_and_pushes_over_https() {
    let clients = Clients::new("ghp_");
    let seen = clients.run(
        "export HOME=/tmp; git config --global user.name a; git config --global user.email a@example.com
         git config --global http.postBuffer 65536
         git clone -q https://x-access-token:$TOKEN@$W/git/r.git one; cd one
         head -c 200000 /dev/urandom >large; git add large; git commit -qm one; git push -q origin HEAD:main; cd ..
         git clone -q https://$TOKEN:x-oauth-basic@$W/git/r.git two; cmp one/large two/large; cd two
         git commit -q --allow-empty -m two; git push -q origin HEAD:main
         git -C ../one pull -q origin main; git -C ../one log --format=%s",
    );
    assert!(seen.said.ends_with("two\none\n"), "{}", seen.said);
    assert!(seen.claims("git") >= 8, "{:?}", seen.log);
}

/// Neither a URL nor a file has the token: git asks the helper, or gh where somebody has set it up.
#[test]
fn git_asks_for_the_token_by_itself_or_through_gh_and_only_where_it_is_for() {
    let clients = Clients::with("ghp_", &format!("{HOST}\n    - sub.example.org"));
    let seen = clients.run(
        "export HOME=/tmp GIT_TERMINAL_PROMPT=0; git config --global user.name a; git config --global user.email a@example.com
         git clone -q $U/git/r.git one; cd one; git commit -q --allow-empty -m one; git push -q origin HEAD:main
         git config credential.helper; git config --local --get-regexp credential && exit 1; cd ..
         git clone -q https://somebody@$W/git/r.git two; git -C two log --format=%s
         export GH_HOST=api.example.com GH_CONFIG_DIR=/tmp/gh
         GH_ENTERPRISE_TOKEN=$TOKEN git -c credential.helper= -c 'credential.helper=!gh auth git-credential' clone -q $U/git/r.git three
         git -C three log --format=%s
         answer() { printf 'protocol=%s\nhost=%s\n\n' $1 $2 | sh /etc/sandboxc/git-credential ${3-get}; }
         echo answers; answer https api.example.com; answer https api.example.com:443
         echo silent; answer https sub.example.org; answer http api.example.com; answer https api.example.com.evil.example
         answer https api.example.com:8443; answer https api.example.com erase; TOKEN= answer https api.example.com
         echo end; grep -c SURROGATE /etc/sandboxc/git-credential || true; grep -c $TOKEN /etc/sandboxc/git-credential || true",
    );
    let own = "username=x-access-token\npassword=SURROGATE\n";
    let end = format!("one\none\nanswers\n{own}{own}silent\nend\n0\n0\n");
    assert!(seen.said.ends_with(&end), "{}", seen.said);
    assert!(seen.said.contains("!sh /etc/sandboxc/git-credential"), "{}", seen.said);
    assert!(seen.claims("git") >= 6, "{:?}", seen.log);
}

/// The image's own settings stay, and root may change them.
#[test]
fn the_helper_hides_no_settings_of_the_image() {
    let repo = format!(
        "version: 1\nidentity: root\nnetwork: {{allow: [{HOST}]}}\nenv: {{GIT_CONFIG_COUNT: \"1\", GIT_CONFIG_KEY_0: a.b, GIT_CONFIG_VALUE_0: c}}\n"
    );
    let sandbox = Sandbox::with(
        &repo,
        &server(&format!(
            "  masked_secrets: {{TOKEN: {{value: ghp_{}, scopes: [{HOST}], headers: [authorization]}}}}\n",
            unique().repeat(3)
        )),
    );
    let out = sandbox.sh("git config --system x.y z; git config x.y; git config a.b; git config credential.helper");
    assert_eq!(out, "z\nc\n!sh /etc/sandboxc/git-credential\n");
    // Without credentials, there is no helper.
    let sandbox = Sandbox::new();
    assert_eq!(
        sandbox.sh("git config credential.helper; ls /etc/sandboxc 2>/dev/null; env | grep GIT_CONFIG || true"),
        ""
    );
}

const BOTO: &str = r#"
import json, urllib.error, urllib.request
import boto3
from botocore.config import Config

config = Config(region_name="eu-west-1", signature_version="v4", retries={"max_attempts": 0})
paths = config.merge(Config(signature_version="s3v4", s3={"addressing_style": "path"}))
options = lambda service: {"endpoint_url": "https://aws.example.net", "config": paths if service == "s3" else config}
client = lambda service, **keys: boto3.client(service, **options(service), **keys)
place = {"Bucket": "bucket", "Key": "MARK/a +\u00e9.txt"}
s3, table, said = client("s3"), client("dynamodb"), {}
s3.put_object(Body=b"hello", **place)
said["get"] = s3.get_object(**place)["Body"].read().decode()
said["list"] = [one["Key"] for one in s3.list_objects_v2(Bucket="bucket", Prefix="MARK/")["Contents"]] == [place["Key"]]
said["presigned"] = urllib.request.urlopen(s3.generate_presigned_url("get_object", place)).read().decode()
said["account"] = client("sts").get_caller_identity()["Account"]
table.put_item(TableName="t", Item={"id": {"S": "MARK"}, "v": {"N": "2"}})
said["item"] = table.get_item(TableName="t", Key={"id": {"S": "MARK"}})["Item"]["v"]["N"]
foreign = {"aws_access_key_id": "AKIAFOREIGNFOREIGN00", "aws_secret_access_key": "x" * 40}
try:
    urllib.request.urlopen(client("s3", **foreign).generate_presigned_url("get_object", place))
except urllib.error.HTTPError as error:
    said["foreign"] = json.load(error)["reason"]
try:
    client("sts", **foreign).get_caller_identity()
    said["foreign sts"] = "works"
except Exception as error:
    said["foreign sts"] = "refused"
print(json.dumps(said))
"#;

#[test]
fn boto3_signs_for_s3_sts_and_dynamodb_with_keys_that_are_none() {
    import_clients();
    let (mark, start) = (unique(), internet_log_end("access.log"));
    let sandbox = Sandbox::with(
        &format!("version: 1\nimage: {CLIENTS}\nnetwork:\n  allow: [aws.example.net]\n"),
        &server(&format!(
            "  signing_credentials:\n    prod: {{type: aws-sigv4, access_key_id: {AWS_ID}, secret_access_key: {AWS_SECRET}, scopes: [aws.example.net]}}\n"
        )),
    );
    let said = sandbox.python(&format!(
        "import os; print(os.environ['AWS_ACCESS_KEY_ID'], os.environ['AWS_SECRET_ACCESS_KEY'])\n{}",
        BOTO.replace("MARK", &mark)
    ));
    assert!(said.starts_with("AKIA") && !said.contains(AWS_ID) && !said.contains(AWS_SECRET), "{said}");
    let expected = serde_json::json!({
        "get": "hello", "list": true, "presigned": "hello", "account": "111122223333", "item": "2",
        "foreign": "foreign-credential", "foreign sts": "refused",
    });
    assert_eq!(json(&said), expected);
    let log = internet_log("access.log", start);
    assert!(!log.contains(said.split([' ', '\n']).next().unwrap()), "the service has seen the surrogate");
    let verdicts: Vec<serde_json::Value> = log
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .filter(|line: &serde_json::Value| line["event"] == "aws")
        .map(|line| line["verdict"].clone())
        .collect();
    assert_eq!(verdicts, ["ok"; 7], "a foreign key gets nowhere");
}

/// As gh does: `token` in the header, one POST for each query.
#[test]
fn a_graphql_client_asks_for_the_fields_that_its_rule_permits() {
    let rule = format!("{{host: {HOST}, paths: [/wants/*/echo/graphql], graphql: {{queries: [viewer]}}}}");
    let clients = Clients::with("ghp_", &rule);
    let seen = clients.run(
        "ask() { curl -sS -H \"Authorization: $1 $TOKEN\" -H 'content-type: application/json' -d \"$2\" $U/echo/graphql; echo; }
         ask token '{\"query\": \"query { viewer { login } }\"}'
         ask bearer '{\"query\": \"query Q { me: viewer { login } }\", \"operationName\": \"Q\"}'
         ask bearer '{\"query\": \"query { viewer { login } user(login: \\\"x\\\") { id } }\"}'
         ask bearer '{\"query\": \"mutation { viewer }\"}'",
    );
    let answers: Vec<&str> = seen.said.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(answers.len(), 4, "{answers:#?}");
    assert!(answers[..2].iter().all(|one| one.contains("SURROGATE") && one.contains("viewer")), "{answers:#?}");
    assert!(answers[2..].iter().all(|one| one.contains("graphql-not-allowed")), "{answers:#?}");
    assert_eq!(seen.claims("echo"), 2);
}

#[test]
fn pip_installs_from_an_index_that_wants_a_password() {
    let clients = Clients::new("");
    let seen = clients.run(
        "pip install -q --no-cache-dir --retries 0 --target p --no-deps --index-url https://user:$TOKEN@$W/simple/ clientprobe
         PYTHONPATH=p python3 -c 'import clientprobe; print(\"installed\")'",
    );
    assert!(seen.said.ends_with("installed\n"), "{}", seen.said);
    assert_eq!(seen.claims("simple"), 2, "the index, and the wheel");
}

#[test]
fn uv_installs_from_an_index_that_wants_a_password() {
    let clients = Clients::new("");
    let seen = clients.run(
        "export UV_HTTP_RETRIES=0; uv pip install -q --no-cache --target p --no-deps --index-url https://user:$TOKEN@$W/simple/ clientprobe
         PYTHONPATH=p python3 -c 'import clientprobe; print(\"installed\")'",
    );
    assert!(seen.said.ends_with("installed\n"), "{}", seen.said);
    assert!(seen.claims("simple") >= 2, "the index, and the wheel: {:?}", seen.log);
}

/// A custom header, and the token that Deno adds itself when it imports from a host.
#[test]
fn deno_fetches_and_imports_with_a_token() {
    let clients = Clients::new("");
    let seen = clients.run(
        "export DENO_DIR=/tmp/deno
         deno eval 'const {U, TOKEN} = Deno.env.toObject(); const headers = {authorization: `Bearer ${TOKEN}`};
            console.log(await (await fetch(`${U}/echo/fetched`, {headers})).text())'
         echo 'import it from \"'$U/echo/imported.json'\" with {type: \"json\"}; console.log(it.path, it.credential)' >m.ts
         DENO_AUTH_TOKENS=$TOKEN@api.example.com deno run --quiet --allow-import=api.example.com m.ts",
    );
    assert!(
        seen.said.contains("/echo/fetched\"") && seen.said.contains("\"credential\": \"SURROGATE\""),
        "{}",
        seen.said
    );
    assert!(seen.said.ends_with("/echo/imported.json SURROGATE\n"), "{}", seen.said);
    assert_eq!(seen.claims("echo"), 2);
}

/// gh itself: for github.com, and for a GitHub Enterprise server.
#[test]
fn gh_asks_for_what_its_rules_permit() {
    let allow = ["api.github.com", HOST].map(|host| {
        format!("    - {{host: {host}, methods: [GET]}}\n    - {{host: {host}, paths: [/graphql, /api/graphql], graphql: {{queries: [viewer]}}}}\n")
    });
    let clients = Clients::of("ghp_", &["api.github.com", HOST], &allow.concat());
    let seen = clients.run(
        "export GH_CONFIG_DIR=/tmp/gh; ask() { echo; echo \"== $*\"; gh api -H \"x-wants: $D/echo\" \"$@\" || echo \"failed $?\"; }
         for own in GH_TOKEN=$TOKEN GH_ENTERPRISE_TOKEN=$TOKEN; do
         export $own
         ask user; ask graphql -f query='query { viewer { login } }'
         ask graphql -f query='mutation { viewer }'; ask -X DELETE user
         unset GH_TOKEN; export GH_HOST=api.example.com; done",
    );
    let answers: Vec<&str> = seen.said.split("== ").skip(1).collect();
    assert_eq!(answers.len(), 8, "{answers:#?}");
    for (here, (rest, graphql)) in [("", ("/user", "/graphql")), ("ghes", ("/api/v3/user", "/api/graphql"))] {
        let four = if here.is_empty() { &answers[..4] } else { &answers[4..] };
        for (answer, path) in four.iter().zip([rest, graphql]) {
            assert!(answer.contains("SURROGATE") && answer.contains(&format!("\"{path}\"")), "{answer}");
        }
        assert!(four[2].contains("graphql-not-allowed") && four[2].contains("failed"), "{}", four[2]);
        assert!(four[3].contains("method-not-allowed") && four[3].contains("failed"), "{}", four[3]);
    }
    assert_eq!(seen.claims("echo"), 4);
}

#[test]
fn npm_installs_from_a_registry_that_wants_a_token() {
    let clients = Clients::new("npm_");
    let seen = clients.run(
        "export HOME=/tmp; mkdir n; cd n; echo \"//$W/npm/:_authToken=\\${TOKEN}\" >.npmrc
         npm install --no-update-notifier --no-audit --fetch-retries=0 --registry $U/npm/ clientprobe; ls node_modules",
    );
    assert!(seen.said.ends_with("clientprobe\n"), "{}", seen.said);
    assert_eq!(seen.claims("npm"), 2, "the document, and the package");
}

/// cargo sends its token without a scheme.
#[test]
fn cargo_fetches_from_a_registry_that_wants_a_token() {
    let clients = Clients::new("");
    let seen = clients.run(
        "export HOME=/tmp CARGO_NET_RETRY=0 CARGO_REGISTRIES_T_INDEX=sparse+$U/cargo/ CARGO_REGISTRIES_T_TOKEN=$TOKEN
         export CARGO_REGISTRY_GLOBAL_CREDENTIAL_PROVIDERS=cargo:token
         mkdir -p c/src; cd c; touch src/lib.rs
         printf '[package]\\nname = \"x\"\\nedition = \"2021\"\\n[dependencies]\\nclientprobe = {version = \"1\", registry = \"t\"}\\n' >Cargo.toml
         cargo fetch; ls /tmp/.cargo/registry/src/*",
    );
    assert!(seen.said.ends_with("clientprobe-1.0.0\n"), "{}", seen.said);
    assert!(seen.claims("cargo") >= 3, "its config, the index, and the crate");
}
