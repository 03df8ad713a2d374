//! Units that build the repo's image, with the real user manager.

use std::fs;

use crate::harness::{Sandbox, code, podman, text, unique};
use crate::quadlet_live::{Installed, SERVER, journal, property, systemctl};

const REPO: &str = "version: 1\nimage: {containerfile: Containerfile}\ncommand: [sh, -c, \"cp /marker marker\"]\n";

/// A repo with an image that has never been built before.
fn sandbox(run: &str) -> Sandbox {
    let sandbox = Sandbox::with(REPO, SERVER);
    write(&sandbox, &format!("FROM localhost/sandboxc-base-agent:test\n# {}\nRUN {run}\n", unique()));
    sandbox
}

fn write(sandbox: &Sandbox, text: &str) {
    fs::write(sandbox.repo().join(".sandboxc/Containerfile"), text).unwrap();
}

fn build_of(installed: &Installed) -> String {
    installed.part("image-build")
}

/// The tag that the installed units use.
fn tag(installed: &Installed) -> String {
    let files = fs::read_dir(installed.place()).unwrap().map(|entry| entry.unwrap().path());
    let build = files.into_iter().find(|path| path.extension().is_some_and(|kind| kind == "build")).unwrap();
    let text = fs::read_to_string(build).unwrap();
    text.lines().find_map(|line| line.strip_prefix("ImageTag=")).unwrap().to_owned()
}

fn gone(installed: &Installed) {
    assert!(installed.gone(), "left: {}", installed.left());
}

#[test]
fn a_start_builds_what_was_reviewed_once_and_then_never_again() {
    let installed = Installed::of("q-build", sandbox("echo reviewed >/marker"));
    let (tag, marker) = (tag(&installed), installed.sandbox.repo().join("marker"));
    let said = installed.install();
    assert!(text(&said.stderr).contains("the first start builds it"), "{}", text(&said.stderr));
    // The workspace has changed since the units were compiled.
    write(&installed.sandbox, "FROM localhost/sandboxc-base-agent:test\nRUN echo changed >/marker\n");
    let output = installed.run();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(fs::read_to_string(&marker).unwrap(), "reviewed\n");
    assert_eq!(property(&build_of(&installed), "Result"), "success");
    gone(&installed);

    let id = podman(&["image", "inspect", "--format", "{{.Id}}", &tag]);
    fs::remove_file(&marker).unwrap();
    let output = installed.run();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(marker.exists());
    let said = journal(&build_of(&installed));
    assert_eq!(said.matches("STEP 1/2").count(), 1, "built again: {said}");
    assert_eq!(podman(&["image", "inspect", "--format", "{{.Id}}", &tag]), id);
    gone(&installed);
    podman(&["image", "rm", &tag]);
}

#[test]
fn an_image_that_image_build_made_is_the_same_one_and_needs_no_build() {
    let sandbox = sandbox("echo by-hand >/marker");
    let output = sandbox.command(&["image", "build", "agent"]).output().unwrap();
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let installed = Installed::of("q-built", sandbox);
    assert!(!text(&installed.install().stderr).contains("first start"));
    assert!(installed.run().status.success());
    let said = journal(&build_of(&installed));
    assert!(!said.contains("STEP") && said.contains("Image of the sandbox"), "{said}");
    assert_eq!(fs::read_to_string(installed.sandbox.repo().join("marker")).unwrap(), "by-hand\n");
    gone(&installed);
    podman(&["image", "rm", &tag(&installed)]);
}

#[test]
fn a_build_that_fails_starts_nothing() {
    let installed = Installed::of("q-broken", sandbox("exit 3"));
    assert!(!installed.run().status.success());
    assert_eq!(property(&build_of(&installed), "Result"), "exit-code");
    assert!(!installed.sandbox.repo().join("marker").exists());
    gone(&installed);
    assert!(!systemctl(&["is-active", &installed.agent]).status.success());
}

/// The network has no such registry, so asking it would fail.
#[test]
fn an_image_of_a_registry_that_is_here_is_not_asked_for() {
    let image = format!("registry.example.com/{}:1", unique());
    podman(&["tag", "localhost/sandboxc-base-agent:test", &image]);
    let config = format!("version: 1\nimage: {image}\ncommand: [touch, started]\n");
    let installed = Installed::new("q-registry", &config);
    let output = installed.run();
    podman(&["untag", "localhost/sandboxc-base-agent:test", &image]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(installed.sandbox.repo().join("started").exists());
    gone(&installed);
    // Without the image, the registry is asked, and nothing starts.
    fs::remove_file(installed.sandbox.repo().join("started")).unwrap();
    assert!(!installed.run().status.success());
    assert!(!installed.sandbox.repo().join("started").exists());
    gone(&installed);
}
