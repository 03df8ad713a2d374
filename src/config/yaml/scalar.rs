//! What a plain scalar means: YAML 1.2.2, 10.3.2 (core schema), except that spellings that people read differently are
//! separate.

use super::Kind;

/// The kind of a plain, untagged scalar.
pub fn plain(text: &str) -> Kind {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Kind::Null,
        "true" | "True" | "TRUE" => Kind::Bool(true),
        "false" | "False" | "FALSE" => Kind::Bool(false),
        _ => number(text).unwrap_or_else(|| Kind::Str(text.to_owned())),
    }
}

fn number(text: &str) -> Option<Kind> {
    let bare = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(bare, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return Some(Kind::OddNumber);
    }
    if prefixed(text, "0x", |b| b.is_ascii_hexdigit()) || prefixed(text, "0o", |b| (b'0'..=b'7').contains(&b)) {
        return Some(Kind::OddNumber);
    }
    if !is_decimal(bare) {
        return None;
    }
    let leading_zero =
        bare.len() > 1 && bare.starts_with('0') && bare.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
    if text.starts_with('+') || leading_zero {
        return Some(Kind::OddNumber);
    }
    let whole = text.parse::<i64>().map(Kind::Int);
    whole.ok().or_else(|| text.parse::<f64>().ok().filter(|f| f.is_finite()).map(Kind::Float)).or(Some(Kind::OddNumber))
}

fn prefixed(text: &str, prefix: &str, digit: impl Fn(u8) -> bool) -> bool {
    text.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && rest.bytes().all(digit))
}

/// `(\.[0-9]+ | [0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_decimal(text: &str) -> bool {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['-', '+']).unwrap_or(exponent))),
        None => (text, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
    let some = if whole.is_empty() { !fraction.is_empty() } else { true };
    some && digits(whole) && digits(fraction) && exponent.is_none_or(|e| !e.is_empty() && digits(e))
}
