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

#[test]
fn images_are_listed_with_their_repos_and_pruned_if_nothing_uses_them_and_they_are_ours() {
    let sandbox = Sandbox::alone_with("version: 1\nimage: {containerfile: Containerfile}\n", "version: 1\n");
    let file = sandbox.repo().join(".sandboxc/Containerfile");
    let write = |marker: &str| {
        let unique = sandbox.repo().display().to_string();
        std::fs::write(&file, format!("ARG BASE\nFROM ${{BASE}}\n# {unique} {marker}\n")).unwrap();
        let args = ["image", "build", "agent", "--base", "localhost/sandboxc-base-agent:test"];
        assert_eq!(code(&sandbox.command(&args).output().unwrap()), 0);
    };
    let images = |args: &[&str]| -> serde_json::Value {
        let output = sandbox.command(&[&["image"], args, &["--json"]].concat()).output().unwrap();
        assert_eq!(code(&output), 0, "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let own = |list: &serde_json::Value| -> Vec<String> {
        let repo = sandbox.repo();
        let all = list.as_array().unwrap().iter().filter(|image| image["repo"].as_str() == repo.to_str());
        all.map(|image| image["names"][0].as_str().unwrap().to_owned()).collect()
    };
    write("one");
    write("two");
    let listed = own(&images(&["ls"])["images"]);
    assert_eq!(listed.len(), 2, "{listed:?}");
    let human = text(&sandbox.command(&["image", "ls"]).output().unwrap().stdout);
    assert!(human.contains(&listed[0]) && human.contains(sandbox.repo().to_str().unwrap()), "{human}");

    // Somebody else's name keeps the first one, a container the second one.
    podman(&["tag", &listed[1], "localhost/somebody-elses:1"]);
    podman(&["create", "--name", "sandboxc-test-uses-image", &listed[0], "true"]);
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert_eq!(own(&images(&["prune", "--older", "1s"])["removed"]), [""; 0]);
    podman(&["rmi", "localhost/somebody-elses:1"]);
    podman(&["rm", "sandboxc-test-uses-image"]);

    // The default age keeps both, and a dry run removes nothing.
    assert_eq!(own(&images(&["prune"])["removed"]), [""; 0]);
    let mut would = own(&images(&["prune", "--older", "1s", "--dry-run"])["removed"]);
    would.sort();
    let mut all = listed.clone();
    all.sort();
    assert_eq!(would, all);
    assert_eq!(own(&images(&["ls"])["images"]).len(), 2);
    let removed = images(&["prune", "--older", "1s"]);
    assert_eq!(own(&removed["removed"]).len(), 2, "{removed}");
    assert_eq!(own(&images(&["ls"])["images"]), [""; 0]);
    // What the next start needs is still there.
    assert_eq!(podman(&["image", "exists", &router_image()]), "");
    assert!(text(&sandbox.command(&["image", "ls"]).output().unwrap().stdout).contains("localhost/sandboxc-agent:"));
}
