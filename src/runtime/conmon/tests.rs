use std::process::{Command, Stdio};

use super::*;

/// Starts a shell under another name, with or without a child.
fn pretend(dir: &std::path::Path, name: &str, script: &str) -> std::process::Child {
    let conmon = dir.join("conmon");
    let _ = std::os::unix::fs::symlink("/bin/sh", &conmon);
    Command::new(conmon)
        .args(["-c", script, "-n", name, "-u", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Whether each of these containers has a conmon with a child process.
fn all_run(names: &[&str]) -> bool {
    let seen = look(names);
    names.iter().all(|name| seen.get(name).is_some_and(|seen| seen.runs))
}

/// A child is a copy of its parent until it executes its program.
fn until(so: impl Fn() -> bool) {
    for _ in 0..500 {
        if so() {
            return;
        }
        thread::sleep(LOOK);
    }
    panic!("not within 10 s");
}

#[test]
fn a_container_runs_while_its_conmon_has_a_child() {
    use std::io::Read as _;
    let dir = tempfile::tempdir().unwrap();
    assert!(all_run(&[]) && !all_run(&["nobody"]));
    let mut with = pretend(dir.path(), "ctr-a", "sleep 60 & echo; read x; kill $!");
    let mut without = pretend(dir.path(), "ctr-b", "echo; read x");
    for child in [&mut with, &mut without] {
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    }
    until(|| all_run(&["ctr-a"]));
    assert!(!all_run(&["ctr-b"]), "its first process has ended");
    assert!(!all_run(&["ctr-a", "ctr-b"]) && !all_run(&["ctr-"]));
    for mut child in [with, without] {
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}

#[test]
fn the_clean_up_after_a_container_is_waited_for_and_nothing_else() {
    use std::io::Read as _;
    let dir = tempfile::tempdir().unwrap();
    await_cleanups(&["ctr-none"]);
    let mut running = pretend(dir.path(), "ctr-c", "sleep 60 & echo; read x; kill $!");
    let mut ending = pretend(dir.path(), "ctr-d", "echo; read x");
    for child in [&mut running, &mut ending] {
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    }
    until(|| all_run(&["ctr-c"]));
    await_cleanups(&["ctr-c"]);
    assert!(all_run(&["ctr-c"]), "one that runs is left alone");
    let waiting = thread::spawn(|| await_cleanups(&["ctr-c", "ctr-d"]));
    thread::sleep(LOOK * 5);
    assert!(!waiting.is_finished(), "the other one has ended, and its conmon is there");
    drop(ending.stdin.take());
    ending.wait().unwrap();
    waiting.join().unwrap();
    drop(running.stdin.take());
    running.wait().unwrap();
}

#[test]
fn a_clean_up_that_waits_for_itself_is_ended() {
    use std::io::Read as _;
    let dir = tempfile::tempdir().unwrap();
    let podman = dir.path().join("podman");
    std::os::unix::fs::symlink("/bin/sleep", &podman).unwrap();
    let script = format!("{} 20 & echo; wait $!; exit $?", podman.display());
    let mut ending = pretend(dir.path(), "ctr-e", &script);
    ending.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    until(|| look(&["ctr-e"]).values().any(|seen| !seen.clean_ups.is_empty()));
    assert!(!all_run(&["ctr-e"]));
    let waiting = thread::spawn(|| await_cleanups(&["ctr-e"]));
    assert_eq!(ending.wait().unwrap().code(), Some(137), "its child was ended, not itself");
    waiting.join().unwrap();
}

#[test]
fn containers_end_without_a_clean_up_and_the_last_one_says_its_last_words() {
    use std::io::Read as _;
    let dir = tempfile::tempdir().unwrap();
    let (log, podman, init) = (dir.path().join("log"), dir.path().join("podman"), dir.path().join("init"));
    std::os::unix::fs::symlink("/bin/sleep", &podman).unwrap();
    fs::write(&init, format!("trap 'echo bye >> {}; exit' TERM\nwhile :; do sleep 0.02; done\n", log.display()))
        .unwrap();
    let script = |name: &str| {
        let (init, log, podman) = (init.display(), log.display(), podman.display());
        format!("sh {init} & echo; wait; sleep 0.2; echo written >> {log}-{name}; {podman} 20; true")
    };
    let names = ["ctr-f", "ctr-g", "ctr-h"];
    let mut all = names.map(|name| pretend(dir.path(), name, &script(name)));
    for child in &mut all {
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    }
    until(|| all_run(&names));
    end(&names[..2], "ctr-g", Duration::from_secs(5));
    assert_eq!(fs::read_to_string(&log).unwrap(), "bye\n", "only the last one is asked to end");
    let [f, g, mut h] = all;
    for mut child in [f, g] {
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&child.wait().unwrap()), Some(9));
    }
    assert!(fs::exists(format!("{}-ctr-g", log.display())).unwrap(), "its conmon had the time to write");
    assert!(!fs::exists(format!("{}-ctr-f", log.display())).unwrap());
    assert!(all_run(&["ctr-h"]), "others are left alone");
    end(&["ctr-h"], "", Duration::ZERO);
    h.wait().unwrap();
}

#[test]
fn a_containers_group_is_cut_where_its_id_ends() {
    let id = "b2".repeat(32);
    let slice = "/user.slice/user-1000.slice/user@1000.service/user.slice/user-libpod_pod_7d.slice";
    let list = format!("12:cpu:/elsewhere\n0::{slice}/libpod-{id}.scope/container\n");
    assert_eq!(group_of(&list, &id).unwrap(), format!("{slice}/libpod-{id}.scope"));
    let cgroupfs = format!("0::/libpod_parent/libpod-{id}\n");
    assert_eq!(group_of(&cgroupfs, &id).unwrap(), format!("/libpod_parent/libpod-{id}"));
    for (list, id) in [("0::/\n", id.as_str()), ("0::/user.slice\n", &id), (&list, "b2b2"), ("", &id)] {
        assert_eq!(group_of(list, id), None);
    }
}
