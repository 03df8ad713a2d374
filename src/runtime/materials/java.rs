//! Writes Java's trust store in its oldest format (JKS), which every JDK still reads
//! (`sun.security.provider.JavaKeyStore`).
//!
//! It is a list of certificates with a digest. Crates for it would bring a complete reader of private keys.

use std::time::{Duration, SystemTime};

use sha1::{Digest as _, Sha1};

/// The password that every JDK assumes for its trust store. It protects nothing: the content is public.
const PASSWORD: &str = "changeit";

/// Returns a store that trusts these certificates (DER).
pub(super) fn store<'a>(certificates: impl ExactSizeIterator<Item = &'a [u8]>, now: SystemTime) -> Vec<u8> {
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let millis = u64::try_from(since.as_millis()).unwrap_or(0);
    let mut out = Vec::new();
    let number = |out: &mut Vec<u8>, value: usize| out.extend(u32::try_from(value).unwrap_or(u32::MAX).to_be_bytes());
    out.extend(0xFEED_FEED_u32.to_be_bytes());
    number(&mut out, 2);
    number(&mut out, certificates.len());
    for (index, certificate) in certificates.enumerate() {
        // A trusted certificate: alias, date, type, content.
        number(&mut out, 2);
        text(&mut out, &format!("root-{index}"));
        out.extend(millis.to_be_bytes());
        text(&mut out, "X.509");
        number(&mut out, certificate.len());
        out.extend(certificate);
    }
    let mut digest = Sha1::new();
    digest.update(PASSWORD.encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<u8>>());
    digest.update("Mighty Aphrodite");
    digest.update(&out);
    out.extend(digest.finalize());
    out
}

/// Writes the length as two bytes, followed by the text, which is ASCII.
fn text(out: &mut Vec<u8>, text: &str) {
    out.extend(u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes());
    out.extend(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_as_documented() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_millis(258);
        let bytes = store([&[0xAA_u8, 0xBB][..]].into_iter(), now);
        let expected = b"\xfe\xed\xfe\xed\0\0\0\x02\0\0\0\x01\0\0\0\x02\0\x06root-0\0\0\0\0\0\0\x01\x02\0\x05X.509\0\0\0\x02\xaa\xbb";
        assert_eq!(&bytes[..expected.len()], expected);
        assert_eq!(bytes.len(), expected.len() + 20);
    }
}
