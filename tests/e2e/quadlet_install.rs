//! Installing and removing units for the real user manager.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::harness::{Sandbox, code, text};
use crate::quadlet_live::{Installed, SERVER, config_home, property, repo, systemctl};

#[test]
fn a_unit_that_quadlet_refuses_is_never_half_installed() {
    let installed = Installed::new("q-half", &repo("true"));
    let before = listing(&installed.place());
    let units = installed.sandbox.scratch("units/q-half");
    let pod = fs::read_dir(&units).unwrap().map(|entry| entry.unwrap().path());
    let pod = pod.into_iter().find(|path| path.extension().is_some_and(|e| e == "pod")).unwrap();
    let good = fs::read_to_string(&pod).unwrap();
    fs::write(&pod, good.replace("[Pod]\n", "[Pod]\nNoSuchKey=1\n")).unwrap();
    let output = installed.install();
    assert_eq!(code(&output), 125);
    let stderr = text(&output.stderr);
    assert!(stderr.contains("NoSuchKey") && stderr.contains("nothing was installed"), "{stderr}");
    assert_eq!(listing(&installed.place()), before, "the old one is back");
    assert!(installed.run().status.success(), "and works");
    assert!(installed.gone());
    let uninstall = || code(&installed.as_user(&["uninstall", "q-half"]).output().unwrap());
    assert_eq!(uninstall(), 0);
    assert!(!installed.place().exists() && !systemctl(&["cat", &installed.agent]).status.success());
    assert_eq!(code(&installed.install()), 125);
    assert!(!installed.place().exists(), "a first install leaves nothing either");
    assert_eq!(uninstall(), 2);
}

#[test]
fn another_plan_takes_the_place_of_the_installed_one() {
    let installed = Installed::new("q-again", &repo("true"));
    let old = installed.part("router");
    fs::write(installed.sandbox.repo().join(".sandboxc/sandbox.yaml"), repo("sleep 1; exit 3")).unwrap();
    fs::remove_dir_all(installed.sandbox.scratch("units")).unwrap();
    assert_eq!(code(&installed.compile()), 0);
    let output = installed.install();
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout).trim(), installed.agent);
    assert_ne!(installed.part("router"), old);
    assert!(!systemctl(&["cat", &old]).status.success(), "the old one is gone");
    assert!(!installed.run().status.success());
    assert_eq!(property(&installed.agent, "ExecMainStatus"), "3");
    assert!(installed.gone(), "left: {}", installed.left());
}

/// The network of the old plan has the same subnet, so the new one could not start beside it.
#[test]
fn an_install_right_after_a_run_waits_for_what_is_still_stopping() {
    let installed = Installed::new("q-replaced", &repo("true"));
    for command in ["sleep 1", "sleep 1; true", "true"] {
        installed.run();
        fs::write(installed.sandbox.repo().join(".sandboxc/sandbox.yaml"), repo(command)).unwrap();
        fs::remove_dir_all(installed.sandbox.scratch("units")).unwrap();
        assert_eq!(code(&installed.compile()), 0);
        let output = installed.install();
        assert_eq!(code(&output), 0, "{}", text(&output.stderr));
        assert!(installed.run().status.success(), "{}", installed.left());
    }
    assert!(installed.gone(), "left: {}", installed.left());
}

/// Every file and its text.
fn listing(dir: &std::path::Path) -> Vec<(PathBuf, String)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(listing(&path));
        } else {
            let text = fs::read_to_string(&path).unwrap();
            all.push((path, text));
        }
    }
    all.sort();
    all
}

#[test]
fn a_running_sandbox_is_not_replaced_and_foreign_directories_are_left_alone() {
    let installed = Installed::new("q-busy", &repo("exec sleep 300"));
    assert!(systemctl(&["start", &installed.agent]).status.success());
    let output = installed.install();
    assert_eq!(code(&output), 125);
    assert!(text(&output.stderr).contains("systemctl --user stop"), "{}", text(&output.stderr));
    let uninstalled = installed.as_user(&["uninstall", "q-busy"]).output().unwrap();
    assert_eq!(code(&uninstalled), 0, "{}", text(&uninstalled.stderr));
    assert!(installed.left().is_empty(), "uninstall stops: {}", installed.left());
    fs::create_dir_all(installed.place()).unwrap();
    fs::write(installed.place().join("mine.container"), "").unwrap();
    assert_eq!(code(&installed.install()), 125);
    assert!(installed.place().join("mine.container").exists());
    fs::remove_dir_all(installed.place()).unwrap();
    assert!(systemctl(&["daemon-reload"]).status.success());
}

#[test]
fn the_target_starts_all_and_stops_all_and_ends_with_the_command() {
    let installed = Installed::new("q-target", &repo("[ -e go ] || exec sleep 300"));
    let target = installed.agent.replace(".service", ".target");
    assert!(systemctl(&["start", &target]).status.success());
    assert_eq!(property(&target, "ActiveState"), "active");
    assert_eq!(property(&installed.agent, "ActiveState"), "active");
    assert!(systemctl(&["stop", &target]).status.success());
    assert!(installed.gone(), "left: {}", installed.left());

    fs::write(installed.sandbox.repo().join("go"), "").unwrap();
    assert!(systemctl(&["start", &target]).status.success());
    assert!(installed.gone(), "the target ends with the command: {}", installed.left());
    let uninstalled = installed.as_user(&["uninstall", "q-target"]).output().unwrap();
    assert_eq!(code(&uninstalled), 0, "{}", text(&uninstalled.stderr));
    assert!(!config_home().join("systemd/user").join(target).exists());
}

#[test]
fn an_entry_is_installed_by_its_name_and_its_schedule_starts_it() {
    let sandbox = Sandbox::with(&repo("echo run >>runs"), SERVER);
    let server = sandbox.scratch("server.yaml");
    let repos =
        format!("repos:\n  Q.Timer:\n    path: {}\n    schedule: \"*-*-* *:*:0/4\"\n", sandbox.repo().display());
    fs::write(&server, format!("{SERVER}{repos}")).unwrap();
    let output = sandbox
        .command(&["install", "Q.Timer", "--server"])
        .arg(&server)
        .env("XDG_CONFIG_HOME", config_home())
        .output()
        .unwrap();
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let agent = text(&output.stdout).trim().to_owned();
    let installed = Installed { sandbox, session: "q-timer".to_owned(), agent };
    let until = Instant::now() + Duration::from_secs(60);
    let runs = || fs::read_to_string(installed.sandbox.repo().join("runs")).unwrap_or_default().lines().count();
    while runs() < 2 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(runs() >= 2, "the timer started it {} times", runs());
    let uninstalled = installed.as_user(&["uninstall", "Q.Timer"]).output().unwrap();
    assert_eq!(code(&uninstalled), 0, "{}", text(&uninstalled.stderr));
    assert!(installed.gone(), "left: {}", installed.left());
    assert!(!config_home().join("systemd/user").join(installed.agent.replace(".service", ".timer")).exists());
}

/// Parts start and stop with the agent's unit. systemd counts starts, and more than five in ten seconds would be too
/// many.
#[test]
fn only_the_agents_unit_has_a_limit_of_starts() {
    let installed = Installed::new("q-starts", &repo("true"));
    let units = fs::read_dir(installed.place()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let parts: Vec<String> = units.filter_map(|name| sandboxc::emit::quadlet::service_of(&name)).collect();
    assert!(parts.len() > 5, "{parts:?}");
    for part in &parts {
        let limit = property(part, "StartLimitIntervalUSec");
        assert_eq!(limit == "0", *part != installed.agent, "{part}: {limit}");
    }
    assert_eq!((property(&installed.agent, "StartLimitBurst").as_str(), parts.contains(&installed.agent)), ("5", true));
    let network = parts.iter().find(|part| part.ends_with("-egress-network.service")).unwrap();
    for round in 0..8 {
        let output = systemctl(&["start", network]);
        assert!(output.status.success(), "start {round}: {}", text(&output.stderr));
        systemctl(&["stop", network]);
    }
    assert!(installed.run().status.success());
    assert!(installed.gone(), "left: {}", installed.left());
}

/// Journals, alerts and `systemctl` go by the unit's name.
#[test]
fn an_edit_keeps_the_names_of_service_target_and_timer_and_changes_the_plan() {
    let sandbox = Sandbox::with(&repo("echo one >>runs"), SERVER);
    let server = sandbox.scratch("server.yaml");
    let entry = format!("repos:\n  Q.Stable:\n    path: {}\n    schedule: \"2099-01-01\"\n", sandbox.repo().display());
    fs::write(&server, format!("{SERVER}{entry}")).unwrap();
    let config = ["--server", server.to_str().unwrap()];
    let run = |args: &[&str]| {
        let output = sandbox.command(&[args, &config].concat()).env("XDG_CONFIG_HOME", config_home()).output().unwrap();
        assert_eq!(code(&output), 0, "{args:?}: {}", text(&output.stderr));
        text(&output.stdout).trim().to_owned()
    };
    let install = || run(&["install", "Q.Stable"]);
    let list = |dir: &std::path::Path| {
        let mut names: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(install(), "sandboxc-q-stable.service");
    let document = serde_json::from_str(&run(&["install", "--json", "Q.Stable"])).unwrap();
    crate::documents::check("install", &document);
    assert_eq!(document["unit"], "sandboxc-q-stable.service");
    let place = config_home().join("containers/systemd/q-stable");
    let first = (property("sandboxc-q-stable.service", "Description"), list(&place));
    // The same units, wherever they are compiled.
    let out = sandbox.scratch("units");
    let version = crate::harness::podman(&["--version"]).trim().rsplit(' ').next().unwrap().to_owned();
    let mut compile = sandbox.command(&["compile", "--name", "Q.Stable", "--target", "quadlet", "--podman", &version]);
    compile.args(config).arg("-o").arg(&out).current_dir(sandbox.scratch(".")).env("XDG_CONFIG_HOME", config_home());
    let output = compile.output().unwrap();
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let without_profile = |mut names: Vec<std::ffi::OsString>| {
        names.retain(|name| name != "seccomp.json");
        names
    };
    assert_eq!(without_profile(list(&out.join("q-stable"))), without_profile(first.1.clone()));

    fs::write(sandbox.repo().join(".sandboxc/sandbox.yaml"), repo("echo two >>runs")).unwrap();
    assert_eq!(install(), "sandboxc-q-stable.service");
    let second = (property("sandboxc-q-stable.service", "Description"), list(&place));
    assert_ne!(first.0, second.0, "the plan's hash is in the description");
    assert!(second.0.contains("of the sandbox q-stable (plan "), "{}", second.0);
    assert_eq!(property("sandboxc-q-stable.timer", "ActiveState"), "active");
    assert!(systemctl(&["start", "--wait", "sandboxc-q-stable.target"]).status.success());
    crate::harness::wait_until("it ran", || sandbox.repo().join("runs").exists());
    assert_eq!(fs::read_to_string(sandbox.repo().join("runs")).unwrap(), "two\n");
    let output = sandbox.command(&["uninstall", "Q.Stable"]).env("XDG_CONFIG_HOME", config_home()).output().unwrap();
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    for kind in ["target", "timer"] {
        assert!(!config_home().join(format!("systemd/user/sandboxc-q-stable.{kind}")).exists(), "{kind}");
    }
}
