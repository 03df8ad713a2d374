//! Who the agent is to programs that look users up, and how much shared memory it has: by each way of starting it.

use std::fs;

use crate::compile::{compile, sh};
use crate::harness::{REPO, SERVER, Sandbox, code, text};
use crate::quadlet_live::{Installed, journal};

/// Everything that says who somebody is, and the size of `/dev/shm`.
const LOOK: &str = "{ getent passwd 1000; getent group 1000; id -un; id -gn; id -G; echo ~agent $HOME; getent passwd 0 | cut -d: -f1; \
                    df --output=size -B1 /dev/shm | tail -n 1; } >said";

const EXPECTED: [&str; 8] = [
    "agent:x:1000:1000:agent:/home/agent:/bin/sh",
    "agent:x:1000:",
    "agent",
    "agent",
    "1000",
    "/home/agent /home/agent",
    "root",
    "134217728",
];

fn said(sandbox: &Sandbox) -> Vec<String> {
    let path = sandbox.repo().join("said");
    let lines = fs::read_to_string(&path).unwrap().lines().map(str::trim).map(str::to_owned).collect();
    fs::remove_file(path).unwrap();
    lines
}

#[test]
fn the_agent_has_a_name_of_its_own_a_home_and_its_shared_memory() {
    let repo = format!("{REPO}shm_size: 128m\ncommand: [sh, -c, {LOOK:?}]\n");
    let sandbox = Sandbox::with(&repo, SERVER);
    sandbox.sh(LOOK);
    assert_eq!(said(&sandbox), EXPECTED, "run");
    let ran = sh("sh -s", &compile(&sandbox, &["--target", "script"]));
    assert_eq!(code(&ran), 0, "{}", text(&ran.stderr));
    assert_eq!(said(&sandbox), EXPECTED, "script");
    let installed = Installed::of("q-account", sandbox);
    assert_eq!(code(&installed.run()), 0, "{}", journal(&installed.agent));
    assert_eq!(said(&installed.sandbox), EXPECTED, "units");
}

/// The twin: root adds users, as packages do, to the image's own.
#[test]
fn root_keeps_the_users_of_the_image_and_adds_to_them() {
    let sandbox = Sandbox::with(&format!("{REPO}identity: root\n"), SERVER);
    let said = sandbox.sh(
        "useradd --system somebody && getent passwd somebody | cut -d: -f1; getent passwd 0 | cut -d: -f6; getent passwd 42 | cut -d: -f1; \
         df --output=size -B1 /dev/shm | tail -n 1",
    );
    let lines: Vec<&str> = said.lines().map(str::trim).collect();
    assert_eq!(lines, ["somebody", "/root", "_apt", "65536000"]);
    let host = text(&std::process::Command::new("id").arg("-un").output().unwrap().stdout);
    let all = sandbox.sh("cut -d: -f1 /etc/passwd /etc/group");
    assert!(!all.lines().any(|name| name == host.trim()), "{host}: {all}");
}
