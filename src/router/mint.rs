//! Certificates for inspected hosts, created at the handshake by the session's CA.
//!
//! The CA's key is in the router's memory and in the session's materials, never on a disk. With it, an attacker could
//! impersonate the names that the CA's constraints permit, towards this session's agent only. The router has the
//! credentials for those hosts anyway.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use rcgen::{
    CertificateParams, DistinguishedName, DnType, DnValue, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::client::danger::ServerCertVerifier as _;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// The number of cached leaves.
const MOST: usize = 1024;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How far a client's clock may be behind.
const BACK_DATED: Duration = DAY;

/// Longer than a forgotten session, and shorter than clients accept (Apple: 825 days).
const VALID: Duration = Duration::from_secs(365 * DAY.as_secs());

/// The session's CA.
pub struct Mint {
    issuer: Issuer<'static, KeyPair>,
    ca: CertificateDer<'static>,
    /// One key for all leaves, which never leaves this process.
    key: KeyPair,
    signer: Arc<dyn rustls::sign::SigningKey>,
    leaves: Mutex<HashMap<String, Arc<CertifiedKey>>>,
}

impl fmt::Debug for Mint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mint")
    }
}

impl Mint {
    /// Reads the CA's certificate and key, both as PEM.
    pub fn read(pem: &[u8]) -> Result<Self, String> {
        let ca = CertificateDer::from_pem_slice(pem).map_err(|_| "it has no certificate".to_owned())?.into_owned();
        let key = PrivateKeyDer::from_pem_slice(pem).map_err(|_| "it has no private key".to_owned())?;
        let key = KeyPair::try_from(&key).map_err(|_| "its key cannot be used".to_owned())?;
        let mut params = CertificateParams::default();
        params.distinguished_name = subject(&ca).ok_or("its certificate's subject cannot be read")?;
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        if let Some(identifier) = key_identifier(&ca) {
            params.key_identifier_method = KeyIdMethod::PreSpecified(identifier);
        }
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate().map_err(|error| error.to_string())?;
        let der = PrivateKeyDer::try_from(key.serialize_der()).map_err(str::to_owned)?;
        let signer = rustls::crypto::ring::sign::any_ecdsa_type(&der).map_err(|error| error.to_string())?;
        Ok(Self { issuer, ca, key, signer, leaves: Mutex::default() })
    }

    /// Creates a leaf and lets a client's verifier check it.
    pub fn check(&self, name: &str) -> Result<(), String> {
        let leaf = self.make(name).ok_or("it cannot sign")?;
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.ca.clone()).map_err(|error| error.to_string())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = rustls::client::WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|error| error.to_string())?;
        let name = ServerName::try_from(name.to_owned()).map_err(|error| error.to_string())?;
        let [leaf, ..] = leaf.cert.as_slice() else { return Err("it made no certificate".to_owned()) };
        verifier.verify_server_cert(leaf, &[], &name, &[], UnixTime::now()).map_err(|error| error.to_string())?;
        Ok(())
    }

    /// A new certificate for a host, DER; none where none can be made.
    pub fn certificate(&self, name: &str) -> Option<Vec<u8>> {
        self.make(name)?.cert.first().map(|leaf| leaf.as_ref().to_vec())
    }

    /// The certificate of a host.
    fn leaf(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        let mut leaves = self.leaves.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = leaves.get(name) {
            return Some(Arc::clone(known));
        }
        let leaf = Arc::new(self.make(name)?);
        if leaves.len() >= MOST {
            leaves.clear();
        }
        leaves.insert(name.to_owned(), Arc::clone(&leaf));
        Some(leaf)
    }

    fn make(&self, name: &str) -> Option<CertifiedKey> {
        let mut params = CertificateParams::new(vec![name.to_owned()]).ok()?;
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let epoch = date_time_ymd(1970, 1, 1);
        params.not_before = epoch + since.saturating_sub(BACK_DATED);
        params.not_after = epoch + since + VALID;
        // For people alone: clients read the alternative name.
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "sandboxc session");
        // Set explicitly, so that the certificate gets a key identifier.
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let leaf = params.signed_by(&self.key, &self.issuer).ok()?;
        Some(CertifiedKey::new(vec![leaf.der().clone(), self.ca.clone()], Arc::clone(&self.signer)))
    }
}

impl ResolvesServerCert for Mint {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name()?;
        let name = name.strip_suffix('.').unwrap_or(name);
        self.leaf(&name.to_ascii_lowercase())
    }
}

/// The subject of a certificate whose parts are single texts (RFC 5280 4.1.2.4).
fn subject(ca: &CertificateDer<'_>) -> Option<DistinguishedName> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(ca.clone()).ok()?;
    let anchor = roots.roots.first()?;
    let mut names: &[u8] = anchor.subject.as_ref();
    // The store keeps the name with its own header.
    if let Some((0x30, content, [])) = tlv(names) {
        names = content;
    }
    let mut name = DistinguishedName::new();
    while !names.is_empty() {
        let (0x31, set, rest) = tlv(names)? else { return None };
        names = rest;
        let (0x30, pair, []) = tlv(set)? else { return None };
        let (6, oid, value) = tlv(pair)? else { return None };
        let (tag, text, []) = tlv(value)? else { return None };
        let text = std::str::from_utf8(text).ok()?.to_owned();
        let kind = match oid {
            [0x55, 4, 3] => DnType::CommonName,
            [0x55, 4, 10] => DnType::OrganizationName,
            _ => return None,
        };
        let value = match tag {
            12 => DnValue::Utf8String(text),
            19 => DnValue::PrintableString(text.try_into().ok()?),
            _ => return None,
        };
        name.push(kind, value);
    }
    Some(name)
}

/// A value of DER: tag, content, and the rest.
fn tlv(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let [tag, length, rest @ ..] = bytes else { return None };
    let (length, rest) = match length {
        0..=0x7f => (usize::from(*length), rest),
        0x81 => (usize::from(*rest.first()?), rest.get(1..)?),
        0x82 => (usize::from(u16::from_be_bytes([*rest.first()?, *rest.get(1)?])), rest.get(2..)?),
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((*tag, content, rest))
}

/// A request that changes nothing and has no body may be sent twice, since its connection may have been closed when it
/// was sent.
fn key_identifier(ca: &[u8]) -> Option<Vec<u8>> {
    let oid = [6, 3, 0x55, 0x1d, 0x0e];
    let at = ca.windows(oid.len()).position(|window| window == oid)?;
    let (4, content, _) = tlv(ca.get(at + oid.len()..)?)? else { return None };
    let (4, identifier, []) = tlv(content)? else { return None };
    Some(identifier.to_vec())
}
