//! Checks of single values: pure functions from text to "valid" or the words of a finding.

use std::path::{Component, Path};

use super::read::shorten;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::pem;
use crate::source::Span;

/// Why a value is invalid, and what to write instead.
pub(super) struct Bad {
    pub(super) message: String,
    pub(super) help: String,
}

impl Bad {
    pub(super) fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), help: help.into() }
    }
}

/// Reports the result of checking a value.
pub(super) fn checked(result: Result<(), Bad>, code: Code, span: Span, d: &mut Diagnostics) -> Option<()> {
    result.map_err(|bad| d.push(Diagnostic::new(code, bad.message).at(span, "").help(bad.help))).ok()
}

/// The finding for a path that cannot be used.
pub(super) fn path_finding(problem: &str, span: Span, help: &str) -> Diagnostic {
    Diagnostic::new(Code::BadPath, problem).at(span, "").help(help)
}

/// Why a text is not an unambiguous absolute path, if so.
pub(super) fn absolute_problem(text: &str, path: &Path) -> Option<String> {
    if text.starts_with('~') || text.contains('$') {
        return Some("`~` and `$` are not expanded in paths".to_owned());
    }
    if text.chars().any(char::is_control) {
        return Some("the path contains a control character".to_owned());
    }
    if !path.is_absolute() {
        return Some("the path is not absolute".to_owned());
    }
    let parent = path.components().any(|c| matches!(c, Component::ParentDir));
    parent.then(|| "the path contains `..`".to_owned())
}

/// Whether the string survives podman's parsing of a manifest. podman decodes the YAML, encodes it and decodes it
/// again. In the second step, a string loses its first line break or its first spaces (or makes the file unreadable) if
/// it contains a line feed and starts with a space, a line feed, a tab, NEL, U+2028 or U+2029 (spaces: seen with podman
/// 5.4.2).
pub fn survives_podman(text: &str) -> bool {
    !(text.contains('\n') && text.starts_with([' ', '\n', '\t', '\u{85}', '\u{2028}', '\u{2029}']))
}

/// A name of an environment variable, without the reserved prefix.
pub(super) fn env_name(name: &str) -> Result<(), Bad> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(word) || name.starts_with(|c: char| c.is_ascii_digit()) {
        let message = format!("`{}` is not a valid name of an environment variable", shorten(name));
        return Err(Bad::new(message, "use letters, digits and `_`, and do not start with a digit"));
    }
    if name.starts_with("SANDBOXC_") {
        return Err(Bad::new(
            format!("`{}` is reserved", shorten(name)),
            "choose a name that does not start with `SANDBOXC_`",
        ));
    }
    Ok(())
}

/// Variables that sandboxc sets itself or that control how everything inside runs. Secrets cannot use them.
const RESERVED: [&str; 32] = [
    "APT_CONFIG",
    "AWS_CA_BUNDLE",
    "BASH_ENV",
    "CARGO_HTTP_CAINFO",
    "CURL_CA_BUNDLE",
    "DENO_CERT",
    "DENO_TLS_CA_STORE",
    "ENV",
    "GIT_SSL_CAINFO",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "HOME",
    "HOSTNAME",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "IFS",
    "IS_SANDBOX",
    "JAVA_TOOL_OPTIONS",
    "LOGNAME",
    "NODE_EXTRA_CA_CERTS",
    "NODE_OPTIONS",
    "PATH",
    "PIP_CERT",
    "PWD",
    "PYTHONPATH",
    "REQUESTS_CA_BUNDLE",
    "SHELL",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "SYSTEM_WGETRC",
    "TERM",
    "USER",
    "container",
];

/// A name of a variable that may contain a secret or a surrogate.
pub(super) fn secret_name(name: &str) -> Result<(), Bad> {
    env_name(name)?;
    if RESERVED.contains(&name) || name.starts_with("LD_") {
        let message = format!("`{}` controls how programs run, so a secret cannot use this name", shorten(name));
        return Err(Bad::new(message, "name it after its purpose, as in `NPM_TOKEN`"));
    }
    Ok(())
}

/// A name that only appears in logs.
pub(super) fn label(name: &str) -> Result<(), Bad> {
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    match !name.is_empty() && name.len() <= 64 && name.chars().all(word) {
        true => Ok(()),
        false => Err(Bad::new(
            format!("`{}` is not a valid name", shorten(name)),
            "use at most 64 letters, digits, `.`, `_` and `-`",
        )),
    }
}

/// Headers that cannot carry a credential and that a connection needs for itself (RFC 9110 7.6.1).
const NO_CREDENTIAL: [&str; 20] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "date",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
];

/// A header that may carry a credential, in lower case.
pub(super) fn header_name(text: &str) -> Result<String, Bad> {
    let token = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    let name = text.to_ascii_lowercase();
    if name.is_empty() || name.len() > 64 || !name.bytes().all(token) {
        let message = format!("`{}` is not a header name", shorten(text));
        return Err(Bad::new(message, "write e.g. `authorization` or `x-api-key`"));
    }
    if NO_CREDENTIAL.contains(&name.as_str()) {
        let message = format!("the header `{name}` cannot carry a credential");
        return Err(Bad::new(message, "use the header that the service expects, e.g. `authorization` or `x-api-key`"));
    }
    Ok(name)
}

/// An image reference: a registry or `localhost/`, a path, and a tag or digest.
pub(super) fn image_reference(text: &str) -> Result<(), Bad> {
    let shown = shorten(text);
    let bad = |why: &str| {
        // What Docker means by a short name, if that is all that is missing.
        let full = format!("docker.io/{}{text}", if text.contains('/') { "" } else { "library/" });
        let meant = (shown.len() < 60 && full_reference(&full).is_ok()).then_some(full);
        let help = meant.map_or_else(
            || "write e.g. `docker.io/library/debian:trixie-slim`".to_owned(),
            |meant| format!("write `{meant}`"),
        );
        Bad::new(format!("`{shown}` is not a full image reference: {why}"), help)
    };
    full_reference(text).map_err(bad)
}

/// Why a text is not a full reference.
fn full_reference(text: &str) -> Result<(), &'static str> {
    let (name, digest) = text.split_once('@').map_or((text, None), |(name, digest)| (name, Some(digest)));
    let hex = |d: &str| {
        d.strip_prefix("sha256:")
            .is_some_and(|h| h.len() == 64 && h.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))
    };
    if !digest.is_none_or(hex) {
        return Err("the digest is not `sha256:` and 64 hex digits");
    }
    let Some((registry, rest)) = name.split_once('/') else { return Err("it has no registry") };
    if !(registry == "localhost" || registry.contains(['.', ':'])) || !registry.bytes().all(is_registry_byte) {
        return Err("it has no registry");
    }
    let (path, tag) = rest.rsplit_once(':').map_or((rest, None), |(path, tag)| (path, Some(tag)));
    let component = |c: &str| {
        c.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            && c.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b))
    };
    if !path.split('/').all(component) {
        return Err("its path may contain lowercase letters, digits, `.`, `_`, `-` and `/`");
    }
    let tag_is_good = |t: &str| {
        (1..=128).contains(&t.len())
            && t.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
            && !t.starts_with(['.', '-'])
    };
    if !tag.is_none_or(tag_is_good) {
        return Err("its tag is invalid");
    }
    if tag.is_none() && digest.is_none() {
        return Err("it has no tag, so its meaning would change over time");
    }
    Ok(())
}

fn is_registry_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b".:-".contains(&b)
}

/// A name of a podman volume.
pub(super) fn volume_name(text: &str) -> Result<(), Bad> {
    let inner = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
    if text.len() <= 128 && text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.bytes().all(inner) {
        return Ok(());
    }
    Err(Bad::new(format!("`{}` is not a volume name", shorten(text)), "use letters, digits, `_`, `.` and `-`"))
}

/// An absolute path of the host.
pub(super) fn plain_path(text: &str) -> Result<(), Bad> {
    if text.starts_with('/') && !text.chars().any(char::is_control) {
        return Ok(());
    }
    Err(Bad::new(format!("`{}` is not an absolute path", shorten(text)), "write an absolute path"))
}

/// A path of a file, absolute or not.
pub(super) fn plain_file(text: &str) -> Result<(), Bad> {
    match text.is_empty() || text.starts_with('~') || text.contains('$') || text.chars().any(char::is_control) {
        false => Ok(()),
        true => Err(Bad::new(format!("`{}` is not a path; `~` and `$` are not expanded", shorten(text)), "")),
    }
}

/// The certificates of a PEM text, without anything else.
pub(super) fn certificates(text: &str) -> Result<String, Bad> {
    if text.contains("PRIVATE KEY-----") {
        return Err(Bad::new("contains a private key; remove it, the router needs certificates only", ""));
    }
    let certificates: Result<Vec<_>, _> = pem::certificates(text.as_bytes()).collect();
    match certificates {
        Err(pem::Damaged) => Err(Bad::new("contains a damaged certificate", "")),
        Ok(none) if none.is_empty() => Err(Bad::new("contains no certificate", "")),
        Ok(all) => Ok(all.iter().map(|der| pem::encode("CERTIFICATE", der)).collect()),
    }
}

/// The smallest memory limit in bytes with which a program can start.
pub(super) const LEAST_MEMORY: u64 = 4 << 20;

/// `512m`, `4g`: a whole number and one of b, k, m, g. Returns bytes.
pub(super) fn memory(text: &str) -> Result<u64, Bad> {
    let bad = || {
        let help = match usual_memory(text) {
            Some(usual) => format!("write \"{usual}\""),
            None => "write a whole number and one of b, k, m, g, as in `512m` or `4g`".to_owned(),
        };
        Bad::new("not an amount of memory", help)
    };
    let (digits, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(bad)?;
    let shift = match unit {
        "b" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        _ => return Err(bad()),
    };
    if digits.is_empty() || digits.starts_with('0') || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(bad());
    }
    let number: u64 = digits.parse().map_err(|_| bad())?;
    let bytes = number.checked_mul(1 << shift).filter(|&b| i64::try_from(b).is_ok());
    let bytes = bytes.ok_or_else(|| Bad::new("too large", "write e.g. `64g`"))?;
    if bytes < LEAST_MEMORY {
        return Err(Bad::new("too small for any program", "write at least `4m`"));
    }
    Ok(bytes)
}

/// Seconds, at least one: a number of seconds, or a number with a unit: `90s`, `30m`, `30min`, `0.5h`, `1d`.
pub fn duration(text: &str) -> Option<u64> {
    let at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(at)?;
    let factor = match unit {
        "" | "s" | "sec" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        "d" => 24 * 3600,
        _ => return None,
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| (1..=9).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(part) {
        return None;
    }
    let (whole, size): (u64, u64) = (whole.parse().ok()?, 10_u64.checked_pow(u32::try_from(part.len()).ok()?)?);
    let rest = part.parse::<u64>().ok()?.checked_mul(factor)?;
    // Half a second has no whole number of seconds.
    let seconds = whole.checked_mul(factor)?.checked_add(rest / size)?;
    (rest.is_multiple_of(size) && seconds > 0).then_some(seconds)
}

/// `4GB`, `4Gi`, `4 GiB` and `4G` as we write them. All of them mean powers of two here, as podman reads `g`.
fn usual_memory(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let (digits, unit) = lower.split_at(lower.find(|c: char| !c.is_ascii_digit())?);
    let unit = match unit.trim() {
        "g" | "gb" | "gi" | "gib" => "g",
        "m" | "mb" | "mi" | "mib" => "m",
        "k" | "kb" | "ki" | "kib" => "k",
        _ => return None,
    };
    let usual = format!("{digits}{unit}");
    (usual != text && memory(&usual).is_ok()).then_some(usual)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_references() {
        let digest = format!("quay.io/x/y@sha256:{}", "a1".repeat(32));
        for good in ["docker.io/library/debian:trixie-slim", "localhost/x:latest", "reg:5000/a/b:1", digest.as_str()] {
            assert!(image_reference(good).is_ok(), "{good}");
        }
        for bad in [
            "debian",
            "debian:12",
            "library/debian:12",
            "docker.io/debian",
            "docker.io/Debian:1",
            "docker.io/a b:1",
            "docker.io/a:b:c",
            "docker.io/:1",
            "docker.io/a@sha256:12",
            "",
            "-x.y/a:1 --privileged",
            "docker.io//a:1",
        ] {
            assert!(image_reference(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn amounts_of_memory() {
        let value = |t: &str| memory(t).ok();
        assert_eq!(value("512m"), Some(512 << 20));
        assert_eq!(value("4g"), Some(4 << 30));
        assert_eq!(value("4194304b"), Some(4 << 20));
        for bad in [
            "",
            "g",
            "512",
            "512M",
            "4GiB",
            "4gb",
            "0.5g",
            "-1g",
            "+1g",
            "0g",
            "01g",
            "4 g",
            "3m",
            "99999999999g",
            "1é",
        ] {
            assert_eq!(value(bad), None, "{bad}");
        }
    }

    #[test]
    fn podman_loses_some_strings() {
        for bad in ["\na", "\ta\nb", " a\nb", "   a\n", "\u{85}\n", "\u{2028}x\n", "\u{2029}x\n"] {
            assert!(!survives_podman(bad), "{bad:?}");
        }
        for good in ["", "\t", "a\n\tb", "a\n b", " a b", "\u{85}"] {
            assert!(survives_podman(good), "{good:?}");
        }
    }
}
