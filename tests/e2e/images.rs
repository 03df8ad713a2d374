//! Images from repos, and sandboxc's own.

use crate::harness::{Sandbox, code, text};

#[test]
fn a_repos_containerfile_is_built_and_runs_and_a_changed_one_is_another_image() {
    let sandbox = Sandbox::new();
    let config = "version: 1\nimage: {containerfile: Containerfile}\n";
    std::fs::write(sandbox.repo().join(".sandboxc/sandbox.yaml"), config).unwrap();
    let file = sandbox.repo().join(".sandboxc/Containerfile");
    // Images stay in the storage of the test host, so this run uses new ones.
    let unique = sandbox.repo().display().to_string();
    let write = |marker: &str| {
        std::fs::write(&file, format!("ARG BASE\nFROM ${{BASE}}\n# {unique}\nRUN echo {marker} > /marker\n")).unwrap();
    };
    write("one");
    let before = sandbox.run(&["cat", "/marker"]);
    assert_eq!(code(&before), 125);
    assert!(text(&before.stderr).contains("sandboxc image build agent"), "{}", text(&before.stderr));
    let build = |sandbox: &Sandbox| {
        let args = ["image", "build", "agent", "--base", "localhost/sandboxc-base-agent:test"];
        let output = sandbox.command(&args).output().unwrap();
        assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    };
    build(&sandbox);
    assert_eq!(sandbox.sh("cat /marker"), "one\n");
    write("two");
    assert_eq!(code(&sandbox.run(&["cat", "/marker"])), 125, "the old image must not serve a changed file");
}
