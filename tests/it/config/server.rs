//! The server file and how it caps the repo.

use super::*;

const REPO: &str = r#"# repo
version: 1
image: {containerfile: Containerfile}        # or: image: docker.io/library/debian:trixie-slim
command: [claude]
identity: host-user                          # or root
workspace: {target: same-path, read_only: false}
env: {CI: "1"}
mounts: [{source: ../data, target: /data, read_only: true}]
network:
  allow:
    - api.anthropic.com                      # this host, ports 80 and 443
    - .githubusercontent.com                 # the apex and every subdomain
    - "*.docker.io"                          # subdomains only
    - db.example.com:5432                    # this exact host, TCP 5432 too
resource_limits: {timeout: 6000, memory: "4g", cpus: 2, pids_limit: 256}
"#;

const SERVER: &str = r"# server
version: 1
vars: {mem: 6g}
network: {allow: [], deny: [], ceiling: null, upstream_dns: [], reachable: [], allow_file: allowed-hosts, extra_ca: null}
defaults: {resource_limits: {memory: !var mem}}     # the same keys as a repo entry, for every sandbox
repos:
  widgets:
    path: @W
    repo_url: https://github.com/acme/widgets.git
    network: {sandbox_enabled: true}
    resource_limits: {timeout: 3600, memory: !var mem, cpus: 1.5, pids_limit: 512}
    secrets: {}
    masked_secrets: {}
    signing_credentials: {}
    github_app_credentials: {}
";

fn example() -> World {
    let world = World::new();
    world.repo(REPO).write("w/.sandboxc/Containerfile", "FROM x\n").write("w/data/x", "");
    world.server(&SERVER.replace("@W", world.inputs.repo_dir.to_str().unwrap()));
    world
}

#[test]
fn the_example_of_the_design_resolves() {
    let world = example();
    let resolved = world.resolved();
    assert_eq!(world.codes(), [Code::ApexNotIncluded, Code::Clamped, Code::Clamped]);
    assert_eq!(resolved.name.as_deref(), Some("widgets"));
    let limits = &resolved.limits;
    assert_eq!(limits.timeout.as_ref().unwrap().value, 3600);
    assert_eq!(limits.timeout.as_ref().unwrap().from.short(), "server.yaml:11");
    assert_eq!(limits.memory.as_ref().unwrap().value, 4 << 30);
    assert_eq!(limits.cpus.as_ref().unwrap().value, 1500);
    assert_eq!(limits.pids.as_ref().unwrap().from.short(), ".sandboxc/sandbox.yaml:15");
    assert_eq!(resolved.mounts[0].source, world.root().join("w/data"));
    assert_eq!(resolved.policy.allow.rules().len(), 4);
    assert_eq!(resolved.image.value.reference(), "localhost/sandboxc-repo:5e50475e952e");
}
