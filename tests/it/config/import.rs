//! `import` as a command. What each format becomes is tested beside its reader.

use super::*;

#[test]
fn the_result_is_valid_and_a_table_says_what_became_of_each_part() {
    let world = World::new();
    let w = world.root().join("w");
    fs::write(
        w.join("settings.json"),
        r#"{"sandbox": {"network": {"allowedDomains": ["api.widgets.example:443", "*.parts.example", "localhost"],
            "deniedDomains": ["ads.parts.example"]}}}"#,
    )
    .unwrap();
    let (code, out, said) = run(&world, &["import", "srt", "settings.json"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(
        out,
        "# Imported. A comment says what the source said where it could not be kept.
version: 1
# settings.json:1: localhost (cannot): the sandbox has a loopback of its own, and cannot reach the host's
# settings.json:2: ads.parts.example (wider): a repo file cannot deny; until the server file does, an entry for more hosts permits this one, too
network:
  allow:
    - api.widgets.example:443  # settings.json:1
    - \"*.parts.example\"  # settings.json:1; narrower: every port was open there; name the others: `host:22`
"
    );
    for line in [
        "settings.json:1  api.widgets.example:443  → api.widgets.example:443",
        "settings.json:1  localhost                → –  cannot: the sandbox has a loopback of its own",
        "→ network.deny: \"ads.parts.example\"  server: a repo file cannot deny",
        "print it with `--server`",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    let (_, server, _) = run(&world, &["import", "--server", "srt", "settings.json"]);
    assert_eq!(server, "network:\n  deny:\n    - \"ads.parts.example\"  # settings.json:2\n");
    assert!(!w.join(".sandboxc/sandbox.yaml").exists(), "nothing was written");
    assert_eq!(run(&world, &["import", "--write", "srt", "settings.json"]).0, Some(0));
    assert_eq!(run(&world, &["validate"]).0, Some(0));
    let (code, _, said) = run(&world, &["import", "--write", "srt", "settings.json"]);
    assert_eq!(code, Some(2), "an existing config stays: {said}");
    // The lines for the server file are valid in this repo's entry.
    let entry = server.replace('\n', "\n    ");
    world.server(&format!("version: 1\nrepos:\n  w:\n    path: {}\n    {}\n", w.display(), entry.trim_end()));
    let (code, _, said) = run(&world, &["explain", "https://ads.parts.example/"]);
    assert_eq!(code, Some(1), "{said}");
    assert_eq!(run(&world, &["explain", "https://img.parts.example/"]).0, Some(0));
}

#[test]
fn a_file_that_cannot_be_read_changes_nothing() {
    let world = World::new();
    fs::write(world.root().join("w/a.json"), "{\"sandbox\": [").unwrap();
    for (path, told) in [("a.json", "a.json:1:"), ("b.json", "b.json: No such file"), (".", ".: it is not a file")] {
        let (code, out, said) = run(&world, &["import", "srt", path]);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{said}");
        assert!(said.contains(told), "{said}");
    }
}
