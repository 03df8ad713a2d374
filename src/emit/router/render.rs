//! Templates to text, strictly: an undefined name, an unknown template or an unquotable value is an error.

use std::borrow::Cow;

use minijinja::State;
use minijinja::value::{Serde, ValueKind};
use minijinja::{Error, ErrorKind, Output, Value};
use serde::Serialize;

use crate::emit::template::environment;

const TEMPLATES: [(&str, &str); 14] = [
    ("router/entry.sh", include_str!("../../../templates/router/entry.sh.j2")),
    ("router/nginx.conf", include_str!("../../../templates/router/nginx.conf.j2")),
    ("router/inspected.conf", include_str!("../../../templates/router/inspected.conf.j2")),
    ("router/requests.conf", include_str!("../../../templates/router/requests.conf.j2")),
    ("router/credentials.js", include_str!("../../../templates/router/credentials.js.j2")),
    ("router/inspect.js", include_str!("../../../templates/router/inspect.js.j2")),
    ("router/github.conf", include_str!("../../../templates/router/github.conf.j2")),
    ("router/hosts.map", include_str!("../../../templates/router/hosts.map.j2")),
    ("router/refusal.js", include_str!("../../../templates/router/refusal.js.j2")),
    ("router/dns.conf", include_str!("../../../templates/router/dns.conf.j2")),
    ("router/resolver.conf", include_str!("../../../templates/router/resolver.conf.j2")),
    ("forwarder/forwarder.conf", include_str!("../../../templates/forwarder/forwarder.conf.j2")),
    ("forwarder/gate.sh", include_str!("../../../templates/forwarder/gate.sh.j2")),
    ("forwarder/limits.sh", include_str!("../../../templates/forwarder/limits.sh.j2")),
];

/// Fills one template.
pub(super) fn render(name: &str, context: impl Serialize) -> anyhow::Result<String> {
    let mut env = environment()?;
    env.set_formatter(plain);
    env.add_filter("nginx", nginx);
    env.add_filter("json", json);
    let Some((_, source)) = TEMPLATES.iter().find(|(known, _)| *known == name) else {
        anyhow::bail!("no template {name}");
    };
    Ok(env.render_named_str(name, source, Value::from(Serde(&context)))?)
}

/// Writes a value as it is. One that could end a line, and with it a comment or a directive, is refused.
fn plain(out: &mut Output, _state: &mut State, value: &Value) -> Result<(), Error> {
    let refuse = |what: &str| Err(Error::new(ErrorKind::InvalidOperation, what.to_owned()));
    let text = match (value.as_str(), value.kind()) {
        (Some(text), _) => Cow::Borrowed(text),
        (None, ValueKind::Number) => Cow::Owned(value.to_string()),
        (None, kind) => return refuse(&format!("a {kind} has no place in a file")),
    };
    if !is_one_line(&text) {
        return refuse("a value holds a control character");
    }
    out.write_str(&text).map_err(|_| Error::new(ErrorKind::WriteFailure, "cannot write"))
}

/// Adds lines, under the same rule as for values.
pub(super) fn append(mut text: String, lines: &[String]) -> anyhow::Result<String> {
    for line in lines {
        anyhow::ensure!(is_one_line(line), "a line holds a control character: {line:?}");
        text.push_str(line);
        text.push('\n');
    }
    Ok(text)
}

fn is_one_line(text: &str) -> bool {
    !text.chars().any(|c| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}'))
}

/// One word of nginx's config. `$` cannot be escaped there, so it is refused.
fn nginx(value: &Value) -> Result<String, Error> {
    let text = value.to_string();
    if text.contains('$') {
        return Err(Error::new(ErrorKind::InvalidOperation, "a value for nginx holds `$`"));
    }
    Ok(format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\"")))
}

/// A JavaScript literal.
fn json(value: &Value) -> Result<String, Error> {
    let error = |e: serde_json::Error| Error::new(ErrorKind::InvalidOperation, e.to_string());
    serde_json::to_string(value).map_err(error)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_can_end_its_line() {
        for hostile in ["a\nb", "a\rb", "a\0", "\u{2028}", "\u{7f}", "\u{85}"] {
            assert!(render("router/hosts.map", json!({ "port": hostile })).is_err(), "{hostile:?}");
            assert!(append(String::new(), &[hostile.to_owned()]).is_err(), "{hostile:?}");
        }
        assert!(render("router/hosts.map", json!({ "port": "ä b" })).unwrap().starts_with("# Port ä b:"));
        assert_eq!(append("a\n".to_owned(), &["# ä".to_owned()]).unwrap(), "a\n# ä\n");
    }

    #[test]
    fn undefined_names_and_values_that_are_no_text_are_refused() {
        assert!(render("router/hosts.map", json!({})).is_err());
        assert!(render("router/hosts.map", json!({ "port": null })).is_err());
        assert!(render("router/hosts.map", json!({ "port": [1] })).is_err());
        assert!(render("router/none", json!({})).is_err());
    }

    #[test]
    fn words_of_nginx_are_quoted() {
        assert_eq!(nginx(&Value::from(r#"a"b\c"#)).unwrap(), r#""a\"b\\c""#);
        assert!(nginx(&Value::from("$host")).is_err(), "a variable");
    }
}
