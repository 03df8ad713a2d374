//! The invariants of ARCHITECTURE.md, as tests.

use std::fs;
use std::path::{Path, PathBuf};

/// Modules from the bottom up; an import goes to the same module or to an earlier one.
const FLOORS: &[&[&str]] = &[
    &["source", "visible", "pem", "shell"],
    &["policy", "diagnostic"],
    &["config", "router"],
    &["plan"],
    &["emit"],
    &["runtime"],
    &["cli"],
];

pub fn sources(dir: &Path) -> Vec<PathBuf> {
    files(dir, &["rs"])
}

/// Every file below a directory whose extension matches, sorted.
fn files(dir: &Path, ends: &[&str]) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            all.extend(files(&path, ends));
        } else if ends.iter().any(|end| path.extension().unwrap_or_default() == *end) {
            all.push(path);
        }
    }
    all.sort();
    all
}

/// Extensions of files that people write; scripts may have none.
const WRITTEN: [&str; 7] = ["rs", "j2", "js", "sh", "py", "conf", ""];

/// What people write: code, templates and scripts.
fn written() -> Vec<PathBuf> {
    let all: Vec<PathBuf> =
        ["src", "tests", "templates", "scripts"].iter().flat_map(|dir| files(&root().join(dir), &WRITTEN)).collect();
    for file in ["src/emit/kube.rs", "tests/it/tidy.rs", "templates/run.sh.j2", "tests/host/host", "scripts/test"] {
        assert!(all.contains(&root().join(file)), "{file} is not looked at");
    }
    all
}

pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The module of a file: its first path component under `src`, without `.rs`.
fn room(path: &Path) -> String {
    let relative = path.strip_prefix(root().join("src")).unwrap();
    relative.iter().next().unwrap().to_string_lossy().trim_end_matches(".rs").to_owned()
}

fn floor(room: &str) -> Option<usize> {
    FLOORS.iter().position(|rooms| rooms.contains(&room))
}

/// A file's code without its unit tests, comments and doc comments.
pub fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let own = text.split("\n#[cfg(test)]\nmod ").next().unwrap();
    own.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// Every `crate::MODULE` that a file names.
fn imports(code: &str) -> Vec<String> {
    code.split("crate::")
        .skip(1)
        .map(|rest| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect())
        .collect()
}

#[test]
fn an_import_goes_down_only() {
    for path in sources(&root().join("src")) {
        let Some(own) = floor(&room(&path)) else { continue };
        for import in imports(&code(&path)) {
            let Some(other) = floor(&import) else { continue };
            let same = import == room(&path);
            assert!(same || other < own, "{} imports crate::{import}, which is not below it", path.display());
        }
    }
}

#[test]
fn every_room_has_its_floor() {
    for path in sources(&root().join("src")) {
        let room = room(&path);
        assert!(
            floor(&room).is_some() || ["main", "lib", "bin"].contains(&room.as_str()),
            "{} has no floor",
            path.display()
        );
    }
}

#[test]
fn effects_stay_in_their_rooms() {
    let effects = [
        "std::env",
        "std::process",
        "SystemTime",
        "Instant::now",
        "std::fs",
        "fs::read",
        "File::open",
        "std::net::Tcp",
        "env::var",
    ];
    for path in sources(&root().join("src")) {
        let room = room(&path);
        let loader = ["config/load.rs", "config/disk.rs", "config/first.rs", "config/frozen.rs"]
            .iter()
            .any(|file| path.ends_with(file));
        if ["cli", "runtime", "router", "main", "bin"].contains(&room.as_str()) || loader {
            continue;
        }
        let code = code(&path);
        for effect in effects {
            assert!(!code.contains(effect), "{} uses {effect}", path.display());
        }
    }
}

#[test]
fn only_cli_prints_and_nobody_exits_or_panics_on_purpose() {
    let forbidden =
        ["process::exit", "todo!", "unimplemented!", "dbg!", "println!", "eprintln!", "print!(", "eprint!("];
    for path in sources(&root().join("src")) {
        let code = code(&path);
        for word in forbidden {
            assert!(!code.contains(word), "{} has {word}", path.display());
        }
    }
}

/// Messages for people go through `cli`, which makes hidden characters visible. The router is a separate program.
#[test]
fn only_cli_writes_to_the_streams_of_the_process() {
    for path in sources(&root().join("src")) {
        // The output of a build, the command's output on its terminal, and whether there is one.
        let passes_on =
            ["image.rs", "terminal.rs", "exec.rs"].iter().any(|file| path.ends_with(format!("runtime/{file}")));
        if passes_on || ["cli", "router"].contains(&room(&path).as_str()) {
            continue;
        }
        for word in ["stdout()", "stderr()", "writeln!(out"] {
            assert!(!code(&path).contains(word), "{} has {word}", path.display());
        }
    }
}

#[test]
fn one_module_names_the_yaml_crate() {
    let naming = sources(&root().join("src")).into_iter().filter(|path| code(path).contains("serde_yaml"));
    for path in naming {
        assert!(path.to_string_lossy().contains("/config/yaml"), "{} names the YAML crate", path.display());
    }
}

/// A podman that is created in another way would pass the caller's environment to its helpers, and the host's defaults
/// to containers.
#[test]
fn every_podman_is_made_in_one_place() {
    let known = [
        "\"podman\"",
        "\"git\"",
        "\"systemctl\"",
        "\"systemd-analyze\"",
        "\"journalctl\"",
        "\"id\"",
        "generator",
        "interpreter",
        "program",
        "own",
        "\"systemd-run\"",
    ];
    let files = sources(&root().join("src"));
    for path in files.into_iter().filter(|path| !path.ends_with("tests.rs")) {
        let code = code(&path);
        for program in code.split("Command::new(").skip(1).map(|rest| rest.split(')').next().unwrap_or("")) {
            // Only the router's program becomes another one, in a container.
            assert!(program != "program" || path.ends_with("router/command.rs"), "{}", path.display());
            assert!(known.contains(&program), "{} starts {program}; what is it?", path.display());
            let git = path.ends_with("runtime/git.rs");
            assert!(git || program != "\"git\"", "{} makes its own git; use `Git`", path.display());
            let podman = path.ends_with("runtime/podman.rs");
            assert!(podman || program != known[0], "{} makes its own podman; use `Podman::command`", path.display());
        }
    }
}

/// Files that a user names may be where an agent can write: `runtime/output` opens them. All other code writes where
/// nobody else does: below the runtime directory, in a new temporary directory, in the user's own config.
#[test]
fn one_module_opens_outputs() {
    let words = [
        "OpenOptions",
        "File::create",
        "fs::write(",
        "fs::rename",
        "fs::copy",
        "create_dir",
        "DirBuilder",
        "renameat",
        "OFlags::CREATE",
        "hard_link",
    ];
    let known = [
        "config/first.rs",
        // A file of /proc/sys.
        "router/gate.rs",
        "runtime/image_build.rs",
        // The user's state directory; what an agent can write there is opened by `conversation/files`.
        "runtime/conversation/files.rs",
        "runtime/conversation/held.rs",
        "runtime/conversation/removal.rs",
        "runtime/mirror.rs",
        "runtime/lock.rs",
        "runtime/materials.rs",
        "runtime/output.rs",
        "runtime/output/fresh.rs",
        "runtime/output/rotating.rs",
        "runtime/podman.rs",
        "runtime/registry.rs",
        "runtime/registry/notes.rs",
        // A file of the kernel, which responds.
        "runtime/selinux.rs",
        // Below the opened workspace, without links: stand-ins, and files that are renamed.
        "runtime/stand_in.rs",
        "runtime/state.rs",
        "runtime/systemd.rs",
        "runtime/watch/place.rs",
        "runtime/watch/restore.rs",
    ];
    for path in sources(&root().join("src")) {
        let code = code(&path);
        let name = path.strip_prefix(root().join("src")).unwrap().to_str().unwrap();
        if let Some(word) = words.iter().find(|word| code.contains(*word)) {
            let fine = known.contains(&name) || name.ends_with("tests.rs");
            assert!(fine, "{name} has {word}: open what a person named by `runtime/output`");
        }
    }
}

/// Files of modules with side effects that contain one of the words, except those that may.
fn users_of(words: &[&str], known: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for path in sources(&root().join("src")) {
        let name = path.strip_prefix(root().join("src")).unwrap().to_str().unwrap().to_owned();
        let is_test = name.ends_with("tests.rs");
        if !["runtime", "cli"].contains(&room(&path).as_str()) || is_test || known.contains(&name.as_str()) {
            continue;
        }
        let code = code(&path);
        found.extend(words.iter().filter(|word| code.contains(**word)).map(|word| format!("{name} has {word}")));
    }
    found
}

/// A number may belong to another process by the time a signal is sent, and 0, 1 and -1 are the group, init and
/// everyone.
#[test]
fn one_module_makes_processes_of_numbers_and_sends_signals() {
    let words = ["kill_process", "pidfd_open", "pidfd_send_signal", "Pid::from_raw", "signal_name(", "\"kill\""];
    // In tests, it kills its own process.
    let known = ["runtime/process.rs", "runtime/signals.rs", "runtime/fault.rs"];
    assert_eq!(users_of(&words, &known), [""; 0], "use `runtime/process`");
}

/// A name, a label or a path in one of podman's tables may contain what ends a field or a line.
#[test]
fn what_podman_lists_and_describes_is_json_and_read_by_one_function() {
    let words = ["--format", "\"inspect\"", "\"top\"", "\"ls\"]", "\"logs\", \"-"];
    assert_eq!(users_of(&words, &["runtime/podman.rs", "runtime/objects.rs"]), [""; 0], "use `Podman::json`");
}

/// Text that is split must come from the kernel or from us, unless nothing depends on it.
#[test]
fn no_text_that_an_agent_can_shape_is_split_into_fields() {
    let words =
        ["split_whitespace", "split_ascii_whitespace", ".lines()", "splitn(", "split_once(", "rsplit(", "rsplitn("];
    let known = [
        // What a user typed.
        "cli/explain/target.rs",
        // This host's lists of users and groups.
        "cli/find.rs",
        // Files of the kernel, whose names are escaped or numbers.
        "runtime/cgroup.rs",
        "runtime/conmon.rs",
        "runtime/host.rs",
        "runtime/pins.rs",
        "runtime/process.rs",
        "runtime/signals.rs",
        "runtime/doctor/host.rs",
        "runtime/doctor/agent.rs",
        "runtime/doctor/probe.rs",
        // conmon's format: it splits a container's output at line breaks itself.
        "runtime/ctrlog.rs",
        "runtime/netlog.rs",
        "runtime/decisions.rs",
        "runtime/live.rs",
        // A variable's name ends at its first `=`, as everywhere; lines of this host's `mounts.conf` are counted.
        "runtime/verify/compare.rs",
        "runtime/doctor/defaults.rs",
        // git's question for a password, which has to be the expected one.
        "runtime/git.rs",
        // podman's version, and its last error message.
        "runtime/podman.rs",
        "runtime/doctor/podman.rs",
        // The loader's list of this host's libraries, and Quadlet's complaint.
        "runtime/router_image.rs",
        "runtime/systemd.rs",
        // systemd's properties of units; its own messages in the journal are JSON, one object on each line.
        "runtime/systemd/state.rs",
        // Lines are printed one by one, or searched; their fields are not used.
        "runtime/logs.rs",
        "runtime/redact.rs",
        // Formats that may contain anything from the agent: certificates, git's settings.
        "runtime/materials/pem.rs",
        "runtime/watch/gitconfig.rs",
    ];
    assert_eq!(users_of(&words, &known), [""; 0], "read JSON, or say here whose text it is");
}

/// Whoever holds a lock may be stopped, and a program may wait for something itself.
#[test]
fn no_wait_is_without_an_end() {
    let locks = ["flock(", "FlockOperation", ".try_lock()", ".lock_shared()"];
    assert_eq!(users_of(&locks, &["runtime/lock.rs"]), [""; 0], "use `runtime/lock`");
    // The command of a session, which ends at a signal or its deadline, and builds, which a user watches.
    let waits = [".output()", ".status()", "wait_with_output", "child.wait()"];
    let known = ["runtime/call.rs", "runtime/exec.rs", "runtime/image.rs"];
    assert_eq!(users_of(&waits, &known), [""; 0], "use `runtime/call`");
}

/// A value that takes a lock when it is dropped waits forever if it is dropped while the lock is held.
#[test]
fn nothing_waits_when_it_is_dropped() {
    for path in sources(&root().join("src/runtime")) {
        for drop in code(&path).split("fn drop(&mut self)").skip(1) {
            let body = drop.split("\n    }\n").next().unwrap();
            for word in ["guard(", "Lock::take", ".join()", ".recv()"] {
                assert!(!body.contains(word), "{}: a `drop` has {word}", path.display());
            }
        }
    }
}

/// Files that are too long to read in one go.
fn too_long(paths: &[PathBuf]) -> Vec<String> {
    let lines = |path: &PathBuf| fs::read_to_string(path).unwrap().lines().count();
    let long = paths.iter().map(|path| (path, lines(path))).filter(|(_, lines)| *lines > 420);
    long.map(|(path, lines)| format!("{}: {lines} lines", path.display())).collect()
}

#[test]
fn files_stay_readable() {
    assert_eq!(too_long(&written()), [""; 0]);
}

#[test]
fn a_long_file_is_found_whatever_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let (long, short) = ("x\n".repeat(421), "x\n".repeat(420));
    for name in ["a.rs", "b.sh.j2", "c.js", "d.sh", "e.py", "f.conf", "g"] {
        fs::create_dir_all(dir.path().join("short")).unwrap();
        fs::write(dir.path().join(name), &long).unwrap();
        fs::write(dir.path().join("short").join(name), &short).unwrap();
    }
    let all = files(dir.path(), &WRITTEN);
    assert_eq!(all.len(), 14);
    assert_eq!(too_long(&all).len(), 7);
}

#[test]
fn no_unfinished_words_and_no_ignored_tests() {
    let words = [concat!("FIX", "ME"), concat!("XX", "X "), concat!("#[ig", "nore"), concat!("HA", "CK")];
    for path in written() {
        let text = fs::read_to_string(&path).unwrap();
        for word in words {
            assert!(!text.contains(word), "{} has {word}", path.display());
        }
    }
}

#[test]
fn no_test_file_is_forgotten() {
    for suite in ["it", "router", "e2e"] {
        let dir = root().join("tests").join(suite);
        let main = fs::read_to_string(dir.join("main.rs")).unwrap();
        for entry in fs::read_dir(&dir).unwrap().flatten() {
            let path = entry.path();
            let module = path.file_stem().unwrap().to_string_lossy().into_owned();
            let is_module = path.extension().is_some_and(|e| e == "rs") || path.join("mod.rs").exists();
            if is_module && module != "main" {
                assert!(main.contains(&format!("mod {module};")), "{suite}: {module} is not in main.rs");
            }
        }
    }
}
