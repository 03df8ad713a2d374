//! The token with which a GitHub App authenticates: a JWT (RFC 7519), RS256.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::json;

/// Signs for an App at a time in seconds since 1970. Issued one minute ago, since clocks differ, and valid for nine
/// minutes, since GitHub accepts at most ten. The key is PKCS#1 or PKCS#8 as PEM, with at least 2048 bits.
pub(super) fn sign(issuer: &str, pem: &str, now: i64) -> Result<String, String> {
    let key = match PrivateKeyDer::from_pem_slice(pem.as_bytes()) {
        Ok(PrivateKeyDer::Pkcs1(der)) => RsaKeyPair::from_der(der.secret_pkcs1_der()),
        Ok(PrivateKeyDer::Pkcs8(der)) => RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()),
        _ => return Err("the private key is neither PKCS#1 nor PKCS#8 in PEM".to_owned()),
    };
    let key = key.map_err(|error| format!("the private key cannot sign with RS256: {error}"))?;
    let encoded = |value: serde_json::Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let claims = json!({ "iat": now - 60, "exp": now + 540, "iss": issuer });
    let text = format!("{}.{}", encoded(json!({ "alg": "RS256", "typ": "JWT" })), encoded(claims));
    let mut signature = vec![0; key.public().modulus_len()];
    let signed = key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature);
    signed.map_err(|_| "the private key cannot sign".to_owned())?;
    Ok(format!("{text}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature)))
}

#[cfg(test)]
mod tests;
