//! `doctor` on a host that keeps every promise but the limits (no controller is delegated in the test host).

use serde_json::Value;

use crate::harness::{SERVER, Sandbox, code, left_over, text};

fn checks(sandbox: &Sandbox, env: &[(&str, &str)]) -> (i32, Vec<Value>) {
    let output = sandbox.command(&["doctor", "--json"]).envs(env.iter().copied()).output().unwrap();
    let value: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)));
    assert_eq!(value["ok"], code(&output) == 0);
    (code(&output), value["checks"].as_array().unwrap().clone())
}

fn level<'a>(checks: &'a [Value], name: &str) -> &'a str {
    let check = checks.iter().find(|check| check["check"] == name).unwrap_or_else(|| panic!("{name}: {checks:#?}"));
    check["level"].as_str().unwrap()
}

#[test]
fn what_this_host_keeps_and_what_it_does_not() {
    let sandbox = Sandbox::alone();
    let start = std::time::Instant::now();
    let (exit, all) = checks(&sandbox, &[]);
    println!("doctor: {:?}", start.elapsed());
    for name in [
        "podman",
        "rootless",
        "cgroup",
        "subids",
        "network-backend",
        "seccomp",
        "runtime-dir",
        "runtime-room",
        "swap",
        "linger",
        "clock",
        "router-image",
        "agent-image",
        "internal-network",
        "resolver",
    ] {
        assert_eq!(level(&all, name), "kept", "{name}: {all:#?}");
    }
    assert_eq!(level(&all, "bare-repository"), "warning", "git says nothing of it by itself");
    let swapless = std::fs::read_to_string("/proc/meminfo").unwrap().contains("SwapTotal:             0 kB");
    assert_eq!(level(&all, "secrets-in-memory"), if swapless { "kept" } else { "warning" });
    let delegated = std::fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap().contains("memory");
    assert_eq!(level(&all, "controllers"), if delegated { "kept" } else { "broken" });
    assert_eq!(exit, i32::from(!delegated), "one broken promise is exit code 1");
    assert!(all.iter().filter(|check| check["level"] != "kept").all(|check| check["mend"].is_string()));
    assert_eq!(left_over(), [""; 0]);
    let words = text(&sandbox.command(&["doctor"]).output().unwrap().stdout);
    assert!(words.contains("kept  an internal network has no way out: tried") && words.contains("mend: "), "{words}");
}

#[test]
fn what_is_broken_is_found_by_trying() {
    let server = format!("{SERVER}  upstream_dns: [203.0.113.99]\n");
    let sandbox = Sandbox::alone_with(crate::harness::REPO, &server);
    let (_, all) = checks(&sandbox, &[("SANDBOXC_IMAGE", "localhost/not-there:1")]);
    assert_eq!((level(&all, "resolver"), level(&all, "agent-image")), ("broken", "broken"), "{all:#?}");
    let (_, all) =
        checks(&sandbox, &[("SANDBOXC_ROUTER_IMAGE", "localhost/not-there:1"), ("XDG_RUNTIME_DIR", "/gone")]);
    assert_eq!((level(&all, "router-image"), level(&all, "runtime-dir")), ("broken", "broken"));
    let (_, all) = checks(&sandbox, &[("PATH", "/nowhere")]);
    assert_eq!((level(&all, "podman"), level(&all, "internal-network")), ("broken", "broken"));
    assert_eq!(left_over(), [""; 0]);
}
