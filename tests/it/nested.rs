//! Containers inside: what the agent gets for them, in each target, and that it counts as wider.

use sandboxc::config::{Identity, Nested, OnTamper, Resolved};
use sandboxc::emit::{PodmanVersion, tree};
use sandboxc::plan::{Direction, Plan, Side, diff};
use sandboxc::source::Sourced;

use crate::fixture::{at, plan_of, resolved, units_of, with_secrets};
use crate::quadlet::unit;
use crate::quadlet_reader::values;

fn nested(identity: Identity, networks: bool) -> Resolved {
    let from = at("sandbox.yaml", 3);
    Resolved {
        identity: Sourced::built_in(identity),
        nested: Some(Sourced::new(Nested { networks, docker_socket: false }, from.clone())),
        user_namespaces: Sourced::new(true, from),
        ..resolved()
    }
}

fn agent_file(plan: &Plan, name: &str) -> String {
    let files = tree::compile(plan, PodmanVersion::FLOOR).unwrap().agent_files;
    files.into_iter().find(|file| file.name() == name).unwrap().text
}

#[test]
fn each_target_gives_the_agent_what_podman_inside_needs_and_nobody_else() {
    for (identity, caps) in [
        (Identity::HostUser, vec!["SETGID", "SETUID", "SYS_CHROOT"]),
        (Identity::Root, vec!["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID", "SETFCAP", "SYS_CHROOT"]),
    ] {
        let config = nested(identity, false);
        let pod = tree::compile(&plan_of(&config, &["true"]), PodmanVersion::FLOOR).unwrap().stream.agent.pod;
        let agent = pod.split("\n  - ").find(|part| part.contains("name: agent\n")).unwrap();
        for line in [
            "procMount: Unmasked",
            "mountPath: /etc/subuid",
            "mountPath: /etc/subgid",
            "allowPrivilegeEscalation: false",
        ] {
            assert!(agent.contains(line), "{line}: {agent}");
        }
        assert!(caps.iter().all(|cap| agent.contains(cap)), "{agent}");
        assert!(!pod.contains("/dev/net/tun"));
        let files = tree::quadlet(&units_of(&config, &["true"]), PodmanVersion::FLOOR).unwrap();
        let lines = unit(&files, "sandboxc-test.container");
        assert_eq!(values(&lines, "Container", "AddCapability"), caps);
        assert_eq!(values(&lines, "Container", "Unmask"), ["\"/proc/*\""], "control groups stay read-only");
        for role in ["-forwarder.container", "-router.container"] {
            assert!(values(&unit(&files, role), "Container", "Unmask").is_empty(), "{role}");
        }
    }
}

#[test]
fn networks_bring_a_device_and_the_gates_consent() {
    let pod_file = |config: &Resolved| agent_file(&plan_of(config, &["true"]), "pod.json");
    let consent = "\"net_namespaces\": true";
    let (without, with) = (nested(Identity::HostUser, false), nested(Identity::HostUser, true));
    assert!(!pod_file(&without).contains(consent) && pod_file(&with).contains(consent));
    assert!(
        pod_file(&Resolved { nested: None, ..without }).contains(consent),
        "the twin: browsers have sandboxes of their own"
    );
    assert!(!pod_file(&resolved()).contains(consent));
    let pod = tree::compile(&plan_of(&with, &["true"]), PodmanVersion::FLOOR).unwrap().stream.agent.pod;
    assert!(pod.contains("path: /dev/net/tun"), "{pod}");
}

#[test]
fn limits_of_a_command_with_namespaces_need_nsdelegate() {
    let needs = |config: &Resolved| agent_file(&plan_of(config, &["true"]), "pod.json").contains("needs_nsdelegate");
    let limited = |mut config: Resolved| {
        config.limits.pids = Some(Sourced::built_in(100));
        config
    };
    assert!(needs(&limited(nested(Identity::HostUser, false))));
    assert!(!needs(&nested(Identity::HostUser, false)) && !needs(&limited(resolved())));
}

#[test]
fn podmans_files_are_for_the_identity_and_trust_the_session() {
    for (identity, key, ids) in [
        (Identity::HostUser, "rootless_storage_path = \"/home/agent/.local", "1000:1:999\n1000:1001:64535\n"),
        (Identity::Root, "graphroot = \"/root/.local", "root:1:65535\n"),
    ] {
        let plan = plan_of(&nested(identity, false), &["true"]);
        assert!(agent_file(&plan, "storage.conf").contains(key));
        assert_eq!(agent_file(&plan, "subid"), ids);
        assert!(!agent_file(&plan, "containers.conf").contains("volumes ="), "there is nothing to trust");
        let secret = Resolved { policy: with_secrets().policy, ..nested(identity, false) };
        let text = agent_file(&plan_of(&secret, &["true"]), "containers.conf");
        for line in [
            "volumes = [\"/etc/sandboxc-ca:/etc/sandboxc-ca:ro\", \"/etc/sandboxc-ca/session-ca.pem:/etc/ssl/certs/a6b995ce.0:ro\"]\n",
            "\"PIP_CERT=/etc/sandboxc-ca/ca-certificates.crt\", ",
            ", {append = true}]\n",
            "\nnetns = \"host\"\n",
            "\nstatic_dir = \"/var/tmp/sandboxc-nested/libpod\"\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(!text.contains("TOKEN"), "surrogates are the agent's: {text}");
        let added = Some(Sourced::built_in(include_str!("added-ca.pem").to_owned()));
        let text = agent_file(
            &plan_of(&Resolved { extra_ca: added, ..nested(identity, false) }, &["true"]),
            "containers.conf",
        );
        let own = "[\"/etc/sandboxc-ca:/etc/sandboxc-ca:ro\", \"/etc/sandboxc-ca/added-ca.pem:/etc/ssl/certs/629756bc.0:ro\"]\n";
        assert!(text.contains(own), "its own name, and no session's CA where there is none: {text}");
    }
}

#[test]
fn turning_it_on_is_wider_and_networks_are_wider_still() {
    let directions = |old: &Resolved, new: &Resolved| -> Vec<(Direction, String)> {
        let (a, b) = (plan_of(old, &["true"]), plan_of(new, &["true"]));
        let all = diff(Side { resolved: old, plan: &a }, Side { resolved: new, plan: &b });
        all.into_iter().map(|one| (one.direction, one.what)).collect()
    };
    let (off, on, more) = (resolved(), nested(Identity::HostUser, false), nested(Identity::HostUser, true));
    let has = |all: &[(Direction, String)], direction| {
        all.iter().any(|(d, what)| *d == direction && what.starts_with("nested containers: "))
    };
    assert!(has(&directions(&off, &on), Direction::Wider));
    assert!(has(&directions(&on, &more), Direction::Wider));
    assert!(has(&directions(&on, &off), Direction::Narrower));
    assert!(directions(&on, &on).is_empty());
    let mut report = on.clone();
    report.workspace.on_tamper = OnTamper::Report;
    assert!(directions(&on, &report).iter().any(|(direction, _)| *direction == Direction::Wider));
}

#[test]
fn docker_gets_a_variable_and_a_service_before_the_command() {
    let mut config = nested(Identity::HostUser, false);
    let plan = plan_of(&config, &["docker", "ps"]);
    assert!(plan.agent.main.argv == ["docker", "ps"] && !plan.agent.main.env.contains_key("DOCKER_HOST"));
    config.nested.as_mut().unwrap().value.docker_socket = true;
    for plan in [plan_of(&config, &["docker", "ps"]), units_of(&config, &["docker", "ps"])] {
        let argv = &plan.agent.main.argv;
        assert_eq!(argv[argv.len() - 3..], ["sh", "docker", "ps"]);
        let line = &argv[argv.len() - 4];
        assert!(line.contains("podman system service --time=0 unix:///var/tmp/sandboxc-nested/docker.sock"), "{line}");
        assert!(plan.agent.main.env.contains_key("DOCKER_HOST"));
    }
}
