//! Images from repos, and sandboxc's own.

use crate::conversations::Remote;
use crate::harness::{SERVER, Sandbox, code, podman, router_image, text};

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
    let said = text(&before.stderr);
    assert!(said.contains("sandboxc image build agent") && said.contains("write `build: sandboxed` here"), "{said}");
    assert!(said.contains(".sandboxc/sandbox.yaml:2:24"), "{said}");
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

/// A repo whose image has never been built before, and its name. `image` is what the config says besides the file.
fn with_containerfile(image: &str, server: &str, lines: &str) -> Sandbox {
    let config = format!("version: 1\nimage: {{containerfile: Containerfile{image}}}\n");
    let sandbox = Sandbox::with(&config, server);
    write_containerfile(&sandbox, lines);
    sandbox
}

fn write_containerfile(sandbox: &Sandbox, lines: &str) {
    let text = format!("FROM localhost/sandboxc-base-agent:test\n# {}\n{lines}\n", sandbox.repo().display());
    std::fs::write(sandbox.repo().join(".sandboxc/Containerfile"), text).unwrap();
}

#[test]
fn a_start_builds_a_missing_image_once_with_the_files_beside_it_and_a_pipe_shows_nothing() {
    let sandbox =
        with_containerfile(", build: host", SERVER, "COPY . /context\nRUN cat /proc/sys/kernel/random/uuid >/id");
    let dir = sandbox.repo().join(".sandboxc");
    std::fs::create_dir_all(dir.join("nested/deep")).unwrap();
    std::fs::write(dir.join("nested/deep/tool"), "#!/bin/sh\necho from the tool\n").unwrap();
    let mode = |bits| std::os::unix::fs::PermissionsExt::from_mode(bits);
    std::fs::set_permissions(dir.join("nested/deep/tool"), mode(0o700)).unwrap();
    std::fs::write(dir.join("nested/left-out"), "x").unwrap();
    std::fs::write(dir.join(".containerignore"), "**/left-*\n").unwrap();
    let script =
        "/context/nested/deep/tool; cd /context; find . -type f | sort; stat -c %a nested/deep/tool nested; cat /id";
    let outputs: Vec<_> = std::thread::scope(|scope| {
        let start = || scope.spawn(|| sandbox.run(&["sh", "-c", script]));
        let all = [start(), start(), start()];
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    for output in &outputs {
        assert_eq!((code(output), text(&output.stderr).as_str()), (0, ""));
        assert_eq!(output.stdout, outputs[0].stdout, "one build");
    }
    let out = text(&outputs[0].stdout);
    let files = "./.containerignore\n./Containerfile\n./nested/deep/tool\n755\n755\n";
    assert!(out.starts_with(&format!("from the tool\n{files}")), "{out}");
    // A changed file is another image, and the same files are the first one again.
    std::fs::write(dir.join("nested/deep/tool"), "#!/bin/sh\necho changed\n").unwrap();
    assert_eq!(sandbox.sh("/context/nested/deep/tool"), "changed\n");
    std::fs::write(dir.join("nested/deep/tool"), "#!/bin/sh\necho from the tool\n").unwrap();
    assert_eq!(sandbox.sh(script), out);
}

#[test]
fn a_build_that_fails_ends_the_start_with_125_and_its_last_lines() {
    let sandbox =
        with_containerfile(", build: host", SERVER, "RUN expr 1000 + 234; seq 100; echo last words >&2; exit 3");
    let output = sandbox.run(&["true"]);
    let said = text(&output.stderr);
    assert_eq!(code(&output), 125);
    assert!(said.contains("building localhost/sandboxc-repo:") && said.contains("\n    last words\n"), "{said}");
    assert!(!said.contains("1234") && said.lines().count() < 25, "{said}");
    // On a terminal, everything is shown as it comes.
    let line = format!("script -qec '{} run -- true' /dev/null </dev/null", env!("CARGO_BIN_EXE_sandboxc"));
    let output = sandbox.in_shell(&line).output().unwrap();
    let shown = text(&output.stdout);
    assert!(shown.contains("is missing: building it") && shown.contains("1234"), "{shown}");
    assert!(!shown.contains("its last lines"), "{shown}");
}

#[test]
fn an_image_older_than_its_max_age_is_built_again_and_a_younger_one_is_not() {
    let sandbox = with_containerfile(", build: host", SERVER, "RUN cat /proc/sys/kernel/random/uuid >/id");
    let first = sandbox.sh("cat /id");
    let config = |image: &str| {
        let text = format!("version: 1\nimage: {{containerfile: Containerfile{image}}}\n");
        std::fs::write(sandbox.repo().join(".sandboxc/sandbox.yaml"), text).unwrap();
    };
    config(", build: host, max_age: 1h");
    assert_eq!(sandbox.sh("cat /id"), first);
    std::thread::sleep(std::time::Duration::from_secs(2));
    config(", max_age: 1s");
    let output = sandbox.run(&["cat", "/id"]);
    assert_eq!(code(&output), 125, "nobody has said how to build it");
    assert!(text(&output.stderr).contains("write `build: sandboxed` here"), "{}", text(&output.stderr));
    config(", build: host, max_age: 1s");
    assert_ne!(sandbox.sh("cat /id"), first);
}

#[test]
fn a_commits_containerfile_is_built_as_it_was_committed() {
    let sandbox = with_containerfile("", SERVER, "COPY setup /setup");
    std::fs::write(sandbox.repo().join(".sandboxc/setup"), "reviewed\n").unwrap();
    let commit = "git init -q -b main && git add . && git -c user.name=a -c user.email=a@b commit -q -m image";
    assert!(sandbox.in_shell(commit).status().unwrap().success());
    std::fs::write(sandbox.repo().join(".sandboxc/setup"), "a stranger's\n").unwrap();
    let output = sandbox.run_with(&["--config-from", "main", "--quiet"], &["cat", "/setup"]);
    assert_eq!((code(&output), text(&output.stdout).as_str()), (0, "reviewed\n"), "{}", text(&output.stderr));
    assert_eq!(code(&sandbox.run(&["cat", "/setup"])), 125, "that of the working tree has not been reviewed");
    let output = sandbox.command(&["image", "build", "agent"]).output().unwrap();
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    assert_eq!(sandbox.sh("cat /setup"), "a stranger's\n");
}

/// Steps, downloads of `ADD` and pulls all use the session's network. Each step says what it got; a refused one must not fail.
const STEPS: &str = r#"RUN curl -sS -o /dev/null -w 'allowed=%{http_code}\n' https://api.example.com/ >/said
RUN curl -sS -o /dev/null -w 'get=%{http_code}\n' https://static.example.com/x >>/said
RUN curl -sS -o /dev/null -w 'post=%{http_code}\n' -X POST https://static.example.com/x >>/said
RUN python3 -c 'import urllib.request as u; print("python=%d" % u.urlopen("https://static.example.com/x").status)' >>/said
RUN curl -sS -m 5 https://denied.example.com/ && echo reached >>/said || true
RUN for to in 169.254.1.2:8888 192.0.2.2:8888 203.0.113.12:80 127.0.0.1:8888; do curl -sS -m 3 http://$to/ >/dev/null 2>&1 && echo $to; done >>/said; true
RUN --network=host curl -sS -m 5 http://203.0.113.12/ >/dev/null 2>&1 && echo host >>/said || true
RUN cat /etc/hosts /etc/resolv.conf >/names; env >/variables; ls -A /etc/sandboxc-ca >/trusted
ADD https://api.example.com/bytes/5 /added
"#;

const SANDBOXED: &str = "version: 1
image: {containerfile: Containerfile, build: sandboxed}
network:
  allow:
    - api.example.com
    - {host: static.example.com, methods: [GET]}
";

const WITH_CA: &str = "version: 1\nnetwork:\n  reachable: [203.0.113.0/24]\n  extra_ca: /srv/internet/ca.pem\n";

#[test]
fn a_sandboxed_build_reaches_what_the_command_may_reach_and_nothing_else() {
    let sandbox = Sandbox::with(SANDBOXED, WITH_CA);
    write_containerfile(&sandbox, STEPS);
    let output = sandbox.run(&["sh", "-c", "cat /said; stat -c %s /added; cat /names; sort /variables; env | sort"]);
    let out = text(&output.stdout);
    assert_eq!((code(&output), text(&output.stderr).as_str()), (0, ""), "{out}");
    assert!(out.starts_with("allowed=200\nget=200\npost=403\npython=200\n5\n127.0.0.1\tlocalhost\n"), "{out}");
    assert!(!out.contains("testhost"), "the host's own names: {out}");
    // The certificates were there, and nothing of them is in the image.
    let image = format!("localhost/sandboxc-repo:{}", tag_of(&sandbox));
    let config = podman(&["image", "inspect", "--format", "{{.Config.Env}}", &image]);
    assert!(
        out.contains("SSL_CERT_FILE=/etc/sandboxc-ca/ca-certificates.crt") && !config.contains("sandboxc"),
        "{config}"
    );
    let kept = podman(&["run", "--rm", "--network=none", &image, "sh", "-c", "cat /trusted; ls -A /etc/sandboxc-ca"]);
    assert!(
        kept.starts_with("added-ca.pem\n") && kept.ends_with("wgetrc\n") && kept.matches("wgetrc").count() == 1,
        "{kept}"
    );
    podman(&["rmi", &image]);
}

/// The hash in the name of the image that a repo's config gives.
fn tag_of(sandbox: &Sandbox) -> String {
    let compiled = sandbox.command(&["compile", "--", "true"]).output().unwrap();
    let out = text(&compiled.stdout);
    out.split("localhost/sandboxc-repo:").nth(1).unwrap_or_else(|| panic!("{out}"))[..12].to_owned()
}

#[test]
fn what_a_sandboxed_build_is_refused_fails_and_is_said() {
    for step in ["ADD https://denied.example.com/ /x", "RUN curl -sS https://denied.example.com/"] {
        let sandbox = Sandbox::with(SANDBOXED, WITH_CA);
        write_containerfile(&sandbox, step);
        let output = sandbox.run(&["true"]);
        let said = text(&output.stderr);
        assert_eq!(code(&output), 125, "{step}: {said}");
        assert!(said.contains("its last lines") && said.contains("denied.example.com"), "{step}: {said}");
    }
    // Nor can a base image come from a registry that is not allowed. This one exists nowhere.
    let sandbox = Sandbox::with(SANDBOXED, WITH_CA);
    std::fs::write(sandbox.repo().join(".sandboxc/Containerfile"), "FROM denied.example.com/base:1\n").unwrap();
    let said = text(&sandbox.run(&["true"]).stderr);
    assert!(said.contains("building localhost/sandboxc-repo:") && said.contains("no such host"), "{said}");
}

#[test]
fn the_server_can_require_sandboxed_builds_of_those_who_type_them_too() {
    let server = format!("{WITH_CA}defaults: {{image_build: sandboxed}}\n");
    let sandbox = with_containerfile(", build: host", &server, "RUN ! curl -sS -m 5 https://www.example.com/");
    let output = sandbox.command(&["image", "build", "agent"]).output().unwrap();
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    assert_eq!(sandbox.sh("echo runs"), "runs\n");
    // The twin: on the host's network, the same step fails.
    let sandbox = with_containerfile(", build: host", WITH_CA, "RUN ! curl -sS -m 5 https://www.example.com/");
    assert_eq!(code(&sandbox.run(&["true"])), 125);
}

#[test]
fn a_signal_ends_a_build_with_its_steps_and_leaves_nothing() {
    for (network, signal) in [("host", "TERM"), ("sandboxed", "TERM"), ("sandboxed", "KILL")] {
        let seconds = 10_000 + std::process::id() % 5_000;
        let step = format!("RUN echo begun; sleep {seconds}");
        let sandbox = with_containerfile(&format!(", build: {network}"), WITH_CA, &step);
        let mut child = sandbox.command(&["run", "--", "true"]).spawn().unwrap();
        let sleeps = || {
            let all = std::process::Command::new("pgrep").args(["-f", &format!("^sleep {seconds}$")]).output().unwrap();
            !all.stdout.is_empty()
        };
        let wait = |wanted: bool| {
            (0..600).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(100));
                sleeps() == wanted
            })
        };
        assert!(wait(true), "{network}: the step does not run");
        let pid = child.id().to_string();
        assert!(std::process::Command::new("kill").args([&format!("-{signal}"), &pid]).status().unwrap().success());
        let ended = child.wait().unwrap();
        assert_eq!(ended.code(), (signal == "TERM").then_some(143), "{network}");
        if signal == "KILL" {
            let swept = sandbox.command(&["gc"]).output().unwrap();
            assert_eq!(code(&swept), 0, "{}", text(&swept.stderr));
        }
        assert!(wait(false), "{network}: the step still runs");
    }
}

#[test]
fn a_conversation_builds_the_image_of_its_branch_whatever_its_agent_writes() {
    let remote = Remote::with("", "version: 1\nimage: {containerfile: Containerfile}\n");
    let file =
        format!("FROM localhost/sandboxc-base-agent:test\n# {}\nCOPY from /from\n", remote.sandbox.repo().display());
    remote.push(&[(".sandboxc/Containerfile", &file), (".sandboxc/from", "reviewed\n")]);
    let output = remote.run("new", "cat /from; rm -rf .sandboxc; git -C . rev-parse HEAD >/dev/null");
    assert_eq!((code(&output), text(&output.stdout).as_str()), (0, "reviewed\n"), "{}", text(&output.stderr));
    let listed = remote.output(&["image", "ls", "--json"]);
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert!(listed["images"].as_array().unwrap().iter().any(|image| image["repo"] == "widgets"), "{listed}");
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
