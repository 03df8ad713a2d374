//! `init` and `preset` as commands.

use super::*;

fn config(world: &World) -> String {
    fs::read_to_string(world.root().join("w/.sandboxc/sandbox.yaml")).unwrap()
}

#[test]
fn every_preset_gives_a_valid_config_that_allows_what_it_lists() {
    let (_, listed, _) = run(&World::new(), &["preset", "ls"]);
    let names: Vec<&str> = listed.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(names.len(), 10, "{listed}");
    for name in names {
        let world = World::new();
        let (code, out, said) = run(&world, &["init", "--preset", name, "--server"]);
        assert_eq!(code, Some(0), "{name}: {said}");
        let (code, _, said) = run(&world, &["validate"]);
        assert_eq!(code, Some(0), "{name}: {said}\n{}", config(&world));
        // The stanza is valid as printed, and with its comments taken as entries.
        let stanza = out.replace("    # masked", "    masked").replace("    #   ", "      ");
        for text in [&out, &stanza] {
            world.server(text);
            let (code, _, said) = run(&world, &["validate"]);
            assert_eq!(code, Some(0), "{name}: {said}\n{text}");
        }
        let (_, shown, _) = run(&world, &["preset", "show", name]);
        assert!(shown.contains("source: https://"), "{shown}");
    }
}

#[test]
fn each_entry_says_what_asked_for_it() {
    let world = World::new();
    let repo = world.root().join("w");
    fs::write(
        repo.join("package-lock.json"),
        "\"resolved\": \"https://npm.example.com/a\"\n\"resolved\": \"https://npm.example.com/b\"\n",
    )
    .unwrap();
    fs::write(repo.join("Cargo.lock"), "source = \"git+https://git.example.com/a/b\"\n").unwrap();
    fs::create_dir_all(world.root().join("h")).unwrap();
    fs::write(world.root().join("h/.npmrc"), "registry=https://mirror.example.com/\n").unwrap();
    let (code, out, said) = run(&world, &["init", "--preset", "claude", "--preset", "github-read-only"]);
    assert_eq!((code, out.as_str()), (Some(0), ""), "{said}");
    let text = config(&world);
    for line in [
        "# preset claude\ncommand: [claude]\n",
        "    - api.anthropic.com  # preset claude: the API, feature flags, event logging\n",
        "    # - downloads.claude.ai  # preset claude, if needed: updates and plugins\n",
        "    - {host: api.github.com, methods: [GET]}  # preset github-read-only: API, reading\n",
        "    - git.example.com:443  # Cargo.lock:1\n",
        "    - npm.example.com:443  # package-lock.json:1 and 1 more lines\n",
        "    - mirror.example.com:443  # ~/.npmrc:1\n",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(said.contains("Cargo.lock: packages also come from cargo's default registry"), "{said}");
    for (request, code) in [
        (&["https://npm.example.com/a"][..], 0),
        (&["http://npm.example.com/a"], 1),
        (&["--git", "fetch", "acme/x", "github.com"], 0),
        (&["--git", "push", "acme/x", "refs/heads/main", "github.com"], 1),
    ] {
        assert_eq!(run(&world, &[&["explain"], request].concat()).0, Some(code), "{request:?}");
    }
}

#[test]
fn an_existing_config_and_an_unknown_preset_are_refused() {
    let world = repo("version: 1\n");
    let (code, _, said) = run(&world, &["init"]);
    assert_eq!(code, Some(2));
    assert!(said.contains("sandbox.yaml exists; to add what a run needs, use `sandboxc suggest`"), "{said}");
    assert_eq!(config(&world), "version: 1\n");
    let (code, _, said) = run(&World::new(), &["init", "--preset", "cloude"]);
    assert_eq!(code, Some(2));
    assert!(said.contains("did you mean `claude`?"), "{said}");
}

#[test]
fn a_repo_without_anything_gets_a_config_that_allows_nothing() {
    let world = World::new();
    let (code, _, said) = run(&world, &["init"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(config(&world).ends_with("network:\n  allow: []\n"), "{}", config(&world));
    assert_eq!(run(&world, &["validate"]).0, Some(0));
}

#[test]
fn a_hostile_repo_is_neither_followed_nor_waited_for() {
    let world = World::new();
    let repo = world.root().join("w");
    std::os::unix::fs::symlink("/etc/passwd", repo.join("Cargo.lock")).unwrap();
    let pipe = repo.join("yarn.lock");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    fs::write(
        repo.join("package-lock.json"),
        "\"resolved\": \"https://x.example.com\\n- evil.example.com\"\n\"resolved\": \"https://a b/\"\n",
    )
    .unwrap();
    let _ = fs::remove_dir(repo.join(".sandboxc"));
    fs::create_dir(world.root().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink(world.root().join("elsewhere"), repo.join(".sandboxc")).unwrap();
    let (code, _, said) = run(&world, &["init"]);
    assert_ne!(code, Some(0), "{said}");
    assert!(
        fs::read_dir(world.root().join("elsewhere")).unwrap().next().is_none(),
        "nothing is written through a link"
    );
    fs::remove_file(repo.join(".sandboxc")).unwrap();
    assert_eq!(run(&world, &["init"]).0, Some(0));
    assert!(!config(&world).contains("evil"), "{}", config(&world));
}

#[test]
fn an_agents_preset_brings_an_image_with_its_program_and_the_schema_for_editors() {
    let world = World::new();
    let (code, _, said) = run(&world, &["init", "--preset", "claude", "--preset", "codex"]);
    assert_eq!(code, Some(0), "{said}");
    let text = config(&world);
    assert!(text.starts_with("# yaml-language-server: $schema=sandbox.schema.json\n"), "{text}");
    assert!(text.contains("# preset claude, codex\nimage: {containerfile: Containerfile}\n"), "{text}");
    let read = |name: &str| fs::read_to_string(world.root().join("w/.sandboxc").join(name)).unwrap();
    let containerfile = read("Containerfile");
    for line in ["FROM ", "npm install --global @anthropic-ai/claude-code", "npm install --global @openai/codex"] {
        assert!(containerfile.contains(line), "{containerfile}");
    }
    assert_eq!(read("sandbox.schema.json"), run(&world, &["schema", "repo"]).1);
    assert_eq!(run(&world, &["validate"]).0, Some(0));
    // One that exists is kept.
    let world = World::new();
    fs::write(world.root().join("w/.sandboxc/Containerfile"), "FROM localhost/mine:1\n").unwrap();
    let (code, _, said) = run(&world, &["init", "--preset", "claude"]);
    assert_eq!(code, Some(0), "{said}");
    let kept = fs::read_to_string(world.root().join("w/.sandboxc/Containerfile")).unwrap();
    assert_eq!(kept, "FROM localhost/mine:1\n");
    // A forge needs none.
    let world = World::new();
    assert_eq!(run(&world, &["init", "--preset", "github"]).0, Some(0));
    assert!(!world.root().join("w/.sandboxc/Containerfile").exists() && !config(&world).contains("image:"));
}

#[test]
fn agent_without_a_config_names_the_command_that_writes_one() {
    let world = World::new();
    let (code, _, said) = run(&world, &["agent"]);
    assert_eq!(code, Some(2));
    assert!(
        said.contains("write one with `sandboxc init --preset NAME`; the agents are claude, codex, gemini, opencode"),
        "{said}"
    );
    fs::create_dir_all(world.root().join("h/.claude")).unwrap();
    let (_, _, said) = run(&world, &["agent"]);
    assert!(said.contains("write one with `sandboxc init --preset claude`"), "{said}");
    assert!(!world.root().join("w/.sandboxc/sandbox.yaml").exists(), "nothing asks without a terminal");
}
