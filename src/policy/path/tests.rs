use proptest::prelude::*;
use proptest::sample::select;
use regex::Regex;

use super::*;

// A second way to say what a canonical path and a glob are, as regular expressions about the path as received.

/// A regular expression (PCRE, without anchors) that matches a path as received, from `/` to before the query, exactly
/// if [`canonical`] refuses it.
fn refused_paths() -> String {
    let slash = "(?:/|%2[Ff])";
    let other = r"(?:[^0-9A-Fa-f]|\z)";
    let hex = "(?:[0-9A-Fa-f]|%3[0-9]|%[46][1-6])";
    [
        r"[^\x21-\x7e]|[\x23\x5c]".to_owned(),
        format!(r"%(?:{other}|[0-9A-Fa-f]{other})|%[01]|%7[Ff]|%5[Cc]"),
        format!(r"{slash}(?:\.|%2[Ee]){{1,2}}(?:/|;|%2[Ff]|%3[Bb]|\z)"),
        "//".to_owned(),
        format!("%25{hex}{{2}}"),
    ]
    .join("|")
}

/// Matches the raw paths whose canonical form the glob matches, among those that have one.
fn glob_regex(glob: &PathGlob) -> String {
    let one = |token: &Token<'_>| match token {
        Token::Segment => r"(?:[^/%]|%[0-9A-Fa-f]{2})*".to_owned(),
        Token::Any => r"(?:[^%]|%[0-9A-Fa-f]{2})*".to_owned(),
        Token::Literal(literal) => literal_regex(literal),
    };
    glob.tokens().iter().map(one).collect()
}

fn literal_regex(literal: &str) -> String {
    let digit = |c: char| match c.is_ascii_digit() {
        true => c.to_string(),
        false => format!("[{}{}]", c.to_ascii_uppercase(), c.to_ascii_lowercase()),
    };
    let escape = |hex: &str| format!("%{}", hex.chars().map(digit).collect::<String>());
    match literal.as_bytes() {
        [byte] => {
            let itself = match byte.is_ascii_alphanumeric() {
                true => literal.to_owned(),
                false => format!("\\x{byte:02x}"),
            };
            match is_unreserved(*byte) {
                true => format!("(?:{itself}|{})", escape(&format!("{byte:02X}"))),
                false => itself,
            }
        }
        _ => escape(literal.trim_start_matches('%')),
    }
}

fn anchored(regex: &str) -> Regex {
    Regex::new(&format!(r"\A(?s-u:{regex})\z")).or_else(|_| Regex::new(&format!(r"\A(?s:{regex})\z"))).unwrap()
}

fn refused() -> Regex {
    Regex::new(&refused_paths()).unwrap()
}

// R-61, R-62
#[test]
fn paths_that_servers_read_differently_have_no_form() {
    use PathError as E;
    for (path, error) in [
        ("", E::NoSlash),
        ("*", E::NoSlash),
        ("?x", E::NoSlash),
        ("http://a.test/x", E::NoSlash),
        ("a.test:443", E::NoSlash),
        ("/public/../secret", E::DotSegment),
        ("/..", E::DotSegment),
        ("/.", E::DotSegment),
        ("/a/./b", E::DotSegment),
        ("/a/%2e%2E/b", E::DotSegment),
        ("/a/.%2e", E::DotSegment),
        ("/a/..;/b", E::DotSegment),
        ("/a/..;x=1/b", E::DotSegment),
        ("/a/..%3bx/b", E::DotSegment),
        ("/a/..%2fb", E::DotSegment),
        ("/a%2F..%2Fb", E::DotSegment),
        ("//x", E::EmptySegment),
        ("/a//", E::EmptySegment),
        ("/a\\b", E::Backslash),
        ("/a%5cb", E::Backslash),
        ("/%00", E::Byte),
        ("/%1F", E::Byte),
        ("/%7f", E::Byte),
        ("/a b", E::Byte),
        ("/a\u{7f}", E::Byte),
        ("/é", E::Byte),
        ("/a#b", E::Fragment),
        ("/%", E::Escape),
        ("/%2", E::Escape),
        ("/%zz", E::Escape),
        ("/%2g", E::Escape),
        ("/%+1", E::Escape),
        ("/%252e%252e", E::Twice),
        ("/%252f", E::Twice),
        ("/%25%32e", E::Twice),
        ("/%25%32%65", E::Twice),
        ("/%25252e", E::Twice),
    ] {
        assert_eq!(canonical(path), Err(error), "{path}");
        if error != E::NoSlash {
            assert!(refused().is_match(path), "{path} is let through by the router's expression");
        }
    }
}

#[test]
fn what_lenient_servers_read_as_dots_has_no_form() {
    use PathError as E;
    for (path, error) in [
        ("/ok/%c0%ae%c0%ae/x", E::NotUtf8),
        ("/ok/%e0%80%ae%e0%80%ae/x", E::NotUtf8),
        ("/caf%E9", E::NotUtf8),
        ("/%ff", E::NotUtf8),
        ("/%c3", E::NotUtf8),
        ("/%c3x%a9", E::NotUtf8),
        ("/%ed%a0%80", E::NotUtf8),
        ("/ok/%ef%bc%8e%ef%bc%8e/x", E::DotSegment),
        ("/ok/.%EF%BC%8E/x", E::DotSegment),
        ("/ok/%e2%80%a4%e2%80%a4", E::DotSegment),
        ("/ok/%e2%80%a5/x", E::DotSegment),
        ("/ok/%ef%b9%92./x", E::DotSegment),
        ("/ok%ef%bc%8f..%ef%bc%8fx", E::DotSegment),
        ("/ok/..%ef%bc%bcx", E::DotSegment),
        ("/ok/..%e2%88%95x", E::DotSegment),
        ("/ok/..%ef%bc%9bx/y", E::DotSegment),
        ("/ok/..%20/x", E::DotSegment),
        ("/ok/%20..", E::DotSegment),
        ("/ok/.%20./x", E::DotSegment),
        ("/ok/..%20./x", E::DotSegment),
        ("/ok/..%3f/x", E::DotSegment),
        ("/ok/..%3Fa=b/x", E::DotSegment),
        ("/ok/..%23/x", E::DotSegment),
        ("/ok/..%20;x/y", E::DotSegment),
        ("/ok/..%c2%a0/x", E::DotSegment),
        ("/ok/..%e2%80%8b/x", E::DotSegment),
        ("/ok/.%c2%ad./x", E::DotSegment),
    ] {
        assert_eq!(canonical(path), Err(error), "{path}");
    }
    for path in [
        "/%EF%BC%8Efile",
        "/a%EF%BC%8Eb/x",
        "/%E3%80%82%E3%80%82/x",
        "/a%20..b",
        "/a..%20/x",
        "/%20/x",
        "/..a%20/x",
        "/.x%3F/y",
        "/%E6%97%A5%E6%9C%AC/%F0%9F%98%80",
        "/a%E2%80%A6/x",
    ] {
        assert_eq!(canonical(path).as_deref(), Ok(path));
    }
}

// R-64
#[test]
fn paths_with_one_reading_keep_their_form() {
    for (path, form) in [
        ("/", "/"),
        ("/a/b/", "/a/b/"),
        ("/a?b=../..//%zz", "/a"),
        ("/@scope%2fname", "/@scope%2Fname"),
        ("/%61%2D%5F%7e%2E", "/a-_~."),
        ("/...", "/..."),
        ("/.git/config", "/.git/config"),
        ("/a/..b", "/a/..b"),
        ("/a/b..", "/a/b.."),
        ("/a;..", "/a;.."),
        ("/%c3%a9", "/%C3%A9"),
        ("/100%25", "/100%25"),
        ("/100%25%20x", "/100%25%20x"),
        ("/100%25g1", "/100%25g1"),
        ("/a%20b+c", "/a%20b+c"),
        ("/%3Fx", "/%3Fx"),
        ("/a=(b)[c]|\"<>^`{}!$&',:", "/a=(b)[c]|\"<>^`{}!$&',:"),
    ] {
        assert_eq!(canonical(path).as_deref(), Ok(form), "{path}");
        let raw = path.split('?').next().unwrap();
        assert!(!refused().is_match(raw), "{path} is refused by the router's expression");
    }
}

#[test]
fn globs_match_what_the_table_says() {
    for (glob, yes, no) in [
        ("/repos/acme/**", vec!["/repos/acme/", "/repos/acme/a/b"], vec!["/repos/acme", "/repos/acmex/a"]),
        ("/repos/*/issues", vec!["/repos/a/issues", "/repos/a%2Fb/issues"], vec!["/repos/a/b/issues"]),
        ("/**", vec!["/", "/a", "/a/b"], vec![]),
        ("/*", vec!["/", "/a"], vec!["/a/", "/a/b"]),
        ("/a/**/z", vec!["/a/b/z", "/a/b/c/z"], vec!["/a/z", "/a/b/zz"]),
        ("/v*/x.json", vec!["/v1/x.json", "/v/x.json"], vec!["/v1/xojson", "/v1/y/x.json"]),
        ("/@scope%2fname", vec!["/@scope%2Fname"], vec!["/@scope/name", "/%40scope%2Fname"]),
        // No wildcard ends inside of an escape.
        ("/*F", vec!["/xF"], vec!["/x%2F"]),
        ("/%2A", vec!["/%2A"], vec!["/x"]),
        ("/%61*", vec!["/ab"], vec!["/b"]),
    ] {
        let glob = PathGlob::parse(glob).unwrap();
        let regex = anchored(&glob_regex(&glob));
        for path in yes {
            assert!(glob.matches(path) && regex.is_match(path), "{glob:?} {path}");
        }
        for path in no {
            assert!(!glob.matches(path) && !regex.is_match(path), "{glob:?} {path}");
        }
    }
}

#[test]
fn globs_that_mean_nothing_are_refused() {
    for (glob, error) in [
        ("", PathError::NoSlash),
        ("**", PathError::NoSlash),
        ("repos/**", PathError::NoSlash),
        ("/a/../b", PathError::DotSegment),
        ("/a//b", PathError::EmptySegment),
        ("/search?q=*", PathError::Query),
        ("/***", PathError::Wildcard),
        ("/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*", PathError::Wildcard),
    ] {
        assert_eq!(PathGlob::parse(glob), Err(error), "{glob}");
    }
}

fn pieces(more: &'static [&'static str]) -> impl Strategy<Value = String> {
    let common =
        ["/", "/", "a", "b", ".", "..", "%2F", "%2f", "%61", "%2e", "%25", "%41", "2", "5", "F", "-", "@", ";"];
    let all: Vec<&str> = common.into_iter().chain(more.iter().copied()).collect();
    proptest::collection::vec(select(all), 0..9).prop_map(|pieces| format!("/{}", pieces.concat()))
}

/// The path with some of its unreserved characters encoded, and escapes in the other case.
fn reencoded(path: &str, choices: &[bool]) -> String {
    let mut choices = choices.iter().copied().cycle();
    let one = |token: &str| match (token.as_bytes(), choices.next().unwrap_or(false)) {
        ([byte], true) if is_unreserved(*byte) => format!("%{byte:02x}"),
        ([_], _) | (_, false) => token.to_owned(),
        (_, true) => token.to_lowercase(),
    };
    split(path).map(one).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_form_is_one(path in pieces(&["%5c", "%00", "%3b", "~", "?", "%zz", "\u{e9}", "%"]), choices: [bool; 9]) {
        let raw = path.split('?').next().unwrap();
        prop_assume!(canonical(&path) != Err(PathError::NotUtf8));
        prop_assert_eq!(canonical(&path).is_err(), refused().is_match(raw), "{}", path);
        let Ok(form) = canonical(&path) else { return Ok(()) };
        let again = canonical(&form);
        prop_assert_eq!(again.as_deref(), Ok(form.as_str()));
        let other = canonical(&reencoded(&form, &choices));
        prop_assert_eq!(other.as_deref(), Ok(form.as_str()), "encodings of unreserved characters change nothing");
        prop_assert!(!form.contains("..") || !form.contains("/../"));
    }

    #[test]
    fn the_routers_expression_says_what_the_glob_says(
        glob in pieces(&["*", "**", "*", "**"]), path in pieces(&[]), choices: [bool; 9]
    ) {
        let (Ok(glob), Ok(form)) = (PathGlob::parse(&glob), canonical(&path)) else { return Ok(()) };
        let regex = anchored(&glob_regex(&glob));
        prop_assert_eq!(regex.is_match(&path), glob.matches(&form), "{:?} {}", glob, path);
        prop_assert_eq!(regex.is_match(&reencoded(&form, &choices)), glob.matches(&form));
        prop_assert_eq!(PathGlob::parse(glob.as_str()), Ok(glob.clone()));
        let narrow = glob.as_str().replace("**", "*");
        if PathGlob::parse(&narrow).unwrap().matches(&form) {
            prop_assert!(glob.matches(&form), "`**` matches whatever `*` does");
        }
        prop_assert!(glob.as_str().contains('*') || glob.matches(&form) == (glob.as_str() == form));
    }
}
