//! Certificates: those of a session, as the runtime creates them, and those of the servers behind the router.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use sandboxc::plan::ca_scopes;
use sandboxc::policy::{CredentialKind, Policy};
use serde_json::{Value, json};

/// Makes `materials` of a policy's inspected hosts, and `internet` for the servers behind the router, each with a
/// certificate authority of its own.
pub fn mint(work: &Path, policy: &Policy) {
    if ca_scopes(policy).is_empty() {
        return;
    }
    let script = r#"
        set -euf
        umask 022
        cd "$work"
        mkdir -p materials internet
        authority() {
            openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj "/CN=$1" \
                -addext keyUsage=critical,keyCertSign -keyout "$1.key" -out "$1.pem"
        }
        leaf() { # AUTHORITY FILE SAN
            openssl req -x509 -CA "$1.pem" -CAkey "$1.key" -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 \
                -subj /CN=leaf -addext "subjectAltName=$3" -addext basicConstraints=critical,CA:FALSE \
                -keyout leaf.key -out leaf.pem
            cat leaf.pem "$1.pem" leaf.key >"$2"
        }
        authority session
        authority internet
        authority stranger
        cp internet.pem materials/upstream.pem
        cat session.pem session.key >materials/ca.pem
        leaf internet internet/good.pem "DNS:secure.test,DNS:*.secure.test,DNS:*.any.secure.test,DNS:*.b.any.secure.test"
        leaf internet internet/wrong.pem "DNS:elsewhere.test"
        leaf stranger internet/untrusted.pem "DNS:untrusted.secure.test"
        leaf stranger internet/stranger.pem "DNS:*.secure.test"
    "#;
    let output = Command::new("sh").args(["-c", script]).env("work", work).output().expect("a shell");
    assert!(output.status.success(), "openssl: {}", String::from_utf8_lossy(&output.stderr));
    if let Some(values) = values(work, policy) {
        fs::write(work.join("materials/credentials.json"), values).expect("a file");
    }
}

/// The Apps, each with a new key, whose public half the fake knows.
fn apps(work: &Path, policy: &Policy) -> Vec<Value> {
    let all = policy.credentials.iter().filter_map(|one| {
        let CredentialKind::GithubApp { base_url, app_id, installation_id, repositories, permissions } = &one.kind
        else {
            return None;
        };
        Some(json!({
            "name": one.name, "surrogate": app_surrogate(&one.name), "hosts": one.scopes, "methods": one.methods,
            "paths": one.paths, "allow_foreign": one.allow_foreign, "app_id": app_id,
            "installation_id": installation_id, "base_url": base_url, "repositories": repositories,
            "permissions": permissions, "private_key": key(work),
        }))
    });
    all.collect()
}

/// What the agent has instead of an App's token.
fn app_surrogate(name: &str) -> String {
    if name == "GH_TOKEN" { "ghs_surrogate".to_owned() } else { format!("ghs_{name}surrogate") }
}

fn key(work: &Path) -> String {
    let private = work.join("internet/app.key");
    let run = |args: &[&str]| {
        let status = Command::new("openssl").args(args).stderr(Stdio::null()).status().expect("openssl");
        assert!(status.success(), "{args:?}");
    };
    let path = private.to_str().unwrap();
    run(&["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", path]);
    run(&["pkey", "-in", path, "-pubout", "-out", &path.replace(".key", ".pub")]);
    fs::read_to_string(private).expect("a key")
}

/// The value of a credential, by its name.
pub fn value(name: &str) -> String {
    match name {
        "ODD" => r#"o$1d"v\al$ue-0001"#.to_owned(),
        "LATIN" => "w\u{e9}rt-real-0001".to_owned(),
        "ID" => "AKIAREAL000000000000".to_owned(),
        // HPACK would make it longer, so that it is sent as it is.
        "PLAIN" => "!!!!!!!!real!!!!0001!!!!!!!!XZ".to_owned(),
        _ => format!("real-{}-0123456789", name.to_lowercase()),
    }
}

/// What the agent has instead.
pub fn surrogate(name: &str) -> String {
    match name {
        "ID" => "AKIASURROGATE0000000".to_owned(),
        _ => format!("ghp_{name}surrogate00000000"),
    }
}

/// `credentials.json` as the runtime makes it; none where a test wants it to be missing.
fn values(work: &Path, policy: &Policy) -> Option<String> {
    let masked = policy.credentials.iter().filter_map(|one| {
        let CredentialKind::Masked { headers } = &one.kind else { return None };
        Some(json!({
            "name": one.name, "surrogate": surrogate(&one.name), "value": value(&one.name), "hosts": one.scopes,
            "headers": headers, "methods": one.methods, "paths": one.paths, "allow_foreign": one.allow_foreign,
        }))
    });
    let masked: Vec<_> = masked.collect();
    let pair = |name: &str| json!({ "surrogate": surrogate(name), "value": value(name) });
    let signing =
        policy.credentials.iter().filter(|one| matches!(one.kind, CredentialKind::AwsSigv4 { .. })).map(|one| {
            json!({
                "name": one.name, "hosts": one.scopes, "methods": one.methods, "paths": one.paths,
                "allow_foreign": one.allow_foreign, "access_key_id": pair("ID"), "secret_access_key": pair("SECRET"),
                "session_token": pair("TOKEN"),
            })
        });
    let signing: Vec<_> = signing.collect();
    let missing = policy.credentials.iter().any(|one| one.name == "MISSING");
    (!policy.credentials.is_empty() && !missing)
        .then(|| json!({ "masked": masked, "aws": signing, "github": apps(work, policy) }).to_string())
}
