//! JSON for people to read and to compare by line: what is short stands on one line, fields stay in the order of their type.

use serde::Serialize;

/// Characters of a line, indentation included.
const WIDTH: usize = 150;

/// A value as text, with a line break at its end. Arrays and objects that fit stand on one line, others have a line for
/// each of their parts.
pub(super) fn layout(value: &impl Serialize) -> serde_json::Result<String> {
    let compact = serde_json::to_string(value)?;
    let mut text = String::new();
    write(&mut text, &compact, 0, 0);
    text.push('\n');
    Ok(text)
}

/// Writes a value, given without blanks; `taken` is what stands on its line already, behind the indentation.
fn write(text: &mut String, compact: &str, depth: usize, taken: usize) {
    let flat = spaced(compact);
    let open = compact.chars().next().filter(|open| matches!(open, '[' | '{'));
    // The comma that may follow counts too.
    let (Some(open), true) = (open, 2 * depth + taken + flat.chars().count() >= WIDTH) else {
        text.push_str(&flat);
        return;
    };
    text.push(open);
    let line = |text: &mut String, depth: usize| {
        text.push('\n');
        text.extend(std::iter::repeat_n("  ", depth));
    };
    for (index, part) in parts(compact).into_iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        line(text, depth + 1);
        let (key, value) = if open == '{' { part.split_at(name(part)) } else { ("", part) };
        let key = spaced(key);
        text.push_str(&key);
        write(text, value, depth + 1, key.chars().count());
    }
    line(text, depth);
    text.push(if open == '{' { '}' } else { ']' });
}

/// The punctuation of a value, none of it in a string: where it is, what it is, and how many brackets are open before it.
fn punctuation(compact: &str) -> Vec<(usize, char, usize)> {
    let (mut all, mut depth, mut quoted, mut escaped) = (Vec::new(), 0_usize, false, false);
    for (at, c) in compact.char_indices() {
        if quoted {
            quoted = escaped || c != '"';
            escaped = !escaped && c == '\\';
            continue;
        }
        match c {
            '"' => quoted = true,
            ',' | ':' => all.push((at, c, depth)),
            '[' | '{' => depth += 1,
            ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    all
}

/// The parts of an array or an object.
fn parts(compact: &str) -> Vec<&str> {
    let commas = punctuation(compact).into_iter().filter(|(_, c, depth)| (*c, *depth) == (',', 1));
    let mut start = 1;
    let mut part = |end| {
        let part = compact.get(start..end).unwrap_or_default();
        start = end + 1;
        part
    };
    let mut all: Vec<&str> = commas.map(|(at, _, _)| part(at)).collect();
    all.push(part(compact.len().saturating_sub(1)));
    all
}

/// Bytes of a field's name, with the colon.
fn name(field: &str) -> usize {
    punctuation(field).first().map_or(0, |(at, _, _)| at + 1)
}

/// The same with a blank after each comma and colon.
fn spaced(compact: &str) -> String {
    let (mut text, mut start) = (String::new(), 0);
    for (at, _, _) in punctuation(compact) {
        text.push_str(compact.get(start..=at).unwrap_or_default());
        text.push(' ');
        start = at + 1;
    }
    text.push_str(compact.get(start..).unwrap_or_default());
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_is_short_stands_on_one_line() {
        let x = "x".repeat(40);
        let rule = json!({"id": "repo.allow[0]", "pattern": x});
        let value = json!({"empty": [], "format": 1, "rules": [rule, rule]});
        let line = format!("    {{\"id\": \"repo.allow[0]\", \"pattern\": \"{x}\"}}");
        assert_eq!(
            layout(&value).unwrap(),
            format!("{{\n  \"empty\": [],\n  \"format\": 1,\n  \"rules\": [\n{line},\n{line}\n  ]\n}}\n")
        );
        assert_eq!(layout(&json!({"a": [1, "b,c:d"]})).unwrap(), "{\"a\": [1, \"b,c:d\"]}\n");
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), ".{0,60}".prop_map(Value::from)];
        leaf.prop_recursive(4, 64, 8, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
                proptest::collection::btree_map("[ -~]{0,12}", inner, 0..8).prop_map(|map| json!(map)),
            ]
        })
    }

    proptest! {
        #[test]
        fn it_is_the_same_value(value in values()) {
            let text = layout(&value).unwrap();
            prop_assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        }
    }
}
