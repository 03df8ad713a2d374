//! The server file, and how it limits the repo.

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
    - host: api.github.com                   # inspected: rules on requests
      methods: [GET]
      paths: [/repos/acme/**]
    - github.com
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
    secrets: {NPM_CONFIG_LOGLEVEL: warn}
    masked_secrets: {GH_TOKEN: {value: !env GH_TOKEN, scopes: [api.github.com, github.com], headers: [authorization]}}
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
    assert_eq!(limits.pids.as_ref().unwrap().from.short(), ".sandboxc/sandbox.yaml:19");
    assert_eq!(resolved.mounts[0].source, world.root().join("w/data"));
    assert_eq!(resolved.policy.allow.rules().len(), 6);
    assert_eq!(resolved.policy.credentials[0].from.short(), "server.yaml:13");
    assert_eq!(resolved.secrets.iter().count(), 2);
    assert_eq!(resolved.image.value.reference(), "localhost/sandboxc-repo:41af94129704");
}

/// A result without places, which contain line numbers.
fn without_places(resolved: &Resolved) -> serde_json::Value {
    fn strip(value: &mut serde_json::Value) {
        match value {
            serde_json::Value::Object(map) => {
                map.remove("from");
                map.values_mut().for_each(strip);
            }
            serde_json::Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let mut value = serde_json::to_value(resolved).unwrap();
    strip(&mut value);
    value
}

#[test]
fn the_order_of_keys_does_not_matter() {
    let world = example();
    let first = world.resolved();
    // The blocks of the repo file and the lines of the server's entry, in reverse order.
    let mut blocks: Vec<String> = Vec::new();
    for line in REPO.lines() {
        match blocks.last_mut().filter(|_| line.starts_with(' ')) {
            Some(block) => *block += &format!("{line}\n"),
            None => blocks.push(format!("{line}\n")),
        }
    }
    blocks.reverse();
    world.repo(&blocks.concat());
    let swapped = without_places(&world.resolved());
    assert_eq!(without_places(&first), swapped);
    let server = SERVER.replace("@W", world.inputs.repo_dir.to_str().unwrap());
    let (head, entry) = server.split_once("  widgets:\n").unwrap();
    let mut lines: Vec<&str> = entry.lines().collect();
    lines.reverse();
    world.server(&format!("{head}  widgets:\n{}\n", lines.join("\n")));
    assert_eq!(without_places(&world.resolved()), swapped);
}

#[test]
fn both_files_say_all_their_errors_in_one_run() {
    let world = repo("version: 1\nidentity: rot\nnetwork: {allow: [\"*\"]}\nresource_limits: {timeout: 1}\n");
    world.server("version: 1\nnetwork: {pool: x}\nrepos: {a: {path: b}}\n").write("c/sandboxc/allowed-hosts", "a b\n");
    let codes = world.codes();
    let want = [Code::BadValue, Code::BroadHost, Code::BadValue, Code::BadValue, Code::BadPath, Code::BadHost];
    assert_eq!(codes, want, "{}", world.text());
}

#[test]
fn the_entry_is_named_or_found_by_path() {
    let mut world = World::new();
    let path = world.inputs.repo_dir.clone();
    std::os::unix::fs::symlink(&path, world.root().join("link")).unwrap();
    world.server(&format!(
        "version: 1\nrepos:\n  here: {{path: {0}/link, network: {{allow: [here.example.com]}}}}\n  \
         other: {{path: {0}/gone, network: {{allow: [other.example.com]}}}}\n",
        world.root().display()
    ));
    assert_eq!(world.resolved().name.as_deref(), Some("here"));
    assert_eq!(world.resolved().policy.allow.rules()[0].id.as_str(), "server.repos.here.allow[0]");
    world.inputs.name = Some("other".into());
    assert_eq!(world.resolved().policy.allow.rules()[0].pattern.to_string(), "other.example.com");
    world.inputs.name = Some("nobody".into());
    assert_eq!(world.codes(), [Code::UnknownRepo]);
    world.inputs.name = None;
    world.inputs.repo_dir = world.root().join("elsewhere");
    world.write("elsewhere/x", "");
    assert_eq!(world.resolved().name, None);
}

#[test]
fn lists_add_up_and_values_of_the_entry_win() {
    let world = repo("version: 1\nnetwork: {allow: [r.example.com]}\n");
    world.server(&format!(
        "version: 1\n\
         network: {{allow: [t.example.com], deny: [t.example.net]}}\n\
         defaults: {{network: {{sandbox_enabled: false, allow: [d.example.com], deny: [d.example.net]}}, \
         resource_limits: {{timeout: 100, memory: 1g}}}}\n\
         repos: {{here: {{path: {}, network: {{sandbox_enabled: true, allow: [e.example.com], deny: [e.example.net]}}, \
         resource_limits: {{timeout: 200}}}}}}\n",
        world.inputs.repo_dir.display()
    ));
    world.write("c/sandboxc/allowed-hosts", "# one\nf.example.com\n");
    let resolved = world.resolved();
    let ids: Vec<&str> = resolved.policy.allow.rules().iter().map(|r| r.id.as_str()).collect();
    let want =
        ["server.defaults.allow[0]", "server.repos.here.allow[0]", "allow_file[2]", "repo.allow[0]", "server.allow[0]"];
    assert_eq!(ids, want);
    assert_eq!(resolved.policy.deny.rules().len(), 3);
    assert!(resolved.sandbox_enabled.value);
    assert_eq!(resolved.limits.timeout.unwrap().value, 200);
    assert_eq!(resolved.limits.memory.unwrap().value, 1 << 30);
}

#[test]
fn a_limit_is_the_smaller_one_whoever_says_it() {
    let world = repo("version: 1\nresource_limits: {timeout: 60, memory: 1g, cpus: 0.01}\n");
    world.server("version: 1\ndefaults: {resource_limits: {timeout: 60, memory: 2g, pids_limit: 7}}\n");
    let limits = world.resolved().limits;
    assert_eq!(world.codes(), []);
    assert_eq!(limits.timeout.unwrap().from.short(), ".sandboxc/sandbox.yaml:2");
    assert_eq!(limits.memory.unwrap().value, 1 << 30);
    assert_eq!(limits.cpus.unwrap().value, 10);
    assert_eq!(limits.pids.unwrap().from.short(), "server.yaml:2");
}

#[test]
fn tags_give_numbers_and_strings_and_their_values_are_never_shown() {
    let mut world = World::new();
    world.inputs.env = BTreeMap::from([("T".into(), "90".into()), ("BAD".into(), "hunter2".into())]);
    world.write("c/sandboxc/mem", "6g\n");
    world.server(
        "version: 1\nvars: {t: !env T, n: 7, m: !file mem, again: !var m}\n\
         defaults: {resource_limits: {timeout: !var t, pids_limit: !var n, memory: !var again, cpus: !env T}}\n",
    );
    let limits = world.resolved().limits;
    assert_eq!(limits.timeout.unwrap().value, 90);
    assert_eq!(limits.pids.unwrap().value, 7);
    assert_eq!(limits.memory.unwrap().value, 6 << 30);
    assert_eq!(limits.cpus.unwrap().value, 90_000);
    world.server("version: 1\ndefaults: {resource_limits: {timeout: !env BAD, memory: !env BAD, cpus: !env BAD}}\n");
    let text = world.text();
    assert!(!text.contains("hunter2"), "{text}");
    assert_eq!(world.codes().len(), 3);
}

#[test]
fn long_chains_of_vars_are_followed_without_recursion() {
    let chain: String = (0..20_000).map(|i| format!("  v{i}: !var v{}\n", i + 1)).collect();
    let world = World::new();
    world.server(&format!(
        "version: 1\nvars:\n{chain}  v20000: 6g\ndefaults: {{resource_limits: {{memory: !var v0}}}}\n"
    ));
    assert_eq!(world.resolved().limits.memory.unwrap().value, 6 << 30);
}

#[test]
fn gaps_of_an_entry_that_is_not_in_force_are_not_said() {
    let mut world = World::new();
    world.server("version: 1\nrepos:\n  a: {repo_url: !env UNSET, path: x}\n  b: {}\n");
    assert_eq!(world.codes(), [Code::BadPath]);
    world.inputs.name = Some("a".into());
    assert_eq!(world.codes(), [Code::EnvMissing, Code::BadPath]);
}

#[test]
fn a_broken_server_file_makes_no_further_noise() {
    let world = repo("version: 1\nenv: {A: !env A}\n");
    world.server("version: [\n");
    assert_eq!(world.codes(), [Code::YamlSyntax]);
    world.server("version: 9\ndefaults: {pass_env: [A]}\n");
    assert_eq!(world.codes(), [Code::UnsupportedVersion]);
}

#[test]
fn overrides_say_where_they_come_from() {
    let mut world = repo("version: 1\nimage: debian\n");
    let list = world.root().join("hosts");
    world.write("hosts", "o.example.com\n");
    let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    world.inputs.env = BTreeMap::from([
        set("SANDBOXC_ROUTER_IMAGE", "localhost/r:1"),
        set("SANDBOXC_ALLOWLIST", list.to_str().unwrap()),
        set("SANDBOXC_IMAGE", "localhost/i:1"),
    ]);
    assert_eq!(world.codes()[0], Code::BadValue, "what is overridden is still checked");
    world.repo("version: 1\n");
    let resolved = world.resolved();
    assert_eq!(resolved.image.from.to_string(), "environment:2:16");
    assert_eq!(resolved.router_image.value, "localhost/r:1");
    assert!(resolved.home_volume.value.starts_with("sandboxc-home-"), "a workspace's own");
    assert_eq!(resolved.policy.allow.rules()[0].id.as_str(), "allow_file[1]");
    assert_eq!(world.codes(), [Code::Overridden; 3]);
}

#[test]
fn ten_thousand_entries_load_on_many_lines_and_on_one() {
    let hosts: Vec<String> = (0..10_000).map(|i| format!("h{i}.example.com")).collect();
    // As many named ports as a router can listen on.
    let ports = |i: usize| if i < 2_500 { "[22, 5432]" } else { "[80, 443]" };
    let rule = |(i, h): (usize, &String)| format!("{{host: {h}, ports: {}, private: false}}", ports(i));
    let rules: Vec<String> = hosts.iter().enumerate().map(rule).collect();
    let block: String = rules.iter().map(|r| format!("    - {r}\n")).collect();
    let world = repo(&format!("version: 1\nnetwork:\n  allow:\n{block}"));
    world.write("c/sandboxc/allowed-hosts", hosts.join("\n"));
    world.server(&format!("version: 1\nnetwork: {{allow: [{0}], ceiling: [{0}]}}\n", hosts.join(", ")));
    let policy = world.resolved().policy;
    assert_eq!(policy.allow.rules().len(), 30_000);
    assert_eq!(policy.decide("h2499.example.com", 5432).reason, sandboxc::policy::Reason::AboveCeiling);
    world.repo(&format!("version: 1\nnetwork: {{allow: [{}]}}\n", hosts.join(", ")));
    assert_eq!(world.resolved().policy.allow.rules().len(), 30_000);
}

#[test]
fn the_size_of_shared_memory_is_the_smaller_of_two_and_stands_next_to_the_limits() {
    let world = World::new();
    world.repo("version: 1\nshm_size: 1g\n");
    let shm = |world: &World| world.resolved().limits.shm.map(|shm| shm.value);
    assert_eq!(shm(&world), Some(1 << 30));
    world.server("version: 1\ndefaults: {shm_size: 256m}\n");
    assert_eq!((shm(&world), world.codes()), (Some(256 << 20), vec![Code::Clamped]));
    world.repo("version: 1\n");
    assert_eq!((shm(&world), world.codes()), (Some(256 << 20), vec![]));
    world.repo("version: 1\nshm_size: 64\n");
    assert!(world.text().contains("`shm_size`"), "{}", world.text());
    world.repo("version: 1\nresource_limits: {shm_size: 64m}\n");
    assert!(world.text().contains("next to `resource_limits`"), "{}", world.text());
    // A container with a label of its own has a `/dev/shm` of its own, whose size kube play cannot set.
    world.repo("version: 1\nshm_size: 64m\n");
    for (selinux, codes) in [("disable", vec![]), ("relabel", vec![]), ("type:a.process", vec![Code::NotEnforceable])] {
        world.server(&format!("version: 1\nselinux: {selinux}\n"));
        assert_eq!(world.codes(), codes, "{selinux}");
    }
}
