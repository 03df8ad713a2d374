//! Surrogates, which the agent gets instead of credentials. They are random with at least 128 bits, whatever the
//! value's length, and have the format that tools check before they send a token.

use rustix::rand::{GetRandomFlags, getrandom};

use crate::runtime::RuntimeError;

const BITS: usize = 128;

const HEX: &[u8] = b"0123456789abcdef";
const BASE32: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const BASE62: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Prefixes by which tools recognize kinds of tokens. A prefix comes after all longer ones that start with it.
const PREFIXES: [&str; 39] = [
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "gldt-",
    "glrt-",
    "glcbt-",
    "glptt-",
    "sk-ant-api03-",
    "sk-ant-admin01-",
    "sk-ant-oat01-",
    "sk-ant-",
    "sk-proj-",
    "sk-svcacct-",
    "sk-or-v1-",
    "sk_live_",
    "sk_test_",
    "rk_live_",
    "rk_test_",
    "sk-",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "xoxs-",
    "xapp-",
    "AKIA",
    "ASIA",
    "npm_",
    "pypi-",
    "dckr_pat_",
    "dop_v1_",
    "hf_",
    "AIza",
    "gsk_",
    "SG.",
    "shpat_",
];

/// Creates a surrogate for a value, with the value's length unless that is too short.
pub(super) fn of_value(value: &str) -> Result<String, RuntimeError> {
    if let Some(groups) = uuid_groups(value) {
        let digits = random(HEX, groups.iter().sum())?;
        let mut rest = digits.as_str();
        let mut parts = Vec::new();
        for length in groups {
            let (part, more) = rest.split_at(length);
            parts.push(part);
            rest = more;
        }
        return Ok(parts.join("-"));
    }
    let prefix = PREFIXES.into_iter().find(|prefix| value.starts_with(prefix)).unwrap_or("");
    let body = value.get(prefix.len()..).unwrap_or_default();
    let digits = body.chars().count();
    match prefix {
        // AWS key ids have twenty characters, of which only 80 bits would be random.
        "AKIA" | "ASIA" => Ok(prefix.to_owned() + &random(BASE32, digits)?),
        // 22 characters that identify the token, 59 that prove it.
        "github_pat_" if digits == 82 => Ok(format!("{prefix}{}_{}", random(BASE62, 22)?, random(BASE62, 59)?)),
        _ => {
            let is = |alphabet: &[u8]| !body.is_empty() && body.bytes().all(|byte| alphabet.contains(&byte));
            let alphabet = if is(HEX) && digits >= 32 { HEX } else { BASE62 };
            Ok(prefix.to_owned() + &random(alphabet, digits)?)
        }
    }
}

/// Creates a surrogate in the format of a GitHub App's installation token, which does not exist before the session.
pub(super) fn of_installation() -> Result<String, RuntimeError> {
    Ok(format!("ghs_{}", random(BASE62, 36)?))
}

/// The lengths of a UUID's groups, whose digits are just enough.
fn uuid_groups(value: &str) -> Option<[usize; 5]> {
    let groups = [8, 4, 4, 4, 12];
    let parts: Vec<&str> = value.split('-').collect();
    let fits = parts.len() == groups.len()
        && parts.iter().zip(groups).all(|(part, length)| part.len() == length)
        && value.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit());
    fits.then_some(groups)
}

/// Returns this many digits of an alphabet, or more if 128 bits need them.
fn random(alphabet: &[u8], digits: usize) -> Result<String, RuntimeError> {
    let size = alphabet.len();
    // `ilog2` rounds down, so this rounds up.
    let enough = if size.is_power_of_two() { BITS.div_ceil(size.ilog2() as usize) } else { 22 };
    let digits = digits.max(enough);
    // Bytes at or above the largest multiple of the alphabet's size would make some digits more likely.
    let limit = 256 - 256 % size;
    let mut text = String::with_capacity(digits);
    let mut bytes = [0_u8; 64];
    while text.len() < digits {
        getrandom(&mut bytes, GetRandomFlags::empty())
            .map_err(|error| RuntimeError::Io("reading random bytes".to_owned(), error.into()))?;
        let fair = bytes.iter().map(|&byte| usize::from(byte)).filter(|&byte| byte < limit);
        let missing = digits - text.len();
        text.extend(fair.take(missing).filter_map(|byte| alphabet.get(byte % size)).map(|&digit| char::from(digit)));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The random bits after the prefix, if each digit of its alphabet is equally likely.
    fn bits(body: &str) -> f64 {
        let body: String = body.chars().filter(|c| !"-_".contains(*c)).collect();
        let all = |alphabet: &[u8]| body.bytes().all(|byte| alphabet.contains(&byte));
        let size: f64 = if all(HEX) {
            16.0
        } else if all(BASE32) {
            32.0
        } else {
            62.0
        };
        f64::from(u32::try_from(body.len()).unwrap()) * size.log2()
    }

    #[test]
    fn at_least_128_bits_whatever_the_value() {
        let values = [
            "x",
            "",
            "hunter2",
            "ghp_x",
            "sk-ant-1",
            "AKIAIOSFODNN7EXAMPLE",
            "0123456789abcdef0123456789abcdef01234567",
            "123e4567-e89b-12d3-a456-426614174000",
            "pässwörd",
            "npm_",
            "a b c",
            "0",
            "deadbeef",
        ];
        for value in values {
            let surrogate = of_value(value).unwrap();
            let prefix = PREFIXES.into_iter().find(|p| value.starts_with(p)).unwrap_or("");
            let body = surrogate.strip_prefix(prefix).unwrap_or_else(|| panic!("{value}: {surrogate}"));
            assert!(bits(body) >= 128.0, "{value}: {surrogate}");
            assert_ne!(surrogate, of_value(value).unwrap());
        }
    }

    #[test]
    fn shapes_that_tools_check_are_kept() {
        let same_length = [
            "ghp_0123456789abcdefghijABCDEFGHIJ012345".to_owned(),
            format!("github_pat_{}_{}", "a".repeat(22), "b".repeat(59)),
            format!("sk-ant-api03-{}", "c".repeat(95)),
            "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
            "123e4567-e89b-12d3-a456-426614174000".to_owned(),
            "0123456789abcdef0123456789abcdef01234567".to_owned(),
        ];
        for value in &same_length {
            assert_eq!(of_value(value).unwrap().len(), value.len(), "{value}");
        }
        let pat = of_value(&same_length[1]).unwrap();
        assert_eq!(pat.match_indices('_').map(|(at, _)| at).collect::<Vec<_>>(), [6, 10, 33]);
        let key = of_value("AKIAIOSFODNN7EXAMPLE").unwrap();
        assert!(key.len() == 30 && key[4..].bytes().all(|byte| BASE32.contains(&byte)), "{key}");
        assert!(of_installation().unwrap().starts_with("ghs_"));
    }

    #[test]
    fn a_longer_prefix_comes_before_its_beginning() {
        for (index, prefix) in PREFIXES.iter().enumerate() {
            assert!(PREFIXES[..index].iter().all(|earlier| !prefix.starts_with(earlier)), "{prefix}");
        }
    }
}
