//! Clients inside trust the session's CA for inspected hosts, and still trust the world's CAs for all others.
//!
//! A request that arrives at the test internet is the proof: a client that rejects the certificate sends none.

use std::fs;
use std::process::Command;
use std::sync::Once;

use crate::harness::{Sandbox, code, internet_log, internet_log_end, podman, text, unique};
use crate::quadlet_live::{Installed, journal};

pub const CLIENTS: &str = "localhost/sandboxc-base-clients:test";

const SERVER: &str = "version: 1\nnetwork:\n  reachable: [203.0.113.0/24]\n  extra_ca: /srv/internet/ca.pem\n";

const INSPECTED: &str = "api.example.com";

const PASSTHROUGH: &str = "sub.example.org";

/// Each has its own way to find trust settings. `$U` is a URL. The test does not depend on how a client handles the
/// response.
const MATRIX: [(&str, &str); 21] = [
    ("curl", "curl -sSf $U"),
    ("wget", "wget -qO- $U"),
    ("git", "git ls-remote $U"),
    (
        "openssl",
        "printf \"GET $P HTTP/1.0\\r\\nHost: $H\\r\\n\\r\\n\" | openssl s_client -quiet -verify_return_error -connect $H:443 -servername $H",
    ),
    ("apt", "/usr/lib/apt/apt-helper download-file $U /tmp/apt-$H"),
    ("urllib", "python3 -c 'import sys, urllib.request as u; u.urlopen(sys.argv[1]).read()' $U"),
    ("requests", "python3 -c 'import sys, requests; requests.get(sys.argv[1])' $U"),
    ("httpx", "python3 -c 'import sys, httpx; httpx.get(sys.argv[1])' $U"),
    ("pip", "pip download --retries 0 --no-deps --dest /tmp --index-url $U x"),
    ("venv", "python3 -m venv /tmp/v && /tmp/v/bin/pip download --retries 0 --no-deps --dest /tmp --index-url $U x"),
    (
        "boto3",
        "AWS_ACCESS_KEY_ID=a AWS_SECRET_ACCESS_KEY=b AWS_MAX_ATTEMPTS=1 python3 -c \
         'import sys, boto3; boto3.client(\"s3\", region_name=\"eu-x\", endpoint_url=sys.argv[1]).list_buckets()' $U",
    ),
    ("node", "node -e 'fetch(process.argv[1]).then(r => r.text())' $U"),
    ("bundled-node", "node --use-bundled-ca -e 'fetch(process.argv[1]).then(r => r.text())' $U"),
    ("npm", "npm view --fetch-retries=0 --no-update-notifier --registry $U/ x"),
    ("go", "cd /tmp && GOPROXY=$U GONOSUMDB='*' GOFLAGS=-mod=mod go list -m -versions x.test/m"),
    (
        "cargo",
        "mkdir -p /tmp/$C-$H/src && cd /tmp/$C-$H && touch src/lib.rs && printf '[package]\\nname = \"x\"\\nedition = \"2021\"\\n\
         [dependencies]\\ny = {version = \"1\", registry = \"t\"}\\n' >Cargo.toml && \
         CARGO_NET_RETRY=0 CARGO_REGISTRIES_T_INDEX=sparse+$U/ cargo generate-lockfile",
    ),
    (
        "java",
        "printf 'public class G { public static void main(String[] a) throws Exception { \
         new java.net.URL(a[0]).openStream().readAllBytes(); } }' >/tmp/G.java && java /tmp/G.java $U",
    ),
    (
        "maven",
        "printf \"<settings><mirrors><mirror><id>t</id><mirrorOf>*</mirrorOf><url>$U</url></mirror></mirrors></settings>\" \
         >/tmp/$H.xml && mvn -B -q -Dmaven.repo.local=/tmp/m2-$H -s /tmp/$H.xml help:system",
    ),
    ("uv", "UV_HTTP_RETRIES=0 uv pip install -q --no-cache --target /tmp/uv-$H --index-url $U x"),
    ("deno", "DENO_DIR=/tmp/deno deno eval 'await (await fetch(Deno.args[0])).text()' $U"),
    // Its token is for that host alone, and whatever it is, it asks for what the URL says.
    ("gh", "GH_CONFIG_DIR=/tmp/gh GH_HOST=$H GH_ENTERPRISE_TOKEN=x gh api $U"),
];

pub fn import_clients() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if Command::new("podman").args(["image", "exists", CLIENTS]).status().unwrap().success() {
            return;
        }
        let path = "ENV=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        let args = [
            "import",
            "--quiet",
            "--change",
            "CMD=[\"/bin/sh\"]",
            "--change",
            path,
            "/srv/images/clients.tar",
            CLIENTS,
        ];
        assert!(Command::new("podman").args(args).status().unwrap().success());
    });
}

fn clients(identity: &str) -> Sandbox {
    import_clients();
    Sandbox::with(
        &format!(
            "version: 1\nimage: {CLIENTS}\nidentity: {identity}\nnetwork:\n  allow:\n    - {{host: {INSPECTED}, methods: [GET, POST]}}\n    - {PASSTHROUGH}\n"
        ),
        SERVER,
    )
}

/// The output of each client whose request did not arrive, for both hosts in one session.
fn try_all(sandbox: &Sandbox, matrix: &[(&str, &str)]) -> Vec<String> {
    try_hosts(sandbox, &[(INSPECTED, "inspected"), (PASSTHROUGH, "passthrough")], matrix)
}

/// The same for hosts of these tiers.
fn try_hosts(sandbox: &Sandbox, hosts: &[(&str, &str)], matrix: &[(&str, &str)]) -> Vec<String> {
    let (mark, start) = (unique(), internet_log_end("access.log"));
    let mut script = String::new();
    for (host, _) in hosts {
        for (client, command) in matrix {
            script.push_str(&format!(
                "echo '== {client} {host}'; (H={host} C={client} P=/{mark}/{client} U=https://{host}/{mark}/{client}; {command}) 2>&1 | tail -n 5\n"
            ));
        }
    }
    let log = sandbox.scratch(&mark);
    let output = sandbox.run_with(&["--network-log", log.to_str().unwrap()], &["sh", "-c", &script]);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let log = fs::read_to_string(log).unwrap();
    for (host, tier) in hosts {
        let lines = log
            .lines()
            .filter(|line| line.contains(&format!("\"host\":\"{host}\"")) && !line.contains("\"tier\":\"dns\""));
        let others: Vec<&str> = lines.filter(|line| !line.contains(&format!("\"tier\":\"{tier}\""))).collect();
        assert!(others.is_empty() && log.contains(&format!("\"tier\":\"{tier}\"")), "{others:?}");
    }
    let arrived: Vec<serde_json::Value> = internet_log("access.log", start)
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .filter(|line: &serde_json::Value| line["event"] == "request")
        .collect();
    let came = |client: &str, host: &str| {
        let path = format!("/{mark}/{client}");
        arrived.iter().any(|line| line["host"] == host && line["path"].as_str().is_some_and(|p| p.starts_with(&path)))
    };
    let said = text(&output.stdout);
    let missing = hosts.iter().flat_map(|(host, _)| {
        let failed = matrix.iter().filter(move |(client, _)| !came(client, host));
        failed.map(move |(client, _)| format!("{client} {host}"))
    });
    let missing: Vec<String> = missing.collect();
    let told =
        |which: &String| said.split("== ").find(|part| part.starts_with(which.as_str())).unwrap_or("").to_owned();
    missing.iter().map(told).collect()
}

//
/// variables that replace the system's store must not break passthrough hosts. R-96: npm. R-97: the JVM. R-98:
/// HTTPS just works. R-100: no proxy variable is needed.
#[test]
fn every_client_reaches_inspected_and_passthrough_hosts() {
    let sandbox = clients("host-user");
    let failed = try_all(&sandbox, &MATRIX);
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

//
/// Root's files are not mounted over, since root may install packages; variables have the same effect.
#[test]
fn root_inside_trusts_by_variables_and_can_renew_its_bundle() {
    let sandbox = clients("root");
    let failed = try_all(&sandbox, &MATRIX);
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    let renew =
        "update-ca-certificates >/dev/null && env -i PATH=$PATH curl -sS -o /dev/null -w '%{http_code}' https://";
    assert_eq!(sandbox.sh(&format!("{renew}{INSPECTED}/x")), "200");
}

/// Clients trust the session's CA and `extra_ca`, but not any other server.
#[test]
fn a_client_without_the_bundle_refuses_and_the_ca_speaks_for_no_other_name() {
    let sandbox = clients("host-user");
    let curl = "curl -sS -o /dev/null -w '%{http_code}' --cacert /usr/share/ca-certificates/mozilla/ISRG_Root_X1.crt";
    let (refused, _) = sandbox.start(&[]).try_sh(&format!("{curl} https://{INSPECTED}/"));
    assert_eq!(refused, 60, "curl's code for a certificate that it cannot verify");
    let ca = sandbox.sh("openssl x509 -noout -text -in /etc/sandboxc-ca/session-ca.pem");
    assert!(ca.contains("CA:TRUE") && ca.contains(&format!("DNS:{INSPECTED}")), "{ca}");
    assert!(!ca.contains(PASSTHROUGH), "{ca}");
}

//
/// The matrix can fail: a client whose variable the config sets itself uses that, and does not know the CA.
#[test]
fn a_variable_of_the_config_wins_and_points_elsewhere() {
    let sandbox = clients("host-user");
    let file = sandbox.repo().join(".sandboxc/sandbox.yaml");
    let repo = fs::read_to_string(&file).unwrap();
    let mut env = ["NODE_EXTRA_CA_CERTS", "CURL_CA_BUNDLE", "DENO_CERT", "SSL_CERT_FILE"]
        .map(|name| format!("  {name}: /etc/hostname\n"))
        .concat();
    // Go reads both.
    env.push_str("  SSL_CERT_DIR: /nowhere\n");
    fs::write(&file, format!("{repo}env:\n{env}")).unwrap();
    let failed = try_all(&sandbox, &[0, 1, 12, 18, 19, 20].map(|at| MATRIX[at]));
    let names: Vec<&str> = failed.iter().filter_map(|said| said.lines().next()).collect();
    let expected = [INSPECTED, PASSTHROUGH]
        .iter()
        .flat_map(|host| ["curl", "bundled-node", "uv", "deno", "gh"].map(|client| format!("{client} {host}")));
    assert_eq!(names, expected.collect::<Vec<_>>());
}

//
/// gRPC reads its roots from its own variable, and only supports HTTP/2, which the test internet does not.
#[test]
fn grpc_trusts_the_session() {
    let sandbox = clients("host-user");
    let program = format!(
        "import grpc\nchannel = grpc.secure_channel(\"{INSPECTED}:443\", grpc.ssl_channel_credentials())\n\
         grpc.channel_ready_future(channel).result(timeout=20)\nprint(\"ready\")"
    );
    assert_eq!(sandbox.python(&program).trim(), "ready");
}

//
/// A clock that is behind, in its own time zone.
#[test]
fn a_fresh_certificate_is_valid_for_a_clock_that_is_behind() {
    let sandbox = clients("host-user");
    let verify = format!(
        "at=$(($(date +%s) - 36000)); openssl s_client -connect {INSPECTED}:443 -servername {INSPECTED} -attime $at \
         -verify_return_error </dev/null 2>&1 | grep 'Verify return code'; TZ=Pacific/Kiritimati curl -sS https://{INSPECTED}/ -o /dev/null -w '%{{http_code}}'"
    );
    let said = sandbox.sh(&verify);
    assert!(said.contains("code: 0 (ok)") && said.ends_with("200"), "{said}");
}

//
/// the agent's side is public and read-only, and contains no key.
#[test]
fn the_agent_sees_the_certificate_and_no_key() {
    let sandbox = clients("root");
    let said = sandbox.sh(
        "ls /etc/sandboxc-ca; ! touch /etc/sandboxc-ca/x 2>/dev/null; ! grep -rl 'PRIVATE KEY' /etc/sandboxc-ca; ls -d /run/sandboxc /etc/sandboxc/* 2>&1 | grep -c .",
    );
    assert!(said.contains("session-ca.pem") && !said.contains("credentials.json"), "{said}");
}

/// Nothing of this exists if nothing is inspected.
#[test]
fn a_session_without_inspection_has_no_ca_and_no_variables() {
    let sandbox = Sandbox::new();
    let said = sandbox
        .sh("env | grep -c -e CERT -e BUNDLE -e CAINFO; ls -d /etc/sandboxc-ca /run/sandboxc 2>/dev/null | wc -l");
    assert_eq!(said, "0\n0\n");
}

/// A sandbox of the image that trusts nothing of the test's, whose one host is not inspected.
fn plain(identity: &str, server: &str, command: &str) -> Sandbox {
    import_clients();
    let repo = format!(
        "version: 1\nimage: {CLIENTS}\nidentity: {identity}\ncommand: [sh, -c, {command:?}]\nnetwork: {{allow: [{PASSTHROUGH}]}}\n"
    );
    Sandbox::alone_with(&repo, server)
}

/// Whether clients trust the owner's authority does not depend on other entries of the list.
#[test]
fn extra_ca_is_trusted_where_nothing_is_inspected() {
    let get = format!("curl -sS -o /dev/null -w '%{{http_code}}' https://{PASSTHROUGH}/x");
    for identity in ["host-user", "root"] {
        let sandbox = plain(identity, SERVER, "true");
        let others = ["curl", "git", "urllib", "node", "bundled-node", "java", "uv", "deno"];
        let matrix: Vec<(&str, &str)> = MATRIX.into_iter().filter(|(client, _)| others.contains(client)).collect();
        let failed = try_hosts(&sandbox, &[(PASSTHROUGH, "passthrough")], &matrix);
        assert!(failed.is_empty(), "{identity}: {}", failed.join("\n"));
    }
    let renew = "update-ca-certificates >/dev/null && env -i PATH=$PATH";
    assert_eq!(plain("root", SERVER, "true").sh(&format!("{renew} {get}")), "200");
    // The twin: without it the same client refuses.
    let without = plain("host-user", crate::harness::SERVER, "true");
    assert_eq!(code(&without.run(&["sh", "-c", &get])), 60);
}

#[test]
fn extra_ca_is_trusted_in_scripts_and_units_too() {
    let get = format!("curl -sS -o /dev/null -w '%{{http_code}}' https://{PASSTHROUGH}/x >said");
    let sandbox = plain("host-user", SERVER, &get);
    let session = unique();
    let made = sandbox.command(&["secrets", "--session", &session]).output().unwrap();
    assert_eq!(code(&made), 0, "{}", text(&made.stderr));
    let played = crate::compile::sh("cd /tmp && podman kube play -", &text(&made.stdout));
    assert_eq!(code(&played), 0, "{}", text(&played.stderr));
    let script = crate::compile::compile(&sandbox, &["--target", "script", "--session", &session]);
    let ran = crate::compile::sh("sh -s", &script);
    for name in podman(&["secret", "ls", "--format", "{{.Name}}"]).lines().filter(|name| name.contains("-agent-")) {
        podman(&["secret", "rm", name]);
    }
    assert_eq!(code(&ran), 0, "{}", text(&ran.stderr));
    let said = sandbox.repo().join("said");
    assert_eq!(fs::read_to_string(&said).unwrap(), "200");
    fs::remove_file(&said).unwrap();
    let installed = Installed::of("q-extra-ca", sandbox);
    let ran = installed.run();
    assert_eq!(code(&ran), 0, "{}", journal(&installed.agent));
    assert_eq!(fs::read_to_string(installed.sandbox.repo().join("said")).unwrap(), "200");
    assert!(installed.gone(), "left: {}", installed.left());
}
