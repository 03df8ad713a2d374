//! Whatever the files contain, there is no panic, every place is inside its file, and all findings can be rendered.

use proptest::prelude::*;
use sandboxc::diagnostic::{Severity, render_json};

use super::*;

const WORDS: &[&str] = &[
    "version: 1\n",
    "version: 2\n",
    "network:",
    "allow:",
    "deny:",
    "ceiling:",
    "host:",
    "ports:",
    "private:",
    "env:",
    "mounts:",
    "source:",
    "target:",
    "read_only:",
    "workspace:",
    "image:",
    "command:",
    "resource_limits:",
    "timeout:",
    "memory:",
    "cpus:",
    "vars:",
    "defaults:",
    "repos:",
    "path:",
    "pass_env:",
    "allow_mounts:",
    "upstream_dns:",
    "reachable:",
    "pool:",
    "masked_secrets:",
    "secrets:",
    "signing_credentials:",
    "github_app_credentials:",
    "scopes:",
    "value:",
    "methods:",
    "paths:",
    "graphql:",
    "GET",
    "a:",
    " ",
    "\n",
    "\n  ",
    "\n    ",
    "\n  - ",
    "- ",
    "[",
    "]",
    "{",
    "}",
    ", ",
    "!env A",
    "!var a",
    "!file x",
    "!x y",
    "&a ",
    "*a",
    "\"*\"",
    "*.com",
    ".x.com",
    "a.example.com",
    "a.example.com:22",
    "10.0.0.5:80",
    "10.0.0.0/8",
    "::1",
    "true",
    "no",
    "10",
    "1.5",
    "\"4g\"",
    "~",
    "/x",
    "../",
    "$HOME",
    "é\u{301}",
    "\u{1f600}",
    "\t",
    "\r\n",
    "\"\\n\\nx\"",
    "|\n  text\n",
    "#",
    "'",
    "\"",
    "<<: ",
    "? ",
    ": ",
    "---\n",
    "0777",
    "\u{7f}",
    "\u{202e}",
];

fn text_of_words() -> impl Strategy<Value = String> {
    proptest::collection::vec(proptest::sample::select(WORDS), 0..40).prop_map(|words| words.concat())
}

fn holds(world: &World) -> Result<(), TestCaseError> {
    let loaded = world.load();
    for diagnostic in loaded.diagnostics.sorted() {
        for label in &diagnostic.labels {
            let file = loaded.sources.file(label.span.file);
            prop_assert!(
                file.is_some_and(|f| f.text().get(label.span.start..label.span.end).is_some()),
                "{diagnostic:?}"
            );
        }
        prop_assert!(diagnostic.severity != Severity::Error || !diagnostic.help.is_empty(), "{diagnostic:?}");
    }
    prop_assert_eq!(loaded.resolved.is_none(), loaded.diagnostics.has_errors());
    for colour in [false, true] {
        let text = loaded.diagnostics.text(&loaded.sources, colour);
        prop_assert!(colour || !text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
    }
    let json: serde_json::Value = serde_json::from_str(&render_json(&loaded.diagnostics, &loaded.sources)).unwrap();
    prop_assert!(json.is_array());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_words_are_read_or_refused(repo in text_of_words(), server in text_of_words(), list in text_of_words()) {
        let world = World::new();
        world.repo(&format!("version: 1\n{repo}")).server(&format!("version: 1\n{server}"));
        world.write("c/sandboxc/allowed-hosts", list);
        holds(&world)?;
    }

    #[test]
    fn any_bytes_are_read_or_refused(
        repo in proptest::collection::vec(any::<u8>(), 0..80),
        server in proptest::collection::vec(any::<u8>(), 0..80),
        list in proptest::collection::vec(any::<u8>(), 0..80),
    ) {
        let world = World::new();
        world.write("w/.sandboxc/sandbox.yaml", repo).write("c/sandboxc/server.yaml", server);
        world.write("c/sandboxc/allowed-hosts", list);
        holds(&world)?;
    }

    #[test]
    fn a_quoted_value_reaches_the_agent_as_it_is(value in "\\PC{0,30}") {
        let quoted = serde_json::to_string(&value).unwrap();
        // JSON does not escape some characters that a config must escape.
        prop_assume!(!value.chars().any(|c| c.is_control() || ('\u{2028}'..='\u{202e}').contains(&c) || c == '\u{feff}'
            || ('\u{2066}'..='\u{2069}').contains(&c) || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{fffe}' | '\u{ffff}')));
        let world = repo(&format!("version: 1\nenv: {{A: {quoted}}}\ncommand: [{quoted}, {quoted}]\n"));
        if !value.is_empty() {
            let resolved = world.resolved();
            prop_assert_eq!(&resolved.env["A"].value, &value);
            prop_assert_eq!(&resolved.command[1].value, &value);
        }
    }
}
