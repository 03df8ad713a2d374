use proptest::prelude::*;

use super::*;

fn exact(name: &str) -> HostPattern {
    HostPattern::Exact(HostName::from_wire(name).unwrap())
}

#[test]
fn each_spelling_means_what_the_table_says() {
    for (text, pattern, port) in [
        ("example.com", exact("example.com"), None),
        ("EXAMPLE.com.", exact("example.com"), None),
        ("example.com:5432", exact("example.com"), Some(5432)),
        ("*.example.com:443", HostPattern::Subdomains("example.com".into()), Some(443)),
        (".example.com:80", HostPattern::Suffix("example.com".into()), Some(80)),
        (".example.com", HostPattern::Suffix("example.com".into()), None),
        ("*.example.com", HostPattern::Subdomains("example.com".into()), None),
        ("bücher.example", exact("xn--bcher-kva.example"), None),
        ("*", HostPattern::Subdomains(String::new()), None),
        ("203.0.113.7:22", HostPattern::Ip([203, 0, 113, 7].into()), Some(22)),
        ("[2001:db8::1]:443", HostPattern::Ip("2001:db8::1".parse().unwrap()), Some(443)),
    ] {
        assert_eq!(parse_pattern(text), Ok((pattern, port)), "{text}");
    }
}

#[test]
fn what_no_router_can_enforce_is_refused_with_advice() {
    for text in [
        "",
        ".",
        "*.",
        "..",
        "a..b",
        "10.0.0.0/8",
        "https://example.com",
        "example.com/x",
        "u@example.com",
        "localhost",
        "example.com:",
        "example.com:0",
        "example.com:65536",
        "example.com:+1",
        "example.com:x",
        ".example.com:22",
        "*.example.com:22",
        "**.example.com",
        "a*.example.com",
        "*-x.example.com",
        "a.*.com",
        "a_b.example.com",
        "-a.example.com",
        "a-.example.com",
        "example.1",
        "1.2.3",
        "a b.example.com",
        "a\n.example.com",
        "ex\u{0}.com",
        "203.0.113.7:0",
        "xn--\u{fc}.example",
    ] {
        let error = parse_pattern(text).expect_err(text);
        assert!(!error.help().is_empty() && !error.to_string().is_empty());
    }
}

//
#[test]
fn patterns_for_strangers_names_are_broad() {
    for text in ["*", "*.com", ".com", "*.co.uk", "*.github.io", ".github.io"] {
        assert!(parse_pattern(text).unwrap().0.broad_reason().is_some(), "{text}");
    }
    for text in ["example.com", "*.example.com", ".example.co.uk", "*.me.github.io", "203.0.113.7"] {
        assert!(parse_pattern(text).unwrap().0.broad_reason().is_none(), "{text}");
    }
}

/// Names close to the valid form: mostly valid labels, each kind of error sometimes.
fn near_names() -> impl Strategy<Value = String> {
    let label = prop_oneof![8 => "[a-zA-Z0-9]([a-zA-Z0-9-]{0,5}[a-zA-Z0-9])?", 1 => "[ -~]{0,3}", 1 => "[a-z]{62,65}"];
    (proptest::collection::vec(label, 0..6), "\\.{0,2}").prop_map(|(labels, dots)| labels.join(".") + &dots)
}

proptest! {
    #[test]
    fn the_normal_form_is_one_and_is_ldh(text in prop_oneof![near_names(), any::<String>()]) {
        let Some(name) = HostName::from_wire(&text) else { return Ok(()) };
        let normal = name.as_str();
        prop_assert_eq!(HostName::from_wire(normal), Some(name.clone()));
        prop_assert_eq!(HostName::from_wire(&text.to_ascii_uppercase()), Some(name.clone()));
        prop_assert_eq!(HostName::from_wire(&format!("{normal}.")), Some(name.clone()));
        prop_assert_eq!(HostName::from_wire(&format!("{normal}..")), None);
        prop_assert!(normal.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.')));
        prop_assert!(normal.contains('.') && normal.len() <= 253 && !normal.ends_with('.'));
        prop_assert!(normal.parse::<IpAddr>().is_err());
        prop_assert_eq!(text.strip_suffix('.').unwrap_or(&text).to_ascii_lowercase(), normal);
    }

    #[test]
    fn a_pattern_read_is_written_and_read_again(text in prop_oneof![near_names(), near_names().prop_map(|n| format!("*.{n}")), any::<String>()]) {
        if let Ok((pattern, None)) = parse_pattern(&text) {
            prop_assert_eq!(parse_pattern(&pattern.to_string()), Ok((pattern, None)));
        }
    }
}
