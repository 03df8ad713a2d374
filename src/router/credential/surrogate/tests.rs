use proptest::prelude::*;

use super::*;

#[test]
fn escapes_are_undone_once_and_until_none_is_left() {
    for (text, once, all) in [
        ("", "", ""),
        ("%", "%", "%"),
        ("%2", "%2", "%2"),
        ("%25", "%", "%"),
        ("%2525", "%25", "%"),
        ("%%41", "%A", "%A"),
        ("%4%41", "%4A", "J"),
        ("a%41b%6a", "aAbj", "aAbj"),
        ("%g0%0g", "%g0%0g", "%g0%0g"),
        ("%é1", "%é1", "%é1"),
    ] {
        assert_eq!(String::from_utf8(decode(text.as_bytes())).unwrap(), once, "{text}");
        assert_eq!(String::from_utf8(exhaust(text.as_bytes())).unwrap(), all, "{text}");
    }
}

#[test]
fn a_long_header_is_read_to_its_end_and_takes_no_time() {
    let watch = Watch::new(&[("ghp_surrogate", 0)]).unwrap();
    let started = std::time::Instant::now();
    for start in ["%25".repeat(21_000), format!("%{}", "25".repeat(31_000))] {
        let end = if start.starts_with("%25%") { "%67hp_surrogate" } else { "67hp_surrogate" };
        let headers = |text: &str| watch.leaked(b"/", [(b"x".as_slice(), text.as_bytes())], None);
        assert_eq!(headers(&format!("{start}{end}")), Some(0));
        assert_eq!(headers(&start), None);
    }
    assert!(started.elapsed() < std::time::Duration::from_secs(2), "{:?}", started.elapsed());
}

proptest! {
    /// Fully decoded text contains no escapes.
    #[test]
    fn exhausted_texts_stay(text in "[%0-9a-fgé]{0,40}") {
        let all = exhaust(text.as_bytes());
        prop_assert_eq!(decode(&all), all);
    }
}

#[test]
fn a_user_without_a_password_is_recognized() {
    let header = |plain: &str| format!("Basic {}", BASE64_STANDARD.encode(plain)).into_bytes();
    for (plain, alone) in [("me:", true), ("me:x", false), (":", false), ("me::", false), ("me", false)] {
        assert_eq!(is_user_alone(&header(plain)), alone, "{plain}");
    }
    assert!(!is_user_alone(b"Bearer bWU6"));
}
