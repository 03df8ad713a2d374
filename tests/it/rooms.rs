//! Checks the modules of ARCHITECTURE.md: which file imports which.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::tidy::{code, root, sources};

/// `emit/kube/volume` for `src/emit/kube/volume.rs`.
type Module = Vec<String>;

/// The modules that targets in `emit` share. They call nothing else of each other; `tree` combines their texts.
const SHARED: [&str; 11] =
    ["defaults", "file", "layout", "limits", "network", "permissions", "pin", "podman", "posture", "shell", "template"];

fn module(path: &Path) -> Module {
    let relative = path.strip_prefix(root().join("src")).unwrap().with_extension("");
    relative.iter().map(|part| part.to_str().unwrap().to_owned()).collect()
}

/// Every module of the library that each module names. Parents and children do not count as separate modules.
fn imports() -> BTreeMap<Module, BTreeSet<Module>> {
    let files: Vec<PathBuf> = sources(&root().join("src"));
    let known: BTreeSet<Module> = files.iter().map(|path| module(path)).collect();
    let of = |path: &PathBuf| {
        let own = module(path);
        let named = paths(&code(path)).into_iter().filter_map(|path| resolve(&own, &path, &known));
        let apart = named.filter(|other| !other.starts_with(&own) && !own.starts_with(other)).collect();
        (own, apart)
    };
    files.iter().map(of).collect()
}

/// The paths that a file names, with groups expanded: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn paths(code: &str) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for start in ["crate::", "super::", "use "] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back().unwrap_or(' ');
            if !before.is_alphanumeric() && before != '_' && before != ':' {
                let rest = if start == "use " { &code[at + start.len()..] } else { &code[at..] };
                tree(rest, &[], &mut all);
            }
        }
    }
    all
}

/// Parses a path or group, and returns the length of the parsed text.
fn tree(text: &str, before: &[String], all: &mut Vec<Vec<String>>) -> usize {
    let mut path = before.to_vec();
    let mut at = 0;
    loop {
        at += text[at..].len() - text[at..].trim_start().len();
        let word: String = text[at..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if !word.is_empty() {
            at += word.len();
            path.push(word);
            if let Some(rest) = text[at..].strip_prefix("::") {
                at = text.len() - rest.len();
                continue;
            }
        } else if text[at..].starts_with('{') {
            at += 1;
            while !text[at..].trim_start().starts_with('}') && at < text.len() {
                at += tree(&text[at..], &path, all);
                // ` as NAME`, white space and the comma.
                at += text[at..].find([',', '}']).unwrap_or(text.len() - at);
                at += usize::from(text[at..].starts_with(','));
            }
            return text[at..].find('}').map_or(text.len(), |end| at + end + 1);
        }
        all.push(path);
        return at;
    }
}

fn resolve(own: &Module, path: &[String], known: &BTreeSet<Module>) -> Option<Module> {
    let ups = path.iter().take_while(|word| *word == "super").count();
    let full: Module = match path.first()?.as_str() {
        "crate" => path[1..].to_vec(),
        "super" => own[..own.len().checked_sub(ups)?].iter().chain(&path[ups..]).cloned().collect(),
        _ => return None,
    };
    (1..=full.len()).rev().map(|length| full[..length].to_vec()).find(|prefix| known.contains(prefix))
}

#[test]
fn the_reader_of_imports_takes_groups_apart() {
    let read = |text: &str| paths(text).iter().map(|path| path.join("::")).collect::<Vec<_>>();
    assert_eq!(
        read("use crate::a::{b, c::{D, e as f}, g};\nfn x() {}"),
        ["crate::a::b", "crate::a::c::D", "crate::a::c::e", "crate::a::g"].repeat(2)
    );
    assert_eq!(read("let x = super::a::b(crate::c::D);"), ["crate::c::D", "super::a::b"]);
    let known = BTreeSet::from([vec!["a".to_owned()], vec!["a".to_owned(), "b".to_owned()]]);
    let path = |text: &str| paths(text).remove(0);
    let own = ["a", "c", "d"].map(str::to_owned).to_vec();
    assert_eq!(resolve(&own, &path("super::super::b::X"), &known), Some(vec!["a".to_owned(), "b".to_owned()]));
    assert_eq!(resolve(&own, &path("crate::a::X"), &known), Some(vec!["a".to_owned()]));
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let graph = imports();
    let mut reached: BTreeMap<&Module, BTreeSet<&Module>> = BTreeMap::new();
    for from in graph.keys() {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(module) = next.pop() {
            next.extend(graph[module].iter().filter(|other| seen.insert(*other)));
        }
        reached.insert(from, seen);
    }
    let in_circle = |module: &&Module| reached[*module].contains(*module);
    let circles: Vec<String> = graph.keys().filter(in_circle).map(|module| module.join("/")).collect();
    assert!(circles.is_empty(), "{circles:?} import each other");
}

#[test]
fn targets_of_emit_share_what_is_shared_and_call_nothing_else_of_each_other() {
    for (own, others) in imports() {
        let [room, part, ..] = own.as_slice() else { continue };
        for other in others.iter().filter(|_| room == "emit" && part != "tree") {
            let [same, target, ..] = other.as_slice() else { continue };
            let shared = same != room || target == part || SHARED.contains(&target.as_str());
            assert!(shared, "{} calls {}; let `tree` combine them, or share it", own.join("/"), other.join("/"));
        }
    }
}

/// The names of the types that code exports, without those that only a part of the crate sees.
fn public_types(code: &str) -> Vec<String> {
    let kinds = ["pub struct ", "pub enum ", "pub trait ", "pub type ", "pub union "];
    let named = code.lines().filter_map(|line| kinds.iter().find_map(|kind| line.trim_start().strip_prefix(kind)));
    named.map(|rest| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()).collect()
}

#[test]
fn the_reader_of_types_sees_what_is_public() {
    let code = "pub struct A<'a> {\n    pub enum_like: u8,\n}\npub(super) struct B;\n  pub enum C {}\nstruct D;\npub type E = A;";
    assert_eq!(public_types(code), ["A", "C", "E"]);
}

/// Whoever reads a name should not have to look at the imports to know what it is.
#[test]
fn no_two_modules_export_types_with_the_same_name() {
    // The router's files repeat the part of the plan that it needs, with the plan's words.
    let repeated = ["TcpRoute"];
    let mut rooms: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in sources(&root().join("src")) {
        for name in public_types(&code(&path)) {
            rooms.entry(name).or_default().insert(module(&path).remove(0));
        }
    }
    for name in repeated {
        assert!(rooms.get(name).is_some_and(|rooms| rooms.len() > 1), "{name} is no longer an exception");
    }
    rooms.retain(|name, rooms| rooms.len() > 1 && !repeated.contains(&name.as_str()));
    assert!(rooms.is_empty(), "{rooms:?}: rename all but one, so that the name says which");
}

/// A new field of the plan must reach every target: the code does not compile until each target names it.
#[test]
fn targets_take_the_plans_containers_apart_completely() {
    let words = ["Pod", "Container", "Mount", "Device", "Dns", "ResourceLimits", "Attachment", "ContainerUnit"];
    let mut taken: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in sources(&root().join("src/emit")) {
        let code = code(&path);
        for word in words {
            for (at, start) in code.match_indices(&format!("let {word} {{")) {
                let pattern = code[at + start.len()..].split("} =").next().unwrap();
                assert!(!pattern.contains(".."), "{} leaves fields of {word} out", path.display());
                taken.entry(module(&path)[1].clone()).or_default().insert(word.to_owned());
            }
        }
    }
    for (target, needed) in [
        ("kube", &["Pod", "Container", "Mount", "Device", "ResourceLimits"][..]),
        ("quadlet", &["Pod", "Container", "Mount", "Device", "ResourceLimits", "Attachment"]),
        ("posture", &["Container", "ResourceLimits"]),
        ("review", &["Pod", "Container", "Mount", "ResourceLimits"]),
    ] {
        for word in needed {
            assert!(taken.get(target).is_some_and(|words| words.contains(*word)), "{target} takes no {word} apart");
        }
    }
}

/// Errors of lower modules have types that say what to do. Only code that just prints an error may erase its type.
#[test]
fn only_the_top_hides_the_types_of_errors() {
    for path in sources(&root().join("src")) {
        let module = module(&path);
        let is_top = ["main", "cli"].contains(&module[0].as_str());
        assert!(is_top || !code(&path).contains("anyhow"), "{} uses anyhow", path.display());
    }
}
