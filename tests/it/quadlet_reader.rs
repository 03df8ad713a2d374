//! Parsers for units, written independently from their descriptions: Quadlet's (podman `pkg/systemd/parser`) and
//! systemd's (systemd.service(5), "Command lines"; systemd.syntax(7)). They fail where the real ones would lose
//! something.

/// A line of a unit: group, key, raw value.
pub type Line = (String, String, String);

/// Every key of a unit file. Quadlet would parse a continued line, or a line without a key, differently.
pub fn lines(text: &str) -> Vec<Line> {
    let mut group = String::new();
    let mut lines = Vec::new();
    for line in text.split('\n') {
        assert!(!line.ends_with('\\'), "continues: {line}");
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            name.clone_into(&mut group);
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or_else(|| panic!("no key: {line}"));
        assert!(key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'), "{key}");
        assert!(!group.is_empty(), "a key before a group: {line}");
        lines.push((group.clone(), key.to_owned(), value.trim().to_owned()));
    }
    lines
}

/// The values of a key.
pub fn values<'a>(lines: &'a [Line], group: &str, key: &str) -> Vec<&'a str> {
    lines.iter().filter(|line| line.0 == group && line.1 == key).map(|line| line.2.as_str()).collect()
}

/// Words with quotes and C escapes, as both parse them. Panics at an escape that one of them does not know: Quadlet
/// drops such a line.
pub fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('\\', _) => word.get_or_insert_default().extend(escape(&mut chars)),
            (c, Some(open)) if c == open => quote = None,
            ('"' | '\'', None) => {
                assert!(word.is_none(), "a quote inside a word: {text}");
                word = Some(Vec::new());
                quote = Some(c);
            }
            (' ' | '\t', None) => words.extend(word.take()),
            (c, _) => word.get_or_insert_default().extend(c.to_string().bytes()),
        }
    }
    assert!(quote.is_none(), "a quote stays open: {text}");
    words.extend(word);
    words.into_iter().map(|word| String::from_utf8(word).unwrap()).collect()
}

fn escape(chars: &mut std::str::Chars<'_>) -> Vec<u8> {
    let c = chars.next().unwrap();
    let plain = match c {
        'a' => 7,
        'b' => 8,
        'f' => 12,
        'n' => 10,
        'r' => 13,
        't' => 9,
        'v' => 11,
        's' => b' ',
        '\\' | '"' | '\'' => c as u8,
        'x' => {
            let digits: String = chars.by_ref().take(2).collect();
            u8::from_str_radix(&digits, 16).unwrap()
        }
        _ => panic!("unknown escape \\{c}"),
    };
    assert!(plain != 0, "a NUL");
    vec![plain]
}

/// What Quadlet passes to podman for a word of an exec-like key; an empty one would end the list.
pub fn quadlet_words(value: &str) -> Vec<String> {
    let words = words(value);
    assert!(words.iter().all(|word| !word.is_empty()), "an empty word: {value}");
    words
}

/// What Quadlet 5.0 to 5.8.1 make of a whole-line value whose quotes they strip; later versions strip less.
pub fn stripped(value: &str) -> &str {
    value.trim_matches('"')
}

/// systemd's second pass over a word: specifiers and variables. A single `%` or an expansion would be a bug of ours.
pub fn expand(word: &str) -> String {
    let mut text = String::new();
    let mut chars = word.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '%' => {
                assert_eq!(chars.next(), Some('%'), "a specifier in {word}");
                text.push('%');
            }
            '$' => {
                assert_eq!(chars.next(), Some('$'), "a variable in {word}");
                text.push('$');
            }
            c => text.push(c),
        }
    }
    text
}
