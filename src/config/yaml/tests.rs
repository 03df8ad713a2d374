#![allow(clippy::unwrap_used, clippy::panic, clippy::format_collect, clippy::format_push_string)]

use super::*;
use crate::source::SourceMap;
use proptest::prelude::*;

fn parse(text: &str) -> (Option<Node>, Vec<Diagnostic>, SourceMap) {
    let mut sources = SourceMap::new();
    let file = sources.add("t.yaml", "t.yaml", text);
    let mut diagnostics = Diagnostics::new();
    let node = read(file, text, &mut diagnostics);
    let list = diagnostics.sorted().into_iter().cloned().collect();
    (node, list, sources)
}

fn good(text: &str) -> Node {
    let (node, list, _) = parse(text);
    assert!(list.is_empty(), "{list:#?}");
    node.unwrap()
}

fn codes(text: &str) -> Vec<Code> {
    parse(text).1.iter().map(|d| d.code).collect()
}

fn entries(node: &Node) -> &[(Key, Node)] {
    match &node.kind {
        Kind::Map(entries) => entries,
        other => panic!("{other:?}"),
    }
}

fn slice(text: &str, span: Span) -> &str {
    &text[span.start..span.end]
}

#[test]
fn every_key_and_value_has_its_bytes() {
    let text = "a: one\nb:\n  - \"x y\"\n  - {c: 'd'}\né: |\n  line\n  two\nt: !env  NAME # c\n";
    let root = good(text);
    let map = entries(&root);
    assert_eq!(slice(text, map[0].0.span), "a");
    assert_eq!(slice(text, map[0].1.span), "one");
    let Kind::Seq(items) = &map[1].1.kind else { panic!() };
    assert_eq!(slice(text, items[0].span), "\"x y\"");
    assert_eq!(slice(text, items[1].span), "{c: 'd'}");
    assert_eq!(slice(text, entries(&items[1])[0].1.span), "'d'");
    assert_eq!(slice(text, map[2].0.span), "é");
    assert_eq!(map[2].1.kind, Kind::Str("line\ntwo\n".to_owned()));
    assert_eq!(map[3].1.kind, Kind::Tagged(Tag::Env, "NAME".to_owned()));
    assert_eq!(slice(text, map[3].1.span), "!env  NAME");
}

#[test]
fn scalars_mean_what_the_core_schema_says() {
    use Kind::{Bool, Float, Int, Null, OddNumber};
    let s = |t: &str| Kind::Str(t.to_owned());
    let table: Vec<(&str, Kind)> = vec![
        ("~", Null),
        ("null", Null),
        ("", Null),
        ("true", Bool(true)),
        ("False", Bool(false)),
        ("yes", s("yes")),
        ("no", s("no")),
        ("on", s("on")),
        ("y", s("y")),
        ("nUll", s("nUll")),
        ("1", Int(1)),
        ("-7", Int(-7)),
        ("0", Int(0)),
        ("1.5", Float(1.5)),
        ("1e3", Float(1000.0)),
        (".5", Float(0.5)),
        ("5.", Float(5.0)),
        ("0777", OddNumber),
        ("0x1F", OddNumber),
        ("0o17", OddNumber),
        ("+1", OddNumber),
        (".inf", OddNumber),
        ("-.inf", OddNumber),
        (".nan", OddNumber),
        ("99999999999999999999", Float(1e20)),
        ("1_000", s("1_000")),
        ("2024-01-01", s("2024-01-01")),
        ("1:30", s("1:30")),
        ("0x", s("0x")),
        ("-", s("-")),
        ("1.2.3", s("1.2.3")),
        ("e3", s("e3")),
        ("1e", s("1e")),
        (".", s(".")),
        ("1e999", OddNumber),
    ];
    for (text, want) in table {
        assert_eq!(scalar::plain(text), want, "{text}");
    }
    assert_eq!(good("'1'").kind, s("1"));
    assert_eq!(good("\"true\"").kind, s("true"));
}

#[test]
fn duplicate_keys_show_both_places_and_reading_goes_on() {
    let (node, list, sources) = parse("a: 1\nb: {x: 1, x: 2}\na: 3\n");
    assert_eq!(list.iter().map(|d| d.code).collect::<Vec<_>>(), [Code::DuplicateKey, Code::DuplicateKey]);
    assert_eq!(sources.place(list[1].labels[0].span).line, 3);
    assert_eq!(sources.place(list[1].labels[1].span).line, 1);
    assert_eq!(entries(&node.unwrap()).len(), 2);
}

#[test]
fn what_is_refused_on_purpose() {
    for (text, code) in [
        ("a: 1\n---\nb: 2\n", Code::SeveralDocuments),
        ("a:\n\tb: 1\n", Code::YamlSyntax),
        ("x: &a {b: 1}\ny: {<<: *a}\n", Code::YamlSyntax),
        ("a: \u{0}\n", Code::YamlSyntax),
        ("a: x\rb: y\n", Code::YamlSyntax),
        ("a: b \u{202e}c\n", Code::YamlSyntax),
        ("# \u{85}\n", Code::YamlSyntax),
        ("a: *nope\n", Code::YamlSyntax),
        ("- *.example.com\n", Code::YamlSyntax),
        ("a: &x [*x]\n", Code::YamlSyntax),
        ("? [a]\n: b\n", Code::YamlSyntax),
        ("x: &a k\n*a : 1\n", Code::YamlSyntax),
        (": x\n", Code::YamlSyntax),
        ("%YAML 1.2\n---\na: 1\n", Code::YamlSyntax),
        ("a: [1, 2\n", Code::YamlSyntax),
        ("a: \"b\n", Code::YamlSyntax),
        ("a: !secret x\n", Code::BadTag),
        ("a: !!str 1\n", Code::BadTag),
        ("a: !env\n", Code::BadTag),
        ("a: !env [x]\n", Code::BadTag),
        ("!env k: 1\n", Code::BadTag),
    ] {
        assert_eq!(codes(text), [code], "{text:?}");
    }
}

#[test]
fn what_still_works() {
    assert!(good("").is_null());
    assert!(good("# only a comment\n").is_null());
    assert!(good("---\n...\n").is_null());
    let root = good("x: &a {b: [1]}\ny: *a\n&k z: 2\n");
    let map = entries(&root);
    assert_eq!(entries(&map[1].1)[0].0.text, "b");
    assert_eq!(map[2].0.text, "z");
    assert_eq!(normalise(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n").unwrap(), "a: 1\nb: 2\n");
    assert_eq!(normalise(b"a: \xff").unwrap_err().offset, 3);
}

#[test]
fn bombs_and_depth_are_refused_quickly() {
    let mut bomb = "a0: &a0 [x, x]\n".to_owned();
    for i in 1..30 {
        bomb.push_str(&format!("a{i}: &a{i} [*a{}, *a{}]\n", i - 1, i - 1));
    }
    let wide =
        format!("a: &a [{}]\n{}", "x, ".repeat(9000), (0..60).map(|i| format!("b{i}: *a\n")).collect::<String>());
    let nested = (0..40).fold(String::new(), |s, i| s + &" ".repeat(i) + "a:\n");
    for text in [bomb, wide, "[".repeat(100_000), "{a: ".repeat(50_000), "- ".repeat(50_000), nested] {
        assert_eq!(codes(&text), [Code::TooComplex], "{}", &text[..20]);
    }
}

proptest! {
    #[test]
    fn never_panics_and_spans_are_inside(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let text = normalise(&bytes).unwrap_or_else(|e| e.lossy);
        inside(&text)?;
    }

    #[test]
    fn never_panics_on_yaml_like_text(parts in proptest::collection::vec(
        proptest::sample::select(vec!["a", ": ", "- ", "\n", "  ", "[", "]", "{", "}", ", ", "\"", "'", "!env ", "&a ",
            "*a", "|\n", ">", "#", "? ", "---\n", "é", "\t", "<<", "~", "1", "\\"]), 0..60)) {
        inside(&parts.concat())?;
    }
}

fn inside(text: &str) -> Result<(), TestCaseError> {
    let (node, list, _) = parse(text);
    let check = |span: Span| {
        prop_assert!(text.get(span.start..span.end).is_some(), "{span:?} of {text:?}");
        Ok(())
    };
    for label in list.iter().flat_map(|d| &d.labels) {
        check(label.span)?;
    }
    let mut todo: Vec<&Node> = node.iter().collect();
    while let Some(node) = todo.pop() {
        check(node.span)?;
        match &node.kind {
            Kind::Seq(items) => todo.extend(items),
            Kind::Map(entries) => {
                for (key, value) in entries {
                    check(key.span)?;
                    todo.push(value);
                }
            }
            _ => {}
        }
    }
    Ok(())
}
