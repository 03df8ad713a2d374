//! PEM (RFC 7468), as far as certificates and keys need it.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use sha1::Sha1;
use sha2::{Digest as _, Sha256};
use thiserror::Error;

/// A block of PEM whose content does not match its label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a damaged certificate")]
pub struct Damaged;

/// Writes one block.
pub fn encode(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut pem = format!("-----BEGIN {label}-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, more) = rest.split_at(rest.len().min(64));
        pem.push_str(line);
        pem.push('\n');
        rest = more;
    }
    pem.push_str(&format!("-----END {label}-----\n"));
    pem
}

/// Returns the certificates of a bundle as DER. Ignores other blocks and text between blocks.
pub fn certificates(text: &[u8]) -> impl Iterator<Item = Result<Vec<u8>, Damaged>> {
    CertificateDer::pem_slice_iter(text).map(|block| match block {
        Ok(der) if is_one_sequence(&der) => Ok(der.to_vec()),
        _ => Err(Damaged),
    })
}

/// Describes each certificate of a bundle: its subject and the SHA-256 of its DER, as `openssl x509 -fingerprint` shows
/// it without colons.
pub fn described(text: &str) -> Vec<String> {
    let describe = |der: Vec<u8>| {
        let hash: String = Sha256::digest(&der).iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}, sha256 {hash}", subject(&der).unwrap_or_else(|| "no subject".to_owned()))
    };
    certificates(text.as_bytes()).flatten().map(describe).collect()
}

/// OpenSSL's hash of each subject (`openssl x509 -hash`), by which programs find a root in a directory. Sorted, each once.
pub fn subject_hashes(text: &str) -> Vec<String> {
    let hash = |der: Vec<u8>| {
        let digest = Sha1::digest(canonical(names(&der)?)?);
        let first = digest.first_chunk::<4>().copied()?;
        Some(format!("{:08x}", u32::from_le_bytes(first)))
    };
    let all: BTreeSet<String> = certificates(text.as_bytes()).flatten().filter_map(hash).collect();
    all.into_iter().collect()
}

/// A name as OpenSSL compares it: without its own header, strings as UTF-8, in lower case, with single spaces.
fn canonical(mut names: &[u8]) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    while !names.is_empty() {
        let (_, mut set, after) = part(names)?;
        names = after;
        let mut pairs = Vec::new();
        while !set.is_empty() {
            let (_, pair, after) = part(set)?;
            set = after;
            let (_, kind, value) = part(pair)?;
            let (tag, content, _) = part(value)?;
            let value = match string(tag, content) {
                Some(text) => {
                    let is_space = |c: char| matches!(c, ' ' | '\t'..='\r');
                    let words: Vec<&str> = text.split(is_space).filter(|word| !word.is_empty()).collect();
                    element(0x0c, words.join(" ").to_ascii_lowercase().as_bytes())
                }
                None => element(tag, content),
            };
            pairs.push(element(0x30, &[element(0x06, kind), value].concat()));
        }
        pairs.sort();
        all.extend(element(0x31, &pairs.concat()));
    }
    Some(all)
}

/// The text of a string of DER, if this tag is one of those that OpenSSL turns into UTF-8.
fn string(tag: u8, content: &[u8]) -> Option<String> {
    match tag {
        0x0c | 0x13 | 0x16 | 0x1a => String::from_utf8(content.to_vec()).ok(),
        0x14 => Some(content.iter().map(|&byte| char::from(byte)).collect()),
        0x1e => {
            let units = content.chunks_exact(2).map(|unit| u16::from(unit[0]) << 8 | u16::from(unit[1]));
            char::decode_utf16(units).collect::<Result<_, _>>().ok()
        }
        _ => None,
    }
}

/// The content of a certificate's subject (RFC 5280 4.1).
fn names(der: &[u8]) -> Option<&[u8]> {
    let (_, certificate, _) = part(der)?;
    let (_, mut rest, _) = part(certificate)?;
    // The version is optional. Then: serial number, algorithm, issuer, validity, subject.
    let skipped = if rest.first() == Some(&0xa0) { 5 } else { 4 };
    for _ in 0..skipped {
        rest = part(rest)?.2;
    }
    Some(part(rest)?.1)
}

/// The names in a certificate's subject: country, organization, unit and common name.
fn subject(der: &[u8]) -> Option<String> {
    let mut names = names(der)?;
    let mut words = Vec::new();
    while let Some((_, set, after)) = part(names) {
        names = after;
        let (_, pair, _) = part(set)?;
        let (_, kind, value) = part(pair)?;
        let word = match kind {
            [0x55, 4, 3] => "CN",
            [0x55, 4, 6] => "C",
            [0x55, 4, 10] => "O",
            [0x55, 4, 11] => "OU",
            _ => continue,
        };
        let (_, text, _) = part(value)?;
        words.push(format!("{word}={}", String::from_utf8_lossy(text)));
    }
    (!words.is_empty()).then(|| words.join(", "))
}

/// The first element of DER: tag, content, and what follows.
fn part(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match usize::from(first) {
        short if short < 0x80 => (short, rest),
        long => {
            let (digits, rest) = rest.split_at_checked(long & 0x7f).filter(|(digits, _)| digits.len() <= 4)?;
            (digits.iter().fold(0, |sum, &digit| sum << 8 | usize::from(digit)), rest)
        }
    };
    let (content, after) = rest.split_at_checked(length)?;
    Some((tag, content, after))
}

/// Returns the first RSA private key as PKCS#8 PEM, converted from PKCS#1 if necessary (RFC 8017 A.1.2, RFC 5208 5).
pub fn rsa_key(text: &[u8]) -> Option<String> {
    match PrivateKeyDer::from_pem_slice(text).ok()? {
        PrivateKeyDer::Pkcs8(der) if !der.secret_pkcs8_der().is_empty() => {
            Some(encode("PRIVATE KEY", der.secret_pkcs8_der()))
        }
        PrivateKeyDer::Pkcs1(der) if !der.secret_pkcs1_der().is_empty() => {
            // Version 0, rsaEncryption without parameters.
            let head = *b"\x02\x01\x00\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00";
            let key = element(0x04, der.secret_pkcs1_der());
            Some(encode("PRIVATE KEY", &element(0x30, &[&head[..], &key].concat())))
        }
        _ => None,
    }
}

/// Whether this is exactly one DER sequence. A block that lost its end runs into the next one and is not.
fn is_one_sequence(der: &[u8]) -> bool {
    let [0x30, length, rest @ ..] = der else { return false };
    let (digits, content) = match usize::from(*length) {
        short if short < 0x80 => return short == rest.len(),
        long => match rest.split_at_checked(long & 0x7f) {
            Some((digits @ [_, ..], content)) if digits.len() <= 4 => (digits, content),
            _ => return false,
        },
    };
    digits.iter().fold(0, |sum: usize, &byte| (sum << 8) | usize::from(byte)) == content.len()
}

/// A DER element: tag, length, content.
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let digits: Vec<u8> = length.into_iter().skip_while(|&byte| byte == 0).collect();
    let mut out = vec![tag];
    match digits.as_slice() {
        [] => out.push(0),
        [short] if *short < 0x80 => out.push(*short),
        long => {
            out.push(0x80 | u8::try_from(long.len()).unwrap_or(0));
            out.extend(long);
        }
    }
    out.extend(content);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_rsa_key_of_either_form_becomes_the_same() {
        let openssl = |args: &[&str]| {
            let output = std::process::Command::new("openssl").args(args).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let path = path.to_str().unwrap();
        openssl(&["genrsa", "-out", path, "2048"]);
        let (new, old) =
            (openssl(&["pkcs8", "-topk8", "-nocrypt", "-in", path]), openssl(&["rsa", "-traditional", "-in", path]));
        assert!(old.contains("RSA PRIVATE KEY"), "{old}");
        assert_eq!(rsa_key(old.as_bytes()).unwrap(), new);
        assert_eq!(rsa_key(new.as_bytes()).unwrap(), new);
        let other = openssl(&["ecparam", "-name", "prime256v1", "-genkey", "-noout"]);
        assert!(other.contains("EC PRIVATE KEY") && rsa_key(other.as_bytes()).is_none(), "{other}");
        for damaged in ["", "-----BEGIN RSA PRIVATE KEY-----\n", &new.replace("-----END", "")] {
            assert_eq!(rsa_key(damaged.as_bytes()), None, "{damaged}");
        }
    }

    #[test]
    fn subjects_have_openssls_hashes() {
        let dir = tempfile::tempdir().unwrap();
        let (key, mut all, mut expected) = (dir.path().join("key"), String::new(), Vec::new());
        let subjects = [
            ("utf8only", "/C=DE/O=Example  GmbH /OU= Über Uns/CN=The ROOT"),
            ("default", "/CN=plain"),
            ("nombstr", "/CN=Printable Text/emailAddress=Root@Example.com"),
            ("MASK:0x800", "/CN=Grün und BMP"),
            ("MASK:0x4", "/CN=Grün und T61"),
            ("utf8only", "/CN=many/O=a+OU=B+L=c"),
        ];
        for (mask, subject) in subjects {
            let config = dir.path().join("config");
            std::fs::write(&config, format!("[req]\ndistinguished_name=d\nstring_mask={mask}\n[d]\n")).unwrap();
            let mut make = std::process::Command::new("openssl");
            make.args(["req", "-x509", "-newkey", "ed25519", "-noenc", "-utf8", "-multivalue-rdn", "-subj", subject]);
            let output = make.arg("-keyout").arg(&key).arg("-config").arg(&config).output().unwrap();
            assert!(output.status.success(), "{subject}: {}", String::from_utf8_lossy(&output.stderr));
            let pem = String::from_utf8(output.stdout).unwrap();
            std::fs::write(dir.path().join("pem"), &pem).unwrap();
            let ask = ["x509", "-noout", "-hash", "-in"];
            let output = std::process::Command::new("openssl").args(ask).arg(dir.path().join("pem")).output().unwrap();
            let hash = String::from_utf8(output.stdout).unwrap().trim().to_owned();
            assert_eq!(subject_hashes(&pem), std::slice::from_ref(&hash), "{mask} {subject}");
            all.push_str(&pem);
            expected.push(hash);
        }
        expected.sort();
        assert_eq!(subject_hashes(&(all.clone() + &all)), expected);
    }

    #[test]
    fn what_is_written_is_read_and_comments_are_not() {
        let (first, second) = (element(0x30, &[7; 100]), element(0x30, &[8; 300]));
        let pem = |der: &[u8]| encode("CERTIFICATE", der);
        let text = format!("# A root\r\n{}\nnoise\n{}", pem(&first).replace('\n', "\r\n"), pem(&second));
        let read = |text: &str| certificates(text.as_bytes()).collect::<Vec<_>>();
        assert_eq!(read(&text), [Ok(first.clone()), Ok(second.clone())]);
        assert!(encode("X", &[0; 100]).lines().all(|line| line.len() <= 64));
        assert_eq!(read(&format!("{}{}", encode("X509 CRL", &first), pem(&second))), [Ok(second)]);
    }

    #[test]
    fn a_damaged_block_is_told_from_a_certificate_and_hides_no_other() {
        let der = element(0x30, &[7; 100]);
        let (whole, begin) = (encode("CERTIFICATE", &der), "-----BEGIN CERTIFICATE-----\n");
        let no_end = whole.replace("-----END CERTIFICATE-----\n", "");
        for damaged in [
            format!("{begin}!!\n-----END CERTIFICATE-----\n"),
            format!("{begin}-----END CERTIFICATE-----\n"),
            encode("CERTIFICATE", b"text"),
            encode("CERTIFICATE", &der[..50]),
            encode("CERTIFICATE", &[0x30, 0x84, 0, 0, 0]),
        ] {
            let read: Vec<_> = certificates(format!("{damaged}{whole}").as_bytes()).map(Result::ok).collect();
            assert_eq!(read, [None, Some(der.clone())], "{damaged}");
        }
        assert!(certificates(format!("{no_end}{whole}").as_bytes()).all(|read| read == Err(Damaged)));
        assert!(certificates(no_end.as_bytes()).all(|read| read == Err(Damaged)));
    }
}
