//! The trusted root certificates besides the session's own CA.

use std::collections::BTreeSet;
use std::fs;

use crate::pem;

/// Where distributions keep their bundle. The first one that exists is used.
const BUNDLES: [&str; 6] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/var/lib/ca-certificates/ca-bundle.pem",
];

/// Returns the system's roots (DER), or Mozilla's if the system has none, and those of `extra` (PEM), without
/// duplicates.
pub(super) fn roots(extra: Option<&str>) -> Vec<Vec<u8>> {
    let system = BUNDLES.iter().find_map(|path| {
        let found = certificates(&fs::read(path).ok()?);
        (!found.is_empty()).then_some(found)
    });
    let mozilla = || webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().map(|root| root.to_vec()).collect();
    let all = system
        .unwrap_or_else(mozilla)
        .into_iter()
        .chain(extra.map(|extra| certificates(extra.as_bytes())).unwrap_or_default());
    let mut seen = BTreeSet::new();
    all.filter(|root| seen.insert(root.clone())).collect()
}

/// Returns the certificates of a bundle. Leaves out damaged ones, which clients would refuse.
pub(super) fn certificates(text: &[u8]) -> Vec<Vec<u8>> {
    pem::certificates(text).filter_map(Result::ok).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_roots_are_added_once() {
        let extra = pem::encode("CERTIFICATE", b"\x30\x03one").repeat(2);
        let (with, without) = (roots(Some(&extra)), roots(None));
        assert!(without.len() > 50);
        assert_eq!(with.len(), without.len() + 1);
        assert_eq!(with.last().unwrap(), b"\x30\x03one");
    }
}
