//! The real Quadlet generator of any podman, and random configs to feed it. Shared by both suites.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use sandboxc::config::Protected;
use sandboxc::emit::quadlet::service_of;
use sandboxc::emit::{File, PodmanVersion, tree};
use sandboxc::plan::pod::EXECUTE;
use sandboxc::plan::{Plan, plan_hash, trust};
use sandboxc::source::{Place, Sourced};

use crate::fixture::{from_containerfile, from_registry, resolved, units_of, with_secrets};
use crate::quadlet_reader::{expand, lines, values, words};
use crate::systemd_reader::{exec_start, options};

/// A generator: a program and its first arguments.
pub struct Generator(Vec<OsString>);

impl Generator {
    /// The generator of the installed podman.
    #[allow(dead_code, reason = "the other suite runs where none is installed")]
    pub fn installed() -> Self {
        Self(vec!["/usr/libexec/podman/quadlet".into()])
    }

    /// A generator in a directory that `tests/host/generator` created.
    #[allow(dead_code, reason = "the other suite has one installed")]
    pub fn unpacked(folder: &Path) -> Self {
        let program = folder.join("quadlet");
        Self(vec![folder.join("ld.so").into(), "--library-path".into(), folder.into(), program.into()])
    }

    /// The services that it generates from a directory, by name. Its stderr must be empty, and there must be as many as
    /// units.
    pub fn check(&self, dir: &Path) -> Vec<(String, String)> {
        let output = Command::new(&self.0[0])
            .args(&self.0[1..])
            .args(["-dryrun", "-user"])
            .env("QUADLET_UNIT_DIRS", dir)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let complaints: Vec<&str> = stderr.lines().filter(|line| !line.contains("Loading source unit file")).collect();
        assert!(complaints.is_empty() && output.status.success(), "{complaints:?}");
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut services: Vec<(String, String)> = Vec::new();
        for line in stdout.lines() {
            match line.strip_prefix("---").and_then(|rest| rest.strip_suffix("---")) {
                Some(name) => services.push((name.to_owned(), String::new())),
                None => services.last_mut().unwrap().1.push_str(&format!("{line}\n")),
            }
        }
        let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut expected: Vec<String> = names.filter_map(|name| service_of(&name)).collect();
        let mut made: Vec<String> = services.iter().map(|(name, _)| name.clone()).collect();
        expected.sort();
        made.sort();
        assert_eq!(made, expected, "{}", dir.display());
        services
    }
}

/// The text of the agent's service.
pub fn agent_of(services: Vec<(String, String)>) -> String {
    services.into_iter().find(|(name, _)| name.ends_with(".service") && plan_hash(name).is_none()).unwrap().1
}

pub fn write(dir: &Path, files: &[File]) {
    for file in files {
        let path = dir.join(&file.path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, &file.text).unwrap();
    }
}

/// Values that once caused errors, and any others without a NUL.
pub fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{0,40}",
        "[ \\t\\n'\"\\\\%${}a-z]{0,20}",
        "\\PC{0,20}",
        "[\\x01-\\x7f]{0,20}",
        Just("\u{80}\u{fffe}\u{1fffe}\u{85}".to_owned()),
        Just("# not a comment".to_owned()),
        Just("%h${HOME}$HOME$$".to_owned()),
    ]
}

fn path() -> impl Strategy<Value = String> {
    "/[a-z][a-zA-Z0-9 ,:;'\"%$#=~@\\[\\]{}()*?!&|<>^`+._-]{0,20}[a-z]"
}

#[derive(Clone, Debug)]
struct Random {
    env: Vec<String>,
    words: Vec<String>,
    source: String,
    target: String,
    root: bool,
    limited: bool,
    secrets: bool,
    given: String,
    image: u8,
}

fn random() -> impl Strategy<Value = Random> {
    let lists = (prop::collection::vec(value(), 0..4), prop::collection::vec(value(), 0..4));
    (lists, path(), path(), any::<bool>(), any::<bool>(), any::<bool>(), value(), 0..3_u8).prop_map(
        |((env, words), source, target, root, limited, secrets, given, image)| Random {
            env,
            words,
            source,
            target,
            root,
            limited,
            secrets,
            given,
            image,
        },
    )
}

fn plan_of_random(random: &Random) -> Plan {
    let mut resolved = if random.secrets { with_secrets() } else { resolved() };
    resolved.environment.insert("GIVEN".to_owned(), random.given.clone());
    match random.image {
        1 => resolved.image = from_registry(),
        2 => resolved.image = from_containerfile("FROM localhost/x:1\nRUN true\n"),
        _ => {}
    }
    for (index, value) in random.env.iter().enumerate() {
        resolved.env.insert(format!("V{index}"), Sourced::built_in(value.clone()));
    }
    resolved.workspace.source = PathBuf::from(&random.source);
    resolved.workspace.target = PathBuf::from(&random.target);
    resolved.mounts = vec![sandboxc::config::ExtraMount {
        source: PathBuf::from(format!("/srv{}", random.source)),
        target: PathBuf::from(format!("/mnt{}", random.target)),
        read_only: true,
        from: Place::built_in(),
    }];
    resolved.workspace.protect = vec![Protected { path: ".git/hooks".into(), stand_in: None, from: Place::built_in() }];
    if random.root {
        resolved.identity = Sourced::built_in(sandboxc::config::Identity::Root);
    }
    if random.limited {
        resolved.limits.memory = Some(Sourced::built_in(64 << 20));
        resolved.limits.cpus = Some(Sourced::built_in(250));
        resolved.limits.pids = Some(Sourced::built_in(32));
        resolved.limits.timeout = Some(Sourced::built_in(60));
    }
    let command: Vec<&str> = ["cmd"].into_iter().chain(random.words.iter().map(String::as_str)).collect();
    units_of(&resolved, &command)
}

/// podman would be called with what was planned.
fn compare(random: &Random, plan: &Plan, files: &[File], agent: &str) {
    let line = agent.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let args = exec_start(line);
    let env = options(&args, "--env");
    let file = files.iter().find(|file| file.path.ends_with("agent/variables"));
    for (index, value) in random.env.iter().enumerate() {
        let pair = format!("V{index}={value}");
        let in_file = file.is_some_and(|file| file.text.split('\n').any(|line| line == pair));
        assert!(env.contains(&pair) || in_file, "{pair:?} is not in {env:?}");
    }
    let entrypoint: Vec<String> = serde_json::from_str(&options(&args, "--entrypoint")[0]).unwrap();
    let command: Vec<String> = ["cmd".to_owned()].into_iter().chain(random.words.iter().cloned()).collect();
    let shell = if random.secrets { &trust::with_secrets()[..] } else { &[] };
    let executes = EXECUTE.map(str::to_owned);
    assert_eq!(entrypoint, [&executes, shell, &command].concat());
    if random.secrets {
        keeps_secrets(random, plan, files, &args);
    }
    keeps_mounts(random, files, &args);
    if random.limited {
        for (option, value) in [("--memory", "67108864"), ("--memory-swap", "67108864"), ("--pids-limit", "32")] {
            assert_eq!(options(&args, option), [value], "{option}");
        }
        assert_eq!(options(&args, "--cpus"), ["0.250"]);
    }
}

/// The service that holds the sources gets their paths, and podman gets what it holds, wherever the target is.
fn keeps_mounts(random: &Random, files: &[File], agent: &[String]) {
    let service = lines(&files.iter().find(|file| file.path.ends_with("-mounts.service")).unwrap().text);
    let dir = format!("%t/{}", values(&service, "Service", "RuntimeDirectory")[0]);
    let told = words(values(&service, "Service", "ExecStart")[0]);
    let plain = told.iter().filter(|word| !word.starts_with("%E") && !word.starts_with("%t"));
    let told: Vec<String> = plain.map(|word| expand(word)).collect();
    let (source, target) = (&random.source, &random.target);
    let mounts = [
        ("workspace", source.clone(), target.clone(), "rw"),
        ("protect-0", format!("{source}/.git"), format!("{target}/.git"), "rw"),
        ("protect-1", format!("{source}/.git/hooks"), format!("{target}/.git/hooks"), "ro"),
        ("mount-0", format!("/srv{source}"), format!("/mnt{target}"), "ro"),
    ];
    for (name, source, target, mode) in mounts {
        assert!(told.windows(3).any(|words| words[0] == name && words[2] == source), "{name} {source:?}: {told:?}");
        let field = format!("destination={target}");
        let quoted = format!("\"{}\"", field.replace('"', "\"\""));
        let field = if field.contains([',', '"']) { quoted } else { field };
        let read_only = if mode == "ro" { ",ro=true" } else { "" };
        let mount = format!("type=bind,source={dir}/{name},{field}{read_only},nosuid,nodev");
        let found = options(agent, "--mount").contains(&mount)
            || options(agent, "-v").contains(&format!("{dir}/{name}:{target}:{mode},nosuid,nodev"));
        assert!(found, "{name} {target:?}: {agent:?}");
    }
}

/// The service that reads the secrets knows where to write them, and the agent gets them from there.
fn keeps_secrets(random: &Random, plan: &Plan, files: &[File], agent: &[String]) {
    let dir = format!("sandboxc-units/sandboxc-{}", plan.names.hash);
    let service = lines(&files.iter().find(|file| file.path.ends_with("-materials.service")).unwrap().text);
    assert_eq!(values(&service, "Service", "RuntimeDirectory"), [dir.as_str()]);
    let told = exec_start(values(&service, "Service", "ExecStart")[0]);
    assert_eq!(told[..3], ["/usr/bin/env", "sandboxc", "secrets"]);
    for (option, value) in
        [("--repo", random.source.as_str()), ("--server", "/srv/a server.yaml"), ("--hold", &format!("%t/{dir}"))]
    {
        assert_eq!(options(&told, option), [value]);
    }
    let given: Vec<String> = values(&service, "Service", "Environment").into_iter().flat_map(words).collect();
    assert!(given[0].starts_with("PATH=%h/"), "{given:?}");
    let rest: Vec<String> = given.iter().skip(1).map(|word| word.replace("%%", "%")).collect();
    assert_eq!(rest, [format!("GIVEN={}", random.given)]);
    assert!(options(agent, "--env-file").contains(&format!("%t/{dir}/surrogates")), "{agent:?}");
    for (part, at) in [("secrets", trust::SECRETS_AT), ("agent", trust::TRUST_AT)] {
        assert!(options(agent, "-v").contains(&format!("%t/{dir}/{part}:{at}:ro")), "{agent:?}");
    }
    assert!(files.iter().all(|file| !file.text.contains("real-value")), "a value is in a file");
}

/// Random configs as units for a podman version; `check` returns the agent's service of a directory.
pub fn random_configs(cases: u32, podman: PodmanVersion, scratch: &Path, check: impl Fn(&Path) -> String) {
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let result = runner.run(&random(), |random| {
        let plan = plan_of_random(&random);
        let files = match tree::quadlet(&plan, podman) {
            Ok(files) => files,
            Err(error) => {
                // Refused, never truncated, and only if no unit can express it.
                let lossy = |value: &String| value.contains(['\n', '\r']);
                let given = random.secrets && error.to_string().contains("Environment=\"GIVEN=");
                prop_assert!(given || random.env.iter().any(lossy), "{}", error);
                return Ok(());
            }
        };
        let dir = scratch.join("units");
        let _ = fs::remove_dir_all(&dir);
        write(&dir, &files);
        compare(&random, &plan, &files, &check(&dir.join("test")));
        Ok(())
    });
    result.unwrap();
}
