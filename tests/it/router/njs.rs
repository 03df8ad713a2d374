//! The router's njs modules by themselves: every `tests/njs/NAME.test.js`, run by the `njs` command of the test host's
//! root. Modules are imported by file name, from `templates/router` and `tests/njs`.

use std::path::Path;
use std::process::{Command, Output};

use super::world::build;

/// Runs one file of `tests/njs`, with the checkout read-only at `/mnt`.
fn njs(name: &str) -> Output {
    let script = r#"
        mount --bind "$1" "$2/mnt"
        mount -o remount,bind,ro "$2/mnt"
        exec chroot "$2" njs -p /mnt/templates/router -p /mnt/tests/njs "/mnt/tests/njs/$3"
    "#;
    Command::new("unshare")
        .args(["--mount", "--", "sh", "-euc", script, "sh", env!("CARGO_MANIFEST_DIR")])
        .arg(build().join("root"))
        .arg(name)
        .output()
        .expect("unshare (util-linux); these tests need root")
}

#[test]
fn every_module_does_what_its_tests_say() {
    if std::env::var_os("SANDBOXC_NO_ROUTER").is_some() {
        return;
    }
    let files = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/njs")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".test.js")).collect();
    names.sort();
    assert!(!names.is_empty());
    let mut failed = Vec::new();
    for name in names {
        let run = njs(&name);
        let text = [run.stdout, run.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        println!("{name}\n{text}");
        if !run.status.success() || !text.lines().any(|line| line.starts_with("ok ")) {
            failed.push(name);
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}
