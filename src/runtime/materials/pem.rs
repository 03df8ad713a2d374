//! PEM (RFC 7468), as far as certificates and keys need it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// One block.
pub(super) fn encode(label: &str, der: &[u8]) -> String {
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

/// The certificates of a bundle, DER. Whatever stands between them is a comment; a block that is no base64 is skipped,
/// as OpenSSL's clients of such a bundle would refuse it.
pub(super) fn certificates(text: &str) -> Vec<Vec<u8>> {
    let blocks = text.split(BEGIN).skip(1).filter_map(|rest| rest.split_once(END));
    let decode = |(block, _): (&str, &str)| {
        let base64: String = block.chars().filter(|c| !c.is_ascii_whitespace()).collect();
        STANDARD.decode(base64).ok().filter(|der| !der.is_empty())
    };
    blocks.filter_map(decode).collect()
}

/// An RSA private key as PKCS#8 PEM, whether it came so or as PKCS#1 (RFC 8017 A.1.2, RFC 5208 5).
pub(super) fn pkcs8(text: &str) -> Option<String> {
    let block = |label: &str| {
        let (_, rest) = text.split_once(&format!("-----BEGIN {label}-----"))?;
        let (block, _) = rest.split_once(&format!("-----END {label}-----"))?;
        let base64: String = block.chars().filter(|c| !c.is_ascii_whitespace()).collect();
        STANDARD.decode(base64).ok().filter(|der| !der.is_empty())
    };
    if let Some(der) = block("PRIVATE KEY") {
        return Some(encode("PRIVATE KEY", &der));
    }
    // Version 0, rsaEncryption without parameters.
    let head = *b"\x02\x01\x00\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00";
    let key = element(0x04, &block("RSA PRIVATE KEY")?);
    Some(encode("PRIVATE KEY", &element(0x30, &[&head[..], &key].concat())))
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
        assert_eq!(pkcs8(&old).unwrap(), new);
        assert_eq!(pkcs8(&new).unwrap(), new);
        assert_eq!(pkcs8("-----BEGIN EC PRIVATE KEY-----\n"), None);
    }

    #[test]
    fn what_is_written_is_read_and_comments_are_not() {
        let (first, second) = (vec![7; 100], vec![8; 48]);
        let text = format!(
            "# A root\r\n{}\nnoise\n{BEGIN}\n!!\n{END}\n{}",
            encode("CERTIFICATE", &first).replace('\n', "\r\n"),
            encode("CERTIFICATE", &second)
        );
        assert_eq!(certificates(&text), [first, second]);
        assert!(encode("X", &[0; 100]).lines().all(|line| line.len() <= 64));
    }
}
