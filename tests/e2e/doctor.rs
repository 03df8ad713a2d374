//! `doctor` on a host where everything but the limits holds (the test host delegates no controllers).

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
fn each_check_reports_its_level() {
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
        assert_eq!(level(&all, name), "ok", "{name}: {all:#?}");
    }
    assert_eq!(level(&all, "bare-repository"), "warn", "git has no such setting by default");
    let swapless = std::fs::read_to_string("/proc/meminfo").unwrap().contains("SwapTotal:             0 kB");
    assert_eq!(level(&all, "secrets-in-memory"), if swapless { "ok" } else { "warn" });
    let delegated = std::fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap().contains("memory");
    assert_eq!(level(&all, "controllers"), if delegated { "ok" } else { "fail" });
    assert_eq!(exit, i32::from(!delegated), "one failed check gives exit code 1");
    assert!(all.iter().filter(|check| check["level"] != "ok").all(|check| check["fix"].is_string()));
    assert_eq!(left_over(), [""; 0]);
    let words = text(&sandbox.command(&["doctor"]).output().unwrap().stdout);
    assert!(words.contains("ok    the internal network has no route out: ") && words.contains("fix: "), "{words}");
}

#[test]
fn broken_parts_of_a_host_fail() {
    let server = format!("{SERVER}  upstream_dns: [203.0.113.99]\n");
    let sandbox = Sandbox::alone_with(crate::harness::REPO, &server);
    let (_, all) = checks(&sandbox, &[("SANDBOXC_IMAGE", "localhost/not-there:1")]);
    assert_eq!((level(&all, "resolver"), level(&all, "agent-image")), ("fail", "fail"), "{all:#?}");
    let (_, all) =
        checks(&sandbox, &[("SANDBOXC_ROUTER_IMAGE", "localhost/not-there:1"), ("XDG_RUNTIME_DIR", "/gone")]);
    assert_eq!((level(&all, "router-image"), level(&all, "runtime-dir")), ("fail", "fail"));
    let (_, all) = checks(&sandbox, &[("PATH", "/nowhere")]);
    assert_eq!((level(&all, "podman"), level(&all, "internal-network")), ("fail", "fail"));
    assert_eq!(left_over(), [""; 0]);
}
