//! `sandboxc stop SESSION` for sessions without a runner: a script, a manifest played by hand, units.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::compile::{Applied, left};
use crate::harness::{Sandbox, code, podman, text, wait_until};
use crate::quadlet_live::{Installed, property, repo, systemctl};

fn stop(sandbox: &Sandbox, session: &str) -> i32 {
    let output = sandbox.command(&["stop", session]).output().unwrap();
    println!("stop {session}: {}", text(&output.stderr));
    code(&output)
}

/// A tree of a session whose command sleeps, and the hash of its plan.
fn compiled(sandbox: &Sandbox, session: &str) -> String {
    let out = sandbox.scratch(session);
    let args = ["compile", "--session", session, "-o", out.to_str().unwrap(), "--", "sleep", "300"];
    let output = sandbox.command(&args).output().unwrap();
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let plan: serde_json::Value = serde_json::from_slice(&fs::read(out.join("plan.json")).unwrap()).unwrap();
    plan["hash"].as_str().unwrap().to_owned()
}

fn run(script: &Path) -> Child {
    Command::new("sh").arg(script).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

fn agent_runs(hash: &str, session: &str) -> bool {
    let name = format!("sandboxc-{hash}-{session}-agent");
    podman(&["ps", "--filter", &format!("name={name}"), "--filter", "status=running", "--format", "{{.Names}}"])
        .contains(&name)
}

#[test]
fn a_session_of_the_script_is_stopped_and_another_one_goes_on() {
    let sandbox = Sandbox::new();
    let hashes = ["stop-script", "stop-twin"].map(|session| compiled(&sandbox, session));
    let script = |session: &str| sandbox.scratch(session).join("run.sh");
    let (mut child, mut twin) = (run(&script("stop-script")), run(&script("stop-twin")));
    wait_until("both run", || {
        for script in [&mut child, &mut twin] {
            if let Some(status) = script.try_wait().unwrap() {
                let mut why = String::new();
                script.stderr.take().unwrap().read_to_string(&mut why).unwrap();
                panic!("a script ended early, with {status}: {why}");
            }
        }
        agent_runs(&hashes[0], "stop-script") && agent_runs(&hashes[1], "stop-twin")
    });
    assert_eq!(stop(&sandbox, "stop-script"), 0);
    let ended = child.wait_with_output().unwrap();
    assert_ne!(code(&ended), 0, "the command did not end by itself");
    assert_eq!(left(&hashes[0]), "", "{}", text(&ended.stderr));
    assert!(agent_runs(&hashes[1], "stop-twin"), "the twin is not touched");
    assert_eq!(stop(&sandbox, "stop-twin"), 0);
    twin.wait().unwrap();
    assert_eq!(left(&hashes[1]), "");
    assert_eq!(stop(&sandbox, "stop-script"), 2, "there is none any more");
}

/// `gc` leaves scripts alone, since no lock shows whether one is running.
#[test]
fn what_a_killed_script_left_is_removed_by_stop() {
    let sandbox = Sandbox::new();
    let hash = compiled(&sandbox, "stop-killed");
    let mut child = run(&sandbox.scratch("stop-killed").join("run.sh"));
    wait_until("it runs", || agent_runs(&hash, "stop-killed"));
    // It waits for the command when nothing is mounted any more.
    wait_until("it waits", || {
        work_of(&child).is_some_and(|dir| fs::read_dir(dir.join("mounts")).unwrap().next().is_none())
    });
    let work = work_of(&child).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(code(&sandbox.command(&["gc"]).output().unwrap()), 0);
    assert!(agent_runs(&hash, "stop-killed"), "gc does not know whether the script is gone");
    assert_eq!(stop(&sandbox, "stop-killed"), 0);
    assert_eq!(left(&hash), "");
    // Nothing but its own directory in memory is left.
    fs::remove_dir_all(&work).unwrap();
}

/// The directory of a script, which its podman's variable for `containers.conf` names.
fn work_of(script: &Child) -> Option<PathBuf> {
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", script.id())).unwrap();
    let environments = children.split_whitespace().filter_map(|pid| fs::read(format!("/proc/{pid}/environ")).ok());
    let work = |environment: Vec<u8>| {
        let text = text(&environment);
        let values = text.split('\0').filter_map(|pair| pair.split_once('=')?.1.strip_suffix("/containers.conf"));
        values.map(PathBuf::from).find(|dir| dir.to_string_lossy().contains("/sandboxc-run."))
    };
    environments.into_iter().find_map(work)
}

#[test]
fn a_session_that_was_played_by_hand_is_stopped() {
    let sandbox = Sandbox::new();
    let hash = compiled(&sandbox, "stop-kube");
    let applied = Applied::new(fs::read_to_string(sandbox.scratch("stop-kube").join("kube.yaml")).unwrap());
    for line in applied.recipe() {
        let script = format!("cd /tmp && {line} <{}", sandbox.scratch("stop-kube").join("kube.yaml").display());
        assert!(Command::new("sh").args(["-c", &script]).stdout(Stdio::null()).status().unwrap().success(), "{line}");
    }
    assert!(agent_runs(&hash, "stop-kube"));
    assert_eq!(stop(&sandbox, "stop-kube"), 0);
    assert_eq!(left(&hash), "");
}

/// With systemd, since a unit fails if its container is removed.
#[test]
fn a_session_of_units_is_stopped_by_systemd_and_is_no_failure() {
    let installed = Installed::new("q-stopped", &repo("exec sleep 300"));
    assert!(systemctl(&["start", &installed.agent]).status.success());
    assert_eq!(stop(&installed.sandbox, "q-stopped"), 0);
    assert!(installed.gone(), "left: {}", installed.left());
    assert_eq!(property(&installed.agent, "ActiveState"), "inactive");
    assert_eq!(property(&installed.agent, "Result"), "success");
    assert!(systemctl(&["start", &installed.agent]).status.success(), "it can be started again");
    assert_eq!(stop(&installed.sandbox, "q-stopped"), 0);
    assert!(installed.gone(), "left: {}", installed.left());
}
