//! Files that sandboxc writes for the user: never where the sandbox can write, through no link, and without blocking.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use crate::harness::{REPO, SERVER, Sandbox, code, text};

/// Both identities, since root inside can do more to a file.
fn both() -> [Sandbox; 2] {
    ["host-user", "root"].map(|identity| Sandbox::with(&format!("{REPO}identity: {identity}\n"), SERVER))
}

fn refused(sandbox: &Sandbox, args: &[&str], word: &str) {
    let output = sandbox.command(args).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!((code(&output), said.lines().count()), (125, 1), "{args:?}: {said}");
    assert!(said.contains(word), "{args:?}: {said}");
}

#[test]
fn an_output_where_the_command_writes_is_refused_before_anything_starts() {
    for sandbox in both() {
        fs::create_dir(sandbox.scratch("elsewhere")).unwrap();
        symlink(sandbox.scratch("elsewhere"), sandbox.repo().join("logs")).unwrap();
        assert!(Command::new("mkfifo").arg(sandbox.scratch("pipe")).status().unwrap().success());
        for (path, word) in [
            ("net.log", "the command in this sandbox can write to"),
            ("logs/net.log", "is a link that the command in this sandbox can change"),
            ("../pipe", "a pipe"),
        ] {
            refused(&sandbox, &["run", "--network-log", path, "--", "touch", "started"], word);
        }
        for target in ["kube", "quadlet"] {
            refused(&sandbox, &["compile", "--target", target, "-o", "compiled", "--", "true"], "the command in this");
            refused(&sandbox, &["compile", "--target", target, "-o", "logs/x", "--", "true"], "is a link");
        }
        let names: Vec<_> = fs::read_dir(sandbox.repo()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names.len(), 2, "{names:?}");
        assert_eq!(fs::read_dir(sandbox.scratch("elsewhere")).unwrap().count(), 0);
    }
}

#[test]
fn outputs_beside_the_workspace_and_in_a_part_that_is_read_only_inside_are_written() {
    for sandbox in both() {
        let script = "curl -s -o /dev/null https://api.example.com/; echo x >>.sandboxc/net.log; echo $?";
        for path in ["../net.log", ".sandboxc/net.log", "/dev/fd/5"] {
            let run = format!(
                "exec {} run --network-log {path} -- sh -c '{script}' 5>>../fd.log",
                env!("CARGO_BIN_EXE_sandboxc")
            );
            let output = sandbox.in_shell(&run).output().unwrap();
            assert_eq!(code(&output), 0, "{path}: {}", text(&output.stderr));
            assert_ne!(text(&output.stdout), "0\n", "{path}: the command wrote our log");
        }
        for log in ["net.log", "repo/.sandboxc/net.log", "fd.log"] {
            let log = fs::read_to_string(sandbox.scratch(log)).unwrap();
            assert_eq!(log.lines().count(), 1, "{log}");
        }
        refused(&sandbox, &["compile", "-o", ".sandboxc/compiled", "--", "true"], "holds what is compiled");
        assert!(!sandbox.repo().join(".sandboxc/compiled").exists());
    }
}

#[test]
fn a_compiled_tree_in_the_workspace_is_read_only_inside_wherever_it_was_copied() {
    for sandbox in both() {
        let out = sandbox.scratch("compiled");
        let compiled = sandbox.command(&["compile", "-o", out.to_str().unwrap(), "--", "true"]).output().unwrap();
        assert_eq!(code(&compiled), 0, "{}", text(&compiled.stderr));
        for to in ["compiled", "deploy/compiled"] {
            let to = sandbox.repo().join(to);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            assert!(Command::new("cp").arg("-r").args([&out, &to]).status().unwrap().success());
        }
        let script = "for dir in compiled deploy/compiled; do echo evil >>$dir/run.sh; mv $dir gone; rm $dir/plan.json; done; \
                      mv deploy gone; touch deploy/beside && echo twin";
        let output = sandbox.run(&["sh", "-c", script]);
        assert_eq!(text(&output.stdout), "twin\n", "{}", text(&output.stderr));
        for dir in ["compiled", "deploy/compiled"] {
            let own = |name: &str| fs::read(sandbox.repo().join(dir).join(name)).unwrap();
            assert_eq!(own("run.sh"), fs::read(out.join("run.sh")).unwrap(), "{dir}");
            assert_eq!(own("plan.json"), fs::read(out.join("plan.json")).unwrap(), "{dir}");
        }
        // It is also where `compile` may write.
        let compiled = sandbox.command(&["compile", "-o", "compiled", "--", "true"]).output().unwrap();
        assert_eq!(code(&compiled), 0, "{}", text(&compiled.stderr));
    }
}
