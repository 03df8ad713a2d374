//! Many sessions at once, and subnets that run out.

use std::process::{Child, Stdio};
use std::time::Instant;

use crate::harness::{REPO, Sandbox, code, left_over, podman, text};

fn start(sandbox: &Sandbox, dir: &std::path::Path) -> Child {
    let mut command = sandbox.command(&["run", "--", "true"]);
    command.current_dir(dir).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Things that are created on first use, as after a login.
fn forget_first_uses(sandbox: &Sandbox) {
    let registry = std::path::PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR").unwrap()).join("sandboxc");
    for entry in std::fs::read_dir(registry).into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(b".made-") {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
    // It exists, unless this is the first test.
    let _ = std::fs::remove_file(sandbox.config_home().join("sandboxc/allowed-hosts"));
    for volume in podman(&["volume", "ls", "--format", "{{.Name}}"]).lines().filter(|name| name.contains("home")) {
        podman(&["volume", "rm", "--force", volume]);
    }
    for network in podman(&["network", "ls", "--format", "{{.Name}}"]).lines().filter(|name| name.contains("egress")) {
        podman(&["network", "rm", "--force", network]);
    }
}

/// All of them start for the first time at once, and none fails because another was faster.
#[test]
fn fifty_from_as_many_directories_and_ten_from_one_all_succeed() {
    let sandbox = Sandbox::alone();
    for (what, count, apart) in [("directories", 50, true), ("the same directory", 10, false)] {
        forget_first_uses(&sandbox);
        let begin = Instant::now();
        let children: Vec<Child> = (0..count)
            .map(|index| {
                let dir = if apart { sandbox.scratch(&format!("many-{index}")) } else { sandbox.repo() };
                std::fs::create_dir_all(dir.join(".sandboxc")).unwrap();
                std::fs::write(dir.join(".sandboxc/sandbox.yaml"), REPO).unwrap();
                start(&sandbox, &dir)
            })
            .collect();
        let outputs: Vec<_> = children.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
        println!("{count} at once from {what}: {:?}", begin.elapsed());
        let failed: Vec<_> = outputs.iter().filter(|output| code(output) != 0).map(|o| text(&o.stderr)).collect();
        assert!(failed.is_empty(), "{} of {count} failed: {failed:#?}", failed.len());
        assert_eq!(left_over(), [""; 0], "after {count} from {what}");
    }
}

#[test]
fn subnets_are_tried_until_one_is_free_and_an_empty_pool_names_gc() {
    let pool = "10.214.77.0/24";
    let server = format!("version: 1\nnetwork:\n  pool: {pool}\n  reachable: [203.0.113.0/24]\n");
    let sandbox = Sandbox::alone_with(REPO, &server);
    // Three quarters of a /24 are 24 networks of eight addresses.
    let name = |index: u32| format!("e2e-taken-{index}");
    let remove = |index: u32| podman(&["network", "rm", "--force", &name(index)]);
    for index in 0..24 {
        let subnet = format!("10.214.77.{}/29", index * 8);
        podman(&["network", "create", "--internal", "--disable-dns", "--subnet", &subnet, &name(index)]);
    }
    let full = sandbox.run(&["true"]);
    remove(13);
    let one = sandbox.run(&["cat", "/proc/net/route"]);
    (0..24).for_each(|index| drop(remove(index)));
    for network in podman(&["network", "ls", "--format", "{{.Name}} {{.Subnets}}"]).lines() {
        if let Some((egress, _)) = network.split_once(' ').filter(|(_, subnets)| subnets.contains("10.214.77.192")) {
            podman(&["network", "rm", egress]);
        }
    }
    assert_eq!(code(&full), 125);
    let said = text(&full.stderr);
    assert!(said.contains(pool) && said.contains("sandboxc gc") && said.lines().count() == 1, "{said}");
    assert_eq!(code(&one), 0, "{}", text(&one.stderr));
    assert!(text(&one.stdout).contains("684DD60A"), "the one that is free, 10.214.77.104: {}", text(&one.stdout));
    assert_eq!(left_over(), [""; 0]);
}
