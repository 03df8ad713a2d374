//! The session's CA. Only the router gets its key; it creates a certificate when a client connects to an inspected host.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, GeneralSubtree, IsCa, KeyPair, KeyUsagePurpose,
    NameConstraints, date_time_ymd,
};

use crate::pem;
use crate::plan::trust;
use crate::policy::EVERY_NAME;
use crate::runtime::RuntimeError;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How far a client's clock may be behind.
const BACK_DATED: Duration = DAY;

/// Longer than any session.
const VALID: Duration = Duration::from_secs(365 * DAY.as_secs());

/// A session's CA.
pub(super) struct Authority {
    /// The certificate, as DER.
    pub(super) certificate: Vec<u8>,
    /// The key, as PEM, for the router only.
    pub(super) key: String,
}

/// Creates a CA that is constrained to these names and their subdomains. With `*` among them, it has no constraint: clients
/// disagree about an empty name in one.
pub(super) fn make(scopes: &BTreeSet<String>, now: SystemTime) -> Result<Authority, RuntimeError> {
    let failed = |error: rcgen::Error| RuntimeError::Host(format!("creating the session's CA: {error}"));
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = authority(scopes, now).self_signed(&key).map_err(failed)?;
    let key = pem::encode("PRIVATE KEY", key.serialized_der());
    Ok(Authority { certificate: certificate.der().to_vec(), key })
}

fn authority(scopes: &BTreeSet<String>, now: SystemTime) -> CertificateParams {
    let mut params = dated(now);
    params.distinguished_name.push(DnType::CommonName, trust::CA_SUBJECT);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let mut bases: Vec<&str> = scopes.iter().map(String::as_str).collect();
    if bases.is_empty() {
        // There are credentials, but no host that they could be sent to: constrain the CA to a reserved name (RFC
        // 2606).
        bases.push("invalid");
    }
    params.name_constraints = (!bases.contains(&EVERY_NAME)).then(|| NameConstraints {
        permitted_subtrees: bases.into_iter().map(|base| GeneralSubtree::DnsName(base.to_owned())).collect(),
        excluded_subtrees: Vec::new(),
    });
    params
}

fn dated(now: SystemTime) -> CertificateParams {
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let epoch = date_time_ymd(1970, 1, 1);
    let mut params = CertificateParams::default();
    params.not_before = epoch + since.saturating_sub(BACK_DATED);
    params.not_after = epoch + since + VALID;
    params.distinguished_name = DistinguishedName::new();
    params
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::router::mint::Mint;

    fn scopes(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn openssl(args: &[&str], input: &str) -> String {
        use std::io::Write as _;
        let mut child = Command::new("openssl")
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }

    /// A leaf of the router's, as `openssl verify` looks at it; more arguments come before the name.
    fn verified(authority: &Authority, name: &str, args: &[&str]) -> String {
        let pem = pem::encode("CERTIFICATE", &authority.certificate);
        let mint = Mint::read(format!("{pem}{}", authority.key).as_bytes()).unwrap();
        let leaf = pem::encode("CERTIFICATE", &mint.certificate(name).unwrap());
        let dir = tempfile::tempdir().unwrap();
        let ca = dir.path().join("ca.pem");
        std::fs::write(&ca, pem).unwrap();
        let fixed = ["verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", ca.to_str().unwrap()];
        openssl(&[&fixed[..], args].concat(), &leaf)
    }

    #[test]
    fn the_chain_is_what_strict_clients_ask_for() {
        let authority = make(&scopes(&["api.example.com", "x.test"]), SystemTime::now()).unwrap();
        let is_good =
            |leaf: &str, asked: &str| verified(&authority, leaf, &["-verify_hostname", asked]).ends_with("OK\n");
        assert!(is_good("api.example.com", "api.example.com") && !is_good("api.example.com", "www.example.com"));
        assert!(is_good("c.b.a.x.test", "c.b.a.x.test"), "as deep as any");
        let text = openssl(&["x509", "-noout", "-text"], &pem::encode("CERTIFICATE", &authority.certificate));
        for part in
            ["Basic Constraints: critical", "Key Usage: critical", "Name Constraints", "DNS:x.test", "pathlen:0"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    /// Containers inside find the CA by this hash.
    #[test]
    fn the_hash_of_the_subject_is_the_same_in_every_session() {
        for scopes in [scopes(&["a.test"]), scopes(&["*"])] {
            let pem = pem::encode("CERTIFICATE", &make(&scopes, SystemTime::now()).unwrap().certificate);
            assert_eq!(openssl(&["x509", "-noout", "-hash"], &pem).trim(), trust::CA_HASH);
        }
    }

    /// The name constraint enforces this, not our own care: the CA cannot sign for another name.
    #[test]
    fn a_leaf_for_another_name_is_refused_by_clients() {
        let authority = make(&scopes(&["api.example.com"]), SystemTime::now()).unwrap();
        let said = verified(&authority, "bank.test", &[]);
        assert!(said.contains("permitted subtree violation"), "{said}");
        let none = make(&scopes(&[]), SystemTime::now()).unwrap();
        let said = verified(&none, "bank.test", &[]);
        assert!(said.contains("permitted subtree violation"), "{said}");
    }

    #[test]
    fn a_rule_about_every_host_needs_a_ca_for_every_host() {
        let authority = make(&scopes(&["*", "api.example.com"]), SystemTime::now()).unwrap();
        for name in ["bank.test", "api.example.com", "d.c.b.a.test"] {
            assert!(verified(&authority, name, &["-verify_hostname", name]).ends_with("OK\n"), "{name}");
        }
    }

    //
    /// a new certificate must be valid for a client whose clock is behind.
    #[test]
    fn certificates_are_valid_for_a_clock_that_is_behind() {
        let authority = make(&scopes(&["a.test"]), SystemTime::now()).unwrap();
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let at = |seconds: u64| verified(&authority, "a.test", &["-attime", &seconds.to_string()]).ends_with("OK\n");
        assert!(at(since - 23 * 3600) && at(since + 300 * 24 * 3600));
        assert!(!at(since - 25 * 3600));
    }
}
