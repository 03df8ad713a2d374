//! Completions and manual pages.

use assert_cmd::Command;

use super::*;

#[test]
fn every_command_has_a_manual_page_and_every_shell_completions() {
    let dir = tempfile::tempdir().unwrap();
    let man = dir.path().join("man");
    Command::cargo_bin("sandboxc").unwrap().arg("man").arg(&man).assert().success();
    for page in ["sandboxc.1", "sandboxc-run.1", "sandboxc-image-build.1"] {
        let text = fs::read_to_string(man.join(page)).unwrap();
        assert!(text.contains(".SH NAME") && text.contains(".SH SYNOPSIS"), "{page}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let output = Command::cargo_bin("sandboxc").unwrap().args(["completions", shell]).output().unwrap();
        assert!(output.status.success());
        assert!(String::from_utf8(output.stdout).unwrap().contains("network-log"), "{shell}");
    }
}
