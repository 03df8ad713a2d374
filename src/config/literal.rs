//! `$NAME` and `${NAME}`, which people write as in a shell or in Compose, and names of variables that contain secrets.

use super::read::shorten;
use super::yaml::{Key, Node};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::source::{Located, Span};

/// Programs that expand variables of their arguments themselves.
const EXPANDING: [&str; 10] = ["ash", "bash", "busybox", "dash", "env", "fish", "ksh", "make", "sh", "zsh"];

/// Parts of names of variables that contain secrets.
const SECRETIVE: [&str; 12] = [
    "ACCESS_KEY",
    "APIKEY",
    "API_KEY",
    "AUTH_KEY",
    "CREDENTIAL",
    "PASSPHRASE",
    "PASSWD",
    "PASSWORD",
    "PRIVATE_KEY",
    "SECRET",
    "SIGNING_KEY",
    "TOKEN",
];

/// Whether a variable with this name probably contains a secret.
pub(super) fn secretive(name: &str) -> bool {
    let upper = name.to_ascii_uppercase().replace('-', "_");
    // `MAX_TOKENS` counts something.
    SECRETIVE.iter().any(|part| upper.contains(part)) && !upper.ends_with("TOKENS")
}

/// What to write instead of a variable of the repo file whose value is a secret of the host.
pub(super) fn masked(variable: &str, name: &str) -> String {
    let (variable, name) = (shorten(variable), shorten(name));
    format!(
        "the sandbox would see the secret; in the server file, write `masked_secrets: {{{variable}: {{value: !env {name}, scopes: [api.example.com]}}}}` in this repo's entry, and remove it here"
    )
}

/// A reference in a text, and whether it is the whole text.
fn reference(text: &str) -> Option<(&str, bool)> {
    let (before, rest) = text.split_once('$')?;
    let braced = rest.strip_prefix('{');
    let body = braced.unwrap_or(rest);
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (name, after) = body.split_at_checked(body.find(|c| !word(c)).unwrap_or(body.len()))?;
    let first = |c: char| c.is_ascii_uppercase() || c == '_' || (braced.is_some() && c.is_ascii_lowercase());
    let after = match braced {
        Some(_) => after.strip_prefix('}').or_else(|| after.split_once('}').map(|(_, after)| after)),
        // A name in lower case is more often a pattern or a password than a variable.
        None => (!name.contains(|c: char| c.is_ascii_lowercase())).then_some(after),
    };
    match after {
        Some(after) if name.starts_with(first) => Some((name, before.is_empty() && after.is_empty())),
        _ => reference(rest),
    }
}

fn finding(what: &str, span: Span) -> Diagnostic {
    Diagnostic::new(Code::NotExpanded, format!("{what} is literal: `$` is not expanded")).at(span, "")
}

const WHOLE: &str = "write the value itself; `!env NAME` can only stand for a whole value";

/// Reports a variable of the repo file.
pub(super) fn in_repo(key: &Key, node: &Node, value: &Located<String>, d: &mut Diagnostics) {
    if node.looked_up.is_some() {
        return;
    }
    let Some((name, whole)) = reference(&value.value) else { return };
    let finding = finding(&format!("the value of `{}`", shorten(&key.text)), value.span);
    d.push(match whole {
        _ if secretive(&key.text) || secretive(name) => finding.help(masked(&key.text, name)),
        true => finding.help(format!("write `!env {}`", shorten(name))),
        false => finding.help(WHOLE),
    });
}

/// Reports a variable of the server file, which cannot use `!env` for `env`.
pub(super) fn in_server(key: &Key, value: &Located<String>, d: &mut Diagnostics) {
    let Some((name, whole)) = reference(&value.value) else { return };
    let key = shorten(&key.text);
    let finding = finding(&format!("the value of `{key}`"), value.span);
    d.push(finding.help(match whole {
        true => format!("write the value itself, or `secrets: {{{key}: !env {}}}` instead", shorten(name)),
        false => "write the value itself".to_owned(),
    }));
}

/// Reports the value of a secret, without repeating it.
pub(super) fn in_secret(what: &str, text: &str, span: Span, d: &mut Diagnostics) {
    if let Some((_, true)) = reference(text) {
        d.push(finding(what, span).help("write `!env NAME`"));
    }
}

/// Reports words of a command that no shell expands.
pub(super) fn in_command(words: &[Located<String>], looked_up: &[bool], d: &mut Diagnostics) {
    let Some(program) = words.first().and_then(|word| word.value.rsplit('/').next()) else { return };
    if EXPANDING.contains(&program) {
        return;
    }
    for (word, _) in words.iter().zip(looked_up).filter(|(_, looked_up)| !**looked_up) {
        let Some((name, true)) = reference(&word.value) else { continue };
        let line: Vec<String> = words.iter().map(|word| word.value.clone()).collect();
        let script = super::read::quoted(&line.join(" "));
        let help = match secretive(name) {
            true => format!("let a shell expand it inside: `[sh, -c, {script}]`"),
            false => format!("write `!env {name}`, or let a shell expand it inside: `[sh, -c, {script}]`"),
        };
        d.push(finding("this argument", word.span).help(help));
    }
}

#[cfg(test)]
mod tests {
    use super::{reference, secretive};

    #[test]
    fn references_are_found_and_other_dollars_are_not() {
        for (text, found) in [
            ("$NAME", Some(("NAME", true))),
            ("${NAME}", Some(("NAME", true))),
            ("${name}", Some(("name", true))),
            ("${NAME:-x}", Some(("NAME", true))),
            ("a $1 $HOME/x", Some(("HOME", false))),
            ("$A$B", Some(("A", false))),
            ("$_X", Some(("_X", true))),
        ] {
            assert_eq!(reference(text), found, "{text}");
        }
        for text in ["", "$", "a$", "^foo$", "$1", "$name", "$Name", "${}", "${1}", "$$", "US$ 5", "${NAME", "$(x)"] {
            assert_eq!(reference(text), None, "{text}");
        }
    }

    #[test]
    fn names_of_secrets_are_told_from_others() {
        for name in ["GH_TOKEN", "github-token", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY", "OPENAI_API_KEY"] {
            assert!(secretive(name), "{name}");
        }
        for name in ["HOME", "KEYBOARD", "MAX_TOKENS", "AUTHOR", "PATH", "MONKEY"] {
            assert!(!secretive(name), "{name}");
        }
    }
}
