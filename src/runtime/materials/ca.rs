//! The session's CA: created, used and dropped in memory. Only its certificate and the leaves' keys leave this module.

use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    GeneralSubtree, IsCa, KeyPair, KeyUsagePurpose, NameConstraints, date_time_ymd,
};

use crate::pem;
use crate::plan::Leaf;
use crate::runtime::RuntimeError;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How far a client's clock may be behind.
const BACK_DATED: Duration = DAY;

/// Longer than any session.
const VALID: Duration = Duration::from_secs(365 * DAY.as_secs());

/// The certificates and keys. The CA's key has been dropped.
pub(super) struct Minted {
    /// The CA's certificate, as DER.
    pub(super) ca: Vec<u8>,
    /// For each leaf, its file name, and a PEM text with the leaf, the CA and the leaf's key.
    pub(super) leaves: Vec<(String, String)>,
}

/// Creates a CA that is constrained to the leaves' names, and the leaves.
pub(super) fn mint(session: &str, leaves: &[Leaf], now: SystemTime) -> Result<Minted, RuntimeError> {
    let failed = |error: rcgen::Error| RuntimeError::Host(format!("creating the session's certificates: {error}"));
    let ca = CertifiedIssuer::self_signed(authority(session, leaves, now), KeyPair::generate().map_err(failed)?)
        .map_err(failed)?;
    let mut minted = Minted { ca: ca.as_ref().der().to_vec(), leaves: Vec::new() };
    for leaf in leaves {
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = server(leaf, now).map_err(failed)?.signed_by(&key, &ca).map_err(failed)?;
        let text = [
            pem::encode("CERTIFICATE", certificate.der()),
            pem::encode("CERTIFICATE", &minted.ca),
            pem::encode("PRIVATE KEY", key.serialized_der()),
        ];
        minted.leaves.push((leaf.file.clone(), text.concat()));
    }
    Ok(minted)
}

fn authority(session: &str, leaves: &[Leaf], now: SystemTime) -> CertificateParams {
    let mut params = dated(now);
    params.distinguished_name.push(DnType::CommonName, format!("sandboxc session {session}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let mut bases: Vec<&str> = leaves.iter().map(|leaf| leaf.base.as_str()).collect();
    bases.sort_unstable();
    bases.dedup();
    if bases.is_empty() {
        // There are credentials, but no host that they could be sent to: constrain the CA to a reserved name (RFC
        // 2606).
        bases.push("invalid");
    }
    params.name_constraints = Some(NameConstraints {
        permitted_subtrees: bases.into_iter().map(|base| GeneralSubtree::DnsName(base.to_owned())).collect(),
        excluded_subtrees: Vec::new(),
    });
    params
}

fn server(leaf: &Leaf, now: SystemTime) -> Result<CertificateParams, rcgen::Error> {
    let mut params = dated(now);
    params.subject_alt_names = CertificateParams::new(vec![leaf.dns.clone()])?.subject_alt_names;
    // No common name: clients that still read it would check it against the CA's name constraints.
    params.distinguished_name.push(DnType::OrganizationName, "sandboxc session");
    // Set explicitly, so that the certificate gets a key identifier.
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    Ok(params)
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
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use super::*;

    fn leaf(file: &str, dns: &str, base: &str) -> Leaf {
        Leaf { file: file.to_owned(), dns: dns.to_owned(), base: base.to_owned() }
    }

    fn openssl(args: &[&str], input: &str) -> String {
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

    #[test]
    fn the_chain_is_what_strict_clients_ask_for() {
        let leaves =
            [leaf("api.example.com", "api.example.com", "api.example.com"), leaf("_.x.test", "*.x.test", "x.test")];
        let minted = mint("s", &leaves, SystemTime::now()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let ca = dir.path().join("ca.pem");
        std::fs::write(&ca, pem::encode("CERTIFICATE", &minted.ca)).unwrap();
        let verify = |text: &str, name: &str| {
            let args = ["verify", "-x509_strict", "-purpose", "sslserver", "-verify_hostname", name, "-CAfile"];
            openssl(&[&args[..], &[ca.to_str().unwrap()]].concat(), text)
        };
        assert!(verify(&minted.leaves[0].1, "api.example.com").ends_with("OK\n"));
        assert!(!verify(&minted.leaves[0].1, "www.example.com").ends_with("OK\n"));
        assert!(verify(&minted.leaves[1].1, "a.x.test").ends_with("OK\n"));
        let text = openssl(&["x509", "-noout", "-text"], &pem::encode("CERTIFICATE", &minted.ca));
        for part in
            ["Basic Constraints: critical", "Key Usage: critical", "Name Constraints", "DNS:x.test", "pathlen:0"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        let text = openssl(&["x509", "-noout", "-text"], &minted.leaves[0].1);
        for part in ["TLS Web Server Authentication", "Subject Key Identifier", "Authority Key Identifier", "CA:FALSE"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    /// The name constraint enforces this, not our own care: the CA cannot sign for another name.
    #[test]
    fn a_leaf_for_another_name_is_refused_by_clients() {
        let now = SystemTime::now();
        let ours = [leaf("api.example.com", "api.example.com", "api.example.com")];
        let ca = CertifiedIssuer::self_signed(authority("s", &ours, now), KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let other = server(&leaf("bank.test", "bank.test", "bank.test"), now).unwrap().signed_by(&key, &ca).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.pem");
        std::fs::write(&path, pem::encode("CERTIFICATE", ca.as_ref().der())).unwrap();
        let said = openssl(&["verify", "-CAfile", path.to_str().unwrap()], &pem::encode("CERTIFICATE", other.der()));
        assert!(said.contains("permitted subtree violation"), "{said}");
    }

    //
    /// a new certificate must be valid for a client whose clock is behind.
    #[test]
    fn certificates_are_valid_for_a_clock_that_is_behind() {
        let minted = mint("s", &[leaf("a.test", "a.test", "a.test")], SystemTime::now()).unwrap();
        for text in [&pem::encode("CERTIFICATE", &minted.ca), &minted.leaves[0].1] {
            let dir = tempfile::tempdir().unwrap();
            let ca = dir.path().join("ca.pem");
            std::fs::write(&ca, pem::encode("CERTIFICATE", &minted.ca)).unwrap();
            let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
            let at = |seconds: u64| {
                openssl(&["verify", "-attime", &seconds.to_string(), "-CAfile", ca.to_str().unwrap()], text)
            };
            assert!(at(since - 23 * 3600).ends_with("OK\n"));
            assert!(at(since + 300 * 24 * 3600).ends_with("OK\n"));
            assert!(!at(since - 25 * 3600).ends_with("OK\n"));
        }
    }
}
