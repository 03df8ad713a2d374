//! Compiled manifests: deterministic, safe if a step is forgotten, and usable without sandboxc.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::harness::{REPO, SERVER, Sandbox, code, podman, text, unique};
use crate::random::Random;

/// The stdout of `sandboxc compile ARGS`.
pub fn compile(sandbox: &Sandbox, args: &[&str]) -> String {
    let output = sandbox.command(&[&["compile"], args].concat()).output().unwrap();
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    text(&output.stdout)
}

/// A shell command with the manifest (or nothing) on stdin.
pub fn sh(script: &str, input: &str) -> Output {
    let mut child = Command::new("sh")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It may exit without reading everything.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

/// A manifest that is applied by hand; removed when dropped.
pub struct Applied {
    pub manifest: String,
    /// The hash in all its names.
    pub hash: String,
}

impl Applied {
    pub fn new(manifest: String) -> Self {
        let hash =
            manifest.strip_prefix("# sandboxc plan ").and_then(|rest| rest.split(',').next()).unwrap().to_owned();
        Self { manifest, hash }
    }

    /// The commands in the header that apply it.
    pub fn recipe(&self) -> Vec<&str> {
        let lines: Vec<&str> = self
            .manifest
            .lines()
            .take_while(|line| !line.starts_with("# Remove (not with"))
            .filter_map(|line| line.strip_prefix("#   "))
            .filter(|line| line.starts_with("podman "))
            .collect();
        assert_eq!(lines.len(), 9, "{}", self.manifest);
        lines
    }

    /// The commands in the header that remove it.
    pub fn removal(&self) -> Vec<&str> {
        let after = self.manifest.split("# Remove (not with").nth(1).unwrap();
        after.lines().skip(1).map_while(|line| line.strip_prefix("#   ")).collect()
    }

    pub fn agent(&self, session: &str) -> String {
        format!("sandboxc-{}-{session}-agent", self.hash)
    }

    /// The names of its objects in podman.
    fn left(&self) -> String {
        left(&self.hash)
    }
}

pub fn left(hash: &str) -> String {
    let kinds: [&[&str]; 4] = [
        &["ps", "-a", "--format", "{{.Names}}"],
        &["pod", "ls", "--format", "{{.Name}}"],
        &["network", "ls", "--format", "{{.Name}}"],
        &["volume", "ls", "--format", "{{.Name}}"],
    ];
    let all = kinds.map(podman).concat();
    all.lines().filter(|line| line.contains(hash)).collect::<Vec<_>>().join("\n")
}

impl Drop for Applied {
    fn drop(&mut self) {
        sh("podman kube down --force -", &self.manifest);
        podman(&["network", "rm", "--force", &format!("sandboxc-{}-net", self.hash)]);
    }
}

#[test]
fn the_same_bytes_twice_from_anywhere_and_whatever_the_order_of_keys() {
    let repo = |keys: [&str; 4]| format!("{{{}, {}, {}, {}}}\n", keys[0], keys[1], keys[2], keys[3]);
    let keys = [
        "version: 1",
        "env: {B: '2', A: '1'}",
        "resource_limits: {timeout: 60, memory: 1g}",
        "network: {allow: [api.example.com, 'db.example.net:5432', {host: sub.example.org, ports: [80, 443]}]}",
    ];
    let other = [
        "network: {allow: [api.example.com, 'db.example.net:5432', {ports: [80, 443], host: sub.example.org}]}",
        "resource_limits: {memory: 1g, timeout: 60}",
        "version: 1",
        "env: {A: '1', B: '2'}",
    ];
    let server = [
        "{version: 1, network: {reachable: [203.0.113.0/24], deny: [a.example]}, vars: {b: x, a: y}}\n",
        "{vars: {a: y, b: x}, network: {deny: [a.example], reachable: [203.0.113.0/24]}, version: 1}\n",
    ];
    let sandbox = Sandbox::with(&repo(keys), server[0]);
    let both = |args: &[&str]| {
        let command = |target| [&["--target", target], args, &["--", "sh", "-c", "exit 0"]].concat();
        [compile(&sandbox, &command("kube")), compile(&sandbox, &command("script"))]
    };
    let first = both(&[]);
    assert_eq!(both(&[]), first, "twice");
    let elsewhere = |target| {
        let repo = sandbox.repo();
        let args = ["compile", "--target", target, "--repo", repo.to_str().unwrap(), "--", "sh", "-c", "exit 0"];
        text(
            &sandbox
                .command(&args)
                .current_dir("/")
                .env("LANG", "tr_TR.UTF-8")
                .env("TZ", "Asia/Tokyo")
                .output()
                .unwrap()
                .stdout,
        )
    };
    assert_eq!(["kube", "script"].map(elsewhere), first, "from another directory");
    fs::write(sandbox.repo().join(".sandboxc/sandbox.yaml"), repo(other)).unwrap();
    fs::write(sandbox.config_home().join("sandboxc/server.yaml"), server[1]).unwrap();
    // The header names the hash of each file that was read.
    let hashed = |line: &&str| {
        let hash = line.rsplit(' ').next().unwrap_or("");
        hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) && line.starts_with("#   ")
    };
    let plans = |all: &[String; 2]| {
        all.each_ref()
            .map(|text| text.lines().filter(|line| !hashed(line)).map(|line| format!("{line}\n")).collect::<String>())
    };
    let shuffled = both(&[]);
    assert_ne!(shuffled, first, "other files");
    assert_eq!(plans(&shuffled), plans(&first), "with shuffled keys");
    fs::write(sandbox.repo().join(".sandboxc/sandbox.yaml"), repo(keys).replace("A: '1'", "A: '3'")).unwrap();
    assert_ne!(both(&[]), first, "a different value is another plan");
}

#[test]
fn the_plain_pipe_without_a_network_never_starts_the_agent() {
    let sandbox = Sandbox::new();
    let session = unique();
    let applied = Applied::new(compile(&sandbox, &["--session", &session, "--", "touch", "started"]));
    let output = sh("cd /tmp && podman kube play --build=false -", &applied.manifest);
    assert_ne!(output.status.code(), Some(0));
    let said = sh(&format!("podman logs {}", applied.agent(&session).replace("-agent", "-gate")), "");
    let said = text(&said.stderr) + &text(&said.stdout);
    assert!(said.contains("gate: there is a default route"), "{said} {}", text(&output.stderr));
    let state = podman(&["inspect", "--format", "{{.State.Status}} {{.State.StartedAt}}", &applied.agent(&session)]);
    assert!(state.starts_with("created 0001-01-01"), "{state}");
    assert!(!sandbox.repo().join("started").exists());
    // Starting the pod by hand meets the same gate, also after its forwarder has started.
    let pod = applied.agent(&session).trim_end_matches("-agent").to_owned();
    for line in [format!("podman pod start {pod}"), format!("podman start {pod}-forwarder; podman pod start {pod}")] {
        assert_ne!(sh(&line, "").status.code(), Some(0), "{line}");
    }
    assert!(!sandbox.repo().join("started").exists());
    let hash = applied.hash.clone();
    drop(applied);
    podman(&["network", "rm", "podman-default-kube-network"]);
    assert_eq!(left(&hash), "");
}

#[test]
fn the_recipe_in_the_header_is_the_sandbox() {
    let sandbox = Sandbox::new();
    let session = unique();
    // The command starts as soon as the router is ready.
    let script = "curl -sS https://api.example.com/ || exit 9; \
                  curl -s http://denied.example.com/; echo $?; touch started; exit 3";
    let applied = Applied::new(compile(&sandbox, &["--session", &session, "--", "sh", "-c", script]));
    for line in applied.recipe() {
        let output = sh(&format!("cd /tmp && {line}"), &applied.manifest);
        assert_eq!(output.status.code(), Some(0), "{line}: {}", text(&output.stderr));
    }
    assert_eq!(podman(&["wait", &applied.agent(&session)]).trim(), "3");
    let logs = podman(&["logs", &applied.agent(&session)]);
    assert!(logs.contains("\"sni\": \"api.example.com\"") && logs.ends_with("6\n"), "{logs}");
    assert!(sandbox.repo().join("started").exists());
    assert_ne!(applied.left(), "");
    for line in applied.removal() {
        let output = sh(&format!("cd /tmp && {line}"), &applied.manifest);
        assert_eq!(output.status.code(), Some(0), "{line}: {}", text(&output.stderr));
    }
    assert_eq!(applied.left(), "");
    assert!(podman(&["volume", "ls", "--format", "{{.Name}}"]).lines().any(|name| name.starts_with("sandboxc-home-")));
}

/// Writes the script target and runs it with nothing else in its environment.
fn run_script(sandbox: &Sandbox, session: &str, command: &[&str]) -> (Output, String) {
    let args = [&["--target", "script", "--session", session, "--"], command].concat();
    let script = compile(sandbox, &args);
    let path = sandbox.scratch(&format!("{session}.sh"));
    fs::write(&path, &script).unwrap();
    let mut run = Command::new("sh");
    run.arg(&path).current_dir("/").env_clear().env("PATH", "/usr/bin:/bin").stdin(Stdio::null());
    for name in ["HOME", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"] {
        run.envs(std::env::var_os(name).map(|value| (name, value)));
    }
    let output = run.output().unwrap();
    let hash = script.split("# Sandbox ").nth(1).and_then(|rest| rest.split(',').next()).unwrap().to_owned();
    (output, hash)
}

#[test]
fn the_script_runs_the_same_sandbox_without_sandboxc() {
    assert!(!["/usr/bin", "/bin"].iter().any(|dir| Path::new(dir).join("sandboxc").exists()));
    let sandbox = Sandbox::with(&format!("{REPO}resource_limits: {{timeout: 10}}\n"), SERVER);
    let cases = [
        (
            "curl -sS https://api.example.com/; pwd; touch made; curl -s http://denied.example.com/ -o /dev/null; echo $?",
            0,
            "",
        ),
        ("echo out; echo err >&2; exit 3", 3, "err\n"),
        ("echo kept; sleep 60", 124, "run.sh: timed out after 10 s\n"),
    ];
    for (script, expected, err) in cases {
        let (output, hash) = run_script(&sandbox, &unique(), &["sh", "-c", script]);
        let (out, stderr) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(code(&output), expected, "{out} {stderr}");
        assert_eq!(stderr, err);
        match expected {
            0 => assert!(
                out.contains("api.example.com") && out.ends_with(&format!("{}\n6\n", sandbox.repo().display())),
                "{out}"
            ),
            3 => assert_eq!(out, "out\n"),
            _ => assert_eq!(out, "kept\n"),
        }
        assert_eq!(left(&hash), "", "{script}");
    }
    assert!(sandbox.repo().join("made").exists());
}

#[test]
fn a_script_that_cannot_set_the_sandbox_up_ends_with_125_and_leaves_nothing() {
    let sandbox = Sandbox::with("version: 1\nimage: localhost/not-there:1\n", SERVER);
    let (output, hash) = run_script(&sandbox, &unique(), &["true"]);
    assert_eq!(code(&output), 125);
    assert!(text(&output.stderr).contains("could not be set up"), "{}", text(&output.stderr));
    assert_eq!(left(&hash), "");
}

/// Up to 24 pieces of text that shells, YAML parsers, podman and unit files treat specially.
fn nasty(random: &mut Random) -> String {
    const WORDS: &str = r#"$ $$ $(HOME) ${HOME} $(X) `id` " ' \ \\ \n % %h %% # : - { } [ ] , &a *a !env !!str | > ? @ ~ null yes 0x1f
        1e3 1:20 2020-01-01 --- ... = ; é ✓ 😀 -Xmx512m {"a":["b",null]} << END_OF_MANIFEST abc"#;
    const HIDDEN: [&str; 10] = [" ", "  ", " #", ": ", "\n", "\t", "\r", "\u{a0}", "\u{feff}", "\u{7f}"];
    let pieces: Vec<&str> = WORDS.split_whitespace().chain(HIDDEN).collect();
    loop {
        let text: String = (0..=random.below(24)).map(|_| random.of(&pieces)).collect();
        if sandboxc::config::survives_podman(&text) {
            return text;
        }
    }
}

/// A double-quoted YAML scalar in ASCII: hidden characters must be written as escapes.
fn quoted(text: &str) -> String {
    let escape = |c: char| match c {
        '"' | '\\' => format!("\\{c}"),
        ' '..='~' => c.to_string(),
        _ => format!("\\U{:08x}", u32::from(c)),
    };
    format!("\"{}\"", text.chars().map(escape).collect::<String>())
}

// R-13, R-14, R-17
#[test]
fn random_text_arrives_byte_for_byte_by_run_and_by_script() {
    let mut random = Random::seeded();
    let env: Vec<(String, String)> = (0..60).map(|i| (format!("V{i}"), nasty(&mut random))).collect();
    let mut args: Vec<String> = (0..60).map(|_| nasty(&mut random)).collect();
    args.extend(["", "$(V0)", "$V0", "-Xmx512m -Xms256m", "\"", "{\"a\": 1}"].map(str::to_owned));
    let yaml: String = env.iter().map(|(name, value)| format!("  {name}: {}\n", quoted(value))).collect();
    let sandbox = Sandbox::with(&format!("{REPO}env:\n{yaml}"), SERVER);
    let program = "import json, os, sys\nprint(json.dumps([{k: os.environ.get(k) for k in ['V%d' % i for i in range(60)]}, sys.argv[1:]]))";
    let command: Vec<&str> = ["python3", "-c", program].into_iter().chain(args.iter().map(String::as_str)).collect();
    let expected =
        json!([env.iter().map(|(name, value)| (name.clone(), json!(value))).collect::<serde_json::Map<_, _>>(), args]);
    let ran = sandbox.run(&command);
    let (scripted, _) = run_script(&sandbox, &unique(), &command);
    for (way, output) in [("run", ran), ("script", scripted)] {
        assert_eq!(code(&output), 0, "{way}: {}", text(&output.stderr));
        let seen: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
        for (name, value) in &env {
            assert_eq!(seen[0][name], value.as_str(), "{way}: {name}");
        }
        for (arg, seen) in args.iter().zip(seen[1].as_array().unwrap()) {
            assert_eq!(seen, arg.as_str(), "{way}");
        }
        assert_eq!(seen, expected, "{way}");
    }
}

#[test]
fn limits_reach_the_container_and_a_host_that_cannot_keep_them_starts_nothing() {
    let limits = "resource_limits: {memory: 256m, pids_limit: 77, cpus: 0.5}\n";
    let sandbox = Sandbox::with(&format!("{REPO}{limits}"), SERVER);
    let session = unique();
    let applied = Applied::new(compile(&sandbox, &["--session", &session, "--", "touch", "started"]));
    let recipe = applied.recipe();
    let script = compile(&sandbox, &["--target", "script", "--session", &session, "--", "touch", "started"]);
    let update = script.lines().map(str::trim).find(|line| line.starts_with("podman update ")).unwrap();
    for line in [recipe[0], recipe[1], recipe[2], update] {
        let output = sh(&format!("cd /tmp && {line}"), &applied.manifest);
        assert_eq!(output.status.code(), Some(0), "{line}: {}", text(&output.stderr));
    }
    let format = "{{.HostConfig.Memory}} {{.HostConfig.MemorySwap}} {{.HostConfig.PidsLimit}} {{.HostConfig.CpuQuota}}/{{.HostConfig.CpuPeriod}} {{.State.Status}}";
    let seen = podman(&["inspect", "--format", format, &applied.agent(&session)]);
    assert_eq!(seen.trim(), "268435456 268435456 77 50000/100000 created", "no swap beside the memory");
    drop(applied);

    let controllers = podman(&["info", "--format", "{{.Host.CgroupControllers}}"]);
    let can = ["memory", "pids", "cpu"].iter().all(|name| controllers.contains(name));
    let session = unique();
    let output =
        sandbox.run_with(&["--session", &session], &["sh", "-c", "touch started; cat /sys/fs/cgroup/pids.max"]);
    if can {
        assert_eq!(text(&output.stdout), "77\n", "{}", text(&output.stderr));
    } else {
        assert_eq!(code(&output), 125);
        assert_eq!(text(&output.stderr).lines().count(), 1, "{}", text(&output.stderr));
        assert!(!sandbox.repo().join("started").exists());
    }
    let of_session = format!("label=io.sandboxc.session={session}");
    for kind in [&["ps", "-a"][..], &["pod", "ls"], &["network", "ls"], &["volume", "ls"]] {
        assert_eq!(podman(&[kind, &["--quiet", "--filter", &of_session]].concat()), "", "{kind:?}");
    }
}

#[test]
fn a_directory_holds_the_last_tree_only_and_one_of_the_users_is_left_alone() {
    let sandbox = Sandbox::new();
    let out = sandbox.scratch("out");
    let at = out.to_str().unwrap();
    let list = || text(&Command::new("find").current_dir(&out).arg(".").output().unwrap().stdout);
    compile(&sandbox, &["-o", at, "--", "true"]);
    assert!(list().contains("router/policy.json"));
    fs::write(
        sandbox.config_home().join("sandboxc/server.yaml"),
        "version: 1\ndefaults: {network: {sandbox_enabled: false}}\n",
    )
    .unwrap();
    compile(&sandbox, &["-o", at, "--", "true"]);
    assert!(!list().contains("router") && list().contains("plan.json"), "{}", list());
    fs::write(out.join("notes.txt"), "mine").unwrap();
    let before = list();
    for target in ["kube", "script", "quadlet"] {
        let output = sandbox.command(&["compile", "--target", target, "-o", at, "--", "true"]).output().unwrap();
        assert_eq!(code(&output), 125, "{target}");
        let stderr = text(&output.stderr);
        assert!(stderr.contains("which sandboxc did not write there"), "{target}: {stderr}");
        assert_eq!(list(), before, "{target}");
    }
    let units = sandbox.scratch("units");
    for session in ["one", "two", "one"] {
        compile(&sandbox, &["--target", "quadlet", "--session", session, "-o", units.to_str().unwrap(), "--", "true"]);
    }
    let mut names: Vec<_> = fs::read_dir(&units).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["one", "two"], "a directory of several sets");
}
