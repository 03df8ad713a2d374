//! JSON with comments, made readable for a YAML parser.

/// The text with comments and tabs outside of strings as blanks. Every other byte stays in its place.
pub(super) fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let mut quoted = false;
    while let Some(c) = rest.next() {
        match (quoted, c, rest.peek()) {
            (true, '\\', Some(_)) => {
                out.push(c);
                out.extend(rest.next());
                continue;
            }
            (_, '"', _) => quoted = !quoted,
            (false, '/', Some('/')) => {
                out.push(' ');
                while let Some(next) = rest.next_if(|&next| next != '\n') {
                    blank(&mut out, next);
                }
                continue;
            }
            (false, '/', Some('*')) => {
                out.push(' ');
                let mut star = false;
                for next in rest.by_ref() {
                    if next == '\n' {
                        out.push('\n');
                    } else {
                        blank(&mut out, next);
                    }
                    if star && next == '/' {
                        break;
                    }
                    star = next == '*';
                }
                continue;
            }
            (false, '\t', _) => {
                out.push(' ');
                continue;
            }
            _ => {}
        }
        out.push(c);
    }
    out
}

/// As many blanks as the character has bytes, so that positions stay.
fn blank(out: &mut String, c: char) {
    out.extend(std::iter::repeat_n(' ', c.len_utf8()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_become_blanks_and_strings_stay() {
        let text = "{\n\t\"a//b\": \"c/*d\\\"//\", // é\n/* x\ny */ \"e\": 1}";
        let plain = without_comments(text);
        assert_eq!(plain.len(), text.len());
        assert_eq!(plain, "{\n \"a//b\": \"c/*d\\\"//\",      \n    \n     \"e\": 1}");
    }
}
