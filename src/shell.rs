//! Quoting for POSIX shells.

/// Quotes a word; plain words stay as they are.
pub fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./_-".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Quotes the words of a command line.
pub fn line(words: &[String]) -> String {
    words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ")
}

/// The words of a command line. What only a shell can do, such as `&&` or `$x`, becomes the script of one: `sh -c SCRIPT`.
pub fn words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            ('\\', None | Some('"')) => word.get_or_insert_default().extend(chars.next()),
            ('$' | '`', None | Some('"')) | ('|' | '&' | ';' | '<' | '>' | '(' | ')' | '\n', None) => {
                return script(text);
            }
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return script(text);
    }
    words.extend(word);
    words
}

fn script(text: &str) -> Vec<String> {
    ["sh", "-c", text.trim()].map(str::to_owned).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_split_or_left_to_a_shell() {
        for (text, parts) in [
            ("claude --x 'a b'", &["claude", "--x", "a b"][..]),
            ("a \"b c\"d \\e ''", &["a", "b cd", "e", ""]),
            ("*.x", &["*.x"]),
            ("", &[]),
            ("sh -c \"a b\" && c", &["sh", "-c", "sh -c \"a b\" && c"]),
            ("echo $HOME", &["sh", "-c", "echo $HOME"]),
            ("it's", &["sh", "-c", "it's"]),
        ] {
            assert_eq!(words(text), parts, "{text}");
        }
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quote("a/b:c=1"), "a/b:c=1");
        assert_eq!(quote(""), "''");
        assert_eq!(quote("it's $x"), r"'it'\''s $x'");
        assert_eq!(line(&["a".to_owned(), "b c".to_owned()]), "a 'b c'");
    }
}
