//! TLS on both sides: certificates of the session's CA for clients, and the session's trusted roots for hosts.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::crypto::hash::HashAlgorithm;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::server::NoServerSessionStorage;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use super::mint::Mint;

/// `unrecognized_name` (RFC 6066 3), fatal, as a server sends it first.
pub const UNRECOGNIZED_NAME: [u8; 7] = [0x15, 3, 1, 0, 2, 2, 112];

/// ring, with AES-128 before AES-256: both are safe, and SHA-384, which comes with the latter, makes handshakes slower.
fn provider() -> Arc<CryptoProvider> {
    let mut provider = rustls::crypto::ring::default_provider();
    provider.cipher_suites.sort_by_key(|suite| {
        let hash = suite.tls13().map(|suite| suite.common.hash_provider.algorithm());
        hash == Some(HashAlgorithm::SHA384)
    });
    Arc::new(provider)
}

/// The configurations for clients: for both versions of HTTP, and for HTTP/1.1 alone.
pub fn servers(mint: Arc<Mint>) -> Result<[Arc<ServerConfig>; 2], String> {
    let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?;
    let mut config = builder.with_no_client_auth().with_cert_resolver(mint);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // TLS sessions are not resumed, so none can be resumed under another name.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.max_fragment_size = None;
    config.ignore_client_order = true;
    let mut one = config.clone();
    one.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok([Arc::new(config), Arc::new(one)])
}

/// The configurations for hosts, by the versions of HTTP that they offer.
#[derive(Clone, Debug)]
pub struct Clients {
    /// HTTP/1.1.
    pub one: Arc<ClientConfig>,
    /// HTTP/2, or else HTTP/1.1.
    pub either: Arc<ClientConfig>,
    /// HTTP/2.
    pub two: Arc<ClientConfig>,
}

/// The configurations for hosts.
pub fn clients(roots: RootCertStore) -> Result<Clients, String> {
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?;
    let config = builder.with_root_certificates(roots).with_no_client_auth();
    let offering = |protocols: &[&[u8]]| {
        let mut config = config.clone();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Arc::new(config)
    };
    Ok(Clients { one: offering(&[b"http/1.1"]), either: offering(&[b"h2", b"http/1.1"]), two: offering(&[b"h2"]) })
}

/// The certificates of a PEM text.
pub fn roots(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| error.to_string())?;
        // This library may not accept every root that another one does; the others still count.
        let _ = roots.add(certificate);
    }
    if roots.is_empty() { Err("it has no certificate".to_owned()) } else { Ok(roots) }
}

/// Mozilla's roots, for sessions without any.
pub fn built_in_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().cloned());
    roots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cheaper_cipher_is_first_and_none_is_missing() {
        let suites = provider().cipher_suites.clone();
        let all = rustls::crypto::ring::default_provider().cipher_suites;
        assert_eq!(
            suites.first().map(rustls::SupportedCipherSuite::suite),
            Some(rustls::CipherSuite::TLS13_AES_128_GCM_SHA256)
        );
        assert!(suites.len() == all.len() && all.iter().all(|one| suites.contains(one)));
    }
}
