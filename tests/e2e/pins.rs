//! What was checked is what is mounted, even if somebody inside a sandbox can change the names of sources.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::{Command, Output};

use crate::compile::{compile, left};
use crate::harness::{REPO, SERVER, Sandbox, code, left_over, text, unique, wait_until};
use crate::quadlet_live::{Installed, property, systemctl};

/// A workspace with `data`, mounted read-write at `/data`, and a directory of the host that is not mounted.
struct Ground {
    sandbox: Sandbox,
}

impl Ground {
    fn new(identity: &str) -> Self {
        Self::with(identity, "")
    }

    fn with(identity: &str, more: &str) -> Self {
        Self::of(identity, more, Sandbox::with)
    }

    fn of(identity: &str, more: &str, sandbox: impl FnOnce(&str, &str) -> Sandbox) -> Self {
        let mounts = "mounts: [{source: ../data, target: /data, read_only: false}, {source: ../conf, target: /conf}]\n";
        let sandbox = sandbox(&format!("{REPO}identity: {identity}\n{mounts}{more}"), SERVER);
        fs::create_dir(sandbox.scratch("private")).unwrap();
        fs::write(sandbox.scratch("private/key"), "SECRET\n").unwrap();
        fs::create_dir(sandbox.repo().join("data")).unwrap();
        fs::write(sandbox.repo().join("data/file"), "data\n").unwrap();
        fs::write(sandbox.repo().join("conf"), "conf\n").unwrap();
        Self { sandbox }
    }

    /// A directory for the front of `PATH`, with a podman that runs a shell line before each call whose arguments
    /// match. Both pods are played at the same time, so a lock keeps one call from continuing while another runs the line.
    fn podman_before(&self, pattern: &str, line: &str) -> PathBuf {
        let dir = self.sandbox.scratch("bin");
        let real = text(&Command::new("sh").args(["-c", "command -v podman"]).output().unwrap().stdout);
        let lock = dir.join("lock");
        let lock = lock.display();
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in {pattern}) (flock 9; {line}) 9>{lock} ;; esac\nexec {} \"$@\"\n",
            real.trim()
        );
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("podman"), script).unwrap();
        fs::set_permissions(dir.join("podman"), fs::Permissions::from_mode(0o755)).unwrap();
        dir
    }

    /// What an agent in the same workspace could do between our check and podman's: replace a name, once.
    fn swap(&self, name: &str, new: &str) -> String {
        let (repo, private) = (self.sandbox.repo(), self.sandbox.scratch("private"));
        format!(
            "cd {}; [ -e away ] || {{ mv {name} away; private={}; {new}; }}; cd - >/dev/null",
            repo.display(),
            private.display()
        )
    }

    fn run(&self, path: &std::path::Path, script: &str) -> Output {
        let path = format!("{}:{}", path.display(), std::env::var("PATH").unwrap());
        self.sandbox.command(&["run", "--", "sh", "-c", script]).env("PATH", path).output().unwrap()
    }
}

const LOOK: &str = "touch started; cat /data/* /conf; touch /data/written";

/// Nothing ran, nothing outside was read or written, and nothing is left behind.
fn refused(ground: &Ground, output: &Output, word: &str) {
    let said = text(&output.stderr);
    assert_eq!((code(output), text(&output.stdout).as_str()), (125, ""), "{said}");
    assert!(said.contains(word), "{said}");
    for dir in ["repo", "private", "away"] {
        let dir = ground.sandbox.scratch(dir);
        assert!(!dir.join("started").exists() && !dir.join("written").exists(), "{}", dir.display());
    }
    assert!(!ground.sandbox.repo().join("data/written").exists());
}

#[test]
fn run_does_not_start_where_a_source_was_swapped_after_it_was_checked() {
    for identity in ["host-user", "root"] {
        for (name, new, word) in [
            ("data", "ln -s $private data", "the agent pod"),
            ("data", "mkdir data", "/data at /"),
            ("conf", "ln -s $private/key conf", "/conf at /"),
            ("conf", "cp $private/key conf", "/conf at /"),
            // The watch may be faster, and rename the new one.
            (".sandboxc", "mkdir .sandboxc", ".sandboxc"),
        ] {
            let ground = Ground::of(identity, "", Sandbox::alone_with);
            let bin = ground.podman_before("*'kube play'*", &ground.swap(name, new));
            refused(&ground, &ground.run(&bin, LOOK), word);
            assert_eq!(left_over(), [""; 0]);
        }
    }
}

#[test]
fn run_does_not_start_in_a_workspace_that_the_sandbox_around_it_has_swapped() {
    let ground = Ground::new("host-user");
    let (repo, away) = (ground.sandbox.repo(), ground.sandbox.scratch("away"));
    let (repo, away) = (repo.display(), away.display());
    // All sources exist, so podman mounts them.
    let line = format!("[ -e {away} ] || {{ mv {repo} {away}; ln -s private {repo}; cp -r {away}/. {repo}/; }}");
    refused(&ground, &ground.run(&ground.podman_before("*'kube play'*", &line), LOOK), "the command was not started");
    assert!(ground.sandbox.scratch("private/data/file").exists());
}

#[test]
fn nobody_inside_swaps_the_source_of_the_next_start_and_what_is_in_it_is_theirs() {
    for identity in ["host-user", "root"] {
        let ground = Ground::new(identity);
        let (repo, private) = (ground.sandbox.repo(), ground.sandbox.scratch("private"));
        let script = format!(
            "for name in data conf; do rm -r $name; mv $name gone; ln -sfn {} $name; mv -T new $name; done 2>/dev/null; \
             mkdir new; mv -T new data; rmdir data; echo twin >data/twin; cat /data/twin; echo more >>conf; ls -d data",
            private.display()
        );
        let output = ground.run(&ground.podman_before("never", "true"), &script);
        assert_eq!(text(&output.stdout), "twin\ndata\n", "{identity}: {}", text(&output.stderr));
        for name in ["data", "conf"] {
            let meta = fs::symlink_metadata(repo.join(name)).unwrap();
            assert!(!meta.is_symlink(), "{identity}: {name}");
        }
        let output = ground.run(&ground.podman_before("never", "true"), LOOK);
        assert_eq!((code(&output), text(&output.stdout).as_str()), (0, "twin\nconf\nmore\n"), "{identity}");
        assert!(repo.join("data/written").exists());
    }
}

#[test]
fn a_link_that_was_there_before_is_followed_once_when_the_config_is_read_and_never_out_of_the_workspace() {
    let ground = Ground::new("host-user");
    let repo = ground.sandbox.repo();
    fs::rename(repo.join("data"), repo.join("real")).unwrap();
    symlink("real", repo.join("data")).unwrap();
    let output = ground.run(&ground.podman_before("never", "true"), LOOK);
    assert_eq!((code(&output), text(&output.stdout).as_str()), (0, "data\nconf\n"), "{}", text(&output.stderr));
    fs::remove_file(repo.join("data")).unwrap();
    symlink(ground.sandbox.scratch("private"), repo.join("data")).unwrap();
    let output = ground.run(&ground.podman_before("never", "true"), LOOK);
    assert_eq!(code(&output), 2);
    assert!(text(&output.stderr).contains("outside the workspace"), "{}", text(&output.stderr));
}

impl Ground {
    /// The script target, ready to run: its hash and the command.
    fn script(&self, path: Option<&std::path::Path>) -> (String, Command) {
        let script = compile(&self.sandbox, &["--target", "script", "--session", &unique(), "--", "sh", "-c", LOOK]);
        let file = self.sandbox.scratch("run.sh");
        fs::write(&file, &script).unwrap();
        let mut command = self.sandbox.in_shell(&format!("exec sh {}", file.display()));
        let path = path.map_or_else(String::new, |path| format!("{}:", path.display()));
        command.env("PATH", format!("{path}/usr/bin:/bin"));
        (script.split("# Sandbox ").nth(1).and_then(|rest| rest.split(',').next()).unwrap().to_owned(), command)
    }
}

/// The directories of scripts in the user's runtime directory.
fn runtime_leftovers() -> Vec<String> {
    let dir = PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR").unwrap());
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("sandboxc-run.")).collect()
}

#[test]
fn a_script_refuses_a_source_that_is_a_link_or_a_pipe_by_now_and_leaves_nothing() {
    for identity in ["host-user", "root"] {
        for (name, new, word) in [
            ("data", "ln -s $private data", "has changed: it is a link, or below one"),
            ("conf", "ln -s $private/key conf", "has changed: it is a link, or below one"),
            ("conf", "mkfifo conf", "is neither a file nor a directory"),
            (".sandboxc", "ln -s $private .sandboxc", "has changed: it is a link, or below one"),
            ("data", "true", "is missing"),
        ] {
            let ground = Ground::new(identity);
            let (hash, mut script) = ground.script(None);
            assert!(Command::new("sh").args(["-c", &ground.swap(name, new)]).status().unwrap().success());
            let output = script.output().unwrap();
            assert!(text(&output.stderr).contains("nothing was started"), "{}", text(&output.stderr));
            refused(&ground, &output, word);
            assert_eq!(left(&hash), "");
        }
    }
    wait_until("scripts leave nothing, nor do those of other tests", || runtime_leftovers().is_empty());
}

#[test]
fn a_script_mounts_what_it_has_looked_at_whatever_its_name_is_then() {
    for identity in ["host-user", "root"] {
        let ground = Ground::new(identity);
        let (hash, mut script) = ground.script(None);
        let output = script.output().unwrap();
        assert_eq!((code(&output), text(&output.stdout).as_str()), (0, "data\nconf\n"), "{}", text(&output.stderr));
        assert!(ground.sandbox.repo().join("data/written").exists(), "the twin");

        let ground = Ground::new(identity);
        let bin = ground.podman_before("*'kube play'*", &ground.swap("data", "mkdir data"));
        let output = ground.script(Some(&bin)).1.output().unwrap();
        assert_eq!((code(&output), text(&output.stdout).as_str()), (0, "data\nconf\n"), "{}", text(&output.stderr));
        let repo = ground.sandbox.repo();
        assert!(repo.join("away/written").exists() && !repo.join("data/written").exists());

        // The source is mounted on itself, so the link refers to that mount.
        let ground = Ground::new(identity);
        let bin = ground.podman_before("*'kube play'*", &ground.swap("data", "ln -s $private data"));
        refused(&ground, &ground.script(Some(&bin)).1.output().unwrap(), "could not be set up");
        assert_eq!(left(&hash), "");
    }
    wait_until("scripts leave nothing, nor do those of other tests", || runtime_leftovers().is_empty());
}

#[test]
fn units_refuse_a_source_that_is_a_link_by_now_at_every_start() {
    for (session, identity) in [("q-pins", "host-user"), ("q-pins-root", "root")] {
        let ground = Ground::with(identity, &format!("command: [sh, -c, {LOOK:?}]\n"));
        let (data, away) = (ground.sandbox.repo().join("data"), ground.sandbox.repo().join("away"));
        let (private, started) = (ground.sandbox.scratch("private"), ground.sandbox.repo().join("started"));
        let installed = Installed::of(session, ground.sandbox);
        for _ in 0..2 {
            assert!(installed.run().status.success());
            assert!(installed.gone(), "left: {}", installed.left());
            assert!(data.join("written").exists() && data.join("file").exists());
            fs::remove_file(data.join("written")).unwrap();
            fs::remove_file(&started).unwrap();

            fs::rename(&data, &away).unwrap();
            symlink(&private, &data).unwrap();
            assert!(!installed.run().status.success());
            assert!(installed.gone(), "left: {}", installed.left());
            let mounts = installed.part("mounts");
            assert_eq!(property(&mounts, "Result"), "exit-code");
            assert!(!started.exists() && !private.join("written").exists() && private.join("key").exists());
            systemctl(&["reset-failed"]);
            fs::remove_file(&data).unwrap();
            fs::rename(&away, &data).unwrap();
        }
        let dir = PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR").unwrap()).join("sandboxc-units");
        let held = dir.join(format!("{}-mounts", installed.prefix()));
        assert!(!held.exists(), "{}", held.display());
    }
}

#[test]
fn a_manifest_says_which_mount_it_does_not_keep_by_itself_and_strict_refuses_it() {
    let ground = Ground::new("host-user");
    let output = |args: &[&str]| {
        let output = ground.sandbox.command(&[&["compile"], args, &["--", "true"]].concat()).output().unwrap();
        (code(&output), text(&output.stdout), text(&output.stderr))
    };
    let repo = ground.sandbox.repo();
    let line = format!("{} at /data", repo.join("data").display());
    let (ok, manifest, said) = output(&[]);
    assert!(ok == 0 && said.contains(&line), "{said}");
    let header: Vec<&str> = manifest.lines().take_while(|line| line.starts_with('#')).collect();
    assert!(header.contains(&format!("#   {line}").as_str()), "{header:?}");
    assert!(!said.contains(".sandboxc at ") && !said.contains("data at /home"), "what is mounted on itself: {said}");
    let (refused, stdout, said) = output(&["--strict"]);
    assert!(
        refused == 125 && stdout.is_empty() && said.contains("--strict: the manifest alone cannot protect a mount"),
        "{said}"
    );
    let (ok, script, said) = output(&["--strict", "--target", "script"]);
    assert!(ok == 0 && said.is_empty() && !script.contains("this manifest alone"), "{said}");
    let plain = Sandbox::new();
    let compiled = plain.command(&["compile", "--strict", "--", "true"]).output().unwrap();
    assert_eq!((code(&compiled), text(&compiled.stderr).as_str()), (0, ""), "the twin");
}
