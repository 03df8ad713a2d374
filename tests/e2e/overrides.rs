//! Overrides from the environment, images of every kind, the disabled network sandbox, and what is refused.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::harness::{REPO, SERVER, Sandbox, code, podman, router_image, text, unique};

/// A name for something that a test creates in podman's storage; removed when dropped.
struct Made(&'static [&'static str], String);

impl Drop for Made {
    fn drop(&mut self) {
        podman(&[self.0, &[&self.1]].concat());
    }
}

/// Builds an image from a Containerfile and a directory.
fn build(containerfile: &str, context: &str) -> Made {
    let tag = format!("localhost/e2e:{}", unique());
    let mut child = Command::new("podman")
        .args(["build", "--quiet", "--pull=never", "--tag", &tag, "--file", "-", context])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(containerfile.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    Made(&["rmi", "--force"], tag)
}

// R-121
#[test]
fn an_image_without_any_tool_works() {
    // A single static program: podman's own init. No shell, no /etc, no libc.
    let sandbox = Sandbox::new();
    let context = sandbox.scratch("context");
    fs::create_dir(&context).unwrap();
    fs::copy("/usr/libexec/podman/catatonit", context.join("only")).unwrap();
    let image = build("FROM scratch\nCOPY only /only\n", context.to_str().unwrap());
    let run = |command: &[&str]| {
        let args = [&["run", "--"], command].concat();
        sandbox.command(&args).env("SANDBOXC_IMAGE", &image.1).output().unwrap()
    };
    let output = run(&["/only", "--version"]);
    assert!(code(&output) == 0 && text(&output.stdout).contains("catatonit"), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("SANDBOXC_IMAGE"), "the override is said: {}", text(&output.stderr));
    // Its own exit code, and that of a missing command.
    assert_eq!(code(&run(&["/only", "--", "/nowhere"])), 1);
    assert_eq!(code(&run(&["sh"])), 127);
}

#[test]
fn an_image_of_another_user_and_entrypoint_changes_nothing() {
    let sandbox = Sandbox::new();
    let image = build(
        "FROM localhost/sandboxc-base-agent:test\nUSER 33:33\nENTRYPOINT [\"/bin/false\"]\nWORKDIR /usr\nENV FROM_IMAGE=1\n",
        sandbox.config_home().to_str().unwrap(),
    );
    let output = sandbox
        .command(&["run", "--", "sh", "-c", "id -u; pwd; echo $FROM_IMAGE; grep CapEff /proc/self/status"])
        .env("SANDBOXC_IMAGE", &image.1)
        .output()
        .unwrap();
    let expected = format!("1000\n{}\n1\nCapEff:\t0000000000000000\n", sandbox.repo().display());
    assert_eq!(text(&output.stdout), expected, "{}", text(&output.stderr));
}

#[test]
fn the_environment_overrides_router_image_allowlist_and_home() {
    let (router, home) = (format!("localhost/e2e-router:{}", unique()), unique());
    let sandbox = Sandbox::with("version: 1\n", SERVER);
    podman(&["tag", &router_image(), &router]);
    let _made = [Made(&["rmi"], router.clone()), Made(&["volume", "rm", "--force"], home.clone())];
    let list = sandbox.scratch("my-hosts");
    fs::write(&list, "# mine\nstatic.example.com\n").unwrap();
    let script = format!(
        "for h in static.example.com api.example.com; do curl -s -o /dev/null --max-time 10 https://$h/; echo $?; done; ls ~; touch ~/{home}"
    );
    let run = || {
        let mut command = sandbox.command(&["run", "--", "sh", "-c", &script]);
        command
            .env("SANDBOXC_ROUTER_IMAGE", &router)
            .env("SANDBOXC_ALLOWLIST", &list)
            .env("SANDBOXC_HOME_VOLUME", &home);
        command.output().unwrap()
    };
    let first = run();
    assert_eq!(text(&first.stdout), "0\n6\n", "{}", text(&first.stderr));
    assert_eq!(text(&run().stdout), format!("0\n6\n{home}\n"), "the volume stays");
    for name in ["SANDBOXC_ROUTER_IMAGE", "SANDBOXC_ALLOWLIST", "SANDBOXC_HOME_VOLUME"] {
        assert!(text(&first.stderr).contains(name), "{name} is said: {}", text(&first.stderr));
    }
    let compiled = sandbox
        .command(&["compile", "--", "true"])
        .env("SANDBOXC_ROUTER_IMAGE", &router)
        .env("SANDBOXC_HOME_VOLUME", &home)
        .output()
        .unwrap();
    let manifest = text(&compiled.stdout);
    assert!(
        manifest.contains(&format!("image: {router}")) && manifest.contains(&format!("claimName: {home}")),
        "{manifest}"
    );
    // Without them, the packaged list and the usual home are used.
    assert_eq!(
        sandbox.sh(&format!("curl -s --max-time 10 https://static.example.com/; echo $?; ls ~/{home} 2>&1 | wc -l")),
        "6\n1\n"
    );
}

#[test]
fn the_break_glass_works_and_says_so_at_every_start() {
    let sandbox = Sandbox::with(
        "version: 1\ncommand: [sh, -c]\n",
        &format!("{SERVER}defaults: {{network: {{sandbox_enabled: false}}}}\n"),
    );
    let script = "curl -sS http://www.example.com/x; curl -sS --max-time 10 https://203.0.113.10/ -k | head -c 1; echo; ls -d /run/user /root/.ssh 2>/dev/null; id -u";
    for args in [&["run", "--", "sh", "-c", script][..], &["run", "--", "sh", "-c", script], &["agent", script]] {
        let output = sandbox.command(args).output().unwrap();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(out.contains("www.example.com") && out.ends_with("{\n1000\n"), "{args:?}: {out} {err}");
        assert!(err.contains("THE NETWORK SANDBOX IS OFF"), "{args:?}: {err}");
    }
    // With the network sandbox, there is no such message.
    let output = Sandbox::new().run(&["true"]);
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn it_refuses_the_home_its_parents_and_directories_that_hold_its_own_config() {
    let sandbox = Sandbox::new();
    let home = std::path::PathBuf::from(std::env::var("HOME").unwrap());
    let list = sandbox.repo().join("hosts-here");
    fs::write(&list, "api.example.com\n").unwrap();
    let root = sandbox.config_home().parent().unwrap().to_path_buf();
    let cases = [
        (home.clone(), None),
        (home.parent().unwrap().to_path_buf(), None),
        ("/".into(), None),
        (root, None),
        (sandbox.config_home().join("sandboxc"), None),
        (sandbox.repo(), Some(&list)),
    ];
    for (dir, allowlist) in cases {
        let mut command = sandbox.command(&["run", "--", "true"]);
        command.current_dir(&dir).envs(allowlist.map(|list| ("SANDBOXC_ALLOWLIST", list)));
        let output = command.output().unwrap();
        assert_eq!(code(&output), 2, "{}: {}", dir.display(), text(&output.stderr));
        assert!(text(&output.stderr).contains("workspace-refused"), "{}: {}", dir.display(), text(&output.stderr));
    }
    assert_eq!(sandbox.sh("echo works"), "works\n");
    // Also through a link, and with --repo.
    let link = sandbox.scratch("link");
    std::os::unix::fs::symlink(&home, &link).unwrap();
    let output = sandbox.command(&["run", "--repo", link.to_str().unwrap(), "--", "true"]).output().unwrap();
    assert_eq!(code(&output), 2, "{}", text(&output.stderr));
}

// R-102
#[test]
fn a_taken_pool_is_an_error_that_says_what_to_do() {
    let network = unique();
    podman(&["network", "create", "--internal", "--disable-dns", "--subnet", "10.87.9.0/24", &network]);
    let _made = Made(&["network", "rm", "--force"], network);
    let sandbox = Sandbox::with(REPO, &format!("{SERVER}  pool: 10.87.9.0/24\n"));
    let output = sandbox.run(&["true"]);
    let stderr = text(&output.stderr);
    assert!(code(&output) == 125 && stderr.contains("network.pool") && stderr.trim().lines().count() == 1, "{stderr}");
    // Another block works.
    let twin = Sandbox::with(REPO, &format!("{SERVER}  pool: 10.87.10.0/24\n"));
    let seen = twin.probe(r#"show([ROUTER.rsplit(".", 1)[0], sni("api.example.com")])"#);
    assert_eq!(seen, json!(["10.87.10", "handshake"]));
}
