//! Whatever `validate` accepts compiles: for `run`, for a manifest, for a script and for units.

use std::os::unix::ffi::OsStrExt as _;

use proptest::prelude::*;
use sandboxc::emit::{PodmanVersion, tree};
use sandboxc::plan::{Command, Keeper, PlanRequest, plan};

use super::*;

/// Refuses with the reason why a valid config does not compile.
fn compile(world: &World) -> Result<(), String> {
    let loaded = world.load();
    let Some(resolved) = &loaded.resolved else { return Ok(()) };
    let mut words: Vec<String> = resolved.command.iter().map(|word| word.value.clone()).collect();
    if words.is_empty() {
        words.push("true".to_owned());
    }
    let (run, hold) = (Command::Run(words), Command::Hold);
    let newest: PodmanVersion = "5.8".parse().unwrap();
    for podman in [PodmanVersion::FLOOR, newest] {
        for (command, keeper) in [
            (&hold, Keeper::Runner(Path::new("/run/user/1000/sandboxc/x"))),
            (&run, Keeper::Applier),
            (&run, Keeper::Service(None)),
        ] {
            let request = PlanRequest { resolved, session: "x", command, attempt: 0, keeper };
            let plan = plan(request).map_err(|error| format!("plan: {error}"))?;
            let units = matches!(keeper, Keeper::Service(_));
            if units {
                tree::quadlet(&plan, podman).map_err(|error| format!("units for {podman}: {error}"))?;
                continue;
            }
            tree::compile(&plan, podman).map_err(|error| format!("manifest for {podman}: {error}"))?;
            if *command != hold {
                tree::script(&plan, podman).map_err(|error| format!("script: {error}"))?;
            }
        }
    }
    Ok(())
}

/// Gaps of the past: `validate` refuses each, with a place if the config has one.
#[test]
fn what_cannot_be_compiled_is_refused_by_validate() {
    let ports: Vec<String> = (1..=60_000_u32).step_by(10).map(|port| port.to_string()).collect();
    let world = repo(&format!(
        "version: 1\nnetwork: {{allow: [{{host: a.example.com, ports: [{}]}}]}}\n",
        ports[..5001].join(", ")
    ));
    assert!(world.text().contains("more than 5000 named ports"), "{}", world.text());
    assert!(world.text().contains("sandbox.yaml:2:"), "{}", world.text());
    let fewer = repo(&format!(
        "version: 1\nnetwork: {{allow: [{{host: a.example.com, ports: [{}]}}]}}\n",
        ports[..5000].join(", ")
    ));
    assert_eq!(compile(&fewer), Ok(()));

    for name in [b"a:b".as_slice(), b"a\xffb", b"a\nb"] {
        let mut world = repo("version: 1\n");
        let moved = world.root().join(std::ffi::OsStr::from_bytes(name));
        fs::rename(world.root().join("w"), &moved).unwrap();
        world.inputs.repo_dir = moved;
        fs::write(
            world.inputs.repo_dir.join(".sandboxc/sandbox.yaml"),
            "version: 1\nworkspace: {target: /workspace}\n",
        )
        .unwrap();
        assert_eq!(world.codes(), [Code::WorkspaceRefused], "{}", world.text());
    }
    for text in ["workspace: {target: \"/a:b\"}", "mounts: [{source: ., target: \"/a:b\"}]"] {
        assert_eq!(repo(&format!("version: 1\n{text}\n")).codes(), [Code::BadPath], "{text}");
    }
}

#[test]
fn long_and_odd_values_compile() {
    let long = format!("/{}", "a".repeat(2000));
    let text = format!(
        "version: 1\ncommand: [sh, -c, \"$$(x) % \\\" ' \\\\ \u{e9}\"]\nworkspace: {{target: \"/a b/c %d\"}}\n\
         env: {{A: \"100% $x\", B: \"\"}}\nnetwork:\n  allow:\n    - {{host: a.example.com, paths: [\"{long}\", \"/{}\"]}}\n",
        "*/".repeat(15)
    );
    let world = repo(&text);
    assert!(world.load().resolved.is_some(), "{}", world.text());
    assert_eq!(compile(&world), Ok(()));
}

/// Parts of repo files, common and unusual ones.
fn repo_file() -> impl Strategy<Value = String> {
    let word = "[a-z$%:' é\\-]{0,6}";
    let command = proptest::collection::vec(word, 0..3);
    let target = "/[a-z$%: é\\-]{1,6}(/[a-z:\\-]{1,4})?";
    let path = "/[a-zA-Z0-9*:$%é.\\-]{0,30}";
    let host = proptest::sample::select(vec![
        "a.example.com",
        ".example.org",
        "*.b.example.com",
        "bücher.example",
        "203.0.114.9",
    ]);
    let entry = (host, proptest::collection::vec(any::<u16>(), 0..3), proptest::option::of(path));
    let entries = proptest::collection::vec(entry, 0..4);
    (command, target, entries, "[a-zA-Z_:]{1,5}", word, any::<bool>()).prop_map(|(command, target, entries, name, value, root)| {
        let quote = |text: &String| serde_json::to_string(text).unwrap();
        let entries: Vec<String> = entries
            .iter()
            .map(|(host, ports, path)| {
                let path = path.as_ref().map(|path| format!(", paths: [{}]", quote(path))).unwrap_or_default();
                let ports = if ports.is_empty() { String::new() } else { format!(", ports: {ports:?}") };
                format!("{{host: \"{host}\"{ports}{path}}}")
            })
            .collect();
        let command: Vec<String> = command.iter().map(quote).collect();
        let identity = if root { "root" } else { "host-user" };
        format!(
            "version: 1\nidentity: {identity}\ncommand: [{}]\nworkspace: {{target: {}}}\nenv: {{{}: {}}}\nnetwork: {{allow: [{}]}}\n",
            command.join(", "), quote(&target), quote(&name), quote(&value), entries.join(", ")
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn what_validate_accepts_compiles(text in repo_file()) {
        let world = repo(&text);
        prop_assert_eq!(compile(&world), Ok(()), "{}", text);
    }
}
