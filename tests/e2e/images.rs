//! Images from repos, and sandboxc's own.

use crate::harness::{Sandbox, code, podman, router_image, text};

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

#[test]
fn the_routers_image_is_loaded_where_it_is_missing_and_is_the_program_alone() {
    let sandbox = Sandbox::alone();
    let image = router_image();
    assert_eq!(sandbox.sh("echo once"), "once\n");
    podman(&["rmi", "--force", &image]);
    assert_eq!(podman(&["images", "--quiet", &image]), "", "it is gone");
    assert_eq!(sandbox.sh("curl -sS -o /dev/null -w '%{http_code}' https://api.example.com/"), "200");
    let history = podman(&["image", "inspect", "--format", "{{len .RootFS.Layers}} {{.Config.Entrypoint}}", &image]);
    assert_eq!(history.trim(), "1 [/sandboxc-router]");
    let compiled = sandbox.command(&["compile", "--", "true"]).output().unwrap();
    assert!(text(&compiled.stdout).contains(&format!("image: {image}\n")), "its hash is in the manifest");
    // What is saved is what is loaded.
    let saved = sandbox.command(&["image", "save", "router"]).output().unwrap();
    let again = sandbox.command(&["image", "save", "router"]).output().unwrap();
    assert!(saved.status.success() && saved.stdout.len() > 1 << 20 && saved.stdout == again.stdout);
    assert!(text(&saved.stderr).contains(&image), "{}", text(&saved.stderr));
}
