//! Certificates: a session's, as the runtime makes them, and those of the servers behind the router.

use std::path::Path;
use std::process::Command;

use sandboxc::policy::{Policy, Scope, Tier};

/// Makes `materials` of a policy's inspected hosts, and `internet` for the servers behind the router, each with a
/// certificate authority of its own.
pub fn mint(work: &Path, policy: &Policy) {
    let names: Vec<(String, String)> = policy
        .table(443)
        .into_iter()
        .filter(|row| row.decision.tier == Tier::Inspected)
        .filter_map(|row| match row.scope {
            Scope::Host(name) => Some((name.to_string(), name.to_string())),
            Scope::Below(base) => Some((format!("_.{base}"), format!("*.{base}"))),
            Scope::Addresses | Scope::Address(_) => None,
        })
        .collect();
    if names.is_empty() {
        return;
    }
    let script = r#"
        set -euf
        umask 022
        cd "$work"
        mkdir -p materials/tls internet
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
        leaf internet internet/good.pem "DNS:secure.test,DNS:*.secure.test,DNS:*.any.secure.test"
        leaf internet internet/wrong.pem "DNS:elsewhere.test"
        leaf stranger internet/untrusted.pem "DNS:untrusted.secure.test"
        for pair in $names; do
            leaf session "materials/tls/${pair%%,*}.pem" "DNS:${pair#*,}"
        done
    "#;
    let names: Vec<String> = names.iter().map(|(file, san)| format!("{file},{san}")).collect();
    let output = Command::new("sh")
        .args(["-c", script])
        .env("work", work)
        .env("names", names.join(" "))
        .output()
        .expect("a shell");
    assert!(output.status.success(), "openssl: {}", String::from_utf8_lossy(&output.stderr));
}
