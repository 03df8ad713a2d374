//! Quadlet units through the real generator and `systemd-analyze`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use sandboxc::emit::quadlet::service_of;
use sandboxc::emit::{File, Podman, tree};
use sandboxc::plan::Plan;
use sandboxc::source::{Place, Sourced};

use crate::fixture::{plan_of, resolved};
use crate::harness::{code, podman, text};
use crate::systemd_reader::{exec_start, options};

const GENERATOR: &str = "/usr/libexec/podman/quadlet";
const EXAMPLES: [&str; 4] = ["minimal", "laptop", "ci", "full"];

fn installed_podman() -> Podman {
    podman(&["--version"]).parse().unwrap()
}

/// The services that the real generator makes of a directory, by name; its stderr must be clean.
fn generate(dir: &Path) -> Vec<(String, String)> {
    let output = Command::new(GENERATOR)
        .args(["-dryrun", "-user"])
        .env("QUADLET_UNIT_DIRS", dir)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let stderr = text(&output.stderr);
    let complaints: Vec<&str> = stderr.lines().filter(|line| !line.contains("Loading source unit file")).collect();
    assert!(complaints.is_empty() && output.status.success(), "{complaints:?}");
    let stdout = text(&output.stdout);
    let mut services = Vec::new();
    for line in stdout.lines() {
        match line.strip_prefix("---").and_then(|rest| rest.strip_suffix("---")) {
            Some(name) => services.push((name.to_owned(), String::new())),
            None => services.last_mut().unwrap().1.push_str(&format!("{line}\n")),
        }
    }
    services
}

/// As many services as units, and systemd has nothing to say about them. Gives the agent's.
fn check(dir: &Path, scratch: &Path) -> String {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut expected: Vec<String> = names.filter_map(|name| service_of(&name)).collect();
    let services = generate(dir);
    let mut made: Vec<String> = services.iter().map(|(name, _)| name.clone()).collect();
    expected.sort();
    made.sort();
    assert_eq!(made, expected, "{}", dir.display());
    let _ = fs::remove_dir_all(scratch);
    fs::create_dir_all(scratch).unwrap();
    for (name, text) in &services {
        fs::write(scratch.join(name), text).unwrap();
    }
    verify(scratch);
    services.into_iter().find(|(name, _)| name.ends_with("-agent.service")).unwrap().1
}

/// `systemd-analyze verify` of every unit in a directory.
fn verify(dir: &Path) {
    let units = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let output = Command::new("systemd-analyze")
        .args(["--user", "--man=no", "verify"])
        .args(units)
        .env("SYSTEMD_UNIT_PATH", format!("{}:", dir.display()))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let stderr = text(&output.stderr);
    let ours: Vec<&str> = stderr.lines().filter(|line| line.contains("sandboxc")).collect();
    assert!(output.status.success() && ours.is_empty(), "{stderr}");
}

pub fn write(dir: &Path, files: &[File]) {
    for file in files {
        let path = dir.join(&file.path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, &file.text).unwrap();
    }
}

fn scratch() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("e2e-quadlet-").tempdir_in(std::env::var_os("HOME").unwrap()).unwrap()
}

#[test]
fn every_examples_units_pass_the_real_generator_and_systemd() {
    let scratch = scratch();
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples");
    for example in EXAMPLES {
        // The golden ones, written for the floor, and fresh ones for the podman that is here.
        check(&root.join(example).join("quadlet/default"), &scratch.path().join("services"));
        let out = scratch.path().join(example);
        let name: &[&str] = if example == "full" { &["--name", "full"] } else { &[] };
        let output = Command::new(env!("CARGO_BIN_EXE_sandboxc"))
            .args(["compile", "--target", "quadlet", "--podman", &installed_podman().to_string()])
            .args(["--repo".as_ref(), root.join(example).join("repo").as_os_str()])
            .args(["--server".as_ref(), root.join(example).join("server.yaml").as_os_str()])
            .args(["-o".as_ref(), out.as_os_str()])
            .args(name)
            .env("LANG", "C.UTF-8")
            .output()
            .unwrap();
        assert_eq!(code(&output), 0, "{}", text(&output.stderr));
        check(&out.join("default"), &scratch.path().join("services"));
    }
}

#[test]
fn a_schedule_is_one_that_systemd_reads() {
    let full = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/full/quadlet/default")).unwrap();
    let timer = full.map(|entry| entry.unwrap().path()).find(|path| path.extension().is_some_and(|e| e == "timer"));
    let text = fs::read_to_string(timer.unwrap()).unwrap();
    let schedule = text.lines().find_map(|line| line.strip_prefix("OnCalendar=")).unwrap();
    for schedule in [schedule, "daily", "*:0/15", "*-*-* 04:30:00 UTC", "Sat *-*-1..7 18:00", "*-02~03"] {
        let output = Command::new("systemd-analyze").args(["calendar", schedule]).output().unwrap();
        assert!(output.status.success(), "{schedule}");
    }
}

/// Values that once went wrong somewhere, and any others without a NUL.
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
}

fn random() -> impl Strategy<Value = Random> {
    let lists = (prop::collection::vec(value(), 0..4), prop::collection::vec(value(), 0..4));
    (lists, path(), path(), any::<bool>(), any::<bool>())
        .prop_map(|((env, words), source, target, root, limited)| Random { env, words, source, target, root, limited })
}

fn plan_of_random(random: &Random) -> Plan {
    let mut resolved = resolved();
    for (index, value) in random.env.iter().enumerate() {
        resolved.env.insert(format!("V{index}"), Sourced::built_in(value.clone()));
    }
    resolved.workspace.source = PathBuf::from(&random.source);
    resolved.workspace.target = PathBuf::from(&random.target);
    resolved.mounts = vec![sandboxc::config::Mount {
        source: PathBuf::from(format!("/srv{}", random.source)),
        target: PathBuf::from(format!("/mnt{}", random.target)),
        read_only: true,
        from: Place::built_in(),
    }];
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
    plan_of(&resolved, &command)
}

/// What podman would be called with is what was planned.
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
    let sandboxc::plan::Command::Run(command) = &plan.agent.command else { panic!() };
    assert_eq!(&entrypoint, command);
    let mounts = [
        (&random.source, &random.target, "rw"),
        (&format!("/srv{}", random.source), &format!("/mnt{}", random.target), "ro"),
    ];
    for (source, target, mode) in mounts {
        let csv = |text: String| {
            if text.contains([',', '"']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
        };
        let read_only = if mode == "ro" { ",ro=true" } else { "" };
        let source_field = csv(format!("source={source}"));
        let mount = format!("type=bind,{source_field},{}{read_only}", csv(format!("destination={target}")));
        let found = options(&args, "--mount").contains(&mount)
            || options(&args, "-v").contains(&format!("{source}:{target}:{mode}"));
        assert!(found, "{source:?} {target:?}: {args:?}");
    }
    if random.limited {
        for (option, value) in [("--memory", "67108864"), ("--memory-swap", "67108864"), ("--pids-limit", "32")] {
            assert_eq!(options(&args, option), [value], "{option}");
        }
        assert_eq!(options(&args, "--cpus"), ["0.250"]);
    }
}

#[test]
fn random_configs_pass_the_real_generator_and_mean_what_was_planned() {
    let scratch = scratch();
    let version = installed_podman();
    let mut runner = TestRunner::new(Config { cases: 120, failure_persistence: None, ..Config::default() });
    let result = runner.run(&random(), |random| {
        let plan = plan_of_random(&random);
        let files = match tree::quadlet(&plan, version) {
            Ok(files) => files,
            Err(error) => {
                // Refused, never cut: only what no unit carries.
                let lossy = |value: &String| value.contains(['\n', '\r']);
                prop_assert!(random.env.iter().any(lossy), "{}", error);
                return Ok(());
            }
        };
        let dir = scratch.path().join("units");
        let _ = fs::remove_dir_all(&dir);
        write(&dir, &files);
        let agent = check(&dir.join("test"), &scratch.path().join("services"));
        compare(&random, &plan, &files, &agent);
        Ok(())
    });
    result.unwrap();
}
