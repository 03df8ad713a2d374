//! Every example compiles to its golden tree; `UPDATE_GOLDEN=1` rewrites it, for review.
//!
//! Two trees are complete. For the others, only the files that differ in kind are kept: the plan, the units and the
//! header.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use sandboxc::config::{Inputs, Loaded, SHARED_HOME, load, private_home};
use sandboxc::emit::{File, PodmanVersion, tree};
use sandboxc::plan::{Command, Keeper, Plan, PlanRequest, plan};

pub const EXAMPLES: [&str; 5] = ["minimal", "laptop", "ci", "full", "inspect"];

/// Examples whose tree is complete.
const WHOLE: [&str; 2] = ["minimal", "inspect"];

pub fn dir(example: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples").join(example)
}

fn load_example(example: &str) -> Loaded {
    load(&Inputs {
        repo_dir: dir(example).join("repo").canonicalize().unwrap(),
        server_file: Some(dir(example).join("server.yaml")),
        name: ["full", "inspect"].contains(&example).then(|| example.to_owned()),
        home: Some(PathBuf::from("/home/me")),
        config_home: PathBuf::from("/home/me/.config"),
        env: BTreeMap::from([("LANG".to_owned(), "C.UTF-8".to_owned())]),
        frozen: None,
        conversation: None,
        repo_text: None,
        write_defaults: false,
    })
}

fn planned(example: &str) -> Plan {
    planned_for(example, Keeper::Applier)
}

/// The plan for units.
pub fn planned_units(example: &str) -> Plan {
    planned_for(example, Keeper::Service(Some(Path::new("/home/me/.config/sandboxc/server.yaml"))))
}

/// As if the example were in /home/me/src, so that the golden files are the same in every checkout.
fn planned_for(example: &str, keeper: Keeper<'_>) -> Plan {
    let mut resolved = load_example(example).resolved.unwrap();
    let home = PathBuf::from("/home/me/src").join(example);
    let moved = |path: &Path| home.join(path.strip_prefix(dir(example).join("repo").canonicalize().unwrap()).unwrap());
    for mount in &mut resolved.mounts {
        mount.source = moved(&mount.source);
    }
    if resolved.workspace.target == resolved.workspace.source {
        resolved.workspace.target.clone_from(&home);
    }
    if resolved.name.is_none() && resolved.home_volume.value != SHARED_HOME {
        resolved.home_volume.value = private_home(None, &home);
    }
    resolved.workspace.source = home;
    let words = resolved.command.iter().map(|word| word.value.clone()).collect();
    let command = Command::Run(words);
    plan(PlanRequest { resolved: &resolved, session: "default", command: &command, attempt: 0, keeper }).unwrap()
}

fn compiled(example: &str) -> Vec<File> {
    let plan = planned(example);
    tree::tree(&plan, PodmanVersion::FLOOR, &tree::compile(&plan, PodmanVersion::FLOOR).unwrap()).unwrap()
}

#[test]
fn every_example_is_valid() {
    for example in EXAMPLES {
        let loaded = load_example(example);
        assert!(!loaded.diagnostics.has_errors(), "{}", loaded.diagnostics.text(&loaded.sources, false));
    }
}

#[test]
fn a_manifest_is_short_enough_to_read() {
    for (example, most) in [("minimal", 260), ("inspect", 450)] {
        let files = compiled(example);
        let manifest = files.iter().find(|file| file.path == "kube.yaml").unwrap();
        let lines = manifest.text.lines().count();
        assert!(lines <= most, "{example}: {lines} lines, at most {most}");
    }
}

#[test]
fn every_example_compiles_to_its_golden_tree() {
    for example in EXAMPLES {
        golden(&dir(example).join("compiled"), &kept(example, compiled(example)));
    }
}

#[test]
fn every_example_compiles_to_its_golden_units() {
    for example in EXAMPLES {
        let files = tree::quadlet(&planned_units(example), PodmanVersion::FLOOR).unwrap();
        golden(&dir(example).join("quadlet"), &kept(example, files));
    }
}

/// The files that are kept of an example's tree.
fn kept(example: &str, files: Vec<File>) -> Vec<File> {
    if WHOLE.contains(&example) {
        return files;
    }
    let header = |file: &File| {
        let lines: Vec<&str> = file.text.lines().take_while(|line| line.starts_with('#')).collect();
        File::new("header", lines.join("\n") + "\n")
    };
    let mounted = ["router/", "forwarder/", "agent/hosts"];
    let keep = |file: File| match file.path.as_str() {
        "kube.yaml" => Some(header(&file)),
        "run.sh" | "networks.sh" => None,
        path if mounted.iter().any(|own| path.trim_start_matches("default/").starts_with(own)) => None,
        _ => Some(file),
    };
    files.into_iter().filter_map(keep).collect()
}

/// Compares files with a directory, or rewrites it.
fn golden(golden: &Path, files: &[File]) {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    if update {
        let _ = fs::remove_dir_all(golden);
    }
    for file in files {
        // `compile` replaces a tree only if it could have written all of it.
        let below = file.path.strip_prefix("default/").unwrap_or(&file.path);
        assert!(tree::is_of_a_tree(Path::new(below)) || below == "header", "{below}");
        let path = golden.join(&file.path);
        if update {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &file.text).unwrap();
        }
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(text == file.text, "{} differs; review with UPDATE_GOLDEN=1 and git diff", path.display());
    }
    let emitted: BTreeSet<PathBuf> = files.iter().map(|file| golden.join(&file.path)).collect();
    let present: BTreeSet<PathBuf> = walk(golden).into_iter().collect();
    assert_eq!(present, emitted, "{}: files that nobody emits", golden.display());
}

fn walk(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() { files.extend(walk(&path)) } else { files.push(path) }
    }
    files
}

#[test]
fn the_full_example_sets_every_key_that_this_version_enforces() {
    let repo = fs::read_to_string(dir("full").join("repo/.sandboxc/sandbox.yaml")).unwrap();
    let server = fs::read_to_string(dir("full").join("server.yaml")).unwrap();
    for (schema, text) in [(sandboxc::config::schema::repo(), repo), (sandboxc::config::schema::server(), server)] {
        let schema: serde_json::Value = serde_json::from_str(&schema).unwrap();
        for key in schema["properties"].as_object().unwrap().keys() {
            assert!(text.contains(&format!("{key}:")), "{key} is not in the full example");
        }
    }
}

#[test]
fn every_grant_points_to_a_line_that_exists() {
    for example in EXAMPLES {
        let files = compiled(example);
        let kube = &files.iter().find(|file| file.path == "kube.yaml").unwrap().text;
        let grants: Vec<&str> = kube.lines().filter(|line| line.starts_with("#   egress")).collect();
        assert!(!grants.is_empty() || example == "laptop", "{example}");
        for grant in grants {
            let place = grant.rsplit('(').next().unwrap().trim_end_matches(')');
            let (file, line) = place.rsplit_once(':').unwrap();
            let path = if file.starts_with(".sandboxc") {
                dir(example).join("repo").join(file)
            } else {
                dir(example).join(file)
            };
            let lines = fs::read_to_string(&path).unwrap().lines().count();
            assert!(line.parse::<usize>().unwrap() <= lines, "{grant}");
        }
    }
}
