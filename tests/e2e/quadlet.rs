//! Quadlet units with the real generator and `systemd-analyze`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sandboxc::emit::PodmanVersion;

use crate::generator::{Generator, agent_of, random_configs};
use crate::harness::{code, podman, text};

const EXAMPLES: [&str; 5] = ["minimal", "laptop", "ci", "full", "inspect"];

fn installed_podman() -> PodmanVersion {
    podman(&["--version"]).parse().unwrap()
}

/// There are as many services as units, and systemd does not complain about them. Returns the agent's.
fn check(dir: &Path, scratch: &Path) -> String {
    let services = Generator::installed().check(dir);
    let _ = fs::remove_dir_all(scratch);
    fs::create_dir_all(scratch).unwrap();
    for (name, text) in &services {
        fs::write(scratch.join(name), text).unwrap();
    }
    // Units that systemd reads without Quadlet.
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if [".service", ".target", ".timer"].iter().any(|kind| name.ends_with(kind)) {
            fs::copy(entry.path(), scratch.join(name)).unwrap();
        }
    }
    verify(scratch);
    agent_of(services)
}

/// `systemd-analyze verify` for every unit in a directory.
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

fn scratch() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("e2e-quadlet-").tempdir_in(std::env::var_os("HOME").unwrap()).unwrap()
}

#[test]
fn every_examples_units_pass_the_real_generator_and_systemd() {
    let scratch = scratch();
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples");
    for example in EXAMPLES {
        // The golden ones, written for the oldest version, and new ones for the installed podman.
        check(&root.join(example).join("quadlet/default"), &scratch.path().join("services"));
        let out = scratch.path().join(example);
        let name: &[&str] = if ["full", "inspect"].contains(&example) { &["--name", example] } else { &[] };
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
        // A set has the name of its entry, if it has one.
        let session = name.last().unwrap_or(&"default");
        check(&out.join(session), &scratch.path().join("services"));
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

#[test]
fn random_configs_pass_the_real_generator_and_mean_what_was_planned() {
    let scratch = scratch();
    random_configs(120, installed_podman(), scratch.path(), |dir| check(dir, &scratch.path().join("services")));
}
