use ring::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use serde_json::Value;

use super::*;

// Made for this test with `openssl genrsa -traditional 2048`, and `openssl pkcs8 -topk8 -nocrypt` of it.
const PKCS1: &str = include_str!("../../../../tests/vectors/app.pkcs1.pem");
const PKCS8: &str = include_str!("../../../../tests/vectors/app.pkcs8.pem");

#[test]
fn a_jwt_is_back_dated_a_minute_ends_in_nine_and_verifies_whatever_the_form_of_its_key() {
    let der = PrivateKeyDer::from_pem_slice(PKCS1.as_bytes()).unwrap();
    let PrivateKeyDer::Pkcs1(der) = der else { panic!() };
    let key = RsaKeyPair::from_der(der.secret_pkcs1_der()).unwrap();
    let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.public().as_ref().to_vec());
    let text = sign("123", PKCS1, 1_767_225_600).unwrap();
    assert_eq!(sign("123", PKCS8, 1_767_225_600).unwrap(), text);
    let parts: Vec<&str> = text.split('.').collect();
    let [head, claims, signature] = parts.as_slice() else { panic!("{text}") };
    let json = |part: &str| serde_json::from_slice::<Value>(&BASE64_URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap();
    assert_eq!(json(head), json!({ "alg": "RS256", "typ": "JWT" }));
    assert_eq!(json(claims), json!({ "iat": 1_767_225_540, "exp": 1_767_226_140, "iss": "123" }));
    let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).unwrap();
    public.verify(format!("{head}.{claims}").as_bytes(), &signature).unwrap();
    assert!(public.verify(format!("{head}.{head}").as_bytes(), &signature).is_err());
}

#[test]
fn what_is_no_key_is_said_without_it() {
    for pem in ["", "no key", &PKCS8.replace("PRIVATE", "PUBLIC"), &PKCS1.replace('M', "N"), &PKCS1[..400]] {
        let error = sign("123", pem, 0).unwrap_err();
        assert!(error.starts_with("the private key ") && error.len() < 100, "{error}");
    }
}
