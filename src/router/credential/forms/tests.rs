use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use proptest::prelude::*;

use super::*;

const ODD: &[u8] = "a/b+c=d e&f<g>h'i\"j\\k~é".as_bytes();

fn has(value: &[u8], form: &str) -> bool {
    of(value, SHORTEST).iter().any(|one| one == form.as_bytes())
}

#[test]
fn what_libraries_write_is_a_form() {
    for form in [
        "a/b+c=d e&f<g>h'i\"j\\k~é",
        "a%2Fb%2Bc%3Dd%20e%26f%3Cg%3Eh%27i%22j%5Ck~%C3%A9",
        "a%2fb%2bc%3dd%20e%26f%3cg%3eh%27i%22j%5ck~%c3%a9",
        "a%2Fb%2Bc%3Dd%20e%26f%3Cg%3Eh'i%22j%5Ck~%C3%A9",
        "a/b%2Bc%3Dd%20e%26f%3Cg%3Eh%27i%22j%5Ck~%C3%A9",
        "a%2Fb%2Bc%3Dd+e%26f%3Cg%3Eh%27i%22j%5Ck%7E%C3%A9",
        "a%252Fb%252Bc%253Dd%2520e%2526f%253Cg%253Eh%2527i%2522j%255Ck~%25C3%25A9",
        r#"a/b+c=d e&f<g>h'i\"j\\k~é"#,
        r#"a\/b+c=d e&f<g>h'i\"j\\k~é"#,
        r#"a/b+c=d e\u0026f\u003cg\u003eh'i\"j\\k~é"#,
        r#"a/b+c\u003dd e\u0026f\u003cg\u003eh\u0027i\"j\\k~é"#,
        r"a/b\u002Bc=d e\u0026f\u003Cg\u003Eh\u0027i\u0022j\\k~\u00E9",
        r#"a/b+c=d e&f<g>h'i\"j\\k~\u00e9"#,
        r#"a\/b+c=d e&f<g>h'i\"j\\k~\u00e9"#,
        r#"a/b+c=d e&f<g>h'i\\\"j\\\\k~é"#,
        "a/b+c=d e&amp;f&lt;g&gt;h&#39;i&quot;j\\k~é",
        "a/b&#43;c=d e&amp;f&lt;g&gt;h&#39;i&#34;j\\k~é",
        "a/b+c=d e&amp;f&lt;g&gt;h&#x27;i&quot;j\\k~é",
        "a/b+c=d e&amp;f&lt;g&gt;h&apos;i&quot;j\\k~é",
        "612f622b633d6420652666",
    ] {
        let found = of(ODD, SHORTEST).iter().any(|one| one.starts_with(form.as_bytes()));
        assert!(found, "{form}");
    }
    let spaced = "61 2f 62";
    assert!(of(ODD, SHORTEST).iter().any(|one| one.starts_with(spaced.as_bytes())));
    assert!(of("😀bcdef".as_bytes(), SHORTEST).contains(&br"\ud83d\ude00bcdef".to_vec()));
}

#[test]
fn what_is_plain_has_few_forms_and_what_is_short_has_none() {
    let plain = of(b"ghp_0123456789abcdefghijABCDEFGHIJ012345", SHORTEST);
    assert!(plain.len() <= 24, "{}", plain.len());
    let short: Vec<String> =
        of(b"ab/d", SHORTEST).iter().map(|form| String::from_utf8_lossy(form).into_owned()).collect();
    assert!(short.iter().all(|form| form.len() >= SHORTEST), "{short:?}");
    assert!(of(b"", 0).is_empty());
}

#[test]
fn a_form_of_a_surrogate_is_of_the_same_kind() {
    let all = pairs(b"value/of+it", b"other/of-it");
    let of = |form: &str| {
        let found = all.iter().find(|(one, _)| one == form.as_bytes()).map(|(_, other)| other.clone());
        String::from_utf8(found.unwrap_or_default()).unwrap()
    };
    assert_eq!(of("value/of+it"), "other/of-it");
    assert_eq!(of("value%2Fof%2Bit"), "other%2Fof-it");
    assert_eq!(of("value%2fof%2bit"), "other%2fof-it");
    assert_eq!(of(r"value\/of+it"), r"other\/of-it");
    assert_eq!(of(&STANDARD.encode("value/of+it")), STANDARD.encode("other/of-it"));
    assert!(has(b"value/of+it", "dmFsdWUvb2YraXQ="));
}

/// The text with every form replaced by the corresponding form of the surrogate, longest first.
fn replaced(text: &str, value: &[u8], surrogate: &[u8]) -> String {
    let mut all = pairs(value, surrogate);
    all.sort_by_key(|(form, _)| std::cmp::Reverse(form.len()));
    all.iter().fold(text.to_owned(), |text, (form, other)| {
        text.replace(std::str::from_utf8(form).unwrap(), std::str::from_utf8(other).unwrap())
    })
}

proptest! {
    /// Basic with the value as password or user becomes Basic with the surrogate, to the last digit.
    #[test]
    fn basic_is_exact(value in "[a-zA-Z0-9_+/=-]{8,40}", user in "[a-z]{0,7}") {
        let surrogate: String = value.chars().rev().map(|c| if c == '=' { 'x' } else { c }).collect();
        for text in [|u: &str, v: &str| format!("{u}:{v}"), |u: &str, v: &str| format!("{v}:{u}")] {
            for engine in [STANDARD, URL_SAFE] {
                let sent = engine.encode(text(&user, &value));
                let wanted = engine.encode(text(&user, &surrogate));
                prop_assert_eq!(replaced(&sent, value.as_bytes(), surrogate.as_bytes()), wanted);
            }
        }
    }

    /// At any position in a longer text, less than a digit remains at either end.
    #[test]
    fn base64_of_a_longer_text_holds_nothing_of_it(
        value in "[ -~]{8,40}", before in "[ -~]{0,9}", after in "[ -~]{0,9}",
    ) {
        for engine in [STANDARD, URL_SAFE, STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
            let text = engine.encode(format!("{before}{value}{after}"));
            let all = of(value.as_bytes(), SHORTEST);
            let longest = all.iter().filter(|form| text.contains(std::str::from_utf8(form).unwrap()));
            let longest = longest.map(Vec::len).max().unwrap_or(0);
            prop_assert!(longest >= (value.len() * 8).div_ceil(6) - 2, "{text}");
        }
    }

    #[test]
    fn nothing_panics(value in prop::collection::vec(any::<u8>(), 0..60), other in prop::collection::vec(any::<u8>(), 0..60)) {
        let all = pairs(&value, &other);
        prop_assert!(all.iter().all(|(form, _)| form.len() >= SHORTEST));
    }
}
