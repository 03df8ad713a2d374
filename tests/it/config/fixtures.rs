//! Each directory of `tests/it/bad` is a machine with a broken config, named after the code that it shows.
//!
//! `sandbox.yaml`, `server.yaml`, `allowed-hosts` and `git` go to their places, other files to the same path; `@` is
//! the root.
//! `links` contains lines `FILE NAME`: an additional name of a file. `modes` contains lines `FILE MODE`, in octal.
//! `inputs` contains lines `NAME=VALUE`: `repo_dir`, `name`, or else a variable of the environment.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;

use sandboxc::config::check_secret_files;
use sandboxc::diagnostic::render_json;

use super::schema::accepts;
use super::*;

fn bad() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/bad")
}

/// The names of all fixtures, sorted.
pub fn fixtures() -> Vec<String> {
    let dirs = fs::read_dir(bad()).unwrap().flatten().filter(|e| e.path().is_dir());
    let mut names: Vec<String> = dirs.map(|e| e.file_name().into_string().unwrap()).collect();
    names.retain(|name| name != "snapshots" && name != "fixed");
    names.sort();
    names
}

/// The code that a fixture is named after.
pub fn code(fixture: &str) -> Code {
    let named = Code::ALL.iter().filter(|c| fixture == c.name() || fixture.starts_with(&format!("{}-", c.name())));
    *named.max_by_key(|c| c.name().len()).unwrap_or_else(|| panic!("{fixture} is named after no code"))
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        if entry.path().is_dir() { all.extend(files(&entry.path())) } else { all.push(entry.path()) }
    }
    all
}

fn world(fixture: &str) -> World {
    world_of(&[bad().join(fixture)])
}

/// The machine that these directories describe. A file of a later directory replaces the file with the same name, and
/// `removed` lists files that are gone.
fn world_of(dirs: &[PathBuf]) -> World {
    let (mut world, mut links, mut modes) = (World::new(), String::new(), String::new());
    let of = |dir: &PathBuf| {
        let name = |path: &PathBuf| path.strip_prefix(dir).unwrap().to_str().unwrap().to_owned();
        files(dir).into_iter().map(|path| (name(&path), path)).collect::<Vec<_>>()
    };
    let mut all = dirs.iter().flat_map(of).collect::<BTreeMap<_, _>>();
    let removed = all.remove("removed").map(|path| fs::read_to_string(path).unwrap()).unwrap_or_default();
    all.retain(|name, _| !removed.lines().any(|line| line == name));
    for (name, path) in all {
        let bytes = fs::read(&path).unwrap();
        let name = name.as_str();
        let place = match name {
            "sandbox.yaml" => "w/.sandboxc/sandbox.yaml",
            "server.yaml" => "c/sandboxc/server.yaml",
            "allowed-hosts" => "c/sandboxc/allowed-hosts",
            // git does not add files with that name.
            "git" => "w/.git",
            "links" => {
                links = String::from_utf8(bytes).unwrap();
                continue;
            }
            "modes" => {
                modes = String::from_utf8(bytes).unwrap();
                continue;
            }
            "inputs" => {
                for line in String::from_utf8(bytes).unwrap().lines() {
                    let line = line.replace('@', world.root().to_str().unwrap());
                    input(&mut world, line.split_once('=').unwrap());
                }
                continue;
            }
            other => other,
        };
        match String::from_utf8(bytes) {
            Ok(text) => world.write(place, text.replace('@', world.root().to_str().unwrap())),
            Err(error) => world.write(place, error.into_bytes()),
        };
    }
    for (file, name) in links.lines().filter_map(|line| line.split_once(' ')) {
        fs::hard_link(world.root().join(file), world.root().join(name)).unwrap();
    }
    for (file, mode) in modes.lines().filter_map(|line| line.split_once(' ')) {
        let mode = fs::Permissions::from_mode(u32::from_str_radix(mode, 8).unwrap());
        fs::set_permissions(world.root().join(file), mode).unwrap();
    }
    world
}

/// What `validate` reports.
fn validated(world: &World) -> sandboxc::config::Loaded {
    let mut loaded = world.load();
    let files = loaded.resolved.as_ref().map(check_secret_files);
    loaded.diagnostics.append(files.unwrap_or_default());
    loaded.resolved = loaded.resolved.filter(|_| !loaded.diagnostics.has_errors());
    loaded
}

fn input(world: &mut World, (name, value): (&str, &str)) {
    match name {
        "repo_dir" => world.inputs.repo_dir = world.root().join(value),
        "name" => world.inputs.name = Some(value.to_owned()),
        _ => drop(world.inputs.env.insert(name.to_owned(), value.to_owned())),
    }
}

/// The first finding of a code in a fixture, as it is rendered.
pub fn shown(fixture: &str, wanted: Code) -> Option<String> {
    let world = world(fixture);
    let loaded = validated(&world);
    let finding = loaded.diagnostics.sorted().into_iter().find(|d| d.code == wanted)?.clone();
    let mut one = sandboxc::diagnostic::Diagnostics::new();
    one.push(finding);
    Some(one.text(&loaded.sources, false).replace(&world.root().display().to_string(), "@"))
}

#[test]
fn each_reads_as_its_snapshot_says() {
    for fixture in fixtures() {
        let world = world(&fixture);
        let loaded = validated(&world);
        let code = code(&fixture);
        let codes: BTreeSet<Code> = loaded.diagnostics.sorted().iter().map(|d| d.code).collect();
        assert!(codes.contains(&code), "{fixture} does not show its code, but {codes:?}");
        assert_eq!(loaded.resolved.is_none(), loaded.diagnostics.has_errors(), "{fixture}");
        for diagnostic in loaded.diagnostics.sorted() {
            let about_no_file = [Code::UnknownRepo, Code::WorkspaceRefused, Code::GitOutside, Code::HardLink]
                .contains(&diagnostic.code);
            let wrong = diagnostic.severity == sandboxc::diagnostic::Severity::Error;
            assert!(!wrong || !diagnostic.help.is_empty(), "{fixture}: {} has no help", diagnostic.message);
            assert!(about_no_file || !diagnostic.labels.is_empty(), "{fixture}: {} has no place", diagnostic.message);
        }
        let root = world.dir.path().canonicalize().unwrap();
        for secret in ["hunter2", "990017"] {
            let drawn = text(&loaded, &root) + &render_json(&loaded.diagnostics, &loaded.sources);
            assert!(!drawn.contains(secret), "{fixture} shows a secret:\n{drawn}");
            assert!(!format!("{:?}", loaded.resolved).contains(secret), "{fixture}: Debug shows a secret");
        }
        insta::with_settings!({
            snapshot_path => bad().join("snapshots"), prepend_module_to_snapshot => false, omit_expression => true
        }, {
            insta::assert_snapshot!(fixture.as_str(), text(&loaded, &root));
        });
    }
}

/// `fixed/FIXTURE` contains the files after following each hint.
#[test]
fn following_every_hint_removes_every_finding() {
    let mut wrong = String::new();
    for fixture in fixtures() {
        let severity = code(&fixture).severity();
        // A note reports a decision that needs no action.
        if severity == sandboxc::diagnostic::Severity::Note {
            continue;
        }
        let world = world_of(&[bad().join(&fixture), bad().join("fixed").join(&fixture)]);
        let loaded = validated(&world);
        let is_left = |d: &&sandboxc::diagnostic::Diagnostic| {
            d.severity == sandboxc::diagnostic::Severity::Error || d.code == code(&fixture)
        };
        if loaded.diagnostics.sorted().into_iter().any(|d| is_left(&d)) {
            wrong += &format!("## {fixture}\n{}", text(&loaded, &world.root()));
        }
        assert!(bad().join("fixed").join(&fixture).is_dir(), "{fixture} has no fixed form");
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn every_code_has_one() {
    let shown: BTreeSet<Code> = fixtures().iter().map(|f| code(f)).collect();
    // Depends on the target and podman's version, which `config` does not know.
    let elsewhere = [Code::LimitByRunner];
    for code in Code::ALL.iter().filter(|code| !elsewhere.contains(code)) {
        assert!(shown.contains(code), "no fixture for {code}");
    }
}

#[test]
fn a_schema_refuses_what_it_can_and_takes_the_rest() {
    let by_schema = [Code::UnknownKey, Code::MissingKey, Code::WrongType, Code::UnsupportedVersion];
    for fixture in fixtures() {
        let world = world(&fixture);
        let loaded = validated(&world);
        for (server, path) in [(false, "w/.sandboxc/sandbox.yaml"), (true, "c/sandboxc/server.yaml")] {
            let Ok(text) = fs::read_to_string(world.root().join(path)) else { continue };
            let Some(accepted) = accepts(server, &text) else { continue };
            let here = |d: &&sandboxc::diagnostic::Diagnostic| {
                let file = d.labels.first().and_then(|l| loaded.sources.file(l.span.file));
                file.is_some_and(|f| f.path().ends_with(path))
            };
            let findings = loaded.diagnostics.sorted();
            let mut codes = findings.iter().copied().filter(here).map(|d| d.code);
            let refusable = codes.clone().any(|c| by_schema.contains(&c));
            assert!(!(refusable && accepted), "{fixture}: the schema takes {path}");
            let harmless = codes.all(|c| c.severity() != sandboxc::diagnostic::Severity::Error);
            assert!(!harmless || accepted, "{fixture}: the schema refuses {path}");
        }
    }
}

/// Values that a schema restricts besides types.
#[test]
fn a_schema_bounds_numbers_and_names() {
    for text in [
        "resource_limits: {timeout: 9}",
        "resource_limits: {cpus: 0}",
        "resource_limits: {pids_limit: 0}",
        "identity: rot",
        "env: {SANDBOXC_X: a}",
        "env: {A-B: a}",
        "network: {allow: [{host: a.example.com, ports: [0]}]}",
        "network: {allow: [{host: a.example.com, ports: [65536]}]}",
        "network: {allow: [{host: a.example.com, ports: []}]}",
    ] {
        let text = format!("version: 1\n{text}\n");
        assert_eq!(accepts(false, &text), Some(false), "{text}");
        assert!(repo(&text).load().resolved.is_none(), "{text}");
    }
}
